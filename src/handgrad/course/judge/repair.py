"""The search for a repair: which change of the learner's own lines makes the answer right?

The rules that make wrong answers of right ones are applied to the learner's function, and others that put in
what is missing: a factor, a term, a sum, `keepdims`, brackets, letters of an einsum, `np.add.at` for `+=`.
What is found is a fact: with this change the function gives the right results in every case.
"""

import ast
import contextlib
import inspect
import io
import itertools
from dataclasses import dataclass

import numpy as np

from ...mutants import Edit, Program, watched
from ...slips import KINDS, expression, headers, is_no_number, is_product, reduction
from .attempt import Failure, attempt
from .search import Finding, fits, same

TRIALS, PAIRS = 2000, 1000
"""So many changed functions are run, and so many with two changes: about two seconds."""
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
    "gathered": "`=` keeps the last term where `+=` would add them.",
}
"""What is wrong, by the kind of change that repairs it, where that says the opposite."""
INSERTED = ("times", "over", "plus", "reduced")
"""Kinds of changes that put in something which stands nowhere near: none of two changes."""


def repair(answer, search, given):
    """The Finding of a change that makes a learner's function right, or None.

    search: the Search of the exercise; given: the results of the function as it stands. None too if the
    function has no source, or may run for ever.
    """
    if not inspect.isfunction(answer):
        return None
    try:
        program = Program(answer, search.names, search.outputs, lines=True)
    except (ValueError, SyntaxError, IndexError):
        return None
    if any(isinstance(node, ast.While) for node in ast.walk(program.tree)):
        return None
    with contextlib.redirect_stdout(io.StringIO()):
        return Repair(program, search.cases, search.right, search.outputs).find(given)


@dataclass(frozen=True)
class Repair:
    """A learner's function; cases, right results and outputs as in Search."""

    program: Program
    cases: list
    right: list
    outputs: tuple

    def find(self, given):
        """The Finding for the results `given` of the function as it stands, or None."""
        wrong = [n for n in self.outputs if not fits(given, self.right, [n])]
        probe = self._probe(given, wrong)
        if not wrong or probe is None or not same(self._run((), probe), given[probe], self.outputs):
            return None
        kept = [name for name in self.outputs if name not in wrong]
        made, moved = {}, {}
        for change in itertools.islice(self._changes(probe), TRIALS):
            results = self._run((change,), probe)
            good = [name for name in wrong if same(results, self.right[probe], [name])]
            if good and self._right((change,), [*good, *kept]):
                if good == wrong:
                    return self._told([change])
                made.setdefault(tuple(good), change)
            elif change.kind not in INSERTED and not any(isinstance(x, str) for x in results.values()):
                moved.setdefault(tuple(x.round(9).tobytes() for x in results.values()), change)
        parts = [made[(name,)] for name in wrong if (name,) in made]
        if len(parts) == len(wrong) and self._right(parts, self.outputs):
            return self._told(parts)
        pairs = itertools.combinations(moved.values(), 2)
        for pair in sorted(pairs, key=lambda pair: pair[0].cost + pair[1].cost)[:PAIRS]:
            if same(self._run(pair, probe), self.right[probe], wrong) and self._right(pair, self.outputs):
                return self._told(pair)
        return None

    def _probe(self, given, wrong):
        """The case in which changes are tried first: one that is wrong, the second if it is."""
        bad = [i for i, (g, r) in enumerate(zip(given, self.right)) if not same(g, r, wrong)]
        return 1 if 1 in bad else bad[0] if bad else None

    def _run(self, changes, place):
        """output -> array, or the kind of failure."""
        try:
            function = self.program.function(*changes)
        except (SyntaxError, ValueError, TypeError):  # of two changes, one may leave no place for the other
            return dict.fromkeys(self.outputs, "no program")
        run = attempt(function, self.cases[place].inputs, self.outputs)
        if isinstance(run, Failure):
            return dict.fromkeys(self.outputs, run.kind)
        return {name: np.asarray(array, float) for name, array in run.arrays.items()}

    def _right(self, changes, outputs):
        """Whether these outputs are right in every case."""
        return all(same(self._run(changes, i), right, outputs) for i, right in enumerate(self.right))

    def _changes(self, probe):
        """Every change that is worth a trial, the likeliest first."""
        function, case = self.program.function(), self.cases[probe]
        quietly = contextlib.suppress(
            Exception, SystemExit
        )  # its variables are wanted; what it raises is told
        with watched(function) as calls, quietly, np.errstate(all="ignore"):
            function(*case.inputs)
        if calls:  # else it does not take such arguments
            found = calls[-1][1]
            own = [change for rule in RULES for change in rule(self.program)]
            yield from sorted([*own, *self.program.edits_of(found, case.sizes)], key=lambda c: c.cost)
            yield from inserted(self.program, found)

    def _told(self, changes):
        kinds = dict.fromkeys(TURNED.get(c.kind) or KINDS[c.kind][1] for c in changes)
        two = ["Two things."] if len(kinds) > 1 else []
        lines = [self._line(change) for change in changes]
        which = "this" if len(changes) == 1 else "these"
        return Finding(
            " ".join([*two, *kinds]), " ".join([*lines, f"With {which} your function is right in all cases."])
        )

    def _line(self, change):
        """The learner's line, and what it should be."""
        old = change.changes[0][0]
        pairs = [f"`{said(new)}` in place of `{said(before)}`" for before, new in change.changes]
        for statement, parts in headers(self.program.tree.body):
            if statement is old or any(old in ast.walk(part) for part in parts):
                return f"In your line `{said(statement)}`: {', '.join(dict.fromkeys(pairs))}."
        return f"{pairs[0]}."


