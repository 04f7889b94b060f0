"""A large network teaches a small one: distillation with softened answers."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
seed = parser.parse_args().seed
torch.manual_seed(seed)

digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16 - 0.3
y = torch.tensor(digits.target)
order = torch.randperm(len(x))
train, test = order[:1300], order[1300:]


def accuracy(net):
    net.eval()
    with torch.no_grad():
        right = (net(x[test]).argmax(1) == y[test]).float().mean().item()
    net.train()
    return right


teacher = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Dropout(0.3), nn.Linear(200, 10))
optimizer = torch.optim.Adam(teacher.parameters(), lr=2e-3)
for _ in range(400):
    rows = train[torch.randint(len(train), (64,))]
    loss = F.cross_entropy(teacher(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"teacher {accuracy(teacher):.3f}")

teacher.eval()
pupil = nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))
optimizer = torch.optim.Adam(pupil.parameters(), lr=3e-3)
temperature, share = 3.0, 0.7
for step in range(1000):
    rows = train[torch.randint(len(train), (64,))]
    with torch.no_grad():
        taught = F.softmax(teacher(x[rows]) / temperature, dim=1)
    logits = pupil(x[rows])
    soft = F.kl_div(F.log_softmax(logits / temperature, dim=1), taught, reduction="batchmean") * temperature ** 2
    loss = share * soft + (1 - share) * F.cross_entropy(logits, y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"pupil {accuracy(pupil):.3f}")
