"""A recurrent cell of one's own, reading digits row by row."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn


class Cell(nn.Module):
    def __init__(self, inputs, size):
        super().__init__()
        self.size = size
        self.take = nn.Linear(inputs, size)
        self.keep = nn.Linear(size, size, bias=False)

    def forward(self, rows):
        state = torch.zeros(len(rows), self.size)
        for row in rows.unbind(1):
            new = torch.tanh(self.take(row) + self.keep(state))
            state = new
            new += 0.1
        return state


torch_seed = argparse.ArgumentParser()
torch_seed.add_argument("--seed", type=int, default=0)
torch.manual_seed(torch_seed.parse_args().seed)

digits = load_digits()
x, y = torch.tensor(digits.images, dtype=torch.float32) / 16, torch.tensor(digits.target)
order = torch.randperm(len(x))
model = nn.Sequential(Cell(8, 40), nn.Linear(40, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(600):
    rows = order[torch.randint(1400, (32,))]
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        with torch.no_grad():
            accuracy = (model(x[order[1400:]]).argmax(1) == y[order[1400:]]).float().mean().item()
        print(f"{step + 1}: loss {loss.item():.3f} accuracy {accuracy:.3f}")
