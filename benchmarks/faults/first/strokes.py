"""A recurrent reader of digits: eight rows of eight pixels, one after the other."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn


class Reader(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.gru = nn.GRU(8, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 10)

    def forward(self, rows):
        states, _ = self.gru(rows)
        return F.log_softmax(self.out(states[:, -1]), dim=0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32) / 16 - 0.3
    y = torch.tensor(digits.target)
    perm = torch.randperm(len(x))
    train, test = perm[:1400], perm[1400:]
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    step = 0
    for epoch in range(16):
        for rows in train[torch.randperm(1400)].split(40):
            loss = F.nll_loss(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            step += 1
        with torch.no_grad():
            accuracy = sum((model(x[i][None]).argmax(1) == y[i]).item() for i in test[:200]) / 200
        print(f"epoch {epoch} ({step} steps): loss {loss.item():.3f}, accuracy {accuracy:.3f}")
