"""The search for a repair: which change of the learner's own lines makes the answer right?

The rules that make wrong answers of right ones are applied to the learner's function, and others that put in
what is missing: a factor, a term, a sum, `keepdims`, brackets, letters of an einsum, `np.add.at` for `+=`.
What is found is a fact: with this change the function gives the right results in every case. Where no change
is found, a value of the right answer is put in the place of one of the learner's: if that makes it right, all
else is.
"""

import ast
import contextlib
import copy
import inspect
import io
import itertools
import re
from dataclasses import dataclass, field
from functools import cached_property, wraps

import numpy as np

from ...mutants import Edit, Program
from ...slips import KINDS, expression, headers, is_no_number, is_product, reduction
from .attempt import Failure, attempt
from .observe import name_factor
from .search import Finding, Search, fits, same
from .values import (
    key,
    lines_run,
    proportional,
    right_lines,
    right_variables,
    value_of,
    variables,
)

TRIALS, PAIRS = 1000, 800
"""So many changed functions are run, and so many with two changes: about a second."""
RIGHT = "right_value_here"
"""The name of what is exchanged for one of the learner's values."""
MOVED = ("name", "names", "order")
"""Kinds of changes that may stand at a name which is returned: it is another that should be."""
LINES = 300_000
"""So many lines of a learner's function are run at most, however often it loops: half a second."""
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
    "function": "A function is missing, or another one should stand there.",
    "value": "One value is wrong; all else is right.",
    "gathered": "`=` keeps the last term where `+=` would add them.",
}
"""What is wrong, by the kind of change that repairs it, where that says the opposite."""
INSERTED = ("times", "over", "plus", "reduced")
"""Kinds of changes that put in something which stands nowhere near: none of two changes."""


def silent(method):
    """The same method; what the learner's function prints while it runs is not heard."""

    @wraps(method)
    def quietly(*arguments):
        with contextlib.redirect_stdout(io.StringIO()):
            return method(*arguments)

    return quietly


def repair(answer, search, given):
    """The Repair of a learner's function, or None.

    search: the Search of the exercise; given: the results of the function as it stands. None if the function
    has no source, or may run for ever, or gives other results here.
    """
    if not inspect.isfunction(answer):
        return None
    try:
        program = Program(answer, search.names, search.outputs, lines=True)
    except (ValueError, SyntaxError, IndexError):
        return None
    if any(isinstance(node, ast.While) for node in ast.walk(program.tree)):
        return None
    state = {name: program.names.get(name) for name in names_of(answer.__code__)}
    program.names |= {n: copy.deepcopy(x) for n, x in state.items() if isinstance(x, list | dict | set)}
    found = Repair(program, search, given)
    return found if found.probe is not None and found.same_results() else None


def names_of(code):
    """The names that a function and those inside it look up: what stands there in lists is the learner's."""
    inner = (names_of(part) for part in code.co_consts if inspect.iscode(part))
    return {*code.co_names, *code.co_freevars}.union(*inner)


