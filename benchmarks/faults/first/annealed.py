"""Digits with a learning rate that is lowered every few epochs."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset, random_split


def data(seed):
    bunch = load_digits()
    x = torch.tensor(bunch.data / 16.0, dtype=torch.float32)
    y = torch.tensor(bunch.target, dtype=torch.long)
    return random_split(TensorDataset((x - 0.3) / 0.38, y), [1440, 357], torch.Generator().manual_seed(seed))


def train(args):
    torch.manual_seed(args.seed)
    train_set, test_set = data(args.seed)
    loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    x_test, y_test = next(iter(DataLoader(test_set, batch_size=len(test_set))))
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=10, gamma=0.5)
    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
        model.eval()
        with torch.no_grad():
            accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
        print(f"epoch {epoch + 1}/{args.epochs}  loss {loss.item():.3f}  accuracy {accuracy:.3f}")


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--batch-size", type=int, default=48)
parser.add_argument("--lr", type=float, default=0.05)
train(parser.parse_args())
