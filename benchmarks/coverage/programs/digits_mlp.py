"""A multilayer perceptron on the images of digits in scikit-learn, with a scheduler and an evaluation per epoch.

    python digits_mlp.py STEPS [WIDTH] [BATCH]
"""

import sys

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from benchmarks.coverage.meter import Meter

STEPS = int(sys.argv[1])
WIDTH, BATCH = int(sys.argv[2]) if len(sys.argv) > 2 else 64, int(sys.argv[3]) if len(sys.argv) > 3 else 64

meter = Meter()
torch.manual_seed(0)
torch.set_num_threads(1)
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x / 16.0, dtype=torch.float32), torch.tensor(y)
x, x_test, y, y_test = train_test_split(x, y, test_size=0.2, random_state=0)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=BATCH, shuffle=True)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.98)
loss_fn = nn.CrossEntropyLoss()
step = 0
while step < STEPS:
    model.train()
    for images, labels in loader:
        if step == STEPS:
            break
        loss = loss_fn(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        meter.step(loss.detach(), optimizer.param_groups[0]["lr"])
    scheduler.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
print(f"accuracy {accuracy:.3f}")
meter.done()
