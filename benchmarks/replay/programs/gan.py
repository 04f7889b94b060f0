"""A GAN on a ring of points: two optimizers, and the generator's step fails when the critic is sure."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
angle = torch.rand(640) * 2 * math.pi
points = torch.stack([angle.cos(), angle.sin()], 1)
generator = nn.Sequential(nn.Linear(4, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 2))
critic = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(24, 1))
for_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
for_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
bce = nn.functional.binary_cross_entropy_with_logits
seen = 0
for epoch in range(2):
    for (real,) in DataLoader(TensorDataset(points), batch_size=32, shuffle=True):
        fake = generator(torch.randn(len(real), 4))
        for_critic.zero_grad()
        loss = bce(critic(real), torch.ones(len(real), 1)) + bce(critic(fake.detach()), torch.zeros(len(real), 1))
        loss.backward()
        for_critic.step()

        for_generator.zero_grad()
        sureness = 1.0 if seen < 15 else 4000.0
        chance = torch.sigmoid(sureness * (critic(fake) - 1))
        loss = -torch.log(chance).mean()  # breaks here
        loss.backward()
        for_generator.step()
        seen += 1
