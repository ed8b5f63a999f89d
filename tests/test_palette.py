import math
import re

import pytest

from longpole.reports.palette import DARK, FILLS, LIGHT, PHASES, SPARE, contrast, css_charts, css_tokens, phase_fill

THEMES = {"light": LIGHT, "dark": DARK}


def test_black_on_white_has_the_greatest_contrast():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#777777") == 1


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read_on_every_fill_and_on_paper(theme: str):
    colours = THEMES[theme]
    assert [f for f in FILLS if contrast(colours[f], colours[f"on-{f}"]) < 4.5] == []
    for ink in ("ink", "ink2", "ink3", "link", "good", "bad"):
        assert contrast(colours[ink], colours["paper"]) >= 4.5, ink


def test_both_themes_know_the_same_tokens():
    assert LIGHT.keys() == DARK.keys()
    assert all(re.fullmatch("#[0-9A-F]{6}", colour) for theme in THEMES.values() for colour in theme.values())


def test_a_phase_keeps_its_colour_wherever_it_stands():
    assert phase_fill("data_loading", 0) == phase_fill("Data loading", 7) == "wait"
    assert phase_fill("forward", 3) == "fwd"


def test_unknown_phases_take_spare_colours_by_their_place():
    assert [phase_fill("prefill", i) for i in range(5)] == list(SPARE)
    assert phase_fill("prefill", 6) == phase_fill("decode", 1)


def test_each_colour_of_a_phase_means_one_thing():
    fills = [fill for phase, fill in PHASES.items() if phase != "python"]
    assert len(set(fills)) == len(fills)
    assert not set(fills) & set(SPARE)
    assert len({LIGHT[f] for f in FILLS}) == len({DARK[f] for f in FILLS}) == len(FILLS)


@pytest.mark.parametrize(
    ("first", "second"), [("loss", "fwd"), ("loss", "bwd"), ("bwd", "opt"), ("wait", "copy"), ("env", "act")]
)
@pytest.mark.parametrize("theme", THEMES)
def test_neighbouring_phases_differ_in_grey(theme: str, first: str, second: str):
    assert abs(lightness(THEMES[theme][first]) - lightness(THEMES[theme][second])) >= 10


def lightness(colour: str) -> float:
    """L* of the CIE, from the contrast with black."""
    luminance = contrast(colour, "#000000") * 0.05 - 0.05
    return 116 * luminance ** (1 / 3) - 16


@pytest.mark.parametrize("theme", THEMES)
def test_warm_colours_that_stand_beside_each_other_can_be_told_apart(theme: str):
    """Waiting, copies, idle times and the rest of one bar; below a distance of about 10 small areas look alike."""
    warm = ("wait", "sample", "copy", "input", "output", "other", "idle-copy", "idle-sync", "idle-launch", "idle-host", "spare3")
    colours = [lab(THEMES[theme][fill]) for fill in warm]
    assert min(math.dist(one, other) for i, one in enumerate(colours) for other in colours[:i]) >= 18


def lab(colour: str) -> tuple[float, float, float]:
    """Of the CIE, 1976: distances in it are differences that eyes see."""
    red, green, blue = (linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    x, y, z = (
        root((a * red + b * green + c * blue) / white)
        for a, b, c, white in ((0.4124, 0.3576, 0.1805, 0.9505), (0.2126, 0.7152, 0.0722, 1), (0.0193, 0.1192, 0.9505, 1.089))
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def root(share: float) -> float:
    return share ** (1 / 3) if share > 0.008856 else 7.787 * share + 16 / 116


def test_white_and_black_are_a_hundred_apart():
    assert math.dist(lab("#FFFFFF"), lab("#000000")) == pytest.approx(100, abs=0.1)


def test_style_rules_name_no_address_and_only_known_variables():
    css = css_tokens() + css_charts()
    assert "http" not in css
    assert set(re.findall(r"var\(--([\w-]+)\)", css)) <= LIGHT.keys()
    assert ".sw-wait,.hb-wait{background:var(--wait)}" in css
    assert "svg .on-bwd{fill:var(--on-bwd)}" in css


def test_the_dark_theme_is_for_screens_only():
    light = css_tokens().split("\n")[0]
    assert light.startswith(":root{") and LIGHT["paper"] in light
    rest = css_tokens().replace(light, "")
    assert rest.count(DARK["paper"]) == 2 == rest.count("@media screen{")
