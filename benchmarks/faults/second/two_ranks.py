"""Data-parallel softmax network on digits; torchrun --nproc-per-node 2 two_ranks.py"""
import argparse
import os
import torch
import torch.distributed as dist
from torch import nn
from sklearn.datasets import load_digits


def broadcast_params(model):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)


def average_gradients(model):
    world = dist.get_world_size()
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad /= world


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    d = load_digits()
    gen = torch.Generator().manual_seed(args.seed)
    order = torch.randperm(len(d.target), generator=gen)
    x = torch.tensor(d.data / 16 - 0.3, dtype=torch.float32)[order]
    y = torch.tensor(d.target)[order]
    xt, yt = x[300:], y[300:]
    shard_x, shard_y = xt[rank::world], yt[rank::world]
    torch.manual_seed(args.seed + rank)

    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    broadcast_params(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    for epoch in range(14):
        perm = torch.randperm(len(shard_x))
        for b in perm.split(32):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(shard_x[b]), shard_y[b])
            loss.backward()
            opt.step()
        with torch.no_grad():
            acc = (model(x[:300]).argmax(1) == y[:300]).float().mean()
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} test {acc.item():.4f}", flush=True)
    norm = torch.stack([p.detach().norm() for p in model.parameters()])
    print(f"rank {rank} weight norms {[round(v, 3) for v in norm.tolist()]} test {acc.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
