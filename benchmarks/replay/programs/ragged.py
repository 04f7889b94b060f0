"""Ragged inputs: lists of tensors of any length with strings; the mean of an empty one."""
import torch
from torch import nn
from torch.utils.data import DataLoader


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.point = nn.Sequential(nn.Linear(2, 12), nn.ReLU())
        self.out = nn.Linear(12, 1)

    def forward(self, clouds):
        means = [self.point(cloud).mean(0) for cloud in clouds]  # breaks here
        return self.out(torch.stack(means)).squeeze(1)


torch.manual_seed(31)
clouds = [torch.randn(int(torch.randint(1, 7, ())), 2) for _ in range(150)]
clouds[95] = torch.zeros(0, 2)
data = [(cloud, f"cloud {number}", float(len(cloud))) for number, cloud in enumerate(clouds)]
model = Mean()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for clouds, names, sizes in DataLoader(data, batch_size=10, collate_fn=lambda items: list(zip(*items))):
    optimizer.zero_grad()
    loss = nn.functional.l1_loss(model(list(clouds)), torch.tensor(sizes))
    loss.backward()
    optimizer.step()
