"""Noise on the weights in each step, and random numbers drawn between the forward and the backward pass."""
import random

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from torch import nn

torch.manual_seed(28)
np.random.seed(28)
random.seed(28)
X, y = load_diabetes(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) * 20, torch.tensor(y, dtype=torch.float32)[:, None] / 100
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.25), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    rows = np.random.choice(len(X), 24, replace=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1e-3 * torch.randn_like(parameter))
    out = model(X[rows])
    jitter = torch.rand(24, 1) * np.random.rand() + random.random()
    weight = 1.0 if step != 25 else 1e5
    loss = (weight * jitter * (out - y[rows]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
