"""Make the student notebooks of notebooks/exercises/ from notebooks/solutions/, their only source.

    python tools/exercises.py                 write every student notebook that holds no answers
    python tools/exercises.py --check         write nothing; exit with 1 and show the differences, if any
    python tools/exercises.py --force NAME    write this one too, and keep the answers in NAME.mine.ipynb

In a solution notebook

    # BEGIN SOLUTION
    ...
    # END SOLUTION

is replaced by `raise NotImplementedError("your turn")` inside a function, and by `name = ...  # your turn` at
the margin, where the region must end by assigning the answer to a name. Cells tagged `solution` are dropped.
All else stays as it is, ids included; outputs are left out, and what the metadata say to the judge.

The metadata of a student notebook hold a digest of its cells, `handgrad.generated`. If it no longer fits
them, somebody has answered: then the file is kept, and the exit status is 1. Outputs and counts do not
matter.
"""

import argparse
import ast
import difflib
import hashlib
import json
import shutil
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1] / "notebooks"
BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
MINE = ".mine.ipynb"  # the end of the name of a copy that keeps answers
DIFFERENCE_LINES = 40


class MarkerError(ValueError):
    """A solution region that cannot be taken out; the message says where and why."""


def without_solutions(source, place):
    """The source of a code cell, its solution regions replaced. Raises MarkerError that names the place."""
    kept, region, begun = [], [], None
    for number, line in enumerate(source.splitlines(), 1):
        marker = line.strip()
        if marker not in (BEGIN, END):
            (kept if begun is None else region).append(line)
        elif marker == BEGIN and begun is not None:
            raise MarkerError(f"{place}, line {number}: a second '{BEGIN}' before '{END}'")
        elif marker == BEGIN:
            begun, region = (number, indent(line)), []
        elif begun is None:
            raise MarkerError(f"{place}, line {number}: '{END}' without '{BEGIN}'")
        elif indent(line) != begun[1]:
            raise MarkerError(f"{place}, line {number}: '{BEGIN}' and '{END}' are indented differently")
        else:
            kept.append(stub(region, begun[1], f"{place}, line {begun[0]}"))
            begun = None
    if begun is not None:
        raise MarkerError(f"{place}, line {begun[0]}: '{BEGIN}' without '{END}'")
    return "\n".join(kept)


def stub(region, margin, place):
    """The line that stands in for a region."""
    if not "".join(region).strip():
        raise MarkerError(f"{place}: the solution region is empty")
    if margin:
        return f'{margin}raise NotImplementedError("your turn")'
    last = ast.parse("\n".join(region)).body[-1:]
    if not last or not isinstance(last[0], ast.Assign) or not isinstance(last[0].targets[0], ast.Name):
        raise MarkerError(f"{place}: a solution region at the margin must end with `name = answer`")
    return f"{last[0].targets[0].id} = ...  # your turn"


def indent(line):
    return line[: len(line) - len(line.lstrip())]


def student(notebook, name):
    """A new notebook, that of the student. Raises MarkerError if there is nothing to take out."""
    notebook = nbformat.from_dict(notebook)
    cells, regions = [], 0
    for cell in notebook.cells:
        if "solution" in cell.metadata.get("tags", []):
            continue
        kept = {key: value for key, value in cell.metadata.items() if key != "handgrad"}
        cell = nbformat.from_dict(cell | {"metadata": kept})
        if cell.cell_type == "code":
            source = without_solutions(cell.source, f"{name}, cell {cell.id}")
            regions += source != cell.source
            cell = cell | {"source": source, "outputs": [], "execution_count": None}
        elif BEGIN in cell.source or END in cell.source:
            raise MarkerError(f"{name}, cell {cell.id}: a solution marker outside a code cell")
        cells.append(cell)
    if not regions:
        raise MarkerError(f"{name}: no solution region, so there is nothing to solve")
    notebook.cells = [nbformat.from_dict(cell) for cell in cells]
    notebook.metadata.setdefault("handgrad", nbformat.NotebookNode())["generated"] = digest(notebook)
    return notebook


