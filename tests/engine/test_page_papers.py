"""Formulas as papers write them: true ones are proved, false ones refuted, and no edit of one passes."""

import json
import random
from pathlib import Path

import pytest

from handgrad.page.edits import edits
from handgrad.page.sheet import outcomes

CASES = json.loads((Path(__file__).parent / "papers.json").read_text(encoding="utf-8"))
PROVED = [case for case in CASES if case["verdict"] == "proved"]


def said(case, claim=None):
    """The last verdict on a case, or on another claim in its place, and why."""
    formulas = [*case["formulas"][:-1], claim or case["formulas"][-1]]
    *_, last = outcomes("\n".join([f"letters: {case['letters']}", *formulas]))
    return last.verdict, last.why


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['name']}-{case['verdict']}")
def test_a_formula_of_a_paper(case):
    verdict, why = said(case)
    assert verdict == case["verdict"], why
    assert verdict == "proved" or why, "a verdict without a reason"


@pytest.mark.parametrize("case", PROVED, ids=lambda case: case["name"])
def test_no_edit_of_it_passes(case):
    claim = case["formulas"][-1]
    found = [edit for edit in edits(claim) if not says_the_same(edit)]
    for edit in random.Random(len(claim)).sample(found, min(3, len(found))):
        assert said(case, edit.tex)[0] in ("refuted", "not read", "not proved"), edit


def says_the_same(edit):
    """δ_ij is δ_ji, and a condition that is no condition can be left out."""
    return edit.kind == "indices exchanged" and "delta" in edit.tex or edit.kind == "condition left out"
