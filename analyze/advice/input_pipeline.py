"""Does the GPU idle while the program fetches its next batch?"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor

import numpy as np

from ..findings import NOTABLE_SHARE, Confidence, Evidence, Text
from ..gpu_gaps import LOADING, idle_gaps, idle_withheld, loader_ranges
from ..grouping import group_sums
from ..intervals import covered, length, union
from ..links import launching_call
from ..loaders import Loader, has_workers, loader_of
from ..proposals import Proposal, Saving
from ..step_marks import marked_steps, with_time_before
from ..step_time import row_at
from ..trace import HostRanges, Ids, Ints, Trace

LATE_FACTOR = 5  # times the median wait: a late batch
LATE_NS = 1_000_000  # a shorter wait is the hand-over from a worker
LATE_PART = 0.5  # of all waiting: then the late batches are the trouble
REGULAR = 0.8  # of the distances between late batches
CHEAPER = 0.5  # of the wait goes, it is guessed, where loading itself must become cheaper
NO_CORES = "This recording does not tell whether the machine has free cores for more workers"
ALL_TAKEN = "No core of the machine is free for more workers"
SOON_HERE = "With num_workers a batch's way from its worker takes about as long as it is waited for now"
MAKE_CHEAPER = (
    "make a batch cheaper: decode, resize and tokenize once and store the result, fetch whole batches (__getitems__) instead of "
    "single items, move augmentation to the GPU"
)


@dataclass(frozen=True)
class Loading:
    """Of the counted steps with the time before each, per step: waiting for a batch, the rest, how long a GPU idles meanwhile.

    `has_workers`: None where no DataLoader of torch is named. `free_cores`: None where the recorder did not note it.
    """

    loader: Loader
    idle_ns: float
    has_workers: bool | None
    free_cores: int | None

    def goes(self, step_ns: float) -> float:
        """The part of that idle time that goes where the host, the loader and the cores need so long for a step."""
        return min(1.0, max(0.0, self.loader.step_ns - step_ns) / max(self.idle_ns, 1))


@dataclass(frozen=True)
class Fix:
    """What to do, and the expected part of the wait that goes."""

    title: str
    advice: Text
    expected_share: float
    confidence: Confidence


def input_pipeline(trace: Trace) -> Iterator[Proposal]:
    """Idle time inside of data loading on the thread of the steps, of the GPU that idles most there, where it is notable."""
    if not len(trace.device) or idle_withheld(trace):
        return
    fetches = _fetches(trace)
    devices, idle = _idle(trace, fetches)
    if len(fetches) and idle.max(initial=0) >= NOTABLE_SHARE * trace.window_ns:
        several = len(np.unique(trace.device.device)) > 1
        yield _proposal(trace, fetches, int(idle.max()), f"GPU {devices[int(idle.argmax())]}" if several else "The GPU")


def _idle(trace: Trace, fetches: HostRanges) -> tuple[Ids, Ints]:
    """Devices that idle at all, and how long each of them does while a batch is fetched."""
    gaps = idle_gaps(trace)
    devices, place = np.unique(gaps.device, return_inverse=True)
    beside = covered(*union(fetches.start_ns, fetches.end_ns), gaps.start, gaps.end)
    return devices, group_sums(place, beside, len(devices))


def _fetches(trace: Trace) -> HostRanges:
    """In order; what another thread loads meanwhile holds nobody."""
    found = trace.host[loader_ranges(trace)]
    found = found[np.isin(found.thread, marked_steps(trace)["thread"].unique())]
    return found[np.argsort(found.start_ns, kind="stable")]


def _proposal(trace: Trace, fetches: HostRanges, idle_ns: int, gpu: str) -> Proposal:
    loading = _loading(trace, fetches)
    loader, fix, (late, words) = loading.loader, _fix(loading), _late(fetches, loading)
    longest = int(np.argmax(fetches.end_ns - fetches.start_ns))
    known = bool((launching_call(trace) >= 0).any())  # else a replay does not know that the GPU waits for the host
    per_step_ns = idle_ns / max(1, int(marked_steps(trace)["counted"].sum()))
    values = {"gpu": gpu, "idle_ns": idle_ns, "window_ns": trace.window_ns, "loading_ns": loader.loading_ns}
    return Proposal(
        id="input_pipeline",
        title=Text.of(fix.title),
        problem=Text(
            "{gpu} idles {idle_ns} of the recorded {window_ns} while the program waits for its next batch, {loading_ns} in "
            "each step." + words,
            {**values, **late},
        ),
        advice=fix.advice,
        bound="input_pipeline",
        phase=LOADING,
        evidence=(
            Evidence("the GPU idles during data loading", "idle_ns", idle_ns),
            Evidence("waiting for data, per step", "loading_ns", loader.loading_ns),
            Evidence("the rest of the step", "rest_ns", loader.rest_ns),
            Evidence(
                "the longest wait", "longest_ns", int(fetches.end_ns[longest] - fetches.start_ns[longest]),
                int(fetches.start_ns[longest]), int(fetches.end_ns[longest]),
            ),
        ),
        changes=("data x0",) if known else (),
        saving=None if known else Saving(0.0, fix.expected_share * per_step_ns, per_step_ns),
        expected_share=fix.expected_share if known else 1.0,
        best_confidence=fix.confidence if known else "low",
        assumes="batches are made beside the rest of the step",
    )  # fmt: skip


def _loading(trace: Trace, fetches: HostRanges) -> Loading:
    steps = with_time_before(trace)
    steps = steps[steps["counted"]]
    since, end = steps["since_ns"].to_numpy(), steps["end_ns"].to_numpy()
    loading_ns = float(covered(*union(fetches.start_ns, fetches.end_ns), since, end).mean())
    loader = loader_of(trace, loading_ns, float((end - since).mean()) - loading_ns)
    own = fetches[row_at(since, end, fetches.start_ns) >= 0]
    idle_ns = float(_idle(trace, own)[1].max(initial=0)) / max(1, len(steps))
    return Loading(loader, idle_ns, has_workers(trace), _free_cores(trace, loader.workers_count))


def _free_cores(trace: Trace, workers: int | None) -> int | None:
    """Usable cores without those of the workers and of this process, as its unprofiled steps took them; of one rank alone."""
    manifest = trace.manifest
    if manifest is None or manifest.world_size > 1 or workers is None:
        return None
    cores, cpu_ns = manifest.machine.get("cpu_usable_count"), manifest.options.get("unprofiled_cpu_ns")
    wall_ns = sum(manifest.unprofiled_step_ns)
    if not isinstance(cores, int) or not isinstance(cpu_ns, int) or not wall_ns:
        return None
    return max(0, floor(cores - workers - cpu_ns / wall_ns))


def _fix(loading: Loading) -> Fix:
    """Expected: what Loader says of a step with the advised workers, one where more cannot be known to have a core; no more goes
    than the GPU idles. Loading that must become cheaper: a guess.
    """
    if loading.free_cores == 0:
        return _cheaper(ALL_TAKEN)
    if loading.has_workers and not (loading.free_cores and loading.loader.workers_count):
        return _cheaper(NO_CORES)
    fix = (_ahead if loading.has_workers is None else _more if loading.has_workers else _first)(loading)
    return fix if fix.expected_share else _cheaper(SOON_HERE)


def _ahead(loading: Loading) -> Fix:
    advice = Text.of(
        "Make the next batch while the GPU works on this one: a DataLoader with num_workers=1 does it in another process, a "
        f"thread with a queue for code that waits for files or the network. Where all cores are busy, {MAKE_CHEAPER}."
    )
    return Fix("Make the next batch while the GPU works", advice, loading.goes(loading.loader.with_workers(1)), "medium")


def _first(loading: Loading) -> Fix:
    loader = loading.loader
    count = max(1, min(loading.free_cores or 1, ceil(loader.loading_ns / max(loader.rest_ns, 1))))
    advice = Text.of(
        "Give the DataLoader num_workers={workers_count}, so that batches are made while the GPU works, with pin_memory=True and "
        "persistent_workers=True"
        + ("" if loading.free_cores else ", if the machine has a free core, which this recording does not tell")
        + f". For data that fits in memory, index one tensor instead. Else {MAKE_CHEAPER}.",
        workers_count=count,
    )
    return Fix("Load the next batch in a worker process", advice, loading.goes(loader.with_workers(count)), "medium")


def _more(loading: Loading) -> Fix:
    loader, free = loading.loader, loading.free_cores or 0
    workers = loader.workers_count or 1
    count = min(workers + free, ceil(workers * loader.step_ns / max(loader.rest_ns, 1)))
    advice = Text.of(
        "Raise num_workers from {now_count} to {workers_count}: the machine has cores to spare. Keep pin_memory=True and "
        "persistent_workers=True; a larger prefetch_factor helps only where single batches are late.",
        now_count=workers, workers_count=count,
    )  # fmt: skip
    return Fix("Give the DataLoader more workers", advice, loading.goes(loader.with_more_workers(count / workers)), "medium")


def _cheaper(why: str) -> Fix:
    advice = Text.of(f"{why}, so {MAKE_CHEAPER}. Where single batches are late, a larger prefetch_factor evens them out.")
    return Fix("Make batches cheaper to load", advice, CHEAPER, "low")


def _late(fetches: HostRanges, loading: Loading) -> tuple[dict[str, int], str]:
    """Numbers and words about single batches that come late from workers."""
    waits = fetches.end_ns - fetches.start_ns
    late = np.flatnonzero(waits >= max(LATE_NS, LATE_FACTOR * float(np.median(waits))))
    if not loading.has_workers or not len(late) or waits[late].sum() < LATE_PART * length(fetches.start_ns, fetches.end_ns):
        return {}, ""
    found = {"late_count": len(late), "batches_count": len(waits), "late_ns": int(waits[late].sum())}
    words = " Few batches are late: {late_count} of {batches_count} hold {late_ns} of the waiting"
    distance = _distance(late)
    if distance is None:
        return found, words + ", at no fixed distance: they take longer to make than others."
    return (
        found | {"distance_count": distance},
        words + ", one in {distance_count}: the workers start together and finish together, so all of them are too slow.",
    )


def _distance(late: Ints) -> int | None:
    """From one late batch to the next, where it is nearly always the same and not the very next."""
    if len(late) < 3:
        return None
    distance, count = Counter(np.diff(late).tolist()).most_common(1)[0]
    return distance if distance > 1 and count >= REGULAR * (len(late) - 1) else None
