"""Every notebook runs, and prints what its text quotes.

A run is kept in _build/executed until something changes that it depends on, and `make book` shows the same
runs: see book/_ext/execution.py.
"""

from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_notebook, new_output

from book._ext import execution
from handgrad.course.rules import is_quoted

ROOT = Path(__file__).parents[2]
TIMEOUT = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["execute"]["timeout"]
NOTEBOOKS = {
    path: nbformat.read(path, as_version=4)
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb"))
    if not path.stem.endswith(".mine") and ".ipynb_checkpoints" not in path.parts
}


def budget(path):
    """The seconds that a notebook may take, or 0 if it does not say."""
    return NOTEBOOKS[path].metadata.get("handgrad", {}).get("budget", 0)


def printed(cell):
    """What a cell printed to stdout, or returned, as text."""
    shown = (output for output in cell.outputs if output.get("name") != "stderr")
    return "".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in shown)


def differences(stored, done):
    """What differs between the quoted outputs of a notebook as it is stored and as it was run."""
    pairs = zip(stored.cells, done.cells, strict=True)
    return [
        f"{before.id}: the text quotes\n{printed(before)}and the cell now prints\n{printed(after)}"
        for before, after in pairs
        if before.cell_type == "code" and is_quoted(before) and printed(before) != printed(after)
    ]


def warnings(notebook):
    """What the cells of a notebook that was run wrote to stderr."""
    outputs = (output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)
    return [output.text for output in outputs if output.get("name") == "stderr"]


def named(path):
    return path.relative_to(ROOT / "notebooks").with_suffix("").as_posix()


@pytest.mark.parametrize("path", sorted(NOTEBOOKS, key=budget, reverse=True), ids=named)
def test_a_notebook_runs_and_prints_what_it_quotes(path):
    kept = execution.kept_for(ROOT, path.relative_to(ROOT).with_suffix("").as_posix())
    stored = NOTEBOOKS[path]
    done, _, error = execution.run(nbformat.from_dict(stored), path, kept, timeout=TIMEOUT)
    if error is not None:
        raise error
    assert differences(stored, done) == []
    assert warnings(done) == []


def ran(source, text, folder):
    """A notebook of one quoted cell that stores `text`, and as it was run."""
    outputs = [new_output("stream", name="stdout", text=text)]
    cell = new_code_cell(source, outputs=outputs, execution_count=1, metadata={"tags": ["quoted"]})
    stored = new_notebook(cells=[cell])
    path = folder / "00_nine.ipynb"
    return stored, *execution.run(nbformat.from_dict(stored), path, folder / "kept.ipynb", timeout=60)


@pytest.mark.parametrize("text, differs", [("9.0\n", 0), ("9.1\n", 1), ("", 1)])
def test_a_quoted_output_is_compared_with_a_new_run(text, differs, tmp_path):
    stored, done, _, error = ran("print(9.0)", text, tmp_path)
    assert error is None and len(differences(stored, done)) == differs
    assert stored.cells[0].outputs[0].text == text  # the run has not written into what it is compared with


def test_a_warning_is_seen(tmp_path):
    source = "import warnings; print(9.0); warnings.warn('rounded')"
    stored, done, *_ = ran(source, "9.0\n", tmp_path)
    assert "rounded" in warnings(done)[0] and not differences(stored, done)
