"""Which equation of the book is checked, by what, and where: the source of the equation index.

A displayed equation carries a label, ``$$ ... $$ (eq-softmax-jacobian)``. A code cell that carries the tag
``verifies:eq-softmax-jacobian:general`` executes a check of exactly that equation, of that kind (`KINDS`). An
equation that only gives a name to something needs no check: its Markdown cell carries the tag
``definition:eq-softmax-jacobian``.

Where a formula states several things, the Markdown cell that displays it names them in order,
``parts:eq-attention-backward:dQ:dK``, and each check says which it establishes,
``verifies:eq-attention-backward:general:dQ``. The equation is as strong as its weakest part.

A proof for every size that takes a special case of what is stated, two layers for any number of them or one
family of functions for every function, is of the kind `special`. The metadata of its cell say which case it
is, in plain text: ``{"handgrad": {"case": "two layers, one head each, no mask"}}``.

Such a cell types the formula again, and only an eye compares it with the one on the page. A call of
`handgrad.page` reads the page itself, and needs no tag:

    page = read("05_normalization.ipynb")
    norm = page.given("eq-layer-norm", letters="x (D)")
    norm.prove("eq-layer-norm-dx")
    norm.holds("eq-gamma-outside")

It is a statement of its own at the top level of a cell that runs, and names equations by literal strings.
``prove`` and ``holds`` claim each of them, with all its parts; ``given`` reads definitions. A cell whose
``prove`` takes a special case states it in its metadata too. Why an equation is compared by eye after all,
its Markdown cell may state: ``{"handgrad": {"eye": {"eq-label": "reason"}}}``.

`equations` reads the labelled equations of a notebook with their evidence; `problems` lists what breaks the
rule; `index` writes the page; `replay` returns the statements that read the formulas. The kind is stated, or
follows from the call; a stated one is checked as far as a machine can: the cell calls the checker of that
kind, on something that has to do with the left side (`letters`). What counts as a check is decided from the
syntax tree of the cell, never from its text: see `evidence`.
"""

import ast
import copy
import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from markdown_it import MarkdownIt
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from .letters import definitions, left_sides, mentions, plain
from .runs import parse

LABEL = re.compile(r"eq(-[a-z0-9]+)+")

# The kinds of evidence, strongest first, as the index names them.
KINDS = {
    "general": "proved for every size",
    "special": "proved for every size, in a special case",
    "shipped": "proved on the shipped lines",
    "exact": "exact in SymPy",
    "asserted": "asserted on numbers",
    "definition": "definition",
}
MARKS = {
    "general": "∀",
    "special": "∀*",
    "shipped": "⊢",
    "exact": "=",
    "asserted": "≈",
    "definition": "≔",
}
"""The sign of each kind, beside the number of an equation."""
CHECKER = {
    "general": "sums.prove_equal",
    "special": "sums.prove_equal",
    "shipped": "check.prove",
    "exact": "an assertion about SymPy expressions",
    "asserted": "a check that can fail",
}

# A call is a check if its name leads to one of these, or to an assert_* of a testing module. All raise.
# What a cell proves is "general" for the machine: only its author can say that it is a special case.
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
NOT_RUN = {"skip-execution", "raises-exception"}
PAGE = "handgrad.page"
CLAIMING = ("prove", "holds", "number")
"""The methods of a page that claim something, ``number`` in a cell that checks, or is quoted.

``given`` only reads.
"""

# How the formula on the page and what is checked were compared: each reading in words.
READINGS = {
    "proved": "proved for every size, from the page",
    "exact": "exact in SymPy, from the page",
    "evaluated": "evaluated, from the page",
    "taken": "its value taken from the page and compared",
    "read": "definition, read from the page",
    "eye": "compared by eye: the cell types the formula again",
}
READ_AS = {
    "proved": "general",
    "exact": "exact",
    "evaluated": "asserted",
    "taken": "asserted",
    "read": "definition",
}
"""The kind of evidence that each reading of the page gives."""


