"""A page shows what its notebook gave when it ran: see `handgrad.course.runs`.

Left to itself, myst-nb runs a notebook when it comes to its page, and waits. Here nbval runs the notebooks
before the first page is read, beside it the cells of those pages that are written in Markdown, and each page
takes what was kept. What has not changed since its last run is not run again.
"""

import asyncio
import copy
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import myst_nb.core.execute
from myst_nb.core.execute import NotebookClientBase
from myst_nb.core.read import create_nb_reader
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from sphinx.util import logging

from handgrad.course import runs

logger = logging.getLogger(__name__)


def notebooks_among(app, env, pages):
    """The pages whose cells run: {path of the file: notebook}."""
    config, found = env.mystnb_config, {}
    for page in pages:
        path = Path(env.doc2path(page))
        text = path.read_text(encoding="utf-8")
        reader = create_nb_reader(str(path), env.myst_config, config, text)
        left_out = any(path.match(pattern) for pattern in config.execution_excludepatterns)
        if reader is not None and not left_out:
            found[path] = reader.read(text)
    return found


def runs_again(app, env, added, changed, removed):
    """The pages whose file is as it was, but not what their notebook depends on: they are read again."""
    same = sorted(env.found_docs - added - changed - removed)
    return [
        page
        for page in same
        for path, notebook in notebooks_among(app, env, [page]).items()
        if runs.kept(app.srcdir, path, notebook) is None
    ]


def run_page(root, path, notebook, word, timeout):
    """Run the cells of a page in Markdown, and keep the run. Returns the error that ended it, or None."""
    notebook = copy.deepcopy(notebook)  # its outputs, empty as yet, are part of its key
    begin, folder = time.perf_counter(), {"metadata": {"path": str(path.parent)}}
    try:
        asyncio.run(NotebookClient(notebook, resources=folder, timeout=timeout).async_execute())
    except (CellControlSignal, DeadKernelError) as error:
        return error
    runs.keep(root, path, notebook, word, time.perf_counter() - begin)


def bring(root, notebooks, timeout):
    """Have all notebooks run that have no kept run. Returns the errors of pages in Markdown, {path: error}.

    The words for the runs are made before any thread begins: Python 3.11 may fail if two parse code at once
    (python/cpython#106905).
    """
    pages = {path: notebook for path, notebook in notebooks.items() if path.suffix == ".md"}
    again = {path: notebook for path, notebook in pages.items() if runs.kept(root, path, notebook) is None}
    words = {path: runs.key(notebook, path) for path, notebook in again.items()}
    with ThreadPoolExecutor(runs.AT_A_TIME) as pool:
        started = {
            path: pool.submit(run_page, root, path, notebook, words[path], timeout)
            for path, notebook in again.items()
        }
        runs.bring(root, [path for path in notebooks if path not in pages])
        return {path: error for path, run in started.items() if (error := run.result()) is not None}


def ahead_of_pages(app, env, docnames):
    """Have the notebooks run among the pages that will be read."""
    found = notebooks_among(app, env, docnames)
    errors = bring(app.srcdir, found, env.mystnb_config.execution_timeout)

    class FromItsRun(NotebookClientBase):
        """In the place of myst-nb's client, which would run the notebook now."""

        def start_client(self):
            run = runs.kept(app.srcdir, self.path, found[self.path])  # the page may be shown with changes
            if run is None:
                why = errors.get(self.path, "nbval says above why")
                self.logger.warning(f"Executing notebook failed: {why}", subtype="exec")
            else:
                for cell, done in zip(code_cells(self.notebook), code_cells(run), strict=True):
                    cell.outputs, cell.execution_count = done.outputs, done.execution_count
            self.exec_metadata = {
                "mtime": self.path.stat().st_mtime,
                "runtime": run and run.metadata["run"]["seconds"],
                "method": self.nb_config.execution_mode,
                "succeeded": run is not None,
                "error": None if run else "failed",
                "traceback": None,
            }

    myst_nb.core.execute.NotebookClientDirect = FromItsRun


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def setup(app):
    app.connect("env-get-outdated", runs_again)
    app.connect("env-before-read-docs", ahead_of_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
