"""Analyses and traces -> sections: each a result, or the reason why there is none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..capture.errors import MissingData
from .findings import Caution, Finding
from .trace import TraceWarning


@dataclass(frozen=True, eq=False)
class Section:
    """The answer to one question. `name`: of the analysis; exactly one of `result` and `missing` is there."""

    name: str
    title: str
    result: Any | None
    missing: str | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return getattr(self.result, "findings", ())

    @property
    def warnings(self) -> tuple[TraceWarning | Caution, ...]:
        """What in the recording makes figures easy to misread; an analysis found it, the file itself may be sound."""
        return getattr(self.result, "warnings", ())

    @property
    def measures(self) -> Mapping[str, Any]:
        """What the JSON tells beside tables: name -> value, in the unit that ends the name (`busy_ns`, `busy_share`).

        A value may be a list, or an object whose keys are names, devices or ranks.
        """
        return getattr(self.result, "measures", {})

    @property
    def withheld(self) -> Mapping[str, str]:
        """Names of measures that apply and cannot be trusted -> why."""
        return getattr(self.result, "withheld", {})


def run(analyses: Mapping[str, Callable[..., Any]], *inputs: Any) -> tuple[Section, ...]:
    """Ask every question of the same traces, or sides.

    Only MissingData becomes a section without a result, a bug stays a traceback.
    """
    return tuple(_section(title, analysis, inputs) for title, analysis in analyses.items())


def _section(title: str, analysis: Callable[..., Any], inputs: tuple[Any, ...]) -> Section:
    try:
        return Section(analysis.__name__, title, analysis(*inputs))
    except MissingData as missing:
        return Section(analysis.__name__, title, None, str(missing))
