import argparse

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn


def make_model():
    return nn.Sequential(
        nn.Linear(64, 100),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(100, 10),
    )


def batches(x, y, size):
    order = torch.randperm(len(x))
    for i in range(0, len(x), size):
        chosen = order[i:i + size]
        yield x[chosen], y[chosen]


def run(args):
    torch.manual_seed(args.seed)
    x, y = load_digits(return_X_y=True)
    xtr, xte, ytr, yte = train_test_split(x / 16.0 - 0.5, y, random_state=args.seed, stratify=y)
    xtr, xte = torch.as_tensor(xtr).float(), torch.as_tensor(xte).float()
    ytr, yte = torch.as_tensor(ytr), torch.as_tensor(yte)
    model = make_model()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(20):
        model.train()
        for xb, yb in batches(xtr, ytr, 64):
            out = model(xb)
            loss = criterion(out, yb)
            loss.backward()
            sgd.step()
        model.eval()
        with torch.no_grad():
            test_loss = criterion(model(xte), yte)
            accuracy = (model(xte).argmax(-1) == yte).float().mean()
        print("epoch", epoch, "train", loss.item(), "test", test_loss.item(), "accuracy", accuracy.item())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    run(parser.parse_args())
