import argparse, random
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_digits


class Stack(nn.Module):
    def __init__(self, d_in, d_hidden, n_layers, d_out):
        super().__init__()
        self.inp = nn.Linear(d_in, d_hidden)
        self.layers = [nn.Linear(d_hidden, d_hidden) for _ in range(n_layers)]
        self.out = nn.Linear(d_hidden, d_out)

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        for layer in self.layers:
            h = torch.tanh(layer(h))
        return self.out(h)


class Experiment:
    def __init__(self, seed):
        random.seed(seed); np.random.seed(seed); torch.manual_seed(seed)
        torch.set_num_threads(1)
        raw = load_digits()
        scaled = (raw.data - raw.data.mean()) / raw.data.std()
        order = np.random.permutation(len(scaled))
        self.x = torch.tensor(scaled[order], dtype=torch.float32)
        self.y = torch.tensor(raw.target[order])
        self.n = 1350
        self.model = Stack(64, 32, 5, 10)
        self.optim = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)

    def epoch(self, bs=30):
        perm = torch.randperm(self.n)
        tot = 0.
        for chunk in perm.chunk(self.n // bs):
            self.optim.zero_grad()
            loss = nn.functional.cross_entropy(self.model(self.x[chunk]), self.y[chunk])
            loss.backward()
            self.optim.step()
            tot += loss.item() * len(chunk)
        return tot / self.n

    def test(self):
        with torch.no_grad():
            return (self.model(self.x[self.n:]).argmax(1) == self.y[self.n:]).float().mean().item()


if __name__ == '__main__':
    ap = argparse.ArgumentParser(); ap.add_argument('--seed', type=int, default=0)
    ex = Experiment(ap.parse_args().seed)
    for e in range(15):
        print('epoch', e, 'loss', round(ex.epoch(), 4), 'acc', round(ex.test(), 4))
