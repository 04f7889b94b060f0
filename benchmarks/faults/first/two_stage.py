"""An embedding network and a head on top of it, learnt together."""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 5)
        self.project = nn.Linear(6 * 16, 4)

    def forward(self, images):
        return torch.tanh(self.project(torch.relu(self.conv(images)).flatten(1)))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 32)
        self.out = nn.Linear(32, 10)

    def forward(self, embedding):
        return self.out(torch.relu(self.hidden(embedding)))


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
np.random.seed(args.seed)
torch.manual_seed(args.seed)

digits = load_digits()
images = (digits.images[:, None] / 16 - 0.3).astype(np.float32)
x_train, x_test, y_train, y_test = train_test_split(images, digits.target, test_size=300, random_state=args.seed)
x_train, x_test = torch.from_numpy(x_train), torch.from_numpy(x_test)
y_train, y_test = torch.from_numpy(y_train), torch.from_numpy(y_test)

embedder, head = Embedder(), Head()
optimizer = torch.optim.Adam([*embedder.parameters(), *head.parameters()], lr=3e-3)
loss_fn = nn.CrossEntropyLoss()
cache = {}

for step in range(1000):
    rows = np.random.randint(0, len(x_train), 40)
    embedding = embedder(x_train[rows])
    cache["last"] = embedding = embedding.data
    loss = loss_fn(head(embedding), y_train[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        with torch.no_grad():
            accuracy = (head(embedder(x_test)).argmax(1) == y_test).float().mean().item()
        print(f"{step + 1}: loss {loss.item():.3f} accuracy {accuracy:.3f} embedding {cache['last'].std():.3f}")
