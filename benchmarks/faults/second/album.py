import argparse
import os, tempfile
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument('--seed', default=0, type=int)
parser.add_argument('--epochs', default=12, type=int)
args = parser.parse_args()
torch.manual_seed(args.seed)
torch.set_num_threads(1)


def read_folders():
    """Images by class, as one finds them in one folder per class."""
    bunch = load_digits()
    train, test = [], []
    for cls in range(10):
        imgs = bunch.images[bunch.target == cls] / 8 - 0.6
        train += [(im, cls) for im in imgs[:140]]
        test += [(im, cls) for im in imgs[140:]]
    return train, test


def to_set(pairs):
    x = torch.tensor(np.stack([p[0] for p in pairs]), dtype=torch.float32).unsqueeze(1)
    return TensorDataset(x, torch.tensor([p[1] for p in pairs]))


train, test = map(to_set, read_folders())
train_loader = DataLoader(train, batch_size=35, shuffle=False)
test_loader = DataLoader(test, batch_size=128, shuffle=False)

model = nn.Sequential(
    nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.ReLU(),
    nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
    nn.Flatten(), nn.Linear(96, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
lossf = nn.CrossEntropyLoss()
ckpt = os.path.join(tempfile.mkdtemp(), 'album.pt')
best = 0
for epoch in range(args.epochs):
    model.train()
    avg = 0
    for images, targets in train_loader:
        out = model(images)
        loss = lossf(out, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        avg += loss.item() / len(train_loader)
    model.eval()
    right = 0
    with torch.no_grad():
        for images, targets in test_loader:
            right += (model(images).argmax(1) == targets).sum().item()
    acc = right / len(test)
    if acc > best:
        best = acc
        torch.save(model.state_dict(), ckpt)
    print('Epoch [%d/%d] loss %.4f test %.2f%%' % (epoch + 1, args.epochs, avg, 100 * acc))
print('best %.2f%%' % (100 * best))
