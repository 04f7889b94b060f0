"""Blocks with activation checkpointing and dropout; square roots of a ReLU's zeros."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.lin, self.norm, self.drop = nn.Linear(size, size), nn.LayerNorm(size), nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(torch.tanh(self.lin(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(12) for _ in range(3))
        self.out = nn.Linear(12, 1)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.out(x).squeeze(1)


torch.manual_seed(22)
X = torch.randn(300, 12)
y = X.abs().mean(1)
y[210] = -50.0
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(2):
    for x, t in DataLoader(TensorDataset(X, y), batch_size=12, shuffle=True):
        guess = model(x)
        kept = (t > -40).float()
        excess = kept * (t - guess + 20).abs()
        loss = (excess ** 0.5).mean()  # breaks here
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
