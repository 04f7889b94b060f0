"""A model of letters, on what Python says about itself."""

import argparse

import torch
import torch.nn.functional as F
from pydoc_data.topics import topics
from torch import nn


class Letters(nn.Module):
    def __init__(self, vocabulary, width=48):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, 64, batch_first=True)
        self.out = nn.Linear(64, vocabulary)

    def forward(self, tokens):
        hidden, _ = self.lstm(self.embed(tokens))
        return self.out(hidden)


def sample_batch(data, size, length, generator):
    starts = torch.randint(0, len(data) - length - 1, (size,), generator=generator)
    x = torch.stack([data[i:i + length] for i in starts])
    y = torch.stack([data[i:i + length] for i in starts])
    return x, y


def next_letter_loss(model, data):
    """How well the next letter is foretold, in nats."""
    windows = data[:33 * 60].view(60, 33)
    with torch.no_grad():
        return F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()).item()


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)
generator = torch.Generator().manual_seed(args.seed)

text = "".join(topics[name] for name in sorted(topics))[:120_000]
letters = sorted(set(text))
code = {letter: i for i, letter in enumerate(letters)}
data = torch.tensor([code[letter] for letter in text])
model = Letters(len(letters))
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)

for step in range(500):
    x, y = sample_batch(data[:110_000], 16, 32, generator)
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        print(f"step {step + 1}: training loss {loss.item():.3f}")
print(f"the next letter costs {next_letter_loss(model, data[110_000:]):.3f} nats")
