"""Which equation of the book is checked, by what, and where: the source of the equation index.

A displayed equation carries a label, ``$$ ... $$ (eq-softmax-jacobian)``. The cells that check it read it
from the page, so that nothing is typed twice:

    page = read("05_normalization.ipynb")
    norm = page.given("eq-layer-norm", letters="x (D)")
    norm.prove("eq-layer-norm-dx")
    norm.holds("eq-invariances")
    assert norm.number("eq-norm-cost", D=512) == counted

``read``, ``given``, ``prove`` and ``holds`` are statements of their own at the top level of a cell, and use
nothing but strings and each other. Every cell runs as a test, and each of these calls raises if it fails: one
that stands there has passed. ``number`` may stand anywhere in a cell that asserts something, or whose output
is quoted and compared.

An equation that only gives a name to something needs no check: its Markdown cell carries the tag
``definition:eq-softmax-jacobian``. A formula that cannot be read is typed again in a code cell with the tag
``typed:eq-label``, and only an eye compares the two; the Markdown cell may say why:
``{"handgrad": {"eye": {"eq-label": "reason"}}}``. A cell whose ``prove`` takes a special case of what is
stated, two layers for any number of them, says which: ``{"handgrad": {"case": "two layers"}}``.

`equations` reads the labelled equations of a notebook with their evidence, `problems` lists what breaks the
rule, `index` writes the page, `replay` returns the statements that read the formulas.
"""

import ast
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

from ..page import stated
from .runs import parse

LABEL = re.compile(r"eq(-[a-z0-9]+)+")
KINDS = {
    "general": "proved for every size, from the page",
    "special": "proved for every size, from the page, in a special case",
    "exact": "exact in SymPy, from the page",
    "asserted": "evaluated, from the page",
    "typed": "checked where a cell types it again; compared by eye",
    "definition": "definition, read from the page",
    "named": "definition, compared by eye: the cells that use it type it again",
}
"""The kinds of evidence, the strongest first, as the index names them."""
MARKS = dict(zip(KINDS, ("∀", "∀*", "=", "≈", "✎", "≔", "≔")))
"""The sign of each kind, beside the number of an equation."""
NOT_RUN = {"skip-execution", "raises-exception"}
PAGE = "handgrad.page"
METHODS = {"given", "prove", "holds", "refuses"}
"""What a statement of the page calls."""


@dataclass(frozen=True)
class Equation:
    """One labelled equation, with its evidence.

    formula, cell: its TeX, and the index of the cell that displays it; kind: one of `KINDS`, None if nothing
    checks it; checked: the index of the cell that does. case: the special case in which it is proved; part:
    which of its statements are read, in words, if not all are; reason: why it is compared by eye.
    """

    label: str
    formula: str
    cell: int
    kind: str | None = None
    checked: int | None = None
    case: str = ""
    part: str = ""
    reason: str = ""

    @property
    def told(self):
        """The evidence in words."""
        if self.kind is None:
            return "**not checked**"
        return KINDS[self.kind] + "".join(f" ({more})" for more in (self.case, self.part) if more)


# ------------------------------------------------------------------------------------------------------------
# Markdown: the displayed formulas

_MARKDOWN = (
    MarkdownIt("commonmark")
    .use(front_matter_plugin)
    .use(dollarmath_plugin, allow_labels=True, double_inline=True)
    .use(colon_fence_plugin)
    .use(amsmath_plugin)
)


def prose(notebook):
    """The Markdown of a notebook."""
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def displayed(text):
    """The displayed formulas of a Markdown text, in order, as pairs (label or None, TeX).

    Formulas inside directives and lists are found; code blocks are not searched. A formula that shares a
    paragraph with text has no label, whatever stands behind it, because MyST reads none there.
    """
    found = []
    for token in _MARKDOWN.parse(text):
        if token.type in ("math_block", "math_block_label", "amsmath"):
            found.append((token.info or None, token.content.strip()))
        elif token.type == "inline":
            found += [(None, c.content.strip()) for c in token.children if c.type == "math_inline_double"]
        elif token.info.strip().startswith("{math}"):
            label = re.search(r"^:label:\s*(\S+)\s*$", token.content, re.MULTILINE)
            formula = re.sub(r"^:\w+:.*$", "", token.content, flags=re.MULTILINE)
            found.append((label and label[1], formula.strip()))
        elif re.match(r"\{(?!code)", token.info.strip()):
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
# Code: what a cell reads from the page


