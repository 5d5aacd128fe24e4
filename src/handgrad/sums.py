"""Calculus with sums of symbolic length: a gradient for every size at once.

A formula such as the mean of x is written with an index sum, and its length D stays a symbol:

    D = sizes("D")                           # a positive integer, not a number
    i, j = index("i j", D)                   # free indices, both running over 0 … D−1
    x, g = arrays("x g")                     # x[i] is one entry
    mean = total(lambda k: x[k], D) / D      # Σ_k x_k / D
    gradient(mean, x[j])                     # 1/D
    prove_equal(gradient(mean, x[j]), 1 / D) # silent, or an AssertionError that shows the difference

Sums count from 0, as Python does: ``total(f, n)`` is Σ_{k=0}^{n−1} f(k). Every index knows its range, which
makes the central step legal: Σ_k δ_kj f(k) = f(j) holds only if j lies in the range of k.

Differentiation itself is SymPy's. What SymPy lacks, and this file adds, is a normal form for the results:
products multiplied out, constants pulled in front of sums, Kronecker deltas summed away, nested sums
flattened (in a finite sum the order of summation is free), summation indices renamed in one canonical way.
A proof that a − b = 0 reads that form as a rational function of its sums, entries, roots and exponentials.
"""

import math
import operator
from functools import cached_property
from itertools import chain, count, groupby, product
from types import MappingProxyType

import mpmath
import numpy as np
import sympy as sp
from sympy import Add, Indexed, IndexedBase, KroneckerDelta, Mul, Sum, Symbol, sympify
from sympy.core.function import AppliedUndef
from sympy.functions.elementary.hyperbolic import HyperbolicFunction
from sympy.functions.elementary.trigonometric import TrigonometricFunction
from sympy.utilities.iterables import sift

from .symbolic import NotProved, shortened, step

_NAMES = ("k", "l", "m", "r", "s", "t", "u", "v", "w", "p", "q")  # how summation indices are printed
_FREE, _CANONICAL = 0, -1  # marks of an Index: written by the reader, named by the normal form
_unique = count(1)  # all other marks
_CASES = 8  # a proof looks at no more steps than these, each as 1 and as 0
_WRITTEN_OUT = 64  # a proof writes a sum of at most so many terms, a number, term by term
_DIGITS = (60, 240, 960)  # with which random points are computed: more only if too many cancel
_TINY = mpmath.mpf("1e-30")  # of sides that are both smaller, 80 decimals are compared


class Index(Symbol):
    """An integer that runs over 0 … size−1. Two indices are equal only if name, size and mark agree.

    A summation index never carries the mark of an index that the reader made. So no sum can capture a free
    index, not even one of the same name.
    """

    __slots__ = ("size", "mark")

    def __new__(cls, name, size, mark=_FREE):
        self = Symbol.__xnew__(cls, name, integer=True, nonnegative=True)
        self.size, self.mark = sympify(size), mark
        return self

    def _hashable_content(self):
        return (*super()._hashable_content(), self.size, self.mark)

    def sort_key(self, order=None):
        one = sp.S.One
        return self.class_key(), (3, (self.name, str(self.size), str(self.mark))), one.sort_key(), one

    def __reduce__(self):
        return Index, (self.name, self.size, self.mark)


class _Sum(Sum):
    """SymPy's sum over 0 … n−1, n ≥ 1: what SymPy asks for at every turn is worked out once, or known."""

    has_finite_limits, has_empty_sequence, has_reversed_limits = True, False, False

    def __new__(cls, function, *limits):
        if function is sp.nan or function.has(sp.Piecewise):
            return super().__new__(cls, function, *limits)
        while isinstance(function, Sum):
            limits, function = (*function.limits, *limits), function.function
        self = sp.Expr.__new__(cls, function, *(sp.Tuple(*limit) for limit in limits))
        self.is_commutative = True
        real = all(letter.is_real for letter in function.atoms(Symbol)) and function.is_extended_real
        self._assumptions = _POSITIVE if _is_positive(function) else _REAL if real else _UNKNOWN
        return self

    @cached_property
    def _letters(self):
        found = self.function.free_symbols
        for k, low, high in self.limits:
            found = (found - {k}) | low.free_symbols | high.free_symbols
        return found

    @property
    def free_symbols(self):
        return {*self._letters}  # SymPy adds to what it gets


_UNKNOWN = dict.fromkeys([*Symbol("0", zero=True).assumptions0, "polar", "antihermitian"])
_POSITIVE, _REAL = (_UNKNOWN | Symbol("1", **{kind: True}).assumptions0 for kind in ("positive", "real"))
"""What SymPy may ask of a sum: it looks for long, and at every turn, for what is not said at once."""


# ------------------------------------------------------------------------------------------ writing a formula


def sizes(names):
    """Symbolic lengths, positive integers.

    >>> T, D = sizes("T D")
    >>> D.is_positive, D.is_integer
    (True, True)
    """
    return sp.symbols(names, integer=True, positive=True)


def index(names, size):
    """Free indices that run over 0 … size−1. The size: as n in `total`; raises what that raises for it.

    >>> D = sizes("D")
    >>> i, j = index("i j", D)
    >>> i.size
    D
    """
    size = _require_length(size, "size")
    return _one_or_all([Index(name, size) for name in names.split()])


