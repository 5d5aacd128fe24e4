"""Mutation rules: what may stand in the place of an expression, when somebody makes a mistake.

A rule looks at one expression of a right program and says what may stand there instead, and in words what
is wrong then: a factor is missing, a sum runs over another axis, `dy` stands where `dx_hat` should.
`mutations` asks all rules about all expressions.

    KINDS         the kinds of mistakes, their cost and their words
    RULES         expression -> what may stand there instead
    LINE_RULES    line of a program -> what may stand in the place of a part of it
"""

import ast
import copy
import itertools
import re
from dataclasses import dataclass

KINDS = {
    "order": (0.5, "The results are in the wrong order."),
    "entries": (1, "Things that are listed side by side are in the wrong order."),
    "term": (1, "A term is missing."),
    "only": (1, "Only one of several terms is there."),
    "sign": (1, "A sign is wrong."),
    "factor": (1, "A factor is missing."),
    "divisor": (1, "A division is missing."),
    "partly": (1, "A factor reaches only a part of what it should multiply."),
    "exchanged": (1, "The two sides of a product of matrices, or two arguments, are exchanged."),
    "transpose": (1, "A matrix is transposed that should not be, or is not where it should be."),
    "sum or mean": (1, "A mean stands where a sum should, or the other way round."),
    "axis": (1, "A sum or mean runs over the wrong axis."),
    "keepdims": (1, "`keepdims=True` is missing: a sum or mean is lined up with the wrong axis."),
    "outside": (1, "Something stands outside a sum, a mean or a function, and belongs inside."),
    "apart": (1, "A product of two sums stands where the sum of the products should."),
    "condition": (1, "A condition is used the wrong way round, or not at all."),
    "size": (1, "A size is wrong: that of another axis."),
    "inverse": (1.5, "Something is multiplied where it should be divided, or the other way round."),
    "twice": (1.5, "A factor stands there once too often."),
    "moved": (1.5, "A factor stands at the wrong place."),
    "reduction": (1.5, "A sum or mean is missing."),
    "name": (1.5, "One array stands where another should."),
    "step": (1.5, "A step of the calculation is left out."),
    "early": (1.5, "This is an earlier result: the steps after it are missing."),
    "number": (1.5, "A number is wrong."),
    "power": (1.5, "A power or a root is wrong."),
    "batch": (1.5, "A sum runs over the batch, whose sequences should stay apart."),
    "negative": (1.5, "The sign of a whole line is wrong."),
    "names": (2, "Two arrays are exchanged."),
    "weights": (2, "A weighted sum has lost its weights."),
    "taken": (2, "What should be taken away stands where the rest should."),
    "too many": (2, "There is a factor too many."),
    "centred": (2, "A mean is taken away that should stay."),
    "guard": (2, "A small number is added that should not be."),
}
"""Kinds of mistakes: what each costs, from what happens every day to the far-fetched; and what is said of it
before anybody asks for the place."""

HABITS = {
    "factor",
    "divisor",
    "exchanged",
    "transpose",
    "sum or mean",
    "axis",
    "keepdims",
    "condition",
    "size",
}
HABITS |= {"inverse", "reduction", "name", "step", "number", "power", "outside"}
"""Kinds that somebody repeats at several places, for a wrong idea; the others happen once."""


@dataclass(frozen=True)
class Place:
    """An expression and the one around it, the name of what is computed, and what can be seen from there.

    seen: array -> (number of axes, which array it is: two names may be one). sizes: names such as K.
    returned: whether it is what the function returns.
    """

    node: ast.expr
    parent: ast.AST
    label: str
    seen: dict
    sizes: tuple
    returned: bool = False


@dataclass(frozen=True)
class Line:
    """A statement, or the head of a loop or branch, and the expressions that belong to it and to no other.

    seen: a number, slice or dictionary -> (type, which it is). words: all strings of the program.
    """

    node: ast.stmt
    parts: tuple
    label: str
    seen: dict
    words: tuple
    program: ast.FunctionDef


# Trees ------------------------------------------------------------------------------------------------------


