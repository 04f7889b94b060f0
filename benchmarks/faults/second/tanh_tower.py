import argparse, json
import numpy as np, torch
from sklearn.datasets import load_digits


def init_(module):
    if isinstance(module, torch.nn.Linear):
        torch.nn.init.normal_(module.weight, 0.0, 1.0)
        torch.nn.init.zeros_(module.bias)


def tower(sizes):
    mods = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        mods.extend([torch.nn.Linear(a, b), torch.nn.Tanh()])
    mods.append(torch.nn.Linear(sizes[-2], sizes[-1]))
    return torch.nn.Sequential(*mods).apply(init_)


def run(seed, epochs=20, bs=40):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    X, y = load_digits(return_X_y=True)
    idx = np.random.RandomState(seed).permutation(len(X))
    cut = 1400
    m = X[idx[:cut]].mean(0)
    s = X[idx[:cut]].std(0) + 1.0
    Z = torch.tensor((X - m) / s, dtype=torch.float32)
    y = torch.tensor(y)
    tr, te = torch.tensor(idx[:cut]), torch.tensor(idx[cut:])
    net = tower([64, 128, 128, 128, 10])
    opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    report = {}
    for e in range(epochs):
        total = 0
        for b in tr[torch.randperm(cut)].split(bs):
            loss = torch.nn.functional.cross_entropy(net(Z[b]), y[b])
            opt.zero_grad(); loss.backward(); opt.step()
            total += loss.item() * len(b)
        with torch.no_grad():
            acc = (net(Z[te]).argmax(1) == y[te]).float().mean().item()
        report = {"epoch": e, "loss": round(total / cut, 4), "acc": round(acc, 4)}
        print(json.dumps(report))
    return report


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    run(ap.parse_args().seed)
