"""The directive ``{chapter-map}``: the chapters of book/chapters.yml by parts, with minutes and needs.

A chapter that is written is a link, with the minutes to read that its notebook states; others are planned.
"""

from pathlib import Path

import nbformat
import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective


class ChapterMap(SphinxDirective):
    """A list of chapters under the name of each part. It has no argument, option or content."""

    def run(self):
        root = Path(self.env.srcdir)
        file = root / "book" / "chapters.yml"
        self.env.note_dependency(str(file))
        found = []
        for part in yaml.safe_load(file.read_text(encoding="utf-8")):
            found.append(nodes.rubric("", part["part"], classes=["part"]))
            items = [self.item(root, **chapter) for chapter in part["chapters"]]
            found.append(nodes.bullet_list("", *items, classes=["chapters"]))
        return found

    def item(self, root, number, topic, title, about, needs):
        """One chapter: its name, what it is about, minutes, and the numbers of those it needs."""
        page = f"notebooks/{number:02}_{topic}"
        notebook = root / f"{page}.ipynb"
        name = nodes.strong("", f"{number}. {title}")
        facts = ["planned"]
        if notebook.exists():
            self.env.note_dependency(str(notebook))
            own = nbformat.read(notebook, as_version=4).metadata["handgrad"]
            facts = [f"{own['reading_minutes']} minutes"]
            to = {"refdomain": "std", "reftype": "doc", "refdoc": self.env.docname, "reftarget": f"/{page}"}
            name = addnodes.pending_xref("", name, **to, refexplicit=True, refwarn=True)
        if needs:
            facts.append(f"needs {', '.join(map(str, needs))}")
        words = nodes.inline("", f" {about} ", classes=["about"])
        small = nodes.inline("", " · ".join(facts), classes=["facts"])
        kind = "written" if notebook.exists() else "planned"
        return nodes.list_item("", nodes.paragraph("", "", name, words, small), classes=[kind])


def setup(app):
    app.add_directive("chapter-map", ChapterMap)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
