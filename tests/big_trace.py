"""Large chrome traces as Kineto of torch 2.13 writes them, of a training loop with stacks; what they hold is known beforehand.

big = write_big_trace(path, 400_000_000, gzip=True)
big.steps, big.by_category["kernel"], big.kernel_sum_ns

The text of a step is made once: `layers` times a layer's forward and backward, and what stands around them. Each step puts its
number in front of the last digits of every time and id, so 1.6 GB take seconds; a few variants of the text differ in their times.
As in real files every op comes first, then every frame, then every call of the runtime with the device work it launched.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from gzip import GzipFile
from pathlib import Path
from typing import NamedTuple

LAYERS = 60  # steps of 9 ms and 2,600 events
VARIANTS = 8
PID, AUTOGRAD_TID, STREAM = 4242, 4310, 7
BASE_US = 5_200_000_000_000  # Kineto counts from the start of a quarter of a year
JITTER_NS = 900  # less than the 1 us that the tables below leave between the borders of nested ranges
TIME, NUMBER = "\x01", "\x02"  # where a step puts the first digits of its times, and its number
GZIP_LEVEL = 6  # what gzip and zlib do unless told otherwise

FRAME, OP, MARK, CALL, KERNEL, COPY = "python_function", "cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy"
FORWARD, BACKWARD, INNER_BACKWARD = "s", "f", "inner"  # ops with a sequence number; the first two with that end of a fwdbwd flow


class Range(NamedTuple):
    """Times in us; device work stands behind the call that launched it."""

    category: str
    name: str
    start: int
    end: int
    tid: int = PID
    grad: str = ""
    layer: int = 0


FORWARD_US, BACKWARD_US = 110, 40  # what a layer takes
FORWARD_LAYER = (
    Range(FRAME, "nn.Module: Block_{layer}", 0, 108),
    Range(FRAME, "torch/nn/modules/module.py(1773): _wrapped_call_impl", 1, 107),
    Range(FRAME, "torch/nn/modules/module.py(1784): _call_impl", 2, 106),
    Range(FRAME, "model/block.py(31): forward", 3, 105),
    Range(FRAME, "model/masks.py(12): keep", 4, 12),
    Range(FRAME, "<built-in function isinstance>", 5, 7),
    Range(FRAME, "<built-in method size of Tensor object at 0x7f3a{layer:04x}4d80>", 8, 11),
    Range(FRAME, "nn.Module: Linear_{layer}", 13, 90),
    Range(FRAME, "torch/nn/modules/module.py(1773): _wrapped_call_impl", 14, 89),
    Range(FRAME, "torch/nn/modules/module.py(1784): _call_impl", 15, 88),
    Range(FRAME, "torch/nn/modules/linear.py(130): forward", 16, 87),
    Range(FRAME, "torch/nn/modules/module.py(1954): __getattr__", 17, 24),
    Range(FRAME, "<built-in function isinstance>", 18, 20),
    Range(FRAME, "<built-in method get of dict object at 0x7f3b{layer:04x}1c00>", 21, 23),
    Range(FRAME, "torch/nn/modules/module.py(1954): __getattr__", 25, 32),
    Range(FRAME, "<built-in function isinstance>", 26, 28),
    Range(FRAME, "<built-in method get of dict object at 0x7f3b{layer:04x}1c40>", 29, 31),
    Range(FRAME, "torch/nn/functional.py(2345): linear", 33, 86),
    Range(FRAME, "torch/_jit_internal.py(104): is_scripting", 34, 37),
    Range(FRAME, "torch/compiler/__init__.py(477): is_compiling", 38, 41),
    Range(FRAME, "<built-in function linear>", 42, 85),
    Range(OP, "aten::linear", 43, 84),
    Range(OP, "aten::t", 44, 50),
    Range(OP, "aten::addmm", 51, 83, grad=FORWARD),
    Range(CALL, "cudaLaunchKernel", 54, 62),
    Range(KERNEL, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", 66, 158, STREAM),
    Range(FRAME, "nn.Module: Dropout_{layer}", 91, 104),
    Range(FRAME, "torch/nn/modules/module.py(1773): _wrapped_call_impl", 92, 103),
    Range(FRAME, "torch/nn/modules/module.py(1784): _call_impl", 93, 102),
    Range(FRAME, "torch/nn/modules/dropout.py(73): forward", 94, 101),
    Range(FRAME, "torch/nn/functional.py(1440): dropout", 95, 100),
    Range(FRAME, "torch/_jit_internal.py(104): is_scripting", 96, 98),
)
BACKWARD_LAYER = (
    Range(OP, "autograd::engine::evaluate_function: AddmmBackward0", 1, 38, AUTOGRAD_TID, BACKWARD),
    Range(OP, "AddmmBackward0", 2, 37, AUTOGRAD_TID, INNER_BACKWARD),
    Range(OP, "aten::mm", 4, 35, AUTOGRAD_TID),
    Range(CALL, "cudaLaunchKernelExC", 8, 14, AUTOGRAD_TID),
    Range(KERNEL, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x128x64_cublas", 18, 54, STREAM),
)
FETCH = (
    Range(FRAME, "torch/utils/data/dataloader.py(734): __next__", 4, 98),
    Range(MARK, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 6, 96),
    Range(OP, "aten::stack", 9, 40),
    Range(OP, "aten::cat", 11, 38),
    Range(OP, "aten::copy_", 44, 92),
    Range(CALL, "cudaMemcpyAsync", 46, 88),
    Range(COPY, "Memcpy HtoD (Pinned -> Device)", 52, 86, STREAM),
)
OPTIMIZE = (
    Range(FRAME, "torch/optim/optimizer.py(517): wrapper", 20, 190),
    Range(MARK, "Optimizer.step#AdamW.step", 22, 188),
    Range(FRAME, "torch/optim/adamw.py(225): step", 24, 186),
    Range(OP, "aten::_fused_adamw_", 30, 180),
    Range(CALL, "cudaLaunchKernel", 40, 60),
    Range(KERNEL, "void multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>", 70, 230, STREAM),
    Range(CALL, "cudaStreamSynchronize", 200, 240),
)
WHOLE_RUN = ("train.py(1): <module>", "train.py(72): main")  # frames around all steps
FETCH_US, TURN_US, OPTIMIZE_US = 110, 70, 300  # until the first forward; from the last forward to the first backward; the rest

HEAD = """ {
    "schemaVersion": 1,
    "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936,
      "computeMajor": 9, "computeMinor": 0, "numSms": 132
    }
  ],
      "cupti_version": 26,
      "cuda_runtime_version": 12080,
      "cuda_driver_version": 12080,
      "trace_id": "00000000000000000000000000B16B16",
      "with_stack": %d,
      "host_name": "bench",
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1790857026000000000,
    "traceEvents": [

"""
TAIL = """
  ],"traceName": "big_trace.json" }"""
SLICE = """  {
    "ph": "X",
    "cat": "%s",
    "name": "%s",
    "pid": %s,
    "tid": %s,
    "ts": %s,
    "dur": %d.%03d
    ,
    "args": {
      %s
    }
  },
