"""Train on two processes with DistributedDataParallel.

An ordinary PyTorch script for torchrun. Each process becomes a worker of one run (`r0`, `r1`); what they hold in
common is shown once, what each saw of its own is merged:

    barograph run torchrun --standalone --nproc-per-node 2 examples/ddp.py
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels))
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)

    for epoch in range(4):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
