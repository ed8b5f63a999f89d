"""`python -m package`: a small decoder that writes token by token."""

import sys
import time

import torch
from torch import nn

from .names import START

sys.path.append(str(__file__).rsplit("package", 1)[0])
from stopwatch import ASLEEP_S, Stopwatch


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.mixer, self.head = nn.Embedding(16, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 16)

    def forward(self, tokens: torch.Tensor, state: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(ASLEEP_S)
        mixed, state = self.mixer(self.embedding(tokens), state)
        return self.head(mixed[:, -1]), state


torch.set_num_threads(1)
torch.manual_seed(0)
watch, decoder = Stopwatch(), Decoder().eval()
token, state, written = torch.tensor([[START]]), None, []
with torch.inference_mode():
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 45):
        with watch("forward"):
            scores, state = decoder(token, state)
        token = scores.argmax(1, keepdim=True)
        written.append(int(token))
        watch.step()
print(len(written), "tokens by", __name__, sys.argv[1:])
watch.tell()
