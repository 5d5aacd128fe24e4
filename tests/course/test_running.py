"""The formulas of the running text agree with the labelled ones, and a slip in one of them is noticed."""

from pathlib import Path

import pytest

from handgrad.course import evidence
from handgrad.course.running import Running, formulas
from handgrad.page.edits import edits

CHAPTERS = {path.stem[:2]: path for path, _ in evidence.chapters(Path(__file__).parents[2] / "notebooks")}
# How many formulas of each chapter's text agree at least. One fewer, and one cannot be compared any more.
AGREE = [12, 15, 13, 27, 13, 9, 12, 24, 8, 8, 14, 13, 7, 8, 20, 10, 13, 9, 4, 5, 13]


@pytest.mark.parametrize("number, agree", list(zip(CHAPTERS, AGREE, strict=True)), ids=CHAPTERS)
def test_the_running_text_says_what_the_labelled_equations_say(number, agree):
    findings = Running(CHAPTERS[number]).findings()
    assert [one for one in findings if one.verdict == "differs"] == []
    those = [one.tex for one in findings if one.verdict == "agrees"]
    assert len(those) >= agree, those


@pytest.mark.parametrize(
    "number, right, wrong",
    [
        ("01", r"u_{tj} = x_{tj} - c_j", r"u_{tj} = x_{tj} + c_j"),
        (
            "05",
            r"\partial r/\partial \sigma^2 = -\frac12 r^3",
            r"\partial r/\partial \sigma^2 = -\frac12 r^2",
        ),
        ("05", r"r = 1/\sqrt{\sigma^2 + \varepsilon}", r"r = 1/(\sigma^2 + \varepsilon)"),
        ("08", r"z_t = \sum_r w_{tr}", r"z_t = \sum_r w_{rt}"),
        ("08", r"y_{te} = \sum_r a_{tr}\, v_{re}", r"y_{te} = a_{tr}\, v_{re}"),
        (
            "08",
            r"\mathrm{d}\mathbf{V} = \mathbf{A}^\top\mathrm{d}\mathbf{Y}",
            r"\mathrm{d}\mathbf{V} = \mathbf{A}\mathrm{d}\mathbf{Y}",
        ),
        ("15", r"p_t = p_{t-1} - \eta h\, p_{t-1}", r"p_t = p_{t-1} - \eta h\, p_t"),
        ("17", r"L = \frac1m \sum_t \ell_t", r"L = \sum_t \ell_t"),
    ],
)
def test_a_slip_in_the_running_text_is_noticed(number, right, wrong):
    running = Running(CHAPTERS[number])
    assert right in [tex for tex, _ in formulas(running.text)]
    assert running.verdict(right)[0] == "agrees" != running.verdict(wrong)[0]


def test_every_slip_in_a_chapter_is_noticed():
    running = Running(CHAPTERS["11"])
    those = [one.tex for one in running.findings() if one.verdict == "agrees"]
    alive = [e.tex for tex in those for e in edits(tex) if (running.verdict(e.tex) or " ")[0] == "agrees"]
    assert alive == []


def test_conditions_are_read_and_what_is_assumed_is_known():
    text = r"So $a = b$ for $j \ne k$. Take $c = 1$, and $$ d = e $$ stands there. $$ f = g $$ (eq-f)"
    assert list(formulas(text)) == [
        (r"a = b \quad\text{for} j \ne k", False),
        (r"j \ne k", True),
        ("c = 1", True),
        ("d = e", False),
    ]
