"""The build refuses what must not reach a reader: tiny books, with our settings, one of them all faults."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat.v4 as nb
import pytest
import yaml

ROOT = Path(__file__).parents[2]
JUPYTER_BOOK = Path(sys.executable).parent / "jupyter-book"
FIGURE = "from handgrad.course.figures import subplots\nfig, ax = subplots()\nax.plot([0, 1])\nfig"
WORDS = {"alt": "a rising line", "caption": "A line."}

pytestmark = pytest.mark.site


FAULTS = {
    "exception": (nb.new_code_cell("raise ValueError('refused')"), "Executing notebook failed"),
    "stderr": (
        nb.new_code_cell("import sys; print('careful', file=sys.stderr)"),
        "Executing notebook failed",
    ),
    "figure": (nb.new_code_cell(FIGURE), "has no alt text"),
    "picture": (nb.new_markdown_cell("![](picture.svg)"), "has no alt text|not readable"),
    "equation": (nb.new_markdown_cell("See {eq}`eq-nowhere`."), "eq-nowhere"),
    "citation": (nb.new_markdown_cell("See {cite}`nobody1900`."), "nobody1900"),
    "link": (nb.new_markdown_cell("See [this](nowhere.md)."), "nowhere"),
}


def build(folder, pages):
    """Build a book of notebooks, {name: cells}, with the settings of this one. Return exit status and log."""
    shutil.copytree(ROOT / "book", folder / "book", ignore=shutil.ignore_patterns("*.md"))
    for name in ("_config.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    first, *others = (f"notebooks/{name}" for name in pages)
    contents = {"format": "jb-book", "root": first, "chapters": [{"file": file} for file in others]}
    (folder / "_toc.yml").write_text(yaml.safe_dump({k: v for k, v in contents.items() if v}))
    (folder / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks/conftest.py", folder / "notebooks")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for name, cells in pages.items():
        page = nb.new_notebook(cells=[nb.new_markdown_cell(f"# A page: {name}"), *cells], metadata=kernel)
        (folder / f"notebooks/{name}.ipynb").write_text(nb.writes(page))
    command = [JUPYTER_BOOK, "build", "-W", "-n", "--keep-going", folder]
    environment = {**os.environ, "NO_COLOR": "1", "WEB": "0"}  # Python for pages is the whole book's
    run = subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL)
    return run.returncode, re.sub(r"\x1b\[[0-9;]*m", "", run.stdout + run.stderr)


def test_a_sound_notebook_builds(tmp_path):
    page = [nb.new_code_cell(FIGURE, metadata=WORDS), nb.new_code_cell("1 + 1")]
    status, log = build(tmp_path, {"page": page, "other": [nb.new_code_cell("2 + 2")]})
    assert status == 0, log
    html = (tmp_path / "_build/html/notebooks/page.html").read_text()
    assert 'alt="a rising line"' in html and "Figure 1." in html and "A line." in html


def test_each_fault_is_a_warning_at_its_page_and_stops_the_build(tmp_path, subtests):
    status, log = build(tmp_path, {name: [cell] for name, (cell, _) in FAULTS.items()})
    assert status != 0, log
    assert "ValueError: refused" in log and "The cell warns" in log and "careful" in log  # says nbval
    for name, (_, reason) in FAULTS.items():
        with subtests.test(name):
            assert re.search(rf"notebooks/{name}\b.*(WARNING|ERROR).*({reason})", log), log
