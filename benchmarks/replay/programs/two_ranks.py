"""DistributedDataParallel over two processes; torchrun --nproc-per-node 2 two_ranks.py"""
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    digits = load_digits()
    x = torch.tensor(digits.data / 16, dtype=torch.float32)[:640]
    y = torch.tensor(digits.target)[:640]
    x[315, 20] = float("inf")
    data = TensorDataset(x, y)
    torch.manual_seed(11)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10)))
    torch.manual_seed(100 + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = DistributedSampler(data, shuffle=False)
    for epoch in range(2):
        for xb, yb in DataLoader(data, batch_size=20, sampler=sampler):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(xb), yb)
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
