"""What learners have solved: a report on a folder of their notebooks.

    handgrad grade FOLDER                       a table for each chapter
    handgrad grade FOLDER --why                 and what was found in each answer
    handgrad grade FOLDER --only 08_attention   these chapters, and no others
    handgrad grade FOLDER --csv FILE            one row for each exercise

The notebooks are those of `make exercises` or `make lab`, with answers: anna/08_attention.ipynb,
anna/lab/exercises/08_attention.ipynb, 08_attention_anna.ipynb or anna_08_attention.ipynb. A learner is called
as the first folder, or as what stands beside the chapter in the name of the file.

Rows are told and saved as they come: of a report that is broken off, the file holds what was judged.

The judge does not look at the cells that call it. It takes the functions that the exercises of the chapter
ask for, as they are after the last cell. They run in one process, the judge in a second one, the report in a
third, and what comes back from a notebook is data alone: see `apart`. A notebook that cannot be read or run,
or belongs to no chapter, is reported, and stops no other.

**The learners' code runs on this machine, with your rights.** Memory, files and time are limited, your
environment is not handed on, and no file of a learner is written to by this command. But the code can read
and write what you can, the report's files and this package among them. That guards against mistakes and
against tricks with the judge, not against somebody who means harm to your account: take a machine, or a user,
on which nothing can be lost.
"""

import argparse
import csv
import os
import re
import signal
import sys
import textwrap
import unicodedata
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, fields, replace
from itertools import groupby
from pathlib import Path

from tqdm import tqdm

from ..extras import needs
from . import judge
from .apart import NOT_JUDGED, OPEN, Judge, Stopped, namespaces
from .judge.verdict import MARK, RIGHT, WRONG
from .progress import say_all_signs

with needs("book"):
    import nbformat

SIGN = MARK | {NOT_JUDGED: "–"}
ROOMS = {"lab", "notebooks", "exercises"}  # folders of this book, which name no learner
LIMIT = 60  # seconds
LARGEST = 5 * 10**7  # bytes of a notebook's file
LONGEST = 30_000  # signs in a field of the table: a spreadsheet takes 32 767
OF_SOLUTIONS = "lies in a folder of solutions"
A_CHAPTER = "is the chapter itself; its exercises lie in the folder beside it"
OF_THE_LAB = "comes with every `lab`, and holds no exercise"
OWN = {"progress", "own_layer"}  # such notebooks, made by tools/lab.py
COMMON = 3  # mistakes that are told of an exercise
WIDTH = 98  # columns of a line of the report
NO_NAMESPACES = (
    "This system gives no namespaces to its users, so notebooks reach the network and other processes."
)


@dataclass(frozen=True)
class Result:
    """One exercise in one notebook. A notebook of no chapter has a single one, without an exercise."""

    learner: str
    chapter: str  # 08_attention, as the file is called
    number: int  # of the exercise in its chapter, from 1
    exercise: str
    status: str  # right, wrong, not yet, not judged
    diagnosis: str
    where: str  # the place of the mistake, if the judge knows it
    notes: str  # what befell the notebook: cells that raised
    file: str


# Whose notebook it is ---------------------------------------------------------------------------------------


def chapter_of(stem):
    """("08_attention", "attention", all else) of a file's name without its ending; None if it has none."""
    topics = "|".join(re.escape(t).replace("_", "[_ -]") for t in sorted(judge.chapters(), key=len)[::-1])
    name = rf"(.*?)(?<!\d)(\d\d?)[_ -]({topics})(?![a-z])(.*)"
    found = re.fullmatch(name, stem.removesuffix(".mine"), re.IGNORECASE | re.DOTALL)
    if not found:
        return None
    before, number, topic, after = found.groups()
    topic = re.sub("[ -]", "_", topic.lower())
    return f"{int(number):02}_{topic}", topic, (before + after).strip(" ._-,()")


def learner_of(path, folder):
    """The learner's name: of the first folder below that is none of the book, or in the file's own name."""
    below = [part for part in path.relative_to(folder).parts[:-1] if part.lower() not in ROOMS]
    chapter = chapter_of(path.stem)
    name = below[0] if below else chapter and chapter[2] or Path(folder).resolve().name
    return unicodedata.normalize("NFC", name)


def notebooks(folder):
    """The files of all notebooks in a folder, without those that Jupyter keeps for itself."""
    files = (path for path in sorted(Path(folder).rglob("*")) if path.suffix.lower() == ".ipynb")
    hidden = re.compile(r"(^|/)\.")
    return [f for f in files if f.is_file() and not hidden.search(f.relative_to(folder).as_posix())]


def no_answers(path, folder):
    """Why a notebook holds no answers of a learner, or None."""
    if path.stem in OWN:
        return OF_THE_LAB
    if chapter_of(path.stem) is None:
        return "belongs to no chapter: a name like 08_attention.ipynb is expected"
    if "solutions" in path.relative_to(folder).parts[:-1]:
        return OF_SOLUTIONS
    if path.parent.name != "exercises" and (path.parent / "exercises" / path.name).exists():
        return A_CHAPTER
    return None


