"""Every labelled equation shows its evidence beside its number: a mark that leads to the cell that checks it.

The marks are made from what the cells call of the page, as `handgrad.course.evidence` reads it. `totals`
counts equations by their marks; `in_short` lists the marks in a line.
"""

import re
from collections import Counter
from html import escape

import nbformat
from docutils import nodes

from handgrad.course.evidence import KINDS, MARKS, equations

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


def totals(found):
    """A table: each mark, what it says, and how many equations of the book have it, if any has."""
    total = Counter(equation.kind for equation in found)
    rows = [(MARKS[kind], words, str(total[kind])) for kind, words in KINDS.items() if total[kind]]
    rows.append(("", "together", str(total.total())))
    head = "| Mark | An equation with it is | Equations |\n| :-: | :-- | --: |\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def in_short():
    """Each mark once, with what it says in short, in a line."""
    short = {
        MARKS[k]: re.sub("[;:].*|, (read )?from the page|, compared by eye.*", "", w)
        for k, w in KINDS.items()
    }
    return "; ".join(f"{mark} {words}" for mark, words in short.items()) + ".\n"


def setup(app):
    app.connect("doctree-read", name_the_cells)
    app.connect("html-page-context", mark_equations)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
