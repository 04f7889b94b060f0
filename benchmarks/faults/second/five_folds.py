import argparse
import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler


def train_fold(Xa, ya, Xb, yb, epochs=35, bs=16):
    sc = StandardScaler().fit(Xa)
    Xa = torch.tensor(sc.transform(Xa), dtype=torch.float32)
    Xb = torch.tensor(sc.transform(Xb), dtype=torch.float32)
    ya, yb = torch.tensor(ya), torch.tensor(yb)
    model = nn.Sequential(nn.Linear(13, 12), nn.Tanh(), nn.Linear(12, 3))
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    lossf = nn.CrossEntropyLoss()
    for _ in range(epochs):
        tot = 0.0
        for b in torch.randperm(len(Xa)).split(bs):
            opt.zero_grad()
            loss = lossf(model(Xa[b]), ya[b])
            loss.backward()
            opt.step()
            tot += loss.item() * len(b)
        sched.step()
    with torch.no_grad():
        z = model(Xb)
        return tot / len(Xa), lossf(z, yb).item(), (z.argmax(1) == yb).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--folds", type=int, default=5)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    torch.set_num_threads(1)
    X, y = load_wine(return_X_y=True)
    cv = StratifiedKFold(args.folds, shuffle=True, random_state=args.seed)
    scores = []
    for k, (tr, te) in enumerate(cv.split(X, y)):
        a, b, acc = train_fold(X[tr], y[tr], X[te], y[te])
        scores.append(acc)
        print(f"fold {k}: train loss {a:.4f}, held-out loss {b:.4f}, accuracy {acc:.3f}")
    print(f"mean accuracy {np.mean(scores):.4f} +- {np.std(scores):.4f}")


if __name__ == "__main__":
    main()
