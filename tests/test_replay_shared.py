"""The replay of real traces: exact when nothing changes, close without stored residuals, and refused where it does not know."""

from pathlib import Path

import numpy as np
import pytest
from shared_data import TRACES, names, shared_trace

from longpole.analyze.load import load
from longpole.analyze.replay.changes import joint_effect
from longpole.analyze.replay.critical_path import critical_path
from longpole.analyze.replay.edges import CONT, HAND, XS
from longpole.analyze.replay.graph import Graph, graph, without
from longpole.analyze.replay.quality import quality, quality_of
from longpole.analyze.replay.sweep import step_times, sweep
from longpole.analyze.replay.whatif import Prediction, changed_weights, parse, predict
from longpole.analyze.trace import Trace
from longpole.capture.errors import BundleError, ChangeError

REFUSED = {  # and a word of the reason
    "hta_control": "one step predicts another",  # several streams that contend
    "hta_test": "one step predicts another",
    "hta_negative_queue": "gaps inside graphs",
    "sglang_decode": "explains a step only",  # waits for what was launched before the recording
}
EASY = ("kernel:gemm x0.5", "kernel:elementwise x0.5", "comm x0", "sync x0", "host x0.5", "graph", "launch x0", "copy x0")


def of(name: str) -> Trace:
    return shared_trace(f"traces/{name}.json.gz")


def share(found: Prediction) -> float:
    return found.saving_ns / float(found.measured_ns.mean())


def whole_saving(found: Graph, change: str) -> float:
    """Of the time until the last completion."""
    weights = np.stack(
        [found.weight_ns + found.residual_ns, changed_weights(found, joint_effect(found, [parse(change)]))], axis=1
    )
    before, after = sweep(found, weights).max()
    return float(1 - after / before)


@pytest.mark.parametrize("name", TRACES)
def test_an_unchanged_replay_gives_every_measured_step(shared: Path, name: str):
    found = graph(of(name))
    unchanged = step_times(found, sweep(found, (found.weight_ns + found.residual_ns)[:, None]))[:, 0]
    assert np.abs(unchanged - found.steps["measured_ns"].to_numpy()).max() <= 1000


@pytest.mark.parametrize("name", TRACES)
def test_a_step_is_explained_within_one_per_cent_or_nothing_is_predicted(shared: Path, name: str):
    found = quality(of(name))
    assert found.worst_structural <= 0.01 or name == "sglang_decode"
    assert REFUSED.get(name, "") in (found.reason or "")
    assert (found.reason is not None) == (name in REFUSED)


@pytest.mark.parametrize("name", ["hta_ns", "mi300_resnet_act_ckpt", "hta_negative_queue"])
def test_one_step_predicts_another_within_one_per_cent(shared: Path, name: str):
    found = quality(of(name))
    assert found.cross_step is not None
    assert found.no_change is not None
    assert found.cross_step <= 0.01
    assert found.cross_step < found.no_change


@pytest.mark.parametrize("name", TRACES)
def test_the_path_of_a_step_adds_up_to_it(shared: Path, name: str):
    found = critical_path(of(name))
    assert found.bounds.sum(axis=1).tolist() == graph(of(name)).steps["measured_ns"].tolist()
    assert (found.slack_ns >= -1).all()
    assert found.on_path["ns"].sum() <= found.bounds.sum(axis=1).mean() + 1


def test_matrix_kernels_that_fill_the_gpu_save_what_is_cut_from_them(shared: Path):
    """Nothing hides behind a device that is busy 99 % of the step: the host waits for room in the launch queue."""
    changes = tuple(parse(f"kernel:{kind} x0.5") for kind in ("gemm", "convolution", "normalisation"))  # what cuBLAS and cuDNN do
    (found,) = predict(of("hta_ns"), [changes])
    assert share(found) == pytest.approx(0.40, abs=0.01)
    assert found.saving_ns == pytest.approx(found.removed_ns, rel=0.01)


def test_without_edges_between_streams_communication_seems_to_cost_nothing(shared: Path):
    found = graph(of("mi300_resnet_act_ckpt"))
    blind = without(found, (XS,))
    assert whole_saving(found, "comm x0") > 0.40
    assert whole_saving(blind, "comm x0") < 0.01
    assert quality_of(found).reason is None
    assert quality_of(blind).unexplained_share > 0.5
    assert quality_of(blind).reason is not None


@pytest.mark.parametrize("kinds", [(CONT,), (XS, CONT), (HAND,)])
def test_the_replay_notices_when_edges_are_missing(shared: Path, kinds: tuple[int, ...]):
    whole, lacking = quality_of(graph(of("hta_control"))), quality_of(without(graph(of("hta_control")), kinds))
    assert lacking.worst_structural > 2 * whole.worst_structural
    assert lacking.unexplained_share > whole.unexplained_share


@pytest.mark.parametrize("name", ["hta_test", "hta_negative_queue"])
def test_where_the_replay_does_not_know_there_is_a_range_and_a_reason(shared: Path, name: str):
    for found in predict(of(name), [(parse(text),) for text in ("kernel:gemm x0.5", "comm x0", "host x0.5")]):
        assert not found.point
        assert (found.reason or "").startswith("not predicted, because")
        assert found.low_ns <= found.saving_ns <= found.high_ns <= found.removed_ns


def test_hidden_time_is_not_saved(shared: Path):
    """What simple sums promise and the replay does not: waits of 126 ms that release 4, half of a GEMM behind the host."""
    wait, host = predict(of("h100_timesformer"), [(parse("sync x0"),), (parse("host x0.5"),)])
    assert wait.removed_ns > 25 * wait.saving_ns
    assert host.saving_ns == pytest.approx(111.6e6, rel=0.01)
    (gemm,) = predict(of("h100_falconsai"), [(parse("kernel:gemm x0.5"),)])
    assert gemm.saving_ns == 0 < gemm.removed_ns


@pytest.mark.parametrize("name", TRACES)
def test_savings_lie_in_their_ranges_on_real_traces(shared: Path, name: str):
    for found in possible(of(name)):
        assert 0 <= found.low_ns <= found.saving_ns <= found.high_ns + 1
        assert found.high_ns <= found.removed_ns + 1
        assert found.point == (found.reason is None)


@pytest.mark.parametrize("name", [name for name in names("field_cases/*") if not name.endswith((".expected.json", ".md"))])
def test_any_trace_is_replayed_or_has_a_reason(shared: Path, name: str):
    try:
        trace = load(shared / name)
    except BundleError:
        return
    for found in possible(trace):
        assert 0 <= found.low_ns <= found.saving_ns <= found.high_ns + 1
    critical_path(trace)


def possible(trace: Trace) -> list[Prediction]:
    """Of the easy changes those that the trace allows."""
    held = []
    for text in EASY:
        try:
            joint_effect(graph(trace), [parse(text)])
        except ChangeError:
            continue
        held.append((parse(text),))
    return predict(trace, held)
