"""The chapters in tables, from `handgrad.course.plan`, and the suggested ways of book/ways.yml."""

from itertools import groupby
from pathlib import Path

import yaml

from handgrad.course import plan
from handgrad.course.tables import markdown


def listing(chapters):
    """A list of chapters under the name of each part, as MyST."""
    found = []
    for part, own in groupby(chapters, lambda chapter: chapter.part):
        found += [f'<p class="rubric part">{part}</p>', '<div class="chapters">', *map(item, own), "</div>"]
    return "\n\n".join(found) + "\n"


def item(chapter):
    """One chapter: its name, what it is about, minutes, what it needs, and room for what is done."""
    facts = [f"{chapter.minutes} minutes"]
    if chapter.needs:
        facts.append(f"needs {', '.join(map(str, chapter.needs))}")
    done = f'data-page="{chapter.page}" data-exercises="{" ".join(chapter.names)}"'
    return (
        f"- **{{doc}}`{chapter.number}. {chapter.title} </{chapter.page}>`** [{chapter.about}]{{.about}} "
        f'[{" · ".join(facts)}]{{.facts}} <span class="done" {done}></span>'
    )


def ways(root):
    """{name of a way: its stops}, from book/ways.yml.

    Raises ValueError if a stop reads a chapter before one that it needs, or sets an exercise that there is
    not, or of a chapter that is not read.
    """
    known = {chapter.number: chapter for chapter in plan.chapters(root)}
    found = {}
    for way in yaml.safe_load((Path(root) / "book" / "ways.yml").read_text(encoding="utf-8")):
        read_already = set()
        for stop in way["stops"]:
            place = f"{way['way']}, {stop['when']}"
            for number in stop["read"]:
                if missing := set(known[number].needs) - read_already:
                    raise ValueError(
                        f"{place}: chapter {number} needs {sorted(missing)}, which come later or never"
                    )
                read_already.add(number)
            for number, wanted in stop["solve"].items():
                there = {task.number for task in known[number].tasks}
                if number not in read_already or not set(wanted) <= there:
                    raise ValueError(
                        f"{place}: expected exercises of chapters that are read, got {number}: {wanted}"
                    )
        found[way["way"]] = way["stops"]
    return found


def minutes(stop, known):
    """The minutes to read and to solve at one stop."""
    tasks = [
        task
        for number, wanted in stop["solve"].items()
        for task in known[number].tasks
        if task.number in wanted
    ]
    return sum(known[number].minutes for number in stop["read"]), sum(task.minutes for task in tasks)


def hours(number):
    """Minutes as a reader plans them: 95 → "1 h 35", on one line."""
    words = f"{number // 60} h {number % 60:02}" if number >= 60 else f"{number} min"
    return words.replace(" ", "\N{NO-BREAK SPACE}")


def way(stops, known):
    """The table of one way: when, what to read, what to solve, and how many minutes that takes."""
    rows = [row(stop, known) for stop in stops]
    to_read, to_solve = (
        sum(column) for column in zip(*(minutes(stop, known) for stop in stops), strict=True)
    )
    rows.append(["together", hours(to_read), hours(to_solve)])
    return markdown(["When", "Read", "Solve"], rows, numbers=False) + "\n"


def row(stop, known):
    """One stop of a way as a row of MyST."""
    chapters = [f"{{doc}}`{n}. {known[n].title} </{known[n].page}>`" for n in stop["read"]]
    tasks = [
        f"{{doc}}`{n}.{exercise} </{known[n].page.replace('/', '/exercises/')}>`"
        for n, wanted in stop["solve"].items()
        for exercise in wanted
    ]
    to_read, to_solve = minutes(stop, known)
    return [
        stop["when"],
        f"{', '.join(chapters)} ({hours(to_read)})",
        f"{', '.join(tasks)} ({hours(to_solve)})",
    ]
