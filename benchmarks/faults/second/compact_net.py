import argparse
import torch, torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import Dataset, DataLoader


class DigitSet(Dataset):
    def __init__(self, X, y):
        self.X = torch.as_tensor(X, dtype=torch.float32)
        self.y = torch.as_tensor(y)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.X[i] / 8 - 0.61, self.y[i]


class Compact(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(64, 40)
        self.l2 = nn.Linear(40, 40)
        self.l3 = nn.Linear(40, 10)
        self.act = nn.ELU()
        self.reset()

    def reset(self):
        for layer in (self.l1, self.l2, self.l3):
            nn.init.constant_(layer.weight, 0.02)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        return self.l3(self.act(self.l2(self.act(self.l1(x)))))


def evaluate(model, dl):
    model.eval()
    c = t = 0
    with torch.inference_mode():
        for x, y in dl:
            c += (model(x).argmax(1) == y).sum().item(); t += y.numel()
    model.train()
    return c / t


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    torch.manual_seed(seed); torch.set_num_threads(1)
    X, y = load_digits(return_X_y=True)
    a, b, c, d = train_test_split(X, y, test_size=0.2, random_state=seed)
    train = DataLoader(DigitSet(a, c), batch_size=32, shuffle=True)
    valid = DataLoader(DigitSet(b, d), batch_size=120)
    model = Compact()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    for ep in range(12):
        loss_sum = 0
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad(); loss.backward(); opt.step()
            loss_sum += loss.item()
        print(f"ep {ep:02d} | loss {loss_sum / len(train):.4f} | valid {evaluate(model, valid):.4f}")
