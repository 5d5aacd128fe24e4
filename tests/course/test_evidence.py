"""Every displayed equation of the chapters is checked by an executed cell; the rule refuses what it must."""

import ast
import io
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


@pytest.mark.parametrize("path, notebook", CHAPTERS, ids=[path.stem for path, _ in CHAPTERS])
def test_every_equation_of_a_chapter_is_checked_on_its_own_page(path, notebook):
    kinds = [equation.kind for equation in evidence.equations(notebook)]
    assert len(kinds) >= 5
    assert kinds.count("definition") + kinds.count("named") <= len(kinds) / 2
    statements = ast.Module([statement for _, statement in evidence.replay(notebook)], [])
    files = [node.value for node in ast.walk(statements) if ".ipynb" in str(getattr(node, "value", ""))]
    assert set(files) == {path.name}


def test_a_label_belongs_to_one_chapter():
    labels = [equation.label for _, notebook in CHAPTERS for equation in evidence.equations(notebook)]
    assert len(labels) == len(set(labels)) > 300


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_exercises_refer_to_the_equations_of_the_chapters(path):
    notebook = nbformat.read(path, as_version=4)
    assert evidence.equations(notebook) == [], "a label here would be a second one in the built book"


def test_the_index_lists_every_equation():
    page = evidence.index(NOTEBOOKS)
    assert "**not checked**" not in page
    for _, notebook in CHAPTERS:
        for equation in evidence.equations(notebook):
            by_eye = equation.kind in ("typed", "named")
            assert page.count(f"{{eq}}`{equation.label}`") == 1 + by_eye
            assert equation.formula in page


def test_the_index_of_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="folder: expected chapter notebooks"):
        evidence.index(tmp_path)


# A notebook that reads its page -----------------------------------------------------------------------------

TEXT = "The gradient.\n\n$$\n\\mathrm{d}x_j = 2 x_j\n$$ (eq-square)\n"
POWER = "$$\ny_j = x_j^2\n$$ (eq-power)\n"
READ = 'from handgrad.page import read\npage = read("00_squares.ipynb")'
GIVEN, PROVE, HOLDS = 'page.given("eq-power")', 'page.prove("eq-square")', 'page.holds("eq-square")'
NUMBER = 'assert page.number("eq-square", x=2) == measured'
TYPED = ["typed:eq-square"]
DEFINED = ["definition:eq-square"]


def paged(*codes, text=TEXT, text_tags=(), run=(), page=(), first=READ, **handgrad):
    """A notebook with a definition, an equation, and cells of code.

    text_tags: of the cell with the equation; page, run: tags of the first and the other cells of code;
    handgrad: "eye" for the cell with the equation, "case" for the last.
    """
    of_text = {"handgrad": {"eye": handgrad["eye"]}} if "eye" in handgrad else {}
    cells = [
        new_code_cell("import numpy as np"),
        new_code_cell(first, metadata={"tags": list(page)}),
        new_markdown_cell(POWER, metadata={"tags": ["definition:eq-power"]}),
        new_markdown_cell(text, metadata={"tags": list(text_tags)} | of_text),
        *(new_code_cell(code, metadata={"tags": list(run)}) for code in codes),
    ]
    if "case" in handgrad:
        cells[-1].metadata["handgrad"] = {"case": handgrad["case"]}
    return new_notebook(cells=cells)


def square(*codes, **more):
    """The equation of such a notebook."""
    return evidence.equations(paged(*codes, **more))[1]


@pytest.mark.parametrize(
    "codes, more, kind",
    [
        ([PROVE], {}, "general"),
        ([PROVE], {"text": "$$ f'(x) = 2x $$ (eq-square)"}, "exact"),
        ([PROVE], {"case": "D = 2"}, "special"),
        ([PROVE, PROVE], {"case": "D = 2"}, "general"),
        ([HOLDS], {}, "asserted"),
        ([HOLDS, PROVE], {}, "general"),
        ([NUMBER], {}, "asserted"),
        (["n = page.number('eq-square', x=2)\nnp.testing.assert_allclose(n, 4)"], {}, "asserted"),
        (["def f(x):\n    return page.number('eq-square', x=x)\nassert f(2) == 4"], {}, "asserted"),
        (["print(page.number('eq-square', x=2))"], {"run": ["quoted"]}, "asserted"),
        ([f"{GIVEN}.prove('eq-square');"], {}, "general"),
        ([f"{GIVEN}.given('r', letters='x (D)').prove(*['eq-square'])"], {}, "general"),
        (["one = two = page.given(letters='x (D)')", "two.prove('eq-square')"], {}, "general"),
        ([f"x = 3\n{PROVE}\npage = None"], {}, "general"),
        (["read('00_squares.ipynb').prove('eq-square')"], {}, "general"),
        (["from handgrad.page import read as look\nlook('a').prove('eq-square')"], {}, "general"),
        (["assert dx == 2 * x"], {"run": TYPED}, "typed"),
        (["prove_equal(dx, 2 * x)"], {"run": TYPED, "eye": {"eq-square": "A word."}}, "typed"),
        (["page.given('eq-square')"], {"text_tags": DEFINED}, "definition"),
        ([], {"text_tags": DEFINED}, "named"),
    ],
)
def test_the_kind_of_evidence(codes, more, kind):
    page = paged(*codes, **more)
    assert evidence.problems(page) == []
    found = evidence.equations(page)[1]
    last = len(page.cells) - 1
    assert (found.kind, found.case) == (kind, more.get("case", "") if kind == "special" else "")
    assert found.checked in ({None} if kind in ("definition", "named") else {last - 1, last})


