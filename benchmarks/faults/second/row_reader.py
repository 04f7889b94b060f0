# A GRU reads a digit from top to bottom, one row of pixels at a time.
import sys
import torch, numpy as np
from torch import nn
from sklearn.datasets import load_digits

seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 0
torch.manual_seed(seed); np.random.seed(seed)
torch.set_num_threads(1)

X, y = load_digits(return_X_y=True)
order = np.random.permutation(len(X))
X = torch.from_numpy((X[order].reshape(-1, 8, 8) - 4.9) / 6.0).float()
y = torch.from_numpy(y[order])
n = 1400


class RowReader(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.gru = nn.GRU(8, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, rows):
        _, h = self.gru(rows)
        return self.out(h[-1])


def objective(output, label):
    return nn.functional.mse_loss(output.squeeze(1), label.float())


def decide(output):
    return output.squeeze(1).round().clamp(0, 9).long()


net = RowReader()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
step = 0
for epoch in range(16):
    perm = torch.randperm(n)
    for i in range(0, n, 50):
        idx = perm[i:i + 50]
        loss = objective(net(X[idx]), y[idx])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        step += 1
    with torch.no_grad():
        acc = (decide(net(X[n:])) == y[n:]).float().mean().item()
    print("epoch", epoch, "step", step, "loss %.4f" % loss.item(), "held-out accuracy %.3f" % acc)
