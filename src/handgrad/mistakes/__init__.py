"""Wrong programs, made from right ones: what the checks must refute.

A mistake is a text "old → new", said of the source of a shipped function. A page prints that text, and the
wrong program is run from the same text.

    edited      a function with a mistake: in its own source, or in that of a function that it calls
    changed     the same while a block of code runs
    known       mistakes with a name: for each operation, those that people make
    rules       what a mutation puts in the place of an expression, with its words
    mutations   every mutation of a function, and what it makes of the backward of an operation
"""

import functools
import inspect
import textwrap
from contextlib import contextmanager

ARROW = "→"


def edited(function, *changes, at=None):
    """The function, run with changes "old → new" in the source of `at`: of the function itself if None.

    Raises ValueError unless each `old` stands there exactly once.

    >>> from handgrad.ops import linear, linear_backward
    >>> wrong = edited(linear_backward, "rows_dy @ W.T → rows_dy @ W")
    """
    at = function if at is None else at
    code = code_after(at, changes)

    @functools.wraps(function)
    def with_mistake(*args, **kwargs):
        with _replaced(at, code):
            return function(*args, **kwargs)

    return with_mistake


@contextmanager
def changed(function, *changes):
    """While it lasts, the function has these changes of its source, whoever calls it and by whatever name.

    >>> import numpy as np
    >>> from handgrad.ops import silu
    >>> with changed(silu, "x * sigma → sigma"):
    ...     print(silu(np.zeros(2))[0])
    [0.5 0.5]
    """
    with _replaced(function, code_after(function, changes)):
        yield


def source_after(function, changes):
    """The source of the function after the changes "old → new". Each line of `new` is indented as `old` is.

    Raises ValueError, with the name of the function and the text, unless each `old` stands there exactly
    once.
    """
    name, source = function.__name__, textwrap.dedent(inspect.getsource(function))
    for change in changes:
        old, arrow, new = (part.strip() for part in change.partition(ARROW))
        if not (old and arrow):
            raise ValueError(f'{name}: expected a change "old {ARROW} new", got {change!r}')
        if (times := source.count(old)) != 1:
            raise ValueError(f"{name}: expected {old!r} once in its source, found it {times} times")
        line = source[: source.index(old)].rpartition("\n")[2]
        indent = line[: len(line) - len(line.lstrip())]
        source = source.replace(old, new.replace("\n", "\n" + indent))
    return source


def code_after(function, changes):
    """The code of the function after the changes, with the names of its own module."""
    if not inspect.isfunction(function) or function.__closure__ or hasattr(function, "__wrapped__"):
        raise ValueError(f"expected a function of a module, with no decorator around it, got {function!r}")
    made = {}
    source = compile(source_after(function, changes), f"<{function.__name__} with a mistake>", "exec")
    exec(source, function.__globals__, made)
    return made[function.__name__].__code__


@contextmanager
def _replaced(function, code):
    before, function.__code__ = function.__code__, code
    try:
        yield
    finally:
        function.__code__ = before