def expression(template, **parts):
    """The tree of a template, with trees in the place of its capitals: expression("A.mT", A=node)."""
    tree = ast.parse(template, mode="eval").body
    return replaced(tree, {id(n): parts[n.id] for n in ast.walk(tree) if getattr(n, "id", "") in parts})


def replaced(node, changes):
    """The tree in which nodes, id -> new, are replaced, inside of what is new too; the rest is not copied."""
    if not isinstance(node, ast.AST):
        return node
    if id(node) in changes:
        return replaced(changes[id(node)], {k: v for k, v in changes.items() if k != id(node)})
    fields, changed = {}, False
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            fields[name] = [replaced(item, changes) for item in value]
            changed |= any(a is not b for a, b in zip(value, fields[name]))
        else:
            fields[name] = replaced(value, changes)
            changed |= fields[name] is not value
    return ast.copy_location(type(node)(**fields), node) if changed else node


def statements(body):
    """Every simple statement, also those of loops and branches, in order."""
    for statement in body:
        inner = [*getattr(statement, "body", []), *getattr(statement, "orelse", [])]
        yield from statements(inner) if inner else [statement]


def headers(body):
    """(statement, its own expressions) of every statement, also inside others, in order."""
    for statement in body:
        inner = [*getattr(statement, "body", []), *getattr(statement, "orelse", [])]
        of_inner = {id(node) for node in inner}
        parts = tuple(node for node in ast.iter_child_nodes(statement) if id(node) not in of_inner)
        yield statement, parts
        yield from headers(inner)


def computed_from(node):
    """The expressions of which this one is made. Axes, shapes and names of functions are not among them."""
    match node:
        case ast.Call(ast.Name("root" | "like"), [number, _]):
            return [number]
        case ast.Call(ast.Attribute(ast.Name("np" | "xp")) | ast.Name(), given):
            return given
        case ast.Call(ast.Attribute(array), given):
            return [array, *given]
        case ast.Subscript(array):
            return [] if is_leaf(node) or getattr(array, "attr", "") == "shape" else [array]
        case ast.Attribute(_, "shape"):
            return []
        case ast.IfExp(_, yes, no):
            return [yes, no]
        case ast.Tuple() | ast.GeneratorExp() | ast.ListComp() | ast.DictComp() | ast.Lambda():
            return []
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def of_shape_only(node):
    """Whether the numbers in it do not matter: the namespace of arrays, π, zeros of a shape, a size."""
    match node:
        case ast.Call(ast.Name("namespace" | "pi" | "len" | "range" | "list" | "reversed" | "enumerate")):
            return True
        case ast.Call(ast.Name("library" | "empty") | ast.Attribute(ast.Name("arena"), "empty" | "like")):
            return True
        case ast.Call(ast.Name(name)) if name.startswith("check_"):
            return True
        case ast.Call(ast.Attribute(ast.Name("np" | "xp"), "zeros_like")) | ast.Attribute(
            _, "ndim" | "dtype"
        ):
            return True
    return False


def is_leaf(node):
    """Whether this is the name of an array: x, or cache["x"]."""
    match node:
        case ast.Name(_, ast.Load()) | ast.Subscript(ast.Name("cache"), ast.Constant()):
            return True
    return False


def is_no_number(node):
    """Whether nothing can be multiplied with it: several things, a condition, a word, or 0."""
    match node:
        case ast.Tuple() | ast.List() | ast.Dict() | ast.ListComp() | ast.DictComp():
            return True
        case ast.Compare() | ast.BoolOp() | ast.JoinedStr():
            return True
        case ast.Constant(value):
            return not value or isinstance(value, str)
    return False


def terms_of(node, sign=1):
    """[(±1, term)] of a sum."""
    match node:
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right):
            return terms_of(left, sign) + terms_of(right, sign if isinstance(op, ast.Add) else -sign)
        case ast.UnaryOp(ast.USub(), inner):
            return terms_of(inner, -sign)
    return [(sign, node)]


