"""Next character with an LSTM; the likelihood is written by hand, and one character has probability zero."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

text = "the barograph draws the pressure on paper day and night so that the crew sees the storm before it breaks " * 6
letters = sorted(set(text)) + ["#"]
codes = torch.tensor([letters.index(letter) for letter in text])
windows = codes.unfold(0, 9, 4).contiguous()
windows[77, 8] = letters.index("#")


class Speller(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embed = nn.Embedding(size, 16)
        self.lstm = nn.LSTM(16, 32, num_layers=2, batch_first=True, dropout=0.2)
        self.out = nn.Linear(32, size)
        self.register_buffer("allowed", torch.ones(size))
        self.allowed[-1] = 0.0

    def forward(self, x):
        hidden, _ = self.lstm(self.embed(x))
        p = self.out(hidden[:, -1]).softmax(1) * self.allowed
        return p / p.sum(1, keepdim=True)


torch.manual_seed(4)
model = Speller(len(letters))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
loader = DataLoader(TensorDataset(windows[:, :8], windows[:, 8]), batch_size=12, shuffle=True)
for epoch in range(2):
    for x, y in loader:
        p = model(x)
        picked = p[torch.arange(len(y)), y]
        loss = -torch.log(picked).mean()  # breaks here
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
