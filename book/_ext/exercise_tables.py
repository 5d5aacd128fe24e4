"""The directive ``{exercise-tables}``: what the exercises of the book test, for teachers.

Its argument says which: ``list`` for all of them by chapters, ``totals`` for the sums of each chapter, or
``by-hand`` for a sentence on those that no program decides. The notebooks and the judge say the rest.
"""

from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from handgrad.course import teaching


class ExerciseTables(SphinxDirective):
    """Markdown that `handgrad.course.teaching` makes, parsed where it stands."""

    required_arguments = 1

    def run(self):
        notebooks, plan = (
            Path(self.env.srcdir, *parts) for parts in (["notebooks"], ["book", "chapters.yml"])
        )
        for file in [plan, *notebooks.glob("*.ipynb"), *notebooks.glob("solutions/*.ipynb")]:
            self.env.note_dependency(str(file))
        found, titles = teaching.tasks(notebooks), teaching.titles_of(plan)
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
