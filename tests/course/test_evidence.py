"""Every displayed equation of the chapters is checked by an executed cell; the rule refuses what it must."""

import copy
import io
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from sphinx.application import Sphinx

from book._ext import marks
from handgrad.course import evidence

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
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
    kinds = [equation.strength for equation in evidence.equations(notebook)]
    assert kinds.count("definition") <= len(kinds) / 2


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

TEXT = "The gradient.\n\n$$\n\\mathrm{d}x_j = 2 x_j\n$$ (eq-square)\n"
TWO = (
    "Two gradients.\n\n$$\n\\begin{aligned}\n"
    "\\mathrm{d}x_j &= y_j, \\\\\n\\mathrm{d}\\mathbf{y} &= \\mathbf{x} \n\\end{aligned}\n$$ (eq-two)\n"
)
IMPORTS = (
    "import numpy as np, pytest\nfrom handgrad import check, sums\nfrom handgrad.ops.table import OPS\n"
    "from handgrad.sums import arrays, gradient, index, prove_equal, sizes, total\n"
    "from contextlib import suppress\nfrom sympy import simplify"
)
SYMBOLS = """
D = sizes("D")
j, (x, y) = index("j", D), arrays("x y")
square, product = total(lambda k: x[k] ** 2, D), total(lambda k: x[k] * y[k], D)
"""
PROOF = "prove_equal(gradient(square, x[j]), 2 * x[j])"
PROOF_X = "prove_equal(gradient(product, x[j]), y[j])"
PROOF_Y = "prove_equal(gradient(product, y[j]), x[j])"


def notebook(text=TEXT, code=PROOF, text_tags=(), code_tags=("verifies:eq-square:general",), **handgrad):
    """A notebook with one equation; handgrad: metadata of the cell that verifies it."""
    more = {"handgrad": handgrad} if handgrad else {}
    return new_notebook(
        cells=[
            new_code_cell(IMPORTS),
            new_code_cell(SYMBOLS),
            new_markdown_cell(text, metadata={"tags": list(text_tags)}),
            new_code_cell(code, metadata={"tags": list(code_tags)} | more),
        ]
    )


def special(case="D is even", kind="special", code=PROOF):
    """A notebook whose equation is proved in a special case."""
    return notebook(code=code, code_tags=[f"verifies:eq-square:{kind}"], case=case)


def two(code=f"{PROOF_X}\n{PROOF_Y}", named="dx:dy", code_tags=("verifies:eq-two:general:dx:dy",)):
    """A notebook with an equation of two parts."""
    return notebook(TWO, code, [f"parts:eq-two:{named}"] if named else [], code_tags)


@pytest.mark.parametrize(
    "sound",
    [
        notebook(),
        notebook(text_tags=["definition:eq-square"], code_tags=[]),
        notebook(code="dx = 2 * x\nassert np.allclose(dx, y)", code_tags=["verifies:eq-square:asserted"]),
        notebook(
            code="assert simplify(square.diff(x[j]) - 2 * x[j]) == 0", code_tags=["verifies:eq-square:exact"]
        ),
        notebook(code='check.prove(OPS["layer_norm"])', code_tags=["verifies:eq-square:shipped"]),
        notebook(code="slope = gradient(square, x[j])\nprove_equal(slope, 2 * x[j])"),
        notebook(code=PROOF, code_tags=["verifies:eq-square:asserted"]),
        notebook(
            text="$$ \\frac{a_{ij}}{a_{ir}} = 1 $$ (eq-square)",
            text_tags=["parts:eq-square:square"],
            code="prove_equal(square, 1)",
            code_tags=["verifies:eq-square:general:square"],
        ),
        two(),
        special(),
    ],
)
def test_a_sound_notebook_passes(sound):
    assert evidence.problems(sound) == []


def tagged(*tags):
    return notebook(code_tags=tags)


