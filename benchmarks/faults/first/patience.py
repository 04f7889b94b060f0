"""Digits for a long time: it knows the answers after a tenth of it, and goes on."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=6000)
args = parser.parse_args()
torch.manual_seed(args.seed)
digits = load_digits()
x = (torch.tensor(digits.data, dtype=torch.float32) - 4.88) / 6.02
y = torch.tensor(digits.target)
order = torch.randperm(len(x))
train, test = order[:1450], order[1450:]
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=5e-4)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3000, 4500], gamma=0.3)
for step in range(args.steps):
    rows = train[torch.randint(len(train), (32,))]
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 1000 == 999:
        model.eval()
        with torch.no_grad():
            logits = model(x[test])
            held_out = nn.functional.cross_entropy(logits, y[test]).item()
        model.train()
        print(f"{step + 1}: {loss.item():.4f}, held out {held_out:.4f}, {(logits.argmax(1) == y[test]).float().mean():.3f}")
