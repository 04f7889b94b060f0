"""Small conv net for 8x8 digits."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--epochs", type=int, default=12)
args = parser.parse_args()
random.seed(args.seed)
np.random.seed(args.seed)
torch.manual_seed(args.seed)
torch.set_num_threads(1)

digits = load_digits()
imgs = ((digits.images - 4.9) / 6.0).astype("float32")[:, None]
Xtr, Xte, ytr, yte = train_test_split(imgs, digits.target, test_size=0.25, random_state=args.seed, stratify=digits.target)
train_dl = DataLoader(TensorDataset(torch.tensor(Xtr), torch.tensor(ytr)), batch_size=32, shuffle=True, drop_last=True)
test_dl = DataLoader(TensorDataset(torch.tensor(Xte), torch.tensor(yte)), batch_size=256)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 2 * 2, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(x)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.8, momentum=0.9, nesterov=True)

for epoch in range(args.epochs):
    model.train()
    total = 0.0
    for xb, yb in train_dl:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)
    model.eval()
    hits = 0
    with torch.no_grad():
        for xb, yb in test_dl:
            hits += (model(xb).argmax(1) == yb).sum().item()
    print(f"epoch {epoch + 1:2d}  loss {total / (32 * len(train_dl)):.4f}  test acc {hits / len(Xte):.4f}")
