import argparse
import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim.lr_scheduler import ExponentialLR
from sklearn.datasets import load_digits


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--gamma", type=float, default=0.9)
    ap.add_argument("--lr", type=float, default=0.05)
    return ap.parse_args()


class Mixer(nn.Module):
    """Rows and columns of the picture mixed in turn."""

    def __init__(self, d=8, h=24):
        super().__init__()
        self.up = nn.Linear(d, h)
        self.rows = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
        self.chan = nn.Sequential(nn.Linear(h, 48), nn.GELU(), nn.Linear(48, h))
        self.norm1, self.norm2 = nn.LayerNorm(h), nn.LayerNorm(h)
        self.out = nn.Linear(h * 8, 10)

    def forward(self, img):
        z = self.up(img)
        z = z + self.rows(self.norm1(z).transpose(1, 2)).transpose(1, 2)
        z = z + self.chan(self.norm2(z))
        return self.out(z.flatten(1))


def main():
    args = parse()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    d = load_digits()
    x = torch.tensor(d.images).float().sub(4.88).div(6.02)
    y = torch.tensor(d.target)
    idx = torch.randperm(len(x))
    tr, te = idx[:1440], idx[1440:]
    model = Mixer()
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = ExponentialLR(optimizer, gamma=args.gamma)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(20):
        total = 0.0
        for b in tr[torch.randperm(len(tr))].split(48):
            optimizer.zero_grad()
            loss = criterion(model(x[b]), y[b])
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item() * len(b)
        with torch.no_grad():
            acc = (model(x[te]).argmax(1) == y[te]).float().mean().item()
        print(f"epoch {epoch:02d} loss {total / len(tr):.4f} acc {acc:.4f}")


if __name__ == "__main__":
    main()
