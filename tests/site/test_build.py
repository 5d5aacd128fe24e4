"""The build refuses what must not reach a reader: tiny books with one fault each, built with our settings."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat.v4 as nb
import pytest

ROOT = Path(__file__).parents[2]
JUPYTER_BOOK = Path(sys.executable).parent / "jupyter-book"
TOC = "format: jb-book\nroot: notebooks/page\n"
FIGURE = "from handgrad.course.figures import subplots\nfig, ax = subplots()\nax.plot([0, 1])\nfig"
WORDS = {"mystnb": {"image": {"alt": "a rising line"}}}

pytestmark = pytest.mark.site


def build(folder, *cells):
    """Build a book of one notebook, with the settings of this one. Return the exit status and the log."""
    shutil.copytree(ROOT / "book", folder / "book", ignore=shutil.ignore_patterns("*.md"))
    shutil.copy(ROOT / "_config.yml", folder)
    (folder / "_toc.yml").write_text(TOC)
    (folder / "notebooks").mkdir()
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    page = nb.new_notebook(cells=[nb.new_markdown_cell("# A page"), *cells], metadata=kernel)
    (folder / "notebooks/page.ipynb").write_text(nb.writes(page))
    command = [JUPYTER_BOOK, "build", "-W", "-n", "--keep-going", folder]
    environment = {**os.environ, "NO_COLOR": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL)
    return run.returncode, re.sub(r"\x1b\[[0-9;]*m", "", run.stdout + run.stderr)


def test_a_sound_notebook_builds(tmp_path):
    status, log = build(tmp_path, nb.new_code_cell(FIGURE, metadata=WORDS), nb.new_code_cell("1 + 1"))
    assert status == 0, log
    assert 'alt="a rising line"' in (tmp_path / "_build/html/notebooks/page.html").read_text()


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (nb.new_code_cell("raise ValueError('refused')"), "refused"),
        (nb.new_code_cell("import sys; print('careful', file=sys.stderr)"), "stderr"),
        (nb.new_code_cell(FIGURE), "has no alt text"),
        (nb.new_markdown_cell("![](picture.svg)"), "has no alt text|not readable"),
        (nb.new_markdown_cell("See {eq}`eq-nowhere`."), "eq-nowhere"),
        (nb.new_markdown_cell("See {cite}`nobody1900`."), "nobody1900"),
        (nb.new_markdown_cell("See [this](nowhere.md)."), "nowhere"),
    ],
    ids=["exception", "stderr", "figure", "picture", "equation", "citation", "link"],
)
def test_a_fault_stops_the_build(tmp_path, cell, reason):
    status, log = build(tmp_path, cell)
    assert status != 0, log
    assert re.search(reason, log), log
