"""A transformer with dropout that learns to reverse sequences."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
VOCAB, LENGTH = 12, 10


class Reverser(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.position = nn.Parameter(torch.randn(LENGTH, 32) * 0.1)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, VOCAB)

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens) + self.position))


tokens = torch.randint(0, VOCAB, (400, LENGTH))
loader = DataLoader(TensorDataset(tokens, tokens.flip(1)), batch_size=20, shuffle=True, drop_last=True)
model = Reverser()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
for epoch in range(2):
    model.train()
    for number, (x, y) in enumerate(loader):
        out = model(x)
        loss = criterion(out.flatten(0, 1), y.flatten())
        if epoch == 1 and number == 4:
            loss = loss * 1e6  # a unit gone wrong
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
