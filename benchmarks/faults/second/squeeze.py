"""Autoencoder: 64 pixels -> 6 numbers -> 64 pixels."""
import argparse
import torch
from torch import nn
from sklearn.datasets import load_digits

args = argparse.ArgumentParser()
args.add_argument("--seed", type=int, default=0)
args = args.parse_args()
torch.manual_seed(args.seed)
torch.set_num_threads(1)

pixels = torch.tensor(load_digits().data, dtype=torch.float32) / 16
pixels = pixels[torch.randperm(len(pixels))]
train, held = pixels[:1500], pixels[1500:]
mean = train.mean(0)


class Squeeze(nn.Module):
    def __init__(self, code=6):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, code))
        self.up = nn.Sequential(nn.Linear(code, 64), nn.SiLU(), nn.Linear(64, 64))
        self.codes = None

    def forward(self, x):
        self.codes = self.down(x - mean).detach()
        return self.up(self.codes) + mean


net = Squeeze()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
baseline = ((held - mean) ** 2).mean().item()
for epoch in range(30):
    perm = torch.randperm(len(train))
    running = 0.0
    for k in range(0, len(train), 50):
        batch = train[perm[k:k + 50]]
        recon = net(batch)
        loss = ((recon - batch) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item()
    if epoch % 3 == 2:
        with torch.no_grad():
            err = ((net(held) - held) ** 2).mean().item()
        print(f"epoch {epoch:2d} train {running / 30:.5f} held-out {err:.5f} explained {1 - err / baseline:.3f} code spread {net.codes.std():.2f}")
