"""A small transformer writes Python's help: warm-up, then a cosine, gradients clipped."""

import argparse
import math

import torch
import torch.nn.functional as F
from pydoc_data.topics import topics
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask):
        h = self.ln1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class Transformer(nn.Module):
    def __init__(self, vocabulary, context, width=48, heads=4, depth=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("mask", torch.triu(torch.full((context, context), -math.inf), 1))

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x, self.mask[:tokens.shape[1], :tokens.shape[1]])
        return self.head(self.ln(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    text = "".join(topics[name] for name in sorted(topics))[:150_000]
    letters = sorted(set(text))
    index = {letter: number for number, letter in enumerate(letters)}
    data = torch.tensor([index[letter] for letter in text])
    train, test = data[:140_000], data[140_000:]
    model = Transformer(len(letters), 32)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=3e-3, betas=(0.9, 0.95))

    def rate(step):
        if step < 100:
            return (step + 1) / 100
        return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - 100) / (args.steps - 100)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    for step in range(args.steps):
        starts = torch.randint(len(train) - 33, (16,))
        batch = torch.stack([train[i:i + 33] for i in starts.tolist()])
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, len(letters)), batch[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            model.eval()
            with torch.no_grad():
                windows = test[:33 * 100].view(100, 33)
                held_out = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()).item()
            model.train()
            print(f"step {step + 1}: loss {loss.item():.3f}, held out {held_out:.3f}")


if __name__ == "__main__":
    main()
