"""Changes of a learner's function that may make it right.

Besides the rules that make wrong programs of right ones, these put in what is missing: `keepdims`, an axis,
brackets, letters of an einsum, `np.add.at` for `+=`; a factor, a term, a sum. Each rule takes a Program and
yields changes, Edits.
"""

import ast
import contextlib
import copy
import itertools
from math import prod

import numpy as np

from ...mistakes.mutations import Edit
from ...mistakes.rules import KINDS, expression

LARGEST = 100_000
"""No array of more numbers is made of what may be missing."""
TURNED = {
    "term": "There is a term too many.",
    "only": "There are terms too many.",
    "factor": "There is a factor too many.",
    "divisor": "There is a division too many.",
    "twice": "A factor is missing.",
    "too many": "A factor is missing.",
    "times": "A factor is missing.",
    "over": "A division is missing.",
    "plus": "A term is missing.",
    "reduction": "There is a sum or mean too many.",
    "reduced": "A sum or mean is missing.",
    "keepdims": "`keepdims=True` stands where an axis should go.",
    "kept": "`keepdims=True` is missing: a sum or mean is lined up with the wrong axis.",
    "outside": "Something stands inside a sum, a mean or a function, and belongs outside.",
    "partly": "A factor reaches more than it should multiply.",
    "step": "There is a step too many.",
    "early": "There are steps too many.",
    "batch": "A sum over the batch is missing.",
    "centred": "A mean is not taken away.",
    "guard": "A small number is missing.",
    "weights": "There are weights too many.",
    "brackets": "Brackets are missing, or stand elsewhere.",
    "letters": "The letters of an einsum are wrong.",
    "scatter": "`+=` at places that repeat keeps one term of each: `np.add.at` adds them all.",
    "slice": "A slice begins or ends at the wrong place.",
    "rest": "`1 - x` should stand where `x` does.",
    "function": "A function is missing, or another one should stand there.",
    "offset": "A number is wrong.",
    "value": "A value is wrong, or what it is made of; what comes after it is right.",
    "gathered": "`=` keeps the last term where `+=` would add them.",
    "reducer": "A sum, a mean, a maximum or a minimum stands where another of them should.",
    "turned": "`reshape` keeps the order of the numbers; a transpose changes it.",
    "lines": "Two lines stand in the wrong order.",
    "index": "A number stands as index where that of the loop should.",
}
"""What is wrong, by the kind of change that repairs it, where that says the opposite."""
INSERTED = ("times", "over", "plus", "offset", "power", "reduced", "rest")
"""Kinds of changes that put in something which stands nowhere near: none of two changes."""


def said(node):
    """The code of an expression, or of the first line of a statement."""
    return ast.unparse(node).splitlines()[0]


def mended(*changes):
    """What is wrong if these changes make it right, each kind of mistake said once."""
    return " ".join(dict.fromkeys(TURNED.get(c.kind) or KINDS[c.kind][1] for c in changes))


def exchanged(old, new, kind, cost=1.0):
    return Edit(((old, new),), kind, "", "", "", cost=cost)


def nodes(program, kind):
    return [node for node in ast.walk(program.tree) if isinstance(node, kind)]


def kept(program):
    """`keepdims=True` for a sum, a mean or a maximum that has none."""
    for call in nodes(program, ast.Call):
        has = {keyword.arg for keyword in call.keywords}
        reduces = getattr(call.func, "attr", "") in ("sum", "mean", "max", "min", "var", "std")
        if reduces and "keepdims" not in has:
            keywords = [*call.keywords, ast.keyword("keepdims", ast.Constant(True))]
            yield exchanged(call, ast.Call(call.func, call.args, keywords), "kept")


def repeated(pairs, kind):
    """A change at each of several places, and at all of them at once: pairs (old, new) that say the same."""
    yield from (Edit((pair,), kind, "", "", "", cost=1.0) for pair in pairs)
    if len(pairs) > 1:
        yield Edit(tuple(pairs), kind, "", "", "", cost=1.0)


