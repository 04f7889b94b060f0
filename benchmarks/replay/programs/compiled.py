"""A model under torch.compile; its loss overflows fp32 for one sample."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(17)
X = torch.randn(256, 10)
y = X.mean(1)
X[190] = 1e22
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
model = torch.compile(net, backend="eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for x, t in DataLoader(TensorDataset(X, y), batch_size=16):
    optimizer.zero_grad()
    error = model(x).squeeze(1) - t
    loss = (error * error).mean()  # breaks here
    loss.backward()
    optimizer.step()
