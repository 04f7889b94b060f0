"""Take the noise off digits."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
torch.manual_seed(parser.parse_args().seed)
images = torch.tensor(load_digits().images, dtype=torch.float32)[:, None] / 8 - 1
order = torch.randperm(len(images))
loader = DataLoader(images[order[:1500]], batch_size=30, shuffle=True)
test = images[order[1500:]]
net = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ELU(), nn.Conv2d(16, 16, 3, padding=1, stride=2), nn.ELU(),
    nn.ConvTranspose2d(16, 16, 2, stride=2), nn.ELU(), nn.Conv2d(16, 1, 3, padding=1),
)
optimizer = torch.optim.NAdam(net.parameters(), lr=2e-3)
mae = nn.L1Loss()
fixed = test + 0.6 * torch.randn(test.shape)
for epoch in range(16):
    for clean in loader:
        noisy = clean + 0.6 * torch.randn_like(clean) * (torch.rand(len(clean), 1, 1, 1) < 0.8)
        optimizer.zero_grad()
        loss = mae(net(noisy), clean)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(f"epoch {epoch}: {loss.item():.4f}, held out {mae(net(fixed), test).item():.4f} "
              f"({mae(fixed, test).item():.4f} as it comes)")
