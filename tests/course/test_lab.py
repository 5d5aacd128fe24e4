"""The learner's notebooks: MyST becomes what JupyterLab shows, none slips through, and no writing is lost."""

import os
import re
import shutil
from pathlib import Path

import lab
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pybtex.database import parse_string

from book._ext import numbering
from handgrad.course import damage, evidence
from handgrad.page import Page

ROOT = Path(__file__).parents[2]
WORKS = parse_string(
    r"""@misc{ba2016, author = {Ba, J. and Kiros, J. and Hinton, G.}, year = {2016}, eprint = {1607.06450}}
    @book{giles2008, author = {Giles, Mike}, year = {2008}}
    @article{li2020, author = {de Jong, Michiel and Lebr{\'o}n, F.}, year = {2020}, doi = {10.1/x}}""",
    "bibtex",
)
HERE = "notebooks/08_masks"
BOOK = lab.Book(
    titles={
        HERE: "8. Masks",
        "notebooks/19_speed": "19. Speed",
        "notebooks/exercises/08_masks": "Exercises 8: masks",
        "book/notation": "Notation",
    },
    equations={
        "eq-mask": (HERE, "mask", "8.1"),
        "eq-tile": ("notebooks/19_speed", "tile", "19.4"),
        "eq-letters": ("book/notation", "", "2"),
    },
    sections={
        "masks-why": (HERE, "why", "Why a mask"),
        "speed-tiles": ("notebooks/19_speed", "tiles", "Tiles"),
        "speed-aside": ("notebooks/19_speed", "aside", None),
    },
    works=WORKS,
)


def shown(text, here=HERE):
    return lab.rendered(text, here, BOOK)


# What is shown ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "myst, markdown",
    [
        ("See {eq}`eq-mask`.", "See [(8.1)](08_masks.ipynb#cell-id=mask)."),
        ("See {eq}`eq-tile`.", "See [(19.4)](19_speed.ipynb#cell-id=tile)."),
        ("See {eq}`eq-letters`.", "See (2) (*Notation*)."),
        ("See {ref}`masks-why`.", "See [Why a mask](08_masks.ipynb#cell-id=why)."),
        ("The {ref}`small\ntiles <speed-tiles>`.", "The [small tiles](19_speed.ipynb#cell-id=tiles)."),
        ("An {ref}`aside <speed-aside>`.", "An [aside](19_speed.ipynb#cell-id=aside)."),
        ("Read {doc}`19_speed`.", "Read [19. Speed](19_speed.ipynb)."),
        ("Read {doc}`chapter 19 </notebooks/19_speed>`.", "Read [chapter 19](19_speed.ipynb)."),
        ("Read {doc}`/book/notation`.", "Read *Notation*."),
        ("Read {doc}`the letters <../book/notation>`.", "Read the letters (*Notation*)."),
        ("Read [the letters](../book/notation.md).", "Read *the letters*."),
        ("[exercises](exercises/08_masks.ipynb)", "[exercises](exercises/08_masks.ipynb)"),
        ("So {cite}`giles2008`.", r"So \[Giles, 2008\]."),
        ("So {cite}`ba2016`.", r"So \[[Ba *et al.*, 2016](https://arxiv.org/abs/1607.06450)\]."),
        (
            "{cite:t}`li2020` and {cite:t}`giles2008`",
            r"de Jong and Lebrón \[[2020](https://doi.org/10.1/x)\] and Giles \[2008\]",
        ),
        ("A {term}`witness` and {term}`two <witness>`.", "A witness and two."),
        ("Press {kbd}`Shift`, {math}`a_b`.", "Press <kbd>Shift</kbd>, $a_b$."),
        ("* one {eq}`eq-mask`\n* `two`", "* one [(8.1)](08_masks.ipynb#cell-id=mask)\n* `two`"),
        ("| a |\n|:--|\n| {term}`b` `c` |", "| a |\n|:--|\n| b `c` |"),
        ("Code ``{eq}`x` `` and `{cite}` stay.", "Code ``{eq}`x` `` and `{cite}` stay."),
        ("```python\n{eq}`x`\n```", "```python\n{eq}`x`\n```"),
        ("$$\na = b\n$$ (eq-mask)", "$$\na = b\n\\tag{8.1} % eq-mask\n$$"),
        (
            "One\n\n* two\n\n  $$ a $$ (eq-mask)\n",
            "One\n\n* two\n\n  $$\n  a\n  \\tag{8.1} % eq-mask\n  $$\n",
        ),
        (":::{math}\n:label: eq-mask\na = b\n:::", "$$\na = b\n\\tag{8.1} % eq-mask\n$$"),
        ("(masks-why)=\n## Why a mask\n\nBecause.", "## Why a mask\n\nBecause."),
        ("One\n\n% not for readers\n\n+++\n\nTwo", "One\n\n\n\nTwo"),
    ],
)
def test_myst_becomes_what_jupyterlab_shows(myst, markdown):
    assert shown(myst) == markdown


