"""Every notebook of the book keeps the rules, and every rule refuses notebooks that break it."""

import copy
from pathlib import Path

import nbformat
import outputs
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from handgrad.course import rules
from handgrad.course.evidence import chapters
from handgrad.course.rules import (
    ALWAYS,
    IN_CHAPTERS,
    rule_answers_stay_closed,
    rule_cells_are_short,
    rule_core_stands_alone,
    rule_equations,
    rule_ids,
    rule_imports_where_used,
    rule_kernel,
    rule_more_prose_than_code,
    rule_names_mean_one_thing,
    rule_no_plumbing,
    rule_outputs,
    rule_pictures_have_text,
    rule_random_state,
    rule_runs,
    rule_skeleton,
    rule_states_its_time,
)

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
    time = "Reading takes 5 minutes, 2 minutes for the core, running 2 seconds."
    opening = f"# Squares\n\nYou will be able to square. {time}\n\n"
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
    parts = opening + "\n\n".join(f"## {title}\n\n{words}" for title in titles)
    parts += (
        f"\n\n## Second reading\n\n(squares-more)=\n### More\n\n{words} See {{ref}}`above <squares-card>`."
    )
    return new_notebook(
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "handgrad": {"budget": 60, "reading_minutes": 5, "core_minutes": 2},
        },
        cells=[
            new_markdown_cell(parts, id="squares"),
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


def changed(source=None, cell=1, **attributes):
    def change(notebook):
        if source is not None:
            notebook.cells[cell].source = source
        notebook.cells[cell].update(attributes)

    return change


def asks(check, tags=()):
    """A question with a folded answer, and the cell that checks it."""
    question = "What is 1 + 1?\n\n:::{admonition} Answer\n:class: dropdown\n2\n:::"
    cell = new_code_cell(check, id="check", metadata={"tags": list(tags)})
    return lambda notebook: notebook.cells.extend([new_markdown_cell(question, id="ask"), cell])


def append(notebook, *sources):
    for number, source in enumerate(sources):
        notebook.cells.append(new_code_cell(source, id=f"more-{'abc'[number]}"))


def metadata(**values):
    return lambda notebook: notebook.metadata.update(values)


def test_a_sound_notebook_passes():
    assert [complaint for rule in ALWAYS + IN_CHAPTERS for complaint in rule(sound())] == []


@pytest.mark.parametrize("ask", [asks("1 + 1"), asks("assert 1 + 1 == 2", ["hide-input"])])
def test_an_answer_may_be_followed_by_an_experiment_or_a_folded_check(ask):
    notebook = sound()
    ask(notebook)
    assert rule_answers_stay_closed(notebook) == []


def test_names_that_mean_one_thing():
    notebook = sound()
    loops = "for i in range(3):\n    for i, j in []:\n        pass", "for i in 'ab':\n    pass"
    inside = "def f(x):\n    rng = x\n    return [x for x in rng]", "y = f(x)\ny = y + 1\nz = [x for x in y]"
    append(notebook, *loops, "import numpy as np\nx[0] = np.pi\nx.flags.writeable = False")
    assert rule_names_mean_one_thing(notebook) == []
    notebook = sound()
    append(notebook, *inside)
    assert rule_names_mean_one_thing(notebook) == []


IMAGE = new_output("display_data", data={"image/png": "", "text/plain": "<Figure>"})
BAD = [
    (rule_kernel, metadata(kernelspec={"name": "my-venv", "display_name": "mine"})),
    (rule_kernel, lambda notebook: notebook.metadata.pop("kernelspec")),
    (rule_ids, changed(id="plot")),
    (rule_ids, changed(id="0f3c9a1b")),
    (rule_ids, changed(id="0f3c9a1b-90aa-4d5c-9e43-b4d1a8b0c111")),
    (rule_ids, changed(id="Cell 1")),
    (rule_outputs, changed(outputs=[new_output("stream", name="stdout", text="1")])),
    (rule_outputs, changed(execution_count=1)),
    (rule_outputs, changed(cell=4, execution_count=None)),
    (rule_outputs, changed(cell=4, outputs=[])),
    (rule_outputs, changed(cell=4, outputs=[IMAGE])),
    (rule_outputs, changed(cell=4, outputs=[new_output("stream", name="stderr", text="warning")])),
    (rule_runs, changed(metadata=nbformat.from_dict({"tags": ["skip-execution"]}))),
    (rule_runs, changed(metadata=nbformat.from_dict({"tags": ["raises-exception"]}))),
    (rule_no_plumbing, changed("import sys\nsys.path.insert(0, '../src')")),
    (rule_no_plumbing, changed("from sys import path as p\nimport sys as s\ns.path += ['..']")),
    (rule_no_plumbing, changed("%pip install numpy")),
    (rule_no_plumbing, changed("!pip install numpy")),
    (rule_no_plumbing, changed("%matplotlib inline")),
    (rule_no_plumbing, changed("from handgrad.sums import *")),
    (rule_random_state, changed("import numpy as np\nnp.random.seed(0)")),
    (rule_random_state, changed("import numpy as np\nx = np.random.randn(3)")),
    (rule_random_state, changed("from numpy.random import rand\nx = rand(3)")),
    (rule_random_state, changed("from numpy import random as r\nx = r.rand(3)")),
    (rule_random_state, changed("import numpy as np\nrng = np.random.default_rng()")),
    (rule_random_state, changed("import random\nrandom.random()")),
    (rule_random_state, changed("import torch\ntorch.manual_seed(0)")),
    (rule_random_state, changed("import torch\nx = torch.randn(3)")),
    (rule_cells_are_short, changed("\n".join(["x = 1"] * 6), cell=2)),
    (rule_cells_are_short, changed("\n".join(["x = 1"] * 13))),
    (rule_more_prose_than_code, changed("# Squares\n\n$$ prose prose $$ `prose` ```\nprose\n```", cell=0)),
    (rule_imports_where_used, changed("import math")),
    (rule_imports_where_used, changed("from math import pi, tau\npi")),
    (rule_imports_where_used, changed("import matplotlib.pyplot as plt\nplt.plot(1)")),
    *(
        (rule_names_mean_one_thing, lambda notebook, code=code: append(notebook, *code))
        for code in [
            ("x = 2",),
            ("y, (x, z) = 1, (2, 3)",),
            ("x += 1",),
            ("np = 1",),
            ("def x():\n    return 1",),
            ("class x:\n    pass",),
            ("for x in range(3):\n    pass",),
            ("for i in range(3):\n    x = i",),
            ("if True:\n    x = 1",),
            ("with open('f') as x:\n    pass",),
            ("for i in range(3):\n    pass", "i = 1"),
        ]
    ),
    (rule_pictures_have_text, changed(cell=2, metadata=nbformat.from_dict({}))),
    (rule_pictures_have_text, changed(cell=2, metadata=nbformat.from_dict(WORDS | {"alt": "plot"}))),
    (rule_pictures_have_text, changed(cell=2, metadata=nbformat.from_dict(WORDS | {"caption": ""}))),
    *(
        (
            rule_pictures_have_text,
            changed(
                f"from {room} import {module} as drawn\ndrawn.squares(x)",
                cell=2,
                metadata=nbformat.from_dict({}),
            ),
        )
        for room, module in [
            ("handgrad.course", "figures"),
            ("handgrad.chapters.squares", "figures"),
            ("handgrad.chapters.squares", "races"),
        ]
    ),
    (
        rule_pictures_have_text,
        changed("from handgrad.chapters.squares import figures\nfigures.plot(1)"),
    ),
    (
        rule_pictures_have_text,
        changed("from handgrad.course.interactive import frames\nframes(draw, [1], label='x')", cell=2),
    ),
    (
        rule_pictures_have_text,
        changed("from handgrad.course.interactive import frames\nframes(draw, [1], 'x', 'a line')"),
    ),
    (
        rule_pictures_have_text,
        changed(
            "from handgrad.course.interactive import switches\nswitches(draw, 'q', 'k', 'mask', 'a row')"
        ),
    ),
    (rule_states_its_time, metadata(handgrad={"reading_minutes": 5})),
    (rule_states_its_time, metadata(handgrad={"budget": 6000, "reading_minutes": 5})),
    (rule_states_its_time, metadata(handgrad={"budget": 60, "reading_minutes": 50})),
    (rule_answers_stay_closed, asks("assert 1 + 1 == 2")),
    (rule_states_its_time, metadata(handgrad={"budget": 60})),
    (rule_states_its_time, changed("# Squares\n\nReading takes 5 minutes.", cell=0)),
    (rule_core_stands_alone, metadata(handgrad={"budget": 60, "reading_minutes": 5})),
    (rule_core_stands_alone, metadata(handgrad={"core_minutes": 3})),
    (
        rule_core_stands_alone,
        changed(sound().cells[0].source.replace("A few", "See {ref}`more <squares-more>`. A few", 1), cell=0),
    ),
    (rule_skeleton, changed("# Squares\n\n## Train\n\nExercises, quiz, further reading.", cell=0)),
    (rule_skeleton, changed(sound().cells[0].source.replace("able to", "made to"), cell=0)),
    (rule_skeleton, changed(sound().cells[0].source.replace("Train a", "Draw a"), cell=0)),
    (
        rule_skeleton,
        changed(
            sound()
            .cells[0]
            .source.replace("## Exercises", "## End")
            .replace("# Squares", "# Squares\n\n## Exercises"),
            cell=0,
        ),
    ),
    (rule_skeleton, changed("x", cell=3)),
    (rule_equations, changed(sound().cells[0].source + "\n\n$$ x $$ (eq-square)", cell=0)),
]


@pytest.mark.parametrize("rule, spoil", BAD, ids=[f"{rule.__name__}-{i}" for i, (rule, _) in enumerate(BAD)])
def test_the_rule_refuses(rule, spoil):
    notebook = copy.deepcopy(sound())
    if rule is rule_cells_are_short:  # so few cells that one long one decides
        notebook.cells = notebook.cells[:3]
    spoil(notebook)
    assert rule(notebook) != []


def test_every_rule_is_seen_to_refuse():
    assert {rule for rule, _ in BAD} == set(ALWAYS + IN_CHAPTERS)


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
    assert rule_outputs(stored) == []
    assert "execution" not in stored.cells[2].metadata


def test_the_tool_passes_on_what_a_cell_raises(tmp_path):
    path = tmp_path / "00_wrong.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("assert 1 == 2, 'one is not two'")]), path)
    with pytest.raises(CellExecutionError, match="one is not two"):
        outputs.execute(path, timeout=60)
