import math
import argparse
import torch
from torch import nn
from sklearn.datasets import load_digits

p = argparse.ArgumentParser()
p.add_argument("--seed", type=int, default=0)
a = p.parse_args()
torch.manual_seed(a.seed)
torch.set_num_threads(1)


class Dense(nn.Module):
    """Linear layer with its own initialisation."""

    def __init__(self, n_in, n_out):
        super().__init__()
        bound = math.sqrt(6.0 / n_in)
        self.weight = nn.Parameter(torch.empty(n_out, n_in).uniform_(-bound, 0))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return x @ self.weight.t() + self.bias


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = Dense(64, 160)
        self.mid = Dense(160, 80)
        self.top = nn.Linear(80, 10)

    def forward(self, x):
        x = self.hidden(x).relu()
        x = self.mid(x).relu()
        return self.top(x)


d = load_digits()
x = torch.tensor(d.data / 16.0).float()
t = torch.tensor(d.target)
shuffle = torch.randperm(len(x))
x, t = x[shuffle], t[shuffle]
xtr, ttr, xte, tte = x[:1300], t[:1300], x[1300:], t[1300:]

net = Classifier()
opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, alpha=0.95)
losses = []
for epoch in range(14):
    for idx in torch.randperm(1300).split(26):
        opt.zero_grad()
        l = nn.functional.cross_entropy(net(xtr[idx]), ttr[idx])
        l.backward()
        opt.step()
        losses.append(l.item())
    with torch.no_grad():
        good = (net(xte).argmax(1) == tte).float().mean().item()
    print(epoch, round(sum(losses[-50:]) / 50, 4), round(good, 4))
