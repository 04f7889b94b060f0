"""A frozen backbone below a trained head; correlations are transformed by atanh."""
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Transfer(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(30, 20), nn.BatchNorm1d(20), nn.Tanh())
        for parameter in self.backbone.parameters():
            parameter.requires_grad = False
        self.head = nn.Linear(20, 2)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x, correlation):
        features = self.backbone(x)
        stretch = torch.atanh(correlation)  # breaks here
        return self.head(features) * (1 + stretch[:, None].abs())


torch.manual_seed(26)
data = load_breast_cancer()
X = torch.tensor((data.data - data.data.mean(0)) / data.data.std(0), dtype=torch.float32)
y = torch.tensor(data.target)
r = torch.rand(len(y)) * 1.8 - 0.9
r[333] = 1.0
model = Transfer()
model.train()
optimizer = torch.optim.Adadelta(model.head.parameters(), lr=0.5)
for x, correlation, t in DataLoader(TensorDataset(X, r, y), batch_size=16):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x, correlation=correlation), t)
    loss.backward()
    optimizer.step()
