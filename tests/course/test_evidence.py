"""Every displayed equation of the chapters is checked by an executed cell; the rule refuses what it must."""

import ast
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from docutils import nodes
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


@pytest.mark.parametrize("path, notebook", CHAPTERS, ids=[path.stem for path, _ in CHAPTERS])
def test_a_chapter_reads_its_own_page(path, notebook):
    statements = ast.Module([statement for _, statement in evidence.replay(notebook)], [])
    files = [node.value for node in ast.walk(statements) if ".ipynb" in str(getattr(node, "value", ""))]
    assert set(files) <= {path.name}


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_exercises_refer_to_the_equations_of_the_chapters(path):
    notebook = nbformat.read(path, as_version=4)
    assert evidence.equations(notebook) == [], "a label here would be a second one in the built book"


def test_the_index_lists_every_equation():
    page = evidence.index(NOTEBOOKS)
    for _, notebook in CHAPTERS:
        for equation in evidence.equations(notebook):
            by_eye = equation.reading == "eye"
            assert page.count(f"{{eq}}`{equation.label}`") == 1 + by_eye
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
    assert "| asserted on numbers | 0 | 1 |" in listed and "| proved for every size | 0 | 0 |" in listed


def test_a_stated_kind_is_listed_even_where_the_cell_holds_a_stronger_one():
    (equation,) = evidence.equations(notebook(code_tags=["verifies:eq-square:asserted"]))
    assert equation.strength == "asserted"


def test_a_part_that_no_cell_verifies_is_listed_as_not_checked(tmp_path):
    nbformat.write(two(code_tags=["verifies:eq-two:general:dx"]), tmp_path / "00_two.ipynb")
    assert "{eq}`eq-two` **not checked** (`dy`); proved for every size (`dx`)" in evidence.index(tmp_path)


def test_a_number_taken_from_the_page_is_an_evaluation_of_the_checked_formula():
    taken = 'assert page.number("eq-square", x=2) == measured'
    page = paged(taken)
    assert evidence.problems(page) == []
    (square,) = [e for e in evidence.equations(page) if e.label == "eq-square"]
    assert (square.reading, square.strength) == ("taken", "asserted")
    assert all("number" not in ast.unparse(statement) for _, statement in evidence.replay(page))
    for code in (taken.replace("page.", "unknown."), taken.removeprefix("assert ")):
        assert "eq-square: no cell verifies it, and it is not tagged as a definition" in evidence.problems(
            paged(code)
        )


# Calls that read the page ----------------------------------------------------------------------------------

READ = 'from handgrad.page import read\npage = read("00_squares.ipynb")'
POWER = "$$\ny_j = x_j^2\n$$ (eq-power)\n"
PROVE, HOLDS = 'page.prove("eq-square")', 'page.holds("eq-square")'
TYPED = {"tags": ["verifies:eq-square:shipped"]}


def paged(*codes, text=TEXT, text_tags=(), eye=None, run=(), page=(), first=READ):
    """A notebook that reads its page: a definition, an equation, and cells of code.

    text_tags, eye: metadata of the cell with the equation; page, run: tags of the first and the other cells.
    """
    more = {"handgrad": {"eye": eye}} if eye is not None else {}
    return new_notebook(
        cells=[
            new_code_cell(IMPORTS),
            new_code_cell(first, metadata={"tags": list(page)}),
            new_markdown_cell(POWER, metadata={"tags": ["definition:eq-power"]}),
            new_markdown_cell(text, metadata={"tags": list(text_tags)} | more),
            *(new_code_cell(code, metadata={"tags": list(run)}) for code in codes),
        ]
    )


def with_typed(page, code='check.prove(OPS["square"])', **metadata):
    """The notebook with one more cell, which types the formula again."""
    page.cells.append(new_code_cell(code, metadata=TYPED | metadata))
    return page