def reductions(program):
    """The calls of methods that reduce an array, and the node of their axis, or None."""
    for call in nodes(program, ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("sum", "mean", "max", "min"):
            first = call.args[:1] if ast.unparse(call.func.value) not in ("np", "numpy") else call.args[1:2]
            named = [keyword.value for keyword in call.keywords if keyword.arg == "axis"]
            yield call, next(iter([*named, *first]), None)


def along(program):
    """Another axis, in one call and in all that name the same one."""
    named = [axis for _, axis in reductions(program) if axis is not None]
    for old in dict.fromkeys(map(ast.unparse, named)):
        for new in ("-1", "-2", "0", "1", "2", "(0, 1)", "(0, 2)", "(1, 2)"):
            pairs = [(node, expression(new)) for node in named if ast.unparse(node) == old != new]
            yield from repeated(pairs, "axis")


def averaged(program):
    """A sum, a mean, a maximum or a minimum for another, in one call and in all like it."""
    calls = {}
    for call, axis in reductions(program):
        calls.setdefault((call.func.attr, axis and ast.unparse(axis)), []).append(call.func)
        calls.setdefault((call.func.attr, "any"), []).append(call.func)
    for (old, _), same in calls.items():
        for new in (new for new in ("sum", "mean", "max", "min") if new != old):
            kind = "sum or mean" if {old, new} == {"sum", "mean"} else "reducer"
            yield from repeated([(node, ast.Attribute(node.value, new, ast.Load())) for node in same], kind)


def sized(program):
    """The length of another axis, at one place and at all that take the same one."""
    shapes = [n for n in nodes(program, ast.Subscript) if getattr(n.value, "attr", "") == "shape"]
    for old in dict.fromkeys(map(ast.unparse, shapes)):
        for axis in ("-1", "-2", "0", "1"):
            same = [node for node in shapes if ast.unparse(node) == old]
            pairs = [(n, ast.Subscript(n.value, expression(axis), ast.Load())) for n in same]
            yield from repeated(pairs, "size") if ast.unparse(pairs[0][1]) != old else ()


def uncounted(program):
    """n for n - 1 or n + 1, at one place and at all that say the same."""
    counts = [
        node
        for node in nodes(program, ast.BinOp)
        if isinstance(node.op, ast.Add | ast.Sub) and ast.unparse(node.right) == "1"
    ]
    for old in dict.fromkeys(map(ast.unparse, counts)):
        yield from repeated([(n, n.left) for n in counts if ast.unparse(n) == old], "number")


def scattered(program):
    """np.add.at(x, i, y) for x[i] += y, and x[i] += y for x[i] = y."""
    for node in nodes(program, ast.AugAssign):
        if isinstance(node.target, ast.Subscript) and isinstance(node.op, ast.Add):
            where = node.target.slice
            if any(isinstance(part, ast.Slice) for part in ast.walk(where)):
                where = ast.Subscript(expression("np.s_"), where, ast.Load())
            call = expression("np.add.at(A, INDEX, B)", A=node.target.value, INDEX=where, B=node.value)
            yield exchanged(node, ast.Expr(call), "scatter")
    for node in nodes(program, ast.Assign):
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            yield exchanged(node, ast.AugAssign(node.targets[0], ast.Add(), node.value), "gathered")


def lettered(program):
    """Two letters of an einsum exchanged, or one for another."""
    for call in nodes(program, ast.Call):
        match call:
            case ast.Call(ast.Attribute(_, "einsum") | ast.Name("einsum"), [ast.Constant(str() as text), *_]):
                places = [i for i, letter in enumerate(text) if letter.isalpha()]
                swaps = [{a: text[b], b: text[a]} for a, b in itertools.combinations(places, 2)]
                others = [{a: letter} for a in places for letter in sorted({text[i] for i in places})]
                for new in swaps + others:
                    words = "".join(new.get(i, letter) for i, letter in enumerate(text))
                    if words != text:
                        yield exchanged(call.args[0], ast.Constant(words), "letters")


def bracketed(program):
    """a ∘ (b ∘ c) for (a ∘ b) ∘ c, and the other way round."""
    for node in nodes(program, ast.BinOp):
        if isinstance(node.left, ast.BinOp):
            (a, first, b), then, c = (node.left.left, node.left.op, node.left.right), node.op, node.right
            yield exchanged(node, ast.BinOp(a, first, ast.BinOp(b, then, c)), "brackets", 1.2)
        if isinstance(node.right, ast.BinOp):
            a, first, (b, then, c) = node.left, node.op, (node.right.left, node.right.op, node.right.right)
            yield exchanged(node, ast.BinOp(ast.BinOp(a, first, b), then, c), "brackets", 1.2)


def summed(program):
    """`x += y` for `x = y` in a loop."""
    for loop in nodes(program, ast.For):
        for node in loop.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                yield exchanged(node, ast.AugAssign(node.targets[0], ast.Add(), node.value), "gathered")


def bounded(program):
    """A slice at the other side of its bound, counted from the end, or up to the next; that of another place;
    a range one longer or shorter.
    """
    found = nodes(program, ast.Slice)
    groups = {}
    for node in found:
        groups.setdefault(ast.unparse(node), []).append(node)
    for same in groups.values():
        for new in [*sides(same[0]), *(group[0] for group in groups.values() if group is not same)]:
            yield from repeated([(node, new) for node in same], "slice")
    for call in nodes(program, ast.Call):
        if getattr(call.func, "id", getattr(call.func, "attr", "")) in ("range", "arange") and call.args:
            for bound, more in itertools.product(call.args[:2], ("+ 1", "- 1")):
                yield exchanged(bound, expression(f"(A) {more}", A=bound), "number")


def sides(node):
    """The slices that begin or end where this one does, or one further."""
    for bound in filter(None, (node.lower, node.upper)):
        back, after = expression("-(A)", A=bound), expression("(A) + 1", A=bound)
        pairs = ((bound, None), (None, bound), (back, None), (None, back), (after, None), (None, after))
        yield from (ast.Slice(*pair, node.step) for pair in pairs)


def turned(program):
    """A transpose for a `reshape`."""
    for call in nodes(program, ast.Call):
        if getattr(call.func, "attr", "") == "reshape":
            yield exchanged(call, ast.Attribute(call.func.value, "T", ast.Load()), "turned")


def reordered(program):
    """Two neighbouring lines of a loop in the other order."""
    for loop in nodes(program, ast.For):
        for one, other in itertools.pairwise(loop.body):
            changes = ((one, copy.copy(other)), (other, copy.copy(one)))
            yield Edit(changes, "lines", "", "", "", cost=1.0)


def indexed(program):
    """The index of a loop for a number."""
    for loop in nodes(program, ast.For):
        names = [node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)]
        indices = [node.slice for node in ast.walk(loop) if isinstance(node, ast.Subscript)]
        places = [part for index in indices for part in getattr(index, "elts", [index])]
        for place, name in itertools.product(places, names):
            if isinstance(place, ast.Constant) and isinstance(place.value, int):
                yield exchanged(place, ast.Name(name, ast.Load()), "index")


