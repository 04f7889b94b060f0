"""One trunk, two answers: which digit, and how far its ink lies from the middle. Four small batches make one step."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 48), nn.ReLU())
        self.digit = nn.Linear(48, 10)
        self.place = nn.Linear(48, 2)

    def forward(self, x):
        z = self.trunk(x)
        return self.digit(z), self.place(z)


class Runner:
    accumulate = 4

    def __init__(self, seed):
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        d = load_digits()
        img = torch.tensor(d.images, dtype=torch.float32)
        ax = torch.arange(8.0) - 3.5
        ink = img.sum((1, 2))
        where = torch.stack([(img.sum(1) * ax).sum(1) / ink, (img.sum(2) * ax).sum(1) / ink], 1)
        p = torch.randperm(len(img))
        x = img.flatten(1)[p] / 8 - 0.61
        where = where[p]
        where = (where - where[:1400].mean(0)) / where[:1400].std(0)
        y = torch.tensor(d.target)[p]
        self.train_data = (x[:1400], y[:1400], where[:1400])
        self.test_data = (x[1400:], y[1400:], where[1400:])
        self.net = Net()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=2e-3, weight_decay=0.01)

    def losses(self, x, y, w):
        a, b = self.net(x)
        return F.cross_entropy(a, y), F.mse_loss(b, w), a

    def epoch(self):
        self.net.train()
        x, y, w = self.train_data
        sums = [0.0, 0.0]
        parts = torch.randperm(len(x)).split(14)
        self.opt.zero_grad()
        for k, i in enumerate(parts, 1):
            ce, mse, _ = self.losses(x[i], y[i], w[i])
            ((ce + 0.5 * mse) / self.accumulate).backward()
            if k % self.accumulate == 0:
                self.opt.step()
                self.opt.zero_grad()
            sums[0] += ce.item(); sums[1] += mse.item()
        return [s / len(parts) for s in sums]

    @torch.no_grad()
    def test(self):
        self.net.eval()
        ce, mse, a = self.losses(*self.test_data)
        return ce.item(), mse.item(), (a.argmax(1) == self.test_data[1]).float().mean().item()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    r = Runner(ap.parse_args().seed)
    for e in range(16):
        print("%2d train ce %.4f mse %.4f |" % (e, *r.epoch()), "test ce %.4f mse %.4f acc %.4f" % r.test())
