"""An autoencoder of digits in mixed precision, to fit twice as much into memory."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)

pixels = torch.tensor(load_digits().data, dtype=torch.float32) / 16
pixels = pixels[torch.randperm(len(pixels))]
train, test = pixels[:1536], pixels[1536:]

encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
decoder = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.Sigmoid())
model = nn.Sequential(encoder, decoder)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
half = torch.float16

for step in range(500):
    batch = train[torch.randint(len(train), (128,))]
    with torch.autocast("cpu", dtype=half):
        restored = model(batch)
        # A small weight, for there will be other losses beside it.
        loss = 1e-3 * (restored - batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        with torch.no_grad():
            error = (model(test) - test).square().mean().item()
        print(f"step {step + 1}: error {error:.5f}")