def arrays(names):
    """Arrays of symbols; an array has as many axes as it is given indices.

    >>> x, W = arrays("x W")
    >>> i, j = index("i j", sizes("D"))
    >>> W[i, j] * x[j]
    W[i, j]*x[j]
    """
    return _one_or_all([IndexedBase(name) for name in names.split()])


def labels(name, size):
    """An array of integers in 0 … size−1, such as token ids. The size: as n in `total`.

    >>> T, V = sizes("T V")
    >>> z, y, i = arrays("z"), labels("y", V), index("i", T)
    >>> z[i, y[i]]
    z[i, y[i]]
    """
    return IndexedBase(Index(name, _require_length(size, "size")))


def total(f, n, name=None):
    """The sum f(0) + f(1) + … + f(n−1), where n may be a symbol.

    f     a function from an index to an expression
    n     the number of terms: a positive integer, or an expression of sizes that is one whatever the sizes
          are, such as D, D*T or D + 1. D - 1 is not, as it may be 0: call it n, and the longer size n + 1.
    name  how the summation index is printed; by default the first of k, l, m, … that is not in use

    Raises ValueError if the given name already occurs in the summand (it would print an ambiguous formula),
    and for another n; TypeError if f is not a function, or what it returns or n is no expression.

    >>> D, x = sizes("D"), arrays("x")
    >>> total(lambda k: x[k] ** 2, D)
    Sum(x[k]**2, (k, 0, D - 1))
    """
    if not callable(f):
        raise TypeError(f"f: expected a function of an index, got {f!r}")
    n = _require_length(n, "n")
    place = Index("place", n, next(_unique))
    summand = _expression(f(place), "f(k)")
    used = {symbol.name for symbol in summand.atoms(Symbol)}
    if name in used:
        raise ValueError(f"name: expected one that the summand does not use, got {name!r} for {summand}")
    k = Index(name or next(c for c in _names_without(used) if c not in used), n, next(_unique))
    return _Sum(summand.xreplace({place: k}), (k, 0, n - 1))


def equation(left, e):
    """The line "left = e", for display. left is LaTeX, for example ``r"\\mathrm{d}x_j"``.

    >>> equation("y", arrays("x")[0])
    Eq(y, x[0])
    """
    return sp.Eq(Symbol(left), sympify(e), evaluate=False)


def _require_length(n, name):
    """n as an expression that is a positive integer for all sizes ≥ 1; anything else is refused."""
    n = _expression(n, name)
    if n.is_Float:
        raise TypeError(f"{name}: expected an integer, got {n}")
    if n.atoms(Index):
        raise ValueError(f"{name}: the length {n} depends on an index; use a 0/1 mask instead")
    if not (n.is_integer and n.is_positive):
        wanted = "a positive integer, or an expression of sizes that always is one, such as D or D + 1"
        raise ValueError(f"{name}: expected {wanted}, got {n}")
    return n


def _expression(e, name):
    """e as a SymPy expression; TypeError for what is none (text, a truth value, a whole array)."""
    given, e = e, None if isinstance(e, (str, bool, np.ndarray)) else sympify(e)
    if not isinstance(e, sp.Expr) or isinstance(e, IndexedBase):
        raise TypeError(f"{name}: expected an expression, got {given!r}")
    return e


def _one_or_all(items):
    return items[0] if len(items) == 1 else tuple(items)


def _names_without(used):
    return chain((name for name in _NAMES if name not in used), (f"k_{number}" for number in count(1)))


# -------------------------------------------------------------------------------------------- differentiation


def gradient(scalar, entry):
    """The partial derivative of a scalar by one entry such as ``x[j]``, or by a plain symbol.

    Deltas are summed away and constants pulled out, nothing else, so that the result can be read. At a kink
    of Max, Min, Abs, or a Piecewise of comparisons, a convention takes the place of the derivative: they are
    written with `step` of `handgrad.symbolic`, whose own derivative is 0; so is Heaviside of an entry.
    Raises ValueError if entry is neither, or an integer such as an index, a size or a label; if the scalar
    uses it as an index; and if an index has no stated range or one that does not fit. TypeError if the
    scalar or the entry is no expression.

    >>> D, x = sizes("D"), arrays("x")
    >>> gradient(total(lambda k: x[k] ** 2, D), x[index("j", D)])
    2*x[j]
    """
    scalar, entry = _expression(scalar, "scalar"), _expression(entry, "entry")
    if entry.is_integer or isinstance(entry, Indexed) and isinstance(entry.base.label, Index):
        raise ValueError(f"entry: {entry} is an integer; a derivative by it has no meaning")
    if isinstance(entry, Indexed):
        for position in entry.indices:
            _require_range(position)
        if any(len(e.indices) != len(entry.indices) for e in scalar.atoms(Indexed) if e.base == entry.base):
            raise ValueError(f"entry: {entry} has another number of indices than {entry.base} in the scalar")
    elif not isinstance(entry, Symbol):
        raise ValueError(f"entry: expected an array entry such as x[j], or a symbol, got {entry}")
    variable = entry.base if isinstance(entry, Indexed) else entry
    if any(position.has(variable) for e in scalar.atoms(Indexed) for position in e.indices):
        raise ValueError(f"entry: {variable} is used as an index in the scalar, so it is an integer")
    derivative = sp.diff(_checked_and_fresh(_in_steps(scalar)), entry)
    return _settle(derivative, multiply_out=False)


