"""The runs of the notebooks: nbval makes them, and the pages of the book show them.

    python -m handgrad.course.runs NOTEBOOK ...    run those that have changed since their last run

``pytest --nbval`` runs each cell as a test and compares what it prints with what the notebook quotes. When
every cell of a notebook has passed, notebooks/conftest.py keeps the outputs in ``_build/executed``, with a
word for all that they depend on: see `key`. As long as the word stays the same, the book takes the outputs
from there. `make test` does not: it runs every notebook.
"""

import argparse
import ast
import copy
import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from ..extras import needs

with needs("book"):
    import nbformat
    from IPython.core.inputtransformer2 import TransformerManager

PACKAGE = Path(__file__).parents[1]
AT_A_TIME = min(4, os.cpu_count() or 1)
NBVAL = ["--nbval", "--dist", "loadfile", "--no-loadscope-reorder"]
"""The options of pytest: one process for all cells of a notebook, and the order that conftest.py gives."""
SAME = "Nothing has changed since their last run, which is kept"
RUN_OTHERWISE = {"raises-exception", "skip-execution", "nbval-skip", "nbval-ignore-output"}  # tags


def key(notebook, path):
    """What a run of a notebook depends on, as one word. path: of its file, in whose folder it runs.

    Its code, and the outputs with which nbval compares; the package, without the rooms of other chapters;
    Python and all libraries that are installed; and the files and folders that a string in its code names,
    such as a quiz or a record of measured times. Where the book lies does not matter: a copy of it may keep
    its runs.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    parts = [notebook.metadata.get("kernelspec", {}).get("name", ""), *_libraries()]
    for cell in cells:
        tags = RUN_OTHERWISE & set(cell.metadata.get("tags", ()))
        parts += [cell.source, *sorted(tags), *map(repr, cell.outputs)]
    used = [(PACKAGE, file) for file in _package_for(path.stem, cells)]
    used += [(path.parent, file) for file in _named(cells, path.parent)]
    for start, file in used:
        parts += [os.path.relpath(file, start), hashlib.sha256(file.read_bytes()).hexdigest()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _libraries():
    """Python, and what is installed beside it; not what setuptools puts on sys.path for itself."""
    places = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    found = importlib.metadata.distributions(path=places)
    return [sys.version, *sorted({f"{one.metadata['Name']}=={one.version}" for one in found})]


def _package_for(name, cells):
    """The files of the package, but of the chapters only that of this name and those that the code names."""
    for file in sorted(file for kind in ("*.py", "*.yml") for file in PACKAGE.rglob(kind)):
        room, topic, *below = (*file.relative_to(PACKAGE).parts, "")
        others = room == "chapters" and below and topic not in name
        if not others or any(topic in cell.source for cell in cells):
            yield file


def parse(source):
    """The syntax tree of a code cell; what only IPython reads (``%magic``, ``!shell``) becomes calls.

    Raises SyntaxError for a cell that IPython does not read either.
    """
    return ast.parse(TransformerManager().transform_cell(source))


def _named(cells, folder):
    """The files that a string in the code names, and all those in a folder that one names.

    What Python compiles does not count: a run beside this one may do so meanwhile.
    """
    strings = {name for cell in cells for name in re.findall(r"""["']([\w./-]+)["']""", cell.source)}
    for place in sorted(folder / name for name in strings if name.strip("./")):
        inside = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (file for file in inside if file.is_file() and file.suffix != ".pyc")


def place(root, path):
    """The file in which the last run of a notebook is kept. root: of the repository; path: in it."""
    inside = Path(path).resolve().relative_to(Path(root).resolve())
    return Path(root) / "_build" / "executed" / inside.with_suffix(".ipynb")


def keep(root, path, run, word, seconds):
    """Keep a notebook with the outputs of its run. word: its `key`, made before it began."""
    run = copy.deepcopy(run)
    run.metadata["run"] = {"key": word, "seconds": seconds}
    file = place(root, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")  # two may keep the same notebook at once
    nbformat.write(run, part)
    part.replace(file)


def kept(root, path, notebook=None):
    """The last run of a notebook, if it would come out the same today, else None.

    notebook: what the file holds, read here if it is not given. The seconds of the run are in
    ``metadata["run"]["seconds"]``.
    """
    file, path = place(root, path), Path(path)
    if not file.exists():
        return None
    run = nbformat.read(file, as_version=4)
    same = run.metadata["run"]["key"] == key(notebook or nbformat.read(path, as_version=4), path)
    return run if same else None


def bring(root, paths):
    """Have nbval run the notebooks that have no kept run, and say which have. Returns pytest's status."""
    again = [path for path in paths if kept(root, path) is None]
    same = [Path(path).resolve().relative_to(Path(root).resolve()) for path in paths if path not in again]
    if same:
        print(f"{SAME}: {', '.join(name.with_suffix('').as_posix() for name in same)}", flush=True)
    if not again:
        return 0
    workers = str(min(AT_A_TIME, len(again))) if len(again) > 1 else "0"
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, *NBVAL, *map(str, again)]
    return subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL).returncode


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    paths = [path.resolve() for path in parser.parse_args(arguments).notebooks]
    return bring(Path.cwd(), paths)


if __name__ == "__main__":
    sys.exit(main())
