import argparse
import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_diabetes
from torch.utils.data import Dataset, DataLoader, Subset


class Patients(Dataset):
    def __init__(self):
        raw = load_diabetes()
        self.features = (raw.data / raw.data.std(0)).astype(np.float32)
        self.response = ((raw.target - 152.0) / 77.0).astype(np.float32)

    def __len__(self):
        return len(self.features)

    def __getitem__(self, i):
        return self.features[i], self.response[i]


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.body(x))


def r2(model, loader):
    model.eval()
    ps, ts = [], []
    with torch.no_grad():
        for x, t in loader:
            ps.append(model(x).reshape(-1)); ts.append(t)
    model.train()
    p, t = torch.cat(ps), torch.cat(ts)
    return (1 - ((p - t) ** 2).mean() / t.var(unbiased=False)).item()


def main(seed):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    ds = Patients()
    order = torch.randperm(len(ds)).tolist()
    train = DataLoader(Subset(ds, order[:342]), batch_size=18, shuffle=True)
    test = DataLoader(Subset(ds, order[342:]), batch_size=50)
    model = Regressor()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-3)
    criterion = nn.MSELoss()
    for epoch in range(1, 36):
        s = 0
        for x, t in train:
            optimizer.zero_grad()
            loss = criterion(model(x), t)
            loss.backward()
            optimizer.step()
            s += loss.item()
        if epoch % 5 == 0:
            print(f'Epoch {epoch}: mse {s / len(train):.4f}, test R2 {r2(model, test):.4f}')


if __name__ == '__main__':
    import warnings
    warnings.filterwarnings('ignore')
    ap = argparse.ArgumentParser()
    ap.add_argument('--seed', type=int, default=0)
    main(ap.parse_args().seed)