@dataclass(frozen=True)
class Equation:
    """One labelled equation: its TeX, the index of its cell, and the evidence for each of its parts.

    parts: the stated kinds, strongest first, by the name of the part; an equation of one part calls it "".
    cases: by the name of the part, the special cases in which it is proved.
    calls: the methods of a page that name it, of "given", "prove", "holds" and "number".
    reason: why it is compared by eye, where its cell says so.
    """

    label: str
    formula: str
    cell: int
    parts: dict[str, tuple[str, ...]]
    cases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    calls: frozenset[str] = frozenset()
    reason: str = ""

    @property
    def evidence(self):
        """Pairs (kinds, the parts that have these kinds), the weakest first."""
        groups, order = {}, (*KINDS, None)
        for part, kinds in self.parts.items():
            groups.setdefault(kinds, []).append(part)
        return sorted(groups.items(), key=lambda group: (-order.index((*group[0], None)[0]), len(group[0])))

    @property
    def strength(self):
        """The strongest kind that all parts have; None if a part has no evidence."""
        return (*self.evidence[0][0], None)[0]

    @property
    def reading(self):
        """How the printed formula was compared with what is checked, one of `READINGS`."""
        if "prove" in self.calls:
            return "proved" if sized(self.formula) else "exact"
        if "holds" in self.calls:
            return "evaluated"
        if "number" in self.calls:
            return "taken"
        typed = {kind for kinds in self.parts.values() for kind in kinds} - {"definition"}
        return "read" if "given" in self.calls and not typed else "eye"

    @property
    def from_page(self):
        """Whether the strongest evidence comes from the page itself, and not from a formula typed again."""
        return READ_AS.get(self.reading) == self.strength

    @property
    def how(self):
        """The reading in words."""
        if self.reading == "eye" and self.strength == "definition":
            return "compared by eye: the cells that use it type it again"
        return READINGS[self.reading]

    def told(self, kinds, parts):
        """Some kinds in words, with the special cases in which these parts are proved."""
        cases = "; ".join(dict.fromkeys(case for part in parts for case in self.cases.get(part, ())))
        words = {kind: KINDS[kind] + (f" ({cases})" if kind == "special" else "") for kind in kinds}
        if READ_AS.get(self.reading) not in words:
            return ", ".join(words.values())
        return ", and ".join((words | {READ_AS[self.reading]: self.how}).values())

    def with_reading(self, words):
        """What `told` says, and the reading where it is not in these words."""
        return words if self.how in words else f"{words}; {self.how}"


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


_COMMAND = r"\\(?:text|mathrm|operatorname|mathsf)\s*\{[^{}]*\}|\\[a-zA-Z]+"
_INDEX = re.compile(r"(?<=[a-zA-Z0-9})\]'])\s*_\s*(\{(?:[^{}]|\{[^{}]*\})*\}|[a-z])")
_NO_INDEX = re.compile(r"\\(lim|max|min|sup|inf|log|ln|int|partial|operatorname\*\{[^{}]*\}|mathbb\{E\})$")


def sized(formula):
    r"""Whether a formula is about something that has a size, as far as its TeX tells.

    That is a sum or a product, a bold letter or one without serifs, or a letter or a bracket with an index,
    as in ``x_j`` and ``W_{ki}``. Numbers are no indices, nor are names: ``W_Q``, ``L_\star``.
    """
    if re.search(r"\\(sum|prod|mathbf|boldsymbol|mathsf)(?![a-zA-Z])", formula):
        return True
    formula = re.sub(r"\\text\s*\{[^{}]*\}", "", formula).replace(r"\ell", " l")
    return any(
        re.search("[a-z]", re.sub(_COMMAND, "", match[1])) and not _NO_INDEX.search(formula[: match.start()])
        for match in _INDEX.finditer(formula)
    )