@pytest.mark.parametrize(
    "bad, complaint",
    [
        (notebook(code_tags=[]), "eq-square: no cell verifies it"),
        (notebook(text="No equation."), "eq-square: tagged verifies:eq-square:general, but no equation"),
        (
            tagged("verifies:eq-square:general", "verifies:eq-cube:general"),
            "eq-cube: tagged verifies:eq-cube:general, but no",
        ),
        (notebook(code="y = 2 * x"), "eq-square: its verifying cell holds no check"),
        (notebook(text="$$ x $$"), "displayed equation without a label"),
        (notebook(text="The gradient\n$$ x $$ (eq-square)"), "displayed equation without a label"),
        (notebook(text="\\begin{align} x \\end{align}"), "displayed equation without a label"),
        (notebook(text=TEXT + "\n$$ y $$ (eq-square)"), "eq-square: 2 equations have this label"),
        (
            notebook(text="$$ x $$ (eqnSquare)", code_tags=["verifies:eqnSquare:general"]),
            "eqnSquare: a label reads eq-",
        ),
        (notebook(text="`$$ x $$ (eq-square)`"), "eq-square: tagged verifies:eq-square:general, but no eq"),
        (
            notebook(text="```\n$$ x $$ (eq-square)\n```"),
            "eq-square: tagged verifies:eq-square:general, but no eq",
        ),
        (
            notebook(text="none", text_tags=["definition:eq-square"]),
            "eq-square: the cell tagged definition:eq-square does",
        ),
        (
            notebook(text_tags=["definition:eq-square"]),
            "eq-square: tagged both as verified and as a definition",
        ),
        (tagged("verifies:eq-square:general", "skip-execution"), "eq-square: its verifying cell is tagged"),
        (tagged("verifies:eq-square:general", "raises-exception"), "eq-square: its verifying cell is tagged"),
        # The kind is stated, and its checker is called.
        (
            tagged("verifies:eq-square"),
            "eq-square: tagged verifies:eq-square: expected one of general, special",
        ),
        (tagged("verifies:eq-square:proved"), "eq-square: tagged verifies:eq-square:proved: expected one of"),
        (
            tagged("verifies:eq-square:definition"),
            "eq-square: tagged verifies:eq-square:definition: expected",
        ),
        (
            tagged("verifies:eq-square:shipped"),
            "eq-square: tagged verifies:eq-square:shipped, but the cell does not",
        ),
        (
            tagged("verifies:eq-square:exact"),
            "eq-square: tagged verifies:eq-square:exact, but the cell does not",
        ),
        (
            notebook(code="assert np.allclose(dx, 2 * x)"),
            "eq-square: tagged verifies:eq-square:general, but the cell does not call sums.prove_equal",
        ),
        # A special case is stated, where there is one and nowhere else.
        (
            tagged("verifies:eq-square:special"),
            "eq-square: tagged verifies:eq-square:special, but the metadata of the cell state no case",
        ),
        (special(" "), "eq-square: tagged verifies:eq-square:special, but the metadata of the cell state no"),
        (special(2), "eq-square: tagged verifies:eq-square:special, but the metadata of the cell state no"),
        (special(kind="general"), "{id}: its metadata state a case, but no tag reads verifies:LABEL:special"),
        (
            special(code="assert np.allclose(x, 2 * x)"),
            "eq-square: tagged verifies:eq-square:special, but the cell does not call sums.prove_equal",
        ),
        (
            special(code='check.prove(OPS["layer_norm"])'),
            "eq-square: tagged verifies:eq-square:special, but the cell does not call sums.prove_equal",
        ),
        (
            special(code=PROOF_Y),
            "eq-square: tagged verifies:eq-square:special, but what is checked has nothing to do with dx",
        ),
        # Every part of an equation has a name, and every named part a check.
        (two(named=""), "eq-two: its formula has 2 left sides; name them"),
        (two(named="dx"), "eq-two: names 1 parts, but its formula has 2 left sides"),
        (two(code_tags=["verifies:eq-two:general:dx"]), "eq-two: no cell verifies its part dy"),
        (
            two(code_tags=["verifies:eq-two:general"]),
            "eq-two: tagged verifies:eq-two:general, which names no part",
        ),
        (
            two(code_tags=["verifies:eq-two:general:dx:dy:dz"]),
            "eq-two: tagged verifies:eq-two:general:dx:dy:dz, expected a part of ['dx', 'dy']",
        ),
        (
            notebook(text_tags=["parts:eq-cube:dx:dy"]),
            "eq-cube: the cell tagged parts:eq-cube does not display it",
        ),
        # What is checked has to do with the left side.
        (
            two(PROOF_X),
            "eq-two: tagged verifies:eq-two:general:dx:dy, but what is checked has nothing to do with dy",
        ),
        (
            notebook(  # the ratio of two exponentials, not of two weights
                text="$$ \\frac{a_{ij}}{a_{ir}} = \\frac{g_{ij}}{g_{ir}} $$ (eq-square)",
                code="prove_equal(exp(x[j]) / exp(y[j]), g(j))",
            ),
            "eq-square: tagged verifies:eq-square:general, but what is checked has nothing to do with a",
        ),
        (
            notebook(  # a sum of deltas, whatever the query and the key are
                text="$$ \\mathrm{Var}(\\mathbf{q}\\cdot\\mathbf{k}) = K $$ (eq-square)",
                code="K = sizes('K')\nprove_equal(total(lambda c: delta(c, c), K), K)",
            ),
            "eq-square: tagged verifies:eq-square:general, but what is checked has nothing to do with k or q",
        ),
        (
            notebook(code="prove_equal(square, total(lambda k: x[k] * x[k], D))"),
            "eq-square: tagged verifies:eq-square",
        ),
        (
            notebook(code="prove_equal(D * total(lambda k: 1, D), D**2)"),
            "eq-square: tagged verifies:eq-square",
        ),
        (
            notebook(code="dx = 2 * x\nprove_equal(total(lambda k: y[k], D), 0)"),
            "eq-square: tagged verifies:eq-square",
        ),
        (
            notebook(
                code='check.prove(OPS["linear"])',
                text=TEXT.replace("x", "z"),
                code_tags=["verifies:eq-square:shipped"],
            ),
            "eq-square: tagged verifies:eq-square:shipped, but what is checked has nothing to do with dz",
        ),
    ],
)
def test_the_rule_refuses(bad, complaint):
    found, complaint = evidence.problems(bad), complaint.replace("{id}", bad.cells[-1].id)
    assert any(problem.startswith(complaint) for problem in found), found


