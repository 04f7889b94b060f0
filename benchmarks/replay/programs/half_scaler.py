"""fp16 autocast with a gradient scaler, and clipping after unscaling; a step's gradients are far too large."""
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
data = load_breast_cancer()
X = torch.tensor((data.data - data.data.mean(0)) / data.data.std(0), dtype=torch.float32)
y = torch.tensor(data.target, dtype=torch.float32)
w = torch.ones(len(y))
w[300] = 40.0
y[300] = 1 - y[300]
model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
for epoch in range(2):
    for x, t, weight in DataLoader(TensorDataset(X, y, w), batch_size=24):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(out.float(), t, weight)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