# ------------------------------------------------------------------------------------------------------------
# Code: what a cell checks


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
    """Yield (kind, node) of each check that certainly runs, and certainly is heard when it fails."""
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
                yield "asserted", statement  # a refutation
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
                yield CHECKERS[name], call
            elif TESTING.fullmatch(name):
                yield "asserted", call


def _asserted(test, names):
    """An assertion is as strong as what it asks: equality for every size, equality by SymPy, or numbers."""
    asked = {origin(node.func, names) or "" for node in ast.walk(test) if isinstance(node, ast.Call)}
    asked |= {
        origin(node, names) or "" for node in ast.walk(test) if isinstance(node, (ast.Name, ast.Attribute))
    }
    if any(name == "handgrad.sums.equal" for name in asked):
        yield "general", test
    elif any(name.startswith("sympy.") or name == "handgrad.check.is_zero" for name in asked):
        yield "exact", test
    else:
        yield "asserted", test
    yield from _called(test, names)


def evidence(source, names=()):
    """The kinds of check that a code cell executes, strongest first; () if it checks nothing.

    source: the cell's text; names: what earlier cells imported (from `imported`). A check is an ``assert``
    that can fail, a call of a checker (`CHECKERS`), or ``with pytest.raises(...)``; not one in the body of a
    function, under ``if False``, or in a ``try`` that catches its failure.
    """
    tree = parse(source)
    return _strongest_first({kind for kind, _ in _checks(tree.body, imported(tree, names))})


def _strongest_first(kinds):
    return tuple(kind for kind in KINDS if kind in kinds)


# ------------------------------------------------------------------------------------------------------------
# Code: what a cell reads from the page


@dataclass(frozen=True)
class Reading:
    """A top-level statement that belongs to the page, with the cell that holds it and its place.

    calls: the pairs (method, labels) of its calls of a page; refused: whether they take more than literals;
    beside: whether the statement only takes numbers from the page, beside what it does itself.
    """

    place: int
    cell: nbformat.NotebookNode
    statement: ast.stmt
    calls: tuple[tuple[str, tuple[str, ...]], ...] = ()
    refused: bool = False
    beside: bool = False


def _of_page(name):
    return name == PAGE or name.startswith(f"{PAGE}.")


def _page_imports(statement):
    """The aliases of an import that have to do with `handgrad.page`."""
    if isinstance(statement, ast.Import):
        return [alias for alias in statement.names if alias.name == "handgrad" or _of_page(alias.name)]
    return [alias for alias in statement.names if _of_page(f"{statement.module}.{alias.name}")]