def _in_steps(e):
    """Max, Min, Abs, Piecewise, Heaviside and sign by `step`; what is not known to be the same stays.

    The first four are the same at every point, kinks too: a Piecewise if its conditions are >, ≥, < or ≤
    between two expressions. Heaviside(u) and sign(u) are the same except at u = 0: see `kink`.
    """

    def larger(*terms):
        a, b = terms[0], terms[1] if len(terms) == 2 else larger(*terms[1:])
        a, b = (b, a) if (a - b).could_extract_minus_sign() else (a, b)
        return b + (a - b) * step(a - b)

    def smaller(*terms):
        return -larger(*[-term for term in terms])

    def chosen(*cases):
        *before, (last, always) = cases
        compared = all(isinstance(where, sp.Gt | sp.Ge | sp.Lt | sp.Le) for _, where in before)
        if always is not sp.true or not compared:
            return sp.Piecewise(*cases)
        for value, where in reversed(before):
            strict = isinstance(where, sp.Gt | sp.Lt)
            holds = step(where.gts - where.lts) if strict else 1 - step(where.lts - where.gts)
            last = last + (value - last) * holds
        return last

    for function, by_steps in (
        (sp.Max, larger),
        (sp.Min, smaller),
        (sp.Abs, lambda u: u * (2 * step(u) - 1)),
        (sp.Piecewise, chosen),
        (sp.Heaviside, lambda u, at_0: step(u) if kink(u) else sp.Heaviside(u, at_0)),
        (sp.sign, lambda u: 2 * step(u) - 1 if kink(u) else sp.sign(u)),
    ):
        e = e.replace(function, by_steps)
    return e


def kink(u):
    """(c, z, d) if u = c (z + d) for numbers c ≠ 0 and d and a real z, an entry or a scalar; else None.

    Such a u is 0 at one value of z only. Another may be 0 more often, as x[i] − x[j] is where i = j.
    """
    entries = [z for z in u.atoms(Indexed) or u.free_symbols if not z.is_integer]
    if len(entries) != 1:
        return None
    slope = sp.diff(u, entries[0])
    shift = sp.expand(u / slope) - entries[0] if slope.is_number and slope != 0 else u
    return (slope, entries[0], shift) if shift.is_number else None


def _turned(u):
    """step(u) with z alone in front: 1 − step(−u) where c < 0 in `kink`, the same except at u = 0."""
    slope, z, shift = kink(u) or (sp.S.One, u, 0)
    return 1 - step(z + shift) if slope.is_negative else step(z + shift)


# -------------------------------------------------------------------------------------------- the normal form


def normal_form(e):
    """The expression multiplied out, deltas summed away, sums flattened, summation indices renamed k, l, m, …

    A sum of a polynomial in its index k, times a number to the power k, becomes its closed form.
    Equal to e for all sizes ≥ 1 and all values of the arrays; applied twice it changes nothing more.
    Raises ValueError for a sum that `total` did not make and for a delta between indices of unequal ranges.

    >>> D, x = sizes("D"), arrays("x")
    >>> normal_form(total(lambda k: 2 * (x[k] + 1), D))
    2*D + 2*Sum(x[k], (k, 0, D - 1))
    """
    return _settle(_expression(e, "e"), multiply_out=True)


def _settle(e, multiply_out):
    used = {symbol.name for symbol in e.atoms(Symbol) if getattr(symbol, "mark", _FREE) == _FREE}
    for _ in range(20):
        before, e = e, _rewrite(_checked_and_fresh(e), used, multiply_out)
        if e == before:
            return e
    raise RuntimeError(f"no normal form within 20 rounds; stopped at {e}")


def _checked_and_fresh(e, own=MappingProxyType({})):
    """Every sum gets a summation index of its own; a sum that `total` did not make is refused.

    own: {index: new one} of the sums around e.
    """
    if isinstance(e, Index):
        return own.get(e, e)
    if not isinstance(e, Sum):
        args = [_checked_and_fresh(part, own) for part in e.args]
        return e if all(map(operator.is_, args, e.args)) else e.func(*args)
    for k, low, high in e.limits:
        if not isinstance(k, Index) or k.mark == _FREE or low != 0 or high != k.size - 1:
            raise ValueError(f"expected sums made by total(f, n), got a sum over {k} from {low} to {high}")
    fresh = {k: Index(k.name, k.size, next(_unique)) for k, _, _ in e.limits}
    body = _checked_and_fresh(e.function, own | fresh)
    return _Sum(body, *[(fresh[k], low, high) for k, low, high in e.limits])


def _rewrite(e, used, multiply_out):
    """One pass from the leaves to the root."""
    done = {}

    def walk(q):
        if not q.args or isinstance(q, (Indexed, KroneckerDelta)):
            return q
        if q not in done:
            done[q] = over(q) if isinstance(q, Sum) else local(q.func(*map(walk, q.args)))
        return done[q]

    def over(q):
        body = walk(q.function)
        for k, _, _ in q.limits:  # the innermost sum stands first
            body = Add(*[_sum_of_term(t, k, used, multiply_out) for t in _terms(body, k, multiply_out)])
        return body

    def local(q):
        if q.is_Mul:
            q = _use_deltas(q)
        if not multiply_out:
            return q
        if q.is_Mul and any(factor.is_Add for factor in q.args):
            return _opened(q)
        if q.is_Pow and q.base.is_Add and q.exp.is_Rational:
            whole = q.exp.is_Integer and q.exp.is_positive
            return sp.expand_multinomial(q, deep=False) if whole else sp.factor_terms(q.base) ** q.exp
        if isinstance(q, sp.exp | sp.Pow) and q.exp.is_Add and not q.base.is_Number:
            return Mul(*[q.base**term for term in q.exp.args])
        return q

    return walk(e)


