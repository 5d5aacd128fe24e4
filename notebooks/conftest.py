"""What is added here to nbval, which runs every notebook, a test for each cell.

A warning in a cell is a failure. The notebooks that take longest come first. A run in
which every cell has passed is kept, and the book shows it: see `handgrad.course.runs`.
"""

import copy
import tempfile
from pathlib import Path
from uuid import uuid4

import nbval.kernel
import psutil
import pytest
from jupyter_client.manager import KernelManager
from nbval.plugin import IPyNbCell

from handgrad.course import runs

ROOT = Path(__file__).parents[1]
BEGUN, DONE = pytest.StashKey(), pytest.StashKey()
PATIENCE = 60  # seconds for what a cell has printed to arrive, when its reply is there

collect_ignore_glob = ["*.mine.ipynb"]  # answers, kept by make exercises


def pytest_configure():
    """Let nbval talk with its kernels through files in the place of ports.

    A port is chosen before the kernel takes it. If another process takes it in between,
    the kernel starts and is never heard.
    """
    nbval.kernel.KernelManager = through_files


def through_files(**options):
    place = f"{tempfile.gettempdir()}/{uuid4()}"
    return KernelManager(transport="ipc", ip=place, **options)


def pytest_collection_modifyitems(items):
    items.sort(key=budget, reverse=True)


def budget(item):
    """The seconds that the notebook of a cell may take, or 0 if it does not say."""
    notebook = item.parent.nb if isinstance(item, IPyNbCell) else {"metadata": {}}
    return notebook["metadata"].get("handgrad", {}).get("budget", 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    if not isinstance(item, IPyNbCell) or BEGUN in item.parent.stash:
        return (yield)
    item.parent.stash[BEGUN] = runs.key(item.parent.nb, item.path)
    item.parent.stash[DONE] = []
    result = yield  # starts the kernel
    client = item.parent.kernel.kc
    client.execute = with_history(client.execute)
    return result


def with_history(execute):
    """Keep the history, as Jupyter does: without it, no semicolon hides a value."""
    return lambda source, **options: execute(
        source, **options | {"store_history": True}
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if not isinstance(item, IPyNbCell):
        return (yield)
    item.output_timeout = PATIENCE
    result = yield
    if warned := [
        output.text for output in item.test_outputs if output.get("name") == "stderr"
    ]:
        item.raise_cell_error("The cell warns", "".join(warned))
    book, done = item.parent, item.parent.stash[DONE]
    done.append(item.test_outputs)
    if len(done) == sum(cell.cell_type == "code" for cell in book.nb.cells):
        run, seconds = with_outputs(book.nb, done), seconds_of(book.kernel.km)
        runs.keep(ROOT, book.path, run, book.stash[BEGUN], seconds)
    return result


def seconds_of(manager):
    """The processor time that a kernel and what it started have taken.

    On an idle machine that is how long a run takes, with one thread. On a busy one it
    is the same, so no budget is passed because of what else runs.
    """
    return sum(psutil.Process(manager.provisioner.pid).cpu_times()[:4])


def with_outputs(notebook, outputs):
    """A notebook after a run that gave these outputs, a list for each code cell."""
    run = copy.deepcopy(notebook)
    cells = [cell for cell in run.cells if cell.cell_type == "code"]
    for count, (cell, given) in enumerate(zip(cells, outputs, strict=True), 1):
        cell.outputs, cell.execution_count = given, count
    return run
