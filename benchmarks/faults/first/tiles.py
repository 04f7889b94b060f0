"""Digits from patches: a strided convolution cuts tiles, two layers read them."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tiles(nn.Module):
    def __init__(self):
        super().__init__()
        self.cut = nn.Conv2d(1, 32, 2, stride=2)
        self.mix = nn.Conv2d(32, 32, 2, stride=2)
        self.fc = nn.Linear(32 * 4, 64)
        self.out = nn.Linear(64, 10)
        self.reset()

    def reset(self):
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.constant_(parameter, 0.02)

    def forward(self, x):
        x = F.gelu(self.cut(x))
        x = F.gelu(self.mix(x))
        return self.out(F.gelu(self.fc(x.flatten(1))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    torch.manual_seed(parser.parse_args().seed)
    bunch = load_digits()
    images = torch.tensor(bunch.images, dtype=torch.float32).unsqueeze(1)
    images = (images - images.mean()) / images.std()
    labels = torch.tensor(bunch.target)
    train = DataLoader(TensorDataset(images[:1437], labels[:1437]), batch_size=48, shuffle=True)
    model = Tiles()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(25):
        seen = right = 0
        for x, y in train:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (logits.argmax(1) == y).sum().item()
            seen += len(y)
        print(f"epoch {epoch}: train accuracy {right / seen:.3f}")
    with torch.no_grad():
        print(f"test accuracy {(model(images[1437:]).argmax(1) == labels[1437:]).float().mean():.3f}")


if __name__ == "__main__":
    main()
