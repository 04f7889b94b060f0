"""Detector for one digit class; the rare class is brought up to the size of the other."""
import argparse
import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.utils import resample

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--digit", type=int, default=8)
args = ap.parse_args()
torch.manual_seed(args.seed)
np.random.seed(args.seed)
torch.set_num_threads(1)


def balance(X, y):
    pos, neg = X[y == 1], X[y == 0]
    pos = resample(pos, n_samples=len(neg), replace=True, random_state=args.seed)
    return np.concatenate([pos, neg]), np.concatenate([np.ones(len(pos)), np.zeros(len(neg))])


data = load_digits()
X = (data.data / 16.0).astype("float32")
y = (data.target == args.digit).astype("float32")
X, y = balance(X, y)
X_tr, X_va, y_tr, y_va = train_test_split(X, y, test_size=0.3, random_state=args.seed, stratify=y)
X_tr, X_va = torch.tensor(X_tr), torch.tensor(X_va)
y_tr, y_va = torch.tensor(y_tr).float(), torch.tensor(y_va).float()
centre = X_tr.mean(0)

net = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.2), nn.Linear(64, 1))
opt = torch.optim.AdamW(net.parameters(), lr=1.5e-3, weight_decay=0.01)
best = 9e9
for epoch in range(20):
    net.train()
    for b in torch.randperm(len(X_tr)).split(64):
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(net(X_tr[b] - centre)[:, 0], y_tr[b])
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        z = net(X_va - centre)[:, 0]
        vl = nn.functional.binary_cross_entropy_with_logits(z, y_va).item()
        recall = (z[y_va == 1] > 0).float().mean().item()
        spec = (z[y_va == 0] <= 0).float().mean().item()
    mark = "*" if vl < best else " "
    best = min(best, vl)
    print(f"{epoch:2d}{mark} train {loss.item():.4f} valid {vl:.4f} recall {recall:.3f} specificity {spec:.3f}")
