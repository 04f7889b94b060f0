"""Fused AdamW on a wide and deep model; an interaction of features overflows by a power."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(30)
X = torch.rand(300, 6) + 0.5
y = (X[:, 0] * X[:, 1] > 1).float()
X[144, 2] = 3e13


class WideDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.deep = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 16), nn.Mish(), nn.Linear(16, 1))
        self.wide = nn.Linear(6, 1)

    def forward(self, x):
        cubes = x.pow(3)  # breaks here
        return (self.deep(x) + self.wide(cubes)).squeeze(1)


model = WideDeep()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for x, t in DataLoader(TensorDataset(X, y), batch_size=15, shuffle=True, drop_last=True):
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy_with_logits(model(x), t)
    loss.backward()
    optimizer.step()
