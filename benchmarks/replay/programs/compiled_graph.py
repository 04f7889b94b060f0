"""A model under torch.compile with its backward pass traced ahead of time; a step's loss is far too large."""
import torch
from torch import nn

torch.manual_seed(18)
X = torch.randn(200, 6)
y = torch.sin(X).sum(1, keepdim=True)
y[150] = 5e4
net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
model = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for start in range(0, 200, 20):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(X[start:start + 20]), y[start:start + 20])
    loss.backward()
    optimizer.step()
