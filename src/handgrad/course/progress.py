"""What a learner has solved, from the record that the judge keeps in the learner's folder.

    handgrad progress lab      print it

In a notebook of that folder, ``progress.show()`` is the same as a table.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from . import judge
from .judge.record import FILE, file_above, verdicts
from .judge.verdict import MARK, NOT_YET, RIGHT, WRONG


@dataclass(frozen=True)
class Progress:
    """{chapter: {exercise: its best verdict so far}}, in the order of the book."""

    chapters: dict

    def solved(self, chapter=None):
        """How many exercises are right, of one chapter or of all."""
        of = [self.chapters[chapter]] if chapter else self.chapters.values()
        return sum(status == RIGHT for exercises in of for status in exercises.values())

    @property
    def total(self):
        return sum(map(len, self.chapters.values()))

    def _rows(self, line, space, between):
        """A line for each chapter, by the format of three texts: its name, how many are right, the signs."""
        for chapter, exercises in self.chapters.items():
            signs = between.join(f"{MARK[status]}{space}{name}" for name, status in exercises.items())
            yield line.format(chapter, f"{self.solved(chapter)} of {len(exercises)}", signs)

    def __repr__(self):
        together = f"{'together':25} {self.solved()} of {self.total}"
        return "\n".join([*self._rows("{:25} {}   {}", " ", "  "), together])

    def _repr_markdown_(self):
        rows = self._rows("| [{0}](exercises/{0}.ipynb) | {1} | {2} |", "&nbsp;", "&ensp;")
        together = f"| together | {self.solved()} of {self.total} | |"
        return "\n".join(["| exercises | right | each |", "|:--|:--|:--|", *rows, together])


def show(folder="."):
    """The progress in a learner's folder, which holds `exercises` and the record, or in one below it.

    Raises FileNotFoundError if there is no record, and ValueError if a line of it is no verdict.
    """
    file = file_above(folder)
    if file is None:
        raise FileNotFoundError(
            f"{Path(folder).resolve()}: expected the file {FILE}, in which the judge keeps what it says. "
            "`make lab` makes it; without the book, make an empty one beside the folder `exercises`."
        )
    best = {}
    for entry in verdicts(file):
        statuses = {best.get(entry["exercise"], NOT_YET), entry["status"]}
        best[entry["exercise"]] = next(status for status in (RIGHT, WRONG, NOT_YET) if status in statuses)
    known, chapters = judge.chapters(), {}
    for notebook in sorted((file.parent / "exercises").glob("[0-9][0-9]_*.ipynb")):
        names = known.get(notebook.stem[3:], {})
        if names:
            chapters[notebook.stem] = {name: best.get(name, NOT_YET) for name in names}
    return Progress(chapters)


def say_all_signs():
    """Let output that cannot write a sign, such as ✓ in cp1252, write its name instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="namereplace")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="handgrad progress", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("lab"), help="the learner's folder")
    folder = parser.parse_args(arguments).folder
    say_all_signs()
    try:
        print(show(folder))
    except (FileNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