def test_a_label_before_a_paragraph_is_found_and_needs_words():
    assert lab.targets("(one)=\n(two)=\n**Aside.** Text.\n\n(three)=\n## Title") == ["one", "two", "three"]
    with pytest.raises(lab.UnknownMyST, match="'speed-aside' stands before no heading"):
        shown("See {ref}`speed-aside`.")


def test_a_notebook_in_another_folder_leads_back():
    text = shown("{eq}`eq-mask` {doc}`/notebooks/19_speed`", "notebooks/exercises/08_masks")
    assert text == "[(8.1)](../08_masks.ipynb#cell-id=mask) [19. Speed](../19_speed.ipynb)"


def test_a_box_has_a_title_and_its_text_is_rendered():
    text = shown(
        "Before\n\n:::{admonition} Which *one*?\nSee {eq}`eq-mask`:\n\n$$a$$ (eq-mask)\n:::\n\nAfter"
    )
    head, title, body = re.fullmatch(
        r'Before\n\n<div style="([^"]+)">\n<b>(.+)</b>\n\n(.+)\n\n</div>\n\nAfter', text, re.DOTALL
    ).groups()
    assert lab.BLUE in head and title == "Which <em>one</em>?"
    assert body == "See [(8.1)](08_masks.ipynb#cell-id=mask):\n\n$$\na\n\\tag{8.1} % eq-mask\n$$"
    assert "<b>Note</b>" in shown("```{note}\nx\n```")
    assert lab.ORANGE in shown(":::{warning}\nx\n:::") and lab.RED in shown(":::{danger}\nx\n:::")


@pytest.mark.parametrize(
    "myst",
    [
        ":::{dropdown} The answer\nIt is `b`.\n:::",
        ":::{admonition} The answer\n:class: dropdown\nIt is `b`.\n:::",
        "::::{admonition} The answer\n:class: tip dropdown\n\nIt is `b`.\n::::",
    ],
)
def test_an_answer_is_closed(myst):
    pattern = r"<details style=.+>\n<summary><b>The answer</b></summary>\n\nIt is `b`\.\n\n</details>"
    assert re.fullmatch(pattern, shown(myst))


def test_a_box_may_stand_in_a_list_or_in_a_box():
    text = shown("1. one\n\n   :::{note}\n   inside\n   :::\n2. two")
    assert "\n   <b>Note</b>\n\n   inside\n\n   </div>\n2. two" in text
    text = shown("::::{note}\n:::{dropdown} Why\nSo.\n:::\n::::")
    assert text.count("<div") == text.count("<details") == 1 and text.index("<div") < text.index("<details")


