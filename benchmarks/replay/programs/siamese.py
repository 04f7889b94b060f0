"""A model called twice per step: a contrastive loss on the angle between two views."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(25)
images = torch.tensor(load_digits().data[:360] / 16, dtype=torch.float32)
shifted = images.roll(1, 1) + 0.05 * torch.randn(360, 64)
shifted[123] = images[123]


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 8))

    def forward(self, x):
        z = self.layers(x)
        return z / z.norm(dim=1, keepdim=True)


tower = Tower().double()
optimizer = torch.optim.SGD(tower.parameters(), lr=0.02)
for left, right in DataLoader(TensorDataset(images.double(), shifted.double()), batch_size=18, shuffle=True):
    one, two = tower(left), tower(right)
    gap = one - two
    apart = torch.pow((gap * gap).sum(1), 0.5)  # breaks here
    loss = apart.mean() + 0.01 * (one.mean(0) ** 2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