@pytest.mark.parametrize(
    "codes, kinds, reading",
    [
        ([PROVE], ("general",), "proved"),
        ([HOLDS], ("asserted",), "evaluated"),
        ([PROVE, HOLDS], ("general", "asserted"), "proved"),
        (['page.holds("eq-power-of-two", "eq-square", seeds=[1, -2])'], ("asserted",), "evaluated"),
        (['page.given("eq-power").prove("eq-square");'], ("general",), "proved"),
        (
            ['power = page.given("eq-power", letters="x (D)")', 'power.prove("eq-square")'],
            ("general",),
            "proved",
        ),
        (['one = two = page.given("eq-power")', 'two.prove("eq-square")'], ("general",), "proved"),
        ([f"x = 3\n{PROVE}\npage = None"], ("general",), "proved"),
        (['read("00_squares.ipynb").prove("eq-square")'], ("general",), "proved"),
        (['from handgrad.page import read as look\nlook("a").prove("eq-square")'], ("general",), "proved"),
        (
            ['import handgrad.page\nimport handgrad.sums\nhandgrad.page.read("a").prove("eq-square")'],
            ("general",),
            "proved",
        ),
        (['import handgrad.page as paper\npaper.read("a").prove("eq-square")'], ("general",), "proved"),
        (
            ['from handgrad import page\npage = page.read("a")\npage.prove("eq-square")'],
            ("general",),
            "proved",
        ),
        (["def f():\n    return f\n" + PROVE], ("general",), "proved"),
    ],
)
def test_a_page_call_is_a_claim(codes, kinds, reading):
    _, square = evidence.equations(paged(*codes))
    assert (square.parts, square.reading, square.from_page) == ({"": kinds}, reading, True)
    assert all("eq-power-of-two" in problem for problem in evidence.problems(paged(*codes)))


def test_what_has_no_size_is_proved_exactly():
    _, square = evidence.equations(paged(PROVE, text="$$ f'(x) = 2x $$ (eq-square)"))
    assert (square.strength, square.reading) == ("exact", "exact") and square.from_page


NO_CLAIMS = [
    "",
    "page",
    "page.prove",
    "# page.prove('eq-square')",
    "'page.prove(\"eq-square\")'",
    "%time page.prove('eq-square')",
    "page.given('eq-square')",
    "page.show('eq-square')",
    "page.prove('eq-power-of-two')",
    "page.prove(label='eq-square')",
    "page.prove('eq-' + 'square')",
    "page.show().prove('eq-square')",
    "unknown.prove('eq-square')",
    "check.prove('eq-square')",
    "proof = page.prove('eq-square')",
    "print(page.prove('eq-square'))",
    "later = lambda: page.prove('eq-square')",
    "def f():\n    page.prove('eq-square')",
    "if False:\n    page.prove('eq-square')",
    "if verbose:\n    page.prove('eq-square')",
    "for k in keys:\n    page.prove('eq-square')",
    "try:\n    page.prove('eq-square')\nexcept AssertionError:\n    pass",
    "with suppress(AssertionError):\n    page.prove('eq-square')",
    # A name that is bound again is no page.
    "page = 3\npage.prove('eq-square')",
    "keep = x.y = page\nkeep.prove('eq-square')",
    "page = other(page)\npage.prove('eq-square')",
    "page, x = 3, 4\npage.prove('eq-square')",
    "from elsewhere import page\npage.prove('eq-square')",
    "import elsewhere as page\npage.prove('eq-square')",
    "for page in pages:\n    pass\npage.prove('eq-square')",
    "with opened() as page:\n    pass\npage.prove('eq-square')",
    "if verbose:\n    page = None\npage.prove('eq-square')",
    "class page:\n    pass\npage.prove('eq-square')",
    "def page():\n    pass\npage.prove('eq-square')",
    "del page\npage.prove('eq-square')",
    "(page := 3)\npage.prove('eq-square')",
    "page.prove = print\npage.prove('eq-square')",
    "read = open\nread('a').prove('eq-square')",
    "from elsewhere import read\nread('a').prove('eq-square')",
    "def read(name):\n    pass\nread('a').prove('eq-square')",
    "import handgrad.page as paper\npaper.read = open\npaper.read('a').prove('eq-square')",
    "import handgrad.page\nimport elsewhere as handgrad\nhandgrad.page.read('a').prove('eq-square')",
    "def f():\n    from handgrad.page import read as look\nlook('a').prove('eq-square')",
]


@pytest.mark.parametrize("code", NO_CLAIMS)
def test_what_is_no_claim(code):
    _, square = evidence.equations(paged(code))
    assert square.strength is None
    assert any(
        problem.startswith("eq-square: no cell verifies it") for problem in evidence.problems(paged(code))
    )


@pytest.mark.parametrize("tag", sorted(evidence.NOT_RUN))
@pytest.mark.parametrize("where", ["run", "page"])
def test_a_page_call_in_a_cell_that_does_not_run_is_no_claim(tag, where):
    page = paged(PROVE, **{where: [tag]})
    assert any(problem.startswith("eq-square: no cell verifies it") for problem in evidence.problems(page))


