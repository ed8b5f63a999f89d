"""Text of events of torch.profiler's own categories -> structs that hold what is kept of each: one pass, arguments included.

The category is msgspec's tag, so it becomes a type instead of a text of its own for every event; of flows nothing is kept but
their number. One event that is anything else, or of odd types, and the whole text is read the general way, in `events`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from ..trace import Ids
from .arguments import CallArgs, DeviceArgs, MemoryArgs, OpArgs

VENDORS = ("cuda", "hip", "xpu", "mtia", "privateuse1")
ARGUMENTS_OF: dict[str, type | None] = {
    "python_function": None,
    "cpu_op": OpArgs,
    "user_annotation": OpArgs,
    "overhead": CallArgs,
    **{f"{vendor}_{kind}": CallArgs for vendor in VENDORS for kind in ("runtime", "driver")},
    **dict.fromkeys(("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync"), DeviceArgs),
}
FLOWS = ("ac2g", "fwdbwd")


class _Range(msgspec.Struct, gc=False, tag_field="cat"):
    ph: Literal["X"]
    name: str
    pid: int | str
    tid: int | str
    ts: float
    dur: float


class _Instant(msgspec.Struct, gc=False, tag_field="cat", tag="cpu_instant_event"):
    ph: Literal["i", "I"]
    name: str
    pid: int | str
    tid: int | str
    ts: float
    args: MemoryArgs
    dur: ClassVar[float] = 0.0


class _Flow(msgspec.Struct, gc=False, tag_field="cat"):
    ph: Literal["s", "t", "f"]


def _range(category: str, arguments: Any) -> Any:
    fields: list[Any] = [("args", arguments, msgspec.field(default_factory=arguments))] if arguments else []
    return msgspec.defstruct("Known", fields, bases=(_Range,), gc=False, tag_field="cat", tag=category)


_TYPES: list[Any] = [
    *(_range(category, arguments) for category, arguments in ARGUMENTS_OF.items()),
    _Instant,
    *(msgspec.defstruct("Flow", [], bases=(_Flow,), gc=False, tag_field="cat", tag=flow) for flow in FLOWS),
]
CATEGORIES = (*ARGUMENTS_OF, "cpu_instant_event", *FLOWS)
FIRST_FLOW = len(CATEGORIES) - len(FLOWS)
_ROW_OF = {kind: row for row, kind in enumerate(_TYPES)}
_union: Any = _TYPES[0]
for _type in _TYPES[1:]:
    _union |= _type
_decoder: Any = msgspec.json.Decoder(list[_union])  # pyright: ignore[reportInvalidTypeForm]


def decoded(text: Any) -> tuple[Sequence[Any], Ids] | None:
    """The events that are no flows, and the row of CATEGORIES of each event, flows too; None where one of them is unknown."""
    try:
        events = _decoder.decode(text)
    except msgspec.ValidationError:
        return None
    rows = np.fromiter(map(_ROW_OF.__getitem__, map(type, events)), np.int32, len(events))
    if rows.max(initial=0) < FIRST_FLOW:
        return events, rows
    return [events[i] for i in np.flatnonzero(rows < FIRST_FLOW).tolist()], rows
