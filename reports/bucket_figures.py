"""Where the step goes on GPUs -> its bar, a column for each step, and their captions."""

from collections.abc import Mapping
from typing import Any

from ..analyze.analyses.buckets import Buckets
from ..analyze.analyses.steps import Steps
from ..analyze.step_buckets import COMMUNICATING, COMPUTING, COPYING, IDLE
from . import formats as f
from .charts import Chart, Part, StepColumn, step_bar, step_columns
from .palette import phase_fill
from .svg import Medium

FILLS = {
    "comm_exposed": "comm", "copy_exposed": "copy",
    "idle:input_pipeline": "wait", "idle:h2d_wait": "idle-copy", "idle:synchronization": "idle-sync",
    "idle:launch": "idle-launch", "idle:host": "idle-host", "idle:other": "other",
    "compute:prefill": "bwd", "compute:decode": "fwd", "compute:data_loading": "sample",
    "compute:other": "spare0", "compute:unlinked": "spare1",
}  # fmt: skip
OWN_FILL = 2  # the first spare colour of phases that only the user knows: those before it are taken
ACTIONS = {COMPUTING: "computes", COMMUNICATING: "only communicates", COPYING: "only copies", IDLE: "idles"}
OTHER_REASONS = "for other reasons"
NOTABLE_SHARE = 0.05  # of the step, or of what the GPU works in it: a smaller part needs no mention
MOST_NOTES = 2  # slow steps named in the step chart


def bucket_figures(found: Buckets, steps: Steps, medium: Medium) -> tuple[dict[str, Chart], dict[str, str]]:
    """Charts and captions by name; columns only of several steps."""
    parts = _parts(found, dict(zip(found.whole["bucket"], found.whole["mean_ns"], strict=True)))
    whole = "the step" if found.marked else "the recording"
    charts = {"buckets": step_bar(medium, parts, found.step_ns, id="buckets", whole=whole)}
    captions = {"buckets": _caption(found)}
    if found.marked and len(found.per_step) > 1:
        charts["steps"], captions["steps"] = _columns(found, steps, medium), _columns_caption(found)
    return charts, captions


def _parts(found: Buckets, times: Mapping[Any, float]) -> list[Part]:
    labels = dict(zip(found.whole["bucket"], found.whole["label"], strict=True))
    return [Part(labels[bucket], fill, float(times[bucket])) for bucket, fill in _fills(found).items()]


def _fills(found: Buckets) -> dict[str, str]:
    """Computing is blue where nothing marks phases."""
    rows = zip(found.whole["bucket"], found.whole["kind"], found.whole["of"], strict=True)
    return {
        bucket: "fwd" if kind == COMPUTING and not found.phased else FILLS.get(bucket) or phase_fill(of, i + OWN_FILL)
        for i, (bucket, kind, of) in enumerate(rows)
    }


def _caption(found: Buckets) -> str:
    """What the GPU does of the step, and why it idles."""
    shares = found.whole.groupby("kind")["step_share"].sum()
    told = [kind for kind in ACTIONS if kind in (COMPUTING, IDLE) or shares.get(kind, 0) >= NOTABLE_SHARE]
    said = [f"{ACTIONS[kind]} {f.share(float(shares[kind]))}" if kind in shares else f"never {ACTIONS[kind]}" for kind in told]
    devices = found.rows["device"].nunique()
    who = "the GPU" if devices == 1 else f"each of {devices} GPUs, on average,"
    what = "step" if found.marked else "recording"
    said = f"Of a {f.time(found.step_ns)} {what} {who} {', '.join(said[:-1])} and {said[-1]}{_lead_cause(found)}"
    after = max(found.after_ns.values()) if found.marked else 0
    notable = after > NOTABLE_SHARE * (1 - found.idle_share) * found.step_ns
    return f"{said}; it works another {f.time(after)} after the last step ends." if notable else f"{said}."


def _lead_cause(found: Buckets) -> str:
    """The cause of most idle time, in brackets."""
    if found.idle_share < NOTABLE_SHARE:
        return ""
    idle = found.whole[found.whole["kind"] == IDLE]
    lead = idle.nlargest(1, "mean_ns").iloc[0]
    share = f.share(float(lead["step_share"]))
    cause = OTHER_REASONS if lead["of"] == "other" else lead["label"].removeprefix("idle: ")
    return f" ({cause})" if share == f.share(found.idle_share) else f" ({share} {cause})"


def _columns(found: Buckets, steps: Steps, medium: Medium) -> Chart:
    names = [step_label(str(name)) for name in steps.rows.loc[found.per_step.index, "name"]]
    rows = found.per_step.to_dict("records")
    columns = [StepColumn(name, tuple(_parts(found, row))) for name, row in zip(names, rows, strict=True)]
    places = found.per_step.index.get_indexer(found.slow.index[:MOST_NOTES]).tolist()
    slow = zip(places, found.slow.head(MOST_NOTES).to_dict("records"), strict=True)
    notes = [(i, f"step {names[i]}: {_slowness(r)}") for i, r in slow]
    return step_columns(medium, columns, float(found.per_step.sum(axis=1).median()), sorted(notes), id="steps")


def _slowness(row: Mapping[Any, Any]) -> str:
    return f"{f.time(row['step_ns'])}, {row['label']} {f.time(row['lead_change_ns'], sign=True)}"


def _columns_caption(found: Buckets) -> str:
    times = found.per_step.sum(axis=1)
    spread = (
        f"{len(times)} {'step takes' if len(times) == 1 else 'steps take'} {f.interval(*map(f.time, (times.min(), times.max())))}"
    )
    if found.slow.empty:
        return f"{spread}; none is an outlier."
    slowest = found.slow.iloc[0]
    more, lead = f.time(float(slowest["change_ns"])), f.time(float(slowest["lead_change_ns"]), sign=True)
    slow = f"step {step_label(str(slowest['name']))} takes {more} more than the median"
    return f"{spread}; {slow}; what grew most is {slowest['label']}, {lead}."


def step_label(name: str) -> str:
    """`ProfilerStep#7` -> `7`."""
    return name.rsplit("#", 1)[-1]
