"""Augmentation in two loader workers, with the randomness of Python, NumPy and torch; one image is blank."""
import random

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self):
        digits = load_digits()
        self.images, self.labels = digits.images[:320] / 16, digits.target[:320]
        self.images[260] = 0.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, at):
        image = np.roll(self.images[at], random.randint(-1, 1), axis=1)
        image = image * np.random.uniform(0.8, 1.2)
        image = torch.tensor(image, dtype=torch.float32)
        image = image / image.max()
        return (image + 0.05 * torch.randn(8, 8))[None], int(self.labels[at])


def main():
    torch.manual_seed(13)
    model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(216, 10))
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
    for x, y in DataLoader(Digits(), batch_size=16, shuffle=True, num_workers=2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
