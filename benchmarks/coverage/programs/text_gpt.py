"""A small GPT on the text of Python's standard library, like nanoGPT on a CPU: warm-up, cosine schedule, evaluations.

    python text_gpt.py STEPS [BATCH]
"""

import math
import os
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.coverage.meter import Meter

STEPS, BATCH = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 12
BLOCK, WIDTH, HEADS, LAYERS = 64, 128, 4, 4
RATE, WARM_UP, EVERY, EVAL_BATCHES = 1e-3, 20, 250, 5

meter = Meter()
torch.manual_seed(0)
torch.set_num_threads(1)
names = sorted(Path(os.__file__).parent.glob("*.py"))
text = "".join(name.read_text(encoding="utf-8", errors="replace") for name in names[:60])
letters = sorted(set(text))
number = {letter: place for place, letter in enumerate(letters)}
data = torch.tensor([number[letter] for letter in text])
cut = int(0.9 * len(data))
splits = {"train": data[:cut], "val": data[cut:]}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.qkv(self.ln_1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(len(letters), WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.ln, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(letters), bias=False)

    def forward(self, x, y):
        h = self.token(x) + self.place(torch.arange(x.shape[1]))
        logits = self.head(self.ln(self.blocks(h)))
        return logits, F.cross_entropy(logits.flatten(0, 1), y.flatten())


def batch(split):
    starts = torch.randint(len(splits[split]) - BLOCK - 1, (BATCH,)).tolist()
    rows = torch.stack([splits[split][start : start + BLOCK + 1] for start in starts])
    return rows[:, :-1], rows[:, 1:]


@torch.no_grad()
def estimate_loss():
    model.eval()
    found = {split: sum(model(*batch(split))[1].item() for _ in range(EVAL_BATCHES)) / EVAL_BATCHES for split in splits}
    model.train()
    return found


def rate_at(step):
    if step < WARM_UP:
        return RATE * (step + 1) / WARM_UP
    return RATE * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - WARM_UP) / max(STEPS - WARM_UP, 1))))


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.1)
for step in range(STEPS):
    for group in optimizer.param_groups:
        group["lr"] = rate_at(step)
    if step % EVERY == 0:
        print(step, estimate_loss(), flush=True)
    _, loss = model(*batch("train"))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    meter.step(loss.detach(), rate_at(step))
meter.done()
