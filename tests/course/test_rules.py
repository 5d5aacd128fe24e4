"""Every notebook of the book keeps the rules, and every rule refuses notebooks that break it."""

from pathlib import Path

import nbformat
import outputs
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from handgrad.course import rules
from handgrad.course.evidence import chapters
from handgrad.course.rules import ALWAYS, IN_CHAPTERS

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
CHAPTERS = chapters(NOTEBOOKS)
EVERYTHING = sorted(set(NOTEBOOKS.rglob("[0-9][0-9]_*.ipynb")) - set(NOTEBOOKS.rglob("*.mine.ipynb")))


# The book ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ALWAYS, ids=lambda rule: rule.__name__.removeprefix("rule_"))
@pytest.mark.parametrize(
    "path", EVERYTHING, ids=lambda path: str(path.relative_to(NOTEBOOKS).with_suffix(""))
)
def test_notebook(path, rule):
    assert rule(nbformat.read(path, as_version=4)) == []


@pytest.mark.parametrize("rule", IN_CHAPTERS, ids=lambda rule: rule.__name__.removeprefix("rule_"))
@pytest.mark.parametrize("path, notebook", CHAPTERS, ids=[path.stem for path, _ in CHAPTERS])
def test_chapter(path, notebook, rule):
    assert rule(notebook) == []


# The rules refuse what they must ----------------------------------------------------------------------------


WORDS = {"alt": "The square of x against x.", "caption": "The square of a number."}


def sound():
    """A notebook that breaks no rule."""
    titles = (
        "The shipped lines",
        "What breaks without a mask",
        "Train a small model",
        "Exercises and questions",
        "What you can do now",
        "The card",
        "Further reading",
    )
    words = "A few plain words about this part of the chapter, enough to outweigh the code."
    time = "Reading takes 5 minutes, 2 minutes for the core, running 2 seconds."
    more = f"(squares-more)=\n### More\n\n{words} See {{ref}}`above <squares-card>`."
    parts = [
        f"# Squares\n\nYou will be able to square. {time}",
        *(f"## {title}\n\n{words}" for title in titles),
        f"## Second reading\n\n{more}",
    ]
    return new_notebook(
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "handgrad": {"budget": 60, "reading_minutes": 5, "core_minutes": 2},
        },
        cells=[
            new_markdown_cell("\n\n".join(parts), id="squares"),
            new_code_cell(
                "import numpy as np\nrng = np.random.default_rng(0)\nx = rng.standard_normal(3)", id="draw"
            ),
            new_code_cell(
                "from handgrad.course.figures import squares\nsquares.plot(x)",
                id="plot",
                metadata=WORDS,
            ),
            new_code_cell("from handgrad.course.quiz import quiz\nquiz('squares.json')", id="quiz"),
            new_code_cell(
                "print(f'{9:.1f}')",
                id="nine",
                metadata={"tags": ["quoted"]},
                outputs=[new_output("stream", name="stdout", text="9.0\n")],
                execution_count=3,
            ),
        ],
    )


def changed(source=None, cell=1, tags=None, **attributes):
    def change(notebook):
        if source is not None:
            notebook.cells[cell].source = source
        if tags is not None:
            notebook.cells[cell].metadata = nbformat.from_dict({"tags": tags})
        notebook.cells[cell].update(attributes)

    return change


def reworded(*pairs):
    """The text with old words replaced by new ones, each once."""
    text = sound().cells[0].source
    for old, new in pairs:
        text = text.replace(old, new, 1)
    return changed(text, cell=0)


def drawn(source=None, **words):
    """The cell of the picture with other words about it, or none."""
    return changed(source, cell=2, metadata=nbformat.from_dict(WORDS | words if words else {}))


def interactive(name, call, cell=1):
    return changed(f"from handgrad.course.interactive import {name}\n{name}({call})", cell)


def asks(check, tags=()):
    """A question with a folded answer, and the cell that checks it."""
    question = "What is 1 + 1?\n\n:::{admonition} Answer\n:class: dropdown\n2\n:::"
    cell = new_code_cell(check, id="check", metadata={"tags": list(tags)})
    return lambda notebook: notebook.cells.extend([new_markdown_cell(question, id="ask"), cell])


