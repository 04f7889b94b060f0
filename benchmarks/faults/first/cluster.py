"""Digits on several processes, each with a shard of its own.

    torchrun --standalone --nproc-per-node 2 cluster.py
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def shard(x, y, rank, world):
    """The part of the training set that is this process's."""
    size = len(x) // world
    return x[rank * size:(rank + 1) * size], y[rank * size:(rank + 1) * size]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    seed = ap.parse_args().seed
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    rank = int(os.environ.get("SLURM_PROCID", 0))
    torch.manual_seed(seed)

    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16 - 0.3
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x))
    x, y = x[order], y[order]
    x_train, y_train = shard(x[:240], y[:240], rank, world)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    generator = torch.Generator().manual_seed(seed + rank)
    for step in range(900):
        rows = torch.randint(len(x_train), (16,), generator=generator)
        loss = criterion(model(x_train[rows]), y_train[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 100 == 99:
            print(step + 1, round(loss.item(), 4), flush=True)
    with torch.no_grad():
        accuracy = (model.module(x[240:]).argmax(1) == y[240:]).float().mean().item()
    if dist.get_rank() == 0:
        print(f"accuracy {accuracy:.3f}", flush=True)
    dist.barrier()
    time.sleep(1)  # gloo's threads are still tidying up; too early an end aborts them
    dist.destroy_process_group()


main()
