"""Keep the outputs of quoted cells, strip all others.

    python tools/outputs.py NOTEBOOK ...            execute each notebook, store the outputs of `quoted` cells
    python tools/outputs.py --check NOTEBOOK ...    execute nothing; name what does not conform, exit with 1

A quoted cell is one whose printed result the text quotes. It keeps its text output and an execution count, so
that nbval compares it with a new run. Every other cell is committed bare: the build makes what it shows.
"""

import argparse
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError  # noqa: F401 what `execute` raises

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def is_quoted(cell):
    return "quoted" in cell.metadata.get("tags", [])


def is_plain_text(output):
    """Whether an output is text that the cell printed or returned, which nbval can compare."""
    if output.output_type == "stream":
        return output.name == "stdout"
    return output.output_type == "execute_result" and set(output.data) == {"text/plain"}


def problems(notebook):
    """What does not conform to the policy above, as sentences."""
    wrong = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if not is_quoted(cell):
            if cell.outputs or cell.execution_count is not None:
                wrong.append(f"{cell.id}: stores an output or a count, but is not tagged quoted")
        elif not cell.outputs:
            wrong.append(f"{cell.id}: is tagged quoted, but stores no output")
        elif cell.execution_count is None:
            wrong.append(f"{cell.id}: stores an output without a count, so nbval would not compare it")
        elif not all(map(is_plain_text, cell.outputs)):
            wrong.append(f"{cell.id}: a quoted output is plain text, printed or returned")
    return wrong


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
    """Run a notebook in its own folder, as Jupyter would. Raises what a cell raises."""
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    return NotebookClient(notebook, timeout=timeout, kernel_name="python3", resources=folder).execute()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--check", action="store_true", help="change nothing and execute nothing")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one cell (300)")
    arguments = parser.parse_args()
    failed = False
    for path in arguments.notebooks:
        if arguments.check:
            notebook = nbformat.read(path, as_version=4)
        else:
            print(f"{path}: executing", flush=True)
            notebook = strip(execute(path, arguments.timeout))
            nbformat.write(notebook, path)
        for problem in problems(notebook):
            failed = True
            print(f"{path}: {problem}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
