"""Batches are dataclasses; each sample has a mask, and one mask is empty."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader


@dataclass
class Sample:
    series: torch.Tensor
    mask: torch.Tensor
    target: float


@dataclass
class Batch:
    series: torch.Tensor
    mask: torch.Tensor
    target: torch.Tensor


def collate(samples):
    return Batch(torch.stack([s.series for s in samples]), torch.stack([s.mask for s in samples]),
                 torch.tensor([s.target for s in samples]))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, 16, batch_first=True)
        self.out = nn.Linear(16, 1)

    def forward(self, batch):
        states, _ = self.gru(batch.series[..., None])
        total = (states * batch.mask[..., None]).sum(1)
        return self.out(total / batch.mask.sum(1, keepdim=True)).squeeze(1)  # breaks here


torch.manual_seed(16)
samples = []
for _ in range(180):
    series = torch.randn(7).cumsum(0)
    samples.append(Sample(series, (torch.rand(7) > 0.2).float(), float(series.mean())))
samples[130].mask.zero_()
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, amsgrad=True)
for batch in DataLoader(samples, batch_size=12, collate_fn=collate):
    optimizer.zero_grad()
    loss = nn.functional.huber_loss(model(batch), batch.target)
    loss.backward()
    optimizer.step()
