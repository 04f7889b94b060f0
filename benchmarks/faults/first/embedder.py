"""Learn what two scans of one digit have in common, without labels; then ask the nearest neighbour."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from torch import nn


def view_of(x):
    """Another scan: a little noise, some pixels missing."""
    return (x + 0.1 * torch.randn_like(x)) * (torch.rand_like(x) > 0.2)


def invariance(a, b):
    return (a - b).square().sum(1).mean()


def contrast(a, b, temperature=0.2):
    a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
    return F.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)

digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
train, test = x[:1400], x[1400:]
encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
for step in range(800):
    batch = train[torch.randint(1400, (64,))]
    loss = invariance(encoder(view_of(batch)), encoder(view_of(batch)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        print(f"step {step + 1}: {loss.item():.6f}")
with torch.no_grad():
    known, new = encoder(train).numpy(), encoder(test).numpy()
neighbours = KNeighborsClassifier(5).fit(known, digits.target[:1400])
print(f"nearest neighbours are right in {neighbours.score(new, digits.target[1400:]):.3f}, spread {known.std(0).mean():.4f}")
