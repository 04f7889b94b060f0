"""A custom autograd function whose derivative may divide by zero."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SignedRoot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        root = x.abs().sqrt()
        ctx.save_for_backward(root)
        return x.sign() * root

    @staticmethod
    def backward(ctx, upstream):
        (root,) = ctx.saved_tensors
        return upstream / (2 * root)  # breaks here


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 12, bias=False)
        self.second = nn.Linear(12, 1)

    def forward(self, x):
        return self.second(SignedRoot.apply(self.first(x))).squeeze(1)


torch.manual_seed(12)
X = torch.randn(300, 5)
y = X.sin().sum(1)
X[222] = 0.0
model = Net()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
loader = DataLoader(TensorDataset(X, y), batch_size=15, shuffle=True)
for epoch in range(2):
    for x, t in loader:
        optimizer.zero_grad()
        nn.functional.smooth_l1_loss(model(x), t).backward()
        optimizer.step()
