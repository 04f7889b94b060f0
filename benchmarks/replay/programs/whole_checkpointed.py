"""A model whose complete pass is recomputed in the backward pass, reentrantly; the script perturbs its inputs first."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(31)
X = torch.randn(400, 6)
y = X.sin().sum(1)
y[171] = 9000.0
model = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.GELU(), nn.Dropout(0.2), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(2):
    for x, target in DataLoader(TensorDataset(X, y), batch_size=16, shuffle=True):
        x = (x + 0.05 * torch.randn_like(x)).requires_grad_()
        loss = nn.functional.mse_loss(checkpoint(model, x, use_reentrant=True).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
