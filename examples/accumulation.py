"""Accumulate gradients: four small batches make one step.

An ordinary PyTorch script. Barograph counts a step where the optimizer steps, so a run of it has a quarter as many
steps as the loop has rounds, and what a layer put out in a step are the outputs of all four batches:

    barograph run examples/accumulation.py
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

MICRO_BATCHES = 4


def main():
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images, dtype=torch.float32) / 16
    data = TensorDataset(images, torch.tensor(labels))
    loader = DataLoader(data, batch_size=16, shuffle=True, drop_last=True, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)

    for epoch in range(4):
        for number, (x, y) in enumerate(loader, start=1):
            loss = F.cross_entropy(model(x), y) / MICRO_BATCHES
            loss.backward()
            if number % MICRO_BATCHES == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch}: loss {loss.item() * MICRO_BATCHES:.3f}", flush=True)


if __name__ == "__main__":
    main()