def otherwise(program):
    """A function for its counterpart."""
    for node in nodes(program, ast.Attribute):
        if new := COUNTERPARTS.get(node.attr):
            yield exchanged(node, ast.Attribute(node.value, new, ast.Load()), "function")
    for node in nodes(program, ast.Name):
        if node.id in ("min", "max"):
            yield exchanged(node, ast.Name(COUNTERPARTS[node.id], ast.Load()), "function")


COUNTERPARTS = (
    "tile repeat, tril triu, cos sin, maximum minimum, max min, argmax argmin, zeros ones, zeros_like copy"
)
COUNTERPARTS = {a: b for pair in COUNTERPARTS.split(", ") for a, b in itertools.permutations(pair.split())}

RULES = (kept, along, averaged, sized, uncounted, scattered, turned, lettered, bracketed, summed, bounded)
RULES = (*RULES, otherwise, reordered, indexed)


def inserted(place, text, kind):
    """The change that puts code around an expression, A."""
    return exchanged(place, expression(text, A=place), kind)


def counted(program, found):
    """An array of whole numbers or of Booleans for another of as many axes. found: the variables of a run."""
    arrays = {n: (x.dtype.kind, x.ndim) for n, x in found.items() if isinstance(x, np.ndarray) and x.ndim}
    arrays = {name: kind for name, kind in arrays.items() if kind[0] in "biu"}
    for node in nodes(program, ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id in arrays:
            for other in (n for n in arrays if n != node.id and arrays[n] == arrays[node.id]):
                yield exchanged(node, ast.Name(other, ast.Load()), "name", 1.5)


def is_number(value):
    """Whether it is a number or an array of numbers, and no Boolean."""
    numbers = isinstance(value, int | float | np.number | np.ndarray)
    return numbers and np.asarray(value).dtype.kind in "fiu"


def is_computed(node):
    """Whether it is an expression that stands by itself: no star, no piece of a text, no name."""
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.Call | ast.Attribute | ast.Subscript)


