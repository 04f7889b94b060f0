"""Little causal transformer on Python's own documentation strings; warm-up, then cosine."""
import argparse
import math
import pkgutil, importlib
import torch
import torch.nn as nn
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=450)
ap.add_argument("--ctx", type=int, default=40)
args = ap.parse_args()
torch.manual_seed(args.seed)
torch.set_num_threads(1)

parts = []
for mod in ("argparse", "ast", "collections", "datetime", "decimal", "difflib", "email.message", "fractions", "functools",
            "heapq", "inspect", "json", "logging", "os", "pathlib", "pickle", "random", "re", "shutil", "socket",
            "statistics", "string", "subprocess", "tarfile", "tempfile", "textwrap", "threading", "tokenize", "typing", "zipfile"):
    m = importlib.import_module(mod)
    for name in sorted(vars(m)):
        ob = vars(m)[name]
        if callable(ob) and getattr(ob, "__module__", "") == mod and isinstance(ob.__doc__, str):
            parts.append(ob.__doc__.strip())
parts = [p.lower() for p in dict.fromkeys(parts)]
gen = torch.Generator().manual_seed(1)
parts = [parts[i] for i in torch.randperm(len(parts), generator=gen)]
text = "\n\n".join(" ".join(p.split()) for p in parts)
text = "".join(c if 32 <= ord(c) < 127 or c == "\n" else "?" for c in text)
stoi = {c: i for i, c in enumerate(sorted(set(text)))}
data = torch.tensor([stoi[c] for c in text])
n = int(len(data) * 0.9)
V = len(stoi)


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class LM(nn.Module):
    def __init__(self, d=48, layers=2):
        super().__init__()
        self.tok = nn.Embedding(V, d)
        self.pos = nn.Embedding(args.ctx, d)
        self.layers = nn.ModuleList([Layer(d, 4) for _ in range(layers)])
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, V)
        nn.init.normal_(self.tok.weight, std=0.1)
        nn.init.normal_(self.pos.weight, std=0.1)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def batch(lo, hi, size=24):
    s = torch.randint(lo, hi - args.ctx - 1, (size,))
    w = torch.stack([data[i:i + args.ctx + 1] for i in s])
    return w[:, :-1], w[:, 1:]


def loss_on(x, y):
    return F.cross_entropy(model(x).reshape(-1, V), y.reshape(-1))


model = LM()
opt = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98), weight_decay=0.05)
warm = 40
sched = torch.optim.lr_scheduler.LambdaLR(
    opt, lambda k: (k + 1) / warm if k < warm else 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (k - warm) / (args.steps - warm))))
print(len(text), "characters,", V, "kinds")
for step in range(1, args.steps + 1):
    loss = loss_on(*batch(0, n))
    opt.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
    if step % 50 == 0:
        model.eval()
        with torch.no_grad():
            v = sum(loss_on(*batch(n, len(data))).item() for _ in range(4)) / 4
        model.train()
        print(f"step {step} lr {sched.get_last_lr()[0]:.5f} train {loss.item():.3f} valid {v:.3f}")
