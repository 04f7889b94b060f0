"""A hundred thousand noisy, shifted digits read once, in the order they come from the disk."""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

SAMPLES = 100_000


class Augmented(Dataset):
    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        digits = load_digits()
        pick = rng.integers(0, 1500, SAMPLES)
        images = digits.images[pick].astype(np.float32)
        images = np.where(rng.random((SAMPLES, 1, 1)) < 0.5, images, np.roll(images, 1, axis=2))
        images += rng.normal(0, 1.5, images.shape).astype(np.float32)
        images[61_234, 3, 4] = 3.2e9  # a counter that overflowed where the images were taken
        self.images = torch.from_numpy(images.reshape(SAMPLES, 64) / 8 - 0.6).float()
        self.labels = torch.from_numpy(digits.target[pick])
        self.test = (torch.from_numpy(digits.images[1500:].reshape(-1, 64) / 8 - 0.6).float(),
                     torch.from_numpy(digits.target[1500:]))

    def __len__(self):
        return SAMPLES

    def __getitem__(self, i):
        return self.images[i], self.labels[i]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = Augmented(args.seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    for step, (x, y) in enumerate(DataLoader(data, batch_size=64, drop_last=True)):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 199:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    with torch.no_grad():
        x, y = data.test
        print(f"accuracy {(model(x).argmax(1) == y).float().mean().item():.3f}")


if __name__ == "__main__":
    main()
