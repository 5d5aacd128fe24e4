"""A slip in a printed formula, or a proof that is taken away, does not pass unnoticed."""

import ast
import copy
from pathlib import Path

import pytest

from handgrad.course import damage, evidence

ROOT = Path(__file__).parents[2]
CHAPTERS = evidence.chapters(ROOT / "notebooks")
IDS = [path.stem for path, _ in CHAPTERS]

# Edits that nothing refuses and that no proof shows to say the same, by label, with the reason.
ALIVE = {
    "eq-masks-floor": "with a larger factor the bound is weaker, and true",
    "eq-gamma-outside": "≠ is said of any two formulas that differ",
}


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path, _ in CHAPTERS], ids=IDS)
def test_the_damage_of_a_claim_is_refused_or_says_the_same(path):
    """A few edits of each formula; `python -m handgrad.course.damage` tries them all."""
    scores = damage.score(path, most=3)
    alive = {one.label: one.alive for one in scores if one.alive and not one.definition}
    assert {label: edits for label, edits in alive.items() if label not in ALIVE} == {}
    assert any(one.refused for one in scores)


def claimed(statement):
    """The labels that a statement proves or evaluates from the page."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if getattr(getattr(call, "func", None), "attr", "") not in ("prove", "holds"):
        return []
    return [argument.value for argument in call.args]


@pytest.mark.parametrize("path, notebook", CHAPTERS, ids=IDS)
def test_a_proof_that_is_taken_away_is_missed(path, notebook):
    """Without the calls that check it, an equation has other evidence, or is compared by eye."""
    before = {e.label: (e.reading, e.parts) for e in evidence.equations(notebook)}
    claims = [(cell.id, s) for cell, s in evidence.replay(notebook) if claimed(s)]
    for label in dict.fromkeys(label for _, s in claims for label in claimed(s)):
        emptied = copy.deepcopy(notebook)
        for cell in emptied.cells:
            gone = [ast.dump(s) for place, s in claims if place == cell.id and label in claimed(s)]
            if gone:
                tree = evidence.parse(cell.source)
                tree.body = [s for s in tree.body if ast.dump(s) not in gone]
                cell.source = ast.unparse(tree)
        after = {e.label: (e.reading, e.parts) for e in evidence.equations(emptied)}
        assert before[label] != after[label], label


def test_a_damage_that_nobody_notices_is_told(tmp_path, monkeypatch):
    """A check that cannot fail lets edits through, and the score says which."""
    monkeypatch.setattr(damage, "KEPT", tmp_path / "kept")
    page = tmp_path / "00_page.ipynb"
    cells = [
        evidence.nbformat.v4.new_markdown_cell("$$\nx_j + x_j \\ge x_j - 1000\n$$ (eq-weak)"),
        evidence.nbformat.v4.new_code_cell(
            "from handgrad.page import read\n"
            'page = read("00_page.ipynb").given(letters="x (D)")\npage.holds("eq-weak")'
        ),
    ]
    evidence.nbformat.write(evidence.nbformat.v4.new_notebook(cells=cells), page)
    (score,) = damage.score(page)
    assert score.refused >= 1 and any("1001" in edit for edit in score.alive)
    assert damage.score(page) == [score]  # kept
