"""What a wrong result is made of: the right one, and values that come in on the way.

A wrong result is compared with the arguments and with the values of the right answer, with their sums and
means over some axes: it may be a multiple of such a value, the right result plus or minus one, times one, or
divided by one; or right in some entries and 0 in others. What is found holds in every case, with factors that
have a name, and is said as a fact.
"""

import inspect
import itertools
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .observe import name_factor
from .search import Finding, Search, finite
from .values import proportional, variables

LEAST = 6
"""A result of fewer numbers, in its largest case, is no evidence."""


@dataclass
class Explain:
    """The values of an exercise, from its Search, and what wrong results are in terms of them.

    given: the results, for each case {output: array or exception}.
    """

    search: Search
    given: list

    def all(self):
        """The Finding for all wrong results; or None."""
        return joined([self.one(name) for name in self.search.wrong(self.given)])

    def multiples(self):
        """The Finding if each wrong result is a multiple of the right one; or None."""
        return joined([self.one(name, self._multiple) for name in self.search.wrong(self.given)])

    def one(self, name, how=None):
        """The Finding for one result; or None. how: one way only."""
        given, right = [case[name] for case in self.given], [case[name] for case in self.search.right]
        good = all(not isinstance(g, str) and finite(g) and g.shape == r.shape for g, r in zip(given, right))
        if not good or max(r.size for r in right) < LEAST:
            return None
        with np.errstate(all="ignore"):
            ways = [how] if how else [self._multiple, self._made, self._entries]
            return next(filter(None, (way(name, given, right) for way in ways)), None)

    @cached_property
    def runs(self):
        """{name: value} of the right answer, in each case."""
        return [variables(self.search.program, case) for case in self.search.cases]

    @cached_property
    def sizes(self):
        """{letter: number} of each case, the numbers among the variables of the right answer too."""
        numbers = [{n: x for n, x in run.items() if isinstance(x, int | float)} for run in self.runs]
        numbers = [x | {f"(1 - {n})": 1 - x[n] for n in x if 0 < x[n] < 1} for x in numbers]
        return [found | case.sizes for found, case in zip(numbers, self.search.cases)]

    @cached_property
    def values(self):
        """[(words, array in each case)] of the variables of the right answer, of their sums and means."""
        floats = {}
        for name in self.runs[0]:
            arrays = [np.asarray(x[name]) for x in self.runs if isinstance(x.get(name), np.ndarray | float)]
            if len(arrays) == len(self.runs) and all(array.dtype.kind == "f" for array in arrays):
                floats[name] = arrays
        return [
            value for name, arrays in floats.items() for value in [(f"`{name}`", arrays), *sums(name, arrays)]
        ]

    def _multiple(self, name, given, right):
        """The Finding for a multiple of the right result; or None."""
        factor = self._factor(right, given)
        return None if factor is None else Finding(f"Your `{name}` is {factor}the right one.")

    def _made(self, name, given, right):
        """The Finding for a value of the right answer, or the right result with one; or None."""
        probe = max(range(len(right)), key=lambda i: right[i].size)
        values = [(words, fitted) for words, arrays in self.values if (fitted := fit(arrays, right))]
        difference = [g - r for g, r in zip(given, right)]
        forms = (
            ("", given, lambda c, g, r: c),
            ("the right one plus ", difference, lambda c, g, r: c),
            ("the right one times ", given, lambda c, g, r: c * r),
            ("the right one divided by ", right, lambda c, g, r: c * g),
        )
        for words, target, form in forms:
            found = {}
            for what, arrays in values:
                made = [form(c, g, r) for c, g, r in zip(arrays, given, right)]
                if proportional(made[probe], target[probe]) is not None and what != f"`{name}`":
                    found.setdefault(self._factor(made, target), what)
            found.pop(None, None)
            if found:
                factor = min(found, key=len)
                return self._told(name, words, factor, found[factor])
        return None

    def _entries(self, name, given, right):
        """The Finding for a result that is right but for a factor, where it is 0 and should not be or the
        other way round; or None.
        """
        for kind, zeros in (("not 0", right), ("0", given)):
            inside = [r * (z != 0) for r, z in zip(right, zeros)]
            cut = [g * (z != 0) for g, z in zip(given, zeros)]
            some = [np.any(z == 0) and np.any(g != r) for z, g, r in zip(zeros, given, right)]
            factor = self._factor(inside, cut)
            if factor is not None and any(some) and not all(np.array_equal(c, 0 * c) for c in cut):
                where = f"where the right one is {'' if kind == 'not 0' else 'not '}0"
                return Finding(f"Your `{name}` is {kind} {where}; elsewhere it is {factor}the right one.")
        return None

    def _factor(self, made, target):
        """The factor in words, "" for 1, if one that has a name makes the target of it in every case."""
        pairs = [(proportional(m, t), sizes) for m, t, sizes in zip(made, target, self.sizes)]
        if any(factor is None for factor, _ in pairs):
            return None
        pairs = [(factor, sizes) for factor, sizes in pairs if factor]
        return in_words(*map(list, zip(*pairs))) if pairs else ""

    def _told(self, name, words, factor, what):
        """Arguments are named at once; a step of the right answer when the place is asked for."""
        if words.endswith("plus ") and factor.startswith("minus "):
            words, factor = words.replace("plus", "minus"), factor.removeprefix("minus ")
        if what.split("`")[1] in inspect.signature(self.search.answer).parameters:
            return Finding(f"Your `{name}` is {words}{factor}{what}.")
        hidden = f"Your `{name}` is {words}{factor}a value that comes up on the way."
        return Finding(hidden, f"That is {what} of the right answer.")


def sums(name, arrays):
    """(words, array in each case) of the means and sums of a variable, with axes of length 1 and without."""
    axes = range(arrays[0].ndim)
    for some in (some for n in (1, 2, 3) for some in itertools.combinations(axes, n)):
        over = f"{'axis' if len(some) == 1 else 'axes'} {' and '.join(map(str, some))}"
        for kind, kept in itertools.product((np.mean, np.sum), (True, False)):
            reduced = [kind(a, axis=some, keepdims=kept) for a in arrays]
            yield f"the {kind.__name__} of `{name}` over {over}", reduced


def fit(arrays, right):
    """The arrays, broadcast to the shapes of the results; None if they do not fit, or are one number each."""
    try:
        fitted = [np.broadcast_to(a, r.shape) for a, r in zip(arrays, right)]
    except ValueError:
        return None
    return None if all(np.ptp(a) <= 1e-12 * np.abs(a).max(initial=0) for a in fitted if a.size) else fitted


def joined(findings):
    """One Finding of several; None if one is."""
    if not findings or not all(findings):
        return None
    kinds, places = ([getattr(f, part) for f in findings] for part in ("kind", "where"))
    return Finding(" ".join(kinds), " ".join(filter(None, places)))


def in_words(factors, sizes):
    """The factor of each case in words, "" for 1; None if they have no name."""
    if all(abs(factor - 1) < 1e-9 for factor in factors):
        return ""
    words = name_factor(list(factors), sizes)
    if words == "the right answer with the opposite sign":
        return "minus "
    return None if words is None or re.search(r"\d\.\d", words) else words.removesuffix("the right answer")
