"""Gradients of four batches for each step, in mixed precision whose scale overflows at first, and clipped."""

import time

import torch
from stopwatch import ASLEEP_S, Stopwatch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
watch = Stopwatch()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        time.sleep(ASLEEP_S / 2)
        return self.layer(given)


net = Net()
optimizer = torch.optim.AdamW(net.parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126)  # the first steps overflow and are left out
batches = iter(DataLoader(TensorDataset(torch.randn(8 * 4 * 45, 8), torch.randint(4, (8 * 4 * 45,))), batch_size=8))
for _ in range(45):
    for _ in range(4):
        with watch("data_loading"):
            given, wanted = next(batches)
        with torch.autocast("cpu", dtype=torch.bfloat16), watch("forward"):
            scores = net(given)
        with watch("loss"):
            loss = F.cross_entropy(scores.float(), wanted) / 4
        with watch("backward"):
            scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    with watch("optimizer"):
        scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    watch.step()
print(f"scale {scaler.get_scale():.3g}")
watch.tell()
