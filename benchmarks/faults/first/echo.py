"""Read a digit four pixels at a time with a plain recurrent network."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn


class PixelReader(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.rnn = nn.RNN(4, hidden, nonlinearity="relu", batch_first=True)
        self.out = nn.Linear(hidden, 10)
        nn.init.eye_(self.rnn.weight_hh_l0)
        with torch.no_grad():
            self.rnn.weight_hh_l0.mul_(1.6)

    def forward(self, pixels):
        states, _ = self.rnn(pixels)
        return self.out(states[:, -1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32).reshape(-1, 16, 4) / 16
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x))
    model = PixelReader()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(600):
        rows = order[torch.randint(1400, (32,))]
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            with torch.no_grad():
                accuracy = (model(x[order[1400:]]).argmax(1) == y[order[1400:]]).float().mean().item()
            print(f"step {step + 1}: loss {loss.item():.3f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