def test_a_name_that_a_later_cell_binds_again_is_no_page():
    _, square = evidence.equations(paged("page = 3", PROVE))
    assert square.strength is None


@pytest.mark.parametrize("code", [PROVE, 'page.prove("eq-square", "eq-power-of-two")'])
def test_a_definition_that_nobody_reads_is_compared_by_eye(code):
    power, _ = evidence.equations(paged(code))
    assert (power.strength, power.reading, power.from_page) == ("definition", "eye", False)


@pytest.mark.parametrize(
    "code",
    [
        'page.given("eq-power").prove("eq-square")',
        f'power = page.given("eq-power")\n{PROVE}',
        f'page.given("eq-power", letters="x (D)")\n{PROVE}',
        'page.given("eq-power-of-two").given("eq-power").prove("eq-square")',
        'page.given("r", "eq-power").prove("eq-square")',
    ],
)
def test_a_definition_that_is_given_is_read(code):
    power, square = evidence.equations(paged(code))
    assert (power.calls, power.reading, power.from_page) == ({"given"}, "read", True)
    assert square.reading == "proved"


def test_an_equation_that_is_typed_again_is_compared_by_eye():
    (equation,) = evidence.equations(notebook())
    assert (equation.reading, equation.from_page) == ("eye", False)
    _, square = evidence.equations(with_typed(paged('page.given("eq-square")')))
    assert (square.reading, square.calls) == ("eye", {"given"}), "read, but what is proved is typed again"


def test_claims_of_both_sorts_are_united():
    _, square = evidence.equations(with_typed(paged(PROVE)))
    assert (square.parts, square.reading, square.from_page) == ({"": ("general", "shipped")}, "proved", True)
    _, square = evidence.equations(with_typed(paged(HOLDS)))
    assert (square.parts, square.reading) == ({"": ("shipped", "asserted")}, "evaluated")
    assert not square.from_page, "the stronger evidence is typed again"


def test_a_page_call_is_a_claim_about_every_part():
    text, prove = TWO, 'page.prove("eq-two")'
    unnamed, named = paged(prove, text=text), paged(prove, text=text, text_tags=["parts:eq-two:dx:dy"])
    assert evidence.problems(unnamed) == evidence.problems(named) == []
    assert [equation.parts for equation in evidence.equations(unnamed)][1] == {"": ("general",)}
    assert [equation.parts for equation in evidence.equations(named)][1] == {
        "dx": ("general",),
        "dy": ("general",),
    }
    typed = new_code_cell(f"{SYMBOLS}\n{PROOF_X}", metadata={"tags": ["verifies:eq-two:general:dx"]})
    named.cells.append(typed)
    assert evidence.problems(named) == []
    unnamed.cells.append(typed)
    assert "eq-two: its formula has 2 left sides; name them" in " ".join(evidence.problems(unnamed))


@pytest.mark.parametrize(
    "sound",
    [
        paged(PROVE),
        paged(HOLDS),
        paged('power = page.given("eq-power", letters="x (D); epsilon > 0", at=(1, -2.5, None))', PROVE),
        paged('page.given("r", "s = 1").prove("eq-square")'),
        with_typed(paged(), code=f"{SYMBOLS}\n{PROOF}", tags=["verifies:eq-square:general"]),
        paged(*[SYMBOLS, PROVE, "del x"]),
        with_typed(
            paged(eye={"eq-square": "Its dots stand for any number."}),
            code=f"{SYMBOLS}\n{PROOF}",
            tags=["verifies:eq-square:general"],
        ),
        paged(eye={"eq-square": "A word."}, text_tags=["definition:eq-square"]),
    ],
)
def test_a_sound_notebook_with_page_calls_passes(sound):
    assert evidence.problems(sound) == []


