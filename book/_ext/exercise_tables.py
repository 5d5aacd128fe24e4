"""The directive ``{exercise-tables}``: what the exercises of the book test, for teachers.

Its argument says which: ``list`` for all of them by chapters, ``totals`` for the sums of each chapter, or
``by-hand`` for a sentence on those that no program decides. The notebooks and the judge say the rest.
"""

from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from handgrad.course import plan, teaching


class ExerciseTables(SphinxDirective):
    """Markdown that `handgrad.course.teaching` makes, parsed where it stands."""

    required_arguments = 1

    def run(self):
        notebooks, chapters = Path(self.env.srcdir, "notebooks"), plan.chapters(self.env.srcdir)
        for file in plan.files(self.env.srcdir):
            self.env.note_dependency(str(file))
        found = [task for chapter in chapters for task in chapter.tasks]
        titles = {chapter.name: chapter.title for chapter in chapters}
        makers = {
            "list": lambda: teaching.listing(found, titles),
            "totals": lambda: teaching.totals(found, titles, notebooks),
            "by-hand": lambda: teaching.by_hand(found),
        }
        if self.arguments[0] not in makers:
            raise self.error(f"exercise-tables: expected one of {', '.join(makers)}, got {self.arguments[0]}")
        box = nodes.container(classes=["exercise-tables"])
        text = makers[self.arguments[0]]()
        self.state.nested_parse(StringList(text.splitlines(), "exercise-tables"), self.content_offset, box)
        return [box]


def setup(app):
    app.add_directive("exercise-tables", ExerciseTables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
