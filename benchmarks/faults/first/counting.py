# digits from 8x8 images, small CNN
import argparse

import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=700)
a = ap.parse_args()
np.random.seed(a.seed)
torch.manual_seed(a.seed)

d = load_digits()
X = torch.from_numpy(d.images[:, None]).float() / 16
Y = torch.from_numpy(d.target)
idx = np.random.permutation(len(X))
tr, te = idx[:1400], idx[1400:]

OUTPUTS = 1
net = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.ReLU(),
    nn.Conv2d(8, 16, 3), nn.ReLU(),
    nn.Flatten(), nn.Linear(16 * 4 * 4, OUTPUTS),
)


def loss_of(out, y):
    return nn.functional.mse_loss(out.squeeze(1), y.float())


def answer(out):
    return out.squeeze(1).round().clamp(0, 9).long()


opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(a.steps):
    b = np.random.choice(tr, 32)
    loss = loss_of(net(X[b]), Y[b])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if (step + 1) % 100 == 0:
        with torch.no_grad():
            acc = (answer(net(X[te])) == Y[te]).float().mean()
        print(f"{step + 1:4d}  loss {loss.item():.3f}  test acc {acc:.3f}")
