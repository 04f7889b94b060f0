"""Train a generator against a discriminator: two models, two optimizers, each with its own series of steps.

An ordinary PyTorch script. Barograph names the optimizers by the models they train, and puts the model's name
before each path (`Generator.0.weight`):

    barograph run examples/gan.py
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NOISE = 16


class Generator(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(NOISE, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.Tanh())


class Discriminator(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))


def main():
    torch.manual_seed(0)
    images = torch.tensor(load_digits(return_X_y=True)[0], dtype=torch.float32) / 8 - 1
    order = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(images), batch_size=64, shuffle=True, drop_last=True, generator=order)
    generator, discriminator = Generator(), Discriminator()
    for_generator = torch.optim.Adam(generator.parameters(), lr=0.001, betas=(0.5, 0.999))
    for_discriminator = torch.optim.Adam(discriminator.parameters(), lr=0.0005, betas=(0.5, 0.999))

    for epoch in range(4):
        for (real,) in loader:
            genuine, forged = torch.ones(len(real), 1), torch.zeros(len(real), 1)
            fake = generator(torch.randn(len(real), NOISE))

            for_discriminator.zero_grad()
            doubt = F.binary_cross_entropy_with_logits(discriminator(real), genuine)
            doubt = doubt + F.binary_cross_entropy_with_logits(discriminator(fake.detach()), forged)
            doubt.backward()
            for_discriminator.step()

            for_generator.zero_grad()
            deceit = F.binary_cross_entropy_with_logits(discriminator(fake), genuine)
            deceit.backward()
            for_generator.step()
        print(f"epoch {epoch}: discriminator {doubt.item():.3f}, generator {deceit.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