def factors_of(node, power=1):
    """[(±1, factor)] of a product; -1 for what is divided by."""
    match node:
        case ast.BinOp(left, ast.Mult() | ast.Div() as op, right):
            return factors_of(left, power) + factors_of(right, power if isinstance(op, ast.Mult) else -power)
    return [(power, node)]


def total(terms):
    (sign, whole), *others = terms
    whole = whole if sign > 0 else expression("-(A)", A=whole)
    for sign, term in others:
        whole = expression("A + B" if sign > 0 else "A - B", A=whole, B=term)
    return whole


def product(factors):
    first = next((n for n, (power, _) in enumerate(factors) if power > 0), None)
    whole = expression("1") if first is None else factors[first][1]
    for n, (power, factor) in enumerate(factors):
        if n != first:
            whole = expression("A * B" if power > 0 else "A / B", A=whole, B=factor)
    return whole


def unbracketed(node, inner):
    """The tree that is read when the brackets around a part of an expression are left out."""
    text = ast.unparse(replaced(node, {id(inner): ast.Name("inner_part")}))
    return expression(text.replace("inner_part", ast.unparse(inner)))


def but(items, n):
    return items[:n] + items[n + 1 :]


def is_sum(node):
    return len(terms_of(node)) > 1 or isinstance(node, ast.UnaryOp) if isinstance(node, ast.expr) else False


def is_product(node):
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div)


def reduction(node):
    """(array, "sum" | "mean" | "max", {keyword: code}) of x.sum(axis=...) or xp.sum(x, ...), or None."""
    match node:
        case ast.Call(ast.Attribute(ast.Name("np" | "xp"), name), [array], keywords):
            pass
        case ast.Call(ast.Attribute(array, name), [], keywords):
            pass
        case _:
            return None
    if name in ("sum", "mean", "max") and all(keyword.arg for keyword in keywords):  # no **options
        return array, name, {k.arg: ast.unparse(k.value) for k in keywords}


def reduced(node, array=None, name=None, **changed):
    """The reduction of another array, by another name, with other keywords; None leaves one out."""
    old, old_name, keywords = reduction(node)
    given = ", ".join(f"{k}={v}" for k, v in (keywords | changed).items() if v)
    form = (
        f"xp.{name or old_name}(A, {given})" if is_of_namespace(node) else f"(A).{name or old_name}({given})"
    )
    return expression(form, A=array or old)


def is_of_namespace(call):
    return isinstance(call.func.value, ast.Name) and call.func.value.id == "xp"


def code(node, limit=60):
    """The expression as one says it, in backticks: sum(x) and mean(x) are over the last axis."""

    class Short(ast.NodeTransformer):
        def visit_Call(self, call):
            call = self.generic_visit(call)
            found = reduction(call)
            if found and found[2].get("axis") in ("-1", None):
                return ast.Call(ast.Name(found[1]), [found[0]], [])
            return call

    text = ast.unparse(Short().visit(copy.deepcopy(node)))
    text = re.sub(r"\b(?:np|xp)\.|\bcache\['(\w+)'\]", r"\1", text)
    return f"`{text if len(text) <= limit else text[: limit - 1] + '…'}`"


# Rules ------------------------------------------------------------------------------------------------------
# Each takes a Place and yields (what stands there instead, kind, what is wrong then, and perhaps where).


def order(at):
    if at.parent is None and isinstance(at.node, ast.Tuple) and len(at.node.elts) < 6:
        for entries in itertools.permutations(at.node.elts):
            if list(entries) != at.node.elts:
                new = ast.copy_location(ast.Tuple([*entries], ast.Load()), at.node)
                yield new, "order" if at.returned else "entries", "they are in the wrong order"


