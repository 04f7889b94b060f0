"""Two optimizers that take turns, two steps of the one and one of the other; the critic's own step fails."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(35)
states = torch.randn(384, 4)
rewards = states[:, 0] - states[:, 1] ** 2
rewards[290] = float("inf")
actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
value = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
for_actor = torch.optim.Adam(actor.parameters(), lr=1e-3)
for_value = torch.optim.RMSprop(value.parameters(), lr=1e-3)
for number, (state, reward) in enumerate(DataLoader(TensorDataset(states, rewards), batch_size=16)):
    advantage = reward - value(state).squeeze(1)
    for_value.zero_grad()
    loss = (advantage ** 2).mean()
    loss.backward()
    for_value.step()
    if number % 2:
        policy = torch.distributions.Categorical(logits=actor(state))
        action = policy.sample()
        for_actor.zero_grad()
        (-(policy.log_prob(action) * advantage.detach().clamp(-5, 5)).mean()).backward()
        for_actor.step()
