"""Attention pooling over padded sequences, in batches of dicts; one sequence is empty."""
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(2)
data = []
for number in range(160):
    length = int(torch.randint(1, 9, ()))
    data.append({"tokens": torch.randint(1, 30, (length,)), "label": number % 3, "name": f"line {number}"})
data[101]["tokens"] = torch.zeros(0, dtype=torch.long)


def collate(items):
    longest = max(len(item["tokens"]) for item in items)
    tokens = torch.zeros(len(items), longest, dtype=torch.long)
    for row, item in enumerate(items):
        tokens[row, :len(item["tokens"])] = item["tokens"]
    return {"tokens": tokens, "mask": tokens > 0, "label": torch.tensor([item["label"] for item in items]),
            "meta": {"names": [item["name"] for item in items]}}


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.score = nn.Linear(16, 1)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens, mask):
        hidden = self.embed(tokens)
        scores = self.score(hidden).squeeze(2).masked_fill(~mask, float("-inf"))
        weights = scores.softmax(1)  # breaks here
        return self.head((weights[..., None] * hidden).sum(1))


model = Pool()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for batch in DataLoader(data, batch_size=8, collate_fn=collate):
        logits = model(batch["tokens"], mask=batch["mask"])
        loss = nn.functional.cross_entropy(logits, batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
