"""Notebooks run several at a time, ahead of the pages that show them, and what they gave is kept.

myst-nb runs a notebook when it comes to its page, and waits. Here all of them are started before the first
page is read, those with the largest budget first; a page takes the outputs of its notebook. They are kept in
``_build/executed``, and a notebook runs again when anything changes that it depends on: see `key`. The tests
of the notebooks, tests/chapters/test_notebooks.py, use the same runs.
"""

import ast
import asyncio
import copy
import hashlib
import importlib.metadata
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import myst_nb.core.execute
import nbformat
from myst_nb.core.execute import NotebookClientBase
from myst_nb.core.read import create_nb_reader
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from sphinx.util import logging

import handgrad

logger = logging.getLogger(__name__)

AT_A_TIME = min(4, os.cpu_count() or 1)
PACKAGE = Path(handgrad.__file__).parent
RUN_OTHERWISE = {"raises-exception", "skip-execution"}  # tags


def key(notebook, path):
    """What a run of a notebook depends on, as one word. path: of its file, in whose folder it runs.

    Its code; the package, without the rooms of other chapters; Python and all libraries that are installed;
    and the files and folders that a string in its code names, such as a quiz or a record of measured times.
    Where the book lies does not matter: a copy of it may keep its runs.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    parts = [notebook.metadata.get("kernelspec", {}).get("name", ""), *_libraries()]
    for cell in cells:
        parts += [cell.source, *sorted(RUN_OTHERWISE & set(cell.metadata.get("tags", ())))]
    for start, files in (
        (PACKAGE, _package_for(path.stem, cells)),
        (path.parent, _named(cells, path.parent)),
    ):
        for file in files:
            parts += [os.path.relpath(file, start), hashlib.sha256(file.read_bytes()).hexdigest()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _libraries():
    installed = {f"{found.metadata['Name']}=={found.version}" for found in importlib.metadata.distributions()}
    return [sys.version, *sorted(installed)]


def _package_for(name, cells):
    """The files of the package, but of the chapters only that of this name and those that the code names."""
    for file in sorted(file for kind in ("*.py", "*.yml") for file in PACKAGE.rglob(kind)):
        room, topic, *below = (*file.relative_to(PACKAGE).parts, "")
        others = room == "chapters" and below and topic not in name
        if not others or any(topic in cell.source for cell in cells):
            yield file


def _named(cells, folder):
    """The files that a string in the code names, and all those in a folder that one names."""
    for cell in cells:
        lines = ("#" + line if line.lstrip()[:1] in ("%", "!") else line for line in cell.source.splitlines())
        for node in ast.walk(ast.parse("\n".join(lines))):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and 0 < len(text) < 200 and text.isprintable() and text.strip("./ "):
                place = folder / text
                inside = sorted(place.rglob("*")) if place.is_dir() else [place]
                yield from (file for file in inside if file.is_file())


def kept_for(root, page):
    """The file in which the last run of a page's notebook is kept; page: as in _toc.yml."""
    return Path(root) / "_build" / "executed" / f"{page}.ipynb"


def run(notebook, path, kept, **options):
    """Run a notebook in the folder of `path`, or take the run in the file `kept` if it has the same key.

    options: of NotebookClient. Returns the notebook as it was run, the seconds that took, and the error that
    ended it, or None. A run that ended well is kept.
    """
    return _run(notebook, path, kept, key(notebook, path), **options)


def _run(notebook, path, kept, word, **options):
    if kept.exists():
        before = nbformat.read(kept, as_version=4)
        about = before.metadata.pop("run", {})
        if about.get("key") == word:
            logger.info("%s: nothing it depends on has changed; its outputs are kept", path.stem)
            return before, about["seconds"], None
    logger.info("%s: runs", path.stem)
    begin, folder = time.perf_counter(), {"metadata": {"path": str(path.parent)}}
    try:
        asyncio.run(NotebookClient(notebook, resources=folder, **options).async_execute())
    except (CellControlSignal, DeadKernelError) as error:
        return notebook, time.perf_counter() - begin, error
    seconds, keep = time.perf_counter() - begin, copy.deepcopy(notebook)
    keep.metadata["run"] = {"key": word, "seconds": seconds}
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(f".{os.getpid()}.part")  # two builds may keep the same notebook
    nbformat.write(keep, part)
    part.replace(kept)
    return notebook, seconds, None


