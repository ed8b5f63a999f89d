"""HistoryReport -> text for a terminal: verdict, a line for each run with what changes between them, notes."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.text import Text

from ...analyze.history import History
from ..prose import sentence
from ..svg import clean
from ..tables import Head
from .lines import CAPTURED, COMMIT, RUN, HistoryTable, history_table
from .model import HistoryReport

MOST_RUNS = 40  # about what a terminal shows at once
GAP = 2
EASY_NAME = 12  # columns: enough to tell most runs apart
STYLES = {"good": "cyan", "bad": "yellow", "dim": "dim", "": ""}
DISPENSABLE = (CAPTURED, "Unprofiled", "Peak", COMMIT)  # beginnings of heads, in the order in which they go on narrow terminals


class TerminalHistory:
    """Prints itself on a rich console; names are plain text, never markup."""

    def __init__(self, report: HistoryReport) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        verdict = self.report.verdict
        yield Text(sentence(verdict.sentence), style="bold")
        yield Text(sentence(verdict.lede))
        yield Text("")
        yield from _table(self.report.found, options.max_width)
        yield Text("")
        yield from (Text(clean(sentence(note))) for note in verdict.notes)


def _table(found: History, width: int) -> Iterator[RenderableType]:
    whole = history_table(found, MOST_RUNS)
    places = _fitting(whole, width)
    heads = [whole.heads[place] for place in places]
    columns = [
        [head.text, *(line.cells[place] for line in whole.lines if line.cells)] for head, place in zip(heads, places, strict=True)
    ]
    widths = _widths(heads, columns, width)
    yield _row([head.text for head in heads], heads, widths, "dim")
    for line in whole.lines:
        if line.cells:
            yield _row([line.cells[place] for place in places], heads, widths, "")
        else:
            yield Padding(Text(clean(line.words), style=STYLES[line.tone]), (0, 0, 0, widths[0] + GAP), expand=False)
    if left_out := [head.text.split(",")[0] for place, head in enumerate(whole.heads) if place not in places]:
        yield Text(f"No room here for: {', '.join(left_out)}.", style="dim")


def _fitting(whole: HistoryTable, width: int) -> list[int]:
    """The columns for which there is room, with enough of it for the runs' names."""
    places = list(range(len(whole.heads)))
    for start in DISPENSABLE:
        if _needed(whole, places) <= width:
            break
        places = [place for place in places if not whole.heads[place].text.startswith(start)]
    return places


def _needed(whole: HistoryTable, places: Sequence[int]) -> int:
    widths = [_widest([whole.heads[place].text, *(line.cells[place] for line in whole.lines if line.cells)]) for place in places]
    name = next(i for i, place in enumerate(places) if whole.heads[place].text == RUN)
    return sum(widths) - widths[name] + min(widths[name], EASY_NAME) + GAP * (len(places) - 1)


def _widths(heads: Sequence[Head], columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Names take what the numbers leave."""
    widest = [_widest(column) for column in columns]
    rest = width - GAP * (len(heads) - 1) - sum(size for size, head in zip(widest, heads, strict=True) if head.text != RUN)
    return [min(size, max(rest, 4)) if head.text == RUN else size for size, head in zip(widest, heads, strict=True)]


def _widest(cells: Sequence[str]) -> int:
    return max(map(cell_len, cells))


def _row(cells: Sequence[str], heads: Sequence[Head], widths: Sequence[int], style: str) -> Text:
    placed = [_placed(cell, head.numeric, width) for cell, head, width in zip(cells, heads, widths, strict=True)]
    return Text((" " * GAP).join(placed).rstrip(), style=style, no_wrap=True, overflow="ellipsis")


def _placed(cell: str, numeric: bool, width: int) -> str:
    if cell_len(cell) > width:
        return set_cell_size(cell, width - 1) + "…"
    space = " " * (width - cell_len(cell))
    return space + cell if numeric else cell + space
