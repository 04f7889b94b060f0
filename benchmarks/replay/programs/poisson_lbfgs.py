"""Poisson regression by L-BFGS with a closure; one sample has an extreme exposure."""
import torch
from torch import nn

draw = torch.Generator().manual_seed(10)
X = torch.randn(240, 6, generator=draw)
counts = torch.poisson(torch.exp(X @ torch.tensor([0.3, -0.2, 0.1, 0.0, 0.4, -0.1])), generator=draw)
X[171] *= 4e4

torch.manual_seed(0)
model = nn.Linear(6, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")
for first in range(0, 240, 40):
    x, y = X[first:first + 40], counts[first:first + 40]

    def closure():
        optimizer.zero_grad()
        rate = torch.exp(model(x).squeeze(1).abs())  # breaks here
        loss = (rate - y * torch.log(rate)).mean() + 1e-3 * model.weight.pow(2).sum()
        loss.backward()
        return loss

    print(first, float(optimizer.step(closure)))
