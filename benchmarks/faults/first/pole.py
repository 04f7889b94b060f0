"""Balance a pole with REINFORCE."""

import argparse
import math
import random

import torch
from torch import nn
from torch.distributions import Categorical


class Pole:
    """The cart and pole of Barto, Sutton & Anderson."""

    def reset(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, action):
        x, v, angle, spin = self.state
        force = 10.0 if action else -10.0
        pull = (force + 0.05 * spin ** 2 * math.sin(angle)) / 1.1
        turn = (9.8 * math.sin(angle) - math.cos(angle) * pull) / (0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1))
        push = pull - 0.05 * turn * math.cos(angle) / 1.1
        self.state = [x + 0.02 * v, v + 0.02 * push, angle + 0.02 * spin, spin + 0.02 * turn]
        return self.state, abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    pole = Pole()
    lasted = []
    for episode in range(250):
        state, log_probabilities = pole.reset(), []
        for _ in range(200):
            choice = Categorical(logits=policy(torch.tensor(state)))
            action = choice.sample()
            log_probabilities.append(choice.log_prob(action))
            state, over = pole.step(action.item())
            if over:
                break
        returns = torch.arange(len(log_probabilities), 0, -1, dtype=torch.float32)
        loss = -(torch.stack(log_probabilities) * (returns - 20.0)).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        lasted.append(len(log_probabilities))
        if episode % 50 == 49:
            print(f"episode {episode + 1}: loss {loss.item():.2f}, lasts {sum(lasted[-50:]) / 50:.1f} steps")


if __name__ == "__main__":
    main()
