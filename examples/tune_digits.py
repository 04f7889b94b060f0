"""A small network on scikit-learn's digits, with arguments to tune.

An ordinary PyTorch script: it knows nothing of Barograph. The loss of the evaluation is recorded as eval_loss.

    barograph tune examples/tune_digits.py --vary lr=1e-4..1:log --vary width=8..64:int --minimize eval_loss --jobs 8
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn


def main() -> None:
    """Train, and evaluate on held-out samples after each epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--optimizer", choices=("adam", "sgd"), default="adam")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    pixels, labels = load_digits(return_X_y=True)
    inputs, targets = torch.tensor(pixels / 16.0, dtype=torch.float32), torch.tensor(labels)
    train, test = slice(0, 1200), slice(1200, None)
    model = nn.Sequential(nn.Linear(64, options.width), nn.ReLU(), nn.Linear(options.width, 10))
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[options.optimizer]
    optimizer = kind(model.parameters(), lr=options.lr)
    for epoch in range(1, options.epochs + 1):
        for batch in torch.randperm(1200).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[train][batch]), targets[train][batch]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            scores = model(inputs[test])
            loss = nn.functional.cross_entropy(scores, targets[test])
        model.train()
        accuracy = (scores.argmax(1) == targets[test]).float().mean()
        print(f"epoch {epoch}  loss {loss:.4f}  accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