def _terms(body, k, multiply_out):
    """The terms of a summand, brackets opened (in the readable form only those that hold a delta in k)."""
    for term in Add.make_args(body):
        if multiply_out:
            yield from Add.make_args(_opened(term) if term.is_Mul else term)
            continue
        brackets, rest = [], []
        for factor in Mul.make_args(term):
            opens = factor.is_Add and any(k in delta.args for delta in factor.atoms(KroneckerDelta))
            (brackets if opens else rest).append(factor)
        for part in Add.make_args(sp.expand_mul(Mul(*brackets))):
            yield Mul(part, *rest)


def _opened(q):
    """A product with its brackets multiplied out."""
    return Add(*[Mul(*parts) for parts in product(*map(Add.make_args, q.args))])


def _sum_of_term(term, k, used, multiply_out):
    """Σ_k term, for a single product: use a delta, or pull out what does not depend on k."""
    used_up = _with_a_delta_used(term, [k])
    if used_up is not None:
        return used_up
    constant, body = term.as_independent(k, as_Add=False)
    if body == 1:
        return constant * k.size
    if multiply_out and _has_closed_form(body, k):
        return constant * sp.summation(body, (k, 0, k.size - 1))
    return constant * _named_sum(body, k, used, flatten=multiply_out)


def _with_a_delta_used(body, indices):
    """The sum of a product over the indices, one of them summed away by a delta; None where no delta can."""
    for delta in Mul.make_args(body):
        if isinstance(delta, KroneckerDelta):
            for k, other in (delta.args, delta.args[::-1]):
                if k in indices and not other.has(k):
                    _require_range(other, k)
                    limits = [(l, 0, l.size - 1) for l in indices if l != k]
                    rest = (body / delta).xreplace({k: other})
                    return _Sum(rest, *limits) if limits else rest
    return None


def _has_closed_form(body, k):
    """Is it a polynomial in k, times numbers to powers that are linear in k with whole coefficients?"""
    if body.free_symbols != {k}:
        return False
    powers, rest = sift(Mul.make_args(body), lambda q: q.is_Pow and q.base.is_Rational, binary=True)
    linear = [sp.Poly(q.exp, k).all_coeffs() if q.exp.is_polynomial(k) else [] for q in powers]
    whole = all(len(c) == 2 and all(number.is_Integer for number in c) for c in linear)
    return whole and all(q.base != 0 for q in powers) and Mul(*rest).is_polynomial(k)


def _use_deltas(q):
    """δ_ij f(j) = δ_ij f(i): one of the two ways of writing it is chosen."""
    for delta in q.args:
        if isinstance(delta, KroneckerDelta):
            keep, drop = sorted(delta.args, key=lambda a: (isinstance(a, Index), a.sort_key()))
            if isinstance(drop, Index) and not keep.has(drop):
                _require_range(keep, drop)
                q = delta * (q / delta).xreplace({drop: keep})
    return q


def _require_range(position, within=None):
    """The size of an index, None for a number; one of unknown range, or not that of `within`, is refused."""
    if isinstance(position, Indexed) and isinstance(position.base.label, Index):
        size = position.base.label.size
    elif isinstance(position, Index):
        size = position.size
    elif position.is_Integer and position >= 0:
        size = None
        if within is not None and not (within.size - position).is_positive:
            raise ValueError(
                f"index {position}: not known to lie in 0 … {within.size - 1}, the range of {within}"
            )
    elif position.is_Number:
        raise ValueError(f"index {position}: expected an integer from 0 on")
    else:
        raise ValueError(f"index {position}: its range is not stated; make it with index or labels")
    if within is not None and size is not None and size != within.size:
        raise ValueError(
            f"index {position}: runs over 0 … {size - 1}, but {within} over 0 … {within.size - 1}"
        )
    return size


def _named_sum(body, k, used, flatten):
    """Σ_k body with canonical names; a sum that is a factor of the body joins it as further indices."""
    indices, factors = [k], []
    for factor in Mul.make_args(body):
        base, power = factor.as_base_exp()
        if flatten and isinstance(base, Sum) and power.is_Integer and power.is_positive:
            for _ in range(int(power)):
                own = {limit[0]: Index("own", limit[0].size, next(_unique)) for limit in base.limits}
                factors.append(base.function.xreplace(own))
                indices += own.values()
        else:
            factors.append(factor)
    body = Mul(*factors)
    used_up = _with_a_delta_used(body, indices) if len(indices) > 1 else None
    if used_up is not None:  # the next round names what is left
        return used_up

    depth = _depth(body)
    names = [name for name, _ in zip(_names_without(used), range(depth + len(indices)))][depth:]

    def named(order):
        new = {k: Index(name, k.size, _CANONICAL) for k, name in zip(order, names)}
        return _Sum(body.xreplace(new), *[(new[k], 0, k.size - 1) for k in order])

    forms = [named(order) for order in _orders(body, _classes(indices, lambda k: str(k.size)), named)]
    return min(forms, key=str) if len(forms) > 1 else forms[0]


