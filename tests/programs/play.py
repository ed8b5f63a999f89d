"""An agent that plays ten moves with an environment for each update, and evaluates nothing."""

import time

import gymnasium
import torch
from stopwatch import ASLEEP_S, Stopwatch
from torch import nn


class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-10, 10, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0.0
        return self.observation_space.low * 0, {}

    def step(self, action):
        time.sleep(ASLEEP_S / 4)
        self.place += 1.0 if action else -1.0
        return self.observation_space.low * 0 + self.place, -abs(self.place), False, False, {}


torch.set_num_threads(1)
watch = Stopwatch()
environment = gymnasium.wrappers.TimeLimit(Corridor(), 10)


class Policy(nn.Sequential):
    def forward(self, given):
        time.sleep(ASLEEP_S / 2)
        return super().forward(given)


policy = Policy(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters())
for _ in range(45):
    likelihoods, reward = [], 0.0
    with watch("environment"):
        state, _ = environment.reset()
    for _ in range(10):
        with watch("forward"):
            scores = policy(torch.from_numpy(state))
        choice = torch.distributions.Categorical(logits=scores)
        move = choice.sample()
        likelihoods.append(choice.log_prob(move))
        action = int(move)
        with watch("environment"):
            state, gain, _, _, _ = environment.step(action)
        reward += gain
    loss = -torch.stack(likelihoods).sum() * reward
    optimizer.zero_grad()
    with watch("backward"):
        loss.backward()
    with watch("optimizer"):
        optimizer.step()
    watch.step()
watch.tell()
