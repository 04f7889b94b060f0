"""A variational autoencoder of the images of digits in scikit-learn.

    python vae.py STEPS
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from benchmarks.coverage.meter import Meter

STEPS = int(sys.argv[1])

meter = Meter()
torch.manual_seed(0)
torch.set_num_threads(1)
images = torch.tensor(load_digits().data / 16.0, dtype=torch.float32)
loader = torch.utils.data.DataLoader(images, batch_size=64, shuffle=True)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(128, 8), nn.Linear(128, 8)
        self.decoder = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64))

    def forward(self, x):
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(z), mean, log_variance


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
step = 0
while step < STEPS:
    for x in loader:
        if step == STEPS:
            break
        logits, mean, log_variance = model(x)
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum() / len(x)
        loss = reconstruction + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        meter.step(loss.detach(), 1e-3)
meter.done()