@pytest.mark.parametrize(
    "bad, complaint",
    [
        (
            paged(PROVE, 'page.prove("eq-cube")'),
            "eq-cube: a page call names it, but no equation has this label",
        ),
        (
            paged(PROVE, 'page.holds("eq-cube")'),
            "eq-cube: a page call names it, but no equation has this label",
        ),
        (paged(PROVE, 'page.prove("r")'), "r: a page call names it, but no equation has this label"),
        (paged('page.given("eq-cube").prove("eq-square")'), "eq-cube: a page call names it, but no equation"),
        (
            paged(PROVE, text_tags=["definition:eq-square"]),
            "eq-square: tagged as a definition, but a page call",
        ),
        (
            paged(HOLDS, text_tags=["definition:eq-square"]),
            "eq-square: tagged as a definition, but a page call",
        ),
        # Page calls take literals only.
        (
            paged("labels = ['eq-square']\npage.prove('eq-square', *labels)"),
            "{id}: page calls take literals only",
        ),
        (
            paged("page.prove('eq-square', at=D)"),
            "{id}: page calls take literals only: \"page.prove('eq-square'",
        ),
        (paged("page.prove('eq-square', at=dict(D=2))"), "{id}: page calls take literals only"),
        (paged("page.prove('eq-square', **options)"), "{id}: page calls take literals only"),
        (paged("page.prove('eq-square', 'eq-' + 'power')"), "{id}: page calls take literals only"),
        (paged("page.prove('eq-square', at=lambda D: D)"), "{id}: page calls take literals only"),
        (
            paged("p = page.given('eq-power', letters=x)\np.prove('eq-square')"),
            "{id}: page calls take literals",
        ),
        (paged("read(PATH).prove('eq-square')"), "{id}: page calls take literals only"),
        (
            paged("import handgrad.page\npage.prove('eq-square', at=handgrad.sums)"),
            "{id}: page calls take lit",
        ),
        # A reason is for what is compared by eye, and stands where it is displayed.
        (
            paged(PROVE, eye={"eq-square": "A word."}),
            "eq-square: its cell says why it is compared by eye, but a",
        ),
        (
            paged(HOLDS, eye={"eq-square": "A word."}),
            "eq-square: its cell says why it is compared by eye, but a",
        ),
        (
            paged(
                "page.given('eq-square')", eye={"eq-square": "A word."}, text_tags=["definition:eq-square"]
            ),
            "eq-square: its cell says why it is compared by eye, but a page call reads it",
        ),
        (
            paged(PROVE, eye={"eq-power": "A word."}),
            "eq-power: a cell says why it is compared by eye, but does",
        ),
        (
            paged(PROVE, eye={"eq-cube": "A word."}),
            "eq-cube: a cell says why it is compared by eye, but does",
        ),
        (
            with_typed(paged(PROVE), handgrad={"eye": {"eq-square": "A word."}}),
            "eq-square: a cell says why it is compared by eye, but does not display it",
        ),
        (
            with_typed(paged(eye={"eq-square": " "})),
            "eq-square: its cell says that it is compared by eye, but giv",
        ),
        (
            with_typed(paged(eye={"eq-square": 2})),
            "eq-square: its cell says that it is compared by eye, but gives",
        ),
        (
            with_typed(paged(eye="A word.")),
            '{eye}: expected {"handgrad": {"eye": {"eq-label": "reason"}}}, got',
        ),
    ],
)
def test_the_rule_refuses_page_calls(bad, complaint):
    complaint = complaint.replace("{id}", bad.cells[-1].id).replace("{eye}", bad.cells[3].id)
    found = evidence.problems(bad)
    assert any(problem.startswith(complaint) for problem in found), found


def test_the_statements_of_the_page_run_alone(monkeypatch):
    """With another reader in its place, they run without the rest of the notebook, in order."""
    called = []

    class Page:
        def __getattr__(self, method):
            return lambda *labels, **more: called.append((method, *labels)) or self

    monkeypatch.setitem(sys.modules, "handgrad.page", SimpleNamespace(read=lambda name: Page()))
    page = paged(
        f'{SYMBOLS}\npower = page.given("eq-power")\nassert undefined',
        'page.show("eq-power")\nprint(page)\npower.prove("eq-square")\nproved = page.prove("eq-square")',
        'def f():\n    page.prove("eq-square")\npage.holds("eq-square")\nundefined()',
        first="from elsewhere import nothing\n" + READ,
    )
    pairs, names = evidence.replay(page), {}
    assert [page.cells.index(cell) for cell, _ in pairs] == [1, 1, 4, 5, 6]
    for _, statement in pairs:
        exec(compile(ast.Module([statement], []), "page", "exec"), names)
    assert called == [("given", "eq-power"), ("prove", "eq-square"), ("holds", "eq-square")]


def test_replay_imports_only_the_page():
    page = paged(first="import numpy, handgrad.page as paper\nfrom handgrad import check, page\nimport math")
    told = [ast.unparse(statement) for _, statement in evidence.replay(page)]
    assert told == ["import handgrad.page as paper", "from handgrad import page"]
    assert evidence.replay(notebook()) == []


