"""Elman network writes Python docstrings, character by character. Weights by hand, state carried through 50 characters."""
import argparse
import builtins
import torch
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--lr", type=float, default=0.7)
args = ap.parse_args()
torch.manual_seed(args.seed)
torch.set_num_threads(1)

docs = [getattr(builtins, n).__doc__ or "" for n in sorted(dir(builtins))]
text = "\n".join(dict.fromkeys(docs)).lower()
vocab = sorted(set(text))
code = torch.tensor([vocab.index(c) for c in text])
cut = int(len(code) * 0.9)
V, H, T, B = len(vocab), 112, 50, 32

Wx = (torch.randn(V, H) * 0.1).requires_grad_()
Wh = (0.8 * torch.eye(H) + 0.03 * torch.randn(H, H)).requires_grad_()
bh = torch.zeros(H, requires_grad=True)
Wo = (torch.randn(H, V) * 0.1).requires_grad_()
bo = torch.zeros(V, requires_grad=True)
weights = [Wx, Wh, bh, Wo, bo]
sgd = torch.optim.SGD(weights, lr=args.lr)


def unroll(chars):
    h = torch.zeros(chars.shape[0], H)
    outs = []
    for t in range(chars.shape[1] - 1):
        h = torch.relu(Wx[chars[:, t]] + h @ Wh + bh)
        outs.append(h @ Wo + bo)
    logits = torch.stack(outs, 1)
    return F.cross_entropy(logits.reshape(-1, V), chars[:, 1:].reshape(-1))


def window(lo, hi):
    s = torch.randint(lo, hi - T - 1, (B,))
    return torch.stack([code[i:i + T + 1] for i in s])


for step in range(550):
    loss = unroll(window(0, cut))
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    if step % 50 == 49:
        with torch.no_grad():
            v = sum(unroll(window(cut, len(code))).item() for _ in range(4)) / 4
        print(f"{step + 1:4d}  train {loss.item():.3f}  valid {v:.3f}")
