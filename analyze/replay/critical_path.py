"""Graph -> what each step's time consists of: the chain of moments that decided when it was complete; and what had slack."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from ..gpu_gaps import LOADING
from ..kernels import COMMUNICATION, COMPUTE, COPY, work_class
from ..launches import is_launch
from ..statistics import Floats
from ..step_time import phases_at
from ..trace import Ids, Ints, Trace
from .edges import CALL, CONT, EVENT, GRAPH, HAND, HOST, KERN, LAUNCH, QUEUE, STREAM, SYNC, WORK_END, XS
from .graph import NOTABLE_NS, Graph, graph
from .host_shares import host_shares, kept_of_edges
from .steps import measured_completions
from .sweep import latest

BOUNDS = ("host", "data", "launch", "synchronization", "compute", "copy", "communication", "unrecorded", "unexplained")
OF_KIND = {
    HOST: "host", HAND: "host", LAUNCH: "launch", STREAM: "launch", QUEUE: "launch", XS: "launch", EVENT: "launch",
    SYNC: "synchronization", GRAPH: "unrecorded",
}  # fmt: skip
START = -1  # the edge of time for which nothing in the recording tells what was waited for


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """`parts`: one row a piece of the path of a kept step, adding up to Graph.steps: step (row of marked_steps); edge (of
    Graph.edges, START where nothing tells); ns; unexplained_ns (the part of `ns` that no rule explains).
    `bounds`: per kept step (row) the time by BOUNDS (column), ns. `on_path`: name, kind (kernel, copy, host), ns per step, by ns.
    `slack_ns`: for each piece of device work how much longer it could take without delaying any step.
    """

    parts: pd.DataFrame
    bounds: pd.DataFrame
    on_path: pd.DataFrame
    slack_ns: Floats

    def slack_by_name(self, trace: Trace) -> pd.DataFrame:
        """name, count, least_slack_ns, mean_slack_ns of device work, the least slack first."""
        of_name, names = pd.factorize(np.array(trace.names, object))
        rows = pd.DataFrame({"name": of_name[trace.device.name], "slack": self.slack_ns})
        found = rows.groupby("name").agg(
            count=("slack", "size"), least_slack_ns=("slack", "min"), mean_slack_ns=("slack", "mean")
        )
        found.index = pd.Index(names[found.index], name="name")
        return found.sort_values(["least_slack_ns", "mean_slack_ns"], kind="stable").reset_index()


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def critical_path(trace: Trace) -> CriticalPath:
    """Of every kept step."""
    found = graph(trace)
    parts = path_of(found)
    shares = _by_bound(found, parts)
    bounds = shares.pivot_table(index="step", columns="bound", values="ns", aggfunc="sum", fill_value=0, observed=False)
    bounds = bounds.reindex(index=found.steps["row"], columns=list(BOUNDS), fill_value=0)
    return CriticalPath(parts, bounds, _names(found, parts), slack(found))


@lru_cache(maxsize=2)  # quality and path share it; 2: a diff has two traces
def path_of(found: Graph) -> pd.DataFrame:
    """The edges that decided when each kept step was complete, back to the completion of the step before."""
    time, source, binding = found.nodes.time_ns.tolist(), found.edges.source.tolist(), found.binding.tolist()
    last, rows = _last_nodes(found), []
    for step, before in zip(found.steps["row"].tolist(), found.steps["before"].tolist(), strict=True):
        until, node = time[last[before]], last[step]
        while time[node] > until:
            edge = binding[node]
            since = until if edge < 0 else max(until, time[source[edge]])
            rows.append((step, edge, time[node] - since))
            if edge < 0:
                break
            node = source[edge]
    parts = pd.DataFrame(rows, columns=["step", "edge", "ns"], dtype=np.int64)
    edge, ns = parts["edge"].to_numpy(), parts["ns"].to_numpy()
    residual = np.append(found.residual_ns, np.inf)[edge]
    return parts.assign(unexplained_ns=np.where(residual > NOTABLE_NS, np.minimum(residual, ns), 0).astype(np.int64))


def _last_nodes(found: Graph) -> dict[int, int]:
    """For each step the node that completes it."""
    rows = found.completions.assign(time=found.nodes.time_ns[found.completions["node"]])
    rows = rows.sort_values("time", ascending=False, kind="stable").drop_duplicates("step")
    return dict(zip(rows["step"].tolist(), rows["node"].tolist(), strict=True))


def bound_of_edges(found: Graph) -> np.ndarray:
    """For each edge, and one more for START, the row of BOUNDS."""
    trace, kind = found.trace, np.append(found.edges.kind, -1)
    of = np.full(len(kind), BOUNDS.index("unexplained"))
    for edge_kind, bound in OF_KIND.items():
        of[kind == edge_kind] = BOUNDS.index(bound)
    works = np.flatnonzero(np.isin(kind, (KERN, CONT)))
    of_class = {COMPUTE: "compute", COMMUNICATION: "communication", COPY: "copy"}
    bound_of = np.array([BOUNDS.index(of_class[one]) for one in sorted(of_class)])
    of[works] = bound_of[work_class(trace)[found.edges.work[works]]]
    calls = np.flatnonzero(kind == CALL)
    target = found.edges.target[calls]
    launches = np.array([is_launch(name) for name in trace.names], bool)[trace.host.name[found.nodes.row[target]]]
    of[calls] = np.select(
        [found.waiting[target], launches], [BOUNDS.index("synchronization"), BOUNDS.index("launch")], BOUNDS.index("host")
    )
    return of


def _by_bound(found: Graph, parts: pd.DataFrame) -> pd.DataFrame:
    """step, bound, ns: the parts, host time in data loaders and unexplained time apart."""
    edge, ns, lost = (parts[name].to_numpy() for name in ("edge", "ns", "unexplained_ns"))
    bound = bound_of_edges(found)[edge]
    in_loader = np.where(
        bound == BOUNDS.index("host"), ((ns - lost) * np.append(loading_share(found), 0)[edge]).astype(np.int64), 0
    )
    codes = (bound, np.full(len(parts), BOUNDS.index("data")), np.full(len(parts), BOUNDS.index("unexplained")))
    times = (ns - lost - in_loader, in_loader, lost)
    return pd.DataFrame({
        "step": np.tile(parts["step"].to_numpy(), 3),
        "bound": np.array(BOUNDS, object)[np.concatenate(codes)],
        "ns": np.concatenate(times),
    })  # fmt: skip


def loading_share(found: Graph) -> Floats:
    """For each edge the share of its time that data loaders have."""
    row, phases = phases_at(found.trace, host_shares(found).start_ns)
    return 1 - kept_of_edges(found, np.where(phases[row] == LOADING, 0.0, 1.0))


def _names(found: Graph, parts: pd.DataFrame) -> pd.DataFrame:
    """What the path consists of, by name: device work, and the innermost host ranges of its host edges."""
    trace, kind = found.trace, np.append(found.edges.kind, -1)
    of_name, names = pd.factorize(np.array([*trace.names, "(outside operators)"], object))
    edge, ns = parts["edge"].to_numpy(), (parts["ns"] - parts["unexplained_ns"]).to_numpy()
    on_device = np.isin(kind[edge], (KERN, CONT))
    row = found.edges.work[edge[on_device]]
    device = _sums(of_name[trace.device.name[row]], ns[on_device], names, "device")
    on_host = np.isin(kind[edge], (HOST, CALL))
    weight = np.bincount(edge[on_host], weights=ns[on_host], minlength=len(found.edges))
    pieces = host_shares(found)
    pieces = pieces[weight[pieces.edge] > 0]
    whole = np.bincount(pieces.edge, weights=pieces.ns, minlength=len(found.edges))
    name = np.append(trace.host.name, -1)[pieces.row]
    host = _sums(of_name[name], pieces.ns / whole[pieces.edge] * weight[pieces.edge], names, "host")
    rows = pd.concat([device, host])
    rows["ns"] = rows["ns"] / max(1, len(found.steps))
    return rows.sort_values(["ns", "name"], ascending=[False, True], kind="stable", ignore_index=True)


def _sums(of: Ids, ns: Ints | Floats, names: np.ndarray, kind: str) -> pd.DataFrame:
    """name, kind, ns of the names that occur."""
    occurs = np.flatnonzero(np.bincount(of, minlength=len(names)))
    return pd.DataFrame({"name": names[occurs], "kind": kind, "ns": np.bincount(of, ns, minlength=len(names))[occurs]})


def slack(found: Graph) -> Floats:
    """For each piece of device work how much later it could end without delaying the completion of any step."""
    limit = np.full(len(found.nodes), np.inf)
    done = measured_completions(found.completions, found.nodes)
    limit[found.completions["node"]] = done.loc[found.completions["step"]].to_numpy()
    ends = np.flatnonzero(found.nodes.kind == WORK_END)
    result = np.full(len(found.trace.device), np.inf)
    result[found.nodes.row[ends]] = latest(found, limit)[ends] - found.nodes.time_ns[ends]
    return result
