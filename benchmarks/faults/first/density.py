"""Which digit comes how likely: a classifier trained by its likelihood, written out."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(64, 128)
        self.norm = nn.LayerNorm(128)
        self.out = nn.Linear(128, 10)

    def log_likelihood(self, x, y):
        scores = self.out(torch.relu(self.norm(self.lift(x))))
        return scores.log_softmax(1).gather(1, y[:, None]).mean()

    def predict(self, x):
        return self.out(torch.relu(self.norm(self.lift(x)))).argmax(1)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
torch.manual_seed(parser.parse_args().seed)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
perm = torch.randperm(len(x))
loader = DataLoader(TensorDataset(x[perm[:1400]], y[perm[:1400]]), batch_size=35, shuffle=True)
test = perm[1400:]
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(15):
    for xb, yb in loader:
        optimizer.zero_grad()
        objective = model.log_likelihood(xb, yb)
        objective.backward()
        optimizer.step()
    accuracy = (model.predict(x[test]) == y[test]).float().mean().item()
    print(f"epoch {epoch}: objective {objective.item():.3f}, accuracy {accuracy:.3f}")
