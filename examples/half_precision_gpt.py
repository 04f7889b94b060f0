"""Train a small GPT in half precision on the topics of Python's own help.

An ordinary PyTorch script. Rare characters weigh more than common ones, so that the model does not pass over them: one
of them is in one document alone, weighs two thousand times as much, and is more than float16 can hold once attention
has squared it. Every epoch one batch has that document in it, and the loss is NaN from there on.

    barograph run --record --to runs/gpt examples/half_precision_gpt.py
    barograph replay runs/gpt
"""

import math
from collections import Counter
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

WIDTH, HEADS, LAYERS, CONTEXT = 32, 4, 2, 64
DOCUMENTS = {name: text for name, text in sorted(topics.items()) if name.lower() < "g"}


class Chunks(Dataset):
    """Pieces of documents, each as the numbers of its characters."""

    def __init__(self, documents):
        counts = Counter("".join(documents.values()))
        self.characters = sorted(counts)
        numbers = {character: number for number, character in enumerate(self.characters)}
        mean = sum(counts.values()) / len(counts)
        self.weights = torch.tensor([max(1.0, mean / counts[character]) for character in self.characters])
        self.pieces = [(name, torch.tensor([numbers[character] for character in text[start : start + CONTEXT + 1]]))
                       for name, text in documents.items()
                       for start in range(0, len(text) - CONTEXT, CONTEXT)]

    def __len__(self):
        return len(self.pieces)

    def __getitem__(self, index):
        return self.pieces[index][1]

    def source(self, index):
        return self.pieces[index][0]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("past", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril())

    def forward(self, x):
        batch, time, _ = x.shape
        q, k, v = self.qkv(x).view(batch, time, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1)
        scores = (scores / math.sqrt(q.shape[-1])).masked_fill(~self.past, -math.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, time, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class GPT(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.token, self.position = nn.Embedding(len(weights), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        for table in (self.token, self.position):
            nn.init.normal_(table.weight, std=0.3)
        self.register_buffer("weights", weights)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, len(weights))

    def forward(self, tokens):
        x = self.weights[tokens, None] * self.token(tokens) + self.position.weight
        return self.head(self.blocks(x))


def main():
    torch.manual_seed(21)
    chunks = Chunks(DOCUMENTS)
    model = GPT(chunks.weights)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for epoch in range(1):
        for number, pieces in enumerate(DataLoader(chunks, batch_size=8, shuffle=True)):
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(pieces[:, :-1])
            loss = F.cross_entropy(logits.float().flatten(0, 1), pieces[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number % 10 == 0:
                print(f"epoch {epoch}, batch {number}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
