"""A critic with a gradient penalty: inputs are mixed randomly first, and differentiated twice."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(33)
points = torch.randn(256, 4)
points[97] *= 900
generator = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4))
critic = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(32, 1))
for_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
for_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
for epoch in range(3):
    for (real,) in DataLoader(TensorDataset(points), batch_size=16, shuffle=True):
        share = torch.rand(len(real), 1)
        noise = torch.randn(len(real), 4)
        with torch.no_grad():
            fake = generator(noise)
        between = (share * real + (1 - share) * fake).requires_grad_()
        slope, = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = 10 * ((slope.norm(dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + penalty
        for_critic.zero_grad()
        loss.backward()
        for_critic.step()

        loss = -critic(generator(torch.randn(len(real), 4))).mean()
        for_generator.zero_grad()
        loss.backward()
        for_generator.step()
