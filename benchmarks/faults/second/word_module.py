"""From which module does a function's docstring come? Bag of words, sparse embeddings."""
import argparse
import importlib
import re
import torch
import torch.nn as nn
from collections import Counter

MODULES = ["decimal", "socket", "threading", "random", "statistics", "datetime", "tarfile", "inspect"]


def corpus():
    pairs = []
    for k, name in enumerate(MODULES):
        mod = importlib.import_module(name)
        queue = [mod]
        for ob in list(vars(mod).values()):
            if isinstance(ob, type) and ob.__module__ in (name, "_" + name):
                queue.append(ob)
        seen = set()
        for holder in queue:
            for attr, ob in sorted(vars(holder).items()):
                doc = getattr(ob, "__doc__", None)
                if callable(ob) and isinstance(doc, str) and doc not in seen and len(doc.split()) > 3:
                    seen.add(doc)
                    pairs.append((re.findall(r"[a-z]+", doc.lower()), k))
    return pairs


def pack(items, vocab):
    flat, offsets, labels = [], [], []
    for words, k in items:
        offsets.append(len(flat))
        flat.extend(vocab.get(w, 0) for w in words)
        labels.append(k)
    return torch.tensor(flat), torch.tensor(offsets), torch.tensor(labels)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--epochs", type=int, default=12)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    pairs = corpus()
    pairs = [pairs[i] for i in torch.randperm(len(pairs))]
    cut = int(0.8 * len(pairs))
    train, test = pairs[:cut], pairs[cut:]
    counts = Counter(w for ws, _ in train for w in set(ws))
    vocab = {w: i + 1 for i, w in enumerate(sorted(w for w, c in counts.items() if c > 1))}
    print(len(train), "train", len(test), "test", len(vocab), "words", Counter(k for _, k in pairs))

    bag = nn.EmbeddingBag(len(vocab) + 1, 24, mode="mean", sparse=True)
    head = nn.Sequential(nn.Dropout(0.3), nn.Linear(24, len(MODULES)))
    opt_s = torch.optim.SparseAdam(bag.parameters(), lr=1e-2)
    opt_d = torch.optim.Adam(head.parameters(), lr=5e-3)
    xt = pack(test, vocab)
    for e in range(a.epochs):
        head.train()
        s = n = 0
        for idx in torch.randperm(len(train)).split(16):
            flat, off, y = pack([train[i] for i in idx], vocab)
            loss = nn.functional.cross_entropy(head(bag(flat, off)), y)
            opt_s.zero_grad(); opt_d.zero_grad()
            loss.backward()
            opt_s.step(); opt_d.step()
            s += loss.item(); n += 1
        head.eval()
        with torch.no_grad():
            z = head(bag(xt[0], xt[1]))
            print(f"epoch {e} ({n} batches) train {s / n:.3f} test {nn.functional.cross_entropy(z, xt[2]).item():.3f} acc {(z.argmax(1) == xt[2]).float().mean().item():.3f}")


if __name__ == "__main__":
    main()
