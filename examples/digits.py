"""Train a small convolutional network on images of handwritten digits.

An ordinary PyTorch script: it knows nothing of Barograph. Run it by itself, or watched:

    python examples/digits.py
    barograph run examples/digits.py

`--fault` plants one of the mistakes that people make, for the demonstration.
"""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.relu1, self.relu2, self.relu3 = nn.ReLU(), nn.ReLU(), nn.ReLU()
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(32 * 2 * 2, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = self.pool(self.relu1(self.conv1(x)))
        x = self.pool(self.relu2(self.conv2(x)))
        x = self.relu3(self.fc1(self.dropout(x.flatten(1))))
        return self.fc2(self.dropout(x))


def load(batch_size, generator, *, by_pixel=False):
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    if by_pixel:
        images = (images - images.mean(0)) / images.std(0)  # some pixels are 0 in every image
    labels = torch.tensor(labels)
    train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.25, random_state=0)
    train = DataLoader(TensorDataset(train_x, train_y), batch_size, shuffle=True, generator=generator)
    return train, DataLoader(TensorDataset(test_x, test_y), 256)


def evaluate(model, loader):
    model.eval()
    loss = correct = count = 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += F.cross_entropy(out, y).item() * len(y)
            correct += (out.argmax(1) == y).sum().item()
            count += len(y)
    model.train()
    return loss / count, correct / count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", choices=["none", "dead-relu", "learning-rate", "nan"], default="none")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    train, test = load(args.batch_size, generator, by_pixel=args.fault == "nan")
    model = Net()
    if args.fault == "dead-relu":
        nn.init.constant_(model.conv2.bias, -10.0)  # meant was a small positive number
    lr = args.lr * 1000 if args.fault == "learning-rate" else args.lr
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    for epoch in range(args.epochs):
        total = count = 0
        for x, y in train:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
            count += len(y)
        validation, accuracy = evaluate(model, test)
        print(f"epoch {epoch}: loss {total / count:.3f}, validation {validation:.3f}, accuracy {accuracy:.1%}",
              flush=True)


if __name__ == "__main__":
    main()
