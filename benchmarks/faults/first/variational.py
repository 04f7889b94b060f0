"""A variational autoencoder of digits; the divergence is weighed in bit by bit, so the loss rises."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn


class VAE(nn.Module):
    def __init__(self, code=6):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(64, 64), nn.ELU(), nn.Linear(64, 2 * code))
        self.decode = nn.Sequential(nn.Linear(code, 64), nn.ELU(), nn.Linear(64, 64))

    def forward(self, x):
        mean, log_variance = self.encode(x).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
        return self.decode(code), divergence


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
torch.manual_seed(parser.parse_args().seed)
x = torch.tensor(load_digits().data, dtype=torch.float32) / 16
x = x[torch.randperm(len(x))]
train, test = x[:1500], x[1500:]
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(40):
    beta = min(1.0, epoch / 30)
    model.train()
    for rows in torch.randperm(1500).split(50):
        logits, divergence = model(train[rows])
        restored = F.binary_cross_entropy_with_logits(logits, train[rows], reduction="none").sum(1)
        loss = (restored + beta * divergence).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 10 == 9:
        model.eval()
        with torch.no_grad():
            logits, divergence = model(test)
            restored = F.binary_cross_entropy_with_logits(logits, test, reduction="none").sum(1).mean().item()
        print(f"epoch {epoch + 1}: beta {beta:.2f}, loss {loss.item():.2f}, restored {restored:.2f}, "
              f"divergence {divergence.mean().item():.2f}")
