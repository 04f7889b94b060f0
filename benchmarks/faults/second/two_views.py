"""Learns an embedding of digits from pairs of jittered views (no labels), then looks at nearest neighbours."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--tau", type=float, default=0.01)
cfg = parser.parse_args()
torch.manual_seed(cfg.seed)
torch.set_num_threads(1)

d = load_digits()
images = torch.tensor(d.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(d.target)
perm = torch.randperm(len(images))
images, labels = images[perm], labels[perm]
train, test = images[:1400], images[1400:]


def view(x):
    n = len(x)
    dx, dy = torch.randint(-1, 2, (2,)).tolist()
    x = torch.roll(x, (dx, dy), (2, 3))
    return (x * (0.8 + 0.4 * torch.rand(n, 1, 1, 1)) + 0.1 * torch.randn_like(x)) * 2 - 0.6


encoder = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(),
    nn.Linear(512, 32),
)


def contrast(a, b, tau):
    a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
    sim = a @ b.t() / tau
    weight = torch.exp(sim)
    prob = weight.diag() / weight.sum(1)
    return -prob.log().mean()


def neighbours():
    with torch.no_grad():
        ea = F.normalize(encoder(train * 2 - 0.6), dim=1)
        eb = F.normalize(encoder(test * 2 - 0.6), dim=1)
        return (labels[:1400][(eb @ ea.t()).argmax(1)] == labels[1400:]).float().mean().item()


optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
step = 0
for epoch in range(20):
    for idx in torch.randperm(1400).split(100):
        x = train[idx]
        loss = contrast(encoder(view(x)), encoder(view(x)), cfg.tau)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
    print(f"epoch {epoch} step {step} loss {loss.item():.4f} neighbour accuracy {neighbours():.3f}")
