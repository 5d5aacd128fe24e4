"""Mutations of the source of a function, each with its words, and the mutants that they make.

A check is as good as the mistakes that it refutes. Here mistakes are made by the hundred: an expression of a
right function is replaced by another one, as one does who forgets a factor, sums over the wrong axis, or
takes one array for another. The witnesses must refute every wrong backward that is made so; the judge of the
exercises looks for the one that does what a learner's function does.

    Program             a function, of which expressions can be replaced, and lines
    Edit                which are replaced and by what, the kind of mistake, and its words
    watched             the variables of functions while something runs, which say what can be replaced
    wrong_backwards     what edits make of the backward of an operation
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import optree

from .rules import (
    HABITS,
    KINDS,
    LINE_RULES,
    RULES,
    Line,
    Place,
    code,
    computed_from,
    expression,
    headers,
    of_shape_only,
    replaced,
    statements,
)


@dataclass(frozen=True)
class Edit:
    """changes: pairs (expression, what stands there instead). kind: of KINDS. what, where: it in words.

    label: the name of what is computed there. Edits of one kind and one `what` are one mistake at two places.
    """

    changes: tuple
    kind: str
    what: str
    where: str
    label: str
    scope: str = ""
    cost: float = 0.0

    @property
    def place(self):
        """What it is and where, in a sentence."""
        return f"{self.scope}: {self.what}." if self.scope else f"In `{self.label}`: {self.what}{self.where}."

    @property
    def source(self):
        """Where in the source, and what then stands there: equal for equal edits only."""
        return tuple((old.lineno, old.col_offset, ast.unparse(new)) for old, new in self.changes)


class Program:
    """A function whose expressions can be replaced.

    function: a Python function, or the source of one. names: what it may use besides its own globals and the
    variables of a function that it stands in. outputs: names of the results, if it returns a tuple of them.
    lines: its lines are edited too, with their conditions, loops, keys and slices, as befits a program that
    is more than formulas.
    ValueError if there is no source.
    """

    def __init__(self, function, names=None, outputs=(), lines=False):
        source = function if isinstance(function, str) else source_of(function)
        tree = ast.parse(textwrap.dedent(source)).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise ValueError(f"function: expected the source of a function, got {source.strip()[:60]!r}")
        if ast.get_docstring(tree):
            tree.body = tree.body[1:]
        tree.decorator_list = []
        self.tree, self.outputs, self.lines = tree, tuple(outputs), lines
        around = {} if isinstance(function, str) else inspect.getclosurevars(function).nonlocals
        self.names = dict(getattr(function, "__globals__", {})) | around | (names or {})

    def function(self, *edits):
        """The function after the edits. Its globals are its own."""
        scope = dict(self.names)
        exec(compile(ast.Module([self._after(edits)], []), "<mutant>", "exec"), scope)
        return scope[self.tree.name]

    def source(self, *edits):
        """The text of the function after the edits."""
        return ast.unparse(self._after(edits))

    def place(self, *edits):
        """What the edits are and where, in sentences, and what the names of this program stand for."""
        places = [edit.place for edit in edits]
        given, made = {node.arg for node in ast.walk(self.tree.args) if isinstance(node, ast.arg)}, {}
        for statement in (node for node in ast.walk(self.tree) if isinstance(node, ast.Assign)):
            target, value = statement.targets[0], statement.value
            both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            for name, one in zip(target.elts, value.elts) if both else [(target, value)]:
                made.setdefault(ast.unparse(name), one)
        said = re.findall(r"[^\W\d]\w*(?!\w|\()", " ".join(" ".join(places).split("`")[1::2]))
        own = [n for n in dict.fromkeys(said) if n in made and n not in given and n not in self.outputs]
        told = [
            f"`{n}` is {code(made[n])}" for n in own if not any(code(made[n]) in place for place in places)
        ]
        return " ".join([*places, *([f"Here {', '.join(told)}."] if told else [])])

    def _after(self, edits):
        changes = {id(old): new for edit in edits for old, new in edit.changes}
        return ast.fix_missing_locations(replaced(self.tree, changes))

    def edits(self, arguments, sizes=()):
        """Every Edit, the cheap ones first, for arguments like these: of other shapes others are made.

        sizes: {name: number} that may come in where they should not. Raises what the function raises.
        """
        function = self.function()
        function.__globals__.update(sizes)
        with watched(function) as calls:
            function(*arguments)
        return self.edits_of(calls[-1][1], sizes)

    def edits_of(self, found, sizes=()):
        """The same for a call that was watched. found: its variables."""
        single = [
            Edit(((at.node, new),), kind, what, "".join(where), at.label, cost=KINDS[kind][0])
            for at in self.places(found, sizes)
            for rule in RULES
            for new, kind, what, *where in rule(at)
        ]
        of_lines = [
            Edit(((old, new),), kind, what, "", line.label, cost=KINDS[kind][0])
            for line in (self._lines(found) if self.lines else ())
            for rule in LINE_RULES
            for old, new, kind, what in rule(line)
        ]
        several = [*habits(single), *moves(single)]
        return sorted([*single, *of_lines, *several], key=lambda edit: edit.cost)

    def places(self, found, sizes=()):
        """Every expression that is computed, with what can be seen from it. found: variables of a call."""
        found = dict(found)
        found |= {f"cache[{k!r}]": v for k, v in dict(found.get("cache") or {}).items()}
        floats = {name: x for name, x in found.items() if hasattr(x, "ndim") or isinstance(x, float)}
        arrays = {name: x for name, x in floats.items() if np.asarray(x).dtype.kind == "f"}
        seen = {name for name in arrays if name in self._arguments or name.startswith("cache[")}
        for statement in statements(self.tree.body):
            here = {name: (np.ndim(x), id(x)) for name, x in arrays.items() if name in seen}
            returned = isinstance(statement, ast.Return) and id(statement) not in self._inner_returns
            for root, label in self._roots(statement):
                stack = [(root, statement if isinstance(statement, ast.Expr) else None)]
                while stack:
                    node, parent = stack.pop()
                    if of_shape_only(node):
                        continue
                    yield Place(node, parent, label, here, tuple(sizes), returned and parent is None)
                    named = [(k.value, k) for k in getattr(node, "keywords", ()) if self.lines]
                    stack += [*named, *((child, node) for child in reversed(computed_from(node)))]
            seen |= _stored(statement)

    @cached_property
    def _inner_returns(self):
        """{id of a `return`: the function inside this one that it belongs to}."""
        inside = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)][1:]
        return {id(node): f.name for f in inside for node in ast.walk(f) if isinstance(node, ast.Return)}

    @cached_property
    def _arguments(self):
        inside = ast.walk(self.tree) if self.lines else ast.walk(self.tree.args)
        return [node.arg for node in inside if isinstance(node, ast.arg)]

    def _lines(self, found):
        """Every statement and the head of every loop and branch, with what can be seen from it."""
        numbers = {name: x for name, x in found.items() if isinstance(x, int | dict | slice)}
        values = [node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant)]
        seen, words = set(self._arguments), dict.fromkeys(v for v in values if isinstance(v, str))
        for statement, parts in headers(self.tree.body):
            here = {name: (type(x), id(x)) for name, x in numbers.items() if name in seen}
            said = code(parts[0]).strip("`") if parts else ast.unparse(statement)  # such as "continue"
            label = next((label for _, label in self._roots(statement)), said)
            yield Line(statement, parts, label, here, tuple(words), self.tree)
            seen |= _stored(statement)

    def _roots(self, statement):
        """(expression, name of what it computes). Of several results, all together, then each by itself."""
        value, target = getattr(statement, "value", None), getattr(statement, "target", None)
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
        if isinstance(value, ast.Tuple):
            results = self._inner_returns.get(id(statement), "the results")
            targets = getattr(target, "elts", self.outputs)
            named = len(targets) == len(value.elts)
            yield value, code(target).strip("`()") if target is not None else results
            for entry, target in zip(value.elts, targets if named else value.elts):
                entry = entry.value if isinstance(entry, ast.Starred) else entry  # it cannot stand alone
                yield entry, target if isinstance(target, str) else code(target).strip("`")
        elif isinstance(statement, ast.Return) and value is not None:
            yield value, self.outputs[0] if len(self.outputs) == 1 else "the result"
        elif value is not None:
            yield value, code(target or value).strip("`")


def source_of(function):
    """The source of a function; raises ValueError that names it if there is none."""
    name = getattr(function, "__name__", repr(function))
    try:
        source = inspect.getsource(function)
        if name not in source:  # Python 3.13 takes what "python -c" was given for that of any "<string>"
            raise OSError("what is there is another text")
        return source
    except (OSError, TypeError) as error:
        raise ValueError(
            f"{name}: expected a function whose source is in a file or a cell: {error}"
        ) from error


def _stored(statement):
    """The names that it gives to something."""
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


@contextmanager
def watched(*functions):
    """Collect (function, its variables at the end) of every call. Functions inside a function count as it."""
    calls, before = [], sys.getprofile()
    owners = {own: f for f in functions for own in _written_in(f.__code__)}

    def look(frame, event, _):
        if event == "return" and frame.f_code in owners:
            calls.append((owners[frame.f_code], dict(frame.f_locals)))

    sys.setprofile(look)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def _written_in(own):
    """This code and that of all functions inside it which have a name."""
    inner = [part for part in own.co_consts if inspect.iscode(part) and not part.co_name.startswith("<")]
    return [own, *(code for part in inner for code in _written_in(part))]


# Several places ---------------------------------------------------------------------------------------------


def habits(single):
    """One mistake at all places of a line or of the program, or at all but one; and two arrays exchanged."""
    groups = {}
    for edit in single:
        for label in ("", edit.label) if edit.kind in HABITS else ():
            groups.setdefault((edit.what, label), {}).setdefault(id(edit.changes[0][0]), edit)
    for (what, label), group in groups.items():
        edits, scope = [*group.values()], f"In all of `{label}`" if label else "Everywhere"
        changes = sum((edit.changes for edit in edits), ())
        if len(edits) > 1:
            yield replace(edits[-1], changes=changes, scope=scope)
        for spared in edits if len(edits) > 2 else ():
            rest = tuple(change for change in changes if change not in spared.changes)
            where = f"{scope} but for {code(spared.changes[0][0])} in `{spared.label}`"
            yield replace(edits[-1], changes=rest, scope=where, cost=edits[-1].cost + 0.5)
        if edits[0].kind == "name":
            one, other = what.split("`")[1::2]
            back = groups.get((f"`{other}` stands where `{one}` should", label), {}) if one < other else {}
            if back:
                changes += sum((edit.changes for edit in back.values()), ())
                exchange = dict(
                    kind="names", what=f"`{one}` and `{other}` are exchanged", cost=KINDS["names"][0]
                )
                yield replace(edits[-1], changes=changes, scope=scope, **exchange)


def moves(single):
    """A factor that is missing at one place and too many at another."""
    extra = {}
    for edit in single:
        if edit.kind == "too many" and edit.what.startswith("the factor"):
            extra.setdefault(edit.what.split("`")[1], []).append(edit)
    for gone in single:
        name = gone.what.split("`")[1] if gone.kind == "factor" else ""
        for there in extra.get(name, ()):
            here, elsewhere = code(gone.changes[0][0]), code(there.changes[0][0])
            if here == elsewhere:
                continue
            what = f"the factor `{name}` belongs to {here}, not to {elsewhere}"
            moved = dict(kind="moved", what=what, where="", cost=KINDS["moved"][0])
            yield replace(gone, changes=gone.changes + there.changes, **moved)


# Operations -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A backward after an edit: place says which. same: it gives the right gradients wherever it was tried.

    >>> Mutant("In `ds`: the sign is turned.", lambda da, cache: -da, same=False).place
    'In `ds`: the sign is turned.'
    """

    place: str
    backward: Callable
    same: bool