def said(node):
    """The code of an expression, or of the first line of a statement."""
    return ast.unparse(node).splitlines()[0]


# Changes that put in what is missing ------------------------------------------------------------------------
# Each rule takes a Program and yields changes.


def change(old, new, kind, cost=1.0):
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
            yield change(call, ast.Call(call.func, call.args, keywords), "kept")


def along(program):
    """Another axis, in one call and in all that name the same one."""
    named = [k.value for call in nodes(program, ast.Call) for k in call.keywords if k.arg == "axis"]
    for old in dict.fromkeys(map(ast.unparse, named)):
        for new in ("-1", "-2", "0", "1", "2", "(0, 1)", "(0, 2)", "(1, 2)"):
            pairs = [(node, expression(new)) for node in named if ast.unparse(node) == old != new]
            yield from (Edit((pair,), "axis", "", "", "", cost=1.0) for pair in pairs)
            if len(pairs) > 1:
                yield Edit(tuple(pairs), "axis", "", "", "", cost=1.0)


def scattered(program):
    """np.add.at(x, i, y) for x[i] += y, and x[i] += y for x[i] = y."""
    for node in nodes(program, ast.AugAssign):
        if isinstance(node.target, ast.Subscript) and isinstance(node.op, ast.Add):
            array = ast.unparse(node.target.value)
            index = ast.unparse(node.target).removeprefix(f"{array}[").removesuffix("]")
            sliced = any(isinstance(part, ast.Slice) for part in ast.walk(node.target.slice))
            where = f"np.s_[{index}]" if sliced else f"({index})"
            call = expression(f"np.add.at({array}, {where}, VALUE)", VALUE=node.value)
            yield change(node, ast.Expr(call), "scatter")
    for node in nodes(program, ast.Assign):
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            yield change(node, ast.AugAssign(node.targets[0], ast.Add(), node.value), "gathered")


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
                        yield change(call.args[0], ast.Constant(words), "letters")


def bracketed(program):
    """a ∘ (b ∘ c) for (a ∘ b) ∘ c, and the other way round."""
    for node in nodes(program, ast.BinOp):
        if isinstance(node.left, ast.BinOp):
            (a, first, b), then, c = (node.left.left, node.left.op, node.left.right), node.op, node.right
            yield change(node, ast.BinOp(a, first, ast.BinOp(b, then, c)), "brackets", 1.2)
        if isinstance(node.right, ast.BinOp):
            a, first, (b, then, c) = node.left, node.op, (node.right.left, node.right.op, node.right.right)
            yield change(node, ast.BinOp(ast.BinOp(a, first, b), then, c), "brackets", 1.2)


RULES = (kept, along, scattered, lettered, bracketed)


def inserted(program, found):
    """A sum or mean around an expression; then a factor, a divisor or a term of what is there."""
    places = [place for place in program.places(found) if not is_no_number(place.node)]
    most = max((x.ndim for x in found.values() if isinstance(x, np.ndarray)), default=0)
    forms = itertools.product(("sum", "mean"), range(1, most + 1), (", keepdims=True", ""))
    templates = [f"(A).{name}(axis=-{axis}{more})" for name, axis, more in forms]
    for place in places:
        for template in () if reduction(place.node) else templates:
            yield change(place.node, expression(template, A=place.node), "reduced")
    for place in places:
        inside = is_product(place.parent) and is_product(place.node)  # the product around it is a place, too
        for brick in () if inside else bricks(found):
            for sign, kind in (("*", "times"), ("/", "over"), ("-", "plus"), ("+", "plus")):
                new = expression(f"(A) {sign} ({brick})", A=place.node)
                yield change(place.node, new, kind)


def bricks(found):
    """What may be missing, as code: numbers, the variables, lengths, and sums and means of the arrays."""
    numbers = [n for n, x in found.items() if isinstance(x, int | float | np.number) and type(x) is not bool]
    floats = {n: x for n, x in found.items() if isinstance(x, np.ndarray) and x.dtype.kind in "fiu"}
    axes = [(name, axis) for name, x in [*floats.items()][:2] for axis in range(1, x.ndim + 1)]
    lengths = [f"{name}.shape[-{axis}]" for name, axis in axes]
    forms = [f"{name}.{kind}(axis=-1, keepdims=True)" for kind in ("sum", "mean") for name in floats]
    return ["2", "-1", *numbers, *floats, *lengths, *forms]
