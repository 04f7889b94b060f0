"""Labels are picked by hand with a permutation of its own, and the loss is written out."""
import torch
from sklearn.datasets import load_iris

torch.manual_seed(15)
iris = load_iris()
X, y = torch.tensor(iris.data, dtype=torch.float32), torch.tensor(iris.target)
X = (X - X.mean(0)) / X.std(0)
X[40, 2] = 1e4
hidden = torch.nn.Linear(4, 12)
out = torch.nn.Linear(12, 3)
optimizer = torch.optim.SGD([*hidden.parameters(), *out.parameters()], lr=0.1)
for epoch in range(3):
    order = torch.randperm(150)
    for at in range(0, 150, 10):
        pick = order[at:at + 10]
        scores = out(torch.relu(hidden(X[pick])))
        powers = torch.exp(scores)  # breaks here
        chance = powers / powers.sum(1, keepdim=True)
        loss = -torch.log(chance[torch.arange(10), y[pick]] + 1e-9).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
