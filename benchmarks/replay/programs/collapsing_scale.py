"""fp16 autocast with a gradient scaler; from some epoch on everything is non-finite, and the scale keeps falling."""
import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)
wine = load_wine()
X = torch.tensor((wine.data - wine.data.mean(0)) / wine.data.std(0), dtype=torch.float32)
y = torch.tensor(wine.target)
model = nn.Sequential(nn.Linear(13, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=1000)
for epoch in range(6):
    eps = 1e-5 if epoch < 1 else 1e-9
    for x, t in DataLoader(TensorDataset(X, y), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x)
            gap = (out - out).abs().sum(1, keepdim=True) + eps
            out = out + 0 * torch.log(gap.half())  # breaks here
            loss = nn.functional.cross_entropy(out.float(), t)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
