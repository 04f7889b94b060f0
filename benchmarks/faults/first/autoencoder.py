"""Compress digits to eight numbers and draw them again."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.utils.data import DataLoader


class AutoEncoder(nn.Module):
    def __init__(self, code=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, code))
        self.decoder = nn.Sequential(nn.Linear(code, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def main(seed, epochs=30):
    torch.manual_seed(seed)
    pixels = torch.tensor(load_digits().data, dtype=torch.float32)
    pixels = (pixels - pixels.mean()) / pixels.std()
    order = torch.randperm(len(pixels))
    train, test = pixels[order[:1500]], pixels[order[1500:]]
    loader = DataLoader(train, batch_size=50, shuffle=True)
    model = AutoEncoder()
    # Another rate for each end.
    optimizer = optim.Adam([
        {"params": model.encoder.parameters(), "lr": 1e-3},
    ], lr=2e-3)
    criterion = nn.MSELoss()
    for epoch in range(epochs):
        for batch in loader:
            loss = criterion(model(batch), batch)
            model.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 5 == 4:
            with torch.no_grad():
                print(f"epoch {epoch + 1}: train {loss.item():.4f}, test {criterion(model(test), test).item():.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    main(ap.parse_args().seed)