@pytest.mark.parametrize(
    "formula",
    [
        r"\sum_k 1 = D",
        r"\prod_{i} 2",
        r"\mathbf{x} = 0",
        r"\boldsymbol\gamma",
        r"\mathsf{A}^\top",
        "x_j = 1",
        "x _ { tj }",
        "x_{t+1,\\, i}",
        r"\gamma_j",
        r"\hat{x}_j",
        r"\mathrm{d}x_j",
        r"\mathrm{softmax}(s)_j",
        "x^2_k",
        "x'_k",
        r"W_\ell",
        r"W_{\text{out},\,k}",
    ],
)
def test_what_has_a_size(formula):
    assert evidence.sized(formula)


@pytest.mark.parametrize(
    "formula",
    [
        "f'(x) = 2x",
        "x_0 + x_{12}",
        "W_Q",
        r"L_\star",
        r"L_\text{dec}",
        r"p_{\text{data}}",
        r"h_{\max}",
        r"t_{\mathrm{least}}",
        r"\mathrm{LN}_\varepsilon(x)",
        r"\beta_1 m + (1 - \beta_1) g",
        r"\max_x f(x)",
        r"\lim_{t \to 0} t",
        r"\operatorname*{argmax}_x f(x)",
        r"\int_a f",
        r"\left. f \right|_{x = 0}",
        r"\mathbb{E}[z^2]",
        r"\summary",
        r"x\_j",
        r"\text{x_j}",
    ],
)
def test_what_has_no_size(formula):
    assert not evidence.sized(formula)


# What a reader sees of the reading --------------------------------------------------------------------------


def test_the_mark_says_how_the_formula_was_compared():
    def title(page):
        return marks.mark(evidence.equations(page)[1], "(1.1)").split('title="')[1].split('"')[0]

    assert title(paged(PROVE)) == "proved for every size, from the page"
    assert title(paged(HOLDS)) == "evaluated, from the page"
    assert title(paged(PROVE, text="$$ y = 1 $$ (eq-square)")) == "exact in SymPy, from the page"
    assert title(with_typed(paged())) == (
        "proved on the shipped lines; compared by eye: the cell types the formula again"
    )
    assert title(with_typed(paged(HOLDS))) == "proved on the shipped lines; evaluated, from the page"
    defined = ["definition:eq-square"]
    assert title(paged('page.given("eq-square")', text_tags=defined)) == "definition, read from the page"
    assert title(paged(text_tags=defined)) == (
        "definition; compared by eye: the cells that use it type it again"
    )


def test_the_index_says_how_the_formula_was_compared(tmp_path):
    def listed(page):
        nbformat.write(page, tmp_path / "00_squares.ipynb")
        return evidence.index(tmp_path)

    page = listed(with_typed(paged('page.given("eq-power").prove("eq-square")')))
    told = "proved for every size, from the page, and proved on the shipped lines"
    assert f"\n{{eq}}`eq-square` {told}\n" in page
    assert "\n{eq}`eq-power` definition, read from the page\n" in page
    assert "| Evidence for the whole equation | From the page | Typed again |" in page
    assert "\n| proved for every size | 1 | 0 |" in page and "\n| definition | 1 | 0 |" in page
    assert "\nCompared by eye: 0 of 2 equations.\n" in page and "\n- {doc}" not in page

    page = listed(with_typed(paged(eye={"eq-square": "*Dots*, <any> number"})))
    reason = r"(\*Dots\*, \<any\> number)"
    assert "\n{eq}`eq-square` proved on the shipped lines; compared by eye: the cell types the" in page
    assert "\n| proved on the shipped lines | 0 | 1 |" in page and "\n| definition | 0 | 1 |" in page
    assert "\nCompared by eye: 2 of 2 equations.\n" in page
    assert f"\n- {{doc}}`/notebooks/00_squares`: {{eq}}`eq-power`, {{eq}}`eq-square` {reason}\n" in page

    page = listed(with_typed(paged(HOLDS)))  # the proof is typed again, but the page is read
    assert (
        "\n| proved on the shipped lines | 0 | 1 |" in page and "Compared by eye: 1 of 2 equations." in page
    )
    assert "Compared by eye: 1 of 2 equations." in listed(paged()), (
        "an equation without evidence is not compared"
    )