def pasted(line, old, new):
    """The code `new`, with brackets if it needs them in the place of `old` in a line."""
    with contextlib.suppress(SyntaxError):  # the head of a loop is no statement
        plain, safe = (ast.unparse(ast.parse(line.replace(old, t, 1))) for t in (new, f"({new})"))
        return new if plain == safe else f"({new})"
    return new


def surrounded(value, bricks, functions):
    """(code around A, kind of change, its value) for a value of A."""
    for axis, name, kept in itertools.product(range(1, value.ndim + 1), ("sum", "mean"), (True, False)):
        made = getattr(value, name)(axis=-axis, keepdims=kept)
        yield f"(A).{name}(axis=-{axis}{', keepdims=True' if kept else ''})", "reduced", made
    for name in functions:
        yield f"np.{name}(A)", "function", getattr(np, name)(value)
    yield "1 - (A)", "rest", 1 - value
    yield "(A) + 1", "offset", value + 1
    yield "(A) - 1", "offset", value - 1
    for code, brick in bricks.items():
        try:
            size = prod(np.broadcast_shapes(value.shape, np.shape(brick)))
        except ValueError:
            continue
        if size > LARGEST:
            continue
        yield f"(A) * ({code})", "times", value * brick
        yield f"(A) / ({code})", "over", value / brick
        if code != "-1":
            kind = "offset" if value.ndim == np.ndim(brick) == 0 else "plus"
            yield f"(A) - ({code})", kind, value - brick
            yield f"(A) + ({code})", kind, value + brick
        if np.ndim(brick) == 0 and value.dtype.kind == "f":  # a size could become one that no memory holds
            yield f"(A) ** ({code})", "power", value ** float(brick)


def returned_names(program):
    """The names that are returned: what they hold is computed elsewhere."""
    for statement in nodes(program, ast.Return):
        parts = getattr(statement.value, "elts", [statement.value])
        yield from (part for part in parts if isinstance(part, ast.Name))


def is_returned_name(place):
    """Whether it is a name that stands alone: what it holds is computed elsewhere."""
    return place.parent is None and isinstance(place.node, ast.Name)


def functions_of(program):
    """The functions of one argument that a program calls, by name."""
    calls = (node for node in ast.walk(program.tree) if isinstance(node, ast.Call))
    names = {getattr(call.func, "attr", "") for call in calls if len(call.args) == 1 and not call.keywords}
    return sorted(names & {"exp", "log", "sqrt", "tanh", "abs", "sign", "cos", "sin"})
