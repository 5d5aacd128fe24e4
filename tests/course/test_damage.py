"""A slip in a printed formula, or a proof that is taken away, does not pass unnoticed."""

import ast
import copy
import functools
import re
from pathlib import Path

import pytest

from handgrad.course import damage, evidence
from handgrad.course.runs import parse
from handgrad.page import Page
from handgrad.page.second import Unjudged, judge

ROOT = Path(__file__).parents[2]
CHAPTERS = evidence.chapters(ROOT / "notebooks")
IDS = [path.stem for path, _ in CHAPTERS]
opened = functools.cache(damage.Chapter)
each_chapter = pytest.mark.parametrize("path", [path for path, _ in CHAPTERS], ids=IDS)

# Edits that nothing refuses and that no proof shows to say the same, by label, with the reason.
ALIVE = {
    "eq-masks-floor": "with a larger factor the bound is weaker, and true",
    "eq-half-still": "a narrower condition is true; and so it is for a step down, within the same gaps",
}


@pytest.mark.slow
@each_chapter
def test_the_damage_of_a_claim_is_refused_or_says_the_same(path):
    """A few edits of each claim; `python -m handgrad.course.damage` tries all, and those of definitions."""
    chapter = opened(path)
    claims = [label for label, (definition, _) in chapter.targets.items() if not definition]
    scores = [chapter.score(label, most=3) for label in claims]
    alive = {one.label: one.alive for one in scores if one.alive and one.label not in ALIVE}
    assert alive == {}
    assert any(one.refused for one in scores)