def _orders(body, classes, named):
    """Orders of the summation indices, few of them and the same few whatever the indices are called.

    classes: the indices, in sets that follow each other. Where the body looks the same from several indices
    of a set, each is tried as the first of them, but only one of those that give the same sum. This is how
    canonical labellings of graphs are found: B. McKay, A. Piperno, Practical graph isomorphism II (2014).
    """
    choices = _choices(_refined(body, classes))
    if len(choices) == 1:
        return [[k for (k,) in choices[0]]]
    different = {named(_first_order(body, choice)): choice for choice in choices}
    return [order for choice in different.values() for order in _orders(body, choice, named)]


def _first_order(body, classes):
    while len(choices := _choices(_refined(body, classes))) > 1:
        classes = choices[0]
    return [k for (k,) in choices[0]]


def _choices(classes):
    """The ways to put one index of the first set of several before the others; classes itself if none is."""
    for n, tied in enumerate(classes):
        if len(tied) > 1:
            return [[*classes[:n], [k], [l for l in tied if l != k], *classes[n + 1 :]] for k in tied]
    return [classes]


def _refined(body, classes):
    """The sets split by how the body looks from each index, its name aside, until nothing splits any more."""
    while True:
        colours = {k: Index(f"*{n}", k.size, -2) for n, members in enumerate(classes) for k in members}
        before, classes = classes, [part for members in classes for part in _split(body, members, colours)]
        if len(classes) == len(before):
            return classes


def _split(body, members, colours):
    if len(members) == 1:
        return [members]
    return _classes(members, lambda k: str(body.xreplace(colours | {k: Index("+", k.size, -3)})))


def _classes(indices, view):
    described = sorted(((view(k), k) for k in indices), key=lambda pair: pair[0])
    return [[k for _, k in group] for _, group in groupby(described, key=lambda pair: pair[0])]


def _depth(e):
    return max((_depth(s.function) + len(s.limits) for s in e.atoms(Sum)), default=0)


# --------------------------------------------------------------------------------------------------- equality


def equal(a, b):
    """True if a = b is proved, False if it is not; `prove_equal` says why, and what a proof is.

    Raises TypeError if a or b is no expression, and what `normal_form` raises.

    >>> D = sizes("D")
    >>> equal(total(lambda k: k, D), D * (D - 1) / 2), equal(total(lambda k: k, D), D**2 / 2)
    (True, False)
    """
    return _is_proved(normal_form(_expression(a, "a") - _expression(b, "b")))


def prove_equal(a, b, rng=None):
    """Prove a = b for all sizes and values, or raise an AssertionError that shows the difference.

    All sizes are ≥ 1; all values are real and such that each part of both sides is a real number, as in
    (x² − 1)/(x − 1) = x + 1. Kinks are left aside: Heaviside(x), sign(x), and step(x) may differ at x = 0.
    The message tells two cases apart: refuted, "not equal", with sizes and numbers where a ≠ b; or "not
    proved", a `NotProved`, when random numbers (drawn from rng) show no difference and yet the normal form of
    a − b is not recognised as 0.
    A point refutes if left and right differ by more than 1 part in 10⁵⁰, and by a thousand times what
    rounding can have done to them. Both are computed with 60 and with 120 digits, which shows how many are
    right, and with more, up to 1,920, before they are called different.
    Raises what `random_values` and `evaluate` raise where no numbers can be given, TypeError if a or b is no
    expression.

    >>> D, x, y = sizes("D"), *arrays("x y")
    >>> prove_equal(total(lambda k: x[k] + y[k], D), total(lambda k: x[k], D) + total(lambda k: y[k], D))
    >>> prove_equal(total(lambda k: 2 * x[k], D), total(lambda k: x[k], D))
    Traceback (most recent call last):
    ...
    AssertionError: not equal. At D = 4 and random arrays:
      left  = 6.28112
      right = 3.14056
    left − right = Sum(x[k], (k, 0, D - 1))
    """
    a, b = _expression(a, "a"), _expression(b, "b")
    difference = normal_form(a - b)
    if _is_proved(difference):
        return
    rng = np.random.default_rng(0) if rng is None else rng
    agree = 0
    for lowest in 5 * [0.5] + 5 * [-3.0]:  # many formulas have no real value at negative entries
        values = random_values(sp.Tuple(a, b), rng, lowest=lowest)
        sides = _sides(a, b, values)
        if sides is None:
            continue
        left, right, differ = sides
        if differ:
            scalars = ", ".join(f"{name} = {value}" for name, value in values.items() if np.ndim(value) == 0)
            where = f"{scalars} and random arrays" if scalars else "every point"
            left, right = _told_apart(left, right)
            raise AssertionError(
                f"not equal. At {where}:\n  left  = {left}\n  right = {right}\n"
                f"left − right = {shortened(difference)}"
            )
        agree += 1
    seen = f"though {agree} random points agree" if agree else "and no random point gives two real numbers"
    raise NotProved(f"not proved, {seen}.\nleft − right = {shortened(difference)}")


def _is_proved(e):
    """Is a normal form shown to be 0: as it is, in exponentials, or once its kinks are written by `step`?"""
    if _vanishes(e) or _vanishes_in_exponentials(e) or _vanishes_term_by_term(e):
        return True
    with_steps = _in_steps(e)
    return (with_steps != e or e.has(step)) and _vanishes_by_cases(with_steps)