def sums(at):
    terms = terms_of(at.node)
    if len(terms) < 2 or is_sum(at.parent):
        return
    for n, (sign, term) in enumerate(terms):
        yield total(but(terms, n)), "term", f"the term {code(term)} is missing"
        flipped = [(-s if m == n else s, t) for m, (s, t) in enumerate(terms)]
        yield total(flipped), "sign", f"the term {code(term)} has the wrong sign"
        if len(terms) > 2:
            yield total([(sign, term)]), "only", f"only the term {code(term)} is there"
    if len(terms) > 2:
        flipped = [(-s if n else s, t) for n, (s, t) in enumerate(terms)]
        yield total(flipped), "sign", f"all terms but {code(terms[0][1])} have the wrong sign"
    if taken := [(1, term) for sign, term in terms if sign < 0]:
        yield total(taken), "taken", f"this is {code(total(taken))}, which should be taken away"


def products(at):
    factors = factors_of(at.node)
    if len(factors) < 2 or is_product(at.parent):
        return
    where = f", in {code(at.node)}"
    for n, (power, factor) in enumerate(factors):
        if ast.unparse(factor) == "1":
            continue
        name, others = code(factor), but(factors, n)
        kind, lost = ("factor", "factor") if power > 0 else ("divisor", "division by")
        yield product(others), kind, f"the {lost} {name} is missing", where
        turned = "divides where it should multiply" if power > 0 else "multiplies where it should divide"
        yield product([*others, (-power, factor)]), "inverse", f"{name} {turned}", where
        yield product([*factors, (power, factor)]), "twice", f"{name} stands there twice", where
        root = expression("(A) ** 0.5", A=factor)
        yield product([*others, (power, root)]), "power", f"a root is taken of {name}", where
        for m, (other_power, other) in enumerate(others):
            terms = terms_of(other)
            for k, (_, spared) in enumerate(terms) if other_power > 0 and len(terms) > 1 else ():
                parts = [
                    (s, t if j == k else product([(1, t), (power, factor)])) for j, (s, t) in enumerate(terms)
                ]
                what = f"{name} does not reach {code(spared)}"
                yield product([(1, total(parts)), *but(others, m)]), "partly", what
    for n, (power, factor) in enumerate(factors):
        terms = terms_of(factor)
        if len(terms) < 2:
            continue
        yield unbracketed(at.node, factor), "partly", f"the brackets around {code(factor)} are missing"
        for k, (_, only) in enumerate(terms) if power > 0 and len(factors) > 2 else ():
            scaled = [
                (s, product([(1, t), *but(factors, n)]) if j == k else t) for j, (s, t) in enumerate(terms)
            ]
            yield total(scaled), "partly", f"of {code(factor)} only {code(only)} is multiplied", where


def matrix_products(at):
    if not (isinstance(at.node, ast.BinOp) and isinstance(at.node.op, ast.MatMult)):
        return
    a, b, whole = at.node.left, at.node.right, code(at.node)
    yield expression("B @ A", A=a, B=b), "exchanged", f"the two sides of {whole} are exchanged"
    yield expression("(N).mT", N=at.node), "transpose", f"{whole} is transposed"
    for summed in ("(N).sum(axis=0)", "0 * (N) + (N).sum(axis=0)"):
        yield expression(summed, N=at.node), "batch", f"{whole} is summed over the batch"
    for side in (a, b):
        turned = isinstance(side, ast.Attribute) and side.attr in ("mT", "T")
        new = side.value if turned else expression("(A).mT", A=side)
        what = f"{code(new)} is not transposed" if turned else f"{code(side)} is transposed"
        yield replaced(at.node, {id(side): new}), "transpose", what, f" in {whole}"
        ones = expression("(0 * (A) + 1)", A=side)
        yield replaced(at.node, {id(side): ones}), "weights", f"{code(side)} is left out", f" of {whole}"