@dataclass
class Repair:
    """A learner's function, the Search of the exercise, and the function's results in every case."""

    program: Program
    search: Search
    given: list
    moved: dict = field(default_factory=dict)
    scaled: list = field(default_factory=list)

    @property
    def right(self):
        return self.search.right

    @property
    def outputs(self):
        return self.search.outputs

    @cached_property
    def wrong(self):
        """The outputs that are wrong."""
        return [n for n in self.outputs if not fits(self.given, self.right, [n])]

    @cached_property
    def probe(self):
        """The case in which changes are tried first: one that is wrong, the second if it is; or None."""
        bad = [i for i, (g, r) in enumerate(zip(self.given, self.right)) if not same(g, r, self.wrong)]
        return 1 if 1 in bad else bad[0] if bad else None

    @cached_property
    def trials(self):
        """How many changed functions are run."""
        return min(TRIALS, LINES // (1 + lines_run(self.program, self.search.cases[self.probe])))

    @silent
    def same_results(self):
        """Whether the function gives its results here, too."""
        return same(self._run((), self.probe), self.given[self.probe], self.outputs)

    @silent
    def one(self):
        """The Finding of a change that makes it right, or of one for each wrong result; or None."""
        kept, made = [name for name in self.outputs if name not in self.wrong], {}
        for change in itertools.islice(self._changes(), self.trials):
            results = self._run((change,), self.probe)
            good = [name for name in self.wrong if same(results, self.right[self.probe], [name])]
            if good and self._right((change,), [*good, *kept]):
                if good == self.wrong:
                    return self._told([change])
                made.setdefault(tuple(good), change)
            elif not any(isinstance(x, str) for x in results.values()):
                if self._factors(results, self.probe):
                    self.scaled.append(change)
                if change.kind not in INSERTED:
                    self.moved.setdefault(tuple(x.round(9).tobytes() for x in results.values()), change)
        parts = covering(made, self.wrong)
        return self._told(parts) if parts and self._right(parts, self.outputs) else None

    def _factors(self, results, place):
        """{wrong output: its factor} to the right one in a case, if all have one and all else is right."""
        right = self.right[place]
        if any(not same(results, right, [name]) for name in self.outputs if name not in self.wrong):
            return {}
        pairs = {name: (right[name], results[name]) for name in self.wrong}
        factors = {n: r.shape == x.shape and proportional(r, x) for n, (r, x) in pairs.items()}
        return factors if all(factors.values()) else {}

    @silent
    def but_a_factor(self):
        """The Finding of a change after which results are right but for a factor with a name; or None."""
        for change in self.scaled[:5]:
            runs = [self._run((change,), place) for place in range(len(self.right))]
            if any(isinstance(x, str) for run in runs for x in run.values()):
                continue
            factors = [self._factors(run, place) for place, run in enumerate(runs)]
            sizes = [case.sizes for case in self.search.cases]
            words = [name_factor([f[n] for f in factors], sizes) for n in self.wrong if all(factors)]
            if words and all(words) and not re.search(r"\d\.\d", "".join(words)):
                kind = TURNED.get(change.kind) or KINDS[change.kind][1]
                then = " ".join(f"Then `{n}` is {w}." for n, w in zip(self.wrong, words))
                return Finding(f"Two things. {kind} {then}", self._line(change))
        return None

    @silent
    def two(self):
        """The Finding of two changes that make it right, of those that `one` has tried; or None."""
        pairs = itertools.combinations(self.moved.values(), 2)
        for pair in sorted(pairs, key=lambda pair: pair[0].cost + pair[1].cost)[: min(PAIRS, self.trials)]:
            right = same(self._run(pair, self.probe), self.right[self.probe], self.wrong)
            if right and self._right(pair, self.outputs):
                return self._told(pair)
        return None

    @silent
    def value(self):
        """The Finding of a value that, exchanged for one of the right answer, makes it right; or None.

        It is one for all wrong results, or else one for each: the first in the order of the lines, and of the
        expressions of a line the smallest.
        """
        right = self.right[self.probe].values()
        steps = [v for v in self.search.values.values() if not any(equal(v[self.probe], r) for r in right)]
        known = {key(values[self.probe]) for values in self.search.values.values()}
        kept, made = [name for name in self.outputs if name not in self.wrong], {}
        found = variables(self.program, self.search.cases[self.probe])
        for place in self._computed(found):
            new = change(place, ast.Name(RIGHT, ast.Load()), "value")
            there = value_of(place, self.program, found)
            if key(there) in known:  # it is right, though another value there may be right as well
                continue
            for values in steps:
                if isinstance(there, np.ndarray) and there.shape != values[self.probe].shape:
                    continue
                results = self._run((new,), self.probe, values)
                good = [n for n in self.wrong if same(results, self.right[self.probe], [n])]
                if good and self._right((new,), [*good, *kept], values):
                    made.setdefault(tuple(good), new)
            if tuple(self.wrong) in made:
                break
        lines = dict.fromkeys(map(self._place, covering(made, self.wrong)))
        if not 1 <= len(lines) <= 2:
            return None
        kind = TURNED["value"] if len(lines) == 1 else "Two values are wrong; all else is right."
        then = "With the right value there your function is right in all cases."
        return Finding(kind, " ".join([*lines, then]))

    def _computed(self, found):
        """The expressions of each line that compute something of an array, the inner ones first."""
        arrays, lines = {name for name, x in found.items() if isinstance(x, np.ndarray)}, {}
        for place in self.program.places(found):
            names = {node.id for node in ast.walk(place.node) if isinstance(node, ast.Name)}
            if names & arrays and not is_returned_name(place):
                lines.setdefault(place.node.lineno, []).append(place.node)
        return [node for line in sorted(lines) for node in reversed(lines[line])][: self.trials // 8]

    def _place(self, change):
        """The learner's line, and the expression in it."""
        old = change.changes[0][0]
        for statement, parts in headers(self.program.tree.body):
            if any(old in ast.walk(part) for part in parts):
                return f"In your line `{said(statement)}`: `{said(old)}` is not right."
        return f"`{said(old)}` is not right."

    def _run(self, changes, place, values=None):
        """output -> array, or the kind of failure. values: in each case, of what is exchanged."""
        try:
            function = self.program.function(*changes)
        except (SyntaxError, ValueError, TypeError):  # of two changes, one may leave no place for the other
            return dict.fromkeys(self.outputs, "no program")
        if values:
            function.__globals__[RIGHT] = np.array(values[place])
        run = attempt(function, self.search.cases[place].inputs, self.outputs)
        if isinstance(run, Failure):
            return dict.fromkeys(self.outputs, run.kind)
        return {name: np.asarray(array, float) for name, array in run.arrays.items()}

    def _right(self, changes, outputs, values=None):
        """Whether these outputs are right in every case."""
        return all(same(self._run(changes, i, values), right, outputs) for i, right in enumerate(self.right))

    def _changes(self):
        """Every change that is worth a trial: first of lines whose values are not known to be right."""
        case = self.search.cases[self.probe]
        found = variables(self.program, case)
        if not found:
            return
        lines = right_lines(self.program, right_variables(self.program, self.search))
        sound = {id(node) for line in lines for node in ast.walk(line)}
        own = [change for rule in RULES for change in rule(self.program)]
        edits = sorted([*own, *self.program.edits_of(found, case.sizes)], key=lambda change: change.cost)
        returned = {id(node) for node in returned_names(self.program)}
        edits = [e for e in edits if id(e.changes[0][0]) not in returned or e.kind in MOVED]
        yield from (edit for edit in edits if id(edit.changes[0][0]) not in sound)
        formula = len(self.search.cases) == 1
        new = inserted(self.program, found, functions_of(self.search.program), formula)
        yield from (edit for edit in new if id(edit.changes[0][0]) not in sound)
        yield from (edit for edit in edits if id(edit.changes[0][0]) in sound)

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


def equal(value, right):
    """Whether a value is a result but for a factor, in whatever order of the axes."""
    return any((key(value) or "?")[1:] == (key(sign * right) or "!")[1:] for sign in (1, -1))


def covering(made, wrong):
    """Of {outputs: a change that mends them} as few as mend all that are wrong; none if they do not."""
    left, chosen = set(wrong), []
    for outputs in sorted(made, key=len, reverse=True):
        if left & set(outputs):
            chosen.append(made[outputs])
            left -= set(outputs)
    return [] if left else chosen


def functions_of(program):
    """The functions of one argument that a program calls, by name."""
    calls = (node for node in ast.walk(program.tree) if isinstance(node, ast.Call))
    names = {getattr(call.func, "attr", "") for call in calls if len(call.args) == 1 and not call.keywords}
    return sorted(names & {"exp", "log", "sqrt", "tanh", "abs", "sign", "cos", "sin"})


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


def summed(program):
    """`x += y` for `x = y` in a loop."""
    for loop in nodes(program, ast.For):
        for node in loop.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                yield change(node, ast.AugAssign(node.targets[0], ast.Add(), node.value), "gathered")


def bounded(program):
    """A slice at the other side of its bound, or counted from the end; a range one longer or shorter."""
    for node in nodes(program, ast.Slice):
        for bound in filter(None, (node.lower, node.upper)):
            back = expression("-(A)", A=bound)
            sides = ((bound, None), (None, bound), (back, None), (None, back))
            yield from (change(node, ast.Slice(*side, node.step), "slice") for side in sides)
    for call in nodes(program, ast.Call):
        if getattr(call.func, "id", getattr(call.func, "attr", "")) in ("range", "arange") and call.args:
            last = call.args[min(1, len(call.args) - 1)]
            yield from (change(last, expression(f"(A) {more}", A=last), "number") for more in ("+ 1", "- 1"))


def otherwise(program):
    """A function of NumPy for its counterpart."""
    for node in nodes(program, ast.Attribute):
        if new := COUNTERPARTS.get(node.attr):
            yield change(node, ast.Attribute(node.value, new, ast.Load()), "function")


COUNTERPARTS = "tile repeat, tril triu, cos sin, maximum minimum, max min, argmax argmin, zeros ones"
COUNTERPARTS = {a: b for pair in COUNTERPARTS.split(", ") for a, b in itertools.permutations(pair.split())}

RULES = (kept, along, scattered, lettered, bracketed, summed, bounded, otherwise)


def inserted(program, found, functions=(), formula=False):
    """A sum, a mean or one of these functions around an expression; then a factor, a divisor, a power or a
    term of what is there. What is returned by its name is mended where it is computed. formula: whether any
    variable may be a power; of a size it could be an array that no memory holds.
    """
    places = [place for place in program.places(found) if not is_no_number(place.node)]
    places = [place for place in places if not is_returned_name(place)]
    for place in places:
        for function in functions:
            yield change(place.node, expression(f"np.{function}(A)", A=place.node), "function")
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
            if brick in POWERS or formula:
                yield change(place.node, expression(f"(A) ** ({brick})", A=place.node), "power")


POWERS = ("2", "-1")


def returned_names(program):
    """The names that are returned: what they hold is computed elsewhere."""
    for statement in nodes(program, ast.Return):
        parts = getattr(statement.value, "elts", [statement.value])
        yield from (part for part in parts if isinstance(part, ast.Name))


def is_returned_name(place):
    """Whether it is a name that stands alone: what it holds is computed elsewhere."""
    return place.parent is None and isinstance(place.node, ast.Name)


def bricks(found):
    """What may be missing, as code: numbers, the variables, lengths, and sums and means of the arrays."""
    numbers = [n for n, x in found.items() if isinstance(x, int | float | np.number) and type(x) is not bool]
    floats = {n: x for n, x in found.items() if isinstance(x, np.ndarray) and x.dtype.kind in "fiu"}
    axes = [(name, axis) for name, x in [*floats.items()][:2] for axis in range(1, x.ndim + 1)]
    lengths = [f"{name}.shape[-{axis}]" for name, axis in axes]
    forms = [f"{name}.{kind}(axis=-1, keepdims=True)" for kind in ("sum", "mean") for name in floats]
    return [*POWERS, *numbers, *floats, *lengths, *forms]
