"""A generator of digits and its judge."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)

real_images = torch.tensor(load_digits().data, dtype=torch.float32) / 8 - 1
NOISE = 20
G = nn.Sequential(nn.Linear(NOISE, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 96), nn.BatchNorm1d(96), nn.ReLU(),
                  nn.Linear(96, 64), nn.Tanh())
D = nn.Sequential(nn.Linear(64, 96), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(96, 48), nn.LeakyReLU(0.2),
                  nn.Linear(48, 1))
g_opt = torch.optim.Adam(G.parameters(), lr=5e-4, betas=(0.5, 0.999))
d_opt = torch.optim.Adam(D.parameters(), lr=5e-4, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.full((64, 1), 0.9), torch.zeros(64, 1)

for step in range(1500):
    real = real_images[torch.randint(len(real_images), (64,))]
    fake = G(torch.randn(64, NOISE))
    d_loss = bce(D(real), ones) + bce(D(fake.detach()), zeros)
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    g_loss = bce(D(fake), ones)
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    if step % 250 == 249:
        print(f"{step + 1}: judge {d_loss.item():.3f}, generator {g_loss.item():.3f}")
G.eval()
with torch.no_grad():
    forged = G(torch.randn(500, NOISE))
    nearest = torch.cdist(forged, real_images).min(1).values.mean().item()
    noise = torch.cdist(torch.rand(500, 64) * 2 - 1, real_images).min(1).values.mean().item()
print(f"a forged digit is {nearest:.2f} from the nearest real one; noise is {noise:.2f}")