def reductions(at):
    if not (found := reduction(at.node)):
        return
    array, name, keywords = found
    where, axis, factors = f", in {code(at.node)}", keywords.get("axis"), factors_of(array)
    if other := {"sum": "mean", "mean": "sum"}.get(name):
        yield reduced(at.node, name=other), "sum or mean", f"a {other} stands where a {name} should", where
    for new in ("-1", "-2", "0", "1", "(0, 1)", None):
        over = f"axis {new}" if new else "the whole array"
        what = f"the {name} runs over {over}, not over axis {axis}"
        if new != axis:
            yield reduced(at.node, axis=new), "axis", what, where
        if new in ("-1", "1") and axis in ("0", "(0, 1)") and "keepdims" not in keywords:
            yield reduced(at.node, axis=new, keepdims="True"), "axis", what, where
    if "keepdims" in keywords:
        yield reduced(at.node, keepdims=None), "keepdims", "`keepdims=True` is missing", where
    yield array, "reduction", f"the {name} is not taken", f" of {code(array)}"
    if isinstance(array, ast.BinOp) and isinstance(array.op, ast.Pow):
        powered = replaced(array, {id(array.left): reduced(at.node, array=array.left)})
        yield powered, "outside", f"the power stands outside a {name}", where
    for n, (power, factor) in enumerate(factors) if len(factors) > 1 else ():
        inner = reduced(at.node, array=product(but(factors, n)))
        yield (
            product([(1, inner), (power, factor)]),
            "outside",
            f"{code(factor)} stands outside a {name}",
            where,
        )
        both = [(1, inner), (power, reduced(at.node, array=factor))]
        yield product(both), "apart", f"this is a product of {name}s", where


def names(at):
    if not is_leaf(at.node) or (own := ast.unparse(at.node)) not in at.seen:
        return
    for other, (axes, which) in at.seen.items():
        if axes == at.seen[own][0] and which != at.seen[own][1]:
            new, where = expression(other), f", in {code(at.parent)}" if at.parent is not None else ""
            yield new, "name", f"{code(new)} stands where {code(at.node)} should", where


def powers(at):
    match at.node:
        case ast.BinOp(base, ast.Pow(), ast.Constant(n)):
            if len(terms_of(base)) > 1:
                yield unbracketed(at.node, base), "partly", f"the brackets around {code(base)} are missing"
            for new in (n - 1, n + 1) if n % 1 == 0 else (n - 0.5, n + 0.5, n - 1, n + 1):
                yield (
                    expression(f"(A) ** {new}", A=base),
                    "power",
                    f"{code(base)} has the power {new:g}, not {n:g}",
                )
        case ast.Call(ast.Attribute(_, "sqrt") | ast.Name("sqrt" | "root"), [inner, *_]):
            yield inner, "power", "a root is missing", f", of {code(inner)}"


def calls(at):
    if not isinstance(at.node, ast.Call) or reduction(at.node):
        return
    name, given = code(at.node.func), at.node.args
    if name == "`where`" and len(given) == 3:
        condition, yes, no = given
        swapped = replaced(at.node, {id(yes): copy.copy(no), id(no): copy.copy(yes)})
        yield swapped, "condition", f"{code(condition)} is used the wrong way round"
        for always in (yes, no):
            yield always, "condition", f"{code(condition)} is not asked: {code(always)} everywhere"
        return
    for one in given:
        yield one, "step", f"{name} is left out", f", around {code(one)}"
    for a, b in itertools.combinations(given, 2):
        swapped = replaced(at.node, {id(a): copy.copy(b), id(b): copy.copy(a)})
        yield swapped, "exchanged", f"{name} is given {code(a)} and {code(b)} in the wrong order"
    terms = terms_of(given[0]) if len(given) == 1 else []
    for n, (sign, term) in enumerate(terms) if len(terms) > 1 else ():
        inner = replaced(at.node, {id(given[0]): total(but(terms, n))})
        yield total([(1, inner), (sign, term)]), "outside", f"{code(term)} stands outside {name}"


def numbers(at):
    match at.node:
        case ast.UnaryOp(ast.USub(), ast.Attribute(_, "inf") | ast.Name("inf")):
            for new in ("-1e9", "0.0"):
                yield expression(new), "number", f"{new} stands where -∞ should"
        case ast.Constant(int() | float() as n) if not isinstance(n, bool) and n == n // 1:
            for new in (n + 1, n - 1):
                yield expression(f"({new})"), "number", f"{new:.12g} stands where {n:.12g} should", within(at)
        case ast.Name(name) if len(name) == 1 and name.isupper():
            yield expression(f"({name} - 1)"), "number", f"{name} - 1 stands where {name} should", within(at)
        case ast.Subscript(ast.Attribute(_, "shape")):
            for size in at.sizes:
                yield expression(size), "size", f"{size} stands where {code(at.node)} should", within(at)