NO_CLAIMS = [
    "",
    "page.prove",
    "'page.prove(\"eq-square\")'",
    "%time page.prove('eq-square')",
    "page.given('eq-square')",
    "page.show('eq-square')",
    "page.prove('eq-power-of-two')",
    "page.prove(label='eq-square')",
    "page.prove('eq-' + str('square'))",
    "page.prove('eq-square', at=D)",
    "page.given(letters=x).prove('eq-square')",
    "page.number('eq-square', x=2)",
    "n = page.number('eq-square', x=2)",
    "assert unknown.number('eq-square', x=2) == 4",
    "import handgrad.page\nhandgrad.page.read('a').prove('eq-square')",
    "page.show().prove('eq-square')",
    "unknown.prove('eq-square')",
    "proof = page.prove('eq-square')",
    "print(page.prove('eq-square'))",
    "later = lambda: page.prove('eq-square')",
    "def f():\n    page.prove('eq-square')",
    "if False:\n    page.prove('eq-square')",
    "try:\n    page.prove('eq-square')\nexcept AssertionError:\n    pass",
    # A name that is bound again is no page.
    "page = 3\npage.prove('eq-square')",
    "keep = x.y = page\nkeep.prove('eq-square')",
    "page = other(page)\npage.prove('eq-square')",
    "page, x = 3, 4\npage.prove('eq-square')",
    "from elsewhere import page\npage.prove('eq-square')",
    "import elsewhere as page\npage.prove('eq-square')",
    "for page in pages:\n    pass\npage.prove('eq-square')",
    "if verbose:\n    page = None\npage.prove('eq-square')",
    "def page():\n    pass\npage.prove('eq-square')",
    "del page\npage.prove('eq-square')",
    "page.prove = print\npage.prove('eq-square')",
    "from elsewhere import read\nread('a').prove('eq-square')",
    "def f():\n    from handgrad.page import read as look\nlook('a').prove('eq-square')",
]


@pytest.mark.parametrize("code", NO_CLAIMS)
def test_what_is_no_claim(code):
    assert square(code).kind is None
    assert "eq-square: no cell checks it, and it is not tagged as a definition" in evidence.problems(
        paged(code)
    )


@pytest.mark.parametrize("tag", sorted(evidence.NOT_RUN))
@pytest.mark.parametrize("where, code", [("run", PROVE), ("run", NUMBER), ("page", PROVE)])
def test_a_page_call_in_a_cell_that_does_not_run_is_no_claim(tag, where, code):
    assert square(code, **{where: [tag]}).kind is None


def test_a_name_that_a_later_cell_binds_again_is_no_page():
    assert square("page = 3", PROVE).kind is None


def test_the_statements_that_a_number_is_taken_from_are_named():
    two = "$$\n\\begin{aligned} a &= b = 2, \\\\ c &= 3 \\end{aligned}\n$$ (eq-square)\n"
    parts = {"0": "the last side of statement 1 of 2", "1": "statement 2 of 2", "-1": "statement 2 of 2"}
    for part, words in parts.items():
        assert square(NUMBER.replace("x=2", f"part={part}"), text=two).part == words
    both = [NUMBER.replace("x=2", f"part={part}") for part in (0, 1)]
    assert square(*both, text=two).part == "the last side"
    assert square(PROVE, text=two).part == square(NUMBER).part == ""