def claimed(statement):
    """The labels that a statement of the page proves or evaluates."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    asked = getattr(getattr(call, "func", None), "attr", "") in ("prove", "holds")
    return [argument.value for argument in call.args] if asked else []


@pytest.mark.parametrize("path, notebook", CHAPTERS, ids=IDS)
def test_a_proof_that_is_taken_away_is_missed(path, notebook):
    """Without the calls that check it, an equation has other evidence, or none."""
    before = {e.label: e.kind for e in evidence.equations(notebook)}
    replayed = evidence.replay(notebook)
    for label in {label for _, statement in replayed for label in claimed(statement)}:
        emptied = copy.deepcopy(notebook)
        gone = {(cell.id, ast.dump(s)) for cell, s in replayed if label in claimed(s)}
        for cell in (cell for cell in emptied.cells if cell.id in dict(gone)):
            tree = parse(cell.source)
            tree.body = [s for s in tree.body if (cell.id, ast.dump(s)) not in gone]
            cell.source = ast.unparse(tree)
        after = {e.label: e.kind for e in evidence.equations(emptied)}
        numbered = any(call.method == "number" for call in evidence.calls(emptied))
        assert after[label] != before[label] or numbered, label


def written(folder, text, code):
    """A notebook of one text and one cell, in a file."""
    v4, path = evidence.nbformat.v4, folder / "00_page.ipynb"
    cells = [v4.new_markdown_cell(text), v4.new_code_cell(code)]
    evidence.nbformat.write(v4.new_notebook(cells=cells), path)
    return path


def test_a_number_is_compared_by_the_cell_that_takes_it(tmp_path):
    """A cell that takes a number, and compares something else, lets every slip through."""
    code = "from handgrad.page import read\npage = read('00_page.ipynb')\n"
    code += "n, m = page.number('eq-a', D=3), page.number('eq-b', D=3)\nassert {} == 4"
    text = "$$ a = D + 1 $$ (eq-a)\n\n$$ b = D + 2 $$ (eq-b)"
    scores = damage.numbers(damage.Chapter(written(tmp_path, text, code.format("n"))))
    assert [(one.edits, one.refused) for one in scores.values()] == [(2, 2), (2, 0)]
    with pytest.raises(AssertionError, match="eq-a: the cell .* fails as it stands"):
        damage.numbers(damage.Chapter(written(tmp_path, text, code.format("n + 1"))))


def test_a_damage_that_nobody_notices_is_told(tmp_path, monkeypatch):
    """A check that cannot fail lets edits through, and the score says which."""
    monkeypatch.setattr(damage, "KEPT", tmp_path / "kept")
    text = "$$ y_i = \\sum_j \\delta_{ij} x_j + x_i $$ (eq-double)\n\n"
    text += (
        "$$ \\mathrm{d}x_i = 2\\, \\mathrm{d}y_i $$ (eq-back)\n\n$$ x_j + x_j \\ge x_j - 1000 $$ (eq-weak)"
    )
    code = (
        'from handgrad.page import read\npage = read("00_page.ipynb").given("eq-double", letters="x (D)")\n'
    )
    code += 'page.prove("eq-back")\npage.holds("eq-weak")'
    page = written(tmp_path, text, code)
    chapter = damage.Chapter(page)
    double, back, score = scores = [chapter.score(label) for label in chapter.targets]
    assert (double.definition, double.edits, double.refused, double.alive) == (True, 11, 9, [])
    assert any(r"\delta_{ji}" in edit for edit in double.same)
    assert (back.definition, back.edits, back.refused) == (False, 3, 3)
    assert score.refused >= 1 and any("1001" in edit for edit in score.alive)
    assert [chapter.score(label) for label in chapter.targets] == scores  # kept
    record = tmp_path / "damage.json"
    damage.record(chapter, [score], path=record)
    damage.record(chapter, [score], path=record)
    entry = damage.recorded(record)["00_page"]["eq-weak"]
    assert entry["refused"] == score.refused and entry["alive"] == score.alive
    assert damage.told(damage.recorded(record)).startswith(f"In 1 claims, of {score.edits} slips ")


@each_chapter
def test_the_record_is_of_the_printed_formulas(path):
    """If not: python -m handgrad.course.damage --record notebooks/[0-9]*.ipynb"""
    chapter, entries = opened(path), damage.recorded(ROOT / damage.RECORD)[path.stem]
    printed = {label: chapter.mark(label) for label in (*chapter.targets, *chapter.taken)}
    assert {label: entry["formula"] for label, entry in entries.items()} == printed
    for label, entry in entries.items():
        assert entry["edits"] == entry["refused"] + len(entry["same"]) + len(entry["alive"])
        assert entry["refused"] or not entry["definition"], label
        if label in chapter.taken:  # the cells that take its number do compare it
            assert entry["taken"] and (entry["refused"] or not entry["edits"]), label
        elif entry["alive"] and not entry["definition"]:
            assert label in ALIVE, (label, entry["alive"])


def test_the_readme_says_what_is_recorded():
    assert damage.told(damage.recorded(ROOT / damage.RECORD)) in (ROOT / "README.md").read_text(
        encoding="utf-8"
    )


def claims(chapter):
    """Pairs (reading, label) of what the notebook of a chapter proves or evaluates."""
    for source, _, labels in damage.statements(chapter.notebook)[1]:
        given = eval(source, chapter.made)
        yield from ((given.given() if isinstance(given, Page) else given, label) for label in labels)


@each_chapter
def test_a_definition_that_is_read_is_ground_of_a_check(path):
    """What the index calls "read from the page" is used: a definition that no check needs is a decoy.

    A check needs it, or computes its letters from the page.
    """
    chapter = opened(path)
    code = "\n".join(cell.source for cell in chapter.notebook.cells if cell.cell_type == "code")
    used = {ground for given, label in claims(chapter) for ground in given.grounds(label)}
    for name, made in chapter.made.items():
        if re.search(rf"\b{name}\.(compute|number)\(", code):
            used |= {*getattr(made, "printed", ())}
    read = {e.label for e in evidence.equations(chapter.notebook) if e.kind == "definition"}
    assert read - used == set()


NOT_JUDGED = {
    "eq-stand-in": "letters that are held still",
    "eq-path-direct": "letters that are held still",
    "eq-feed-forward-parameters": "a condition on sizes",
    "eq-invariances": "an operator at another array",
    "eq-positions-columns": "even and odd cases",
    "eq-positions-wavelength": "a place between two tokens",
    "eq-positions-rotation": "a place beyond the last token",
    "eq-positions-product": "a place beyond the last token",
    "eq-attention-variance": "an index that only letters with a law have",
    "eq-masks-before": "rows without a key, which are most of the small ones",
    "eq-multi-head-groups": "matrices at an index such as gG + m",
    "eq-translate-table": "an index that is a label, on the left",
    "eq-language-model-later": "a sum whose first index is that of the claim",
    "eq-language-model-bits": "words as an index",
    "eq-translate-parallel": "a letter that is a word",
}
"""The forms that the second reading does not know, by label."""


@each_chapter
def test_what_is_checked_is_evaluated_by_the_second_reading(path):
    silent = set()
    for given, label in claims(opened(path)):
        try:
            assert judge(given, label) > 0
        except Unjudged:
            silent.add(label)
    assert silent == {*NOT_JUDGED} & {*opened(path).page.equations}
