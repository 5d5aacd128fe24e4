"""Which values of a learner's function are right: those that the right answer computes as well.

A variable is right if, in every case, one variable of the right answer holds the same numbers, in whatever
order of the axes. What equals an argument says nothing.
"""

import ast
import contextlib
import copy
import sys

import numpy as np

from ...mistakes.mutations import watched
from ...mistakes.rules import headers


def variables(program, case, *edits):
    """{name: value} at the end of a run, whatever it raises; {} if it cannot be called."""
    function = program.function(*edits)
    quietly = contextlib.suppress(Exception, SystemExit)  # the variables are wanted; what it raises is told
    with watched(function) as calls, quietly, np.errstate(all="ignore"):
        function(*case.inputs)
    return calls[-1][1] if calls else {}


def computed(program, case):
    """{code: value} of the variables at the end of a run, and of the expressions that make them."""
    found = variables(program, case)
    nodes = {ast.unparse(place.node): place.node for place in program.places(found, case.sizes)}
    others = {text: value_of(node, program, found) for text, node in nodes.items() if text not in found}
    return found | {text: value for text, value in others.items() if key(value) is not None}


def value_of(node, program, found):
    """The value of an expression by the variables at the end of a run; None if it has none then."""
    try:
        code = compile(ast.fix_missing_locations(ast.Expression(copy.deepcopy(node))), "", "eval")
        return eval(code, program.names | found)
    except Exception:
        return None


def is_harmless(node):
    """Whether nothing happens if an expression is evaluated again: it calls plain functions of NumPy, and
    methods of arrays that return another.
    """
    for call in (part for part in ast.walk(node) if isinstance(part, ast.Call)):
        text = ast.unparse(call.func)
        module, _, name = text.rpartition(".")
        plain = module in ("np", "numpy") and name not in CHANGING or name in RETURNING
        if any(keyword.arg in ("out", None) for keyword in call.keywords):
            return False
        if not plain and text not in ("len", "float", "int", "abs", "range", "slice", "min", "max", "sum"):
            return False
    return not any(isinstance(part, ast.NamedExpr | ast.Await | ast.Yield) for part in ast.walk(node))


CHANGING = "put place putmask copyto fill_diagonal put_along_axis save savez load fromfile set_printoptions"
CHANGING = (*CHANGING.split(), "seterr", "savetxt", "loadtxt", "genfromtxt", "memmap")
RETURNING = (
    "sum mean var std max min prod all any argmax argmin cumsum dot reshape transpose swapaxes squeeze"
)
RETURNING = (*RETURNING.split(), "astype", "copy", "ravel", "flatten", "repeat", "take", "clip", "round")


def lines_run(program, case):
    """How many lines of a program a case runs."""
    function, count, before = program.function(), 0, sys.gettrace()

    def look(frame, event, _):
        nonlocal count
        if frame.f_code.co_filename != function.__code__.co_filename:
            return None
        count += event == "line"
        return look

    sys.settrace(look)
    try:
        with contextlib.suppress(Exception, SystemExit), np.errstate(all="ignore"):
            function(*case.inputs)
    finally:
        sys.settrace(before)
    return count


def right_variables(program, search):
    """{variable of the learner's function: that of the right answer}, if it is right in every case.

    Of two that hold the same numbers the second may be wrong: it should hold others.
    """
    found = None
    for case in search.cases:
        theirs = {name: key(x) for name, x in variables(search.program, case).items()}
        arguments = {key(x) for x in case.inputs}
        steps = {name: k for name, k in theirs.items() if k is not None and k not in arguments}
        mine = {name: key(x) for name, x in variables(program, case).items()}
        pairs = {(a, b) for a, k in mine.items() for b, other in steps.items() if k == other}
        found = pairs if found is None else found & pairs
    one_of_each, taken = dict(sorted(found or (), reverse=True)), set()
    for name in (name for name in mine if name in one_of_each):
        if one_of_each[name] in taken:
            del one_of_each[name]
        else:
            taken.add(one_of_each[name])
    return one_of_each


def key(value):
    """The same for equal numbers in another order of the axes; None for what is no number."""
    if not isinstance(value, int | float | np.ndarray | np.number):
        return None
    array = np.asarray(value)
    if array.dtype.kind in "bi":
        return tuple(n for n in array.shape if n > 1), array.astype(float).tobytes()
    if array.dtype.kind != "f":
        return None
    size = np.abs(array).max(initial=0) or 1.0
    with np.errstate(all="ignore"):
        return f"{size:.9e}", np.sort(array.ravel() / size).round(9).tobytes()


def right_lines(program, right):
    """The statements all of whose variables are right."""
    lines = []
    for statement, _ in headers(program.tree.body):
        stored = {
            n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        if stored and stored <= set(right) and not isinstance(statement, ast.For | ast.AugAssign):
            lines.append(statement)
    return lines


def proportional(made, target, tolerance=1e-9):
    """The factor f of target = f · made; 0.0 if both are 0; None if there is none."""
    size, most = float((made * made).sum()), np.abs(target).max(initial=0)
    if not size or not np.isfinite(size):
        return None if most or not np.isfinite(size) else 0.0
    factor = float((made * target).sum()) / size
    return factor if np.abs(target - factor * made).max(initial=0) <= tolerance * most and factor else None
