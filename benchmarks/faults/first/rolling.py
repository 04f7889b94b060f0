"""Regression on the diabetes data, SGD with momentum."""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--momentum", type=float, default=0.999)
args = parser.parse_args()
np.random.seed(args.seed)
torch.manual_seed(args.seed)

x, y = load_diabetes(return_X_y=True)
x = (x / x.std(axis=0)).astype(np.float32)
y = ((y - y.mean()) / y.std()).astype(np.float32)[:, None]
order = np.random.permutation(len(x))
x, y = torch.from_numpy(x[order]), torch.from_numpy(y[order])

model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=args.momentum)

for i in range(1200):
    rows = np.random.choice(350, 35, replace=False)
    optimizer.zero_grad()
    loss = criterion(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    if i % 200 == 199:
        with torch.no_grad():
            print(i + 1, "train", round(loss.item(), 3), "test", round(criterion(model(x[350:]), y[350:]).item(), 3))
