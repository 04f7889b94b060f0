"""Variational autoencoder of digits."""
import argparse
import torch
from torch import nn
from torch.nn import functional as F
from sklearn.datasets import load_digits


class VAE(nn.Module):
    def __init__(self, z=8, h=96):
        super().__init__()
        self.e1 = nn.Linear(64, h)
        self.mu = nn.Linear(h, z)
        self.logvar = nn.Linear(h, z)
        self.d1 = nn.Linear(z, h)
        self.d2 = nn.Linear(h, 64)

    def forward(self, x):
        h = F.softplus(self.e1(x - 0.3))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.d2(F.softplus(self.d1(z))), mu, logvar


def elbo(logit, x, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(logit, x, reduction="sum") / len(x)
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum() / len(x)
    return rec, kl


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--epochs", type=int, default=80)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    x = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    x = x[torch.randperm(len(x))]
    train, test = x[:1500], x[1500:]
    vae = VAE()
    opt = torch.optim.Adam(vae.parameters(), lr=1e-3)
    for e in range(1, a.epochs + 1):
        s = 0
        for b in train[torch.randperm(1500)].split(40):
            logit, mu, logvar = vae(b)
            rec, kl = elbo(logit, b, mu, logvar)
            loss = rec + kl
            opt.zero_grad()
            loss.backward()
            opt.step()
            s += loss.item()
        if e % 8 == 0:
            with torch.no_grad():
                o = vae(test)
                tr, tk = elbo(o[0], test, o[1], o[2])
            print(f"epoch {e}: train {s / 38:.3f} test {(tr + tk).item():.3f} (rec {tr.item():.3f} kl {tk.item():.3f})")


if __name__ == "__main__":
    main()
