"""Wrong answers, made from right ones: edits of the source of a function, each with its words.

A check is as good as the mistakes that it refutes. Here mistakes are made by the hundred: an expression of a
right function is replaced by another one, as one does who forgets a factor, sums over the wrong axis, or
takes one array for another. The witnesses must refute every wrong backward that is made so; the judge of the
exercises looks for the one that does what a learner's function does.

    Program             a function, of which expressions can be replaced
    Edit                which are replaced and by what, the kind of slip, and its words
    wrong_backwards     what edits make of the backward of an operation
"""

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import optree

from .slips import (
    HABITS,
    KINDS,
    RULES,
    Place,
    code,
    computed_from,
    expression,
    of_shape_only,
    replaced,
    statements,
)


@dataclass(frozen=True)
class Edit:
    """changes: pairs (expression, what stands there instead). kind: of KINDS. what, where: the slip in words.

    label: the name of what is computed there. Edits of one kind and one `what` are one slip at two places.
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

    function: a Python function, or the source of one. names: what it may use besides its own globals.
    outputs: names of the results, if it returns a tuple of them. ValueError if there is no source.
    """

    def __init__(self, function, names=None, outputs=()):
        source = function if isinstance(function, str) else inspect.getsource(function)
        tree = ast.parse(textwrap.dedent(source)).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise ValueError(f"function: expected the source of a function, got {source.strip()[:60]!r}")
        if ast.get_docstring(tree):
            tree.body = tree.body[1:]
        tree.decorator_list = []
        self.tree, self.outputs = tree, tuple(outputs)
        self.names = dict(getattr(function, "__globals__", {})) | (names or {})

    def function(self, *edits):
        """The function after the edits. Its globals are its own."""
        changes = {id(old): new for edit in edits for old, new in edit.changes}
        return self._compiled(replaced(self.tree, changes))

    def edits(self, arguments, sizes=()):
        """Every Edit, the cheap ones first, for arguments like these: of other shapes others are made.

        sizes: {name: number} that may come in where they should not. Raises what the function raises.
        """
        single = [
            Edit(((at.node, new),), kind, what, "".join(where), at.label, cost=KINDS[kind][0])
            for at in self.places(arguments, sizes)
            for rule in RULES
            for new, kind, what, *where in rule(at)
        ]
        return sorted([*single, *habits(single), *moves(single)], key=lambda edit: edit.cost)

    def places(self, arguments, sizes=()):
        """Every expression that is computed, with what can be seen from it."""
        found = self._locals(arguments, sizes)
        found |= {f"cache[{k!r}]": v for k, v in dict(found.get("cache") or {}).items()}
        floats = {name: x for name, x in found.items() if hasattr(x, "ndim") or isinstance(x, float)}
        arrays = {name: x for name, x in floats.items() if np.asarray(x).dtype.kind == "f"}
        seen = {name for name in arrays if name in self._arguments or name.startswith("cache[")}
        for statement in statements(self.tree.body):
            here = {name: (np.ndim(x), id(x)) for name, x in arrays.items() if name in seen}
            for root, label in self._roots(statement):
                stack = [(root, None)]
                while stack:
                    node, parent = stack.pop()
                    if of_shape_only(node):
                        continue
                    yield Place(node, parent, label, here, tuple(sizes))
                    stack += [(child, node) for child in reversed(computed_from(node))]
            stored = (
                n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            )
            seen |= {name.id for name in stored}

    @cached_property
    def _arguments(self):
        return [argument.arg for argument in self.tree.args.args]

    def _roots(self, statement):
        """(expression, name of what it computes). Of several results, all together, then each by itself."""
        value, target = getattr(statement, "value", None), getattr(statement, "target", None)
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
        if isinstance(value, ast.Tuple):
            targets = getattr(target, "elts", self.outputs)
            named = len(targets) == len(value.elts)
            yield value, "the results"
            for entry, target in zip(value.elts, targets if named else value.elts):
                yield entry, target if isinstance(target, str) else code(target).strip("`")
        elif isinstance(statement, ast.Return) and value is not None:
            yield value, self.outputs[0] if len(self.outputs) == 1 else "the result"
        elif value is not None:
            yield value, code(target or value).strip("`")

    def _locals(self, arguments, sizes):
        """The variables of the function at its end, by name."""

        class AllLocals(ast.NodeTransformer):
            def visit_Return(self, node):
                return ast.Return(expression("(A, locals())", A=node.value))

        tree = ast.fix_missing_locations(AllLocals().visit(copy.deepcopy(self.tree)))
        function = self._compiled(tree)
        function.__globals__.update(sizes)
        return function(*arguments)[1]

    def _compiled(self, tree):
        scope = dict(self.names)
        exec(compile(ast.Module([tree], []), "<mutant>", "exec"), scope)
        return scope[tree.name]


# Several places ---------------------------------------------------------------------------------------------


def habits(single):
    """One slip at all places of a line or of the program, or at all but one; and two arrays exchanged."""
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
    """A backward after an edit. same: it gives the right gradients wherever it was tried."""

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