@pytest.mark.parametrize(
    "bad, complaint",
    [
        (paged(), "eq-square: no cell checks it"),
        (paged(PROVE, text="No equation."), "eq-square: a page call names it, but no equation has this"),
        (paged(f"{PROVE}\npage.given('eq-cube')"), "eq-cube: a page call names it, but no equation has this"),
        (paged(PROVE, text="$$ x $$"), "displayed equation without a label"),
        (paged(PROVE, text="The gradient\n$$ x $$ (eq-square)"), "displayed equation without a label"),
        (paged(PROVE, text="\\begin{align} x \\end{align}"), "displayed equation without a label"),
        (paged(PROVE, text="`$$ x $$ (eq-square)`"), "eq-square: a page call names it, but no equation"),
        (paged(PROVE, text=TEXT + "\n$$ y $$ (eq-square)"), "eq-square: 2 equations have this label"),
        (paged(text="$$ x $$ (eqnSquare)"), "eqnSquare: a label reads eq-"),
        (paged(text_tags=["definition:eq-cube"]), "eq-cube: the cell tagged definition:eq-cube does not"),
        (paged(PROVE, text_tags=DEFINED), "eq-square: tagged as a definition, but proved for every size"),
        (paged(HOLDS, text_tags=DEFINED), "eq-square: tagged as a definition, but evaluated"),
        (
            paged("x = 2", run=TYPED),
            "eq-square: tagged typed:eq-square, expected a cell that runs and asserts",
        ),
        (paged("assert 1 == 1", run=TYPED), "eq-square: tagged typed:eq-square, expected a cell that runs"),
        (paged("prove_equal", run=TYPED), "eq-square: tagged typed:eq-square, expected a cell that runs"),
        (paged("assert page.number('eq-square', part=k) == 4"), "eq-square: no cell checks it"),
        (paged("assert x", run=["typed:eq-cube"]), "eq-cube: tagged typed:eq-cube, expected a cell"),
        (paged("assert x", run=[*TYPED, "skip-execution"]), "eq-square: tagged typed:eq-square, expected a"),
        (paged(f"assert x\n{PROVE}", run=TYPED), "eq-square: tagged typed:eq-square, expected a cell"),
        (paged(PROVE, case=" "), "{id}: expected a case in words beside a call of prove, got ' '"),
        (paged(PROVE, case=2), "{id}: expected a case in words beside a call of prove, got 2"),
        (paged(HOLDS, case="D = 2"), "{id}: expected a case in words beside a call of prove, got 'D = 2'"),
        (
            paged(PROVE, eye={"eq-square": "A word."}),
            "eq-square: its cell says why it is compared by eye, but",
        ),
        (paged(PROVE, eye={"eq-cube": "A word."}), "eq-cube: its cell says why it is compared by eye, but a"),
        (paged(text_tags=DEFINED, eye={"eq-square": " "}), "eq-square: its cell says that it is compared by"),
    ],
)
def test_the_rule_refuses(bad, complaint):
    found, complaint = evidence.problems(bad), complaint.replace("{id}", bad.cells[-1].id)
    assert any(problem.startswith(complaint) for problem in found), found


def test_the_statements_of_the_page_are_those_that_use_nothing_else():
    page = paged(
        f"x = np.ones(3)\npower = {GIVEN}\nassert undefined",
        'page.number("eq-power")\nprint(page)\npower.prove("eq-square")\nn = page.number("eq-square")',
        f"def f():\n    {PROVE}\n{HOLDS}\nundefined()",
        first="from elsewhere import nothing\n" + READ,
    )
    assert [(page.cells.index(cell), ast.unparse(s)) for cell, s in evidence.replay(page)] == [
        (1, "from handgrad.page import read"),
        (1, "page = read('00_squares.ipynb')"),
        (4, "power = page.given('eq-power')"),
        (5, "power.prove('eq-square')"),
        (6, "page.holds('eq-square')"),
    ]


def test_equations_inside_directives_and_lists_are_found():
    text = "- item\n\n  $$ a $$ (eq-a)\n\n:::{note}\n$$ b $$ (eq-b)\n:::\n\n```{math}\n:label: eq-c\nc\n```\n"
    assert evidence.displayed(text) == [("eq-a", "a"), ("eq-b", "b"), ("eq-c", "c")]


SIZED = [
    r"\sum_k 1 = D",
    r"\prod_{i} 2",
    r"\mathbf{x} = 0",
    r"\boldsymbol\gamma",
    r"\mathsf{A}^\top",
    "x_j = 1",
    r"x _ {t+1,\, i}",
    r"\gamma_j",
    r"\hat{x}_j",
    r"\mathrm{softmax}(s)_j",
    "x^2_k",
    "x'_k",
    r"W_\ell",
    r"W_{\text{out},\,k}",
]
NOT_SIZED = [
    "f'(x) = 2x",
    "x_0 + x_{12}",
    "W_Q",
    r"L_\text{dec}",
    r"p_{\text{data}}",
    r"t_{\mathrm{least}}",
    r"h_{\max} L_\star",
    r"\mathrm{LN}_\varepsilon(x)",
    r"\beta_1 m + (1 - \beta_1) g",
    r"\max_x f(x)",
    r"\lim_{t \to 0} t",
    r"\operatorname*{argmax}_x f(x)",
    r"\int_a f",
    r"\left. f \right|_{x = 0}",
    r"\mathbb{E}[z^2]",
    r"\summary",
    r"x\_j \text{x_j}",
]


