"""Digits with DistributedDataParallel.

    torchrun --standalone --nproc-per-node 2 replicas.py
"""

import argparse
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed + dist.get_rank())
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16 - 0.3
    y = torch.tensor(digits.target)
    data = TensorDataset(x[:1500], y[:1500])
    sampler = DistributedSampler(data, shuffle=True, seed=args.seed)
    loader = DataLoader(data, batch_size=25, sampler=sampler)
    model = DDP(nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(24 * 16, 10),
    ))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(15):
        sampler.set_epoch(epoch)
        model.train()
        for xb, yb in loader:
            loss = nn.functional.cross_entropy(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0 and epoch % 5 == 4:
            model.eval()
            with torch.no_grad():
                accuracy = (model.module(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
            print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {accuracy:.3f}", flush=True)
    dist.barrier()
    time.sleep(1)  # gloo's threads are still tidying up; too early an end aborts them
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