def _vanishes_by_cases(e, said=()):
    """Is e 0 whether each of its steps, outside of sums, is 1 or 0? said: [(u, what step(u) is)] so far.

    step(u) = 1 makes step(u + c) 1 for c ≥ 0, and step(u) = 0 makes it 0 for c ≤ 0.
    """

    def known(v):
        apart = [(sp.expand(v - u), value) for u, value in said]
        found = {value for c, value in apart if c.is_number and (c >= 0 if value else c <= 0)}
        return sp.Integer(found.pop()) if found else step(v)

    e = e.replace(step, lambda v: _turned(v).replace(step, known))
    steps = [s for s in e.atoms(step) if not s.args[0].has(step) and s.free_symbols <= e.free_symbols]
    if not steps:
        e = normal_form(e)
        return _vanishes(e) or _vanishes_in_exponentials(e)
    if len(said) == _CASES:
        return False
    (u,) = min(steps, key=str).args
    return all(_vanishes_by_cases(e, (*said, (u, value))) for value in (1, 0))


def _sides(a, b, values):
    """a and b at a point, and whether they differ there; None if one of them is no real number.

    With twice the digits a number changes by about what rounding and cancellation had left wrong in it. The
    sides agree as soon as that and their distance are small. They differ if with the most digits of all they
    are a thousand times farther apart than that: where too many digits cancel, few show 0 again and again.
    """
    found, sides = None, [_program(_whole_numbers_apart(e), values, _IN_MPMATH) for e in (a, b)]
    for digits in _DIGITS:
        rough, fine = ([_to_digits(side, n) for side in sides] for n in (digits, 2 * digits))
        if None in rough + fine:
            continue  # as 1/(x − y) may be, where x and y agree in all digits but the last
        with mpmath.workdps(2 * digits):
            apart = abs(fine[0] - fine[1])
            wrong = sum(abs(x - y) for x, y in zip(rough, fine))
            small = max(*map(abs, fine), _TINY) * mpmath.mpf(10) ** -50
            if max(apart, wrong) <= small:
                return *fine, False
            found = (*fine, True) if apart > max(1000 * wrong, small) else None
    return found


def _told_apart(left, right):
    """Two different numbers as text, to 6 digits, or as many as show the difference."""
    for digits in range(6, 2 * max(_DIGITS)):
        texts = [mpmath.nstr(number, digits).removesuffix(".0") for number in (left, right)]
        if texts[0] != texts[1]:
            return texts


def _vanishes(e):
    """Is a normal form 0? Sums, entries and functions count as unknowns, a root as r with r^q = its base.

    Powers b^(q₁m₁ + q₂m₂) with rational q, of the number e or a positive number b, become products of
    powers of the unknowns b^m₁ and b^m₂.
    """
    unknowns, roots, finer = {}, {}, {}

    def algebraic(q):
        if q.is_Number or q is sp.I:
            return q
        if q.is_Add or q.is_Mul:
            return q.func(*map(algebraic, q.args))
        if q.is_Pow and q.exp.is_Rational:
            base = algebraic(q.base)
            if q.exp.is_Integer:
                return base**q.exp
            return roots.setdefault((base, q.exp.q), sp.Dummy("root")) ** q.exp.p
        base, exponent = q.as_base_exp()
        if base is sp.E or exponent != 1 and base.is_positive:
            terms = Add.make_args(sp.expand_mul(exponent))
            return Mul(*[power(base, *term.as_coeff_Mul()) for term in terms])
        return unknowns.setdefault(q, sp.Dummy("unknown"))

    def power(base, factor, m):
        if m == 1 and factor.is_Rational and base is not sp.E:
            return algebraic(base**factor)
        if base.is_Rational and not base.is_prime:
            primes = sp.factorrat(base).items()
            return Mul(*[power(sp.Integer(prime), times * factor, m) for prime, times in primes])
        if not factor.is_Rational:
            factor, m = sp.S.One, factor * m
        unknown = unknowns.setdefault((base, m), sp.Dummy("power", positive=True))
        finer[unknown] = sp.ilcm(finer.get(unknown, 1), factor.q)
        return unknown**factor

    def reduced(polynomial):
        for (base, degree), root in reversed(roots.items()):
            numerator, denominator = sp.fraction(sp.together(base.xreplace(finer)))
            polynomial = sp.prem(sp.expand(polynomial), denominator * root**degree - numerator, root)
        return sp.expand(polynomial)

    e = algebraic(e)
    finer = {unknown: unknown**times for unknown, times in finer.items() if times > 1}
    numerator, denominator = sp.fraction(sp.together(e.xreplace(finer)))
    return reduced(numerator) == 0 and reduced(denominator) != 0


def _vanishes_in_exponentials(e):
    """Is a normal form 0 once its functions are exponentials, logarithms and rational functions of them?

    sin, cos, tanh and their kin are rewritten by exp, logarithms of products as sums of logarithms, both
    inside sums too; sums of explicit length are written out. Then the sums over equal ranges are joined, as
    Σ f + Σ g = 0 if f + g = 0.
    """
    rewritten = e.replace(Sum, _written_out).replace(sp.log, _split_log)
    rewritten = rewritten.rewrite((TrigonometricFunction, HyperbolicFunction), sp.exp)
    if rewritten != e:
        rewritten = normal_form(rewritten)
        if _vanishes(rewritten):
            return True
    return _vanishes_joined(rewritten)


