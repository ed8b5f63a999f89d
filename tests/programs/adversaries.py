"""Two networks with an optimizer each, one of which steps twice as often; as exported from a notebook, all at the top level."""

# In[1]:

import time

import torch
from stopwatch import ASLEEP_S, Stopwatch
from torch import nn

torch.set_num_threads(1)
watch = Stopwatch()

# In[2]:


class Sleepy(nn.Sequential):
    def forward(self, given):
        time.sleep(ASLEEP_S)
        return super().forward(given)


generator = Sleepy(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
critic = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
of_generator = torch.optim.Adam(generator.parameters())
of_critic = torch.optim.RMSprop(critic.parameters())
criterion = nn.BCEWithLogitsLoss()

# In[3]:

for _ in range(45):
    for _ in range(2):
        with watch("forward"):
            made = generator(torch.randn(16, 8)).detach()
            scores = critic(torch.cat([torch.randn(16, 4), made]))
        with watch("loss"):
            loss = criterion(scores, torch.cat([torch.ones(16, 1), torch.zeros(16, 1)]))
        of_critic.zero_grad()
        with watch("backward"):
            loss.backward()
        with watch("optimizer"):
            of_critic.step()
    with watch("forward"):
        scores = critic(generator(torch.randn(16, 8)))
    with watch("loss"):
        loss = criterion(scores, torch.ones(16, 1))
    of_generator.zero_grad()
    with watch("backward"):
        loss.backward()
    with watch("optimizer"):
        of_generator.step()
    watch.step()

# In[4]:

watch.tell()
