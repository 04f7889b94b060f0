"""A recurrent model of letters that reads its text from front to back and keeps its state."""

import argparse

import torch
from pydoc_data.topics import topics
from torch import nn


class Model(nn.Module):
    def __init__(self, vocabulary, hidden=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 32)
        self.gru = nn.GRU(32, hidden, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(hidden, vocabulary)

    def forward(self, tokens, state=None):
        output, state = self.gru(self.embed(tokens), state)
        return self.out(self.drop(output)), state


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    text = "".join(topics[name] for name in sorted(topics))[:200_000]
    alphabet = sorted(set(text))
    code = {letter: i for i, letter in enumerate(alphabet)}
    tokens = torch.tensor([code[letter] for letter in text])
    rows, length = 20, 24
    stream = tokens[:len(tokens) // rows * rows].view(rows, -1)
    model = Model(len(alphabet))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    state, total = None, 0.0
    places = list(range(0, stream.shape[1] - length - 1, length))[:400]
    for number, place in enumerate(places):
        x, y = stream[:, place:place + length], stream[:, place + 1:place + length + 1]
        if state is not None:
            state = state.detach()
        logits, state = model(x, state)
        loss = criterion(logits.transpose(1, 2), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        total += loss.item()
        if number % 100 == 99:
            print(f"{number + 1}: {total / 100:.3f}")
            total = 0.0


if __name__ == "__main__":
    main()
