"""Chapters carry the number of their file wherever their title stands; equations and figures begin with it.

The third equation of notebooks/08_attention is (8.3). Pages that are no chapter count from 1. The solutions
of an exercise are its own source, and so begin with its title: here they are called solutions.
"""

import re

from docutils import nodes

NOTEBOOK = re.compile(r"notebooks/(exercises/|solutions/)?(\d\d)_\w+")


def number_of(page):
    """The number of a chapter as a tuple of one, or () for any other page."""
    match = NOTEBOOK.fullmatch(page)
    return (int(match[2]),) if match and not match[1] else ()


def number_title(app, doctree):
    """Before Sphinx reads the title for the sidebar, for references, and for the search."""
    match = NOTEBOOK.fullmatch(app.env.docname)
    title = next(doctree.findall(nodes.title), None)
    if not match or title is None:
        return
    kind, number = match[1], int(match[2])
    if kind is None:
        title.insert(0, nodes.Text(f"{number}. "))
        return
    first = next(title.findall(nodes.Text))
    name, wanted = "Exercises", "Exercises" if kind == "exercises/" else "Solutions"
    title.replace(first, nodes.Text(re.sub(f"^{name}\\b", f"{wanted} {number}", first)))


def number_by_chapter(app, env):
    """Sphinx has numbered equations, figures and tables from first to last: count them by page."""
    for page, kinds in env.toc_fignumbers.items():
        for numbers in kinds.values():
            for place, name in enumerate(numbers, 1):
                numbers[name] = (*number_of(page), place)
    return []


def setup(app):
    app.connect("doctree-read", number_title, priority=100)
    app.connect("env-get-updated", number_by_chapter, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
