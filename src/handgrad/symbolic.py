"""The array functions our formulas use, over object arrays of SymPy expressions or mpmath numbers.

A symbol has no size that one could compare. So `max` returns an unknown real constant for each slice (softmax
may not depend on which, and `check.prove` asks that it does not), and the larger of two such is unknown too.
What else asks for an order, `where` under a condition such as x > 0, `maximum`, `minimum`, `clip`, `abs` and
`sign`, returns an expression with the indicator `step`, whose derivative is 0 away from the kink.
"""

import functools
import itertools
from builtins import abs as abs_of
from builtins import all as all_of
from builtins import any as any_of
from builtins import max as max_of
from builtins import min as min_of
from builtins import sum as sum_of

import mpmath
import numpy as np
import optree
import sympy
from array_api_compat.numpy import cumulative_sum  # noqa: F401
from numpy import (  # noqa: F401  (these work on object arrays as they are)
    all,
    any,
    arange,
    asarray,
    broadcast_to,
    concat,
    diff,
    expand_dims,
    flip,
    int64,
    mean,
    moveaxis,
    ones_like,
    permute_dims,
    prod,
    repeat,
    reshape,
    roll,
    square,
    squeeze,
    stack,
    sum,
    take,
    take_along_axis,
    tile,
    tril,
    triu,
    zeros_like,
)

_fresh = itertools.count()

INSTEAD = dict(
    relu="xp.where(xp.greater(x, 0), x, 0)",
    sigmoid="1 / (1 + xp.exp(-x))",
    softmax="what handgrad.ops.softmax does",
    logaddexp="xp.log(xp.exp(x) + xp.exp(y))",
    rsqrt="1 / xp.sqrt(x)",
    pow="x ** n",
    sinh="(xp.exp(x) - xp.exp(-x)) / 2",
    cosh="(xp.exp(x) + xp.exp(-x)) / 2",
    tan="xp.sin(x) / xp.cos(x)",
    cumsum="xp.cumulative_sum(x, axis=axis)",
    einsum="@, .mT and xp.sum",
    matmul="x @ y",
    zeros="xp.zeros_like of an array of this shape",
    ones="xp.ones_like of an array of this shape",
    logical_and="one xp.where in another",
    logical_or="one xp.where in another",
    argmax="that as an integer array among the options: symbols have no order",
    argsort="that as an integer array among the options: symbols have no order",
    sort="that as an integer array among the options: symbols have no order",
)
"""What to write for functions that others have."""


def __getattr__(name):
    remedy = INSTEAD.get(name, "what dir(handgrad.symbolic) offers: NumPy, PyTorch and symbols have it")
    raise AttributeError(f"symbols have no {name}: write {remedy}", name=name)


class NotProved(AssertionError):
    """No proof was found, and no number that refutes: the statement may be right."""


def shortened(difference):
    """A difference as text for an error: whole, or its first 200 characters and how many there are."""
    text = str(difference)
    return text if len(text) <= 200 else f"{text[:200]} … ({len(text):,} characters)"


class step(sympy.Function):
    """1 where its argument is positive, else 0; constant, hence without derivative, away from 0.

    It knows step(u)ⁿ = step(u) for n > 0, and step(c u step(v)) = step(u) step(v) for a known c > 0.
    """

    is_integer = is_nonnegative = True

    @classmethod
    def eval(cls, x):
        if x.is_number:
            return sympy.Integer(1 if x > 0 else 0)
        if x.is_positive or x.is_nonpositive:
            return sympy.Integer(bool(x.is_positive))
        factors = sympy.Mul.make_args(x)
        steps = [factor for factor in factors if isinstance(factor, step)]
        others = [factor for factor in factors if factor not in steps and not factor.is_positive]
        if len(steps) + len(others) < len(factors) or steps:
            return sympy.Mul(step(sympy.Mul(*others)), *steps)

    def _eval_power(self, exponent):
        return self if exponent.is_positive else None

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
log1p = _elementwise(lambda e: sympy.log(1 + e), mpmath.log1p)
expm1 = _elementwise(lambda e: sympy.exp(e) - 1, mpmath.expm1)
min = np.min  # of integers, since symbols have no order
greater, greater_equal, less, less_equal = (
    functools.partial(compare, dtype=object)  # entry by entry, left as relations between expressions
    for compare in (np.greater, np.greater_equal, np.less, np.less_equal)
)
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


def max(x, axis=None, keepdims=False):
    """The maximum of numbers; of symbols, an unknown real constant (−∞ where every entry is −∞)."""
    if holds_numbers(x) or x.dtype != object:
        return np.max(x, axis=axis, keepdims=keepdims)
    nothing = np.all(~isfinite(x), axis=axis, keepdims=keepdims)
    return np.where(nothing, -sympy.oo, symbols(f"max{next(_fresh)}", nothing.shape))