def read(path):
    """The sources of a notebook's code cells. Raises ValueError that says what is wrong with the file."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"cannot be read as a notebook: it has more than {LARGEST / 1e6:g} MB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cells without ids, and other things that no answer depends on
            cells = nbformat.read(path, as_version=4).cells
        return [cell.source for cell in cells if cell.cell_type == "code"]
    except Exception as error:
        reason = " ".join(str(error).split())[:80].rstrip(".")
        raise ValueError(f"cannot be read as a notebook: {reason}") from error


def plain(text):
    """A learner's words without signs that move a cursor, or cannot be written to a file."""
    return "".join(sign if sign.isprintable() else " " for sign in text[:LONGEST])


# Judging ----------------------------------------------------------------------------------------------------


def judged(path, folder, limit, judge_of, blank):
    """The Results of one notebook: one for each exercise of its chapter, or one on why there is none.

    judge_of: a `Judge`; blank: of `unjudged`, from before: the notebook may take its own file away.
    """
    if reason := no_answers(path, folder):
        return [replace(blank, diagnosis=f"It {reason}.")]
    chapter, topic, _ = chapter_of(path.stem)
    try:
        found, notes = judge_of(read(path), topic, limit)
    except (Stopped, OSError, ValueError) as why:
        found, notes = dict.fromkeys(judge.chapters()[topic], (NOT_JUDGED, f"It {why}.", "")), []
    own = replace(blank, chapter=chapter, notes=plain("; ".join(notes)))
    return [
        replace(own, number=n, exercise=name, status=status, diagnosis=plain(why), where=plain(where))
        for n, (name, (status, why, where)) in enumerate(found.items(), 1)
    ]


def unjudged(path, folder):
    """The Result on a notebook that is not judged, which does not say yet why."""
    learner, file = plain(learner_of(path, folder)), plain(path.relative_to(folder).as_posix())
    return Result(learner, "", 0, "", NOT_JUDGED, "", "", "", file)


