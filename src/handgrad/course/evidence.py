"""Which equation of the book is checked, by what, and where: the source of the equation index.

A displayed equation carries a label, ``$$ ... $$ (eq-softmax-jacobian)``. A code cell that carries the tag
``verifies:eq-softmax-jacobian`` executes a check of exactly that equation. An equation that only gives a
name to something needs no check: its Markdown cell carries the tag ``definition:eq-softmax-jacobian``.

`equations` reads the labelled equations of a notebook with their evidence; `problems` lists what breaks the
rule; `index` writes the page. What counts as a check is decided from the syntax tree of the cell, never from
its text: see `evidence`.
"""

import ast
import itertools
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import nbformat
from markdown_it import MarkdownIt
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

LABEL = re.compile(r"eq(-[a-z0-9]+)+")

# The kinds of evidence, strongest first, as the index names them.
EVIDENCE = {
    "general": "proved for every size",
    "shipped": "proved on the shipped lines",
    "exact": "exact at a fixed size",
    "asserted": "asserted at a fixed size",
    "definition": "definition",
}

# A call is a check if its name leads to one of these, or to an assert_* of a testing module. All raise.
CHECKERS = {
    "handgrad.sums.prove_equal": "general",
    "handgrad.check.prove": "shipped",
    "handgrad.check.differences": "asserted",
    "handgrad.check.autograd": "asserted",
}
TESTING = re.compile(r"(numpy|torch)\.testing\.assert_\w+")
COMPARISON = re.compile(
    r"close|equal|equiv"
)  # allclose, isclose, array_equal, prove_equal, assert_allclose ...
SWALLOWS = ("contextlib.suppress",)
NOT_RUN = {"skip-execution", "nbval-skip", "raises-exception"}


@dataclass(frozen=True)
class Equation:
    """One labelled equation: its TeX, the index of its cell, and its kinds of evidence, strongest first."""

    label: str
    formula: str
    cell: int
    evidence: tuple[str, ...]


# ------------------------------------------------------------------------------------------------------------
# Markdown: the displayed formulas

_MARKDOWN = (
    MarkdownIt("commonmark")
    .use(front_matter_plugin)
    .use(dollarmath_plugin, allow_labels=True, double_inline=True)
    .use(colon_fence_plugin)
    .use(amsmath_plugin)
)


def displayed(text):
    """The displayed formulas of a Markdown text, in order, as pairs (label or None, TeX).

    Formulas inside directives and lists are found; code blocks are not searched. A formula that shares a
    paragraph with text has no label, whatever stands behind it, because MyST reads none there.
    """
    found = []
    for token in _MARKDOWN.parse(text):
        if token.type in ("math_block", "amsmath"):
            found.append((None, token.content.strip()))
        elif token.type == "math_block_label":
            found.append((token.info, token.content.strip()))
        elif token.type == "inline":
            found += [(None, c.content.strip()) for c in token.children if c.type == "math_inline_double"]
        elif token.type in ("fence", "colon_fence") and token.info.strip().startswith("{math}"):
            label = re.search(r"^:label:\s*(\S+)\s*$", token.content, re.MULTILINE)
            formula = re.sub(r"^:\w+:.*$", "", token.content, flags=re.MULTILINE)
            found.append((label and label[1], formula.strip()))
        elif token.type in ("fence", "colon_fence") and re.match(r"\{(?!code)", token.info.strip()):
            found += displayed(token.content)
    return found


# ------------------------------------------------------------------------------------------------------------
# Code: what a cell checks


def parse(source):
    """The syntax tree of a code cell. Lines that only IPython reads (``%magic``, ``!shell``) are left out."""
    lines = ("#" + line if line.lstrip()[:1] in ("%", "!") else line for line in source.splitlines())
    return ast.parse("\n".join(lines))