def maximum(x, y):
    """The larger of two arrays or numbers, entry by entry; of two unknown maxima, again an unknown one."""
    pairs = np.broadcast_arrays(x, y)
    if all_of(_is_unknown_maximum(e) for part in pairs for e in part.flat):
        return max(np.stack(pairs), axis=0)
    return where(greater(x, y), x, y)


def _is_unknown_maximum(e):
    return e == -sympy.oo or (isinstance(e, sympy.Symbol) and e.name.startswith("max"))


def minimum(x, y):
    """The smaller of two arrays or numbers, entry by entry."""
    return where(greater(x, y), y, x)


def clip(x, min=None, max=None):
    """x where it lies between min ≤ max, else the nearer of the two; None is no bound."""
    below = 0 if min is None else where(greater(min, x), min - x, 0)
    return x + below + (0 if max is None else where(greater(x, max), max - x, 0))


def abs(x):
    """|x|, entry by entry."""
    return where(greater(x, 0), x, -x)


def sign(x):
    """1 where x > 0, −1 where x < 0."""
    return where(greater(x, 0), 1, where(less(x, 0), -1, 0))


def full_like(x, value):
    """An array of x's shape that holds one value, −∞ in the kind of number that x holds."""
    if value == -np.inf:
        value = -mpmath.inf if holds_numbers(x) else -sympy.oo
    return np.full_like(x, value)


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
        if isinstance(relation, sympy.Lt | sympy.Le):  # the opposite of >, away from the kink
            return a + step(relation.lts - relation.gts) * (b - a)
        return b + step(relation.gts - relation.lts) * (a - b)

    return np.vectorize(choose, otypes=[object])(condition, a, b)


def random_point(symbols, rng):
    """A random number, exact to 50 digits, for each symbol: from 0.1 to 1, negative too if it may be."""
    point = {s: sympy.Float(rng.uniform(0.1, 1), 50) for s in sorted(symbols, key=str)}
    return {s: value if s.is_positive else value * int(rng.choice([-1, 1])) for s, value in point.items()}


def random_values(tree, rng):
    """The tree with mpmath numbers for expressions: their values, in the precision of mpmath, at one point.

    A leaf that is neither a SymPy expression nor an object array of such stays as it is.
    """
    leaves, structure = optree.tree_flatten(tree)
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, sympy.Basic) or _is_symbolic(leaf)]
    values = _values(parts(*(e for n in places for e in np.ravel(leaves[n]))), rng)
    number = np.vectorize(lambda e: mpmath.mpf(values[e].evalf(50)), otypes=[object])
    for n in places:
        leaves[n] = number(leaves[n]) if isinstance(leaves[n], np.ndarray) else number(leaves[n])[()]
    return optree.tree_unflatten(structure, leaves)


def parts(*expressions):
    """All different parts of the expressions, themselves too, each after its own parts."""
    found = {}

    def visit(part):
        if part not in found:
            for argument in part.args:
                visit(argument)
            found[part] = None

    for expression in expressions:
        visit(expression)
    return list(found)


def _values(parts, rng):
    """{part: its value at a random point}, each computed once and with 50 digits."""
    values = random_point([part for part in parts if part.is_Symbol], rng)
    for part in parts:
        if part.args:
            values[part] = part.func(*(values[argument] for argument in part.args))
        elif part not in values:
            values[part] = part.evalf(50) if part.is_NumberSymbol else part
    return values


def _is_symbolic(leaf):
    return isinstance(leaf, np.ndarray) and leaf.dtype == object


