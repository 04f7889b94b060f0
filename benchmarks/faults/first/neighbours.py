"""Embeddings of words that stand near each other (skip-gram with negative samples), sparse gradients."""

import argparse
import re
from collections import Counter

import torch
import torch.nn.functional as F
from pydoc_data.topics import topics
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
args = ap.parse_args()
torch.manual_seed(args.seed)

words = re.findall(r"[a-z]+", "".join(topics[name] for name in sorted(topics)).lower())[:60_000]
counts = Counter(words)
vocabulary = [word for word, count in counts.most_common() if count >= 3]
number = {word: i for i, word in enumerate(vocabulary)}
corpus = torch.tensor([number[word] for word in words if word in number])
frequency = torch.tensor([counts[word] for word in vocabulary], dtype=torch.float) ** 0.75


class SkipGram(nn.Module):
    def __init__(self, size, width=32):
        super().__init__()
        self.inner = nn.Embedding(size, width, sparse=True)
        self.outer = nn.Embedding(size, width, sparse=True)
        nn.init.uniform_(self.inner.weight, -0.5 / width, 0.5 / width)
        nn.init.zeros_(self.outer.weight)

    def forward(self, centre, context, negatives):
        v = self.inner(centre)
        good = (v * self.outer(context)).sum(1)
        bad = (self.outer(negatives) @ v[:, :, None]).squeeze(2)
        return -(F.logsigmoid(good) + F.logsigmoid(-bad).sum(1)).mean()


model = SkipGram(len(vocabulary))
optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=5e-3)
average = 0.0
for step in range(2500):
    at = torch.randint(5, len(corpus) - 5, (128,))
    shift = torch.randint(1, 5, (128,)) * (torch.randint(0, 2, (128,)) * 2 - 1)
    negatives = torch.multinomial(frequency, 128 * 4, replacement=True).view(128, 4)
    loss = model(corpus[at], corpus[at + shift], negatives)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average += (loss.item() - average) / min(step + 1, 100)
    if step % 500 == 499:
        print(f"step {step + 1}: {average:.3f}")