@pytest.mark.parametrize(
    "myst, message",
    [
        ("{eq}`eq-none`", "there is no equation 'eq-none'"),
        ("{doc}`none`", "there is no page 'notebooks/none'"),
        ("{cite}`none1900`", "there is no work 'none1900'"),
        (":::{figure} a.png\n:::", "show 'figure' in {figure} a.png"),
        (":::{note}\n:name: x\ny\n:::", "show 'name' in {note}"),
        (":::{note}\n:class: margin\ny\n:::", "show 'margin' in {note}"),
        (":::{note}\n{numref}`a`\n:::", "no way to show the role 'numref'"),
        ("- :::{note}\n  x\n  :::", "on a line of its own: '- :::{note}'"),
        ("A {{ name }}", "how to show substitution_inline"),
        ("Term\n: what it is", "how to show dl_open"),
        ("A note.[^1]\n\n[^1]: Here.", "how to show footnote_re"),
        ("\\begin{align}\na\n\\end{align}", "how to show amsmath"),
        ("[text]{.red}", "how to show span_open"),
        ("[there](#masks-why)", "the link #masks-why leads to no notebook"),
        ("![a](../book/a.png)", "the picture ../book/a.png is not in notebooks/"),
    ],
)
def test_what_is_not_known_is_refused_by_notebook_and_cell(myst, message):
    notebook = new_notebook(cells=[new_markdown_cell(myst, id="planted")])
    with pytest.raises(lab.UnknownMyST) as refused:
        lab.copy_of(notebook, HERE, BOOK)
    assert str(refused.value).startswith(f"{HERE}.ipynb, cell planted: ") and message in str(refused.value)


def test_the_code_is_that_of_the_page():
    cells = [
        new_code_cell("hidden()", id="hidden", metadata={"tags": ["hide-input"]}),
        new_code_cell("# BEGIN SOLUTION\nx = 1\n# END SOLUTION", id="solved", execution_count=3),
    ]
    hidden, solved = lab.copy_of(new_notebook(cells=cells), HERE, BOOK).cells
    assert hidden.metadata.jupyter.source_hidden and "jupyter" not in solved.metadata
    assert solved.source == "x = 1" and solved.execution_count is None


# The book ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copies():
    return lab.copies(ROOT, Path("lab"))


def test_every_notebook_can_be_shown_and_nothing_is_left_raw(copies):
    left = re.compile(r"\{[\w:]+\}`|^\s*(:::|```\{|\(\S+\)=)|\$\$ *\(|\]\(.*\.md\)", re.MULTILINE)
    assert len(copies) == len(lab.sources(ROOT)) > 0
    for path, notebook in copies.items():
        for cell in notebook.cells:
            assert cell.cell_type == "code" or not left.search(cell.source), (path, cell.id)


@pytest.mark.parametrize(
    "chapter, source", evidence.chapters(ROOT / "notebooks"), ids=lambda x: getattr(x, "stem", "")
)
def test_a_copy_reads_the_formulas_of_its_page(chapter, source, copies):
    markdown = [evidence.prose(notebook) for notebook in (source, copies[Path("lab") / chapter.name])]
    page, copy = (Page(text).equations for text in markdown)
    assert copy == page
    setup, _ = damage.statements(source)
    assert setup and damage.readings(setup, markdown[1], chapter.name)


def test_links_lead_to_a_cell_that_is_there(copies):
    ids = {path: {cell.id for cell in notebook.cells} for path, notebook in copies.items()}
    links = 0
    for path, notebook in copies.items():
        text = evidence.prose(notebook)
        for file, _, cell in re.findall(r"\]\(([^)#:]+\.ipynb)(#cell-id=([^)]+))?\)", text):
            target = Path(os.path.normpath(path.parent / file))
            assert target in ids and (not cell or cell in ids[target]), (path, file, cell)
            links += 1
    assert links > 100


def test_numbers_and_titles_are_those_that_the_pages_will_have():
    for page in ("notebooks/08_masks", "notebooks/exercises/08_masks", "book/notation"):
        assert lab.number(page, 3) == ".".join(map(str, (*numbering.number_of(page), 3)))
    assert lab.numbered("notebooks/08_masks", "Masks") == "8. Masks"
    assert lab.numbered("notebooks/exercises/08_masks", "Exercises: masks") == "Exercises 8: masks"
    assert lab.numbered("notebooks/solutions/08_masks", "Exercises: masks") == "Solutions 8: masks"
    assert lab.numbered("book/notation", "Notation") == "Notation"


# What is written --------------------------------------------------------------------------------------------


@pytest.fixture
def book(tmp_path):
    """A small book in a folder of its own."""
    root = tmp_path / "book_of_one"
    (root / "book").mkdir(parents=True)
    (root / "book/references.bib").write_text(WORKS.to_string("bibtex"))
    (root / "notebooks/quizzes").mkdir(parents=True)
    (root / "notebooks/quizzes/08_masks.json").write_text("[]")
    save(root, "$$a = b$$ (eq-mask)")
    return root