def test_the_mark_leads_to_the_cell_that_reads_the_page(tmp_path):
    nbformat.write(page := with_typed(paged("x = 1", PROVE)), tmp_path / "page.ipynb")
    assert evidence.checked_in(page) == {"eq-square": 5}
    assert evidence.checked_in(with_typed(paged("x = 1"))) == {"eq-square": 5}
    assert evidence.checked_in(paged('page.given("eq-square")')) == {}
    document = nodes.section()
    for place, cell in enumerate(page.cells):
        document += nodes.container(nb_element=f"cell_{cell.cell_type}", cell_index=place, ids=[])
    env = SimpleNamespace(docname="notebooks/01_squares", doc2path=lambda name: tmp_path / "page.ipynb")
    marks.name_the_cells(SimpleNamespace(env=env), document)
    assert [cell["ids"] for cell in document] == [[], [], [], [], [], ["check-eq-square"], []]


def test_every_reading_has_its_words_on_the_page():
    page = " ".join((ROOT / "book/equation_index.md").read_text(encoding="utf-8").split())
    assert list(evidence.READINGS) == [*evidence.READ_AS, "eye"]
    assert all(f"*{words.split(':')[0]}*".lower() in page.lower() for words in evidence.READINGS.values())


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


def proved_in(*cases):
    """A notebook that proves its equation from the page once for each case; None: as it is."""
    page = paged(*[PROVE] * len(cases))
    for cell, case in zip(page.cells[-len(cases) :], cases):
        cell.metadata["handgrad"] = {} if case is None else {"case": case}
    return page


@pytest.mark.parametrize(
    "cases, kinds, named",
    [
        (["D = 2"], ("special",), ("D = 2",)),
        (["D = 2", "D = 3"], ("special",), ("D = 2", "D = 3")),
        (["D = 2", None], ("general",), ()),
        ([None, "D = 2"], ("general",), ()),
    ],
)
def test_a_proof_from_the_page_may_take_a_special_case(cases, kinds, named):
    page = proved_in(*cases)
    assert evidence.problems(page) == []
    (square,) = [e for e in evidence.equations(page) if e.label == "eq-square"]
    assert (square.parts[""], square.cases[""], square.reading) == (kinds, named, "proved")


@pytest.mark.parametrize("blank", ["", "  ", 2])
def test_the_special_case_of_a_proof_from_the_page_is_stated_in_words(blank):
    (wrong,) = evidence.problems(proved_in(blank))
    assert wrong.endswith(f": expected a case in words, got {blank!r}")


def test_a_case_beside_nothing_that_is_proved_is_refused():
    page = paged(HOLDS)
    page.cells[-1].metadata["handgrad"] = {"case": "D = 2"}
    (wrong,) = evidence.problems(page)
    assert "its metadata state a case, but no tag reads" in wrong


def test_the_index_names_the_special_case(tmp_path):
    nbformat.write(two_with_a_special_part(), tmp_path / "00_two.ipynb")
    listed = evidence.index(tmp_path)
    case = r"proved for every size, in a special case (N = 2; a\_b = \*c\*) (`dy`)"
    assert f"{{eq}}`eq-two` {case}; proved for every size (`dx`)" in listed
    assert "| proved for every size, in a special case | 0 | 1 |" in listed


def test_the_mark_names_the_special_case():
    (equation,) = evidence.equations(special("D < 3"))
    html = marks.mark(equation, "(1.1)")
    words = f"proved for every size, in a special case (D &lt; 3); {evidence.READINGS['eye']}"
    assert f'class="evidence special" title="{words}"' in html and html.endswith(">∀*</a>")
    assert f'aria-label="Equation (1.1) is {words}. To the cell that checks it"' in html
    (equation,) = evidence.equations(two_with_a_special_part())
    assert 'title="in its weakest part proved for every size, in a special case (N = 2; a_b' in marks.mark(
        equation, "(1.2)"
    )
    (equation,) = evidence.equations(notebook())
    assert f'title="proved for every size; {evidence.READINGS["eye"]}"' in marks.mark(equation, "(1.3)")


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


@pytest.mark.parametrize(
    "source",
    ["?print\n1", "print?", "%time 1", "!ls", "%%html\n<b>no Python</b>", "x = %time 1\nx", "# %\n1"],
)
def test_what_ipython_reads_is_read(source):
    assert evidence.parse(source).body


def test_what_ipython_does_not_read_is_told():
    with pytest.raises(SyntaxError):
        evidence.parse("1 +")