def imported(tree, names=()):
    """What the names of a cell stand for: {local name: dotted origin}, beginning from those of earlier cells.

    A name that the cell assigns or defines itself no longer stands for what was imported.
    """
    names = dict(names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.pop(node.name, None)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.pop(node.id, None)
    return names


def origin(node, names):
    """The dotted name an expression stands for, or None: "handgrad.check.prove" for ``check.prove``."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        base = origin(node.value, names)
        return base and f"{base}.{node.attr}"
    return None


def _same(a, b):
    return ast.dump(a) == ast.dump(b)


def _compares_with_itself(call):
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return len(call.args) > 1 and COMPARISON.search(name) and _same(call.args[0], call.args[1])


def cannot_fail(expression):
    """Whether the truth of an asserted expression is settled before anything runs.

    So for constants, tuples, a value compared with itself, a difference of a value with itself, and a
    function such as ``allclose`` of twice the same argument. This is a net for slips, not a proof that the
    check is a good one.
    """
    if not any(isinstance(node, (ast.Name, ast.Call)) for node in ast.walk(expression)):
        return True
    if isinstance(expression, (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Lambda, ast.JoinedStr)):
        return True
    if isinstance(expression, ast.UnaryOp):
        return cannot_fail(expression.operand)
    if isinstance(expression, ast.BoolOp):
        settled = [cannot_fail(value) for value in expression.values]
        return any(settled) if isinstance(expression.op, ast.Or) else all(settled)
    if isinstance(expression, ast.Compare):
        sides = [expression.left, *expression.comparators]
        if all(_same(a, b) for a, b in itertools.pairwise(sides)):
            return True
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and _compares_with_itself(node):
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and _same(node.left, node.right):
            return True
    return False


def _expressions(statement):
    """The nodes that run when a simple statement runs: everything in it but the bodies of lambdas."""
    todo = [statement]
    while todo:
        node = todo.pop()
        yield node
        todo += [] if isinstance(node, ast.Lambda) else ast.iter_child_nodes(node)


def _checks(statements, names):
    """Yield the kind of each check that certainly runs, and certainly is heard when it fails."""
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue  # a body that nobody need call
        if isinstance(statement, ast.Assert):
            if not cannot_fail(statement.test):
                yield from _asserted(statement.test, names)
        elif isinstance(statement, (ast.For, ast.While, ast.If)):
            constant = isinstance(getattr(statement, "test", None), ast.Constant)
            if not constant:
                yield from _checks(statement.body, names)
        elif isinstance(statement, ast.With):
            called = [
                origin(getattr(item.context_expr, "func", item.context_expr), names)
                for item in statement.items
            ]
            if "pytest.raises" in called:
                yield "asserted"  # a refutation
            elif not set(called) & set(SWALLOWS):
                yield from _checks(statement.body, names)
        elif isinstance(statement, ast.Try):
            if not statement.handlers:
                yield from _checks(statement.body, names)
            yield from _checks([*statement.orelse, *statement.finalbody], names)
        else:
            yield from _called(statement, names)


def _called(node, names):
    for call in _expressions(node):
        if isinstance(call, ast.Call) and not _compares_with_itself(call):
            name = origin(call.func, names) or ""
            if name in CHECKERS:
                yield CHECKERS[name]
            elif TESTING.fullmatch(name):
                yield "asserted"


def _asserted(test, names):
    """An assertion is as strong as what it asks: equality for every size, equality by SymPy, or numbers."""
    asked = {origin(node.func, names) or "" for node in ast.walk(test) if isinstance(node, ast.Call)}
    asked |= {
        origin(node, names) or "" for node in ast.walk(test) if isinstance(node, (ast.Name, ast.Attribute))
    }
    if any(name == "handgrad.sums.equal" for name in asked):
        yield "general"
    elif any(name.startswith("sympy.") or name == "handgrad.check.is_zero" for name in asked):
        yield "exact"
    else:
        yield "asserted"
    yield from _called(test, names)


def evidence(source, names=()):
    """The kinds of check that a code cell executes, strongest first; () if it checks nothing.

    source: the cell's text; names: what earlier cells imported (from `imported`). A check is an ``assert``
    that can fail, a call of a checker (`CHECKERS`), or ``with pytest.raises(...)``; not one in the body of a
    function, under ``if False``, or in a ``try`` that catches its failure.
    """
    tree = parse(source)
    kinds = set(_checks(tree.body, imported(tree, names)))
    return tuple(kind for kind in EVIDENCE if kind in kinds)


# ------------------------------------------------------------------------------------------------------------
# Notebooks


def _tags(cell, prefix):
    return [tag.removeprefix(prefix) for tag in cell.metadata.get("tags", []) if tag.startswith(prefix)]


def _verified(notebook):
    """Yield (cell index, code cell, labels it verifies, evidence it holds)."""
    names = {}
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            labels = _tags(cell, "verifies:")
            yield place, cell, labels, evidence(cell.source, names) if labels else ()
            names = imported(parse(cell.source), names)


def equations(notebook):
    """The labelled equations of a notebook (from ``nbformat.read``), in order, each an `Equation`."""
    found = {}  # label: kinds of evidence
    for _, _, labels, kinds in _verified(notebook):
        for label in labels:
            found.setdefault(label, set()).update(kinds)
    result = []
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            defined = _tags(cell, "definition:")
            for label, formula in displayed(cell.source):
                if label:
                    kinds = found.get(label, set()) | ({"definition"} if label in defined else set())
                    result.append(Equation(label, formula, place, tuple(k for k in EVIDENCE if k in kinds)))
    return result


def problems(notebook):
    """What breaks the rule in a notebook, as sentences; [] if every displayed equation is accounted for."""
    wrong = []
    labelled = Counter()
    defined = []
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        here = displayed(cell.source)
        labelled.update(label for label, _ in here if label)
        wrong += [
            f"displayed equation without a label (a blank line before $$?): {tex}"
            for label, tex in here
            if not label
        ]
        for label in _tags(cell, "definition:"):
            defined.append(label)
            if label not in [other for other, _ in here]:
                wrong.append(f"{label}: the cell tagged definition:{label} does not display it")
    verified = []
    for _, cell, labels, kinds in _verified(notebook):
        verified += labels
        tags = set(cell.metadata.get("tags", []))
        for label in labels:
            if label not in labelled:
                wrong.append(f"{label}: tagged verifies:{label}, but no equation has this label")
            if not kinds:
                wrong.append(
                    f"{label}: its verifying cell holds no check that can fail: {cell.source[:60]!r}"
                )
            if tags & NOT_RUN:
                wrong.append(
                    f"{label}: its verifying cell is tagged {sorted(tags & NOT_RUN)}, so it need not pass"
                )
    for label, times in labelled.items():
        if not LABEL.fullmatch(label):
            wrong.append(f"{label}: a label reads eq-words-with-hyphens")
        if times > 1:
            wrong.append(f"{label}: {times} equations have this label")
        if label not in verified and label not in defined:
            wrong.append(f"{label}: no cell verifies it, and it is not tagged as a definition")
        if label in verified and label in defined:
            wrong.append(f"{label}: tagged both as verified and as a definition")
    return wrong


# ------------------------------------------------------------------------------------------------------------
# The page


def chapters(folder):
    """The chapter notebooks of a folder, in order, as pairs (path, notebook): those named NN_topic.ipynb."""
    return [
        (path, nbformat.read(path, as_version=4)) for path in sorted(Path(folder).glob("[0-9][0-9]_*.ipynb"))
    ]


def index(folder):
    """The equation index as MyST Markdown: every labelled equation of the chapters in `folder`.

    Raises FileNotFoundError if the folder holds no chapter.
    """
    read = chapters(folder)
    if not read:
        raise FileNotFoundError(
            f"folder: expected chapter notebooks NN_topic.ipynb in {Path(folder).resolve()}, found none"
        )
    total = Counter(kind for _, notebook in read for e in equations(notebook) for kind in e.evidence[:1])
    lines = ["| Strongest evidence | Equations |", "| :-- | --: |"]
    lines += [f"| {name} | {total[kind]} |" for kind, name in EVIDENCE.items()]
    for path, notebook in read:
        lines += ["", f"## {{doc}}`/notebooks/{path.stem}`"]
        for equation in equations(notebook):
            kinds = ", ".join(EVIDENCE[kind] for kind in equation.evidence) or "**not checked**"
            lines += ["", f"{{eq}}`{equation.label}` {kinds}", "", "$$", equation.formula, "$$"]
    return "\n".join(lines)
