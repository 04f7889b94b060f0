"""Triplet margin loss on digits, judged by nearest neighbours."""
import argparse
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import Dataset, DataLoader
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier


class Triplets(Dataset):
    def __init__(self, x, y, seed):
        self.x, self.y = x, y
        self.rng = np.random.default_rng(seed)
        self.by = [np.flatnonzero(y == c) for c in range(10)]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        c = self.y[i]
        p = self.rng.choice(self.by[c])
        while p == i:
            p = self.rng.choice(self.by[c])
        other = (c + self.rng.integers(1, 10)) % 10
        n = self.rng.choice(self.by[other])
        return self.x[i], self.x[p], self.x[n]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--epochs", type=int, default=12)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    d = load_digits()
    perm = np.random.default_rng(a.seed).permutation(len(d.target))
    x = torch.tensor((d.data / 16 - 0.3) * 2, dtype=torch.float32)[perm]
    y = d.target[perm]
    xt, yt, xv, yv = x[:1400], y[:1400], x[1400:], y[1400:]
    net = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.1), nn.Linear(64, 12))
    opt = torch.optim.Adam(net.parameters(), lr=5e-4)
    crit = nn.TripletMarginLoss(margin=1.0)
    dl = DataLoader(Triplets(xt, yt, a.seed), batch_size=50, shuffle=True)
    held = DataLoader(Triplets(xv, yv, a.seed + 1), batch_size=397)
    for e in range(a.epochs):
        s = 0
        net.train()
        for q, p, n in dl:
            loss = crit(net(q), net(p), net(n))
            opt.zero_grad()
            loss.backward()
            opt.step()
            s += loss.item()
        net.eval()
        with torch.no_grad():
            v = np.mean([crit(net(q), net(p), net(n)).item() for q, p, n in held])
            knn = KNeighborsClassifier(5).fit(net(xt).numpy(), yt).score(net(xv).numpy(), yv)
        print(f"epoch {e + 1} triplet {s / len(dl):.4f} held-out {v:.4f} knn {knn:.4f}")


main()
