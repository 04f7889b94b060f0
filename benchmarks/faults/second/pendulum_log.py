import argparse
import math
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def record(n_swings, seed):
    """Angle, speed, torque now -> acceleration, as a logger would store them."""
    rng = np.random.RandomState(seed)
    rows = []
    for _ in range(n_swings):
        th, om = rng.uniform(-2, 2), rng.uniform(-1, 1)
        for _ in range(60):
            u = rng.uniform(-1, 1)
            acc = -1.5 * math.sin(th) - 0.2 * om + u
            rows.append((th, om, u, acc + rng.normal(0, 0.02)))
            om += 0.05 * acc
            th += 0.05 * om
    table = np.array(rows, dtype=np.float32)
    return table


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    log = record(160, args.seed)
    log[6613, 3] = 32767.0
    table = torch.from_numpy(log)
    check = torch.from_numpy(record(20, args.seed + 1000))
    loader = DataLoader(TensorDataset(table[:, :3], table[:, 3:]), batch_size=64, shuffle=True)

    model = torch.nn.Sequential(
        torch.nn.Linear(3, 64), torch.nn.SiLU(), torch.nn.Linear(64, 64), torch.nn.SiLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    mse = torch.nn.MSELoss()
    step = 0
    for epoch in range(6):
        for x, a in loader:
            loss = mse(model(x), a)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        with torch.no_grad():
            err = mse(model(check[:, :3]), check[:, 3:]).item()
        print(f"epoch {epoch}: step {step}, last loss {loss.item():.5f}, check rmse {math.sqrt(err):.4f}")


if __name__ == "__main__":
    main()