def running(notebook):
    """The code cells that run, as triples (index, cell, its statements)."""
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "code" and not NOT_RUN & set(_tags(cell)):
            yield place, cell, parse(cell.source).body


def _bound(statement):
    """The names that a statement binds or deletes, or of which it changes an attribute."""
    for node in ast.walk(statement):
        if isinstance(node, (ast.Name, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            yield _root(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)


def _root(node, methods=()):
    """The name at the left end of ``page.given(...).prove``; None if there is none, or another method.

    methods: those of which the chain may consist; all if none is named.
    """
    while isinstance(node, (ast.Call, ast.Attribute)):
        if isinstance(node, ast.Attribute) and methods and node.attr not in methods:
            return None
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", None)


def _belongs(statement, pages):
    """Whether a statement imports from the page, or is a chain of calls on it alone, or gives it a name."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module == PAGE
    if not all(isinstance(target, ast.Name) for target in getattr(statement, "targets", ())):
        return False
    used = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    chain = isinstance(statement, (ast.Assign, ast.Expr)) and _root(statement.value, METHODS) in pages
    return chain and used <= pages


def _followed(notebook):
    """Yield (index of the cell, cell, statement, whether it belongs to the page, the names of pages)."""
    pages = set()
    for place, cell, body in running(notebook):
        for statement in body:
            belongs = _belongs(statement, pages)
            yield place, cell, statement, belongs, frozenset(pages)
            pages -= set(_bound(statement))
            if belongs and isinstance(statement, ast.ImportFrom):
                pages |= {alias.asname or alias.name for alias in statement.names if alias.name == "read"}
            elif belongs:
                pages |= {target.id for target in getattr(statement, "targets", ())}


def replay(notebook):
    """The statements of a notebook that belong to the page, in order, as pairs (cell, statement).

    They use nothing but each other, so they run alone, with another text of the page.
    """
    return [(cell, statement) for _, cell, statement, belongs, _ in _followed(notebook) if belongs]


@dataclass(frozen=True)
class Call:
    """A call that reads an equation, "prove", "holds", "given" or "number": where, and of which statement."""

    method: str
    label: str
    place: int
    cell: nbformat.NotebookNode
    part: int | None = None


def calls(notebook):
    """The calls of a notebook that read labelled equations, in order."""
    found = []
    for place, cell, statement, belongs, pages in _followed(notebook):
        for node in ast.walk(statement):
            method = getattr(getattr(node, "func", None), "attr", "")
            if not isinstance(node, ast.Call) or _root(node.func.value if method else node) not in pages:
                continue
            top = belongs and isinstance(statement, ast.Expr) and node is statement.value
            if method == "given" and belongs or method in ("prove", "holds") and top:
                inner = [n for argument in node.args for n in ast.walk(argument)]
                named = [n.value for n in inner if isinstance(n, ast.Constant)]
                found += [Call(method, name, place, cell) for name in named if name.startswith("eq-")]
            elif method == "number" and node.args and _compared(cell):
                part = next((k.value for k in node.keywords if k.arg == "part"), ast.Constant(-1))
                if not any(isinstance(inner, ast.Name) for inner in ast.walk(part)):
                    found.append(Call(method, node.args[0].value, place, cell, ast.literal_eval(part)))
    return found


def _compared(cell):
    """Whether something in a cell is asserted, or quoted and compared by the test of its output."""
    return "quoted" in _tags(cell) or any(map(_can_fail, ast.walk(parse(cell.source))))


def _can_fail(node):
    """Whether a node asserts what is not settled before it runs, or calls what raises if it differs."""
    if isinstance(node, ast.Assert):
        return any(isinstance(inner, (ast.Name, ast.Call)) for inner in ast.walk(node.test))
    called = getattr(node, "func", None) if isinstance(node, ast.Call) else None
    return bool(re.match("assert_|prove_equal", getattr(called, "attr", getattr(called, "id", ""))))


# ------------------------------------------------------------------------------------------------------------
# Notebooks


def _tags(cell, prefix=""):
    return [tag.removeprefix(prefix) for tag in cell.metadata.get("tags", []) if tag.startswith(prefix)]


def _stated(cell, name, default):
    return cell.metadata.get("handgrad", {}).get(name, default)


def equations(notebook):
    """The labelled equations of a notebook (from ``nbformat.read``), in order, each an `Equation`."""
    read, found = calls(notebook), []
    typed = {
        label: place
        for place, cell, _ in running(notebook)
        for label in _tags(cell, "typed:")
        if _compared(cell)
    }
    for place, cell in enumerate(notebook.cells):
        for label, formula in displayed(cell.source) if cell.cell_type == "markdown" else ():
            of_it, defined = [c for c in read if c.label == label], label in _tags(cell, "definition:")
            known = _evidence(formula, of_it, typed.get(label), defined)
            reason = _stated(cell, "eye", {}).get(label, "")
            found += [Equation(label, formula, place, reason=reason, **known)] if label else []
    return found


def _evidence(formula, read, typed, defined):
    """The kind of evidence for an equation, where it is, and what limits it."""
    by = {method: [c for c in read if c.method == method] for method in ("prove", "holds", "number", "given")}
    if proofs := by["prove"]:
        call = min(proofs, key=lambda call: bool(_stated(call.cell, "case", "")))  # the first without one
        case = _stated(call.cell, "case", "")
        kind = "special" if case else "general" if sized(formula) else "exact"
        return dict(kind=kind, checked=call.place, case=case)
    if by["holds"]:
        return dict(kind="asserted", checked=by["holds"][0].place)
    if numbers := by["number"]:
        return dict(kind="asserted", checked=numbers[0].place, part=_part(formula, numbers))
    if typed is not None:
        return dict(kind="typed", checked=typed)
    return dict(kind=("definition" if by["given"] else "named") if defined else None)


def _part(formula, numbers):
    """Which statements of an equation its numbers are taken from, in words; "" if from all of them."""
    statements = stated(formula)
    read = sorted({call.part % len(statements) for call in numbers})
    which = " and ".join(str(part + 1) for part in read)
    last, some = any(len(statements[part].sides) > 2 for part in read), len(read) < len(statements)
    words = ["the last side"] * last + [f"statement {which} of {len(statements)}"] * some
    return " of ".join(words)


def problems(notebook):
    """What breaks the rule in a notebook, as sentences; [] if every displayed equation is accounted for."""
    found, shown, wrong = equations(notebook), [], []
    kinds = {equation.label: equation.kind for equation in found}
    named = calls(notebook)
    proving = {call.place for call in named if call.method == "prove"}
    for place, cell in enumerate(notebook.cells):
        here = displayed(cell.source) if cell.cell_type == "markdown" else []
        shown += here
        labels = [label for label, _ in here]
        for label in _tags(cell, "definition:"):
            if label not in labels:
                wrong.append(f"{label}: the cell tagged definition:{label} does not display it")
            elif kinds[label] not in ("definition", "named"):
                wrong.append(f"{label}: tagged as a definition, but {KINDS[kinds[label]]}")
        for label in _tags(cell, "typed:"):
            if kinds.get(label) != "typed":
                wrong.append(
                    f"{label}: tagged typed:{label}, expected a cell that runs and asserts something, of an "
                    f"equation that no call of the page reads, got {kinds.get(label, 'no such equation')}"
                )
        case = _stated(cell, "case", None)
        if case is not None and not (isinstance(case, str) and case.strip() and place in proving):
            wrong.append(f"{cell.id}: expected a case in words beside a call of prove, got {case!r}")
        for label, reason in _stated(cell, "eye", {}).items():
            if label not in labels or kinds[label] not in ("typed", "named"):
                wrong.append(f"{label}: its cell says why it is compared by eye, but a page call reads it")
            if not isinstance(reason, str) or not reason.strip():
                wrong.append(f"{label}: its cell says that it is compared by eye, but gives no reason")
    wrong += [f"displayed equation without a label (a blank line before $$?): {t}" for n, t in shown if not n]
    for label, times in Counter(label for label, _ in shown if label).items():
        if not LABEL.fullmatch(label):
            wrong.append(f"{label}: a label reads eq-words-with-hyphens")
        if times > 1:
            wrong.append(f"{label}: {times} equations have this label")
        if kinds[label] is None:
            wrong.append(f"{label}: no cell checks it, and it is not tagged as a definition")
    unknown = {call.label: None for call in named if call.label not in kinds}
    return wrong + [f"{label}: a page call names it, but no equation has this label" for label in unknown]


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
    total = Counter(equation.kind for chapter in listed.values() for equation in chapter)
    lines = ["| Mark | Evidence | Equations |", "| :-: | :-- | --: |"]
    lines += [f"| {MARKS[kind]} | {name} | {total[kind]} |" for kind, name in KINDS.items()]
    lines += ["", f"Compared by eye: {total['typed'] + total['named']} of {total.total()} equations.", ""]
    for name, chapter in listed.items():
        if links := ", ".join(_link(e) for e in chapter if e.kind in ("typed", "named")):
            lines.append(f"- {{doc}}`/notebooks/{name}`: {links}")
    lines += ["", "```{raw} html", _filter(listed, total), "```"]
    for name, chapter in listed.items():
        lines += ["", f"::::{{container}} entries chapter-{name[:2]}", "", f"## {{doc}}`/notebooks/{name}`"]
        for equation in chapter:
            slips = _slips((damage or {}).get(name, {}).get(equation.label))
            told = equation.told if equation.kind is None else _verbatim(equation.told)
            lines += ["", f":::{{container}} entry {equation.kind}"]
            lines += [f"{{eq}}`{equation.label}` {told}{slips}", "", "$$", equation.formula, "$$", ":::"]
        lines += ["::::"]
    return "\n".join(lines)


def _filter(listed, total):
    """A form that leaves of the index one chapter, or one kind of evidence; house.js does what it says."""
    kinds = "".join(f'<option value="{kind}">{MARKS[kind]} ({total[kind]})</option>' for kind in KINDS)
    rooms = "".join(f'<option value="chapter-{name[:2]}">{int(name[:2])}</option>' for name in listed)
    return (
        f'<form class="entry-filter" hidden>Show <label>evidence <select name="kind"><option value="">all'
        f'</option>{kinds}</select></label> <label>in chapter <select name="chapter"><option value="">all'
        f"</option>{rooms}</select></label> <output></output></form>"
    )


def _slips(entry):
    """What became of the slips in a formula, in words: "; 12 slips: 11 refused, 1 says the same"."""
    if not entry or not entry["edits"]:
        return ""
    same = len(entry["same"])
    says = "says the same" if same == 1 else "say the same"
    parts = [(entry["refused"], "refused"), (same, says), (len(entry["alive"]), "not noticed")]
    told = ", ".join(f"{number} {words}" for number, words in parts if number)
    return f"; {entry['edits']} slip{'s' * (entry['edits'] > 1)}: {told}"


def _link(equation):
    """A link to an equation, with the reason why it is compared by eye if one is stated."""
    return f"{{eq}}`{equation.label}`" + (f" ({_verbatim(equation.reason)})" if equation.reason else "")


def _verbatim(text):
    """Plain text as Markdown that shows it as it is."""
    return re.sub(r"([\\`*_$<>\[\]{}|])", r"\\\1", text)
