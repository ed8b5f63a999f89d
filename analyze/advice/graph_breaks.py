"""Does compiled code fall apart into pieces, or is it compiled again while the program runs?"""

from collections.abc import Iterator
from contextlib import suppress

from ...capture.errors import MissingData
from ..analyses.compiled_regions import compiled_regions
from ..broken_graphs import breaks, recompiles
from ..proposals import Proposal
from ..trace import Trace


def graph_breaks(trace: Trace) -> Iterator[Proposal]:
    """Several compiled regions in a step, one inside another or with eager operators between; compiling after the first step."""
    with suppress(MissingData):
        yield from breaks(compiled_regions(trace))
    yield from recompiles(trace)
