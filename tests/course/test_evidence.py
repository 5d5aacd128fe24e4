"""Every displayed equation of the chapters is checked by an executed cell; the rule refuses what it must."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from handgrad.course import evidence

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHAPTERS = evidence.chapters(NOTEBOOKS)
EXERCISES = sorted(NOTEBOOKS.glob("*/*.ipynb"))


# The book ---------------------------------------------------------------------------------------------------


def test_there_are_chapters():
    assert CHAPTERS


@pytest.mark.parametrize("path, notebook", CHAPTERS, ids=[path.stem for path, _ in CHAPTERS])
def test_every_equation_is_checked(path, notebook):
    assert evidence.problems(notebook) == []
    assert len(evidence.equations(notebook)) >= 5


@pytest.mark.parametrize("path, notebook", CHAPTERS, ids=[path.stem for path, _ in CHAPTERS])
def test_most_equations_are_more_than_definitions(path, notebook):
    kinds = [equation.evidence for equation in evidence.equations(notebook)]
    assert sum(kind == ("definition",) for kind in kinds) <= len(kinds) / 2


def test_a_label_belongs_to_one_chapter():
    labels = [equation.label for _, notebook in CHAPTERS for equation in evidence.equations(notebook)]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_exercises_refer_to_the_equations_of_the_chapters(path):
    notebook = nbformat.read(path, as_version=4)
    assert evidence.equations(notebook) == [], "a label here would be a second one in the built book"


def test_the_index_lists_every_equation():
    page = evidence.index(NOTEBOOKS)
    for _, notebook in CHAPTERS:
        for equation in evidence.equations(notebook):
            assert page.count(f"{{eq}}`{equation.label}`") == 1
            assert equation.formula in page


def test_the_index_says_so_where_an_equation_is_not_checked(tmp_path):
    nbformat.write(notebook(code_tags=[]), tmp_path / "00_squares.ipynb")
    assert "{eq}`eq-square` **not checked**" in evidence.index(tmp_path)
    assert "**not checked**" not in evidence.index(NOTEBOOKS)


def test_the_index_of_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="folder: expected chapter notebooks"):
        evidence.index(tmp_path)


# The rule: a sound notebook, and notebooks that it must refuse ----------------------------------------------

TEXT = "The gradient.\n\n$$\n\\mathrm{d}x = 2x\n$$ (eq-square)\n"
IMPORTS = (
    "import numpy as np, pytest\nfrom handgrad import check, sums\nfrom handgrad.sums import prove_equal\n"
    "from contextlib import suppress\nfrom sympy import simplify"
)


def notebook(text=TEXT, code="assert a == b", text_tags=(), code_tags=("verifies:eq-square",)):
    return new_notebook(
        cells=[
            new_code_cell(IMPORTS),
            new_markdown_cell(text, metadata={"tags": list(text_tags)}),
            new_code_cell(code, metadata={"tags": list(code_tags)}),
        ]
    )


def test_a_sound_notebook_passes():
    assert evidence.problems(notebook()) == []
    assert evidence.problems(notebook(text_tags=["definition:eq-square"], code_tags=[])) == []


@pytest.mark.parametrize(
    "bad, complaint",
    [
        ({"code_tags": []}, "eq-square: no cell verifies it"),
        ({"text": "No equation."}, "eq-square: tagged verifies:eq-square, but no equation"),
        (
            {"code_tags": ["verifies:eq-square", "verifies:eq-cube"]},
            "eq-cube: tagged verifies:eq-cube, but no",
        ),
        ({"code": "y = 2 * x"}, "eq-square: its verifying cell holds no check"),
        ({"text": "$$ x $$"}, "displayed equation without a label"),
        ({"text": "The gradient\n$$ x $$ (eq-square)"}, "displayed equation without a label"),
        ({"text": "\\begin{align} x \\end{align}"}, "displayed equation without a label"),
        ({"text": TEXT + "\n$$ y $$ (eq-square)"}, "eq-square: 2 equations have this label"),
        (
            {"text": "$$ x $$ (eqn:Square)", "code_tags": ["verifies:eqn:Square"]},
            "eqn:Square: a label reads eq-",
        ),
        ({"text": "`$$ x $$ (eq-square)`"}, "eq-square: tagged verifies:eq-square, but no equation"),
        ({"text": "```\n$$ x $$ (eq-square)\n```"}, "eq-square: tagged verifies:eq-square, but no equation"),
        (
            {"text": "none", "text_tags": ["definition:eq-square"]},
            "eq-square: the cell tagged definition:eq-square does",
        ),
        ({"text_tags": ["definition:eq-square"]}, "eq-square: tagged both as verified and as a definition"),
        ({"code_tags": ["verifies:eq-square", "skip-execution"]}, "eq-square: its verifying cell is tagged"),
        (
            {"code_tags": ["verifies:eq-square", "raises-exception"]},
            "eq-square: its verifying cell is tagged",
        ),
    ],
)
def test_the_rule_refuses(bad, complaint):
    found = evidence.problems(notebook(**bad))
    assert any(problem.startswith(complaint) for problem in found), found


@pytest.mark.parametrize(
    "code, kinds",
    [
        ("assert a == b", ("asserted",)),
        ("assert np.allclose(a, b)", ("asserted",)),
        ("for n in (1, 2):\n    assert f(n) < 1e-9, n", ("asserted",)),
        ("np.testing.assert_allclose(a, b)", ("asserted",)),
        ("error = check.differences(op, x, rng)", ("asserted",)),
        ("with pytest.raises(AssertionError):\n    check.prove(wrong)", ("asserted",)),
        ("with rng_state():\n    check.prove(op)", ("shipped",)),
        ("check.prove(op); assert error < 1e-9", ("shipped", "asserted")),
        ("prove_equal(derived, closed_form)", ("general",)),
        ("sums.prove_equal(derived, closed_form)", ("general",)),
        ("assert sums.equal(derived, closed_form)", ("general",)),
        ("assert simplify(derived - closed_form) == 0", ("exact",)),
        ("assert simplify(matrix) == zeros(3, 3)", ("exact",)),
        ("assert check.is_zero(derived - closed_form)", ("exact",)),
        ("%time check.prove(op)\nassert a == b", ("asserted",)),
        ("try:\n    f()\nexcept ValueError:\n    pass\nelse:\n    assert a == b", ("asserted",)),
    ],
)
def test_what_is_a_check(code, kinds):
    assert evidence.evidence(code, evidence.imported(evidence.parse(IMPORTS))) == kinds


@pytest.mark.parametrize(
    "code",
    [
        "",
        "# assert a == b",
        "'assert a == b'",
        "print('check.prove(op)')",
        "assert True",
        "assert 1 + 1 == 2",
        "assert 'the gradient is right'",
        "assert (a == b, 'a tuple is true')",
        "assert a == a",
        "assert f(x) == f(x)",
        "assert np.allclose(a, a)",
        "assert isclose(a, a, rel_tol=1e-9)",
        "np.testing.assert_allclose(a, a)",
        "assert abs(a - a) < 1e-9",
        "assert a == b or True",
        "assert not False",
        "assert a is a and True",
        "a == b",
        "np.allclose(a, b)",
        "prove_equal(a, a)",
        "check.prove",
        "check.is_zero(derived - closed_form)",
        "sums.equal(derived, closed_form)",
        "later = lambda: check.prove(op)",
        "def f():\n    assert a == b",
        "if False:\n    assert a == b",
        "while False:\n    assert a == b",
        "try:\n    assert a == b\nexcept AssertionError:\n    pass",
        "with suppress(AssertionError):\n    assert a == b",
        "unknown.prove(op)",
        "def prove_equal(a, b):\n    pass\nprove_equal(a, b)",
        "from handgrad.course import judge\njudge.softmax_ds(mine)",
        "%time check.prove(op)",
    ],
)
def test_what_is_no_check(code):
    assert evidence.evidence(code, evidence.imported(evidence.parse(IMPORTS))) == ()


def test_equations_inside_directives_and_lists_are_found():
    text = "- item\n\n  $$ a $$ (eq-a)\n\n:::{note}\n$$ b $$ (eq-b)\n:::\n\n```{math}\n:label: eq-c\nc\n```\n"
    assert evidence.displayed(text) == [("eq-a", "a"), ("eq-b", "b"), ("eq-c", "c")]


def test_evidence_of_several_cells_is_joined_strongest_first():
    page = notebook()
    page.cells.append(new_code_cell("check.prove(op)", metadata={"tags": ["verifies:eq-square"]}))
    assert [equation.evidence for equation in evidence.equations(page)] == [("shipped", "asserted")]
