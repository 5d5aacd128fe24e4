"""What the exercises of the book are, for teachers: what each tests, its kind, stars and minutes, as tables.

What an exercise tests stands in its declaration; all else in the heading and the first line of its text, in
the notebook of solutions: `## 2. Its title ★★`, and below `*Transfer, 15 minutes. …*`.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat

from . import judge
from .evidence import prose
from .judge import Derivation
from .tables import markdown

HEADING = re.compile(r"^## (\d+)\. (.+?)(?: (★+))?\n\n\*([^*]+)\*", re.MULTILINE)
TIMED = re.compile(r"(.+?), (\d+) minutes\.")
FOLDED = re.compile(r"^:::+\{admonition\} (?:Answer|Guess first)", re.MULTILINE)  # asked before it is shown

OPEN = "Asking a question of one's own, and answering it by experiments."
DOT = "\N{NO-BREAK SPACE}·\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Task:
    """An exercise as the reader meets it."""

    number: int
    title: str
    name: str  # as the judge calls it; empty if no judge decides
    kind: str
    stars: int
    minutes: int  # 0 if it may take as long as one likes
    asks: str
    transfer: bool

    @property
    def judged(self):
        """How the report decides: it calls a function or compares a formula; or it does not."""
        if not self.name:
            return "by hand"
        return "formula" if isinstance(judge.find(self.name), Derivation) else "function"


def tasks_of(path):
    """The Tasks of one notebook of solutions, in order.

    Raises ValueError if the text of an exercise does not say its kind and minutes, or the exercises are not
    those, in this order, that the judge has.
    """
    declared = judge.chapters()[path.stem[3:]]
    found = []
    for cell in nbformat.read(path, as_version=4).cells:
        heading = HEADING.search(cell.source) if cell.cell_type == "markdown" else None
        if not heading:
            continue
        number, title, stars, first = heading.groups()
        name, timed = cell.id.replace("-", "_"), TIMED.match(" ".join(first.split()))
        name = name if name in declared else ""
        if name and not (timed and stars):
            raise ValueError(
                f"{path.name}, {title!r}: expected `*kind, 15 minutes.*` and stars, got {first!r}"
            )
        kind, minutes = (timed[1], int(timed[2])) if timed else ("Open", 0)
        asks, transfer = declared[name].asks if name else OPEN, "transfer" in first.lower()
        found.append(Task(int(number), title, name, kind, len(stars or ""), minutes, asks, transfer))
    names = [task.name for task in found if task.name]
    if names != list(declared):
        raise ValueError(f"{path.name}: expected the exercises {list(declared)}, got {names}")
    return found


def listing(chapters):
    """The exercises as Markdown: for each `plan.Chapter` its title, a link to its exercises, and a table."""
    head, parts = ["Exercise", "What it tests", "Kind", "Minutes", "Judged"], []
    for chapter in chapters:
        rows = []
        for task in chapter.tasks:
            title = f"{task.number}. {task.title} {'★' * task.stars}".strip()
            rows.append([title, task.asks, task.kind, str(task.minutes or "any"), task.judged])
        link = f"{{doc}}`exercises </notebooks/exercises/{chapter.name}>`"
        parts += [f"**{chapter.number}. {chapter.title}** ({link})", markdown(head, rows, numbers=False)]
    return "\n\n".join(parts)


def totals(chapters, notebooks):
    """The sums of each `plan.Chapter` and of all, as a Markdown table: of exercises and questions.

    notebooks: the folder of the chapters.
    """
    names, sums = [], []
    for chapter in chapters:
        text = nbformat.read(Path(notebooks, f"{chapter.name}.ipynb"), as_version=4)
        quiz = json.loads(Path(notebooks, "quizzes", f"{chapter.name}.json").read_text(encoding="utf-8"))
        own, folded = chapter.tasks, len(FOLDED.findall(prose(text)))
        stars = (sum(task.stars == n for task in own) for n in (1, 2, 3))
        minutes, transfer = sum(task.minutes for task in own), sum(task.transfer for task in own)
        names.append(f"{{doc}}`{chapter.number}. {chapter.title} </notebooks/{chapter.name}>`")
        sums.append([len(own), *stars, transfer, minutes, chapter.minutes, len(quiz), folded])
    rows = []
    for name, row in zip([*names, "all"], [*sums, map(sum, zip(*sums))]):
        exercises, one, two, three, *others = map(str, row)
        rows.append([name, exercises, DOT.join([one, two, three]), *others])
    stars = DOT.join(["★", "★★", "★★★"])
    head = ["Chapter", "Exercises", stars, "Transfer", "Minutes", "To read", "Quiz", "Asked"]
    return markdown(head, rows)


def by_hand(chapters):
    """A sentence on what the report decides, and what it does not."""
    tasks = [(chapter, task) for chapter in chapters for task in chapter.tasks]
    opened = [f"“{task.title}” of chapter {chapter.number}" for chapter, task in tasks if not task.name]
    decided = f"The report decides {len(tasks) - len(opened)} of the {len(tasks)} exercises."
    return f"{decided} A person reads {' and '.join(opened)}." if opened else decided