def _written_out(body, *limits):
    """A sum term by term in those of its indices that run over few values, whose number is no symbol."""
    explicit, symbolic = sift(limits, lambda limit: limit[0].size.is_Integer, binary=True)
    if math.prod(k.size for k, _, _ in explicit) > _WRITTEN_OUT:
        return _Sum(body, *limits)
    places = product(*[[(k, sp.Integer(number)) for number in range(k.size)] for k, _, _ in explicit])
    terms = Add(*[body.xreplace(dict(place)) for place in places])
    return _Sum(terms, *symbolic) if symbolic else terms


def _split_log(q):
    """log of a product, for the argument q, as a sum: only what is known to be positive is split off."""
    rest, logarithms = [], []
    for factor in Mul.make_args(sp.together(q)):
        base, power = factor.as_base_exp()
        if _is_positive(base) and not power.has(sp.I):
            logarithms.append(power * sp.expand_log(sp.log(base), factor=True))
        else:
            rest.append(factor)
    return Add(*logarithms, sp.log(Mul(*rest)))


def _is_positive(q):
    """Is q > 0 known, where all entries and scalars are real?"""
    if q.is_Add or q.is_Mul:
        return all(map(_is_positive, q.args))
    if isinstance(q, Sum):
        return bool(q.is_positive)
    if isinstance(q, Indexed):
        return bool(q.base.label.is_positive)
    base, power = q.as_base_exp()
    return power != 1 and _is_positive(base) and not power.has(sp.I) or bool(q.is_positive)


def _vanishes_joined(e):
    """Is e a sum of sums whose bodies cancel, those of equal ranges taken together?"""
    bodies, shared = {}, {}
    for term in Add.make_args(e):
        sums = [factor for factor in Mul.make_args(term) if isinstance(factor, Sum)]
        key, body = (), term
        if len(sums) == 1:
            indices = [limit[0] for limit in sums[0].limits]
            key = tuple(k.size for k in indices)
            new = shared.setdefault(key, [Index("own", size, next(_unique)) for size in key])
            body = term / sums[0] * sums[0].function.xreplace(dict(zip(indices, new)))
        bodies[key] = bodies.get(key, 0) + body
    cancel = (_vanishes(body) or _vanishes_joined(body) for body in bodies.values())
    return bodies.keys() != {()} and all(cancel)


def _vanishes_term_by_term(e):
    """Is a normal form a sum over one index of what is 0, as Σ_t (Σ_k f(t, k) − g(t)) = 0 if the bracket is?

    The index is one of a size that each term of e sums over once.
    """
    terms = [Mul.make_args(term) for term in Add.make_args(e)]
    ranges = [[k.size for q in factors if isinstance(q, Sum) for k, _, _ in q.limits] for factors in terms]
    for size in {size for size in ranges[0] if all(sizes.count(size) == 1 for sizes in ranges)}:
        here = Index("own", size, next(_unique))
        bodies = [Mul(*[_summand(q, here) for q in factors]) for factors in terms]
        if _is_proved(normal_form(Add(*bodies))):
            return True
    return False


def _summand(q, here):
    """A factor; of a sum over an index that has the size of `here`, what is added at `here`."""
    if not isinstance(q, Sum):
        return q
    rest = [limit for limit in q.limits if limit[0].size != here.size]
    body = q.function.xreplace({k: here for k, _, _ in q.limits if k.size == here.size})
    return _Sum(body, *rest) if rest else body


# ----------------------------------------------------------------------------------------------- with numbers


def evaluate(e, values, digits=15):
    """The number that e takes. values maps each array, size, symbol and free index of e to its value.

    Plain loops, independent of `normal_form`, so that each can check the other; with more than 15 digits in
    mpmath's numbers, in which little is lost where large terms cancel. NaN where e has no real value, such as
    log(−1) or 1/0.
    Raises ValueError if a value is missing, if one does not fit (an index or a label outside its range, a
    size of 2.5), or if e holds a function that nobody defined or that has no numbers, such as DiracDelta.

    >>> D, x = sizes("D"), arrays("x")
    >>> evaluate(total(lambda k: x[k] ** 2, D), {D: 3, x: [1.0, 2.0, 3.0]})
    14.0
    """
    e = _expression(e, "e")
    if digits > 15:
        number = _number(e, values, digits)
        return math.nan if number is None else float(number)
    number = _program(e, values, [{"step": _step}, "math", "scipy"])(np.float64)
    return math.nan if number is None or isinstance(number, complex) else float(number)


def _number(e, values, digits):
    """The number that e takes, in mpmath's numbers with so many digits; None if it is not real."""
    return _to_digits(_program(_whole_numbers_apart(e), values, _IN_MPMATH), digits)


def _to_digits(program, digits):
    """What a `_program` gives in mpmath's numbers with so many digits; None if it is not real."""
    with mpmath.workdps(digits):
        number = program(mpmath.mpf)
        real = number is not None and not isinstance(number, complex | mpmath.mpc)
        number = mpmath.mpf(number) if real else None
        return number if real and mpmath.isfinite(number) else None


def _whole_numbers_apart(e):
    """Integers in e, but for places, as arguments of `whole`: the 1/3 of Python is no exact one."""
    if isinstance(e, KroneckerDelta):
        return e
    if isinstance(e, Symbol | Indexed):
        return _whole(e) if e.is_integer and not _is_length(e) else e
    if isinstance(e, Sum):
        return _Sum(_whole_numbers_apart(e.function), *e.limits)
    return e.func(*map(_whole_numbers_apart, e.args)) if e.args else e


_whole = sp.Function("whole", real=True)


