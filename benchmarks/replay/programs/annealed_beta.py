"""The temperature of a loss decreases with each step until it is zero; batches by index."""
import torch
from torch import nn

torch.manual_seed(34)
X = torch.randn(256, 7)
y = (X[:, 0] * X[:, 1] > 0).long()


def main():
    model = nn.Sequential(nn.Linear(7, 20), nn.Tanh(), nn.Dropout(0.1), nn.Linear(20, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(40):
        rows = slice(step * 16 % 256, step * 16 % 256 + 16)
        temperature = max(0.0, 1 - step / 18)
        scores = model(X[rows]) / temperature  # breaks here
        chosen = scores.log_softmax(1)[torch.arange(16), y[rows]]
        loss = -chosen.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