def insertions(at):
    whole = code(at.node)
    if is_leaf(at.node) and at.seen.get(ast.unparse(at.node), (0, 0))[0] > 1:
        new = expression("(A - A.mean(axis=-1, keepdims=True))", A=at.node)
        yield new, "centred", f"the mean is taken away from {whole}"
    divides = isinstance(at.parent, ast.BinOp) and isinstance(at.parent.op, ast.Div)
    if divides and at.parent.right is at.node and not isinstance(at.node, ast.Constant):
        for small in ("1e-8", "1e-6", "1e-5"):
            yield expression(f"(A + {small})", A=at.node), "guard", f"{small} is added to {whole}"
    is_term = is_sum(at.parent) and not is_sum(at.node)
    if is_no_number(at.node) or not (at.parent is None or is_term or reduction(at.parent)):
        return
    sizes = [form.format(size) for size in at.sizes for form in ("{}", "{} ** 0.5")]
    arrays = {which: name for name, (_, which) in reversed(at.seen.items())}  # each by its first name
    for factor in ["2", *reversed(arrays.values()), *sizes]:
        for sign, thing in ("*", "factor"), ("/", "division by"):
            new = expression(f"(A) {sign} {factor}", A=at.node)
            yield new, "too many", f"the {thing} {code(expression(factor))} is too many", f", at {whole}"
    if at.parent is None:
        own = {
            at.label.partition("[")[0],
            *(ast.unparse(part) for part in (at.node, *computed_from(at.node))),
        }
        for name in [name for name in arrays.values() if name not in own]:
            yield expression(name), "early", f"this is {code(expression(name))}, and not yet {whole}"
        yield expression("-(A)", A=at.node), "negative", f"{whole} has the wrong sign"
        yield expression("(A) ** 0.5", A=at.node), "power", f"a root is taken of {whole}"
        yield expression("(A) ** 2", A=at.node), "power", f"{whole} is squared"


def within(at):
    return f", in {code(at.parent)}" if at.parent is not None else ""


RULES = (order, sums, products, matrix_products, reductions, names, powers, calls, numbers, insertions)


# Rules of lines ---------------------------------------------------------------------------------------------
# Each takes a Line and yields (a part of it, what stands there instead, kind, what is wrong then).


def within_line(line):
    """Every node of the line."""
    return [node for part in line.parts for node in ast.walk(part)]


def lost(line):
    match line.node:
        case ast.Assign() | ast.AugAssign() | ast.Expr():
            yield line.node, ast.Pass(), "step", f"the line {code(line.node)} is left out"


def added(line):
    match line.node:
        case ast.AugAssign(target, op, value):
            whole = code(line.node)
            yield line.node, ast.Assign([target], value), "term", f"`=` stands in {whole}"
            for other in OPPOSITE.get(type(op), ()):
                changed = ast.AugAssign(target, other(), value)
                yield line.node, changed, "sign", f"{code(changed)} stands where {whole} should"


OPPOSITE = {ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,)}


def questions(line):
    """Conditions: of branches, of comprehensions, and those that `and` and `or` join."""
    for node in within_line(line) + [line.node]:
        match node:
            case ast.If(test) | ast.IfExp(test):
                tests = [test]
            case ast.comprehension():
                tests = node.ifs
            case ast.BoolOp():
                for n, one in enumerate(node.values):
                    rest = but(node.values, n)
                    new = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
                    yield node, new, "condition", f"{code(one)} is not asked, of {code(node)}"
                continue
            case _:
                continue
        for test in tests:
            turned = ast.UnaryOp(ast.Not(), test)
            yield test, turned, "condition", f"{code(test)} is used the wrong way round"
            for always in (True, False):
                what = f"{code(test)} is not asked: it is always {always}"
                yield test, ast.Constant(always), "condition", what