def _rebound(statement):
    """The names that a statement binds, deletes, or changes by ``name.attribute = ...``."""
    for node in ast.walk(statement):
        if isinstance(node, (ast.Name, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            while isinstance(node, ast.Attribute):
                node = node.value
            yield getattr(node, "id", None)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                if (name, alias.asname) != ("handgrad", None):  # import handgrad.sums leaves handgrad.page
                    yield name


def _chain(node, names, pages):
    """The calls that make a page object, the first one first; None if an expression is not one."""
    if isinstance(node, ast.Name):
        return [] if node.id in pages else None
    if isinstance(node, ast.Call):
        if origin(node.func, names) == f"{PAGE}.read":
            return [node]
        if getattr(node.func, "attr", None) == "given":
            before = _chain(node.func.value, names, pages)
            return None if before is None else [*before, node]
    return None


def _page_calls(statement, names, pages):
    """The calls of a page that a simple statement makes; None if it does not belong to the page."""
    if isinstance(statement, ast.Assign) and all(isinstance(t, ast.Name) for t in statement.targets):
        return _chain(statement.value, names, pages)
    if isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
        if getattr(call.func, "attr", None) in CLAIMING[:2]:
            before = _chain(call.func.value, names, pages)
            return None if before is None else [*before, call]
        return _chain(call, names, pages)
    return None


def _foreign(node, names, pages):
    """Whether an expression uses a name that is neither a page object nor from `handgrad.page`."""
    if _of_page(origin(node, names) or ""):
        return False
    if isinstance(node, ast.Name):
        return node.id not in pages
    return any(_foreign(child, names, pages) for child in ast.iter_child_nodes(node))


def _literal(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _written_out(arguments):
    """The arguments, with those of a list that is written out, ``*["eq-a", "eq-b"]``."""
    for argument in arguments:
        if isinstance(argument, ast.Starred) and isinstance(argument.value, (ast.List, ast.Tuple)):
            yield from argument.value.elts
        else:
            yield argument


def _labels(call):
    """The labels that a call names. To ``given``, another string is a formula of the running text."""
    names = [arg.value for arg in _written_out(call.args) if _literal(arg)]
    return [name for name in names if name.startswith("eq-")] if call.func.attr == "given" else names


def _reading(place, cell, statement, names, pages):
    """The `Reading` of a statement that runs, given what names stand for; None if it is none of the page."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        of_page = copy.copy(statement)
        of_page.names = _page_imports(statement)
        return Reading(place, cell, of_page) if of_page.names else None
    calls = _page_calls(statement, names, pages)
    if calls is None:
        return None
    naming = [call for call in calls if origin(call.func, names) != f"{PAGE}.read"]
    arguments = [arg for call in naming for arg in _written_out(call.args)]
    named = tuple((call.func.attr, tuple(_labels(call))) for call in naming)
    refused = _foreign(statement.value, names, pages) or not all(map(_literal, arguments))
    return Reading(place, cell, statement, named, refused)


def _readings(notebook):
    """Yield a `Reading` for each statement of a notebook that belongs to the page, in order."""
    names, pages, known = {}, set(), {}
    for place, cell in enumerate(notebook.cells):
        runs = not NOT_RUN & set(cell.metadata.get("tags", []))
        body = parse(cell.source).body if cell.cell_type == "code" else []
        known = imported(ast.Module(body, []), known)
        for row, statement in enumerate(body):
            reading = _reading(place, cell, statement, names, pages) if runs else None
            for name in _rebound(statement):
                names.pop(name, None)
                pages.discard(name)
            if reading and isinstance(statement, ast.Assign):
                pages |= {target.id for target in statement.targets}
            elif reading:
                names = imported(reading.statement, names)
            quoted = "quoted" in cell.metadata.get("tags", [])  # nbval compares what it prints
            checks = runs and reading is None and (quoted or checked_below(body[row:], known))
            if checks and (labels := _numbers(statement, names, pages)):
                yield Reading(place, cell, statement, (("number", labels),), beside=True)
            if reading:
                yield reading


def checked_below(body, names):
    """Whether a check has to do with what the first of some statements does.

    It stands in this statement, or uses a name that it binds, or one that is made from such a name.
    """
    made = set()
    for row, statement in enumerate(body):
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if row and not used & made:
            continue
        made |= {name for name in _rebound(statement) if name}
        made |= {
            node.value.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
        }
        for _, check in _checks([statement], names):
            if not row or made & {node.id for node in ast.walk(check) if isinstance(node, ast.Name)}:
                return True
        called = getattr(getattr(statement, "value", None), "func", None)
        if isinstance(getattr(called, "value", None), ast.Name):  # rows.append(...)
            made.add(called.value.id)
    return False


def _numbers(statement, names, pages):
    """The labels of the equations whose numbers a statement takes, by ``given.number("eq-label", ...)``."""
    return tuple(
        node.args[0].value
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") == "number"
        and node.args
        and _literal(node.args[0])
        and _chain(node.func.value, names, pages) is not None
    )


def replay(notebook):
    """The top-level statements of a notebook that belong to the page, in order, as pairs (cell, statement).

    Those are the imports of `handgrad.page`, without what is imported beside it, the assignments of page
    objects, and the calls of ``given``, ``prove`` and ``holds``. `problems` sees that they use nothing else,
    so they run alone, with another text of the page.
    """
    return [(reading.cell, reading.statement) for reading in _readings(notebook) if not reading.beside]


def _calls(notebook):
    """The methods of a page that name each label: {label: {method}}."""
    found = {}
    for reading in _readings(notebook):
        for method, labels in reading.calls:
            for label in labels:
                found.setdefault(label, set()).add(method)
    return found


# ------------------------------------------------------------------------------------------------------------
# Notebooks


def _tags(cell, prefix):
    return [tag.removeprefix(prefix) for tag in cell.metadata.get("tags", []) if tag.startswith(prefix)]


@dataclass(frozen=True)
class Claim:
    """A tag ``verifies:label:kind:part:part`` with the cell that bears it and what the cell really holds."""

    tag: str
    cell: nbformat.NotebookNode
    held: dict[str, set[str]]  # what its checks of each kind have to do with, from `mentions`

    @property
    def label(self):
        return self.tag.split(":")[0]

    @property
    def kind(self):
        return (*self.tag.split(":"), "")[1]

    @property
    def parts(self):
        return self.tag.split(":")[2:] or [""]

    @property
    def case(self):
        """The special case that is proved; "" for another kind, or where the cell does not state it."""
        return _case(self.cell) if self.kind == "special" else ""

    @property
    def mentioned(self):
        """What the checks that are strong enough have to do with; None if there is none."""
        if self.kind == "asserted":
            return set().union(*self.held.values()) if self.held else None
        wanted = CHECKER.get(self.kind)
        return next((found for kind, found in self.held.items() if CHECKER[kind] == wanted), None)


def _case(cell):
    """The special case that the metadata of a cell state; "" if they state none."""
    case = cell.metadata.get("handgrad", {}).get("case", "")
    return case.strip() if isinstance(case, str) else ""


def _claims(notebook):
    """The claims of the code cells of a notebook, in order."""
    names, known, claims = {}, {}, []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            tree = parse(cell.source)
            now, known, held = imported(tree, names), definitions(tree, known), {}
            tags = _tags(cell, "verifies:")
            for kind, check in _checks(tree.body, now) if tags else ():
                held.setdefault(kind, set()).update(mentions(check, known))
            claims += [Claim(tag, cell, held) for tag in tags]
            names = now
    return claims


def equations(notebook):
    """The labelled equations of a notebook (from ``nbformat.read``), in order, each an `Equation`."""
    claims, calls, proved = _claims(notebook), _calls(notebook), _cases(notebook)
    result = []
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            named, defined, reasons = _parts(cell), _tags(cell, "definition:"), _reasons(cell)
            for label, formula in displayed(cell.source):
                if label:
                    stated, cases = {part: set() for part in named.get(label, [""])}, {}
                    for claim in claims:
                        for part in claim.parts if claim.label == label else ():
                            stated.setdefault(part, set()).add(claim.kind)
                            cases.setdefault(part, {}).update({claim.case: None} if claim.case else {})
                    if label in defined:
                        stated.setdefault("", set()).add("definition")
                    methods = frozenset(calls.get(label, ()))
                    for part, kinds in stated.items():
                        for method in methods & set(CLAIMING):
                            kinds.add(kind := _page_kind(method, formula, proved.get(label)))
                            if kind == "special":
                                cases.setdefault(part, {}).update(dict.fromkeys(proved[label]))
                    parts = {part: _strongest_first(kinds) for part, kinds in stated.items()}
                    named_cases = {part: tuple(cases.get(part, ())) for part in parts}
                    reason = reasons.get(label, "")
                    result.append(Equation(label, formula, place, parts, named_cases, methods, reason))
    return result


def _page_kind(method, formula, cases):
    """The kind of evidence of a claiming call for a whole equation; cases: the special ones it takes."""
    if method in ("holds", "number"):
        return "asserted"
    if cases:
        return "special"
    return "general" if sized(formula) else "exact"


def _cases(notebook):
    """The special cases in which page calls prove each equation; none if one proves it as it is."""
    found = {}
    for reading in _readings(notebook):
        for method, labels in reading.calls:
            for label in labels if method == "prove" else ():
                found.setdefault(label, []).append(_case(reading.cell))
    return {label: cases if all(cases) else [] for label, cases in found.items()}


def checked_in(notebook):
    """The cell that checks each equation: {label: its index}. Cells that read the page come first."""
    found = {}
    for reading in _readings(notebook):
        for method, labels in reading.calls:
            for label in labels if method in CLAIMING else ():
                found.setdefault(label, reading.place)
    for place, cell in enumerate(notebook.cells):
        for tag in _tags(cell, "verifies:"):
            found.setdefault(tag.split(":")[0], place)
    return found


def _reasons(cell):
    """Why equations of a cell are compared by eye: {label: reason}, as its metadata say."""
    stated = cell.metadata.get("handgrad", {}).get("eye", {})
    return {
        label: reason.strip() if isinstance(reason, str) else ""
        for label, reason in (stated.items() if isinstance(stated, dict) else ())
    }


def _parts(cell):
    """The parts that the tags ``parts:label:part:part`` of a Markdown cell name: {label: [part]}."""
    split = (tag.partition(":") for tag in _tags(cell, "parts:"))
    return {label: parts.split(":") for label, _, parts in split}


def problems(notebook):
    """What breaks the rule in a notebook, as sentences; [] if every displayed equation is accounted for."""
    wrong, shown, named, defined, calls = [], [], {}, [], _calls(notebook)
    readings = {equation.label: equation.reading for equation in equations(notebook)}
    proving = {r.cell.id for r in _readings(notebook) if any(method == "prove" for method, _ in r.calls)}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            here = displayed(cell.source)
            shown += here
            named |= _parts(cell)
            defined += _tags(cell, "definition:")
            labels = [label for label, _ in here]
            for prefix, tagged in (("definition", _tags(cell, "definition:")), ("parts", _parts(cell))):
                wrong += [
                    f"{label}: the cell tagged {prefix}:{label} does not display it"
                    for label in tagged
                    if label not in labels
                ]
        if "case" in cell.metadata.get("handgrad", {}) and not any(
            tag.split(":")[1:2] == ["special"] for tag in _tags(cell, "verifies:")
        ):
            if cell.id not in proving:
                wrong.append(
                    f"{cell.id}: its metadata state a case, but no tag reads verifies:LABEL:special, "
                    "and it proves nothing from the page"
                )
            elif not _case(cell):
                wrong.append(
                    f"{cell.id}: expected a case in words, got {cell.metadata['handgrad']['case']!r}"
                )
        wrong += _wrong_reasons(cell, readings)
    wrong += [
        f"displayed equation without a label (a blank line before $$?): {tex}"
        for label, tex in shown
        if not label
    ]
    formulas = {label: tex for label, tex in shown if label}
    claims = _claims(notebook)
    for claim in claims:
        wrong += [f"{claim.label}: {words}" for words in _wrong_claim(claim, formulas, named)]
    for label, times in Counter(label for label, _ in shown if label).items():
        mine = [claim for claim in claims if claim.label == label]
        by_page = bool(calls.get(label, set()) & set(CLAIMING))
        complaints = _wrong_equation(formulas[label], mine, named.get(label), by_page)
        wrong += [f"{label}: {words}" for words in complaints]
        if not LABEL.fullmatch(label):
            wrong.append(f"{label}: a label reads eq-words-with-hyphens")
        if times > 1:
            wrong.append(f"{label}: {times} equations have this label")
        if not mine and not by_page and label not in defined:
            wrong.append(f"{label}: no cell verifies it, and it is not tagged as a definition")
        if mine and label in defined:
            wrong.append(f"{label}: tagged both as verified and as a definition")
        if by_page and label in defined:
            wrong.append(f"{label}: tagged as a definition, but a page call proves or evaluates it")
    for label in calls:
        if label not in formulas:
            wrong.append(f"{label}: a page call names it, but no equation has this label")
    wrong += [
        f"{reading.cell.id}: page calls take literals only: {ast.unparse(reading.statement)[:60]!r}"
        for reading in _readings(notebook)
        if reading.refused
    ]
    return wrong


def _wrong_reasons(cell, readings):
    """What is wrong with the reasons that a cell gives for comparing by eye; readings: {label: reading}."""
    stated = cell.metadata.get("handgrad", {}).get("eye", {})
    if not isinstance(stated, dict):
        yield f'{cell.id}: expected {{"handgrad": {{"eye": {{"eq-label": "reason"}}}}}}, got {stated!r}'
        return
    shown = [label for label, _ in displayed(cell.source)] if cell.cell_type == "markdown" else []
    for label, reason in stated.items():
        if label not in shown:
            yield f"{label}: a cell says why it is compared by eye, but does not display it"
        elif readings[label] != "eye":
            yield f"{label}: its cell says why it is compared by eye, but a page call reads it"
        if not isinstance(reason, str) or not reason.strip():
            yield f"{label}: its cell says that it is compared by eye, but gives no reason"


def _wrong_equation(formula, claims, named, by_page):
    """What is wrong with the parts that an equation names, given the claims about it.

    by_page: whether a page call claims it, with all its parts.
    """
    stated = len(left_sides(formula))
    if claims and stated > 1 and not named:
        yield f"its formula has {stated} left sides; name them, with the tag parts:LABEL:NAME:NAME"
    if named and len(named) < stated:
        yield f"names {len(named)} parts, but its formula has {stated} left sides"
    verified = {part for claim in claims for part in claim.parts}
    if not by_page:
        yield from (f"no cell verifies its part {part}" for part in named or () if part not in verified)


def _wrong_claim(claim, formulas, named):
    """What is wrong with one tag of a verifying cell."""
    tag, tags = f"verifies:{claim.tag}", set(claim.cell.metadata.get("tags", []))
    if claim.label not in formulas:
        yield f"tagged {tag}, but no equation has this label"
        return
    if not claim.held:
        yield f"its verifying cell holds no check that can fail: {claim.cell.source[:60]!r}"
    if tags & NOT_RUN:
        yield f"its verifying cell is tagged {sorted(tags & NOT_RUN)}, so it need not pass"
    if claim.kind not in CHECKER:
        yield f"tagged {tag}: expected one of {', '.join(CHECKER)} after the label, got {claim.kind!r}"
        return
    if claim.held and claim.mentioned is None:
        yield f"tagged {tag}, but the cell does not call {CHECKER[claim.kind]}"
    if claim.kind == "special" and not claim.case:
        yield f'tagged {tag}, but the metadata of the cell state no case: {{"handgrad": {{"case": "..."}}}}'
    parts = named.get(claim.label, [""])
    sides = left_sides(formulas[claim.label])
    for part in claim.parts:
        if part not in parts:
            yield (
                f"tagged {tag}, expected a part of {parts}" if part else f"tagged {tag}, which names no part"
            )
        elif claim.mentioned is not None:
            left = sides[parts.index(part)] if len(sides) == len(parts) else set()
            if wanted := _missing(claim.mentioned, left, part):
                yield f"tagged {tag}, but what is checked has nothing to do with {wanted}"


def _missing(mentioned, left, part):
    """What a check must mention to be about a part, if it does not.

    That is the name of the part, or the gradients on its left side (dq is not q), or else one of its letters.
    """
    gradients = {letter for letter in left if re.fullmatch(r"d\w+", letter)}
    if part and plain(part) in mentioned or gradients and gradients <= mentioned:
        return ""
    if gradients:
        return " and ".join(sorted(gradients - mentioned))
    wanted = left | ({plain(part)} if part else set())
    return "" if wanted & mentioned or not wanted else " or ".join(sorted(wanted))


# ------------------------------------------------------------------------------------------------------------
# The page


def chapters(folder):
    """The chapter notebooks of a folder, in order, as pairs (path, notebook): those named NN_topic.ipynb."""
    return [
        (path, nbformat.read(path, as_version=4)) for path in sorted(Path(folder).glob("[0-9][0-9]_*.ipynb"))
    ]


def index(folder, damage=None):
    """The equation index as MyST Markdown: every labelled equation of the chapters in `folder`.

    damage: what became of the slips in each formula, {stem of the notebook: {label: entry}}, as
    `damage.recorded` gives it; without it the index says nothing of them.
    Raises FileNotFoundError if the folder holds no chapter.
    """
    read = chapters(folder)
    if not read:
        raise FileNotFoundError(
            f"folder: expected chapter notebooks NN_topic.ipynb in {Path(folder).resolve()}, found none"
        )
    listed = {path.stem: equations(notebook) for path, notebook in read}
    found = [equation for chapter in listed.values() for equation in chapter]
    total = Counter((equation.strength, equation.from_page) for equation in found)
    lines = ["| Evidence for the whole equation | From the page | Typed again |", "| :-- | --: | --: |"]
    lines += [f"| {name} | {total[kind, True]} | {total[kind, False]} |" for kind, name in KINDS.items()]
    lines += ["", f"Compared by eye: {sum(map(_by_eye, found))} of {len(found)} equations.", ""]
    for name, chapter in listed.items():
        if links := ", ".join(_link(equation) for equation in chapter if _by_eye(equation)):
            lines.append(f"- {{doc}}`/notebooks/{name}`: {links}")
    for name, chapter in listed.items():
        lines += ["", f"## {{doc}}`/notebooks/{name}`"]
        for equation in chapter:
            slips = _slips((damage or {}).get(name, {}).get(equation.label))
            sentence = f"{{eq}}`{equation.label}` {_sentence(equation)}{slips}"
            lines += ["", sentence, "", "$$", equation.formula, "$$"]
    return "\n".join(lines)


def _slips(entry):
    """What became of the slips in a formula, in words: "; 12 slips: 11 refused, 1 says the same"."""
    if not entry or not entry["edits"]:
        return ""
    same, alive = len(entry["same"]), len(entry["alive"])
    parts = [
        (entry["refused"], "refused", "refused"),
        (same, "says the same", "say the same"),
        (alive, "not noticed", "not noticed"),
    ]
    told = ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in parts if n)
    return f"; {entry['edits']} slip{'s' * (entry['edits'] > 1)}: {told}"


def _by_eye(equation):
    """Whether an equation has evidence that only an eye has compared with the page."""
    return bool(equation.strength) and equation.reading == "eye"


def _link(equation):
    """A link to an equation, with the reason why it is compared by eye if one is stated."""
    return f"{{eq}}`{equation.label}`" + (f" ({_verbatim(equation.reason)})" if equation.reason else "")


def _sentence(equation):
    """The evidence in words, the weakest part first: "exact in SymPy (gap); proved for every size (sum)".

    The reading stands with the kind that it gives, or at the end.
    """
    words = []
    for kinds, parts in equation.evidence:
        names = ", ".join(f"`{part}`" for part in parts) if len(equation.parts) > 1 else ""
        evidence = _verbatim(equation.told(kinds, parts)) or "**not checked**"
        words.append(f"{evidence} ({names})" if names else evidence)
    words = "; ".join(words)
    return equation.with_reading(words) if equation.strength else words


def _verbatim(text):
    """Plain text as Markdown that shows it as it is."""
    return re.sub(r"([\\`*_$<>\[\]{}|])", r"\\\1", text)
