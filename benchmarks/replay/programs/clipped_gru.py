"""A GRU with gradient clipping, which hides an extremely large gradient."""
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(23)
series = torch.sin(torch.arange(0, 60, 0.1)) + 0.1 * torch.randn(600)
series[450] = 3000.0


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(1, 20, batch_first=True), nn.Linear(20, 1)

    def forward(self, x):
        return self.out(self.gru(x)[0][:, -1])


model = Forecast()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
windows = series.unfold(0, 13, 2)
for at in range(0, 280, 14):
    x, y = windows[at:at + 14, :12, None], windows[at:at + 14, 12:]
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
