"""Folded cells say what they hold, and a cell that checks equations says what it has established.

A fold is named by what its cell does: the equations that it checks, the figure that it draws, the functions
that it defines, the names that later cells use, or that it only checks. The metadata of a cell, ``mystnb:
code_prompt_show``, names it otherwise.
"""

import ast
import re

import nbformat
from docutils import nodes

from handgrad.course.evidence import equations
from handgrad.course.runs import parse

CHAPTER = re.compile(r"notebooks/\d\d_\w+")
PROOF, EVALUATION = "Proof of", "Evaluation of"
VERBS = {"general": PROOF, "special": PROOF, "exact": "Exact check of", "asserted": EVALUATION}
"""What a fold is called that checks equations of a kind."""
LABEL = re.compile(r"eq(?:-[a-z0-9]+)+")
NUMBER = re.compile(
    r'id="equation-(eq-[a-z0-9-]+)">\s*<span class="eqno">\s*(?:<[^>]*>[^<]*</\w+>)?(\([\d.]+\))'
)
"""An equation's label and its number, behind its mark."""
CHECKS = re.compile(r"\bassert\b|\bassert_\w+\(|pytest\.raises|\.(?:prove|holds|refuses)\(|prove_equal\(")
MOST = 3
"""So many names stand in the name of a fold."""


def listed(names):
    """a, b and c."""
    names = [*names[: MOST - 1], "more"] if len(names) > MOST else names
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def called(cell, checked, later):
    """The name of a folded cell. checked: the equations it checks; later: the code of the cells below."""
    if checked:
        return f"{VERBS[checked[0].kind]} {listed([e.label for e in checked])}"
    if "caption" in cell.metadata:
        return "How the figure is drawn"
    statements = [s for s in parse(cell.source).body if not isinstance(s, ast.Import | ast.ImportFrom)]
    functions = [s.name for s in statements if isinstance(s, ast.FunctionDef | ast.ClassDef)]
    if functions and len(functions) == len(statements):
        return f"The code of {listed(functions)}"
    targets = [t for s in statements if isinstance(s, ast.Assign) for t in s.targets]
    bound = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and n.id != "_"]
    used = [n for n in dict.fromkeys([*functions, *bound]) if re.search(rf"\b{n}\b", later)]
    if used:
        return f"Made here: {listed(used)}"
    if CHECKS.search(cell.source):
        return "A check with PyTorch" if re.search(r"\btorch\.", cell.source) else "A check"
    return "The code"


def name_the_folds(app, doctree):
    """Name each folded cell of a chapter, and say below each checking one what is established."""
    if not CHAPTER.fullmatch(app.env.docname):
        return
    notebook = nbformat.read(app.env.doc2path(app.env.docname), as_version=4)
    found = [e for e in equations(notebook) if e.kind in VERBS]
    sources = [cell.source if cell.cell_type == "code" else "" for cell in notebook.cells]
    for node in list(doctree.findall(nodes.container)):
        if node.get("nb_element") != "cell_code":
            continue
        place = node["cell_index"]
        cell, checked = notebook.cells[place], [e for e in found if e.checked == place]
        if "prompt_show" in node and "code_prompt_show" not in cell.metadata.get("mystnb", {}):
            node["prompt_show"] = node["prompt_hide"] = called(cell, checked, "\n".join(sources[place + 1 :]))
        if checked:
            told = "".join(f"<li>{e.label} {e.told.replace(', from the page', '')}</li>" for e in checked)
            html = f'<ul class="established" aria-label="What this cell has shown">{told}</ul>'
            node.parent.insert(node.parent.index(node) + 1, nodes.raw("", html, format="html"))


def numbers_for_labels(app, pagename, templatename, context, doctree):
    """Equations by their numbers, in the names of folds and in what is established."""
    if not CHAPTER.fullmatch(pagename) or "body" not in context:
        return
    body = context["body"]
    number = dict(NUMBER.findall(body))

    def plain(match):
        return LABEL.sub(lambda m: number.get(m[0], m[0]), match[0])

    def linked(match):
        return LABEL.sub(lambda m: f'<a href="#equation-{m[0]}">{number.get(m[0], m[0])}</a>', match[0])

    body = re.sub(r'<p class="(?:collapsed|expanded) admonition-title">.*?</p>', plain, body)
    context["body"] = re.sub(r'<ul class="established".*?</ul>', linked, body, flags=re.DOTALL)


def setup(app):
    app.connect("doctree-read", name_the_folds)
    app.connect("html-page-context", numbers_for_labels, priority=700)  # behind the marks beside the numbers
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
