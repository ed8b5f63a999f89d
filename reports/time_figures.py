"""Report -> what changes over time: memory held, and work that waits for each GPU; charts and their captions."""

from collections.abc import Sequence

import pandas as pd

from ..analyze.allocations import HOST
from ..analyze.analyses.memory import Memory, Pool
from . import formats as f
from .charts import Chart, Lane, Piece, StepSpan, over_time
from .model import DetailPass, Report
from .svg import Medium

SMALL_HOST_BYTES = 2**20  # beside a GPU's memory, less than that on the host is a few scalars
SHORT_QUEUE = 1  # a queue that is never longer has nothing to show over time

TimeFigures = tuple[dict[str, Chart], dict[str, str]]


def memory_figures(report: Report | DetailPass, medium: Medium) -> TimeFigures:
    """`memory`: of the GPUs; `host_memory`: of the host."""
    found: Memory | None = report.result("memory")
    charts: dict[str, Chart] = {}
    captions: dict[str, str] = {}
    if found is None:
        return charts, captions
    for id, pools in _pools(found).items():
        lanes = [_lane(found, pool) for pool in pools]
        charts[id] = over_time(medium, lanes, _steps(report), "held_bytes", id)
        captions[id] = _memory_caption(found, pools)
    return charts, captions


def _pools(found: Memory) -> dict[str, list[Pool]]:
    on_gpus, on_host = ([pool for pool in found.pools if (pool.device == HOST) is host] for host in (False, True))
    small = on_gpus and all((pool.peak_bytes or 0) < SMALL_HOST_BYTES for pool in on_host)
    return {id: pools for id, pools in {"memory": on_gpus, "host_memory": [] if small else on_host}.items() if pools}


def _lane(found: Memory, pool: Pool) -> Lane:
    rows = found.timeline[found.timeline["device"] == pool.device]
    return Lane(str(rows["place"].iloc[0]), _pieces(rows, "bytes"), float(pool.peak_ts_ns))


def _pieces(rows: pd.DataFrame, unit: str) -> tuple[Piece, ...]:
    columns = rows[["start_ns", "end_ns", f"low_{unit}", f"high_{unit}"]].astype(float)
    return tuple(Piece(*row) for row in columns.itertuples(index=False, name=None))


def _steps(report: Report | DetailPass) -> list[StepSpan]:
    steps = report.result("steps")
    if steps is None or steps.window != "steps":
        return []
    rows = steps.rows[~steps.rows["aside"]]
    spans = zip(rows["name"], rows["start_ns"], rows["step_ns"], strict=True)
    return [StepSpan(str(name).rsplit("#", 1)[-1], float(start), float(start + ns)) for name, start, ns in spans]


def _memory_caption(found: Memory, pools: Sequence[Pool]) -> str:
    """The place with the highest peak, when and in which operator it is, and how much of it is older than the recording."""
    high = found.timeline.groupby("device")["high_bytes"].max()
    lead = max(pools, key=lambda pool: (int(high[pool.device]), -pool.device))
    place = "The host" if lead.device == HOST else f"GPU {lead.device}"
    who = place if len(pools) == 1 else f"Of {len(pools)} GPUs, {place} holds most: it"
    peak, before = int(high[lead.device]), lead.before_bytes
    if before is None:
        return f"{who} holds up to {f.size(peak)} more than at the start of the recording{_when(lead)}."
    if before >= peak:
        return f"{who} never holds more than the {f.size(before)} of before the recording."
    older = f"; {f.share(before / peak)} of it was there before the recording" if before > 0 else ""
    return f"{who} holds {f.size(peak)} at its peak{_when(lead)}{older}."


def _when(pool: Pool) -> str:
    by = f" for {pool.peak_op}" if pool.peak_op else ""
    return f", reached after {f.time(pool.peak_ts_ns)}{by}"


def queue_figures(report: Report, medium: Medium) -> TimeFigures:
    """`queue`: work that waits for each GPU."""
    found = report.result("launching")
    if found is None or not len(found.lengths.devices) or found.lengths.devices["most_count"].max() <= SHORT_QUEUE:
        return {}, {}
    devices, rows = found.lengths.devices, found.lengths.timeline
    lanes = [
        Lane(f"GPU {device}", _pieces(rows[rows["device"] == device], "count"), float(peak_ns))
        for device, peak_ns in zip(devices["device"], devices["most_ts_ns"], strict=True)
    ]
    chart = over_time(medium, lanes, _steps(report), "waiting_count", "queue")
    return {"queue": chart}, {"queue": _queue_caption(devices)}


def _queue_caption(devices: pd.DataFrame) -> str:
    lead = devices.iloc[int(devices["empty_share"].argmax())]
    whose = f"The queue of GPU {lead['device']:.0f} is empty"
    if len(devices) > 1:
        whose = f"Of {len(devices)} queues, that of GPU {lead['device']:.0f} is empty longest:"
    mean, most = f.count(float(lead["mean_count"])), f.count(float(lead["most_count"]))
    return (
        f"{whose} {f.share(float(lead['empty_share']))} of the recording; work waiting in it: {mean} on average, {most} at most."
    )
