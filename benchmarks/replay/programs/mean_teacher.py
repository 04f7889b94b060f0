"""A mean teacher kept in buffers; the divergence is written by hand, and the teacher is certain of one class."""
import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 3))
        for name, parameter in self.net.named_parameters():
            self.register_buffer("mean_" + name.replace(".", "_"), parameter.detach().clone())

    def forward(self, x):
        return self.net(x)

    @torch.no_grad()
    def follow(self, decay=0.9):
        for name, parameter in self.net.named_parameters():
            getattr(self, "mean_" + name.replace(".", "_")).lerp_(parameter, 1 - decay)

    @torch.no_grad()
    def teacher(self, x):
        hidden = torch.relu(x @ self.mean_0_weight.t() + self.mean_0_bias)
        return (hidden @ self.mean_3_weight.t() + self.mean_3_bias).softmax(1)


torch.manual_seed(21)
wine = load_wine()
X = torch.tensor((wine.data - wine.data.mean(0)) / wine.data.std(0), dtype=torch.float32)
X[62] *= 40000
y = torch.tensor(wine.target)
model = Student()
optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, t in DataLoader(TensorDataset(X, y), batch_size=10):
        student = model(x)
        wanted = model.teacher(x)
        agree = -torch.log(wanted).mul(student.softmax(1).detach()).sum(1)  # breaks here
        loss = nn.functional.cross_entropy(student, t) + 0.1 * (agree * student.logsumexp(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.follow()
