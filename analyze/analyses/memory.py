"""What takes the memory, and does it grow?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..allocations import HOST, OpenOps, alive, levels, net_changes, open_ops, place_name, places
from ..step_marks import WHOLE_TRACE, marked_steps
from ..step_time import OUTSIDE_LABEL
from ..timeline import extremes, timeline
from ..trace import Allocations, Ints, Trace

BEFORE = "(before the recording)"
STEADY_STEPS = 3  # one or two steps may fill caches, or make the state of an optimizer
UNCOUNTED = "the file does not say what was allocated before the recording"


@dataclass(frozen=True)
class Pool:
    """The memory of the host or of one device; None is what the file does not tell."""

    device: int  # HOST for the host's
    peak_bytes: int | None
    peak_ts_ns: int  # the first moment of the peak; 0 where nothing later goes above what was there before
    peak_op: str | None  # the innermost operator then open on the thread that allocated
    before_bytes: int | None
    allocated_bytes: int
    net_change_bytes: int
    step_net_bytes: tuple[int, ...]  # of the counted steps, where steps are marked

    @property
    def growth_bytes(self) -> int:
        """What each counted step keeps at least; 0 where one keeps nothing, or there are too few to tell."""
        return max(0, min(self.step_net_bytes)) if len(self.step_net_bytes) >= STEADY_STEPS else 0


@dataclass(frozen=True, eq=False)
class Memory:
    """`pools`: the devices by id, then the host, where they have events; `place` names one in the tables.

    `ops`: who allocated: device; place; op (the innermost operator on the allocating thread); caller (the outermost one);
    count; allocated_bytes (releases are not taken off). `at_peak`: what was alive at the peak: device; place; op; caller;
    live_bytes; live_share (of the peak); no rows where the file does not tell. BEFORE: what was allocated before the recording,
    or by threads that were not recorded. The most bytes of each place come first.
    `steps`: the counted steps: name; place; start_bytes, peak_bytes, end_bytes (held; NaN where the file does not tell);
    net_change_bytes. `timeline`: what was held, as in analyze/timeline.py, of each place: device; place; start_ns, end_ns;
    low_bytes, high_bytes, last_bytes; without the allocator's own count, what was held above that at the start.
    """

    pools: Sequence[Pool]
    ops: pd.DataFrame
    at_peak: pd.DataFrame
    steps: pd.DataFrame
    timeline: pd.DataFrame

    @property
    def measures(self) -> Mapping[str, Any]:
        on_devices = {"device_peak_bytes": "peak_bytes", "before_window_bytes": "before_bytes", **_SHARED}
        on_host = {"host_peak_bytes": "peak_bytes", **{f"host_{name}": field for name, field in _SHARED.items()}}
        devices, host = ([p for p in self.pools if (p.device == HOST) is of_host] for of_host in (False, True))
        told = {name: self._values(devices, field) for name, field in on_devices.items()} if devices else {}
        told |= {name: self._values(host, field) for name, field in on_host.items()} if host else {}
        return {name: value for name, value in told.items() if name not in self.withheld and value != ()}

    def _values(self, pools: Sequence[Pool], field: str) -> Any:
        """One value, or of several devices each by its id."""
        by_op = {p.device: self.ops[self.ops["device"] == p.device].groupby("op")["allocated_bytes"].sum() for p in pools}
        values = {p.device: by_op[p.device].to_dict() if field == "by_op" else getattr(p, field) for p in pools}
        return values if len(values) > 1 else values[pools[0].device]

    @property
    def withheld(self) -> Mapping[str, str]:
        uncounted = [p.device == HOST for p in self.pools if p.peak_bytes is None]
        names = [("host_peak_bytes",) if on_host else ("device_peak_bytes", "before_window_bytes") for on_host in uncounted]
        return dict.fromkeys((name for of in names for name in of), UNCOUNTED)

    @property
    def overview(self) -> pd.DataFrame:
        """`pools` as a table; NaN is what the file does not tell."""
        rows = [{**vars(p), "place": place_name(p.device), "peak_op": p.peak_op or "–"} for p in self.pools]
        return pd.DataFrame(rows).astype({"peak_bytes": float, "before_bytes": float})

    @property
    def growing(self) -> pd.DataFrame:
        """Where every counted step keeps some: place, growth_bytes."""
        return pd.DataFrame(
            [{"place": place_name(p.device), "growth_bytes": p.growth_bytes} for p in self.pools if p.growth_bytes],
            columns=["place", "growth_bytes"],
        )


_SHARED = {  # measures of devices, and with `host_` before them of the host -> the field of a pool
    "peak_ts_ns": "peak_ts_ns", "peak_op": "peak_op", "allocated_in_window_bytes": "allocated_bytes",
    "net_change_bytes": "net_change_bytes", "step_net_change_bytes": "step_net_bytes", "allocated_by_op_bytes": "by_op",
}  # fmt: skip


def memory(trace: Trace) -> Memory:
    """Peak, growth and origin of what was allocated, on each device and the host."""
    if not len(trace.allocations):
        raise MissingData("The trace holds no memory events; capture with profile_memory=True.")
    events = trace.allocations[np.argsort(trace.allocations.time_ns, kind="stable")]
    place, around, steps = places(events), open_ops(trace, events), _counted_steps(trace)
    devices = sorted(np.unique(place).tolist(), key=lambda device: (device == HOST, device))
    own = {device: events[place == device] for device in devices}
    found = [_one(trace, device, own[device], around[place == device], steps) for device in devices]
    return Memory(
        pools=[pool for pool, _, _ in found],
        ops=pd.concat([ops for _, ops, _ in found], ignore_index=True),
        at_peak=pd.concat([at_peak for _, _, at_peak in found], ignore_index=True),
        steps=pd.concat([_step_rows(pool, own[pool.device], steps) for pool, _, _ in found], ignore_index=True),
        timeline=pd.concat([_timeline(trace, device, own[device]) for device in devices], ignore_index=True),
    )


def _counted_steps(trace: Trace) -> pd.DataFrame:
    steps = marked_steps(trace)
    return steps[steps["counted"] & (steps["name"] != WHOLE_TRACE)]


def _one(
    trace: Trace, device: int, events: Allocations, around: OpenOps, steps: pd.DataFrame
) -> tuple[Pool, pd.DataFrame, pd.DataFrame]:
    """Of one device or the host: its pool, who allocated there, and what was alive at the peak."""
    before, level = levels(events)
    highest = int(np.argmax(level))
    top = highest if level[highest] > (before or 0) else -1
    grows = np.flatnonzero(events.size_bytes > 0)
    pool = Pool(
        device=device,
        peak_bytes=None if before is None else max(before, int(level[highest])),
        peak_ts_ns=0 if top < 0 else int(events.time_ns[top]),
        peak_op=str(trace.names[around.inner[top]]) if top in grows and around.inner[top] >= 0 else None,
        before_bytes=before,
        allocated_bytes=int(events.size_bytes[grows].sum()),
        net_change_bytes=int(events.size_bytes.sum()),
        step_net_bytes=tuple(net_changes(events, steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()).tolist()),
    )
    ops = _by_op(trace, device, events[grows], around[grows], "allocated_bytes")
    return pool, ops, _at_peak(trace, pool, events, around, alive(events, top))


def _by_op(trace: Trace, device: int, events: Allocations, around: OpenOps, column: str) -> pd.DataFrame:
    """Sizes by the operators around them, the most first."""
    names = np.array([*trace.names, OUTSIDE_LABEL], object)
    sizes = pd.DataFrame({"op": around.inner, "caller": around.outer, column: events.size_bytes})
    sums = sizes.groupby(["op", "caller"])[column].agg(["count", "sum"]).reset_index()
    sums = sums.sort_values("sum", ascending=False, kind="stable", ignore_index=True)
    return pd.DataFrame({
        "device": device, "place": place_name(device), "op": names[sums["op"]], "caller": names[sums["caller"]],
        "count": sums["count"], column: sums["sum"],
    })  # fmt: skip


def _at_peak(trace: Trace, pool: Pool, events: Allocations, around: OpenOps, rows: Ints | None) -> pd.DataFrame:
    """What was alive by who allocated it, and the rest of the peak; empty where the file does not tell one of them."""
    if rows is None or not pool.peak_bytes:
        return pd.DataFrame()
    known = _by_op(trace, pool.device, events[rows], around[rows], "live_bytes").drop(columns="count")
    if rest_bytes := pool.peak_bytes - int(known["live_bytes"].sum()):
        rest = {"device": pool.device, "place": place_name(pool.device), "op": BEFORE, "caller": BEFORE, "live_bytes": rest_bytes}
        known = pd.concat([known, pd.DataFrame([rest])]) if len(known) else pd.DataFrame([rest])
    known = known.sort_values("live_bytes", ascending=False, kind="stable")
    return known.assign(live_share=known["live_bytes"] / pool.peak_bytes)


def _step_rows(pool: Pool, events: Allocations, steps: pd.DataFrame) -> pd.DataFrame:
    before, level = levels(events)
    start, end = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    _, peak, last = extremes(events.time_ns, level, before or 0, start, end)
    held = {"start_bytes": last - pool.step_net_bytes, "peak_bytes": peak, "end_bytes": last}
    known = {name: values.astype(float) if before is not None else np.nan for name, values in held.items()}
    return pd.DataFrame({
        "name": steps["name"], "place": place_name(pool.device), **known, "net_change_bytes": list(pool.step_net_bytes),
    })  # fmt: skip


def _timeline(trace: Trace, device: int, events: Allocations) -> pd.DataFrame:
    before, level = levels(events)
    pieces = timeline(events.time_ns, level, before or 0, trace.window_ns)
    named = pieces.rename(columns={name: f"{name}_bytes" for name in ("low", "high", "last")})
    return named.assign(device=device, place=place_name(device))
