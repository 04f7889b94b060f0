"""Mixed precision on the processor: next state of a damped spring, displacement in metres."""
import argparse
import numpy as np
import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
a = ap.parse_args()
torch.manual_seed(a.seed)
rng = np.random.default_rng(a.seed)
torch.set_num_threads(1)


def simulate(n):
    k = rng.uniform(1, 6, n); c = rng.uniform(0.05, 0.6, n)
    x = rng.uniform(-1, 1, n); v = rng.uniform(-1, 1, n)
    start = np.stack([k / 3.5 - 1, c * 3 - 1, x * 1.7, v * 1.7], 1)
    for _ in range(75):
        v = v + 0.02 * (-k * x - c * v)
        x = x + 0.02 * v
    return torch.tensor(start, dtype=torch.float32), torch.tensor(np.stack([x, v], 1), dtype=torch.float32)


X, Y = simulate(6000)
XV, YV = simulate(1000)
UNIT = 0.005
Y, YV = Y * UNIT, YV * UNIT

net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=3e-3, eps=1e-16)

for step in range(1, 1001):
    idx = torch.randint(0, len(X), (256,))
    with torch.autocast("cpu", dtype=torch.float16):
        pred = net(X[idx])
        loss = nn.functional.mse_loss(pred.float() * UNIT, Y[idx])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 0:
        with torch.no_grad():
            r2 = 1 - ((net(XV) * UNIT - YV) ** 2).sum() / (YV ** 2).sum()
        print(f"step {step} loss {loss.item():.3e} R2 {r2.item():.4f}")
