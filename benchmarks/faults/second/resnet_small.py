import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.b = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(c), nn.BatchNorm2d(c)
        nn.init.zeros_(self.nb.weight)

    def forward(self, x):
        return F.relu(x + self.nb(self.b(F.relu(self.na(self.a(x))))))


class ResNet(nn.Module):
    def __init__(self, c=8, n=12):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU())
        self.stage1 = nn.Sequential(*[Block(c) for _ in range(n // 2)])
        self.down = nn.Conv2d(c, 2 * c, 2, stride=2)
        self.stage2 = nn.Sequential(*[Block(2 * c) for _ in range(n // 2)])
        self.fc = nn.Linear(2 * c, 10)

    def forward(self, x):
        x = self.stage2(self.down(self.stage1(self.stem(x))))
        return self.fc(x.mean((2, 3)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    d = load_digits()
    X = torch.tensor(d.images, dtype=torch.float32)[:, None]
    a, b, ya, yb = train_test_split(X, torch.tensor(d.target), test_size=0.2, random_state=args.seed)
    mean, std = a.mean(), a.std()
    a, b = (a - mean) / std, (b - mean) / std
    dl = DataLoader(TensorDataset(a, ya), batch_size=48, shuffle=True, drop_last=True)
    net = ResNet()
    opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9, weight_decay=5e-4)
    epochs = 11
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.03, total_steps=epochs * len(dl))
    for e in range(epochs):
        net.train()
        tot = 0
        for x, y in dl:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            tot += loss.item()
        net.eval()
        with torch.no_grad():
            z = net(b)
        print(f"epoch {e} train {tot / len(dl):.4f} val {F.cross_entropy(z, yb).item():.4f} acc {(z.argmax(1) == yb).float().mean().item():.4f}")


main()
