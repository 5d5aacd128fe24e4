r"""The letters of a formula, and the letters that a check in a cell can have to do with.

A check establishes an equation only if it has to do with the equation's left side. `left_sides` reads the
letters of each left side from the TeX. `mentions` collects what a piece of code is computed from: names, the
names in their definitions, and so on, beside the letters under which symbols are displayed, as in
``dys = arrays(r"\mathrm{d}y")``. Lengths and indices are left out, since every sum has them. A derivative
by x, ``gradient(loss, x[j])``, mentions dx; a proof of shipped lines, the gradient of each input.

Letters are compared without regard to case, hyphens of code and fonts of TeX: 𝐗, X and x; x̂ and x_hat.
"""

import ast
import re

from ..ops.table import OPS

GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega"
)
RELATIONS = {"=", "<", ">", r"\le", r"\leq", r"\ge", r"\geq", r"\ne", r"\neq", r"\approx", r"\leftarrow"}
ENDS = {r"\\", r"\quad", r"\qquad", ","}
RELATION = rf"(?:[=<>]|(?:{'|'.join(map(re.escape, sorted(RELATIONS)))})(?![a-zA-Z]))"
# The break before a line that begins with a relation, or has none and begins with a sign.
GOES_ON = rf"\\\\(?:\s|\\q?quad\b|\{{\}})*(?={RELATION}|[-+](?:(?!\\\\|{RELATION}).)*(?:\\\\|$))"
CONDITION = re.compile(r"\s*,?\s*(for|if|with|where|whatever|at|that is)\b")

NO_OBJECTS = {"sizes", "index"}  # their results are lengths and indices, in every sum
SYMBOLS = {"arrays", "labels", "Symbol", "symbols", "IndexedBase"}  # named by a string


def plain(name):
    return re.sub(r"[_^\s]", "", name).lower()


# Formulas ---------------------------------------------------------------------------------------------------


def letters(tex):
    r"""The letters of a formula: ``\mathrm{d}\hat x_j`` → {"dxhat"}, ``\mathbf{W}_Q x_i`` → {"wq", "x"}.

    A derivative ∂y/∂x counts as y and dx. Subscripts are left out, but for capitals; so are numbers,
    operators, and powers that are numbers.
    """
    tex = re.sub(r"\\mathrm\{d\}|(?<=\}\{)\\partial", r"\\gradient ", tex)
    tex = re.sub(r"\\(?:mathbf|boldsymbol)\s*\{([^{}]*)\}", r" \1 ", tex)
    tex = re.sub(r"\\mathbb\{E\}", "", tex)
    tex = re.sub(r"\\(?:mathrm|operatorname)\{(\w+)\}", r"⟨\1⟩", tex)
    tex = re.sub(r"\s*_\s*(?:([A-Z])|\{([A-Z])\})", r"_\1\2", tex)
    while (shorter := re.sub(r"_\s*(\{[^{}]*\}|\\[a-z]+|[a-z0-9])", "", tex)) != tex:
        tex = shorter
    tex = re.sub(r"\^\s*(\\top|\d|\{(\\!)?\d\})|\be\^", "", tex)
    found, before = set(), ""
    for token in re.findall(r"\\[a-zA-Z]+|⟨\w+⟩|[a-zA-Z](?:_[A-Z])?", tex):
        name = token.strip("\\⟨⟩").removeprefix("var")
        if token == r"\gradient":
            before = "d"
        elif token == r"\hat":
            before += "^"
        elif not token.startswith("\\") or name in (*GREEK.split(), "ell"):
            found.add(before.rstrip("^") + plain(name) + "hat" * before.count("^"))
            before = ""
    return found


def left_sides(formula):
    """The letters of the left side of each statement of a formula, in order.

    Statements stand on lines of their own, or apart, or after a comma. A line goes on with the one before if
    it begins with a relation, or has none and begins with + or -. What follows the text "for", "if", "with",
    "where", "at" or "whatever" is a condition, what follows "that is" the same in other letters.
    """
    formula = re.sub(r"\\begin\{cases\}.*?\\end\{cases\}", "", formula, flags=re.DOTALL)
    formula = re.sub(r"\\(begin|end)\{\w+\*?\}", "", formula)
    formula = re.sub(r"\\(left|right|[bB]igg?[lr]?)\b\s*\.?|&", "", formula)
    formula = re.sub(GOES_ON, " ", formula, flags=re.DOTALL)
    sides, left, depth, skipping, related = [], "", 0, False, False
    for token in re.findall(r"\\text\{[^{}]*\}|\\[a-zA-Z]+|\\.|.", formula, flags=re.DOTALL) + [r"\\"]:
        text = token[len(r"\text{") : -1] if token.startswith(r"\text{") else None
        depth += (token in "{([") - (token in "})]")
        if depth == 0 and (token in ENDS or text is not None):
            left, related = "", False
            skipping = bool(CONDITION.match(text)) if text is not None else skipping and token != r"\\"
        elif depth == 0 and token in RELATIONS:
            if left.strip() and not related and not skipping:
                sides.append(letters(left))
            related = True
        elif not related:
            left += token
    return sides