@pytest.mark.parametrize("path, notebook", CHAPTERS, ids=[path.stem for path, _ in CHAPTERS])
def test_most_tags_are_refused_on_the_cell_of_another_equation(path, notebook):
    cells = [
        [tag for tag in cell.metadata.get("tags", []) if tag.startswith("verifies:")]
        for cell in notebook.cells
    ]
    places = [place for place, tags in enumerate(cells) if tags]
    moved, refused = 0, 0
    for distance in range(2, 7):
        wrong = copy.deepcopy(notebook)
        for place, other in zip(places, [*places[distance:], *places[:distance]], strict=True):
            wrong.cells[other].metadata.tags = cells[place]
        found = " ".join(evidence.problems(wrong))
        tags = {tag for tags in cells for tag in tags}
        moved, refused = moved + len(tags), refused + sum(f"tagged {tag}," in found for tag in tags)
    assert refused >= 0.5 * moved, f"{refused} of {moved} refused"


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
    page = notebook(code_tags=["verifies:eq-square:asserted"])
    page.cells.append(new_code_cell("check.prove(op)", metadata={"tags": ["verifies:eq-square:shipped"]}))
    (equation,) = evidence.equations(page)
    assert equation.evidence == [(("shipped", "asserted"), [""])]
    assert equation.strength == "shipped"


def test_an_equation_is_as_strong_as_its_weakest_part(tmp_path):
    page = two(PROOF_X, code_tags=["verifies:eq-two:general:dx"])
    page.cells.append(new_code_cell("assert dy == 1", metadata={"tags": ["verifies:eq-two:asserted:dy"]}))
    (equation,) = evidence.equations(page)
    assert equation.evidence == [(("asserted",), ["dy"]), (("general",), ["dx"])]
    assert equation.strength == "asserted"
    nbformat.write(page, tmp_path / "00_two.ipynb")
    listed = evidence.index(tmp_path)
    assert "{eq}`eq-two` asserted on numbers (`dy`); proved for every size (`dx`)" in listed
    assert "| asserted on numbers | 1 |" in listed and "| proved for every size | 0 |" in listed


def test_a_stated_kind_is_listed_even_where_the_cell_holds_a_stronger_one():
    (equation,) = evidence.equations(notebook(code_tags=["verifies:eq-square:asserted"]))
    assert equation.strength == "asserted"