def comparisons(line):
    near = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
    for node in within_line(line):
        match node:
            case ast.Compare(left, [op], [right]) if type(op) in near:
                new = ast.Compare(left, [near[type(op)]()], [right])
                yield node, new, "condition", f"{code(new)} stands where {code(node)} should"


def loops(line):
    """What a loop runs over: the other way round, or all but one."""
    for node in [line.node, *within_line(line)]:
        if isinstance(node, ast.For | ast.comprehension):
            whole = code(node.iter)
            for form, what in LOOPS.items():
                yield node.iter, expression(form, A=node.iter), "order", f"{whole} {what}"


LOOPS = {
    "list(A)[::-1]": "is run through the other way round",
    "list(A)[1:]": "has lost its first",
    "list(A)[:-1]": "has lost its last",
}


def targets(line):
    match line.node:
        case ast.Assign([ast.Tuple(names)], value) if not isinstance(value, ast.Tuple) or len(names) > 5:
            for a, b in itertools.combinations(names, 2):
                if not isinstance(a, ast.Starred) and not isinstance(b, ast.Starred):
                    changed = {id(a): copy.copy(b), id(b): copy.copy(a)}
                    target = line.node.targets[0]
                    what = f"{code(a)} and {code(b)} are exchanged, at the left"
                    yield target, replaced(target, changed), "names", what


def slices(line):
    for node in within_line(line):
        if isinstance(node, ast.Slice):
            for name, bound in ("lower", node.lower), ("upper", node.upper), ("step", node.step):
                if bound is not None:
                    fields = {"lower": node.lower, "upper": node.upper, "step": node.step} | {name: None}
                    what = f"the slice {code(node)} has lost {code(bound)}"
                    yield node, ast.Slice(**fields), "size", what
            if node.lower is None and node.upper is None:
                yield node, ast.Slice(ast.Constant(1), None, node.step), "size", "a slice has lost its first"
                yield node, ast.Slice(None, ast.Constant(-1), node.step), "size", "a slice has lost its last"


def counts(line):
    """Whole numbers, axes and lengths: one more and one less."""
    for node in within_line(line):
        match node:
            case ast.Constant(int() | float() as n) if not isinstance(n, bool):
                for new in (n + 1, n - 1):
                    what = f"{new:.12g} stands where {n:.12g} should"
                    yield node, expression(f"({new})"), "number", what
            case ast.Call(ast.Name("len")) | ast.BinOp(_, ast.FloorDiv()):
                new = expression("A + 1", A=node)
                yield node, new, "number", f"{code(new)} stands where {code(node)} should"


def words(line):
    """Keys and names in quotes: another one of the program."""
    for node in within_line(line):
        match node:
            case ast.Constant(str() as own):
                for other in line.words:
                    if other != own and (len(other) > 2) == (len(own) > 2):
                        new, what = ast.Constant(other), f'"{other}" stands where "{own}" should'
                        yield node, new, "name", f"{what}, in {code(line.node)}"


def fields(line):
    """x.a for x.b, where the program reads both."""
    read = {}
    for node in ast.walk(line.program):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            read.setdefault(node.value.id, {})[node.attr] = None
    for node in within_line(line):
        match node:
            case ast.Attribute(ast.Name(x), own):
                for other in read[x]:
                    if other != own:
                        new = ast.Attribute(node.value, other, node.ctx)
                        what = f"{code(new)} stands where {code(node)} should"
                        yield node, new, "name", what


def variables(line):
    """A number, slice or dictionary for another one."""
    for node in within_line(line):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in line.seen:
            kind, which = line.seen[node.id]
            for other, (other_kind, other_which) in line.seen.items():
                if other_kind is kind and other_which != which:
                    what = f"`{other}` stands where `{node.id}` should, in {code(line.node)}"
                    yield node, ast.Name(other, ast.Load()), "name", what


LINE_RULES = (lost, added, questions, comparisons, loops, targets, slices, counts, words, fields, variables)
