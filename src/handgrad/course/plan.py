"""The plan of the book: its chapters, what each needs, the minutes it takes, and its exercises.

`chapters` reads the plan from ``book/chapters.yml``, minutes to read from the notebooks, and exercises, with
their stars and minutes, from the notebooks in which they are set.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
import yaml

from . import judge

HEADING = re.compile(r"^## (\d+)\. (.+?)\s*(★*)\s*$", re.MULTILINE)
MINUTES = re.compile(r"\b(\d+) minutes")
JUDGED = re.compile(r"\bjudge\.(\w+)\(")


@dataclass(frozen=True)
class Task:
    """One exercise. names: of what the judge is asked there; none if no machine can judge it."""

    number: int
    title: str
    stars: int
    minutes: int  # 0 if the exercise is open-ended
    names: tuple[str, ...]


@dataclass(frozen=True)
class Chapter:
    """One chapter. needs: numbers of chapters; at: row and column on the map; minutes: to read."""

    number: int
    topic: str
    title: str
    about: str
    needs: tuple[int, ...]
    at: tuple[float, float]
    part: str
    page: str  # as in _toc.yml
    minutes: int
    tasks: tuple[Task, ...]

    @property
    def names(self):
        """Of all that the judge is asked in its exercises."""
        return tuple(name for task in self.tasks for name in task.names)


def chapters(root):
    """The chapters of the book in the folder `root`, in order.

    Raises FileNotFoundError if a chapter of the plan has no notebook, and what `tasks` raises.
    """
    root = Path(root)
    parts = yaml.safe_load((root / "book" / "chapters.yml").read_text(encoding="utf-8"))
    return [_chapter(root, part["part"], **entry) for part in parts for entry in part["chapters"]]


def files(root):
    """Every file that `chapters` reads, for what must know when the plan has changed."""
    notebooks = Path(root) / "notebooks"
    return [Path(root) / "book" / "chapters.yml", *sorted(notebooks.glob("**/[0-9][0-9]_*.ipynb"))]


def _chapter(root, part, number, topic, title, about, needs, at):
    name = f"{number:02}_{topic}"
    own = nbformat.read(root / "notebooks" / f"{name}.ipynb", as_version=4).metadata["handgrad"]
    found = tasks(nbformat.read(root / "notebooks" / "exercises" / f"{name}.ipynb", as_version=4))
    page, minutes = f"notebooks/{name}", own["reading_minutes"]
    return Chapter(number, topic, title, about, tuple(needs), tuple(at), part, page, minutes, found)


def tasks(notebook):
    """The exercises of a notebook, in order.

    Raises ValueError if they are not numbered 1, 2, 3 …, or one that the judge can judge states no minutes.
    """
    found = []
    for cell in notebook.cells:
        heading = HEADING.search(cell.source) if cell.cell_type == "markdown" else None
        if heading:
            minutes = MINUTES.search(cell.source, heading.end())
            found.append(
                [int(heading[1]), heading[2], len(heading[3]), int(minutes[1]) if minutes else 0, []]
            )
        elif cell.cell_type == "code" and found:
            found[-1][-1] += [name for name in JUDGED.findall(cell.source) if name in dir(judge)]
    for place, (number, title, _, minutes, names) in enumerate(found, 1):
        if number != place:
            raise ValueError(f"exercise {title!r}: expected the number {place}, got {number}")
        if names and not minutes:
            raise ValueError(f"exercise {title!r}: expected “… minutes” below its title, got none")
    return tuple(Task(*task[:4], tuple(dict.fromkeys(task[4]))) for task in found)