class Runs:
    """The notebooks of one build: {path of the page's file: what its run will give}."""

    def __init__(self, root):
        self.root, self.started, self.pool = root, {}, ThreadPoolExecutor(AT_A_TIME)

    def start(self, notebook, path, page, **options):
        """Begin `run`, when there is room. page: as in _toc.yml.

        The key is made here and not in a thread: it parses code, as the pages do meanwhile, and Python 3.11
        may fail if two threads do so at once (python/cpython#106905).
        """
        kept, word = kept_for(self.root, page), key(notebook, path)
        self.started[path] = self.pool.submit(_run, copy.deepcopy(notebook), path, kept, word, **options)


def notebooks_among(app, env, pages):
    """The pages that are notebooks, and will run: [(page, path of its file, notebook)]."""
    config = env.mystnb_config
    for page in pages:
        path = Path(env.doc2path(page))
        text = path.read_text(encoding="utf-8")
        reader = create_nb_reader(str(path), env.myst_config, config, text)
        left_out = any(path.match(pattern) for pattern in config.execution_excludepatterns)
        if reader is not None and not left_out:
            yield page, path, reader.read(text)


def runs_again(app, env, added, changed, removed):
    """The pages whose file is as it was, but not what their notebook depends on: they are read again."""
    same = env.found_docs - added - changed - removed
    return [
        page
        for page, path, notebook in notebooks_among(app, env, sorted(same))
        if word_of(kept_for(app.srcdir, page)) != key(notebook, path)
    ]


def word_of(kept):
    """The key with which a run was kept, or None if there is none."""
    return nbformat.read(kept, as_version=4).metadata.get("run", {}).get("key") if kept.exists() else None


def ahead_of_pages(app, env, docnames):
    """Start every notebook among the pages that will be read."""
    config = env.mystnb_config
    app.runs = runs = Runs(app.srcdir)
    ready = [
        (-notebook.metadata.get("handgrad", {}).get("budget", 0), page, path, notebook)
        for page, path, notebook in notebooks_among(app, env, docnames)
    ]
    options = {"timeout": config.execution_timeout, "allow_errors": config.execution_allow_errors}
    for _, page, path, notebook in sorted(ready, key=lambda job: job[:2]):
        runs.start(notebook, path, page, **options)

    class FromItsRun(NotebookClientBase):
        """In the place of myst-nb's client, which would run the notebook now."""

        def start_client(self):
            notebook, seconds, error = runs.started[self.path].result()
            for cell, done in zip(self.notebook.cells, notebook.cells, strict=True):
                if cell.cell_type == "code":
                    cell.outputs, cell.execution_count = done.outputs, done.execution_count
            self.notebook.metadata.update(notebook.metadata)
            if error is not None:
                self.logger.warning(f"Executing notebook failed: {error}", subtype="exec")
            self.exec_metadata = {
                "mtime": self.path.stat().st_mtime,
                "runtime": seconds,
                "method": self.nb_config.execution_mode,
                "succeeded": error is None,
                "error": error and type(error).__name__,
                "traceback": error and str(error),
            }

    myst_nb.core.execute.NotebookClientDirect = FromItsRun


def stop(app, exception):
    if runs := getattr(app, "runs", None):  # none, if the build ended before its pages were read
        runs.pool.shutdown(cancel_futures=True)


def setup(app):
    app.connect("env-get-outdated", runs_again)
    app.connect("env-before-read-docs", ahead_of_pages)
    app.connect("build-finished", stop)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
