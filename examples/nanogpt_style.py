"""Train a small GPT with the kind of loop that nanoGPT made common.

An ordinary PyTorch script, with what such loops have: gradient accumulation, autocast and a gradient scaler,
clipping, weight decay for matrices alone, a learning rate with warm-up and cosine decay, and an estimate of the loss
on both parts of the data every so often. The text is the source of Python's own library.

    barograph run examples/nanogpt_style.py
    barograph run examples/nanogpt_style.py --dtype float16
"""

import argparse
import inspect
import math
import textwrap
import tokenize

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, LAYERS, CONTEXT = 64, 4, 2, 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, time, _ = x.shape
        heads = self.qkv(self.before_attention(x)).view(batch, time, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(batch, time, WIDTH)
        x = x + self.out(mixed)
        return x + self.mlp(self.before_mlp(x))


class GPT(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary, bias=False)
        self.head.weight = self.token.weight  # tied
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets=None):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        loss = None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss


def load_text():
    text = "".join(inspect.getsource(module) for module in (textwrap, argparse, tokenize))
    letters = sorted(set(text))
    tokens = torch.tensor([letters.index(letter) for letter in text])
    cut = int(0.9 * len(tokens))
    return {"train": tokens[:cut], "val": tokens[cut:]}, len(letters)


def get_batch(tokens, batch_size):
    starts = torch.randint(len(tokens) - CONTEXT, (batch_size,))
    x = torch.stack([tokens[start : start + CONTEXT] for start in starts])
    y = torch.stack([tokens[start + 1 : start + CONTEXT + 1] for start in starts])
    return x, y


@torch.no_grad()
def estimate_loss(model, data, batch_size, context, batches=5):
    model.eval()
    losses = {}
    for split, tokens in data.items():
        total = 0.0
        for _ in range(batches):
            with context:
                total += model(*get_batch(tokens, batch_size))[1].item()
        losses[split] = total / batches
    model.train()
    return losses


def learning_rate(step, *, top, steps, warmup):
    if step < warmup:
        return top * (step + 1) / warmup
    return top * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=2, help="micro-batches of a step")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], default="bfloat16")
    args = parser.parse_args()

    torch.manual_seed(1337)
    data, vocabulary = load_text()
    model = GPT(vocabulary)
    context = torch.autocast("cpu", dtype=getattr(torch, args.dtype), enabled=args.dtype != "float32")
    scaler = torch.amp.GradScaler("cpu", enabled=args.dtype == "float16")
    matrices = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    others = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95))

    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, top=args.lr, steps=args.steps, warmup=args.steps // 10)
        if step % 25 == 0:
            losses = estimate_loss(model, data, args.batch_size, context)
            print(f"step {step}: train {losses['train']:.3f}, val {losses['val']:.3f}", flush=True)
        for _ in range(args.accumulate):
            with context:
                _, loss = model(*get_batch(data["train"], args.batch_size))
                loss = loss / args.accumulate
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    losses = estimate_loss(model, data, args.batch_size, context)
    print(f"step {args.steps}: train {losses['train']:.3f}, val {losses['val']:.3f}", flush=True)


if __name__ == "__main__":
    main()
