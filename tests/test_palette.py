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
