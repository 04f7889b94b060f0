"""Character model of Python source: embedding -> GRU -> softmax."""
import argparse, inspect
import torch
import torch.nn as nn
import textwrap, string, bisect, heapq, shlex

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=400)
ap.add_argument("--train-encoder", type=int, default=0)
args = ap.parse_args()
torch.manual_seed(args.seed)
torch.set_num_threads(1)

text = "".join(inspect.getsource(m) for m in (textwrap, string, bisect, heapq, shlex))
chars = sorted(set(text))
lookup = {c: i for i, c in enumerate(chars)}
ids = torch.tensor([lookup[c] for c in text])
cut = int(0.9 * len(ids))
train_ids, valid_ids = ids[:cut], ids[cut:]


class CharModel(nn.Module):
    def __init__(self, vocab, dim=24, hidden=80):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.encoder = nn.GRU(dim, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, x):
        h, _ = self.encoder(self.embed(x))
        return self.head(h)


def sample(source, n=16, length=32):
    starts = torch.randint(0, len(source) - length - 1, (n,))
    rows = torch.stack([source[s:s + length + 1] for s in starts])
    return rows[:, :-1], rows[:, 1:]


model = CharModel(len(chars))
for name, p in model.named_parameters():
    if not name.startswith("head"):
        p.requires_grad_(bool(args.train_encoder))
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=4e-3)
loss_fn = nn.CrossEntropyLoss()

for step in range(1, args.steps + 1):
    x, y = sample(train_ids)
    out = model(x)
    loss = loss_fn(out.flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 100 == 0:
        with torch.no_grad():
            vx, vy = sample(valid_ids, 64)
            v = loss_fn(model(vx).flatten(0, 1), vy.flatten())
        print(f"step {step} train {loss.item():.3f} valid {v.item():.3f}")
