"""Learn to tell even digits from odd ones, then keep the layers for telling all ten apart."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16 - 0.3
labels = torch.tensor(digits.target)
order = torch.randperm(len(images))
train, test = order[:1400], order[1400:]


def fit(model, targets, optimizer, steps):
    for step in range(steps):
        rows = train[torch.randint(len(train), (32,))]
        loss = nn.functional.cross_entropy(model(images[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            print(f"  {step + 1}: {loss.item():.3f}")


def accuracy(model, targets):
    with torch.no_grad():
        return (model(images[test]).argmax(1) == targets[test]).float().mean().item()


model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(128, 48), nn.ReLU(),
    nn.Linear(48, 2),
)
print("even or odd")
fit(model, labels % 2, torch.optim.Adam(model.parameters(), lr=1e-3), 300)
print(f"accuracy {accuracy(model, labels % 2):.3f}")

# Which of the ten: the convolutions stay as they are, a new end is learnt.
model[7] = nn.Linear(128, 48)
model[9] = nn.Linear(48, 10)
for parameter in list(model.parameters())[2:]:
    parameter.requires_grad = False
print("which of the ten")
fit(model, labels, torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3), 600)
print(f"accuracy {accuracy(model, labels):.3f}")
