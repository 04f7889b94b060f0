"""Predict diabetes progression with a small network, Trainer class."""
import argparse
import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler
from sklearn.model_selection import train_test_split


class Trainer:
    def __init__(self, model, optimizer, loss_fn, clip=None):
        self.model, self.optimizer, self.loss_fn = model, optimizer, loss_fn
        self.history = []

    def train_step(self, x, y):
        self.model.train()
        out = self.model(x)
        loss = self.loss_fn(out, y)
        loss.backward()
        self.optimizer.step()
        return float(loss)

    @torch.no_grad()
    def score(self, x, y):
        self.model.eval()
        out = self.model(x)
        return float(1 - ((out - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())

    def fit(self, x, y, xv, yv, epochs, batch_size):
        for e in range(epochs):
            perm = torch.randperm(len(x))
            losses = [self.train_step(x[i], y[i]) for i in perm.split(batch_size)]
            self.history.append((np.mean(losses), self.score(xv, yv)))
            if e % 5 == 4:
                print("epoch {:3d}: loss {:.4f}  val R2 {:.4f}".format(e + 1, *self.history[-1]))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", default=0, type=int)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    np.random.seed(a.seed)
    torch.set_num_threads(2)
    X, y = load_diabetes(return_X_y=True)
    Xa, Xb, ya, yb = train_test_split(X, y[:, None], test_size=100, random_state=a.seed)
    sx, sy = StandardScaler().fit(Xa), StandardScaler().fit(ya)
    t = lambda v: torch.tensor(v, dtype=torch.float32)
    xa, xb, ya, yb = t(sx.transform(Xa)), t(sx.transform(Xb)), t(sy.transform(ya)), t(sy.transform(yb))
    model = torch.nn.Sequential(torch.nn.Linear(10, 24), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(24, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.01, weight_decay=1e-3)
    Trainer(model, opt, torch.nn.functional.mse_loss).fit(xa, ya, xb, yb, epochs=50, batch_size=24)


main()
