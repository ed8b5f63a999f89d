"""Arguments as they stand in the file -> typed ones, by the kind of event that carries them; the one list of those that are kept.

Most events are Python frames, whose arguments tell nothing that is used: so arguments stay text until a kind of event needs them.
"""

import re
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

NONE = msgspec.Raw(b"{}")  # what an event without arguments has
ABSENT = msgspec.Raw(b"")


def _named(name: str, default: Any = -1) -> Any:
    return msgspec.field(name=name, default=default)


class OpArgs(msgspec.Struct, gc=False):
    """Of operators and annotations."""

    external_id: int = _named("External id")
    old_external_id: int = _named("external id")
    sequence: int = _named("Sequence number")
    forward_thread: int = _named("Fwd thread id")
    finished: bool = True
    shapes: msgspec.Raw = _named("Input Dims", ABSENT)
    input_types: msgspec.Raw = _named("Input type", ABSENT)
    call_stack: msgspec.Raw = _named("Call stack", ABSENT)


class CallArgs(msgspec.Struct, gc=False):
    """Of runtime and driver calls, and the profiler's overhead."""

    external_id: int = _named("External id")
    old_external_id: int = _named("external id")
    correlation: int = -1


class DeviceArgs(msgspec.Struct, gc=False):
    """Of device work and of the rows beside it."""

    external_id: int = _named("External id")
    old_external_id: int = _named("external id")
    correlation: int = -1
    device: int = -1
    stream: int = -1
    size_bytes: int = _named("bytes")
    grid: msgspec.Raw = ABSENT
    block: msgspec.Raw = ABSENT
    registers: msgspec.Raw = _named("registers per thread", ABSENT)
    shared_memory: msgspec.Raw = _named("shared memory", ABSENT)
    graph_node: msgspec.Raw = _named("graph node id", ABSENT)
    collective: msgspec.Raw = _named("Collective name", ABSENT)
    elements_in: msgspec.Raw = _named("In msg nelems", ABSENT)
    elements_out: msgspec.Raw = _named("Out msg nelems", ABSENT)
    element_type: msgspec.Raw = _named("dtype", ABSENT)
    group_size: msgspec.Raw = _named("Group size", ABSENT)
    group_name: msgspec.Raw = _named("Process Group Name", ABSENT)
    group_ranks: msgspec.Raw = _named("Process Group Ranks", ABSENT)
    comms_id: msgspec.Raw = _named("Comms Id", ABSENT)
    awaited_stream: msgspec.Raw = _named("wait_on_stream", ABSENT)
    event_record: msgspec.Raw = _named("wait_on_cuda_event_record_corr_id", ABSENT)


class MemoryArgs(msgspec.Struct, gc=False):
    """Of allocations and releases."""

    size_bytes: int = _named("Bytes", 0)
    device_type: int = _named("Device Type")
    device: int = _named("Device Id")
    address: int = _named("Addr")
    total_bytes: int = _named("Total Allocated")


class LabelArgs(msgspec.Struct, gc=False):
    """Of metadata events: what a process or thread is called."""

    label: str | None = _named("name", None)


KINDS: tuple[Any, ...] = (OpArgs, CallArgs, DeviceArgs, MemoryArgs, LabelArgs)
# Arguments that few events carry, kept as the JSON that stood in the file: names of fields, in the order of their keys.
OP_TEXTS = ("input_types", "call_stack")
MARK_TEXTS = ("awaited_stream", "event_record")  # of cuda_sync rows
DEVICE_TEXTS = tuple(
    field.name for field in msgspec.structs.fields(DeviceArgs) if field.type is msgspec.Raw and field.name not in MARK_TEXTS
)
KEYS = tuple(
    field.encode_name
    for kind, names in ((OpArgs, OP_TEXTS), (DeviceArgs, (*DEVICE_TEXTS, *MARK_TEXTS)))
    for field in msgspec.structs.fields(kind)
    if field.name in names
)
KEY_ROWS = {name: row for row, name in enumerate((*OP_TEXTS, *DEVICE_TEXTS, *MARK_TEXTS))}

LINKS = ("external_id", "old_external_id", "correlation", "address")  # ids that are only compared; None: not told exactly
WHOLE = re.compile(r"[+-]?\d+|0x[0-9a-f]+", re.ASCII | re.IGNORECASE)
EXACT_FLOAT = 2**53  # from here on a float may stand for several whole numbers
LONGEST_ID = 4000  # digits: Python refuses to read more than 4300

_Args = TypeVar("_Args", OpArgs, CallArgs, DeviceArgs, MemoryArgs, LabelArgs)


class _Kind(Generic[_Args]):
    """Decoders of one kind of arguments: a strict one, and one that takes any types."""

    def __init__(self, kind: type[_Args]) -> None:
        self.kind, self.fields = kind, msgspec.structs.fields(kind)
        self.strict = msgspec.json.Decoder(list[kind])  # pyright: ignore[reportInvalidTypeForm]
        loose = [
            (f.name, f.type if f.type is msgspec.Raw else Any, msgspec.field(name=f.encode_name, default=f.default))
            for f in self.fields
        ]
        self.loose = msgspec.json.Decoder(msgspec.defstruct(f"Loose{kind.__name__}", loose, gc=False))

    def alone(self, text: msgspec.Raw) -> _Args | None:
        """The arguments of one event, whatever the types of their values; None where they are no object."""
        if bytes(text) == b"null":
            return self.kind()
        try:
            found: Any = self.loose.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return self.kind(**{f.name: self._value(f, getattr(found, f.name)) for f in self.fields})

    def _value(self, field: msgspec.structs.FieldInfo, value: Any) -> Any:
        if field.name in LINKS:
            return link(value)
        if field.type is int:
            return number(value, field.default)
        if field.type is bool:
            return value is not False
        return value if field.type is msgspec.Raw or isinstance(value, str) else field.default


_KINDS: dict[type, Any] = {kind: _Kind(kind) for kind in KINDS}


def typed(given: Sequence[msgspec.Raw | _Args], kind: type[_Args]) -> tuple[Sequence[_Args], int]:
    """Arguments in the order of their events, and how many of them are no object, and so taken as none.

    All at once; where a value has an odd type, each alone: one such value must not lose the others. Typed ones stay as they are.
    """
    if given and isinstance(given[0], kind):
        return given, 0  # type: ignore[return-value]
    decoders: _Kind[_Args] = _KINDS[kind]
    try:
        return decoders.strict.decode(b"[" + b",".join(given) + b"]"), 0  # type: ignore[arg-type]
    except (msgspec.DecodeError, UnicodeDecodeError):
        each = [decoders.alone(text) for text in given]  # type: ignore[arg-type]
        return [kind() if args is None else args for args in each], sum(args is None for args in each)


def number(value: Any, default: int = -1) -> int:
    """`7`, `7.0`, `"7"`, `"stream 7"` -> 7; anything else -> the default."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    digits = str(value).rsplit(" ", 1)[-1]
    return int(digits) if digits.isdecimal() and digits.isascii() and len(digits) < 30 else default


def link(value: Any) -> int | None:
    """`7`, `7.0`, `"7"`, `"0x7"` -> 7, of any size; None where one number may stand for several ids; anything else -> -1."""
    if isinstance(value, float) and value.is_integer():
        return int(value) if abs(value) < EXACT_FLOAT else None
    if isinstance(value, str) and WHOLE.fullmatch(text := value.strip()):
        return int(text, 16 if text[:2].lower() == "0x" else 10) if len(text) < LONGEST_ID else None
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
