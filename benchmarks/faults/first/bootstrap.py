"""Learn without labels from a slowly moving copy of oneself (after BYOL), then ask the nearest neighbours."""

import argparse
import copy

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)

digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 8 - 1
train, test = x[:1400], x[1400:]
online = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 32))
predictor = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
target = copy.deepcopy(online)
for parameter in target.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.Adam([*online.parameters(), *predictor.parameters()], lr=2e-3)


def view_of(batch):
    return (batch + 0.2 * torch.randn_like(batch)) * (torch.rand_like(batch) > 0.2)


def disagreement(a, b):
    return 2 - 2 * F.cosine_similarity(a, b.detach(), dim=1).mean()


for step in range(600):
    batch = train[torch.randint(1400, (96,))]
    one, two = view_of(batch), view_of(batch)
    with torch.no_grad():
        aim_one, aim_two = target(one), target(two)
    loss = disagreement(predictor(online(one)), aim_two) + disagreement(predictor(online(two)), aim_one)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow.lerp_(fast, 0.02)
    if step % 100 == 99:
        print(f"{step + 1}: {loss.item():.4f}")
online.eval()
with torch.no_grad():
    known, new = online(train).numpy(), online(test).numpy()
score = KNeighborsClassifier(5).fit(known, digits.target[:1400]).score(new, digits.target[1400:])
print(f"nearest neighbours are right in {score:.3f}")
