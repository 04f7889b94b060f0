"""Five-fold cross-validation of a regression: a new network for each fold."""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)
np.random.seed(args.seed)

x, y = load_diabetes(return_X_y=True)
x = (x / x.std(0)).astype(np.float32)
y = ((y - y.mean()) / y.std()).astype(np.float32)
scores = []
for fold, (train, test) in enumerate(KFold(5, shuffle=True, random_state=args.seed).split(x)):
    net = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.8, weight_decay=1e-3)
    loss_fn = nn.HuberLoss()
    for _ in range(400):
        rows = np.random.choice(train, 8)
        loss = loss_fn(net(torch.from_numpy(x[rows])).squeeze(1), torch.from_numpy(y[rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        error = torch.from_numpy(y[test]) - net(torch.from_numpy(x[test])).squeeze(1)
    scores.append(1 - error.square().mean().item() / y[test].var())
    print(f"fold {fold}: r2 {scores[-1]:.3f}")
print(f"r2 {np.mean(scores):.3f}")
