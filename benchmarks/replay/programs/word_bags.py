"""Bags of words with sparse gradients; one text is labeled with a class that has prior zero."""
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(19)
texts = [(torch.randint(0, 200, (int(torch.randint(3, 12, ())),)), number % 4) for number in range(200)]
prior = torch.tensor([0.3, 0.4, 0.3, 0.0])
texts = [(words, label if label < 3 else 0) for words, label in texts]
texts[87] = (texts[87][0], 3)


def collate(items):
    words = torch.cat([item[0] for item in items])
    starts = torch.tensor([0, *[len(item[0]) for item in items[:-1]]]).cumsum(0)
    return words, starts, torch.tensor([item[1] for item in items])


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(200, 12, sparse=True, mode="mean")
        self.bag_bias = nn.EmbeddingBag(200, 4, sparse=True, mode="sum")

    def forward(self, words, starts):
        return self.bag(words, starts)[:, :4] + self.bag_bias(words, starts)


model = Bags()
optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=1e-2)
for epoch in range(2):
    for words, starts, labels in DataLoader(texts, batch_size=10, collate_fn=collate):
        scores = model(words, starts)
        weight = 1 / prior[labels]  # breaks here
        loss = (weight * nn.functional.cross_entropy(scores, labels, reduction="none")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
