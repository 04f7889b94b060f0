import argparse, time
import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from torch.utils.data import TensorDataset, DataLoader, random_split


def get_args():
    p = argparse.ArgumentParser(description="deep batch-normalised MLP")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--depth", type=int, default=12)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--epochs", type=int, default=15)
    return p.parse_args()


def build(depth, width=64):
    layers, d = [], 64
    for _ in range(depth):
        layers += [nn.Linear(d, width, bias=False), nn.BatchNorm1d(width), nn.ReLU(inplace=True)]
        d = width
    layers.append(nn.Linear(d, 10))
    return nn.Sequential(*layers)


def accuracy(net, loader):
    net.eval()
    good = n = 0
    with torch.no_grad():
        for x, t in loader:
            good += int((net(x).argmax(1) == t).sum())
            n += len(t)
    return good / n


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    d = load_digits()
    ds = TensorDataset(torch.tensor(d.data / 8.0 - 0.6, dtype=torch.float32), torch.tensor(d.target))
    train, test = random_split(ds, [1437, 360])
    tl = DataLoader(train, batch_size=48, shuffle=True, drop_last=True)
    vl = DataLoader(test, batch_size=360)
    net = build(args.depth)
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.8)
    ce = nn.CrossEntropyLoss()
    print("before training:", accuracy(net, vl))
    for epoch in range(args.epochs):
        s = 0.0
        for x, t in tl:
            opt.zero_grad()
            loss = ce(net(x), t)
            loss.backward()
            opt.step()
            s += loss.item()
        print("epoch %d loss %.3f acc %.3f" % (epoch, s / len(tl), accuracy(net, vl)))


if __name__ == "__main__":
    main()
