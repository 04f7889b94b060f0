"""Tell three cultivars of wine apart by their chemistry."""

import sys

import numpy as np
import torch
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 0
rng = np.random.default_rng(seed)
torch.manual_seed(seed)

wine = load_wine()
features = StandardScaler().fit_transform(wine.data).astype("float32")
order = rng.permutation(len(features))
train, test = order[:130], order[130:]


class Net(torch.nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.first = torch.nn.Linear(13, hidden)
        self.second = torch.nn.Linear(hidden, hidden)
        self.last = torch.nn.Linear(hidden, 3)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        x = torch.tanh(self.second(x))
        return self.last(x)


net = Net()
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=5e-5)

for iteration in range(1500):
    rows = rng.choice(train, 16, replace=False)
    batch, target = torch.from_numpy(features[rows]), torch.from_numpy(wine.target[rows])
    loss = criterion(net(batch), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if iteration % 100 == 99:
        print("iteration", iteration + 1, "loss", round(loss.item(), 4))

with torch.no_grad():
    guess = net(torch.from_numpy(features[test])).argmax(1).numpy()
print("test accuracy", round(float((guess == wine.target[test]).mean()), 3))
