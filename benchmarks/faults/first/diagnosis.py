"""Logistic regression with one hidden layer on the breast cancer data, the loss written out."""

import argparse

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from torch import nn


def cross_entropy(p, y):
    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()


def main(seed):
    torch.manual_seed(seed)
    x, y = load_breast_cancer(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=seed)
    mean, std = x_train.mean(0), x_train.std(0)
    x_train = torch.tensor((x_train - mean) / std, dtype=torch.float32)
    x_test = torch.tensor((x_test - mean) / std, dtype=torch.float32)
    y_train = torch.tensor(y_train, dtype=torch.float32)[:, None]
    y_test = torch.tensor(y_test, dtype=torch.float32)[:, None]
    net = nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 1), nn.Sigmoid())
    optimizer = torch.optim.RMSprop(net.parameters(), lr=0.01)
    for epoch in range(90):
        order = torch.randperm(len(x_train))
        for rows in order.split(40):
            p = net(x_train[rows])
            loss = cross_entropy(p, y_train[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 10 == 9:
            with torch.no_grad():
                accuracy = ((net(x_test) > 0.5) == (y_test > 0.5)).float().mean().item()
            print(f"epoch {epoch + 1}: loss {loss.item():.4f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args().seed)
