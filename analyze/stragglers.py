"""Collectives of all ranks -> who is late to them, what the others lose by it, and what would be gained by being on time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from . import trace as t
from .analyses.collectives import BEYOND_ANY, LEAST_OTHERS, SPIN_RATIO
from .durations import repaired_work
from .findings import NOTABLE_SHARE, Confidence, Evidence, Finding, Text
from .host_tree import HostTree
from .intervals import covered, length, union
from .kernels import COMPUTE, work_class
from .step_marks import marked_steps
from .trace import Ints, Trace
from .waiting import Calls

ONE_CAUSE = 0.9  # of all lateness: the rank is late because of what it does, not by jitter
MANY_CALLS = 10
WORKING_SHARE = 0.5  # of its lateness: the rank works more, rather than sleeps, waits or runs Python
CALLING = "c10d::"  # an operator that starts a collective, and may wait in it


@dataclass(frozen=True)
class Straggler:
    """The rank that most lateness is of; `rank`, `waiting`: places among the traces, the second waits most.

    Nanoseconds of the whole recording: `margin_ns`, by which it comes later than the rank before it, calls at one time once;
    `exposed_ns`, that of it beside which the waiting rank does nothing else; `own_wait_ns`, what it waits itself; `working_ns`,
    what it computes or runs operators for while the rank before it waits.
    """

    rank: int
    waiting: int
    steps_count: int
    ranks_count: int
    calls_count: int
    late_count: int
    late_share: float  # of the lateness of all ranks
    margin_ns: int
    exposed_ns: int
    own_wait_ns: int
    working_ns: int
    worst: tuple[int, int]  # the longest wait, in the waiting rank's time


def without_spinning(traces: Sequence[Trace], calls: Calls) -> pd.DataFrame:
    """The rows but those of a first call in which a rank only waits until the profiler of another has started.

    It began before all ranks recorded, which can only be told of clocks that agree, and takes far longer than any other.
    """
    took = calls.rows.groupby("call").agg(start_ns=("start_ns", "min"), took_ns=("took_ns", "max"))
    took = took.sort_values("start_ns", kind="stable")
    if len(took) <= LEAST_OTHERS:
        return calls.rows
    first_ns, others = int(took["took_ns"].iloc[0]), took["took_ns"].iloc[1:]
    before_all = calls.clocks_apart_ns or took["start_ns"].iloc[0] < max(trace.origin_ns for trace in traces)
    spins = before_all and first_ns > max(SPIN_RATIO * others.median(), BEYOND_ANY * others.max())
    return calls.rows[calls.rows["call"] != took.index[0]] if spins else calls.rows


def straggler(traces: Sequence[Trace], calls: Calls) -> Straggler | None:
    """None where no rank is late to any call."""
    rows = without_spinning(traces, calls).sort_values(["call", "wait_ns"], kind="stable")
    place = rows.groupby("call").cumcount()
    last, before = rows[place == 0].set_index("call"), rows[place == 1].set_index("call")
    late = pd.DataFrame({
        "rank": last["rank"], "start_ns": last["start_ns"], "margin_ns": before["wait_ns"], "second": before["rank"],
        "since_ns": before["start_ns"],
    })  # fmt: skip
    late = late[late["margin_ns"] > 0]
    if late.empty:
        return None
    lateness = late.groupby("rank")["margin_ns"].sum()
    rank = int(lateness.index[int(lateness.argmax())])
    own, waits = late[late["rank"] == rank], rows[rows["call"].isin(late.index[late["rank"] == rank])]
    waits = waits[waits["rank"] != rank]
    waited = waits.groupby("rank")["wait_ns"].sum()
    waiting = int(waited.index[int(waited.argmax())])
    worst = waits[waits["rank"] == waiting].nlargest(1, "wait_ns").iloc[0]
    begun_ns = int(worst["start_ns"]) - traces[waiting].origin_ns
    return Straggler(
        rank=rank,
        waiting=waiting,
        steps_count=max(1, int((~marked_steps(traces[rank])["aside"]).sum())),
        ranks_count=len(traces),
        calls_count=rows["call"].nunique(),
        late_count=len(own),
        late_share=float(lateness.max() / lateness.sum()),
        margin_ns=_margin(own),
        exposed_ns=sum(_exposed(traces[second], own[own["second"] == second]) for second in own["second"].unique().tolist()),
        own_wait_ns=int(rows.loc[rows["rank"] == rank, "wait_ns"].sum()),
        working_ns=min(_working(traces[rank], own), _more_work(traces, rank)),
        worst=(begun_ns, begun_ns + int(worst["wait_ns"])),
    )


def exposed_waits(traces: Sequence[Trace], calls: pd.DataFrame) -> list[int]:
    """For each rank how long it waits in collectives and does nothing else beside, calls at one time once; `calls`: rows."""
    return [_exposed_wait(trace, calls[calls["rank"] == place]) for place, trace in enumerate(traces)]


def _exposed_wait(trace: Trace, calls: pd.DataFrame) -> int:
    begun = calls["start_ns"].to_numpy() - trace.origin_ns
    start, end = union(begun, begun + calls["wait_ns"].to_numpy())
    return int((end - start - covered(*_work(trace), start, end)).sum())


def _spans(calls: pd.DataFrame) -> tuple[Ints, Ints]:
    """When a rank waits for the late one alone, calls at one time once."""
    since = calls["since_ns"].to_numpy()
    return union(since, since + calls["margin_ns"].to_numpy())


def _margin(calls: pd.DataFrame) -> int:
    start, end = _spans(calls)
    return int((end - start).sum())


def _exposed(trace: Trace, calls: pd.DataFrame) -> int:
    """Of a waiting rank: without the time beside which it computes."""
    start, end = (times - trace.origin_ns for times in _spans(calls))
    return int((end - start - covered(*_work(trace), start, end)).sum())


def _working(trace: Trace, calls: pd.DataFrame) -> int:
    """What the late rank computes right before it comes, for as long as another waits."""
    arrived = calls["start_ns"].to_numpy() - trace.origin_ns
    start, end = union(arrived - calls["margin_ns"].to_numpy(), arrived)
    return int(covered(*_work(trace), start, end).sum())


def _more_work(traces: Sequence[Trace], rank: int) -> int:
    """How much longer it computes than the ranks do that wait for it: what only comes late computes no more than they."""
    own, *others = (length(*_work(traces[one])) for one in (rank, *(other for other in range(len(traces)) if other != rank)))
    return max(0, own - int(np.median(others)))


def _work(trace: Trace) -> tuple[Ints, Ints]:
    """When a rank's GPUs compute; of a CPU run when operators run that hold no others."""
    if len(trace.device):
        work = repaired_work(trace)[work_class(trace) == COMPUTE]
        return union(work.start_ns, work.end_ns)
    tree = HostTree.of(trace, trace.host.category == t.OP)
    calling = np.array([name.startswith(CALLING) for name in trace.names], bool)
    leaves = tree.row[np.setdiff1d(np.arange(len(tree)), tree.around)]
    leaves = leaves[~calling[trace.host.name[leaves]]]
    return union(trace.host.start_ns[leaves], trace.host.end_ns[leaves])


