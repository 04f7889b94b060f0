"""L-BFGS with a closure: small network on digits, penalised weights."""
import argparse
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=150)
args = ap.parse_args()
torch.manual_seed(args.seed)
torch.set_num_threads(1)

X, y = load_digits(return_X_y=True)
Xa, Xb, ya, yb = train_test_split(X, y, test_size=0.3, stratify=y, random_state=args.seed)
sc = StandardScaler().fit(Xa)
Xa, Xb = (torch.tensor(sc.transform(v), dtype=torch.float64) for v in (Xa, Xb))
ya, yb = torch.tensor(ya), torch.tensor(yb)

net = torch.nn.Sequential(torch.nn.Linear(64, 24), torch.nn.Tanh(), torch.nn.Linear(24, 10)).double()
opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=1, history_size=10)
ce = torch.nn.CrossEntropyLoss()


def closure():
    opt.zero_grad()
    penalty = sum((p ** 2).sum() for p in net.parameters() if p.dim() > 1)
    loss = ce(net(Xa), ya) + 1e-3 * penalty
    loss.backward()
    return loss


for k in range(1, args.steps + 1):
    loss = opt.step(closure)
    if k % 15 == 0:
        with torch.no_grad():
            z = net(Xb)
        print(f"{k:3d} objective {loss.item():.6f} test {ce(z, yb).item():.4f} acc {(z.argmax(1) == yb).double().mean().item():.4f}")
