"""Classify handwritten digits with a small fully connected network."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
torch.manual_seed(args.seed)

images, labels = load_digits(return_X_y=True)
images = (images - images.mean()) / images.std()
x_train, x_test, y_train, y_test = train_test_split(
    torch.tensor(images, dtype=torch.float32), torch.tensor(labels), test_size=0.2, random_state=args.seed
)
loader = DataLoader(TensorDataset(x_train, y_train), batch_size=32, shuffle=True)

model = nn.Sequential(
    nn.Linear(64, 128), nn.ReLU(),
    nn.Linear(128, 128), nn.ReLU(),
    nn.Linear(128, 64), nn.ReLU(),
    nn.Linear(64, 10),
)
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

for epoch in range(args.epochs):
    model.train()
    running = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
    print(f"epoch {epoch + 1}: loss {running / len(loader):.4f}, accuracy {accuracy:.3f}")
