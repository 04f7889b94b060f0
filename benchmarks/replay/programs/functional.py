"""Functional call of a model with its parameters as arguments, and functional losses between distributions."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

torch.manual_seed(29)
model = nn.Sequential(nn.Linear(6, 20), nn.SiLU(), nn.Linear(20, 5))
weights = dict(model.named_parameters())
optimizer = torch.optim.Rprop(model.parameters(), lr=1e-3)
X = torch.randn(200, 6)
targets = torch.softmax(2 * torch.randn(200, 5), 1)
targets[113] = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0])
for start in range(0, 200, 20):
    x, p = X[start:start + 20], targets[start:start + 20]
    log_q = F.log_softmax(functional_call(model, weights, (x,)), 1)
    entropy = (p * torch.log(p)).sum(1)  # breaks here
    loss = (entropy - (p * log_q).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
