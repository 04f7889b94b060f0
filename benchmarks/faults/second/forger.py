"""GAN that draws 8x8 digits."""
import argparse
import torch
from torch import nn
from torch.nn.functional import softplus
from torch.utils.data import DataLoader, TensorDataset
from sklearn.datasets import load_digits

p = argparse.ArgumentParser()
p.add_argument("--seed", type=int, default=0)
p.add_argument("--epochs", type=int, default=45)
p.add_argument("--z", type=int, default=16)
a = p.parse_args()
torch.manual_seed(a.seed)
torch.set_num_threads(1)

real = torch.tensor(load_digits().data, dtype=torch.float32) / 8 - 1
loader = DataLoader(TensorDataset(real), batch_size=64, shuffle=True, drop_last=True)

G = nn.Sequential(nn.Linear(a.z, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64), nn.Tanh())
sn = nn.utils.parametrizations.spectral_norm
D = nn.Sequential(sn(nn.Linear(64, 128)), nn.LeakyReLU(0.2), sn(nn.Linear(128, 128)), nn.LeakyReLU(0.2), sn(nn.Linear(128, 1)))
opt_g = torch.optim.Adam(G.parameters(), lr=5e-4, betas=(0.5, 0.99))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.99))

total = a.epochs * len(loader)
sched_g = torch.optim.lr_scheduler.LinearLR(opt_g, 1.0, 0.05, total)
sched_d = torch.optim.lr_scheduler.LinearLR(opt_d, 1.0, 0.05, total)


def distance():
    """Difference of means and covariances, real against drawn."""
    with torch.no_grad():
        fake = G(torch.randn(1797, a.z))
    return ((fake.mean(0) - real.mean(0)) ** 2).sum().item(), ((fake.T.cov() - real.T.cov()) ** 2).sum().item()


print("start: mean gap %.3f, covariance gap %.3f" % distance())
for epoch in range(a.epochs):
    for (x,) in loader:
        fake = G(torch.randn(len(x), a.z))
        loss_d = softplus(-D(x)).mean() + softplus(D(fake.detach())).mean()
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()

        loss_g = softplus(-D(fake)).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        sched_g.step()
        sched_d.step()
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1}: D {loss_d.item():.3f} G {loss_g.item():.3f} mean gap %.3f, covariance gap %.3f" % distance())
