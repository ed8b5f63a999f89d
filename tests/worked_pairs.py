"""Programs in pairs: `before` has one known cause of lost time, `after` is the same program without it, with the same result.

A program is called with a loop and a number of turns: it goes through `loop.steps(…)` and returns numbers that `before` and
`after` have in common. `loop` is a Recorder, or a Stopwatch for steps without a profiler.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from longpole.capture.recorder import record
from longpole.capture.workloads.dqn import Agent, one_thread
from longpole.capture.workloads.dqn_after import After
from longpole.capture.workloads.dqn_before import Before

Item = TypeVar("Item")
SEED = 0
ONE_BY_ONE, FOREACH = {"foreach": False, "fused": False}, {"foreach": True, "fused": False}
LAYERS = 6  # of the deep network: 14 parameter tensors
COMPILER = next(filter(None, map(shutil.which, ("g++", "clang++"))), None)  # which torch.compile needs on a CPU


class Loop(Protocol):
    def steps(self, items: Iterable[Item]) -> Iterator[Item]: ...
    def phase(self, name: str) -> AbstractContextManager[object]: ...


class Stopwatch:
    """Times the steps as a Recorder does those before its profiler starts."""

    def __init__(self) -> None:
        self.step_ns: list[int] = []

    def steps(self, items: Iterable[Item]) -> Iterator[Item]:
        began = time.perf_counter_ns()
        for item in items:
            yield item
            ended = time.perf_counter_ns()
            self.step_ns.append(ended - began)
            began = time.perf_counter_ns()

    def phase(self, _name: str) -> AbstractContextManager[object]:
        return nullcontext()


Program = Callable[[Loop, int], list[float]]


@dataclass(frozen=True)
class Pair:
    """`cause`: id of the first finding on `before`, and of none on `after`. `steps`: how many are enough for a mean. `samples`:
    per step of before and after, where they differ. `point`: whether the prediction is one number, as of what is only removed.
    """

    title: str
    before: Program
    after: Program
    cause: str
    steps: int = 200
    samples: tuple[int, int] | None = None
    point: bool = False


def deep(width: int = 64, layers: int = LAYERS) -> nn.Sequential:
    torch.manual_seed(SEED)
    hidden = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, 1))


def batch_of(size: int, width: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(SEED)
    return torch.randn(size, width, generator=random), torch.randn(size, 1, generator=random)


def update(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, wanted: torch.Tensor, to_none: bool = True
) -> torch.Tensor:
    """One step of training; the gradients stay."""
    optimizer.zero_grad(set_to_none=to_none)
    loss = nn.functional.mse_loss(model(inputs), wanted)
    loss.backward()
    optimizer.step()
    return loss.detach()


class Thresholded(nn.Module):
    """Its output and where a mask exceeds the output's mean."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(SEED)
        self.linear = nn.Linear(256, 10)

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor, indices: Callable[..., torch.Tensor]) -> tuple[Any, ...]:
        out = self.linear(inputs)
        threshold = out.sum(axis=1).mean().item()
        return out, indices(mask, threshold)


def indices_by_numpy(mask: torch.Tensor, threshold: float) -> torch.Tensor:
    return torch.from_numpy(np.argwhere(mask.cpu().numpy() > threshold))


def indices_by_torch(mask: torch.Tensor, threshold: float) -> torch.Tensor:
    return torch.nonzero(mask > threshold)


def mask_indices(indices: Callable[..., torch.Tensor]) -> Program:
    def program(loop: Loop, turns: int) -> list[float]:
        model, random = Thresholded(), torch.Generator().manual_seed(SEED)
        inputs, mask = torch.rand(256, 256, generator=random), torch.rand(60, 60, 60, generator=random)
        found = []
        for _ in loop.steps(range(turns)):
            with torch.no_grad():
                found.append(len(model(inputs, mask, indices)[1]))
        return found

    return program


def training(
    after_update: Callable[[nn.Module], float] | None = None, to_none: bool = True, width: int = 64, **adam: Any
) -> Program:
    """A deep network on small batches; `after_update` notes something of the model in every step."""

    def program(loop: Loop, turns: int) -> list[float]:
        model = deep(width)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, **({"fused": True} | adam))
        inputs, wanted = batch_of(32, width)
        noted, losses = [], []
        for _ in loop.steps(range(turns)):
            losses.append(update(model, optimizer, inputs, wanted, to_none))
            if after_update:
                noted.append(after_update(model))
        return torch.stack(losses).tolist()

    return program


def norm_of_each(model: nn.Module) -> float:
    return sum(p.grad.norm().item() ** 2 for p in model.parameters() if p.grad is not None) ** 0.5


def norm_of_all(model: nn.Module) -> float:
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))).item()


def spread_by_numpy(model: nn.Module) -> float:
    return max(float(p.detach().clone().numpy().std()) for p in model.parameters())