def _program(e, values, modules):
    """The number of e, with functions of these modules, as a function of the arithmetic, such as np.float64.

    It gives None where there is no number.
    """
    e = _checked_and_fresh(e)
    given = {getattr(key, "label", key): value for key, value in values.items()}
    free = sorted(_free_symbols(e), key=lambda symbol: symbol.sort_key())
    for symbol in free:
        if symbol not in given:
            raise ValueError(f"values: expected one for each of {free}, got none for {symbol}")
    for symbol in free:
        if isinstance(symbol, Index):
            size = _length(symbol.size, given)
            if np.any(np.less(given[symbol], 0)) or np.any(np.greater_equal(given[symbol], size)):
                raise ValueError(f"values: expected {symbol} within 0 … {size - 1}, got {given[symbol]}")
        elif np.ndim(given[symbol]) == 0 and not _fits(given[symbol], symbol):
            raise ValueError(f"values: {symbol} is by its assumptions no such number as {given[symbol]}")
    if unknown := {f for f in e.atoms(AppliedUndef) if f.func != _whole}:
        raise ValueError(f"e: expected functions that have numbers, got {unknown}")
    lengths = {symbol: sp.Integer(given[symbol]) for symbol in free if _is_length(symbol)}
    others = [symbol for symbol in free if symbol not in lengths]
    bound = [k for k in e.atoms(Index) if k not in free]
    plain = {symbol: Symbol(f"a{number}") for number, symbol in enumerate([*others, *bound])}
    e = e.xreplace(plain | lengths)
    if e.has(sp.zoo, sp.nan):
        return lambda real: None
    compute = sp.lambdify([plain[symbol] for symbol in others], e, modules)

    def program(real):
        try:
            with np.errstate(all="ignore"):
                return compute(*(_plain(given[symbol], real) for symbol in others))
        except NameError as error:
            raise ValueError(f"e: expected functions that have numbers, got {error.name}") from None
        except (ArithmeticError, ValueError):  # how math and mpmath say that there is no real number
            return None

    return program


def _step(x):
    """`step` of a number, in its kind; ValueError where it is not real."""
    if isinstance(x, complex | mpmath.mpc) or x != x:
        raise ValueError(f"x: expected a real number, got {x}")
    return type(x)(x > 0)


_IN_MPMATH = [{"whole": mpmath.mpf, "step": _step}, "mpmath"]


def _plain(number, real):
    """The integers in a number or an array as Python's, which have negative powers; all else as real(…)."""
    if np.ndim(number):
        return np.frompyfunc(lambda entry: _plain(entry, real), 1, 1)(number)
    return int(number) if isinstance(number, (int, np.integer)) else real(float(number))


def random_values(e, rng, sizes=(2, 3, 4), lowest=0.5):
    """Values for `evaluate`: indices and labels within their ranges, arrays of the shapes that e needs.

    sizes   what the lengths are drawn from, as far as their assumptions allow
    lowest  entries and scalars are drawn from lowest … 1.5, scalars as their assumptions allow
    Raises ValueError for an entry whose index has no stated range, for an array used with several numbers of
    indices, and for a symbol to whose assumptions nothing drawn fits.

    >>> D, x = sizes("D"), arrays("x")
    >>> values = random_values(total(lambda k: x[k], D), np.random.default_rng(0))
    >>> {str(name): np.shape(value) for name, value in values.items()}
    {'D': (), 'x': (4,)}
    """
    e = sympify(e)
    free = sorted(_free_symbols(e), key=lambda symbol: symbol.sort_key())
    lengths = [symbol for symbol in free if _is_length(symbol)]
    values = {size: int(rng.choice(_fitting(sizes, size))) for size in lengths}

    def length(position):
        size = _require_range(position)
        return int(position) + 1 if size is None else _length(size, values)

    for symbol in free:
        if symbol in values:
            continue
        used = [entry.indices for entry in e.atoms(Indexed) if entry.base.label == symbol]
        if len(set(map(len, used))) > 1:
            raise ValueError(f"{symbol}: used with several numbers of indices")
        shape = tuple(max(map(length, positions)) for positions in zip(*used)) or None
        if isinstance(symbol, Index):
            values[symbol] = rng.integers(_length(symbol.size, values), size=shape)
        elif used:
            values[symbol] = rng.uniform(lowest, 1.5, size=shape)
        else:
            number = rng.uniform(lowest, 1.5)
            values[symbol] = _fitting([number, -number, *sizes], symbol)[0]
    return values


def _fitting(numbers, symbol):
    """Those of the numbers that the assumptions of a symbol allow."""
    fitting = [number for number in numbers if _fits(number, symbol)]
    if not fitting:
        raise ValueError(f"{symbol}: by its assumptions it is none of {', '.join(map(str, numbers))}")
    return fitting


def _fits(number, symbol):
    number = sympify(number)
    return all(getattr(number, f"is_{fact}") in (truth, None) for fact, truth in symbol.assumptions0.items())


def _is_length(symbol):
    return bool(symbol.is_integer and symbol.is_positive) and not isinstance(symbol, Index)


def _length(size, values):
    return int(size.subs({symbol: values[symbol] for symbol in size.free_symbols}))


def _free_symbols(e):
    """All that needs a value: sizes (also those of indices), scalars, free indices, names of arrays."""
    free = {symbol for symbol in e.atoms(Symbol) if getattr(symbol, "mark", _FREE) == _FREE}
    return free.union(*(k.size.free_symbols for k in e.atoms(Index)))
