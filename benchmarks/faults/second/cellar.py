"""Which of three cultivars is the wine from?"""
import argparse
import torch
import torch.nn.functional as F
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--hidden", type=int, default=16)
opts = ap.parse_args()
torch.manual_seed(opts.seed)
torch.set_num_threads(1)

wine = load_wine()
X = torch.tensor(wine.data, dtype=torch.float32)
Y = torch.tensor(wine.target)
tr, te = train_test_split(range(len(X)), test_size=0.3, stratify=wine.target, random_state=opts.seed)
X_train, X_test = X[tr], X[te]
Y_train, Y_test = Y[tr], Y[te]

H = opts.hidden
W1 = torch.nn.Parameter(torch.randn(13, H) / 13 ** 0.5)
b1 = torch.nn.Parameter(torch.zeros(H))
W2 = torch.nn.Parameter(torch.randn(H, 3) / H ** 0.5)
b2 = torch.nn.Parameter(torch.zeros(3))
params = [W1, b1, W2, b2]
optimizer = torch.optim.SGD(params, lr=0.05)


def net(x):
    return torch.tanh(x @ W1 + b1) @ W2 + b2


for it in range(1, 801):
    idx = torch.randint(0, len(X_train), (16,))
    loss = F.cross_entropy(net(X_train[idx]), Y_train[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if it % 100 == 0:
        with torch.no_grad():
            full = F.cross_entropy(net(X_train), Y_train)
            acc = (net(X_test).argmax(1) == Y_test).float().mean()
        print(f"it {it}: train loss {full:.4f}, test accuracy {acc:.3f}")