def grade(folder, only=(), limit=LIMIT, csv_file=None, progress=False):
    """The Results of all notebooks in a folder, by chapter and learner.

    only: chapters, "08_attention"; limit: seconds, see `verdicts`; csv_file: see `save`, which is called for
    every notebook. Raises ValueError if there is no such folder, no notebook in it, or no such chapter, and
    FileExistsError if csv_file is there.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"FOLDER: expected a folder of notebooks, got {folder}, which is none")
    wanted = {topic_of(chapter) for chapter in only}
    files = [path for path in notebooks(folder) if not wanted or is_of(path, wanted)]
    if not files:
        kind = f"notebooks of {', '.join(only)}" if only else "notebooks (.ipynb)"
        raise ValueError(f"FOLDER: expected {kind} in {folder}, found none")
    if csv_file and Path(csv_file).exists():
        raise FileExistsError(f"--csv: expected no file yet, and {csv_file} is there")
    blank = {path: unjudged(path, folder) for path in files}
    found = []
    with Judge() as judge_of, tqdm(files, unit="notebook", disable=not progress) as bar:
        for path in bar:
            bar.set_postfix_str(blank[path].file[-40:])
            rows = judged(path, folder, limit, judge_of, blank[path])
            found = sorted([*found, *rows], key=lambda r: (r.chapter, r.learner.casefold(), r.file, r.number))
            if csv_file:
                save(found, csv_file)
            if progress:
                bar.write(in_short(rows), file=sys.stderr)
    return found


def is_of(path, topics):
    """Whether a notebook is of one of the topics, or of no chapter at all, which is to be reported."""
    chapter = chapter_of(path.stem)
    return chapter is None or chapter[1] in topics


def topic_of(chapter):
    """attention, of "08_attention" or "attention". Raises ValueError if there is no such chapter."""
    topic = re.sub(r"^\d+_", "", chapter.removesuffix(".ipynb"))
    if topic not in judge.chapters():
        raise ValueError(f"--only: expected a chapter, like 08_attention, got {chapter!r}")
    return topic


# The report -------------------------------------------------------------------------------------------------


def report(results, why=False):
    """The Results as text: a table for each chapter, what was not judged, and totals. why: each diagnosis."""
    parts = [table(list(rows), why) for chapter, rows in groupby(results, lambda r: r.chapter) if chapter]
    parts += filter(None, [not_judged(results), notes(results), totals(results)])
    return "\n\n".join(parts)


def table(results, why=False):
    """The Results of one chapter: a line for each notebook, and one for each exercise with its mistakes."""
    of_file = [list(rows) for _, rows in groupby(results, lambda r: r.file)]
    several = {name for name, count in Counter(rows[0].learner for rows in of_file).items() if count > 1}
    names = [f"{r.learner} ({r.file})" if r.learner in several else r.learner for r, *_ in of_file]
    wide = max(map(columns, names))
    head = "  ".join(str(r.number) for r in of_file[0])
    lines = [results[0].chapter, f"  {' ' * wide}  {head}  right"]
    for name, rows in zip(names, of_file):
        signs = "  ".join(SIGN[r.status].ljust(len(str(r.number))) for r in rows)
        lines.append(f"  {name}{' ' * (wide - columns(name))}  {signs}  {share(rows)}")
        lines += [line for r in rows if why for line in told(r)]
    lines.append("")
    in_turn = sorted(results, key=lambda r: r.number)
    by_exercise = [list(rows) for _, rows in groupby(in_turn, lambda r: r.number)]
    wide = max(len(r.exercise) for r in of_file[0])
    for rows in by_exercise:
        lines.append(f"  {rows[0].number} {rows[0].exercise:{wide}}  {share(rows)}")
        for diagnosis, count in Counter(r.diagnosis for r in rows if r.status == WRONG).most_common(COMMON):
            lines += wrapped(f"{count} × {diagnosis}", 6)
    return "\n".join(lines)


def in_short(results):
    """The Results of one notebook in a line."""
    first = results[0]
    if not first.exercise:
        return f"{first.file}: {first.diagnosis}"
    return f"{first.chapter}  {first.learner}  {'  '.join(SIGN[r.status] for r in results)}  {share(results)}"


def told(result):
    """The lines on an answer that is not right; none where the sign says all, or the file is listed below."""
    if result.status in (RIGHT, NOT_JUDGED) or result.diagnosis == OPEN:
        return []
    text = f"{SIGN[result.status]} {result.number} {result.exercise}: {result.diagnosis} {result.where}"
    return wrapped(text, 6)


def share(results):
    """How many of those that were judged are right: 2 of 6."""
    judged = [r for r in results if r.status != NOT_JUDGED]
    return f"{sum(r.status == RIGHT for r in judged)} of {len(judged)}"


def columns(text):
    """How many columns of a terminal the text takes: wide signs two, and accents that stand alone none."""
    wide = sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)
    return wide - sum(unicodedata.combining(sign) > 0 for sign in text)


def wrapped(text, margin):
    """The lines of a text, indented, the first one less."""
    return textwrap.wrap(
        " ".join(text.split()), WIDTH, initial_indent=" " * margin, subsequent_indent=" " * (margin + 4)
    )


def not_judged(results):
    """The files that were not judged, and why; empty if there are none.

    Chapters, solutions and all else that comes along with every `lab` that is handed in are only counted.
    """
    reasons = {r.file: r.diagnosis for r in results if r.status == NOT_JUDGED}
    alike = (OF_SOLUTIONS, A_CHAPTER, OF_THE_LAB)
    expected = Counter(r for r in reasons.values() if any(why in r for why in alike))
    told = [f"{file}: {reason}" for file, reason in reasons.items() if reason not in expected]
    told += [f"{count} × {reason}" for reason, count in expected.items()]
    lines = [line for text in told for line in wrapped(text, 2)]
    return "\n".join(["Not judged", *lines]) if lines else ""


def notes(results):
    """What befell the notebooks that were judged: the first of each, and how many more; or nothing at all."""
    lines = []
    for file, told in {r.file: r.notes for r in results if r.notes}.items():
        first, *more = told.split("; code cell ")
        lines += wrapped(f"{file}: {first}" + (f" (and {len(more)} more)" if more else ""), 2)
    return "\n".join(["Cells that did not run well", *lines]) if lines else ""


def totals(results):
    """All in one line."""
    learners = {r.learner for r in results if r.exercise}
    count = Counter(r.status for r in results if r.exercise)
    counted = ", ".join(f"{count[status]} {status} {SIGN[status]}" for status in SIGN if count[status])
    files = {r.file for r in results}
    parts = [(len(files), "notebook"), (len(learners), "learner"), (sum(count.values()), "exercise")]
    counts = ", ".join(f"{n} {word}{'s' if n != 1 else ''}" for n, word in parts)
    return f"{counts}{': ' if counted else ''}{counted}."


def save(results, csv_file):
    """Write the Results as a table for spreadsheets: always the whole of it, or nothing."""
    new = Path(f"{csv_file}.new")
    with open(new, "w", encoding="utf-8-sig", newline="") as file:  # the mark lets Excel read names
        writer = csv.DictWriter(file, [field.name for field in fields(Result)])
        writer.writeheader()
        writer.writerows(map(asdict, results))
    os.replace(new, csv_file)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="handgrad grade",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the notebooks are, at any depth")
    parser.add_argument(
        "--why", action="store_true", help="tell what was found in each answer that is not right"
    )
    parser.add_argument(
        "--only", nargs="+", default=(), metavar="CHAPTER", help="these chapters: 08_attention"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write one row for each exercise")
    parser.add_argument(
        "--limit",
        type=float,
        default=LIMIT,
        metavar="SECONDS",
        help=f"for all cells of a notebook together, and then for each answer; {LIMIT} if not given",
    )
    given = parser.parse_args(arguments)
    say_all_signs()
    if not given.limit > 0:
        parser.error(f"--limit: expected a positive number of seconds, got {given.limit:g}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the processes are to end with this one
    if not namespaces():
        print(NO_NAMESPACES, file=sys.stderr)
    try:
        print(report(grade(given.folder, given.only, given.limit, given.csv, progress=True), given.why))
    except (ValueError, OSError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print("Broken off.", file=sys.stderr)
        return 130
    return 0
