"""The plan of the book: its chapters, what each needs, the minutes it takes, and its exercises.

`chapters` reads the plan from ``book/chapters.yml``, minutes to read from the notebooks, and exercises, with
their stars and minutes, from the notebooks of solutions.
"""

from dataclasses import dataclass
from pathlib import Path

import nbformat
import yaml

from .teaching import Task, tasks_of


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
    def name(self):
        """That of its files: 08_attention."""
        return f"{self.number:02}_{self.topic}"

    @property
    def names(self):
        """What the judge calls its exercises; a task that no judge decides has no name."""
        return tuple(task.name for task in self.tasks if task.name)


def chapters(root):
    """The chapters of the book in the folder `root`, in order.

    Raises FileNotFoundError if a chapter of the plan has no notebook, and what `tasks_of` raises.
    """
    root = Path(root)
    parts = yaml.safe_load((root / "book" / "chapters.yml").read_text(encoding="utf-8"))
    return [_chapter(root, part["part"], **entry) for part in parts for entry in part["chapters"]]


def _chapter(root, part, number, topic, title, about, needs, at):
    name = f"{number:02}_{topic}"
    own = nbformat.read(root / "notebooks" / f"{name}.ipynb", as_version=4).metadata["handgrad"]
    found = tuple(tasks_of(root / "notebooks" / "solutions" / f"{name}.ipynb"))
    page, minutes = f"notebooks/{name}", own["reading_minutes"]
    return Chapter(number, topic, title, about, tuple(needs), tuple(at), part, page, minutes, found)