class Items(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Items of which each takes a millisecond, asleep (as one that waits for a disk) or busy (as one that decodes)."""

    def __init__(self, length: int, sleeping: bool, cost_s: float = 1e-3) -> None:
        self.length, self.sleeping, self.cost_s = length, sleeping, cost_s

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if self.sleeping:
            time.sleep(self.cost_s)
        else:
            busy(self.cost_s)
        return torch.full((512,), index % 7 / 7), torch.full((1,), index % 5 / 5)


def busy(seconds: float) -> None:
    """Arithmetic for a time of the CPU, not of the clock: two that share a core take twice as long."""
    end = time.thread_time() + seconds
    total = 0
    while time.thread_time() < end:
        total += sum(range(100))


def loading(sleeping: bool, workers: int) -> Program:
    def program(loop: Loop, turns: int) -> list[float]:
        model = deep(512)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
        loader = DataLoader(Items(4 * turns, sleeping), batch_size=4, num_workers=workers)
        return torch.stack([update(model, optimizer, *batch) for batch in loop.steps(loader)]).tolist()

    return program


def tiny_ops(batch: int) -> Program:
    """A step of many small operators, on a batch that hardly keeps them busy. The results of two batch sizes differ."""

    def program(loop: Loop, turns: int) -> list[float]:
        model = deep(40)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
        inputs, wanted = batch_of(batch, 40)
        for _ in loop.steps(range(turns)):
            update(model, optimizer, inputs, wanted)
        return []

    return program


class ByHand(nn.Module):
    """Layers whose normalisation and activation are written out, operator by operator, on little data."""

    def __init__(self, layers: int = 8, width: int = 16) -> None:
        super().__init__()
        torch.manual_seed(SEED)
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for linear in self.linears:
            centred = inputs - inputs.mean(-1, keepdim=True)
            hidden = linear(centred * ((centred * centred).mean(-1, keepdim=True) + 1e-5).rsqrt())
            inputs = inputs + hidden * torch.clamp(hidden / 6 + 0.5, 0, 1)
        return inputs


def by_hand(compiled: bool) -> Program:
    def program(loop: Loop, turns: int) -> list[float]:
        model, (inputs, _) = ByHand(), batch_of(8, 16)
        called = torch.compile(model, dynamic=False) if compiled else model
        with torch.no_grad():
            called(inputs)  # compiles
            return [float(called(inputs)[0, 0]) for _ in loop.steps(range(turns))]

    return program


class CastEachTime(nn.Module):
    """Layers that keep their weights in double precision, or in the one they compute in."""

    def __init__(self, dtype: torch.dtype, layers: int = 8, width: int = 256) -> None:
        super().__init__()
        torch.manual_seed(SEED)
        weights = [torch.randn(width, width) / width**0.5 for _ in range(layers)]
        self.weights = [weight.to(dtype) for weight in weights]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            inputs = torch.relu(inputs @ weight.to(torch.float32))
        return inputs


def casts(dtype: torch.dtype) -> Program:
    def program(loop: Loop, turns: int) -> list[float]:
        model, (inputs, _) = CastEachTime(dtype), batch_of(8, 256)
        with torch.no_grad():
            return [float(model(inputs)[0, 0]) for _ in loop.steps(range(turns))]

    return program


class SampledAtOnce(Before):
    """The tutorial's parts, with the replay memory of the improved ones."""

    remember, sample = After.remember, After.sample

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        replay = After(*parts)
        self.table, self.rows, self.remembered = replay.table, replay.rows, replay.remembered


def dqn(parts: type[Before] | type[After]) -> Program:
    def program(loop: Loop, turns: int) -> list[float]:
        with Agent("before", SEED, "cpu") as agent:
            agent.parts = parts(agent.network, agent.target, 2e-3, 0.01, "cpu")
            agent.play_at_random()
            for _ in loop.steps(range(turns)):
                agent.step(loop.phase)
            return list(agent.parts.losses())

    return program


PAIRS = {
    "mask_indices": Pair(
        "mask indices by NumPy → torch.nonzero",
        mask_indices(indices_by_numpy), mask_indices(indices_by_torch), "readbacks:round_trip",
    ),
    "norms": Pair("norm().item() per parameter → one norm", training(norm_of_each), training(norm_of_all), "scalar_reads"),
    "numpy_logging": Pair(
        "NumPy logging per parameter → none", training(spread_by_numpy), training(), "readbacks:logging", point=True
    ),
    "loader_asleep": Pair(
        "DataLoader 0 → 2 workers, items that sleep", loading(True, 0), loading(True, 2), "data_wait", steps=60, point=True
    ),
    "loader_busy": Pair(
        "DataLoader 0 → 2 workers, items that compute", loading(False, 0), loading(False, 2), "data_wait", steps=60
    ),
    "adam_fused": Pair("Adam one by one → fused", training(**ONE_BY_ONE), training(), "optimizer_step"),
    "adam_foreach": Pair("Adam one by one → foreach", training(**ONE_BY_ONE), training(**FOREACH), "optimizer_step"),
    "tiny_ops": Pair("batch 256 → 1024", tiny_ops(256), tiny_ops(1024), "tiny_ops", samples=(256, 1024)),
    "zero_grad": Pair(
        "zero_grad that writes zeros → None", training(to_none=False, width=384), training(width=384), "zero_grad"
    ),
    "casts": Pair("weights cast in every step → once", casts(torch.float64), casts(torch.float32), "casts"),
    "dqn": Pair("DQN: transitions one by one → one lookup", dqn(Before), dqn(SampledAtOnce), "repeated_ops:sampling"),
}  # fmt: skip


if COMPILER:
    PAIRS["by_hand"] = Pair("layers written out → torch.compile", by_hand(False), by_hand(True), "tiny_ops", samples=(8, 8))


def recorded(name: str, side: str, folder: Path, turns: int, **options: Any) -> list[float]:
    """Record one program of a pair into a bundle, on one thread of torch; what it returns."""
    pair: Pair = PAIRS[name]
    program, samples = (getattr(pair, side), pair.samples[side == "after"] if pair.samples else None)
    facts = {"pair": name, "side": side, "cause": pair.cause}
    with one_thread(), record(folder, samples_per_step=samples, program=facts, title=f"{pair.title}: {side}", **options) as rec:
        return program(rec, turns)
