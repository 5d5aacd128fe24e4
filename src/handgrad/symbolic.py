"""The array functions our formulas use, over object arrays of SymPy expressions or mpmath numbers.

A symbol has no size that one could compare, so two functions are redefined for symbols: `max` returns an
unknown real constant for each slice (softmax may not depend on which, and `check.prove` asks that it does
not), and `where` under a condition such as x > 0 returns an expression with the indicator `step`, whose
derivative is 0 away from the kink.
"""

import itertools
from builtins import any as any_of

import gmpy2  # noqa: F401  (mpmath computes its 50 digits with it)
import mpmath
import numpy as np
import sympy
from numpy import (  # noqa: F401  (these work on object arrays as they are)
    any,
    arange,
    asarray,
    broadcast_to,
    concat,
    expand_dims,
    int64,
    mean,
    permute_dims,
    reshape,
    stack,
    sum,
    take,
    zeros_like,
)

_fresh = itertools.count()


class step(sympy.Function):
    """1 where its argument is positive, else 0; constant, hence without derivative, away from 0."""

    @classmethod
    def eval(cls, x):
        if x.is_number:
            return sympy.Integer(1 if x > 0 else 0)

    def fdiff(self, argindex=1):
        return sympy.Integer(0)


def _elementwise(of_expression, of_number):
    """A function of one array: `of_number` where an entry is an mpmath number, `of_expression` elsewhere."""

    def function(x):
        return np.vectorize(
            lambda e: of_number(e) if isinstance(e, (mpmath.mpf, float)) else of_expression(e),
            otypes=[object],
        )(x)

    return function


exp = _elementwise(sympy.exp, mpmath.exp)
log = _elementwise(sympy.log, mpmath.log)
sqrt = _elementwise(sympy.sqrt, mpmath.sqrt)
tanh = _elementwise(sympy.tanh, mpmath.tanh)
sin = _elementwise(sympy.sin, mpmath.sin)
cos = _elementwise(sympy.cos, mpmath.cos)
erf = _elementwise(sympy.erf, mpmath.erf)
isfinite = np.vectorize(lambda e: e not in (sympy.oo, -sympy.oo, mpmath.inf, -mpmath.inf), otypes=[bool])


def astype(x, dtype):
    """Every number stays exact: the integers 0 and 1 of a converted condition."""
    return np.asarray(x).astype(int).astype(object) if np.asarray(x).dtype == bool else x


def holds_numbers(x):
    """Whether the entries of x are mpmath numbers; otherwise they are SymPy expressions."""
    return any_of(isinstance(e, mpmath.mpf) for e in x.flat)


def root(number, x):
    """√number in the kind of number that x holds."""
    return mpmath.sqrt(number) if holds_numbers(x) else sympy.sqrt(number)


def pi(x):
    """π in the kind of number that x holds."""
    return +mpmath.pi if holds_numbers(x) else sympy.pi


def symbols(name, shape):
    """An object array of real symbols: name, then the indices of the entry."""
    entries = [sympy.Symbol(f"{name}_{','.join(map(str, i))}", real=True) for i in np.ndindex(*shape)]
    return np.array(entries, dtype=object).reshape(shape)


def max(x, axis=-1, keepdims=False):
    """The maximum of numbers; of symbols, an unknown real constant (−∞ where every entry is −∞)."""
    if holds_numbers(x):
        return np.max(x, axis=axis, keepdims=keepdims)
    nothing = np.all(~isfinite(x), axis=axis, keepdims=keepdims)
    return np.where(nothing, -sympy.oo, symbols(f"max{next(_fresh)}", nothing.shape))


def greater(x, y):
    """x > y, entry by entry, left as relations between expressions."""
    return np.greater(x, y, dtype=object)


def where(condition, a, b):
    """Choose a or b: by a Boolean array, or by relations such as x > 0 between expressions."""
    condition = np.asarray(condition)
    if np.isscalar(b) and b == -np.inf and not holds_numbers(a):
        b = -sympy.oo
    if condition.dtype == bool:
        return np.where(condition, a, b)

    def choose(relation, a, b):
        if relation in (True, False, sympy.true, sympy.false):
            return a if relation else b
        return b + step(relation.gts - relation.lts) * (a - b)

    return np.vectorize(choose, otypes=[object])(condition, a, b)