def save(root, text):
    cells = [
        new_markdown_cell("# Masks", id="title"),
        new_markdown_cell(text, id="mask"),
        new_code_cell(id="c"),
    ]
    nbformat.write(new_notebook(cells=cells), root / "notebooks/08_masks.ipynb")


def make(root, folder):
    done = lab.write(lab.copies(root, folder))
    lab.copy_files(root, folder)
    return [[path.name for path in paths] for paths in done]


def test_the_first_time_everything_is_made(book, tmp_path):
    assert make(book, tmp_path / "lab") == [["08_masks.ipynb"], [], []]
    title, mask, _ = nbformat.read(tmp_path / "lab/08_masks.ipynb", as_version=4).cells
    assert title.source == "# 8. Masks" and r"\tag{8.1}" in mask.source
    assert (tmp_path / "lab/quizzes/08_masks.json").read_text() == "[]"


def test_what_others_keep_beside_the_notebooks_is_no_part_of_the_book(book):
    source = book / "notebooks/08_masks.ipynb"
    for name in ("exercises/08_masks.mine.ipynb", ".ipynb_checkpoints/08_masks-checkpoint.ipynb"):
        (book / "notebooks" / name).parent.mkdir()
        shutil.copyfile(source, book / "notebooks" / name)
    assert lab.sources(book) == [source]


def test_an_untouched_notebook_keeps_its_outputs_until_the_book_changes(book, tmp_path):
    make(book, tmp_path / "lab")
    file = tmp_path / "lab/08_masks.ipynb"
    notebook = nbformat.read(file, as_version=4)
    notebook.cells[2].execution_count = 7  # it was run, and JupyterLab added to the metadata
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, file)
    ran = file.read_bytes()
    assert make(book, tmp_path / "lab") == [[], [], []] and file.read_bytes() == ran
    save(book, "$$a = c$$ (eq-mask)")
    assert make(book, tmp_path / "lab") == [[], ["08_masks.ipynb"], []]
    assert "a = c" in file.read_text()


def test_what_the_learner_wrote_is_kept(book, tmp_path):
    make(book, tmp_path / "lab")
    file = tmp_path / "lab/08_masks.ipynb"
    notebook = nbformat.read(file, as_version=4)
    notebook.cells[2].source = "mine()"
    nbformat.write(notebook, file)
    written = file.read_bytes()
    save(book, "$$a = c$$ (eq-mask)")
    assert make(book, tmp_path / "lab") == [[], [], ["08_masks.ipynb"]] and file.read_bytes() == written
    file.write_text("no notebook at all")
    assert make(book, tmp_path / "lab") == [[], [], ["08_masks.ipynb"]]
    shutil.move(file, file.with_name("mine.ipynb"))
    assert make(book, tmp_path / "lab") == [["08_masks.ipynb"], [], []]
    assert file.with_name("mine.ipynb").read_text() == "no notebook at all"


def test_the_learner_is_told():
    made, renewed, kept, advice = lab.report([Path("a"), Path("b")], [Path("c.ipynb")], [Path("d.ipynb")])
    assert made == "made: 2 notebooks" and renewed.startswith("renewed") and "c.ipynb" in renewed
    assert kept.startswith("kept") and "d.ipynb" in kept and "fresh copy" in advice
    assert lab.report([], [], []) == []


def test_the_folder_shows_progress_and_keeps_it(tmp_path):
    """The notebook runs there, and the record of the judge is kept when the folder is renewed."""
    assert lab.main([str(tmp_path)]) == 0
    (tmp_path / lab.FILE).write_text("kept")
    assert lab.main([str(tmp_path)]) == 0
    assert (tmp_path / lab.FILE).read_text() == "kept"
    shown = nbformat.read(tmp_path / "progress.ipynb", as_version=4)
    nbformat.validate(shown)
    assert "progress.show()" in shown.cells[-1].source and not lab.exercises.is_answered(
        tmp_path / "progress.ipynb"
    )
