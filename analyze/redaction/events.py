"""An event, or what stands beside the events -> the same without what tells whose it is: only what is known stays."""

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from ..loading.events import NOT_JSON, Header
from ..loading.producers import ASCEND_DEVICES
from .texts import Texts

RawEvent = dict[str, msgspec.Raw]

# Numbers and lists of them tell nothing of anybody; in quotes there is one, with one dot at most, or it might be an address.
VALUE = r'(?:[\[\],\s0-9.eE+-]++|"-?(?:0x[0-9a-fA-F]++|\d*+(?:\.\d++)?(?:[eE][+-]?\d++)?)"|true|false|null)'
NUMBERS = re.compile(VALUE.encode())
MARK = re.compile(rb'"[A-Za-z]{0,2}"')  # a phase, the scope of an instant, where a flow binds
# Categories of torch and Kineto whose names are those of code; all others may be named by people.
CODE = frozenset(
    (b'"cpu_op"', b'"Operator"', b'"kernel"', b'"Kernel"', b'"gpu_memcpy"', b'"gpu_memset"', b'"Memcpy"', b'"Memset"',
     b'"Runtime"', b'"cuda_runtime"', b'"cuda_driver"', b'"hip_runtime"', b'"hip_driver"', b'"xpu_runtime"',
     b'"overhead"', b'"cuda_sync"', b'"ac2g"', b'"fwdbwd"', b'"cpu_instant_event"', b'"python_function"')
)  # fmt: skip
# Arguments that torch, Kineto and XLA write; a program may add any others, whose names alone can tell too much.
ARGUMENTS = frozenset(
    ("Addr", "Bytes", "Call stack", "Collective name", "Comms Id", "Concrete Inputs", "Count", "Device Id",
     "Device Type", "Ev Idx", "External id", "Fwd thread id", "Global rank start", "Global rank stride", "Group size",
     "In msg nelems", "In split size", "Input Dims", "Input Strides", "Input type", "Module Hierarchy", "Op count",
     "Out msg nelems", "Out split size", "Process Group Description", "Process Group ID", "Process Group Name",
     "Process Group Ranks", "Profiler Event Index", "Python id", "Python module id", "Python parent id", "Python thread",
     "Rank", "Record function id", "Seq", "Sequence number", "Src Rank", "Dst Rank", "Total Allocated", "Total Reserved",
     "Trace iteration", "Trace name", "block", "blocks per SM", "bytes", "cbid", "channel", "cid", "context",
     "correlation", "correlation_id", "cuda_sync_kind", "depth", "device", "dst", "dtype", "est. achieved occupancy %",
     "event", "external id", "finished", "flops", "graph id", "graph node id", "grid", "hlo_module", "hlo_op", "kernel",
     "kernel_backend", "kernel_file", "kernel_hash", "kernel_kwargs", "kernel_name", "kind", "memory bandwidth (GB/s)",
     "num_stages", "num_warps", "priority", "ptr", "queued", "registers per thread", "scope", "shared memory", "size",
     "sort_index", "src", "stream", "wait_on_cuda_event_id", "wait_on_cuda_event_record_corr_id", "wait_on_stream",
     "warps per SM")
)  # fmt: skip
_ANY_ARGUMENT = "|".join(re.escape(name) for name in sorted(ARGUMENTS, key=lambda name: (-len(name), name)))
PLAIN_ARGUMENTS = re.compile(rf'\{{(?:\s*"(?:{_ANY_ARGUMENT})"\s*:\s*{VALUE}\s*,?)*+\s*\}}'.encode())
# What an operator was given: numbers, switches and devices; a text may be anything, a path or a prompt.
SCALAR = re.compile(
    r"[\[\](),\s0-9.eE+xj-]*|True|False|None|-?inf|nan|(?:cpu|cuda|xpu|mps|meta)(?::\d+)?|mean|sum|none|tanh|gelu"
)
DEVICE_PROCESS = re.compile(r"/host:(?:CPU|metadata)|(?:/job:\w+/replica:\d+/task:\d+)?/device:[A-Z]+:\d+(?: \(pid \d+\))?")
LABEL = re.compile(r"(?:thread|stream) -?\d+|python[\d.]*|CPU|GPU \d+")
DEVICE_FIELDS = re.compile(r"id|name|\w*(?:Mem|Major|Minor|PerBlock|PerMultiprocessor|Size|Sms|Optin)\w*")
GROUP_FIELDS = frozenset(
    ("rank", "world_size", "backend", "nccl_version", "pg_count", "pg_config", "pg_name", "pg_desc", "pg_size", "uid",
     "ranks", "backend_config", "backend_id")
)  # fmt: skip
MOST_KEPT = 200_000  # texts whose redacted form is kept, for they come again


