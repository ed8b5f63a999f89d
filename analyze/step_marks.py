"""Trace -> the steps it marks, and which of them statistics may use."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd

from . import trace as t
from .launches import launch_start
from .loading.whole import PROFILER_STEP
from .trace import Ints, Mask, Trace

SERVING_STEP = re.compile(r"step\[(\w+)")
TOKENS = re.compile(r"\btoks=(\d+)")  # SGLang names them for EXTEND
QUERY_TOKENS = re.compile(r"\b[cg]_sq=(\d+)")  # of context and of generation, where the names are detailed
BATCH = re.compile(r"\bbs=(\d+)")
PREFILL, DECODE = "prefill", "decode"
SERVING_PHASES = {"extend": PREFILL}  # SGLang's word: it extends what the cache holds
PARTIAL_OPS_SHARE = 0.8  # a last step with fewer of the ops of the step before it was cut off
PARTIAL_TIME_SHARE = 0.5  # of the median of the others
LEAST_ALIKE = 3  # serving steps: the last and two others, as the first of a kind may be a slow one
OUTLIER_FACTOR = 1.5  # times the median
WHOLE_TRACE = "window"  # the name of the one step of a trace that marks none
CUT_OFF, ASIDE, OTHER_KIND, WARMING_UP = "cut off", "beside another", "of another kind", "still warming up"


@dataclass(frozen=True)
class LeftOut:
    """A step that a comparison leaves out, and why: CUT_OFF, ASIDE, OTHER_KIND or WARMING_UP."""

    name: str
    why: str


def marked_steps(trace: Trace) -> pd.DataFrame:
    """One row a step by start: ProfilerStep#N, in serving traces step[...], else the window as one.

    Columns: name; start_ns, end_ns, step_ns; thread (row of Trace.threads); kind ("" or, in serving traces, the phase that
    step[...] names: prefill, decode, or the engine's word); partial; aside (of another thread than most, or begun before the step
    before it ended: its time would count twice); counted (neither, and of the kind that holds most time: what statistics use;
    of a settled trace without a first one that is an outlier); outlier.
    """
    return _found(trace).copy()


def with_time_before(trace: Trace) -> pd.DataFrame:
    """The steps that are not set aside, each with since_ns: the end of the one before, of the first its own start.

    What happens between two marks, such as the loading of a batch, is part of no step, and yet the next one waits for it.
    """
    rows = marked_steps(trace)
    rows = rows[~rows["aside"]]
    return rows.assign(since_ns=rows["end_ns"].shift().fillna(rows["start_ns"]).astype(np.int64))


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def _found(trace: Trace) -> pd.DataFrame:
    if trace.excerpt is not None:
        return trace.excerpt.steps
    rows = _with_fates(trace, _marked(trace))
    if trace.whole_until_ns is not None and not (~rows["partial"] & ~rows["aside"]).any():
        rows = _with_fates(trace, _window(trace))  # of a file that was cut off within its first step
    whole = rows.loc[~rows["partial"] & ~rows["aside"]]
    main_kind = whole.groupby("kind")["step_ns"].sum().idxmax() if len(whole) else ""
    rows["counted"] = ~rows["partial"] & ~rows["aside"] & (rows["kind"] == main_kind)
    rows["outlier"] = rows["counted"] & (rows["step_ns"] > OUTLIER_FACTOR * rows.loc[rows["counted"], "step_ns"].median())
    if trace.settled:
        rows["counted"] &= ~_warming_up(rows)
    return rows


def _warming_up(rows: pd.DataFrame) -> Mask:
    """A first counted step that is an outlier: it fills caches and starts threads, which no later step does."""
    return (rows["outlier"] & (rows["counted"].cumsum() == 1)).to_numpy()


@lru_cache(maxsize=4)
def settled(trace: Trace) -> Trace:
    """The trace as comparisons see it: a first step that still warms up is not counted."""
    return replace(trace, settled=True) if _warming_up(_found(trace)).any() else trace


def left_out(trace: Trace) -> tuple[LeftOut, ...]:
    """The steps that a comparison leaves out."""
    rows = marked_steps(settled(trace))
    why = np.select([rows["partial"], rows["aside"], rows["outlier"]], [CUT_OFF, ASIDE, WARMING_UP], OTHER_KIND)
    names = rows["name"].to_numpy()[~rows["counted"]]
    return tuple(LeftOut(*told) for told in zip(names.tolist(), why[~rows["counted"]].tolist(), strict=True))


def _with_fates(trace: Trace, rows: pd.DataFrame) -> pd.DataFrame:
    rows["aside"] = _aside(rows)
    rows["partial"] = False
    rows.loc[~rows["aside"], "partial"] = _partial(trace, rows[~rows["aside"]])
    return rows


def step_ranges(trace: Trace) -> Mask:
    """Which host ranges mark steps, by the rule of `marked_steps`."""
    for pattern in (PROFILER_STEP, SERVING_STEP):
        named = np.array([bool(pattern.match(name)) for name in trace.names], bool)
        marked = (trace.host.category == t.ANNOTATION) | (trace.host.category == t.OP)  # before 2021-06 all were operators
        marked[marked] = named[trace.host.name[marked]]
        if marked.any():
            return marked
    return np.zeros(len(trace.host), bool)


def _marked(trace: Trace) -> pd.DataFrame:
    marked = trace.host[step_ranges(trace) & (trace.host.end_ns > trace.host.start_ns)]
    if not len(marked):
        return _window(trace)
    marked = marked[np.argsort(marked.start_ns, kind="stable")]
    names = [str(trace.names[i]) for i in marked.name]
    words = [serving.group(1).lower() if (serving := SERVING_STEP.match(name)) else "" for name in names]
    kinds = [SERVING_PHASES.get(word, word) for word in words]
    return pd.DataFrame({
        "name": names, "start_ns": marked.start_ns, "end_ns": marked.end_ns, "thread": marked.thread, "kind": kinds,
        "step_ns": marked.end_ns - marked.start_ns,
    })  # fmt: skip


def _window(trace: Trace) -> pd.DataFrame:
    """The whole recording as the one step."""
    row = {"name": WHOLE_TRACE, "start_ns": 0, "end_ns": trace.window_ns, "thread": _busiest_thread(trace), "kind": ""}
    return pd.DataFrame([{**row, "step_ns": trace.window_ns}])


def _aside(rows: pd.DataFrame) -> Mask:
    main_thread = rows.groupby("thread")["step_ns"].sum().idxmax()
    reach, aside = -1, []
    for start, end, thread in zip(rows["start_ns"], rows["end_ns"], rows["thread"], strict=True):
        aside.append(thread != main_thread or start < reach)
        reach = reach if aside[-1] else end
    return np.array(aside, bool)


def _busiest_thread(trace: Trace) -> int:
    """The thread whose outermost ranges cover most time: where an unmarked loop runs."""
    host = trace.host
    rows = np.isin(host.category, (t.OP, t.ANNOTATION, t.RUNTIME))
    if not rows.any():
        return -1
    return int(np.bincount(host.thread[rows], weights=host.end_ns[rows] - host.start_ns[rows]).argmax())


def _partial(trace: Trace, rows: pd.DataFrame) -> Mask:
    """The last step, where the end of the capture cut it off; in a file that was cut off, all that it may not hold whole."""
    partial = np.zeros(len(rows), bool)
    if trace.whole_until_ns is not None and rows["name"].iloc[0] != WHOLE_TRACE:
        return (rows["end_ns"] > trace.whole_until_ns).to_numpy()
    if _known_whole(trace, len(rows)):
        return partial
    if len(rows) < 2:
        return partial
    last = rows.iloc[-1]
    unfinished = trace.host[~trace.host.finished]
    holds_unfinished = bool(((unfinished.start_ns >= last["start_ns"]) & (unfinished.start_ns < last["end_ns"])).any())
    partial[-1] = holds_unfinished or _holds_less(trace, _like_the_last(rows))
    return partial


def _holds_less(trace: Trace, rows: pd.DataFrame) -> bool:
    """Whether the last of these steps does, or lasts, much less than the others."""
    if len(rows) < (LEAST_ALIKE if rows["kind"].any() else 2):
        return False
    work, times = _ops_per_step(trace, rows), rows["step_ns"].to_numpy()
    return bool(work[-1] < PARTIAL_OPS_SHARE * work[-2] or times[-1] < PARTIAL_TIME_SHARE * np.median(times[:-1]))


def _like_the_last(rows: pd.DataFrame) -> pd.DataFrame:
    """Of serving steps those of its kind with as many tokens, as others differ in all else; of other steps all."""
    if not rows["kind"].any():
        return rows
    tokens = np.array([tokens_of(name, kind) for name, kind in zip(rows["name"], rows["kind"], strict=True)])
    return rows[(rows["kind"] == rows["kind"].iloc[-1]) & (tokens == tokens[-1])]


def tokens_of(name: str, phase: str) -> float:
    """Tokens that a step puts through the model, as its mark tells; NaN where it does not."""
    if told := TOKENS.search(name):
        return int(told[1])
    if queries := QUERY_TOKENS.findall(name):
        return sum(map(int, queries))
    batch = BATCH.search(name)
    return int(batch[1]) if batch and phase == DECODE else float("nan")  # a decode step makes one token for each request


def _known_whole(trace: Trace, count: int) -> bool:
    """Whether the recorder itself says that it recorded these steps to their end."""
    manifest = trace.manifest
    return manifest is not None and manifest.complete and manifest.options.get("recorded_steps") == count


def _ops_per_step(trace: Trace, rows: pd.DataFrame) -> Ints:
    """Ops that run in each step, at least in part; where there are none, device work, by its launch where that is known."""
    is_op = (trace.host.category == t.OP) & ~step_ranges(trace)
    start, end = (work[is_op] for work in (trace.host.start_ns, trace.host.end_ns))
    if not len(start):
        launched = launch_start(trace)
        start = np.where(launched >= 0, launched, trace.device.start_ns)
        end = np.where(launched >= 0, launched + 1, trace.device.end_ns)
    return np.searchsorted(np.sort(start), rows["end_ns"]) - np.searchsorted(np.sort(end), rows["start_ns"], side="right")
