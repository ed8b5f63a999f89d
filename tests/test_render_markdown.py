"""Markdown for a pull request: tables are well formed and names are text."""

import re
from functools import cache

import pytest
from make_report import KINDS, SCRIPT, reports

from longpole.reports.formats import plain
from longpole.reports.render_markdown import escaped, render_markdown

EVERY_REPORT = pytest.mark.parametrize("kind", KINDS)


@cache
def text(kind: str) -> str:
    return render_markdown(reports()[kind]).decode("utf-8")


def tables(kind: str) -> list[list[list[str]]]:
    """Blocks of lines that begin with a bar, split at bars that are not escaped."""
    blocks = [b for b in text(kind).split("\n\n") if b.lstrip("\n").startswith("|")]
    return [[[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in b.strip("\n").split("\n")] for b in blocks]


@EVERY_REPORT
def test_every_row_of_a_table_has_as_many_cells_as_its_head(kind: str):
    assert tables(kind)
    for rows in tables(kind):
        assert {len(row) for row in rows} == {len(rows[0])}
        assert set(rows[1]) == {"---"}
        assert len(rows) > 2


@EVERY_REPORT
def test_a_folded_part_is_opened_and_closed_with_blank_lines_inside(kind: str):
    folded = re.findall(r"<details><summary>[^<\n]+</summary>\n\n.*?\n\n</details>", text(kind), re.DOTALL)
    assert len(folded) == text(kind).count("<details>") == text(kind).count("</details>") > 0


@EVERY_REPORT
def test_nothing_but_our_own_elements_is_markup(kind: str):
    assert set(re.findall(r"<(/?\w+)", text(kind))) <= {"details", "/details", "summary", "/summary", "sub", "/sub"}
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", text(kind))


@EVERY_REPORT
def test_it_is_short_enough_for_a_comment_and_ends_with_a_line_break(kind: str):
    assert len(text(kind)) < 60_000  # a comment on GitHub holds 65,536 characters
    assert text(kind).endswith("\n")
    assert "\n\n\n" not in text(kind)


@pytest.mark.parametrize("kind", ["hostile", "hostile gpu", "hostile ranges", "hostile snapshot"])
def test_hostile_names_are_text(kind: str):
    assert escaped(SCRIPT) in text(kind)
    assert "\\[red\\]markup\\[/red\\] \\`code\\` \\*\\*bold\\*\\* \\| pipe" in text(kind)


def test_every_mark_of_markdown_is_escaped():
    assert escaped("a|b`c`*d*_e_[f](g)#h~i~$j$\\") == "a\\|b\\`c\\`\\*d\\*\\_e\\_\\[f\\](g)\\#h\\~i\\~\\$j\\$\\\\"
    assert escaped("<b>&amp;\n- x") == "&lt;b&gt;&amp;amp; - x"


def test_a_run_leads_with_its_verdict_and_lists_its_changes():
    lines = plain(text("trace")).split("\n")
    assert lines[0] == "## Sampling holds 42 % of the step"
    assert lines[2] == "**Host-bound** · train.json"
    assert "| 1 | Batch the 60 small operator calls in sampling | -393 us | -400 us to -236 us | high |" in lines
    assert "| aten::select | sampling | 240.0 | 25.1 |" in lines
    assert "### What to change" not in text("no steps")


def test_a_diff_leads_with_its_verdict_and_the_step():
    lines = plain(text("diff")).split("\n")
    assert lines[0] == "## 2.05x faster: 955 us -> 465 us per step"
    assert "| Step time, mean | 955.0 us | 465.0 us | -490.0 us | -51 % | -499.9 to -480.1 | faster |" in lines
    assert "| sampling | 400.0 | 60.0 | -340.0 | changed |" in lines
    assert "| act | 100.0 | 100.0 | 0.0 | within noise |" in lines


def test_the_files_are_named_with_their_digests():
    assert re.search(
        r"longpole \S+, rank0.trace.json.gz sha256 [0-9a-f]{12}, rank0.trace.json.gz sha256 [0-9a-f]{12}</sub>", text("diff")
    )