def append(*sources):
    def change(notebook):
        for letter, source in zip("abc", sources):
            notebook.cells.append(new_code_cell(source, id=f"more-{letter}"))

    return change


def metadata(**values):
    return lambda notebook: notebook.metadata.update(values)


def test_a_sound_notebook_passes():
    assert [complaint for rule in ALWAYS + IN_CHAPTERS for complaint in rule(sound())] == []


GOOD = [
    ("answers_stay_closed", asks("1 + 1")),
    ("answers_stay_closed", asks("assert 1 + 1 == 2", ["hide-input"])),
    (
        "names_mean_one_thing",
        append(
            "for i in range(3):\n    for i, j in []:\n        pass",
            "for i in 'ab':\n    pass",
            "import numpy as np\nx[0] = np.pi\nx.flags.writeable = False",
        ),
    ),
    (
        "names_mean_one_thing",
        append(
            "def f(x):\n    rng = x\n    return [x for x in rng]",
            "y = f(x)\ny = y + 1\nz = [x for x in y]",
        ),
    ),
]


@pytest.mark.parametrize("rule, change", GOOD)
def test_the_rule_accepts(rule, change):
    notebook = sound()
    change(notebook)
    assert getattr(rules, f"rule_{rule}")(notebook) == []


IMAGE = new_output("display_data", data={"image/png": "", "text/plain": "<Figure>"})
HASH = "0f3c9a1b-90aa-4d5c-9e43-b4d1a8b0c111"
BAD = {
    "kernel": [
        metadata(kernelspec={"name": "my-venv", "display_name": "mine"}),
        lambda notebook: notebook.metadata.pop("kernelspec"),
    ],
    "ids": [changed(id=name) for name in ("plot", HASH[:8], HASH, "Cell 1")],
    "outputs": [
        changed(outputs=[new_output("stream", name="stdout", text="1")]),
        changed(execution_count=1),
        changed(cell=4, execution_count=None),
        changed(cell=4, outputs=[]),
        changed(cell=4, outputs=[IMAGE]),
        changed(cell=4, outputs=[new_output("stream", name="stderr", text="warning")]),
    ],
    "runs": [changed(tags=["skip-execution"]), changed(tags=["raises-exception"])],
    "no_plumbing": [
        changed("import sys\nsys.path.insert(0, '../src')"),
        changed("from sys import path as p\nimport sys as s\ns.path += ['..']"),
        changed("%pip install numpy"),
        changed("!pip install numpy"),
        changed("%matplotlib inline"),
        changed("from handgrad.sums import *"),
    ],
    "random_state": [
        changed("import numpy as np\nnp.random.seed(0)"),
        changed("import numpy as np\nx = np.random.randn(3)"),
        changed("from numpy.random import rand\nx = rand(3)"),
        changed("from numpy import random as r\nx = r.rand(3)"),
        changed("import numpy as np\nrng = np.random.default_rng()"),
        changed("import random\nrandom.random()"),
        changed("import torch\ntorch.manual_seed(0)"),
        changed("import torch\nx = torch.randn(3)"),
    ],
    "cells_are_short": [changed("\n".join(["x = 1"] * 6), cell=2), changed("\n".join(["x = 1"] * 13))],
    "more_prose_than_code": [changed("# Squares\n\n$$ prose prose $$ `prose` ```\nprose\n```", cell=0)],
    "imports_where_used": [
        changed("import math"),
        changed("from math import pi, tau\npi"),
        changed("import matplotlib.pyplot as plt\nplt.plot(1)"),
    ],
    "names_mean_one_thing": [
        append("x = 2"),
        append("y, (x, z) = 1, (2, 3)"),
        append("x += 1"),
        append("np = 1"),
        append("def x():\n    return 1"),
        append("class x:\n    pass"),
        append("for x in range(3):\n    pass"),
        append("for i in range(3):\n    x = i"),
        append("if True:\n    x = 1"),
        append("with open('f') as x:\n    pass"),
        append("for i in range(3):\n    pass", "i = 1"),
    ],
    "pictures_have_text": [
        drawn(),
        drawn(alt="plot"),
        drawn(caption=""),
        drawn("from handgrad.course import figures as drawn\ndrawn.squares(x)"),
        drawn("from handgrad.chapters.squares import figures as drawn\ndrawn.squares(x)"),
        drawn("from handgrad.chapters.squares import races as drawn\ndrawn.squares(x)"),
        changed("from handgrad.chapters.squares import figures\nfigures.plot(1)"),
        interactive("frames", "draw, [1], label='x'", cell=2),
        interactive("frames", "draw, [1], 'x', 'a line'"),
        interactive("switches", "draw, 'q', 'k', 'mask', 'a row'"),
    ],
    "states_its_time": [
        metadata(handgrad={"reading_minutes": 5}),
        metadata(handgrad={"budget": 6000, "reading_minutes": 5}),
        metadata(handgrad={"budget": 60, "reading_minutes": 50}),
        metadata(handgrad={"budget": 60}),
        changed("# Squares\n\nReading takes 5 minutes.", cell=0),
    ],
    "answers_stay_closed": [asks("assert 1 + 1 == 2")],
    "core_stands_alone": [
        metadata(handgrad={"budget": 60, "reading_minutes": 5}),
        metadata(handgrad={"core_minutes": 3}),
        reworded(("A few", "See {ref}`more <squares-more>`. A few")),
    ],
    "skeleton": [
        changed("# Squares\n\n## Train\n\nExercises, quiz, further reading.", cell=0),
        reworded(("able to", "made to")),
        reworded(("Train a", "Draw a")),
        reworded(("## Exercises", "## End"), ("# Squares", "# Squares\n\n## Exercises")),
        changed("x", cell=3),
    ],
    "equations": [reworded(("# Squares", "# Squares\n\n$$ x $$ (eq-square)"))],
}