class Rules:
    """What stays of events; `left_out`: what did not, by its key."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.left_out: Counter[str] = Counter()
        self._kept: dict[tuple[bytes, str], msgspec.Raw] = {}

    def event(self, event: RawEvent) -> dict[str, Any]:
        category = bytes(event.get("cat", b""))
        rule = self.texts.code if category in CODE else self.texts.written
        kept: dict[str, Any] = {}
        for key, value in event.items():
            if key == "args":
                is_label = bytes(event.get("ph", b"")) == b'"M"'
                kept[key] = self._labels(value) if is_label else self._arguments(value, rule)
            elif key == "name":
                kept[key] = self._text(value, rule)
            elif key in ("ph", "s", "bp"):
                kept[key] = value if MARK.fullmatch(value) else self._text(value, self.texts.written)
            elif key in ("ts", "dur", "tts", "tdur"):
                kept[key] = value if NUMBERS.fullmatch(value) else msgspec.Raw(b"null")
            elif key in ("pid", "tid", "id", "cat"):
                kept[key] = value if category in CODE and key == "cat" else self._value(value, self.texts.written)
            else:
                self.left_out[key] += 1
        return kept

    def _arguments(self, text: msgspec.Raw, rule: Callable[[str], str]) -> Any:
        if PLAIN_ARGUMENTS.fullmatch(text):
            return text
        given = _object(text)
        if given is None:
            return {} if bytes(text)[:1] in b'"[{' else text
        kept = {}
        for key, value in given.items():
            if key not in ARGUMENTS:
                self.left_out[key] += 1
            elif key == "Concrete Inputs":
                kept[key] = self._text(value, _scalar)
            elif key == "Call stack":
                kept[key] = self._text(value, self._stack)
            else:
                kept[key] = self._value(value, rule)
        return kept

    def _labels(self, text: msgspec.Raw) -> Any:
        """Of metadata: what processes and threads are called."""
        given = _object(text) or {}
        kept = {key: value for key, value in given.items() if key == "sort_index" and NUMBERS.fullmatch(value)}
        kept |= {key: self._text(value, _label) for key, value in given.items() if key in ("name", "labels")}
        self.left_out.update(given.keys() - kept.keys())
        return kept

    def _value(self, value: msgspec.Raw, rule: Callable[[str], str]) -> msgspec.Raw:
        return value if NUMBERS.fullmatch(value) else self._text(value, rule)

    def _text(self, value: msgspec.Raw, rule: Callable[[str], str]) -> msgspec.Raw:
        """JSON of any kind, every text in it by the rule."""
        key = bytes(value), rule.__name__
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            kept = self._kept[key] = msgspec.Raw(msgspec.json.encode(by_rule(plain(key[0]), rule)))
        return kept

    def _stack(self, frames: str) -> str:
        return ";".join(map(self.texts.code, frames.split(";")))

    # Beside the events

    def header(self, header: Header) -> dict[str, Any]:
        """The fields that loading uses; all others are not even looked at."""
        numbers = {
            "schemaVersion": header.schema, "baseTimeNanoseconds": header.base_ns, "cuda_runtime_version": header.cuda,
            "hip_runtime_version": header.hip, "record_shapes": header.record_shapes or None,
            "with_stack": header.with_stack or None, "profile_memory": header.profile_memory or None,
        }  # fmt: skip
        kept: dict[str, Any] = {key: value for key, value in numbers.items() if isinstance(value, int | float)}
        if isinstance(header.devices, list):
            kept["deviceProperties"] = _fields(by_rule(header.devices, self.texts.code), DEVICE_FIELDS.fullmatch)
        if isinstance(header.distributed, dict):
            kept["distributedInfo"] = _fields(by_rule(header.distributed, self.texts.written), GROUP_FIELDS.__contains__)
        if isinstance(header.other_data, dict) and isinstance(producer := header.other_data.get("producer"), str):
            kept["otherData"] = {"producer": self.texts.written(producer)}
        return kept


def by_rule(value: Any, rule: Callable[[str], str]) -> Any:
    """JSON with every text in it by the rule, the keys too."""
    if isinstance(value, str):
        return rule(value)
    if isinstance(value, list):
        return [by_rule(item, rule) for item in value]
    if isinstance(value, dict):
        return {rule(str(key)): by_rule(item, rule) for key, item in value.items()}
    return value


def plain(text: bytes) -> Any:
    """JSON that need not be valid UTF-8, or hold no control characters."""
    try:
        return msgspec.json.decode(text)
    except NOT_JSON:
        whole = text.decode("utf-8", "replace")
    try:
        return json.loads(whole, strict=False)
    except (ValueError, RecursionError):
        return whole.strip('"')


def _fields(value: Any, is_known: Callable[[str], object]) -> Any:
    if isinstance(value, list):
        return [_fields(item, is_known) for item in value]
    if isinstance(value, dict):
        return {key: _fields(item, is_known) for key, item in value.items() if is_known(key)}
    return value


_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _object(text: msgspec.Raw) -> dict[str, msgspec.Raw] | None:
    try:
        return _objects.decode(text)
    except NOT_JSON:
        return None


def _scalar(text: str) -> str:
    return text if SCALAR.fullmatch(text) else ""


def _label(text: str) -> str:
    if text in ASCEND_DEVICES or DEVICE_PROCESS.fullmatch(text):
        return text
    found = LABEL.match(text)
    return found[0] if found else "[name]"
