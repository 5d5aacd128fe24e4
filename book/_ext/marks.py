"""Every labelled equation shows its evidence beside its number: a mark that leads to the cell that checks it.

The marks are made from what the cells call of the page, as `handgrad.course.evidence` reads it. The directive
``{evidence-totals}`` counts them for the whole book; the role ``{evidence-marks}`` lists them in a line, with
its text between two of them.
"""

import re
from collections import Counter
from html import escape
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from handgrad.course.evidence import KINDS, MARKS, chapters, equations

CHAPTER = re.compile(r"notebooks/\d\d_\w+")
NUMBER = re.compile(r'(id="equation-(eq-[a-z0-9-]+)">\s*<span class="eqno">)(\([\d.]+\))')


def name_the_cells(app, doctree):
    """Give the cell that checks an equation a name that can be linked."""
    if not CHAPTER.fullmatch(app.env.docname):
        return
    found = equations(nbformat.read(app.env.doc2path(app.env.docname), as_version=4))
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code":
            cell["ids"] += [f"check-{e.label}" for e in found if e.checked == cell["cell_index"]]


def mark(equation, number):
    """The HTML of the mark: its kind in a sign, and in words for the pointer and for screen readers."""
    told = f'class="evidence {equation.kind}" title="{escape(equation.told)}"'
    if equation.checked is None:
        return f'<span {told} role="img" aria-label="{escape(equation.told)}">{MARKS[equation.kind]}</span>'
    spoken = escape(f"Equation {number} is {equation.told}. To the cell that checks it")
    return f'<a {told} href="#check-{equation.label}" aria-label="{spoken}">{MARKS[equation.kind]}</a>'


def mark_equations(app, pagename, templatename, context, doctree):
    if not CHAPTER.fullmatch(pagename) or "body" not in context:
        return
    notebook = nbformat.read(app.env.doc2path(pagename), as_version=4)
    found = {equation.label: equation for equation in equations(notebook)}

    def marked(match):
        before, label, number = match.groups()
        return f"{before}{mark(found[label], number)}{number}"

    context["body"] = NUMBER.sub(marked, context["body"])


class EvidenceTotals(SphinxDirective):
    """A table: each mark, what it says, and how many equations of the book have it, if any has."""

    def run(self):
        read = chapters(Path(self.env.srcdir) / "notebooks")
        for path, _ in read:
            self.env.note_dependency(str(path))
        total = Counter(equation.kind for _, notebook in read for equation in equations(notebook))
        rows = [(MARKS[kind], words, str(total[kind])) for kind, words in KINDS.items() if total[kind]]
        rows.append(("", "together", str(total.total())))
        lines = ["| Mark | An equation with it is | Equations |", "| :-: | :-- | --: |"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        self.content.data[:] = lines
        self.content.items[:] = [(self.env.docname, i) for i in range(len(lines))]
        holder = nodes.container()
        self.state.nested_parse(self.content, 0, holder)
        return holder.children


def evidence_marks(name, rawtext, text, lineno, inliner, options=None, content=None):
    """Each mark once, with what it says in short, as text in a line."""
    short = {
        MARKS[k]: re.sub("[;:].*|, (read )?from the page|, compared by eye.*", "", w)
        for k, w in KINDS.items()
    }
    return [nodes.Text(f"{text} ".join(f"{mark} {words}" for mark, words in short.items()))], []


def setup(app):
    app.add_directive("evidence-totals", EvidenceTotals)
    app.add_role("evidence-marks", evidence_marks)
    app.connect("doctree-read", name_the_cells)
    app.connect("html-page-context", mark_equations)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
