"""Exercises are stated once, in a notebook of solutions; what cannot be read is refused with its place."""

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from handgrad.course.judge import Derivation, stated

ROOT = Path(__file__).parents[2]
ANSWER = '''def scaled(dy, x, g):
    """dy, x (B, T, D), g -> dx (B, T, D), dg. The second is a number."""
    # BEGIN SOLUTION
    dx = g * dy
    return dx, total(dy * x)
    # END SOLUTION'''
TOTAL = "def total(x):\n    return x.sum()"
STATED = {
    "asks": "One number for all.",
    "draws": {"x": "repeating", "g": "number(0.3)"},
    "special": {"large": {"x": "times(1e3, normal)"}},
    "ideas": [["It is divided by g.", {"g * dy": "dy / g"}]],
}


def written(folder, answer=ANSWER, more=STATED, given=TOTAL):
    """A notebook of one exercise."""
    cells = [
        new_code_cell(given, id="given"),
        new_markdown_cell(
            "**Hints**, the mildest first:\n\n- Look at\n  one entry.\n- Add them.", id="scaled-hints"
        ),
        new_code_cell(answer, id="scaled-answer", metadata={"handgrad": more}),
    ]
    path = folder / "05_normalization.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


def test_an_exercise_is_read_from_its_cells(tmp_path):
    exercise = stated.exercises(written(tmp_path))["scaled"]
    assert exercise.outputs == ("dx", "dg") and list(exercise.inputs) == ["dy", "x", "g"]
    assert exercise.asks == "One number for all." and [case.name for case in exercise.cases][-1] == "large"
    batch = exercise.cases[1]
    assert batch.inputs[0].shape == (3, 4, 5) and batch.inputs[2] == 0.3
    assert np.array_equal(batch.inputs[1][:, 0], batch.inputs[1][:, -1])
    verdict = exercise.judge(lambda dy, x, g: (dy / g, (dy * x).sum()))
    assert verdict.diagnosis == "It is divided by g. dg is right."
    assert verdict.hints == ("Look at one entry.", "Add them.")
    assert exercise.judge(lambda dy, x, g: (g * dy, (dy * x).sum())).status == "right"
    assert "# BEGIN SOLUTION" in inspect.getsource(exercise.answer)


def test_a_formula_has_domains(tmp_path):
    answer = (
        'def scaled(n):\n    """A number."""\n    # BEGIN SOLUTION\n    return sqrt(n)\n    # END SOLUTION'
    )
    more = {"asks": "A root.", "domains": {"n": "count"}}
    path = written(tmp_path, answer, more, "from sympy import exp, sqrt")
    exercise = stated.exercises(path)["scaled"]
    assert isinstance(exercise, Derivation) and str(exercise.reference) == "sqrt(n)"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"answer": ANSWER.replace(" -> ", ", ")}, "docstring: expected 'arguments -> results'"),
        (
            {"answer": ANSWER.replace(", g -> ", " -> ")},
            "docstring: expected shapes of dy, x, g, found dy, x",
        ),
        ({"more": STATED | {"draws": {"y": "normal"}}}, "draws: expected arguments, dy, x, g; got y"),
        ({"more": STATED | {"draws": {"x": "gaussian_like"}}}, "name 'gaussian_like' is not defined"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(changes, said, tmp_path):
    with pytest.raises(ValueError, match=r"05_normalization.ipynb, cell scaled-answer: ") as refusal:
        stated.exercises(written(tmp_path, **changes))
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("doc", "shapes", "names"),
    [
        (
            "q, k (B, T, K), g -> dq, dk (B, T, K), dg.",
            {"q": "B T K", "k": "B T K", "g": ""},
            ("dq", "dk", "dg"),
        ),
        ("u (B, H*K), w (D,)\n -> du. Shaped as u (B, H*K).", {"u": "B H*K", "w": "D"}, ("du",)),
    ],
)
def test_a_docstring_says_what_comes_in_and_out(doc, shapes, names):
    assert stated.signature(doc) == (shapes, names)


def test_the_wheel_judges_without_a_clone(tmp_path):
    """Built as it is shipped, the package brings its solutions and reads them from where it lies."""
    there = tmp_path / "source"
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "LICENSE-TEXT"):
        there.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, there)
    for name in ("src", "notebooks/solutions"):
        shutil.copytree(ROOT / name, there / name)
    options = "--no-deps --no-build-isolation -q -w".split()
    subprocess.run([sys.executable, "-m", "pip", "wheel", there, *options, tmp_path], check=True)
    (wheel,) = tmp_path.glob("handgrad-*.whl")
    installed = tmp_path / "installed"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, installed], check=True)
    use = f"import sys; sys.path.insert(0, {str(installed)!r}); from handgrad.course import judge"
    use += "; print(judge.stated.SOLUTIONS, len(judge.find('softmax_ds').cases))"
    run = subprocess.run(
        [sys.executable, "-c", use], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert run.stdout.split() == [str(installed / "handgrad/solutions"), "5"]
