"""Rows in nanoseconds in, drawings out: the same charts for the HTML page and the PDF.

A chart states no finding, that is its caption's part. It picks one unit for all its numbers, and its size is bounded for
any input: many phases, steps or rows are merged, and the drawing says so.
"""

from .diverging import diverging
from .dots import dots
from .levels import levels
from .over_time import over_time
from .rows import (
    Change,
    Chart,
    Dots,
    Jump,
    Lane,
    Level,
    OpChange,
    Part,
    Piece,
    RunBreak,
    RunDot,
    RunLane,
    StepColumn,
    StepSpan,
)
from .step_bar import step_bar, step_bars_pair
from .step_columns import step_columns
from .waterfall import waterfall

__all__ = [
    "Change", "Chart", "Dots", "Jump", "Lane", "Level", "OpChange", "Part", "Piece", "RunBreak", "RunDot", "RunLane",
    "StepColumn", "StepSpan",
    "diverging", "dots", "levels", "over_time", "step_bar", "step_bars_pair", "step_columns", "waterfall",
]  # fmt: skip