def is_zero(expression):
    """Whether a SymPy expression in real symbols is identically 0, kinks aside; None if that stays open.

    It is not if its value at a random point, computed with 50 digits, is not. Otherwise every
    exp(u), erf(u), step(u), ... , every reciprocal 1/u and every root √u becomes a symbol r of its own. What
    remains is a polynomial. It is reduced by r u = 1 for reciprocals and r² = u for roots, outermost first,
    and by r² = r for steps, of which step(-u) is 1 - step(u), step(u²) is 1 and step(u) step(u + 1) is
    step(u). All its coefficients must cancel: then the expression is 0. What is left to doubt is left to
    SymPy's simplify, and then to 30 more points, since a wrong step may show at few of them.
    """
    expression = sympy.sympify(expression)
    rng = np.random.default_rng(0)
    its_parts = parts(expression)

    def differs(points):
        return any_of(abs_of(_values(its_parts, rng)[expression].evalf(50)) > 1e-30 for _ in range(points))

    def undecided():
        return True if sympy.simplify(expression) == 0 else False if differs(30) else None

    if differs(1):
        return False
    opaque, powers = {}, []  # symbol of each opaque part; (symbol, base, sign, denominator) of each power

    def power(base, exponent):  # base^(n/m) as r^|n| with r = base^(±1/m)
        sign = 1 if exponent > 0 else -1
        if sign * exponent.q == 1:
            return base**exponent
        key = (base, sign, exponent.q)
        if key not in opaque:
            opaque[key] = sympy.Dummy()
            powers.append((opaque[key], *key))
        return opaque[key] ** abs_of(exponent.p)

    def exponential(term):  # exp(n u/m) as a power of exp(u/m), with u written out and of one sign
        n, u = term.as_coeff_Mul()
        u = sympy.expand(u / n.q)
        n, u = (-n.p, -u) if u.could_extract_minus_sign() else (n.p, u)
        return power(opaque.setdefault((sympy.exp, u), sympy.Dummy()), sympy.Integer(n))

    def polynomial(e):
        if isinstance(e, sympy.exp):  # SymPy joins exp(a) exp(b) to exp(a + b); take it apart again
            return sympy.Mul(*map(exponential, sympy.Add.make_args(e.exp)))
        if isinstance(e, step):
            inner = sympy.expand(e.args[0]).primitive()[1]
            if inner.is_nonnegative and _vanishes_nowhere_wide(inner):
                return sympy.Integer(1)
            turned = inner.could_extract_minus_sign() and _vanishes_nowhere_wide(inner)
            side = step(-inner if turned else inner)
            side = opaque.setdefault(side, sympy.Dummy()) if isinstance(side, step) else polynomial(side)
            return 1 - side if turned else side
        if e.is_Function or e.is_NumberSymbol or (e.is_Pow and not e.exp.is_Rational):
            return opaque.setdefault(e, sympy.Dummy())
        if e.is_Pow:
            return power(polynomial(e.base), e.exp)
        return e.func(*map(polynomial, e.args)) if e.args else e

    as_polynomial = polynomial(expression)
    symbols = sorted(as_polynomial.free_symbols.union(*(b.free_symbols for _, b, _, _ in powers)), key=str)
    if not symbols:
        return True if as_polynomial == 0 else undecided()
    ring = sympy.polys.rings.PolyRing(
        [*symbols, *(r for r, _, _, _ in powers if r not in symbols)], sympy.QQ, "lex"
    )
    remaining = [ring.from_expr(as_polynomial)]
    for symbol, base, sign, denominator in reversed(powers):
        place, base = ring.symbols.index(symbol), ring.from_expr(base)
        remaining = [part for p in remaining for part in _reduce(p, ring, place, base, sign, denominator)]
    steps = {
        ring.symbols.index(r): e.args[0]
        for e, r in opaque.items()
        if isinstance(e, step) and r in ring.symbols
    }
    if not any_of(_is_left(p, steps) for p in remaining):
        return True
    return undecided()


def _vanishes_nowhere_wide(u):
    """Whether u is 0 at single points at most, no region: analytic, and not 0 at a random point."""
    value = _values(parts(u), np.random.default_rng(0))[u]
    return not u.has(step, sympy.Abs) and abs_of(value.evalf(50)) > 1e-30


def _is_left(p, steps):
    """Whether a term of the polynomial p is left where r² = r for steps, and step(u) step(u + 1) = step(u).

    steps: {place of the generator: u} of step(u).
    """
    below = {
        place: [other for other, v in steps.items() if (u - v).is_positive] for place, u in steps.items()
    }
    by_monomial = {}
    for monomial, coefficient in p.terms():
        reduced = list(monomial)
        for place in steps:
            reduced[place] = min_of(monomial[place], 1)
            if any_of(monomial[lower] for lower in below[place]):
                reduced[place] = 0
        by_monomial[tuple(reduced)] = by_monomial.get(tuple(reduced), 0) + coefficient
    return any_of(by_monomial.values())


def _reduce(p, ring, place, base, sign, denominator):
    """Eliminate r = base^(±1/denominator), the generator at `place`, from the polynomial p.

    Powers of r that differ by a multiple of the denominator differ by a polynomial in the base; the classes
    must vanish separately. Returns one polynomial for each class.
    """
    by_power = {}
    for monomial, coefficient in p.terms():
        k = monomial[place]
        rest = (*monomial[:place], 0, *monomial[place + 1 :])
        by_power.setdefault(k, ring.zero)[rest] = coefficient
    classes = []
    for remainder in range(denominator):
        members = [k for k in by_power if k % denominator == remainder]
        if members:
            reference = min_of(members) if sign > 0 else max_of(members)
            shift = {k: abs_of(k - reference) // denominator for k in members}
            classes.append(sum_of((by_power[k] * base ** shift[k] for k in members), ring.zero))
    return classes