def wrong_backwards(op, seed=0):
    """What single edits make of op.backward: a list of Mutant, on all kinds of inputs that op draws.

    The private functions that it calls are edited too; and what a private backward calls, which is there for
    no other reason. Left out are edits of lines that this operation does not reach, those that raise or give
    other shapes on every kind of input, and all but the first of those that give the same numbers. What is
    left and `same` is right for a reason, an identity that somebody should be able to name. A backward that
    raises on some inputs raises AssertionError there, as a witness does.

    Raises ValueError if the backward has no source: it must stand in a file or in the cell of a notebook.

    >>> from handgrad.ops.table import OPS
    >>> made = wrong_backwards(OPS["softmax"])
    >>> made[0].place
    'In `ds`: the factor `a` is missing, in `a * (da - sum(a * da))`.'
    >>> sum(mutant.same for mutant in made)
    0
    """
    rng, trials, edits = np.random.default_rng(seed), [], {}
    for inputs, options in op.draws(rng):
        y, cache = op.forward(**inputs, **options)
        dy = np.asarray(rng.standard_normal(np.shape(y)))[()]
        trials.append((dy, cache, _numbers(op.backward(dy, cache))))
        for name, program, arguments, backward in _programs(op, dy, cache):
            for edit in program.edits(arguments):
                edits.setdefault((name + edit.place, edit.source), (edit, program, backward))
    found = {}
    for (place, _), (edit, program, whole) in edits.items():
        backward = whole(program.function(edit))
        marks = [_mark(backward, dy, cache, right) for dy, cache, right in trials]
        same = set(marks) == {"right"}
        if set(marks) != {None} and not (same and _unreached(program, whole, edit, trials)):
            found.setdefault(place if same else tuple(marks), Mutant(place, _heard(backward), same))
    return list(found.values())


