"""A manual grid search: many fits of a tiny multilayer perceptron in one process, as is common with scikit-learn.

    python grid_search.py FITS
"""

import itertools
import sys

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold
from torch import nn

from benchmarks.coverage.meter import Meter

FITS, EPOCHS, BATCH = int(sys.argv[1]), 10, 128

meter = Meter()
torch.manual_seed(0)
torch.set_num_threads(1)
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x[:1000] / 16.0, dtype=torch.float32), torch.tensor(y[:1000])
folds = [torch.tensor(train) for train, _ in KFold(5, shuffle=True, random_state=0).split(x)]
held_out = [torch.tensor(test) for _, test in KFold(5, shuffle=True, random_state=0).split(x)]


def fit(rate, width, fold):
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(EPOCHS):
        for places in folds[fold].split(BATCH):
            loss = nn.functional.cross_entropy(model(x[places]), y[places])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.step(loss.detach(), rate)
    with torch.no_grad():
        test = held_out[fold]
        return (model(x[test]).argmax(1) == y[test]).float().mean().item()


rates, widths = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0), (8, 12, 16, 24, 32)
grid = list(itertools.product(rates, widths, range(5)))
best = 0.0
for setting in grid[:FITS]:
    best = max(best, fit(*setting))
    meter.next_fit()
print(f"best {best:.3f}")
meter.done()