def finding(late: Straggler, traces: Sequence[Trace], all_given: bool) -> Finding | None:
    """None where it would save too little.

    Expected: what the others wait for it alone and do nothing else beside, less what it waits itself, which work that only comes
    at another moment is. The least: if its surplus is not removed but shared by all. The most: all of its lateness.
    """
    net_ns = max(0, late.exposed_ns - late.own_wait_ns)
    saving, high = net_ns / late.steps_count, late.margin_ns / late.steps_count
    rank, waiting = (traces[place].source.rank or 0 for place in (late.rank, late.waiting))
    if saving < NOTABLE_SHARE * traces[late.waiting].window_ns / late.steps_count or not net_ns:
        return None
    working = late.working_ns >= WORKING_SHARE * late.margin_ns
    return Finding(
        id="straggler",
        title=Text.of("Make rank {rank} as fast as the others", rank=str(rank)),
        problem=Text.of(
            "Rank {rank} comes last to {late_count} of {calls_count:collective}, and the others wait for it {saving_ns} a step. "
            "That time passes inside collectives, where no figure of one rank alone tells it from their own.",
            rank=str(rank), late_count=late.late_count, calls_count=late.calls_count, saving_ns=saving,
        ),
        advice=_advice(late, str(rank), working),
        saving_ns=saving,
        low_ns=saving * (late.ranks_count - 1) / late.ranks_count,
        high_ns=max(saving, high),
        confidence=_confidence(late, all_given),
        evidence=(
            Evidence("of all lateness to collectives, that rank's part", "late_share", late.late_share, rank=rank),
            Evidence("work of that rank while the others wait", "working_ns", late.working_ns, rank=rank),
            Evidence("longest wait for it", "wait_ns", late.worst[1] - late.worst[0], *late.worst, waiting),
        ),
        bound="compute" if working else "host",
        phase="other",
        assumes=("what makes it late can go",),
    )  # fmt: skip


def _advice(late: Straggler, rank: str, working: bool) -> Text:
    """What to look at, by what it does while the others wait."""
    share = late.working_ns / late.margin_ns
    if working:
        return Text.of(
            "It works in {working_share} of that time: compare its batch with that of the others (longer sequences, more tokens "
            "or experts, an uneven last shard) and balance it, and the clocks, power limit and neighbours of its machine.",
            working_share=share,
        )  # fmt: skip
    return Text.of(
        "It works in only {working_share} of that time: look for what rank {rank} alone does on the host (loading data, logging, "
        "checkpoints, garbage collection, a sleep, threads short of cores). Report on it with --rank {rank}.",
        working_share=share, rank=rank,
    )  # fmt: skip


def _confidence(late: Straggler, all_given: bool) -> Confidence:
    """High: nearly all lateness is of one rank, over many calls; low: it is not, or another rank may be later still."""
    if late.late_share < ONE_CAUSE or not all_given:
        return "low"
    return "high" if late.calls_count >= MANY_CALLS else "medium"