def digest(notebook):
    """A digest of what the cells say: their kinds, ids and sources; not outputs, counts and metadata."""
    cells = [(cell.cell_type, cell.id, cell.source) for cell in notebook.cells]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def is_answered(path):
    """Whether the file says anything that this program did not write; False if there is none."""
    if not path.exists():
        return False
    try:
        notebook = nbformat.read(path, as_version=4)
        return notebook.metadata.get("handgrad", {}).get("generated") != digest(notebook)
    except (ValueError, AttributeError, nbformat.ValidationError):
        return True  # no notebook, or one without ids: in any case not ours


def text(notebook):
    """The bytes of the file, as text: the same for the same notebook."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


def generate(solutions):
    """File name -> text of every student notebook."""
    paths = sorted(solutions.glob("*.ipynb"))
    return {path.name: text(student(nbformat.read(path, as_version=4), path.name)) for path in paths}


def kept(path):
    """What to tell somebody whose answers are in the file."""
    name = path.name.removesuffix(".ipynb")
    return (
        f"{path}: you have written here, so it was left alone; the book is not broken. To begin again with "
        f"an empty notebook: make exercises FORCE={name}. Your answers will be kept in {name}{MINE}."
    )


def differences(wanted, folder):
    """Lines that say how the folder differs from the wanted notebooks; none if it does not."""
    there = {path.name for path in folder.glob("*.ipynb") if not path.name.endswith(MINE)}
    lines = [f"{folder / name}: has no solution notebook; delete it" for name in sorted(there - set(wanted))]
    for name, new in wanted.items():
        path = folder / name
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if is_answered(path):
            lines.append(kept(path))
        elif old != new:
            lines.append(f"{path}: {'out of date' if old else 'missing'}; run `make exercises`")
            change = list(
                difflib.unified_diff(old.splitlines(), new.splitlines(), "now", "wanted", lineterm="", n=1)
            )
            lines += change[:DIFFERENCE_LINES]
            if len(change) > DIFFERENCE_LINES:
                lines.append(f"... {len(change) - DIFFERENCE_LINES} more lines")
    return lines


def write(wanted, folder, force=()):
    """Write the wanted notebooks, name -> text, into a folder. Returns the paths of those not written.

    A notebook with answers is written only if `force` names it, and then its answers are copied beside it
    first. Raises FileExistsError, before anything is written, if a copy of that name is there already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answered = [folder / name for name in wanted if is_answered(folder / name)]
    copies = {path: path.with_name(path.stem + MINE) for path in answered if path.name in force}
    for copy in copies.values():
        if copy.exists():
            raise FileExistsError(
                f"{copy}: holds answers kept before; move it away or delete it, then try again"
            )
    for name, new in wanted.items():
        path = folder / name
        if path in copies:
            shutil.copyfile(path, copies[path])
            print(f"{path}: the answers are kept in {copies[path]}")
        elif path in answered:
            continue
        path.write_text(new, encoding="utf-8")
        print(path)
    return [path for path in answered if path not in copies]


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if anything differs")
    parser.add_argument(
        "--force", action="append", default=[], metavar="NAME", help="a notebook to begin again"
    )
    parser.add_argument("--solutions", type=Path, default=ROOT / "solutions", help="folder to read")
    parser.add_argument("--exercises", type=Path, default=ROOT / "exercises", help="folder to write")
    arguments = parser.parse_args(arguments)
    try:
        wanted = generate(arguments.solutions)
    except MarkerError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.check:
        lines = differences(wanted, arguments.exercises)
        print("\n".join(lines) or f"{len(wanted)} student notebooks are up to date")
        return int(bool(lines))
    force = {name.removesuffix(".ipynb") + ".ipynb" for name in arguments.force}
    if unknown := sorted(force - set(wanted)):
        names = ", ".join(name.removesuffix(".ipynb") for name in wanted)
        parser.error(f"--force: expected one of {names}, got {unknown[0].removesuffix('.ipynb')}")
    try:
        left = write(wanted, arguments.exercises, force)
    except FileExistsError as error:
        print(error, file=sys.stderr)
        return 1
    for path in left:
        print(kept(path), file=sys.stderr)
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
