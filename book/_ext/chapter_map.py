"""The chapters in tables, from `handgrad.course.plan`.

``{chapter-map}`` lists them by parts, with minutes and needs. ``{way} weekend`` is one of the suggested ways
of book/ways.yml: when, what to read, what to solve, and how many minutes that takes.
"""

from itertools import groupby
from pathlib import Path

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from handgrad.course import plan


def read(env):
    """The chapters; the page that asks is made again when one of them changes."""
    for file in plan.files(env.srcdir):
        env.note_dependency(str(file))
    return plan.chapters(env.srcdir)


def link(env, page, *words):
    """A link to another page of the book."""
    to = {"refdomain": "std", "reftype": "doc", "refdoc": env.docname, "reftarget": f"/{page}"}
    return addnodes.pending_xref("", *words, **to, refexplicit=True, refwarn=True)


class ChapterMap(SphinxDirective):
    """A list of chapters under the name of each part. It has no argument, option or content."""

    def run(self):
        found = []
        for part, chapters in groupby(read(self.env), lambda chapter: chapter.part):
            found.append(nodes.rubric("", part, classes=["part"]))
            found.append(nodes.bullet_list("", *map(self.item, chapters), classes=["chapters"]))
        return found

    def item(self, chapter):
        """One chapter: its name, what it is about, minutes, what it needs, and room for what is done."""
        name = nodes.strong("", f"{chapter.number}. {chapter.title}")
        facts = [f"{chapter.minutes} minutes"]
        if chapter.needs:
            facts.append(f"needs {', '.join(map(str, chapter.needs))}")
        words = nodes.inline("", f" {chapter.about} ", classes=["about"])
        small = nodes.inline("", " · ".join(facts), classes=["facts"])
        told = f'data-page="{chapter.page}" data-exercises="{" ".join(chapter.names)}"'
        done = nodes.raw("", f' <span class="done" {told}></span>', format="html")
        return nodes.list_item(
            "", nodes.paragraph("", "", link(self.env, chapter.page, name), words, small, done)
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


class Way(SphinxDirective):
    """The table of one way. Argument: its name in book/ways.yml."""

    required_arguments = 1

    def run(self):
        self.env.note_dependency(str(Path(self.env.srcdir) / "book" / "ways.yml"))
        known = {chapter.number: chapter for chapter in read(self.env)}
        stops = ways(self.env.srcdir)[self.arguments[0]]
        rows = [self.row(stop, known) for stop in stops]
        totals = [sum(column) for column in zip(*(minutes(stop, known) for stop in stops), strict=True)]
        rows.append([[nodes.Text(text)] for text in ("together", hours(totals[0]), hours(totals[1]))])
        return [table(["When", "Read", "Solve"], rows)]

    def row(self, stop, known):
        chapters, tasks = [], []
        for number in stop["read"]:
            words = nodes.inline("", f"{number}. {known[number].title}")
            chapters += [link(self.env, known[number].page, words), nodes.Text(", ")]
        for number, wanted in stop["solve"].items():
            page = known[number].page.replace("/", "/exercises/")
            for exercise in wanted:
                words = nodes.inline("", f"{number}.{exercise}")
                tasks += [link(self.env, page, words), nodes.Text(", ")]
        to_read, to_solve = minutes(stop, known)
        chapters[-1], tasks[-1] = (nodes.Text(f" ({hours(n)})") for n in (to_read, to_solve))
        return [[nodes.Text(stop["when"])], chapters, tasks]


def table(head, rows):
    """A table of docutils; a cell is a list of nodes."""

    def line(cells):
        return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells))

    columns = [nodes.colspec(colwidth=1) for _ in head]
    first = nodes.thead("", line([[nodes.Text(word)] for word in head]))
    group = nodes.tgroup("", *columns, first, nodes.tbody("", *map(line, rows)), cols=len(head))
    return nodes.table("", group)


def setup(app):
    app.add_directive("chapter-map", ChapterMap)
    app.add_directive("way", Way)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
