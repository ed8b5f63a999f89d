"""An optimizer that calls back for its loss, as LBFGS needs it and as trainers that own the loop do it."""

import time

import torch
from stopwatch import ASLEEP_S, Stopwatch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
watch, net, criterion = Stopwatch(), nn.Linear(8, 1), nn.MSELoss()


class Patient(torch.optim.SGD):
    def step(self, closure=None):
        loss = super().step(closure)
        with watch("optimizer"):
            time.sleep(ASLEEP_S)
        return loss


optimizer = Patient(net.parameters(), lr=0.01)
for given, wanted in DataLoader(TensorDataset(torch.randn(8 * 45, 8), torch.randn(8 * 45, 1)), batch_size=8):

    def closure(given=given, wanted=wanted):
        optimizer.zero_grad()
        with watch("forward"):
            made = net(given)
        with watch("loss"):
            loss = criterion(made, wanted)
        with watch("backward"):
            loss.backward()
        return loss

    optimizer.step(closure)
    watch.step()
watch.tell()
