"""History -> its verdict: one sentence on what changed last, its numbers, and what else one should know of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .change_points import LEAST_RUNS, ChangePoint, Drift
from .findings import Text
from .history import Break, History
from .measured import DEVICE_MEMORY, STEP

NAME_LENGTH, COMMIT_LENGTH = 40, 7  # of a run in a sentence
MOST_TOLD = 5  # of one kind, in notes; the JSON has all
SLOWER, FASTER, DRIFT, MEMORY, NONE, TOO_FEW = "Slower", "Faster", "Drift", "Memory", "No change point", "Too few runs"


@dataclass(frozen=True)
class HistoryVerdict:
    """`tag`: one of the words above; `notes`: a sentence or two each."""

    tag: str
    sentence: Text
    lede: Text
    notes: tuple[Text, ...]


def history_verdict(found: History) -> HistoryVerdict:
    """On the step, and where that shows no change on memory; of several changes the last one counts."""
    told = [(first, after) for first, after in found.stretches if found.told(STEP, first)]
    last = max((*found.points, *found.drifts), key=lambda one: one.after, default=None)
    if isinstance(last, Drift):
        tag, sentence, lede = DRIFT, _drifted(found, last), _drift_numbers(last)
    elif last or found.memory_points:
        last = last or found.memory_points[-1]
        tag, sentence, lede = _tag(last), _headline(found, last, bool(told)), _numbers(last)
    elif told:
        tag, sentence, lede = NONE, _unchanged(found, told), _range(found, told)
    else:
        tag, sentence, lede = TOO_FEW, _too_few(found), _all_runs(found)
    return HistoryVerdict(tag, sentence, lede, tuple(_notes(found, last, told)))


def run_label(found: History, row: int) -> str:
    """`run 8 (def5678)`: its number in the order of the history, and its commit, or else its name."""
    run = found.runs[row]
    name = run.name if len(run.name) <= NAME_LENGTH else run.name[: NAME_LENGTH - 1] + "…"
    return f"run {row + 1} ({run.commit[:COMMIT_LENGTH] if run.commit else name})"


def _tag(point: ChangePoint) -> str:
    return MEMORY if point.metric != STEP else SLOWER if point.change_share > 0 else FASTER


def _headline(found: History, point: ChangePoint, step_told: bool) -> Text:
    several = len(found.points) + len(found.drifts)
    sentence = _sentence(found, point)
    if point.metric != STEP:
        return _more(sentence, "; the step shows no change point" if step_told else "")
    return _more(sentence, ", the last of {several_count} changes" if several > 1 else "", several_count=several)


def _sentence(found: History, point: ChangePoint) -> Text:
    """What changed, by how much and where."""
    what, words = "The step", ("slower", "faster")
    if point.metric != STEP:
        what, words = f"The peak memory of {_whose(found)}", ("larger", "smaller")
    return Text.of(
        f"{what} got {{size_share}} {words[point.change_share < 0]} between {{before}} and {{after}}",
        size_share=abs(point.change_share), before=run_label(found, point.at - 1), after=run_label(found, point.at),
    )  # fmt: skip


def _whose(found: History) -> str:
    return "the GPUs" if found.memory == DEVICE_MEMORY else "the host"


def _more(text: Text, template: str, **values: Any) -> Text:
    return Text(text.template + template, {**text.values, **values})


def _numbers(point: ChangePoint) -> Text:
    what, unit = ("step", "ns") if point.metric == STEP else ("peak", "bytes")
    values: dict[str, Any] = {
        f"before_{unit}": point.before_mean, "before_count": point.at - point.first,
        f"after_{unit}": point.after_mean, "after_count": point.after - point.at,
        "change_share": point.change_share, "p_chance": point.chance,
    }  # fmt: skip
    if point.interval:
        values |= {"low_change_share": point.interval.low, "high_change_share": point.interval.high}
    reach = " (95\u202f% interval {low_change_share} to {high_change_share})" if point.interval else ""
    return Text(
        f"The mean {what} is {{before_{unit}}} in {{before_count}} runs before and {{after_{unit}}} in {{after_count}} after: "
        f"{{change_share}}{reach}, p = {{p_chance}}.",
        values,
    )


def _drifted(found: History, drift: Drift) -> Text:
    what, words = "The step", ("slower", "faster")
    if drift.metric != STEP:
        what, words = f"The peak memory of {_whose(found)}", ("larger", "smaller")
    return Text.of(
        f"{what} drifts: {{size_share}} {words[drift.change_share < 0]} from {{first}} to {{last}}",
        size_share=abs(drift.change_share), first=run_label(found, drift.first), last=run_label(found, drift.after - 1),
    )  # fmt: skip


def _drift_numbers(drift: Drift) -> Text:
    return Text.of(
        "The line through the {runs_count} runs goes from {begin_ns} to {end_ns}: {change_share}, p = {p_chance}. It fits them "
        "better than jumps do, so no change point is named.",
        runs_count=drift.after - drift.first, begin_ns=drift.begin_mean, end_ns=drift.end_mean, change_share=drift.change_share,
        p_chance=drift.chance,
    )  # fmt: skip


def _unchanged(found: History, told: Sequence[tuple[int, int]]) -> Text:
    count, runs = sum(after - first for first, after in told), len(found.runs)
    among = "{count} runs vary" if count == runs else "{count} of {runs_count} runs can tell one; runs vary"
    return Text.of(
        f"No change point: {among} by {{spread_share}}", count=count, runs_count=runs, spread_share=found.spread_share or 0
    )


def _range(found: History, told: Sequence[tuple[int, int]]) -> Text:
    means = [run.step_ns for first, after in told for run in found.runs[first:after]]
    return Text.of(
        "Their mean steps are between {low_ns} and {high_ns}; one standard deviation is {spread_share} of the mean.",
        low_ns=min(means), high_ns=max(means), spread_share=found.spread_share or 0,
    )  # fmt: skip


def _too_few(found: History) -> Text:
    runs, longest = len(found.runs), max(after - first for first, after in found.stretches)
    have = (
        "1 run" if runs == 1 else "{count} runs" if longest == runs else "no two compare" if longest == 1 else "{count} compare"
    )
    return Text.of(f"Too few runs to tell: {have}, at least {{least_count}} are needed", count=longest, least_count=LEAST_RUNS)


def _all_runs(found: History) -> Text:
    means = [run.step_ns for run in found.runs]
    if len(means) == 1:
        return Text.of("Its mean step is {mean_ns}.", mean_ns=means[0])
    return Text.of("The mean steps are between {low_ns} and {high_ns}.", low_ns=min(means), high_ns=max(means))


def _notes(found: History, last: ChangePoint | Drift | None, told: Sequence[tuple[int, int]]) -> Iterator[Text]:
    if isinstance(last, ChangePoint):
        yield from _about(found, last)
    others = [point for point in found.changes.points if point is not last]
    yield from (_more(_sentence(found, point), ", p = {p_chance}.", p_chance=point.chance) for point in others[-MOST_TOLD:])
    yield from (_more(_drifted(found, drift), ", without a jump.") for drift in found.changes.drifts if drift is not last)
    if len(others) > MOST_TOLD:
        yield Text.of("{count} more changes, earlier ones, are in the JSON.", count=len(others) - MOST_TOLD)
    if found.breaks:
        yield _broken(found, found.breaks)
    few = [one for one in found.stretches if one not in told]
    if few and len(found.stretches) > 1:
        yield _few(few)
    yield Text(
        "In the order of their captures." if found.by_time else "In the order given: not every run tells when it was captured."
    )
    if found.repeated:
        names = ", ".join(dict.fromkeys(found.repeated))
        yield Text.of("Given more than once and counted once: {names}.", names=names)
    if found.unmarked:
        yield Text("Runs without marked steps count their whole recording as one step.")


def _about(found: History, point: ChangePoint) -> Iterator[Text]:
    """Where else it may lie, and what else is different there."""
    if point.earliest < point.latest:
        yield Text.of(
            "Its place is not sure: with 95\u202f% confidence it lies between {first} and {last}.",
            first=run_label(found, point.earliest - 1), last=run_label(found, point.latest),
        )  # fmt: skip
    if point.or_drift:
        yield Text("A slow drift would tell these runs almost as well as a jump.")
    before, after = found.runs[point.at - 1], found.runs[point.at]
    if before.commit and before.commit == after.commit:
        yield Text("Both runs are of the same commit: look for what changed outside the code.")
    if differences := found.differences[point.at]:
        yield Text.of("Also different between the two: {differences}.", differences="; ".join(differences))


def _broken(found: History, breaks: Sequence[Break]) -> Text:
    last, others = breaks[-1], len(breaks) - 1
    earlier = f" There {'is' if others == 1 else 'are'} {{others_count}} such {'break' if others == 1 else 'breaks'} before that."
    return Text.of(
        "From {run} on times do not compare with those before: {reasons}." + earlier * (others > 0),
        run=run_label(found, last.at), reasons="; ".join(last.reasons), others_count=others,
    )  # fmt: skip


def _few(stretches: Sequence[tuple[int, int]]) -> Text:
    shown = [f"{first + 1} to {after}" if after - first > 1 else f"{after}" for first, after in stretches[-MOST_TOLD:]]
    runs = ", ".join(["…"] * (len(stretches) > MOST_TOLD) + shown)
    return Text.of(
        "Too few runs compare to tell a change in these: {runs}. It takes {least_count}, or more where several are tested.",
        runs=runs, least_count=LEAST_RUNS,
    )  # fmt: skip