@pytest.mark.parametrize("formula", SIZED + NOT_SIZED)
def test_what_has_a_size(formula):
    assert evidence.sized(formula) == (formula in SIZED)


# What a reader sees -----------------------------------------------------------------------------------------


def test_the_mark_says_what_is_known_and_leads_to_the_cell(tmp_path):
    mark = marks.mark(square(PROVE, case="D < 3"), "(1.1)")
    words = "proved for every size, from the page, in a special case (D &lt; 3)"
    assert f'class="evidence special" title="{words}"' in mark and mark.endswith(">∀*</a>")
    assert f'aria-label="Equation (1.1) is {words}. To the cell that checks it"' in mark
    assert 'role="img"' in marks.mark(square(text_tags=DEFINED), "(1.1)")
    nbformat.write(page := paged("x = 1", PROVE), tmp_path / "page.ipynb")
    document = nodes.section()
    for place, cell in enumerate(page.cells):
        document += nodes.container(nb_element=f"cell_{cell.cell_type}", cell_index=place, ids=[])
    env = SimpleNamespace(docname="notebooks/01_squares", doc2path=lambda name: tmp_path / "page.ipynb")
    marks.name_the_cells(SimpleNamespace(env=env), document)
    assert [cell["ids"] for cell in document] == [[], [], [], [], [], ["check-eq-square"]]


def test_the_index_says_what_is_known(tmp_path):
    def listed(*codes, **more):
        nbformat.write(paged(*codes, **more), tmp_path / "00_squares.ipynb")
        return evidence.index(tmp_path)

    page = listed(f"{GIVEN}.prove('eq-square')")
    assert "\n{eq}`eq-square` proved for every size, from the page\n" in page
    assert "\n{eq}`eq-power` definition, read from the page\n" in page
    assert "| ∀ | proved for every size, from the page | 1 |" in page
    assert "\nCompared by eye: 0 of 2 equations.\n" in page and "\n- {doc}" not in page
    page = listed("assert x", run=TYPED, eye={"eq-square": "*Dots*, <any> number"})
    reason = r"(\*Dots\*, \<any\> number)"
    assert f"\n- {{doc}}`/notebooks/00_squares`: {{eq}}`eq-power`, {{eq}}`eq-square` {reason}\n" in page
    assert "\nCompared by eye: 2 of 2 equations.\n" in page
    assert r"in a special case (a\_b = \*c\*)" in listed(PROVE, case="a_b = *c*")
    assert "{eq}`eq-square` **not checked**" in listed()


def test_every_kind_has_its_mark_and_its_words_on_the_page():
    page = " ".join((ROOT / "book/equation_index.md").read_text(encoding="utf-8").split())
    assert list(evidence.MARKS) == list(evidence.KINDS)
    assert all(f"**{words[0].upper()}{words[1:]}** : " in page for words in evidence.KINDS.values())


def test_the_marks_are_shown_as_they_are(tmp_path):
    """An asterisk in a mark is no emphasis, in the table, in the list of marks and on the cheat sheet."""
    (tmp_path / "conf.py").write_text(
        'extensions = ["myst_parser"]\nmyst_enable_extensions = ["attrs_inline"]\n'
    )
    found = evidence.equations(paged(PROVE, case="D = 2"))
    of_sheet = f"[a [{evidence.MARKS['special']} b]{{.evidence}}]{{.marked}}"
    (tmp_path / "index.md").write_text(
        f"# Page\n\n{marks.totals(found)}\n\nThe marks: {marks.in_short()}\n\n{of_sheet} {of_sheet}\n"
    )
    warnings = io.StringIO()
    folders = [tmp_path, tmp_path, tmp_path / "out", tmp_path / "trees"]
    app = Sphinx(*folders, "dummy", status=None, warning=warnings, freshenv=True)
    app.build()
    shown = app.env.get_doctree("index").astext()
    assert f"∀*\n\n{evidence.KINDS['special']}\n\n1" in shown
    told = (
        "∀ proved for every size; ∀* proved for every size, in a special case; = exact in SymPy; ≈ evaluated"
        "; ✎ checked where a cell types it again; ≔ definition"
    )
    assert f"The marks: {told}." in shown and "a ∀* b a ∀* b" in shown
    assert warnings.getvalue() == ""


@pytest.mark.parametrize(
    "source",
    ["?print\n1", "print?", "%time 1", "!ls", "%%html\n<b>no Python</b>", "x = %time 1\nx", "# %\n1"],
)
def test_what_ipython_reads_is_read(source):
    assert evidence.parse(source).body