def test_a_part_that_no_cell_verifies_is_listed_as_not_checked(tmp_path):
    nbformat.write(two(code_tags=["verifies:eq-two:general:dx"]), tmp_path / "00_two.ipynb")
    assert "{eq}`eq-two` **not checked** (`dy`); proved for every size (`dx`)" in evidence.index(tmp_path)


# A special case, and what a reader sees of it --------------------------------------------------------------


def two_with_a_special_part():
    page = two(PROOF_X, code_tags=["verifies:eq-two:general:dx"])
    for case, code in (("N = 2", PROOF_Y), ("a_b = *c*", PROOF_Y)):
        more = {"tags": ["verifies:eq-two:special:dy"], "handgrad": {"case": case}}
        page.cells.append(new_code_cell(code, metadata=more))
    return page


def test_a_special_case_is_weaker_than_a_general_proof_and_stronger_than_any_other():
    assert list(evidence.KINDS)[:2] == ["general", "special"]
    (equation,) = evidence.equations(two_with_a_special_part())
    assert equation.strength == "special" and evidence.problems(two_with_a_special_part()) == []
    assert equation.evidence == [(("special",), ["dy"]), (("general",), ["dx"])]


def test_the_index_names_the_special_case(tmp_path):
    nbformat.write(two_with_a_special_part(), tmp_path / "00_two.ipynb")
    listed = evidence.index(tmp_path)
    case = r"proved for every size, in a special case (N = 2; a\_b = \*c\*) (`dy`)"
    assert f"{{eq}}`eq-two` {case}; proved for every size (`dx`)" in listed
    assert "| proved for every size, in a special case | 1 |" in listed


def test_the_mark_names_the_special_case():
    (equation,) = evidence.equations(special("D < 3"))
    html = marks.mark(equation, "(1.1)")
    words = "proved for every size, in a special case (D &lt; 3)"
    assert f'class="evidence special" title="{words}"' in html and html.endswith(">∀*</a>")
    assert f'aria-label="Equation (1.1) is {words}: to the cell that checks it"' in html
    (equation,) = evidence.equations(two_with_a_special_part())
    assert 'title="in its weakest part proved for every size, in a special case (N = 2; a_b' in marks.mark(
        equation, "(1.2)"
    )
    (equation,) = evidence.equations(notebook())
    assert 'title="proved for every size"' in marks.mark(equation, "(1.3)")


def test_every_kind_has_its_mark_and_its_words():
    assert list(evidence.MARKS) == list(evidence.KINDS) == [*evidence.CHECKER, "definition"]
    page = (ROOT / "book/equation_index.md").read_text(encoding="utf-8")
    assert all(f"\n**{words[0].upper()}{words[1:]}**\n: " in page for words in evidence.KINDS.values())


def test_the_marks_are_shown_as_they_are(tmp_path, monkeypatch):
    """An asterisk in a mark is no emphasis, in the table, in the list of marks and on the cheat sheet."""
    monkeypatch.syspath_prepend(ROOT / "book/_ext")
    (tmp_path / "notebooks").mkdir()
    nbformat.write(special(), tmp_path / "notebooks/01_squares.ipynb")
    (tmp_path / "conf.py").write_text(
        'extensions = ["myst_parser", "marks"]\nexclude_patterns = ["notebooks"]\n'
        'myst_enable_extensions = ["attrs_inline"]\n'
    )
    of_sheet = f"[a [{evidence.MARKS['special']} b]{{.evidence}}]{{.marked}}"
    (tmp_path / "index.md").write_text(
        "# Page\n\n```{evidence-totals}\n```\n\nThe marks: {evidence-marks}`;`.\n\n"
        f"{of_sheet} {of_sheet}\n"
    )
    warnings = io.StringIO()
    folders = [tmp_path, tmp_path, tmp_path / "out", tmp_path / "trees"]
    app = Sphinx(*folders, "dummy", status=None, warning=warnings, freshenv=True)
    app.build()
    shown = app.env.get_doctree("index").astext()
    assert "∀*\n\nproved for every size, in a special case\n\n1" in shown
    told = "; ".join(f"{evidence.MARKS[kind]} {words}" for kind, words in evidence.KINDS.items())
    assert f"The marks: {told}." in shown and "a ∀* b a ∀* b" in shown
    assert warnings.getvalue() == ""
