"""Logistic-style network with weights and steps by hand, two pictures at a time."""
import argparse
import numpy as np
import torch
from sklearn.datasets import load_digits

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
seed = ap.parse_args().seed
torch.set_num_threads(1)
g = torch.Generator().manual_seed(seed)

d = load_digits()
order = torch.randperm(len(d.target), generator=g)
X = torch.tensor(d.data, dtype=torch.float32)[order]
Y = torch.tensor(d.target)[order]
m, s = X[:1400].mean(0), X[:1400].std(0).clamp_min(1.0)
X = (X - m) / s

sizes = (64, 40, 10)
W = [torch.randn(a, b, generator=g) * (2.0 / (a + b)) ** 0.5 for a, b in zip(sizes, sizes[1:])]
B = [torch.zeros(b) for b in sizes[1:]]
theta = [p.requires_grad_() for p in W + B]
speed = [torch.zeros_like(p) for p in theta]


def logits(x):
    return torch.tanh(x @ theta[0] + theta[2]) @ theta[1] + theta[3]


losses = []
total, lr0, mu = 5000, 0.006, 0.8
for it in range(total):
    i = torch.randint(0, 1400, (2,), generator=g)
    loss = torch.nn.functional.cross_entropy(logits(X[i]), Y[i])
    grads = torch.autograd.grad(loss, theta)
    lr = lr0 * (1 - it / total)
    with torch.no_grad():
        for p, v, dp in zip(theta, speed, grads):
            v.mul_(mu).add_(dp + 1e-4 * p)
            p.sub_(lr * v)
    losses.append(loss.item())
    if (it + 1) % 500 == 0:
        with torch.no_grad():
            z = logits(X[1400:])
            print(it + 1, "mean loss %.4f" % np.mean(losses[-500:]),
                  "held-out %.4f" % torch.nn.functional.cross_entropy(z, Y[1400:]).item(),
                  "acc %.4f" % (z.argmax(1) == Y[1400:]).float().mean().item())