def _programs(op, dy, cache):
    """(name, Program, arguments, function from the edited to the whole backward) of all that is edited."""
    outputs = [f"d{name}" for name in op.inputs]
    yield "", Program(op.backward, outputs=outputs), (dy, cache), lambda edited: edited
    scope = op.backward.__globals__
    called = {
        n.func.id
        for n in ast.walk(Program(op.backward).tree)
        if isinstance(n, ast.Call) and hasattr(n.func, "id")
    }
    for name in sorted(called & scope.keys()):
        private = name.startswith("_") or op.backward.__name__.startswith("_")
        if private and inspect.isfunction(scope[name]) and not inspect.isgeneratorfunction(scope[name]):
            calls = []

            def spy(*arguments, f=scope[name], calls=calls):
                calls.append(arguments)
                return f(*arguments)

            def whole(edited, name=name):
                return Program(op.backward, {name: edited}).function()

            whole(spy)(dy, cache)
            for arguments in calls[:1]:
                yield f"{name}: ", Program(scope[name]), arguments, whole


def _numbers(gradients):
    return [np.asarray(leaf, dtype=float) for leaf in optree.tree_leaves(gradients)]


def _heard(backward):
    """The same backward; what it raises is an objection to it. Roots of negative numbers need no warning."""

    def run(dy, cache):
        try:
            with np.errstate(all="ignore"):
                return backward(dy, cache)
        except Exception as error:
            raise AssertionError(f"it raises {type(error).__name__}") from error

    return run


def _mark(backward, dy, cache, right):
    """What a backward gives: "right", its digits, or None if it raises or the shapes are others."""
    try:
        got = _numbers(np.errstate(all="ignore")(backward)(dy, cache))
    except Exception:  # whatever an edit makes of a program; this is asked of nothing else
        return None
    if [g.shape for g in got] != [r.shape for r in right]:
        return None
    scales = [np.abs(r).max(initial=0) or 1.0 for r in right]
    if all(np.abs(g - r).max(initial=0) <= 1e-11 * s for g, r, s in zip(got, right, scales)):
        return "right"
    return tuple((g / s).round(8).tobytes() for g, s in zip(got, scales))


def _unreached(program, whole, edit, trials):
    """Whether what an edit changes is never computed: an error in its place is not felt."""
    alarm = replace(edit, changes=tuple((old, expression("(1 / 0)")) for old, _ in edit.changes))
    backward = whole(program.function(alarm))
    return all(_mark(backward, dy, cache, right) == "right" for dy, cache, right in trials)