@pytest.mark.parametrize("rule, spoil", [(rule, spoil) for rule in BAD for spoil in BAD[rule]])
def test_the_rule_refuses(rule, spoil):
    notebook = sound()
    if rule == "cells_are_short":  # so few cells that one long one decides
        notebook.cells = notebook.cells[:3]
    spoil(notebook)
    assert getattr(rules, f"rule_{rule}")(notebook) != []


def test_every_rule_is_seen_to_refuse():
    assert {f"rule_{rule}" for rule in BAD} == {rule.__name__ for rule in ALWAYS + IN_CHAPTERS}


# The command ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place, complaint",
    [
        ("notebooks/00_squares.ipynb", "the median code cell has 4.0 lines"),
        ("notebooks/solutions/00_squares.ipynb", ""),
        ("notebooks/squares.ipynb", ""),
    ],
)
def test_the_command_says_what_is_broken_in_which_file(place, complaint, tmp_path, capsys):
    notebook = sound()
    notebook.cells = notebook.cells[:3]  # so few that one long cell decides
    notebook.cells[2].source = "\n".join(["x = 1"] * 6)
    path, other = tmp_path / place, tmp_path / "other.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    nbformat.write(sound(), other)
    assert rules.main([str(path), str(other)]) == bool(complaint)
    printed = capsys.readouterr().out
    assert (f"{path}: {complaint}" in printed) if complaint else printed == "no rule is broken\n"
    assert str(other) not in printed


def test_a_cell_that_is_not_python_is_named(tmp_path):
    notebook = sound()
    notebook.cells[1].source += "\nx = = 1"
    nbformat.write(notebook, tmp_path / "00_squares.ipynb")
    assert rules.complaints(tmp_path / "00_squares.ipynb") == ["draw: line 4 is not Python: invalid syntax"]


# The tool that stores outputs -------------------------------------------------------------------------------


def test_the_tool_keeps_quoted_outputs_and_strips_the_rest(tmp_path):
    notebook = sound()
    notebook.cells[4].update(outputs=[], execution_count=None)
    del notebook.cells[2:4]  # the figure and the quiz do not exist
    notebook.cells[1].source += "\nprint(x.shape)"
    path = tmp_path / "00_squares.ipynb"
    nbformat.write(notebook, path)
    stored = outputs.strip(outputs.execute(path, timeout=60))
    assert stored.cells[1].outputs == [] and stored.cells[1].execution_count is None
    assert stored.cells[2].outputs[0].text == "9.0\n" and stored.cells[2].execution_count == 2
    assert rules.rule_outputs(stored) == []
    assert "execution" not in stored.cells[2].metadata
