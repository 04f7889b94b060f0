"""Gradient accumulation over four micro-batches; inputs are normalized to unit length, and one has length zero."""
import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
wine = load_wine()
X = torch.tensor((wine.data - wine.data.mean(0)) / wine.data.std(0), dtype=torch.float32)
y = torch.tensor(wine.target)
X[53] = 0.0
model = nn.Sequential(nn.Linear(13, 20), nn.GELU(), nn.Linear(20, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(X, y), batch_size=6, shuffle=True)
EVERY = 4
for epoch in range(4):
    for number, (xb, yb) in enumerate(loader):
        xb = xb / xb.pow(2).sum(1, keepdim=True).sqrt()  # breaks here
        loss = nn.functional.cross_entropy(model(xb), yb) / EVERY
        loss.backward()
        if (number + 1) % EVERY == 0:
            optimizer.step()
            optimizer.zero_grad()
