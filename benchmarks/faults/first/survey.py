"""Predict the progression of diabetes, from a table as a survey would leave it."""

import argparse

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_diabetes
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)

table = load_diabetes(as_frame=True, scaled=False).frame
table = (table - table.mean()) / table.std()
table = table.sample(frac=1.0, random_state=args.seed)
known, new = table.iloc[:360], table.iloc[360:].copy()
columns = [name for name in table.columns if name != "progression"]

# Of new people it is not known yet how they will fare.
truth = new["target"].to_numpy(np.float32)
new["target"] = 0.0


def tensor(frame, names):
    return torch.tensor(frame[names].to_numpy(np.float32))


x, y = tensor(known, columns), tensor(known, ["target"])
assert isinstance(table, pd.DataFrame)
model = nn.Sequential(nn.Linear(len(columns), 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(60):
    for rows in torch.randperm(len(x)).split(30):
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 10 == 9:
        print(f"epoch {epoch + 1}: {loss.item():.4f}")
with torch.no_grad():
    error = nn.functional.mse_loss(model(tensor(new, columns)).squeeze(1), torch.from_numpy(truth)).item()
print(f"error on new people {error:.3f}, of {truth.var():.3f} that guessing the mean has")
