"""Two processes train one model on digits.

    torchrun --standalone --nproc-per-node 2 pair.py
"""

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.fc = nn.Linear(8 * 9, 32)
        self.out = nn.Linear(32, 10)

    def features(self, x):
        return F.relu(self.fc(F.max_pool2d(F.relu(self.conv(x)), 2).flatten(1)))

    def forward(self, x):
        return self.out(self.features(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)

    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16 - 0.3
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x))
    train, test = order[:320], order[320:]
    data = TensorDataset(x[train], y[train])
    sampler = DistributedSampler(data, seed=args.seed)
    loader = DataLoader(data, batch_size=20, sampler=sampler)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(50):
        sampler.set_epoch(epoch)
        for xb, yb in loader:
            logits = model.module(xb)
            loss = F.cross_entropy(logits, yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0 and epoch % 10 == 9:
            print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
    flat = nn.utils.parameters_to_vector(model.parameters()).detach()
    both = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(both, flat)
    with torch.no_grad():
        accuracy = (model.module(x[test]).argmax(1) == y[test]).float().mean().item()
    if dist.get_rank() == 0:
        print(f"accuracy {accuracy:.3f}, replicas apart by {(both[0] - both[1]).norm() / flat.norm():.2%}", flush=True)
    dist.barrier()
    time.sleep(1)  # gloo's threads are still tidying up; too early an end aborts them
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