# Code -------------------------------------------------------------------------------------------------------


def free(node, bound=frozenset()):
    """The names that an expression or a statement uses, but for arguments and names it binds itself."""
    if isinstance(node, ast.Name):
        return set() if node.id in bound or isinstance(node.ctx, ast.Store) else {node.id}
    if isinstance(node, (ast.Lambda, ast.FunctionDef)):
        inside = {n.arg for n in ast.walk(node.args) if isinstance(n, ast.arg)} | _stored(node)
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        inside = _stored(node)
    else:
        inside = set()
    return set().union(*(free(child, bound | inside) for child in ast.iter_child_nodes(node)))


def _stored(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def definitions(tree, known=()):
    """What each name is made of: {name: (nodes, letters it is displayed with)}, beginning from `known`.

    A length or an index has None in place of its letters. Names that one cell binds twice have both.
    """
    here = {}
    for node in ast.walk(tree):
        bound = []
        if isinstance(node, ast.FunctionDef):
            bound = [(node.name, node, set())]
        elif isinstance(node, ast.Assign):
            bound = [entry for target in node.targets for entry in _bound(target, node.value)]
        elif isinstance(node, ast.AugAssign):
            bound = _bound(node.target, node.value)
        elif isinstance(node, ast.For):
            bound = _bound(node.target, node.iter)
        for name, value, shown in bound:
            values, before = here.get(name, ((), set()))
            here[name] = (*values, value), None if shown is None or before is None else before | shown
    return dict(known) | here


def _bound(target, value):
    """[(name, what it is made of, letters)] for the names of a target, pair by pair if that can be seen."""
    targets, values = getattr(target, "elts", None), getattr(value, "elts", None)
    if targets and values and len(targets) == len(values):
        return [entry for pair in zip(targets, values) for entry in _bound(*pair)]
    names = sorted(_stored(target))
    maker = _last(value.func) if isinstance(value, ast.Call) else ""
    if maker in NO_OBJECTS:
        return [(name, value, None) for name in names]
    words = [word for text in _strings(value) for word in text.split()]
    if maker in SYMBOLS and targets and len(words) == len(targets):
        return [(t.id, ast.Pass(), letters(word)) for t, word in zip(targets, words)]
    return [(name, value, set().union(*map(letters, words))) for name in names]


def _strings(value):
    """The strings that the symbols in an expression are named by."""
    for n in ast.walk(value):
        if isinstance(n, ast.Call) and _last(n.func) in SYMBOLS and n.args:
            yield str(getattr(n.args[0], "value", ""))


def _last(function):
    return getattr(function, "attr", getattr(function, "id", ""))


def _base(node):
    """The name at the bottom of x[j], x.T or x(j), or None."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", None)


def _gradients(node, known):
    """The gradients that are taken somewhere in a node."""
    for n in ast.walk(node):
        by = None
        if isinstance(n, ast.Call) and _last(n.func) == "gradient" and len(n.args) == 2:
            by = _base(n.args[1])
        elif isinstance(n, ast.Call) and _last(n.func) in ("diff", "jacobian") and n.args:
            by = _base(n.args[0])
        elif isinstance(n, ast.Subscript) and _base(n) == "OPS" and getattr(n.slice, "value", None) in OPS:
            yield from ("d" + plain(name) for name in OPS[n.slice.value].inputs)
        if by:
            shown = known.get(by, ((), None))[1] or set()
            yield from ("d" + name for name in {plain(by)} | shown)


def mentions(node, known):
    """The letters and names, as `plain` writes them, that a piece of code has to do with.

    node: a check; known: the `definitions` in force there. Imported names and those of Python do not count.
    """
    found, seen, todo = set(_gradients(node, known)), set(), free(node)
    while todo:
        name = todo.pop()
        if name in known and name not in seen:
            seen.add(name)
            nodes, shown = known[name]
            if shown is not None:
                found |= {plain(name)} | shown
            for made in nodes:
                found.update(_gradients(made, known))
                todo |= free(made)
    return found