"""
FLOW = """  {
    "ph": "%s",
    "id": %s,
    "pid": %s,
    "tid": %s,
    "ts": %s,
    "cat": "%s",
    "name": "%s"
    %s
  },
"""
FACT = """  {
    "ph": "M",
    "name": "%s",
    "ts": %s,
    "pid": %s,
    "tid": %s,
    "args": {
      "%s": %s
    }
  },
"""
INSTANT = """  {
    "ph": "i",

    "s": "g",
    "name": "%s",
    "pid": "%s",
    "tid": "%s",
    "ts": %s

  }"""
COPY_ARGUMENTS = '"bytes": 8388608, "memory bandwidth (GB/s)": 246.72376470588236'
KERNEL_ARGUMENTS = """"registers per thread": 168,
      "shared memory": 231424,
      "blocks per SM": 0.848485,
      "warps per SM": 10.181818,
      "grid": [56, 2, 1],
      "block": [384, 1, 1],
      "est. achieved occupancy %": 0"""


@dataclass(frozen=True)
class BigTrace:
    """A trace of so many steps: its text, and what it holds."""

    steps: int
    layers: int = LAYERS
    with_frames: bool = True

    @property
    def by_category(self) -> Counter[str]:
        """Events by category, those that have none by their phase."""
        around = Counter({"M": self._head().count('"ph": "M"') + 1, "i": 2, "Trace": 1, FRAME: self.with_frames * len(WHOLE_RUN)})
        return around + Counter({category: count * self.steps for category, count in self._texts[0].by_category.items()})

    @property
    def events_count(self) -> int:
        return self.by_category.total()

    @property
    def kernel_sum_ns(self) -> int:
        return sum(text.kernel_sum_ns * len(range(at, self.steps, VARIANTS)) for at, text in enumerate(self._texts))

    @property
    def step_bytes(self) -> int:
        """Size of the step in the middle."""
        return sum(len(self._step(texts, self.steps // 2)) for texts in self._parts)

    def text(self, bad_event_at: int | None = None) -> Iterator[bytes]:
        """The file, piece by piece; in the step `bad_event_at`, counted from 0, one name holds unescaped quotes."""
        bad_part = self._parts[self.with_frames]  # that of the frames, or without them that of the ops
        yield self._head().encode()
        for texts in self._parts:
            if self.with_frames and texts is bad_part:
                yield self._whole_run().encode()
            for step in range(self.steps):
                text = self._step(texts, step)
                yield text.replace(b"__next__", b'"__next__"') if step == bad_event_at and texts is bad_part else text
        yield self._end().encode()

    @cached_property
    def _texts(self) -> list["StepText"]:
        return [step_text(self.layers, variant, self.with_frames) for variant in range(VARIANTS)]

    @cached_property
    def _parts(self) -> list[list[bytes]]:
        parts = ("ops", "frames", "calls") if self.with_frames else ("ops", "calls")
        return [[getattr(text, part) for text in self._texts] for part in parts]

    @property
    def _period_us(self) -> int:
        return 10 ** len(str(step_us(self.layers)))

    def _step(self, texts: list[bytes], step: int) -> bytes:
        times, number = b"%d" % (BASE_US // self._period_us + step), b"%d" % (step + 1)
        return texts[step % VARIANTS].replace(TIME.encode(), times).replace(NUMBER.encode(), number)

    def _head(self) -> str:
        def facts(noun: str, pid: int, tid: int, index: int, *more: tuple[str, str]) -> str:
            rows = [*more, ("sort_index", str(index))]
            return "".join(FACT % (f"{noun}_{key}", f"{BASE_US}.000", pid, tid, key, value) for key, value in rows)

        devices = "".join(
            facts("process", d, 0, 5_000_000 + d, ("name", '"python"'), ("labels", f'"GPU {d}"')) for d in range(16)
        )
        threads = "".join(facts("thread", PID, tid, tid, ("name", f'"thread {tid} (python)"')) for tid in (PID, AUTOGRAD_TID))
        host = facts("process", PID, 0, PID, ("name", '"python"'), ("labels", '"CPU"'))
        return HEAD % self.with_frames + host + devices + threads + facts("thread", 0, STREAM, STREAM, ("name", '"stream 7 "'))

    def _whole_run(self) -> str:
        return "".join(
            SLICE % (
                FRAME, name, PID, PID, f"{BASE_US - 10 + number}.000", self.steps * self._period_us + 20 - 2 * number, 0,
                f'"Python parent id": {number - 1 or "null"}, "Python id": {number}, "Ev Idx": {number}',
            )
            for number, name in enumerate(WHOLE_RUN, 1)
        )  # fmt: skip

    def _end(self) -> str:
        start, took = f"{BASE_US - 20}.250", self.steps * self._period_us + 40
        span = SLICE % ("Trace", "PyTorch Profiler (0)", '"Spans"', '"PyTorch Profiler"', start, took, 500, '"Op count": 0')
        order = FACT % ("process_sort_index", start, '"Spans"', 0, "sort_index", 536_870_912)
        begin = INSTANT % ("Iteration Start: PyTorch Profiler", "Traces", "Trace PyTorch Profiler", start)
        return f"{span}{order}{begin},\n{INSTANT % ('Record Window End', '', '', f'{BASE_US + took}.000')}{TAIL}"


class StepText(NamedTuple):
    ops: bytes
    frames: bytes
    calls: bytes
    by_category: Counter[str]
    kernel_sum_ns: int


def write_big_trace(
    path: Path,
    size_bytes: int | None = None,
    *,
    steps: int | None = None,
    layers: int = LAYERS,
    gzip: bool = False,
    with_frames: bool = True,
    bad_event_at: int | None = None,
) -> BigTrace:
    """Write a trace of about `size_bytes` of JSON or of so many steps; `bad_event_at`: the step one of whose names is bad."""
    big = BigTrace(steps or steps_in(size_bytes or 0, layers, with_frames), layers, with_frames)
    with path.open("wb") as plain, GzipFile("", "wb", GZIP_LEVEL, plain, mtime=0) if gzip else plain as file:
        for piece in big.text(bad_event_at):
            file.write(piece)
    return big


def steps_in(size_bytes: int, layers: int = LAYERS, with_frames: bool = True) -> int:
    """How many steps of so many layers make a file of about that size."""
    steps = 1
    for _ in range(2):  # the size of a step depends a little on how many there are: numbers have more digits
        steps = max(1, round(size_bytes / BigTrace(steps, layers, with_frames).step_bytes))
    return steps


def step_us(layers: int) -> int:
    return FETCH_US + FORWARD_US * layers + TURN_US + BACKWARD_US * layers + OPTIMIZE_US


def step_ranges(layers: int) -> Iterator[Range]:
    backward = FETCH_US + FORWARD_US * layers + TURN_US
    yield Range(MARK, f"ProfilerStep#{NUMBER}", 0, step_us(layers) - 10)
    yield from moved(FETCH, 0)
    for layer in range(layers):
        yield from moved(FORWARD_LAYER, FETCH_US + FORWARD_US * layer, layer)
    for turn, layer in enumerate(reversed(range(layers))):
        yield from moved(BACKWARD_LAYER, backward + BACKWARD_US * turn, layer)
    yield from moved(OPTIMIZE, backward + BACKWARD_US * layers)


def moved(ranges: Iterable[Range], by: int, layer: int = 0) -> Iterator[Range]:
    for r in ranges:
        yield r._replace(name=r.name.format(layer=layer), start=r.start + by, end=r.end + by, layer=layer)


@lru_cache(4 * VARIANTS)
def step_text(layers: int, variant: int, with_frames: bool) -> StepText:
    ranges = list(step_ranges(layers))
    frames = [r for r in ranges if r.category == FRAME and with_frames]
    others = [r for r in ranges if r.category != FRAME]
    writer = _Writer(layers, variant, others, frames)
    counts = Counter(r.category for r in [*others, *frames])
    counts["fwdbwd"] = sum(r.grad in (FORWARD, BACKWARD) for r in others)
    counts["ac2g"] = counts[CALL] + counts[KERNEL] + counts[COPY]
    return StepText(writer.ops(), writer.python(), writer.calls(), counts, writer.kernel_sum_ns())


class _Writer:
    """Ranges of a step -> text; a row's number is the step's number and the row, so an op's id also tells its place."""

    def __init__(self, layers: int, variant: int, others: list[Range], frames: list[Range]) -> None:
        self.layers, self.variant, self.others, self.frames = layers, variant, others, frames
        self.time_digits = len(str(step_us(layers)))

    def ops(self) -> bytes:
        return "".join(self._op(row, r) for row, r in enumerate(self.others) if r.category in (OP, MARK)).encode()

    def python(self) -> bytes:
        parents = rows_around(self.frames)
        return "".join(self._frame(row, r, parents[row]) for row, r in enumerate(self.frames)).encode()

    def calls(self) -> bytes:
        callers = rows_around(self.others)
        return "".join(
            self._call(row, r, callers[row]) if r.category == CALL else self._work(row, r, callers[row - 1])
            for row, r in enumerate(self.others)
            if r.category in (CALL, KERNEL, COPY)
        ).encode()

    def kernel_sum_ns(self) -> int:
        return sum(
            end - start for start, end in (self._times(row, r) for row, r in enumerate(self.others) if r.category == KERNEL)
        )

    def _op(self, row: int, r: Range) -> str:
        sequence = number(r.layer, self.layers)
        grad = f'"Sequence number": {sequence}, "Fwd thread id": {int(r.grad != FORWARD)}, ' if r.grad else ""
        index = number(row, len(self.others) + len(self.frames))
        text = self._slice(row, r, f'"External id": {self._id(row)},"Record function id": 0, {grad}"Ev Idx": {index}')
        return text + self._flow(r.grad, "fwdbwd", sequence, row, r) if r.grad in (FORWARD, BACKWARD) else text

    def _frame(self, row: int, r: Range, parent: int | None) -> str:
        above = len(WHOLE_RUN) if parent is None else number(parent, len(self.frames))
        index = number(len(self.others) + row, len(self.others) + len(self.frames))
        return self._slice(
            row, r, f'"Python parent id": {above}, "Python id": {number(row, len(self.frames))}, "Ev Idx": {index}'
        )

    def _call(self, row: int, r: Range, caller: int | None) -> str:
        has_work = self.others[row + 1 :] and self.others[row + 1].category in (KERNEL, COPY)
        arguments = f'"External id": {self._id(caller)}, "cbid": 211, "correlation": {self._id(row)}'
        return self._slice(row, r, arguments) + self._flow(FORWARD if has_work else BACKWARD, "ac2g", self._id(row), row, r)

    def _work(self, row: int, r: Range, caller: int | None) -> str:
        arguments = KERNEL_ARGUMENTS if r.category == KERNEL else COPY_ARGUMENTS
        place = f'"device": 0, "context": 1, "stream": {STREAM}, "correlation": {self._id(row - 1)}'
        text = self._slice(row, r, f'"External id": {self._id(caller)}, {place},\n      {arguments}')
        return text + self._flow(BACKWARD, "ac2g", self._id(row - 1), row, r)

    def _slice(self, row: int, r: Range, arguments: str) -> str:
        start, end = self._times(row, r)
        return SLICE % (r.category, r.name, pid(r), r.tid, self._time(start), *divmod(end - start, 1000), arguments)

    def _flow(self, end: str, category: str, identity: str, row: int, r: Range) -> str:
        time = self._time(self._times(row, r)[0])
        return FLOW % (end, identity, pid(r), r.tid, time, category, category, ', "bp": "e"' if end == BACKWARD else "")

    def _times(self, row: int, r: Range) -> tuple[int, int]:
        """Nanoseconds in the step: a little inside the range, differently for each row and variant."""
        after, before = (row * 389 + self.variant * 211) % JITTER_NS, (row * 173 + self.variant * 97) % JITTER_NS
        return r.start * 1000 + after, r.end * 1000 - before

    def _time(self, ns: int) -> str:
        return f"{TIME}{ns // 1000:0{self.time_digits}}.{ns % 1000:03}"

    def _id(self, row: int | None) -> str:
        return number(row or 0, len(self.others))


def number(row: int, rows: int) -> str:
    return f"{NUMBER}{row:0{len(str(rows))}}"


def pid(r: Range) -> int:
    return 0 if r.tid == STREAM else PID


def rows_around(ranges: list[Range]) -> list[int | None]:
    """The row of the innermost range around each one on its thread, where they stand by start on each thread."""
    rows: list[int | None] = []
    open_rows: dict[int, list[int]] = defaultdict(list)
    for row, r in enumerate(ranges):
        stack = open_rows[r.tid]
        while stack and ranges[stack[-1]].end <= r.start:
            stack.pop()
        rows.append(stack[-1] if stack else None)
        stack.append(row)
    return rows
