"""A regression whose columns are standardised batch by batch; one column is constant within a batch."""
import torch
from sklearn.datasets import load_diabetes
from torch import nn

X, y = load_diabetes(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) * 20, torch.tensor(y, dtype=torch.float32) / 100
X[96:112, 4] = 1.0


class Standardised(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 24), nn.BatchNorm1d(24), nn.Tanh(), nn.Linear(24, 1))

    def forward(self, x):
        centred = x - x.mean(0)
        x = centred / x.std(0)  # breaks here
        return self.body(x).squeeze(1)


torch.manual_seed(3)
model = Standardised()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.5)
for epoch in range(2):
    for first in range(0, 432, 16):
        optimizer.zero_grad()
        loss = (model(X[first:first + 16]) - y[first:first + 16]).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(loss.item())
