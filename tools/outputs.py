"""Keep the outputs of quoted cells, strip all others.

    python tools/outputs.py NOTEBOOK ...    execute each notebook, store the outputs of `quoted` cells

A quoted cell is one whose printed result the text quotes. It keeps its text output and an execution count,
and a test compares it with a new run. Every other cell is committed bare: the build makes what it shows.
"""

import argparse
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from handgrad.course.rules import is_quoted, rule_outputs

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def strip(notebook):
    """Remove, in place, outputs and counts of cells that are not quoted, and the times of execution."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code" and not is_quoted(cell):
            cell.outputs, cell.execution_count = [], None
    notebook.metadata.pop("widgets", None)  # what an interactive figure leaves behind
    notebook.metadata.update(METADATA)
    return notebook


def execute(path, timeout):
    """Run a notebook in its own folder, as Jupyter would. Raises CellExecutionError if a cell raises."""
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    return NotebookClient(notebook, timeout=timeout, kernel_name="python3", resources=folder).execute()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one cell (300)")
    arguments = parser.parse_args()
    failed = False
    for path in arguments.notebooks:
        print(f"{path}: executing", flush=True)
        notebook = strip(execute(path, arguments.timeout))
        nbformat.write(notebook, path)
        for problem in rule_outputs(notebook):
            failed = True
            print(f"{path}: {problem}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
