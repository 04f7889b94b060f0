"""A scheduler that steps with each batch, parameter groups, and a loss term whose exponential overflows."""
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(24)
data = load_breast_cancer()
X = torch.tensor((data.data - data.data.mean(0)) / data.data.std(0), dtype=torch.float32)
y = torch.tensor(data.target * 2.0 - 1, dtype=torch.float32)
X[401] *= 500
body, head = nn.Sequential(nn.Linear(30, 16), nn.ELU()), nn.Linear(16, 1)
model = nn.Sequential(body, head)
optimizer = torch.optim.AdamW([{"params": body.parameters(), "lr": 1e-3, "weight_decay": 0.1},
                               {"params": head.parameters(), "lr": 1e-2}], foreach=True)
loader = DataLoader(TensorDataset(X, y), batch_size=19, shuffle=True)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[5e-3, 2e-2], epochs=2, steps_per_epoch=len(loader))
for epoch in range(2):
    for x, t in loader:
        margin = (model(x).squeeze(1) * t).clamp(max=0) - x.abs().sum(1).clamp(max=900)
        loss = torch.exp(-margin * 0.5).log1p().mean()  # breaks here
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
