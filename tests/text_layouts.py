"""Lists of events -> the text of a trace file as different tools lay it out; times are Decimal and stand in it digit by digit."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

Event = dict[str, Any]
Quote = Callable[[str], str]  # a string -> its text, quotes included

HEAD = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU ]} 0"}], "displayTimeUnit": "ms"}
AFTER = {"traceName": "run/trace.json", "baseTimeNanoseconds": 1_000_000_000, "nested": [{"ph": 1}, {"name": [2]}]}


def escaped(text: str) -> str:
    return json.dumps(text)


def escaped_utf8(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def unescaped(text: str) -> str:
    """As torch writes names until 2.13."""
    return f'"{text}"'


@dataclass(frozen=True)
class Layout:
    """`event`: one element of the list; `between`, `after`: what separates two, what stands before the list's end."""

    event: Callable[[Event, Quote], str]
    between: str
    after: str
    member: str = ", "
    order: Callable[[Event], Event] = dict
    line: str = "\n"
    mark: str = ""  # of the byte order


def spelled(value: Any, quote: Quote, comma: str = ", ", colon: str = ": ", line: str = "", step: str = "") -> str:
    """Any JSON value; `line`: what a line begins with, newline included, where there is one for each member."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, Mapping):
        inner = [f"{quote(k)}{colon}{spelled(v, quote, comma, colon, line and line + step, step)}" for k, v in value.items()]
        return _enclosed("{", inner, "}", comma, line, step)
    if isinstance(value, list):
        return _enclosed(
            "[", [spelled(v, quote, comma, colon, line and line + step, step) for v in value], "]", comma, line, step
        )
    return json.dumps(value)


def _enclosed(opening: str, parts: Sequence[str], closing: str, comma: str, line: str, step: str) -> str:
    if not line or not parts:
        return f"{opening}{comma.join(parts)}{closing}"
    return f"{opening}{line}{step}{f'{comma.rstrip()}{line}{step}'.join(parts)}{line}{closing}"


def _compact(event: Event, quote: Quote) -> str:
    return spelled(event, quote, ",", ":")


def _plain(event: Event, quote: Quote) -> str:
    return spelled(event, quote)


def _spaced(event: Event, quote: Quote) -> str:
    return spelled(event, quote, " \t, ", "  :\t").replace("{", "{ ", 1)


def _pretty(indent: str) -> Callable[[Event, Quote], str]:
    return lambda event, quote: spelled(event, quote, line="\n" + 2 * indent, step=indent)


def _kineto_old(event: Event, quote: Quote) -> str:
    """torch until 2.11: what it is, when, and its arguments, on a line each."""
    groups = [[k for k in event if k not in ("ts", "dur", "args")], [k for k in ("ts", "dur") if k in event]]
    lines = [", ".join(f'"{k}": {spelled(event[k], quote)}' for k in group) for group in groups if group]
    if "args" in event:
        lines.append(f'"args": {{\n      {_kineto_args(event["args"], quote)}\n    }}')
    return "{\n    " + ",\n    ".join(lines) + "\n  }"


def _kineto_new(event: Event, quote: Quote) -> str:
    """torch from 2.12 on: a line for each key, and the comma after a duration on its own."""
    lines = [f'"{k}": {spelled(v, quote)}' for k, v in event.items() if k != "args"]
    args = f'\n    ,\n    "args": {{\n      {_kineto_args(event["args"], quote)}\n    }}' if "args" in event else "\n    "
    return "{\n    " + ",\n    ".join(lines) + args + "\n  }"


def _kineto_args(args: Any, quote: Quote) -> str:
    return ",".join(f'"{k}": {spelled(v, quote)}' for k, v in args.items())


def _args_first(event: Event) -> Event:
    return {k: event[k] for k in ("args", *(k for k in event if k != "args")) if k in event}


def _backwards(event: Event) -> Event:
    return dict(reversed(event.items()))


def _sorted(event: Event) -> Event:
    return dict(sorted(event.items()))


COMPACT = Layout(_compact, ",", "", ",")
PLAIN = Layout(_plain, ", ", "")
LINES = Layout(_compact, ",\n", "\n")
KINETO = {"kineto old": Layout(_kineto_old, ",\n  ", "\n  "), "kineto new": Layout(_kineto_new, ",\n  ", "\n  ", ",\n    ")}
LAYOUTS = {
    **KINETO,
    "compact": COMPACT,
    "json.dumps": PLAIN,
    "an event a line": LINES,
    "indented by 1": Layout(_pretty(" "), ",\n  ", "\n ", ",\n "),
    "indented by 2": Layout(_pretty("  "), ",\n    ", "\n  ", ",\n  "),
    "indented by 4": Layout(_pretty("    "), ",\n        ", "\n    ", ",\n    "),
    "indented by a tab": Layout(_pretty("\t"), ",\n\t\t", "\n\t", ",\n\t"),
    "carriage returns": Layout(_pretty("  "), ",\n    ", "\n  ", ",\n  ", line="\r\n"),
    "byte order mark": replace(KINETO["kineto new"], mark="\ufeff"),
    "borders on one line": Layout(_pretty("  "), ", ", "\n"),
    "spaces everywhere": Layout(_spaced, " \n\t, \r\n ", " \n "),
    "arguments first": replace(PLAIN, order=_args_first),
    "arguments first, lines": replace(LINES, order=_args_first),
    "keys backwards": replace(PLAIN, order=_backwards),
    "keys sorted": replace(COMPACT, order=_sorted),
}
PLACES = ("before", "after", "both", "none", "bare list")  # of the metadata


def list_text(events: Sequence[Event], layout: Layout, quote: Quote = escaped) -> str:
    return layout.between.join(layout.event(layout.order(event), quote) for event in events)


def file_text(
    events: Sequence[Event],
    layout: Layout,
    place: str = "before",
    quote: Quote = escaped,
    head: Mapping[str, Any] = HEAD,
    after: Mapping[str, Any] = AFTER,
) -> str:
    """The whole file; `place`: where the metadata stand."""
    return around(list_text(events, layout, quote), layout, place, head, after)


def around(
    listed: str, layout: Layout, place: str = "before", head: Mapping[str, Any] = HEAD, after: Mapping[str, Any] = AFTER
) -> str:
    """The text of the events with what stands before and after them."""
    if place == "bare list":
        text = f"[{listed}{layout.after}]"
    else:
        first = _members({} if place in ("after", "none") else head, layout)
        last = _members({} if place in ("before", "none") else after, layout)
        opening = "{" + "".join(f"{member}{layout.member}" for member in first) + '"traceEvents": ['
        text = f"{opening}{listed}{layout.after}]" + "".join(f"{layout.member}{member}" for member in last) + "}\n"
    return layout.mark + (text if layout.line == "\n" else text.replace("\n", layout.line))


def _members(metadata: Mapping[str, Any], layout: Layout) -> list[str]:
    colon = ":" if layout.member == "," else ": "
    return [f"{escaped(key)}{colon}{spelled(value, escaped, layout.member, colon)}" for key, value in metadata.items()]
