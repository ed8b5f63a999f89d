"""Colours: one meaning each, in a light and a dark theme. Phase names in, tokens out; tokens in, style rules out.

Orange is time spent waiting or on data, blue is model work (stronger from loss to optimizer), green is the environment
and acting in it, plum is communication, brown moves a server's input and output, warm grey is the rest. Idle time of a GPU
is orange to brown, by its cause.
"""

INK, WHITE = "#15181D", "#FFFFFF"
SPARE = ("spare0", "spare1", "spare2", "spare3", "spare4")
FILLS = (
    "wait", "sample", "copy", "loss", "fwd", "bwd", "opt", "eval", "env", "act", "comm", "input", "output", "other",
    "idle-copy", "idle-sync", "idle-launch", "idle-host", *SPARE,
)  # fmt: skip
STROKES = ("ink", "ink2", "ink3", "rule", "grid", "paper", "good", "bad")


def contrast(first: str, second: str) -> float:
    """The WCAG contrast ratio of two #RRGGBB colours; 4.5 is enough for small text."""
    dark, bright = sorted((_luminance(first), _luminance(second)))
    return (bright + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _theme(**colours: str) -> dict[str, str]:
    """The colours and, for each fill, the ink that can be read on it: dark ink on a dark theme's grey could not."""
    inks = (INK, WHITE)
    return colours | {f"on-{fill}": max(inks, key=lambda ink: contrast(ink, colours[fill])) for fill in FILLS}


LIGHT = _theme(
    paper="#FFFFFF", tint="#F5F6F8", ink="#15181D", ink2="#454C58", ink3="#656D7A",
    rule="#CDD2D9", grid="#E6E9ED", link="#1B5A9E", good="#1F66AD", bad="#B4541A",
    wait="#E58A27", sample="#F7C58B", copy="#FBE3BD",
    loss="#CBE1F6", fwd="#93BFE4", bwd="#3878B4", opt="#153F6B", eval="#9A8FDD",
    env="#586934", act="#8FAA56", comm="#A4427B", input="#7B4B40", output="#D3A08E", other="#D9D6CF",
    **{"idle-copy": "#A87B4A", "idle-sync": "#7A3F0E", "idle-launch": "#DC5A25", "idle-host": "#E3B23C"},
    spare0="#2AA58D", spare1="#5E56B7", spare2="#DB8CA8", spare3="#A8B52F", spare4="#4A5A66",
)  # fmt: skip
DARK = _theme(
    paper="#12151A", tint="#1A1E25", ink="#E9EBEE", ink2="#B4BBC6", ink3="#8D96A4",
    rule="#363D48", grid="#262C35", link="#7FB4EA", good="#6FAEE8", bad="#F0A062",
    wait="#EE9A3C", sample="#F6CB95", copy="#F3E7CF",
    loss="#C6E0F7", fwd="#8FC1EA", bwd="#3A79B8", opt="#2A5688", eval="#A79DE8",
    env="#6B9666", act="#9FE0BE", comm="#B3548C", input="#8A5549", output="#D9A999", other="#66655F",
    **{"idle-copy": "#B08A60", "idle-sync": "#8F4A14", "idle-launch": "#E0602C", "idle-host": "#E6BC55"},
    spare0="#35B098", spare1="#6F67C4", spare2="#E09AB2", spare3="#B7C34B", spare4="#7C90A0",
)  # fmt: skip


PHASES = {
    "data_loading": "wait", "sampling": "sample", "copy": "copy",
    "forward": "fwd", "loss": "loss", "backward": "bwd", "optimizer": "opt", "evaluation": "eval",
    "environment": "env", "act": "act", "communication": "comm", "input": "input", "output": "output",
    "other": "other", "python": "other",
}  # fmt: skip


def phase_fill(phase: str, order: int) -> str:
    """The fill token of a phase; a phase we do not know takes a spare one by its place among the phases."""
    return PHASES.get(phase.strip().lower().replace(" ", "_").replace("-", "_"), SPARE[order % len(SPARE)])


def css_tokens() -> str:
    """Variables for both themes and the swatches of tables (`sw-`, `hb-`); for HTML and PDF."""
    light, dark = (";".join(f"--{token}:{colour}" for token, colour in t.items()) for t in (LIGHT, DARK))
    themes = [
        f":root{{{light}}}",
        # WeasyPrint refuses `screen and (prefers-…)` but skips nested rules for screens, which suits a printed page.
        f"@media screen{{@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}}}",
        f"@media screen{{:root[data-theme=dark]{{{dark}}}}}",
    ]
    swatches = "".join(f".sw-{t},.hb-{t}{{background:var(--{t})}}" for t in FILLS)
    return "\n".join([*themes, swatches, ""])


def css_charts() -> str:
    """The rules behind the class names of inline charts (`f-`, `s-`, `on-`); HTML only, WeasyPrint would warn of each."""
    fills = [f"svg .f-{t}{{fill:var(--{t})}}" for t in LIGHT if not t.startswith("on-")]
    texts = [f"svg .on-{t}{{fill:var(--on-{t})}}" for t in FILLS]
    strokes = [f"svg .s-{t}{{stroke:var(--{t})}}" for t in STROKES]
    return "\n".join(["".join(fills), "".join(texts), "".join(strokes), ""])
