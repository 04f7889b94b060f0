"""Predict the progression of diabetes after a year from ten measurements."""

import argparse

import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--seed", type=int, default=0)
opt = p.parse_args()
torch.manual_seed(opt.seed)

X, y = load_diabetes(return_X_y=True, scaled=False)
X = torch.tensor(X, dtype=torch.float32)
X = (X - X.mean(0)) / X.std(0)
y = torch.tensor(y, dtype=torch.float32)
y = (y - y.mean()) / y.std()
perm = torch.randperm(len(X))
train_idx, val_idx = perm[:350], perm[350:]
train_loader = DataLoader(TensorDataset(X[train_idx], y[train_idx]), batch_size=25, shuffle=True)

model = nn.Sequential(nn.Linear(10, 32), nn.ELU(), nn.Linear(32, 1))
mse = nn.MSELoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)

for epoch in range(60):
    for xb, yb in train_loader:
        pred = model(xb)
        loss = mse(pred, yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 10 == 9:
        with torch.no_grad():
            residual = y[val_idx] - model(X[val_idx]).squeeze(1)
        r2 = 1 - residual.pow(2).mean() / y[val_idx].var(unbiased=False)
        print(f"epoch {epoch + 1}  train {loss.item():.3f}  r2 {r2.item():.3f}")
