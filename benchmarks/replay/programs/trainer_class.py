"""A trainer class of one's own, with a warm-up of the weight of a penalty, and a softplus written by hand."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, data, lr):
        self.model, self.lr, self.step = model, lr, 0
        self.loader = DataLoader(data, batch_size=20, shuffle=True, generator=torch.Generator().manual_seed(3))
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def loss(self, x, y):
        scores = self.model(x).squeeze(1)
        hinge = torch.log(1 + torch.exp(-y * scores))  # breaks here
        penalty = min(1.0, self.step / 40)
        return hinge.mean() + penalty * scores.abs().clamp(max=5).mean()

    def fit(self, epochs):
        for _ in range(epochs):
            self.model.train()
            for x, y in self.loader:
                self.optimizer.zero_grad()
                loss = self.loss(x, y)
                loss.backward()
                self.optimizer.step()
                self.step += 1


if __name__ == "__main__":
    torch.manual_seed(27)
    X = torch.randn(400, 8)
    y = torch.sign(X[:, 0] + 0.3 * X[:, 1])
    X[317] *= 1e4
    y[317] = -y[317]
    net = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    Trainer(net, TensorDataset(X, y), 3e-3).fit(2)
