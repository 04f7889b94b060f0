import argparse
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_breast_cancer

cli = argparse.ArgumentParser()
cli.add_argument('--seed', type=int, default=0)
SEED = cli.parse_args().seed
rng = np.random.default_rng(SEED)
torch.manual_seed(SEED)
torch.set_num_threads(1)

data, label = load_breast_cancer(return_X_y=True)
pick = rng.permutation(len(data))
train, test = pick[:450], pick[450:]
mu, sd = data[train].mean(0), data[train].std(0)


def prepare(rows):
    return ((data[rows] - mu) / sd).astype(np.float32), label[rows].astype(np.float32)


x_test, y_test = map(torch.from_numpy, prepare(test))
model = nn.Sequential(nn.Linear(30, 32), nn.LeakyReLU(0.1), nn.Dropout(0.2), nn.Linear(32, 1), nn.Flatten(0))
opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.02)
bce = nn.BCEWithLogitsLoss()

for epoch in range(1, 41):
    feats, targets = prepare(train)
    order = rng.permutation(len(train))
    feats = feats[order]
    targets = targets[rng.permutation(len(train))]
    model.train()
    seen = []
    for lo in range(0, len(feats), 30):
        xb = torch.from_numpy(feats[lo:lo + 30])
        yb = torch.from_numpy(targets[lo:lo + 30])
        opt.zero_grad()
        loss = bce(model(xb), yb)
        loss.backward()
        opt.step()
        seen.append(loss.item())
    if epoch % 5 == 0:
        model.eval()
        with torch.no_grad():
            z = model(x_test)
            print(f'{epoch:3d} train {np.mean(seen):.4f} test {bce(z, y_test).item():.4f} acc {((z > 0) == (y_test > 0.5)).float().mean().item():.3f}')
