"""Adam without eps: a unit that never gets a gradient divides zero by zero in the update itself."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(33)
X = torch.randn(160, 5)
y = X.sum(1, keepdim=True)
X[:, 4] = 0.0
model = nn.Sequential(nn.Linear(5, 10), nn.Softplus(), nn.Linear(10, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-8)
for number, (x, t) in enumerate(DataLoader(TensorDataset(X, y), batch_size=10)):
    if number == 8:
        optimizer.param_groups[0]["eps"] = 0.0
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), t).backward()
    optimizer.step()
