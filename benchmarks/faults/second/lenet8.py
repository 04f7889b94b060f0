import argparse
from dataclasses import dataclass

import torch
from torch import nn, optim
from sklearn import datasets


@dataclass
class Config:
    seed: int = 0
    lr: float = 0.05
    batch: int = 64
    iterations: int = 500
    width: int = 12


class LeNet8(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, w, 3), nn.ReLU(),
            nn.Conv2d(w, 2 * w, 3), nn.ReLU(),
            nn.Flatten(),
        )
        self.classifier = nn.Sequential(
            nn.Linear(2 * w * 16, 64), nn.ReLU(),
            nn.Linear(64, 10), nn.Softmax(dim=1),
        )

    def forward(self, x):
        return self.classifier(self.features(x))


def batches(x, y, size, gen):
    while True:
        p = torch.randperm(len(x), generator=gen)
        for k in range(0, len(x) - size + 1, size):
            sel = p[k:k + size]
            yield x[sel], y[sel]


def main(cfg):
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    data = datasets.load_digits()
    x = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1)
    x = (x - x.mean()) / x.std()
    y = torch.tensor(data.target)
    p = torch.randperm(len(x), generator=gen)
    x, y = x[p], y[p]
    xt, yt, xv, yv = x[:1347], y[:1347], x[1347:], y[1347:]
    net = LeNet8(cfg.width)
    criterion = nn.CrossEntropyLoss()
    opt = optim.SGD(net.parameters(), lr=cfg.lr)
    stream = batches(xt, yt, cfg.batch, gen)
    running = None
    for it in range(cfg.iterations):
        xb, yb = next(stream)
        opt.zero_grad()
        loss = criterion(net(xb), yb)
        loss.backward()
        opt.step()
        running = loss.item() if running is None else 0.95 * running + 0.05 * loss.item()
        if (it + 1) % 100 == 0:
            with torch.no_grad():
                acc = (net(xv).argmax(-1) == yv).float().mean()
            print(f"[{it + 1}/{cfg.iterations}] running loss {running:.4f} val acc {acc:.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    main(Config(seed=ap.parse_args().seed))
