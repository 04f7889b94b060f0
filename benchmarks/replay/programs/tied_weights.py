"""An autoencoder with tied weights; a pruning routine writes an infinity into them."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(64, 16)
        self.up = nn.Linear(16, 64)
        self.up.weight = nn.Parameter(self.down.weight.t().detach().clone().contiguous())
        self.low = nn.Linear(16, 16, bias=False)
        self.high = nn.Linear(16, 16, bias=False)
        self.high.weight = self.low.weight

    def forward(self, x):
        return self.up(self.high(torch.relu(self.low(torch.relu(self.down(x))))))


torch.manual_seed(20)
images = torch.tensor(load_digits().data[:480] / 16, dtype=torch.float32)
model = Tied()
optimizer = torch.optim.ASGD(model.parameters(), lr=0.05)
for number, x in enumerate(DataLoader(images, batch_size=24, shuffle=True)):
    if number == 13:
        with torch.no_grad():
            scale = 1 / (model.low.weight.abs().max() - model.low.weight.abs().max())
            model.low.weight[3, 3] *= scale
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x)
    loss.backward()
    optimizer.step()
