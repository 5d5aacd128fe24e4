"""The cheat sheet shows what the chapters have checked, and nothing else."""

import copy
import re

import pytest

from book._ext import cheat_sheet as sheet
from handgrad.course.evidence import Equation

BOOK, SIDES = sheet.of_book(), sheet.read()


def changed(chapter, **what):
    """The sides, with the card of one chapter changed."""
    sides = copy.deepcopy(SIDES)
    card = next(card for side in sides for card in side["cards"] if card["chapter"] == chapter)
    card.update(what)
    return sides


def test_the_sheet_is_right():
    assert sheet.problems(SIDES, BOOK) == []


def test_every_chapter_has_a_card():
    sides = copy.deepcopy(SIDES)
    assert sides[0]["cards"].pop(4)["chapter"] == 5
    assert len(sheet.problems(sides, BOOK)) == 1 and "card for each" in sheet.problems(sides, BOOK)[0]


@pytest.mark.parametrize(
    "chapter, what, reason",
    [
        (8, dict(backward=["eq-attention-nothing"]), "no equation of this label"),
        (8, dict(forward=["eq-linear"]), "no equation of this label"),  # of another chapter
        (8, dict(backward=["eq-attention-backward 6"]), "a statement from 1 to 5"),
        (8, dict(backward=["eq-attention-backward 0"]), "a statement from 1 to 5"),
        (8, dict(backward=["eq-attention-backward dQ"]), "no equation of this label"),
        (8, dict(backward=["eq-attention-ds-rows"]), "expected a gradient"),
        (8, dict(backward=["eq-attention-output 1"]), "expected a gradient"),
        (8, dict(says=["the test that sleeps"]), "no row 'the test that sleeps'"),
    ],
)
def test_what_is_wrong_is_refused(chapter, what, reason):
    found = sheet.problems(changed(chapter, **what), BOOK)
    assert found and reason in found[0]


@pytest.mark.parametrize("place", ["forward", "backward", "also"])
@pytest.mark.parametrize("kind, reason", [("definition", "only a definition"), (None, "nothing checks it")])
def test_a_gradient_without_evidence_is_refused_wherever_it_stands(place, kind, reason):
    path, found, rows = BOOK[8]
    claimed = Equation("eq-new", r"\mathrm{d}\mathbf{Q} = \mathbf{K} .", 0, kind)
    book = BOOK | {8: (path, found | {"eq-new": claimed}, rows)}
    wrong = sheet.problems(changed(8, **{place: ["eq-new"]}), book)
    assert wrong and reason in wrong[0]


STATED = {
    r"\mathbf{p} = \mathbf{q} .": [r"\mathbf{p} = \mathbf{q}"],
    r"a = b, \qquad c = d .": ["a = b", "c = d"],
    r"a = b, \quad c = d": ["a = b", "c = d"],
    r"a = b \quad\text{if } c = d .": [r"a = b \quad\text{if } c = d"],
    "\\begin{aligned}\na &= b \\\\\n&= c, \\\\\nd &= e .\n\\end{aligned}": ["a = b\n= c", "d = e"],
    "\\begin{aligned}\na &= b \\\\\n&\\quad {} - c, \\\\\n\\text{that is}\\quad d &= e .\n\\end{aligned}": [
        "a = b\n{}- c",
        "d = e",
    ],
    "\\begin{aligned}\na &= \\big( b \\\\\n&\\quad {} + c \\big)\n\\end{aligned}": [
        "a = \\big( b\n{}+ c \\big)"
    ],
    r"\begin{aligned} \text{pre} && a &= b \end{aligned}": [r"\text{pre}\; a = b"],
    "a = \\begin{cases} 1 & b \\\\ 0 & c \\end{cases}": [r"a = \begin{cases} 1 & b \\ 0 & c \end{cases}"],
    r"\sum_{\substack{b,t \\ y = 1}} a = b": [r"\sum_{\substack{b,t \\ y = 1}} a = b"],
}


@pytest.mark.parametrize("formula, stated", STATED.items())
def test_a_formula_is_taken_apart(formula, stated):
    assert sheet.statements(formula) == stated


def test_the_ends_of_a_chain():
    assert sheet.ends("a = f(b = c)\n= d = e") == "a = e"
    assert sheet.ends(r"a \approx b") == r"a \approx b"


def test_nothing_of_a_formula_is_lost_or_added():
    """Without spaces, breaks, alignment and the words between them, statements are the formula."""
    noise = r"\\begin\{(aligned|gathered)\}|\\end\{(aligned|gathered)\}|\\\\(\[\w+\])?|\\q?quad\b|\\;|\{\}|&"
    noise += r"|\\text\{(that is|with|so that|and)\s*\}|[\s.,]"
    for _, found, _ in BOOK.values():
        for equation in found.values():
            stated = "".join(sheet.statements(equation.formula))
            assert re.sub(noise, "", stated) == re.sub(noise, "", equation.formula), equation.label
