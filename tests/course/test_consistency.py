"""The book says one thing once: chapters and plan agree, and what breaks this is noticed."""

from pathlib import Path

import pytest
import yaml

from handgrad.course import consistency, evidence

ROOT = Path(__file__).parents[2]
CHAPTERS = {int(path.stem[:2]): notebook for path, notebook in evidence.chapters(ROOT / "notebooks")}
PLAN = yaml.safe_load((ROOT / "book" / "chapters.yml").read_text(encoding="utf-8"))
NEEDS = {entry["number"]: entry["needs"] for part in PLAN for entry in part["chapters"]}
HOMES = consistency.homes(ROOT / "notebooks")

# What a chapter needs ---------------------------------------------------------------------------------------


def test_the_openings_and_the_plan_say_the_same():
    openings = {n: consistency.opening(book.cells[0].source, HOMES) for n, book in CHAPTERS.items()}
    assert consistency.wrong_needs(NEEDS, openings) == []
    assert openings[8]["You need"] == [1, 2, 3] and openings[8]["In part"] == [5]


OPENING = """# Title

:::{admonition} What you will be able to do
1. **Read** {doc}`chapter 7 <07_positions>`.

**You need:** {doc}`1 <01_chain_rule>`, {ref}`projection <here>`, and the {doc}`notation </book/notation>`.
**In part:** {doc}`/notebooks/02_softmax_cross_entropy`.
**Time:** 3 minutes.
:::
"""


def test_an_opening_is_read():
    assert consistency.opening(OPENING, {"here": 5}) == {"You need": [1, 5], "In part": [2], "Time": []}
    assert consistency.opening("# Title\n\n**You need:** nothing.", {}) == {}


def test_a_link_that_leads_nowhere_is_refused():
    with pytest.raises(ValueError, match="expected a label of a chapter, got {ref}`here`"):
        consistency.opening(OPENING, {"there": 5})


GOOD = {
    1: {"You need": [], "Time": []},
    2: {"You need": [1], "Time": []},
    3: {"You need": [1, 2], "Time": []},
}


def test_what_follows_from_the_plan_may_be_named():
    assert consistency.wrong_needs({1: [], 2: [1], 3: [2]}, GOOD) == []
    assert consistency.closure({1: [], 2: [1], 3: [2], 4: []}, 3) == {1, 2}


@pytest.mark.parametrize(
    "needs, opening, complaint",
    [
        ([1], GOOD[3], "says that it needs 2, the plan does not"),
        ([2], GOOD[2], "chapter 3 needs 2, and its opening does not say so"),
        ([2, 3], GOOD[3], "chapter 3 needs 3, which is not earlier"),
        ([2], {"You need": [2]}, "has no 'Time'"),
        ([], {"Time": []}, "has no 'You need'"),
        ([2], GOOD[3] | {"In part": [1]}, "wants a part of 1, which it needs as a whole"),
        ([1], GOOD[2] | {"In part": [3]}, "wants a part of 3, which is not earlier"),
    ],
)
def test_a_plan_and_an_opening_that_disagree_are_noticed(needs, opening, complaint):
    wrong = consistency.wrong_needs({1: [], 2: [1], 3: needs}, GOOD | {3: opening})
    assert any(complaint in sentence for sentence in wrong)
