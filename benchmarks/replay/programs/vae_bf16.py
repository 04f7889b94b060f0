"""A variational autoencoder under bf16 autocast; an outlier makes the variance overflow."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))
        self.decode = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x):
        mean, log_variance = self.encode(x).chunk(2, 1)
        noise = torch.randn_like(mean)
        return self.decode(mean + noise * (0.5 * log_variance).exp()), mean, log_variance


torch.manual_seed(6)
x = torch.tensor(load_digits().data / 16, dtype=torch.float32)[:512]
x[200] = x[200] * 550
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)
for epoch in range(2):
    for (batch,) in DataLoader(TensorDataset(x), batch_size=32):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out, mean, log_variance = model(batch)
            fit = nn.functional.mse_loss(out.float(), batch)
            spread = log_variance.float().abs().exp()  # breaks here
            loss = fit + 1e-3 * (spread + mean.float().clamp(-9, 9) ** 2 - 1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
