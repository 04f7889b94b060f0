"""Learn 0-4 first, then 5-9 on the same convolution features, which stay as they are."""
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from sklearn.datasets import load_digits


def loaders(x, y, classes, bs=32):
    mask = (y >= classes[0]) & (y <= classes[-1])
    x, y = x[mask], y[mask] - classes[0]
    p = torch.randperm(len(x))
    cut = int(0.75 * len(x))
    a = TensorDataset(x[p[:cut]], y[p[:cut]])
    b = TensorDataset(x[p[cut:]], y[p[cut:]])
    return DataLoader(a, batch_size=bs, shuffle=True), DataLoader(b, batch_size=256)


def fit(backbone, head, params, train, test, epochs, lr, tag, frozen=False):
    opt = torch.optim.AdamW(params, lr=lr, weight_decay=0.01)
    for e in range(epochs):
        backbone.train(not frozen)
        head.train()
        s = 0
        for x, y in train:
            loss = nn.functional.cross_entropy(head(backbone(x)), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            s += loss.item()
        backbone.eval()
        head.eval()
        with torch.no_grad():
            ok = sum((head(backbone(x)).argmax(1) == y).sum().item() for x, y in test)
        print(f"{tag} epoch {e}: loss {s / len(train):.4f} acc {ok / len(test.dataset):.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    torch.manual_seed(ap.parse_args().seed)
    torch.set_num_threads(1)
    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32)[:, None] / 8 - 0.61
    y = torch.tensor(d.target)
    backbone = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten())
    first = nn.Linear(512, 5)
    tr, te = loaders(x, y, (0, 1, 2, 3, 4))
    fit(backbone, first, list(backbone.parameters()) + list(first.parameters()), tr, te, 5, 2e-3, "0-4")

    for p in backbone.parameters():
        p.requires_grad = False
    second = nn.Linear(512, 5)
    tr, te = loaders(x, y, (5, 6, 7, 8, 9))
    fit(backbone, second, second.parameters(), tr, te, 12, 2e-3, "5-9", frozen=True)
