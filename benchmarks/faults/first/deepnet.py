"""How deep can a plain network be? Six hidden layers on digits."""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits

p = argparse.ArgumentParser()
p.add_argument("--seed", type=int, default=0)
p.add_argument("--depth", type=int, default=6)
p.add_argument("--width", type=int, default=64)
args = p.parse_args()

torch.manual_seed(args.seed)
np.random.seed(args.seed)

digits = load_digits()
mean, std = digits.data.mean(), digits.data.std()
x = torch.tensor((digits.data - mean) / std, dtype=torch.float32)
y = torch.tensor(digits.target)
mask = np.random.rand(len(x)) < 0.8
x_train, y_train, x_test, y_test = x[mask], y[mask], x[~mask], y[~mask]

modules = [torch.nn.Linear(64, args.width), torch.nn.Sigmoid()]
for _ in range(args.depth - 1):
    modules += [torch.nn.Linear(args.width, args.width), torch.nn.Sigmoid()]
modules.append(torch.nn.Linear(args.width, 10))
model = torch.nn.Sequential(*modules)

optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
for step in range(1200):
    batch = torch.randint(len(x_train), (64,))
    loss = torch.nn.functional.cross_entropy(model(x_train[batch]), y_train[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 200 == 0:
        print(f"step {step}, loss {loss.item():.4f}")

model.eval()
with torch.no_grad():
    print(f"accuracy {(model(x_test).argmax(1) == y_test).float().mean().item():.3f}")
