"""A softmax written by hand in fp16: one sample's scores exceed its range."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(32)
X = torch.randn(240, 12)
y = X[:, :4].argmax(1)
X[188] *= 80
model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8)
for x, t in DataLoader(TensorDataset(X, y), batch_size=16):
    scores = (model(x) - 1).half()
    powers = scores.abs().exp()  # breaks here
    chance = powers / powers.sum(1, keepdim=True)
    loss = -(chance.float()[torch.arange(len(t)), t] + 1e-6).log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
