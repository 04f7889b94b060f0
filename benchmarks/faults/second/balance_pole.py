"""Actor and critic learn to hold a pole upright; 16 carts at once."""
import argparse
import math
import torch
from torch import nn
from torch.distributions import Categorical


class Carts:
    def __init__(self, n, limit=200):
        self.n, self.limit = n, limit
        self.s = torch.empty(n, 4).uniform_(-0.05, 0.05)
        self.age = torch.zeros(n)

    def step(self, action):
        x, v, th, om = self.s.unbind(1)
        force = action.float() * 20 - 10
        tmp = (force + 0.05 * om ** 2 * th.sin()) / 1.1
        acc_th = (9.8 * th.sin() - th.cos() * tmp) / (0.5 * (4 / 3 - 0.1 * th.cos() ** 2 / 1.1))
        acc = tmp - 0.05 * acc_th * th.cos() / 1.1
        self.s = torch.stack([x + 0.02 * v, v + 0.02 * acc, th + 0.02 * om, om + 0.02 * acc_th], 1)
        self.age += 1
        fell = (self.s[:, 0].abs() > 2.4) | (self.s[:, 2].abs() > 12 * math.pi / 180)
        late = (self.age >= self.limit) & ~fell
        done = fell | late
        ages = self.age[done].tolist()
        end_state = self.s.clone()
        self.s[done] = torch.empty(int(done.sum()), 4).uniform_(-0.05, 0.05)
        self.age[done] = 0
        return end_state, fell, late, ages


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--updates", type=int, default=200)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    scale = torch.tensor([1.0, 1.0, 0.1, 1.0])
    actor = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam([{"params": actor.parameters(), "lr": 4e-3}, {"params": critic.parameters(), "lr": 8e-3}])
    env = Carts(16)
    gamma, T = 0.97, 16
    recent = []
    for update in range(1, a.updates + 1):
        logs, values, ents, nexts, fells, lates = [], [], [], [], [], []
        for _ in range(T):
            obs = env.s / scale
            dist = Categorical(logits=actor(obs))
            act = dist.sample()
            logs.append(dist.log_prob(act)); ents.append(dist.entropy()); values.append(critic(obs)[:, 0])
            end, fell, late, ages = env.step(act)
            with torch.no_grad():
                nexts.append(critic(end / scale)[:, 0])
            fells.append(fell); lates.append(late); recent = (recent + ages)[-50:]
        ret = nexts[-1]
        returns = []
        for t in reversed(range(T)):
            ret = torch.where(lates[t], nexts[t], ret)
            ret = 0.1 + gamma * torch.where(fells[t], torch.zeros_like(ret), ret)
            returns.append(ret)
        R = torch.stack(returns[::-1])
        V = torch.stack(values)
        adv = R - V.detach()
        policy = -(torch.stack(logs) * adv).mean()
        value = ((V - R) ** 2).mean()
        loss = policy + 0.5 * value - 0.003 * torch.stack(ents).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 1.0)
        opt.step()
        if update % 20 == 0:
            print(f"update {update}: loss {loss.item():.3f} value {value.item():.3f} mean length {sum(recent) / max(1, len(recent)):.1f}")


if __name__ == "__main__":
    main()
