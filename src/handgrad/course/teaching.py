"""What the exercises of the book are, for teachers: what each tests, its kind, stars and minutes, as tables.

What an exercise tests stands in its declaration; all else in the heading and the first line of its text, in
the notebook of solutions: `## 2. Its title ★★`, and below `*Transfer, 15 minutes. …*`.
"""

import json
import re
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import nbformat

from . import judge
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

    chapter: str  # 08_attention
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
        if name in declared and not (timed and stars):
            raise ValueError(
                f"{path.name}, {title!r}: expected `*kind, 15 minutes.*` and stars, got {first!r}"
            )
        name = name if name in declared else ""
        kind, minutes = (timed[1], int(timed[2])) if timed else ("Open", 0)
        asks = declared[name].asks if name else OPEN
        transfer = "transfer" in first.lower()
        found.append(
            Task(path.stem, int(number), title, name, kind, len(stars or ""), minutes, asks, transfer)
        )
    if [task.name for task in found if task.name] != list(declared):
        raise ValueError(
            f"{path.name}: expected the exercises {list(declared)}, got {[t.name for t in found]}"
        )
    return found


def listing(found, titles):
    """The Tasks as Markdown: for each chapter its name, a link to its exercises, and a table.

    titles: {08_attention: Attention}.
    """
    parts = []
    for chapter, own in by_chapter(found).items():
        rows = [
            [
                f"{t.number}. {t.title} {'★' * t.stars}".strip(),
                t.asks,
                t.kind,
                str(t.minutes or "any"),
                t.judged,
            ]
            for t in own
        ]
        link = f"{{doc}}`exercises </notebooks/exercises/{chapter}>`"
        parts.append(f"**{int(chapter[:2])}. {titles[chapter]}** ({link})")
        parts.append(
            markdown(["Exercise", "What it tests", "Kind", "Minutes", "Judged"], rows, numbers=False)
        )
    return "\n\n".join(parts)


def totals(found, titles, notebooks):
    """The sums of each chapter and of the book, as a Markdown table: of exercises and questions."""
    sums = {}
    for chapter, own in by_chapter(found).items():
        text = nbformat.read(Path(notebooks, f"{chapter}.ipynb"), as_version=4)
        quiz = json.loads(Path(notebooks, "quizzes", f"{chapter}.json").read_text(encoding="utf-8"))
        folded = sum(len(FOLDED.findall(cell.source)) for cell in text.cells if cell.cell_type == "markdown")
        stars = (sum(task.stars == n for task in own) for n in (1, 2, 3))
        minutes, transfer = sum(task.minutes for task in own), sum(task.transfer for task in own)
        reading = text.metadata["handgrad"]["reading_minutes"]
        sums[chapter] = [len(own), *stars, transfer, minutes, reading, len(quiz), folded]
    names = [f"{{doc}}`{int(chapter[:2])}. {titles[chapter]} </notebooks/{chapter}>`" for chapter in sums]
    rows = []
    for name, row in zip([*names, "all"], [*sums.values(), [sum(column) for column in zip(*sums.values())]]):
        exercises, one, two, three, *others = map(str, row)
        rows.append([name, exercises, DOT.join([one, two, three]), *others])
    head = [
        "Chapter",
        "Exercises",
        DOT.join(["★", "★★", "★★★"]),
        "Transfer",
        "Minutes",
        "To read",
        "Quiz",
        "Asked",
    ]
    return markdown(head, rows)


def by_hand(found):
    """A sentence on what the report decides, and what it does not."""
    opened = [task for task in found if task.judged == "by hand"]
    names = " and ".join(f"“{task.title}” of chapter {int(task.chapter[:2])}" for task in opened)
    decided = f"The report decides {len(found) - len(opened)} of the {len(found)} exercises."
    return f"{decided} A person reads {names}." if opened else decided


def by_chapter(found):
    """{chapter: its Tasks}, which stand together."""
    return {chapter: list(own) for chapter, own in groupby(found, lambda task: task.chapter)}
