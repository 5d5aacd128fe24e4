"""What a wrong result is made of: the right one, and values that come in on the way.

A wrong result is compared with the arguments and with the values of the right answer, with their sums and
means over some axes: it may be a multiple of such a value, the right result plus or minus one, times one, or
divided by one. What is found holds in every case, with one factor that has a name, and is said as a fact.
"""

import inspect
import itertools
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .observe import name_factor
from .search import Finding, Search, finite, fits
from .values import proportional, variables

LEAST = 6
"""A result of fewer numbers, in its largest case, is no evidence."""


@dataclass
class Explain:
    """The values of an exercise, from its Search, and what wrong results are in terms of them."""

    search: Search

    def find(self, given):
        """The Finding for the results `given`, for each case {output: array or exception}; or None."""
        wrong = [n for n in self.search.outputs if not fits(given, self.search.right, [n])]
        with np.errstate(all="ignore"):
            findings = {name: self._of(name, [case[name] for case in given]) for name in wrong}
        if not findings or not all(findings.values()):
            return None
        kinds, places = ([getattr(f, part) for f in findings.values()] for part in ("kind", "where"))
        return Finding(" ".join(kinds), " ".join(filter(None, places)))

    @cached_property
    def values(self):
        """[(words, array in each case)] of the variables of the right answer, of their sums and means."""
        runs = [variables(self.search.program, case) for case in self.search.cases]
        floats = {}
        for name in runs[0]:
            arrays = [np.asarray(run[name]) for run in runs if isinstance(run.get(name), np.ndarray | float)]
            if len(arrays) == len(runs) and all(array.dtype.kind == "f" for array in arrays):
                floats[name] = arrays
        return [
            value for name, arrays in floats.items() for value in [(f"`{name}`", arrays), *sums(name, arrays)]
        ]

    def _of(self, name, given):
        """The Finding for one result."""
        right = [case[name] for case in self.search.right]
        good = all(not isinstance(g, str) and finite(g) and g.shape == r.shape for g, r in zip(given, right))
        probe = max(range(len(right)), key=lambda i: right[i].size)
        if not good or right[probe].size < LEAST:
            return None
        if (factor := self._factor(right, given)) is not None:
            return Finding(f"Your `{name}` is {factor}the right one.")
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

    def _factor(self, made, target):
        """The factor in words, "" for 1, if one that has a name makes the target of it in every case."""
        pairs = [(proportional(m, t), case.sizes) for m, t, case in zip(made, target, self.search.cases)]
        if any(factor is None for factor, _ in pairs):
            return None
        pairs = [(factor, sizes) for factor, sizes in pairs if factor]
        if all(abs(factor - 1) < 1e-9 for factor, _ in pairs):
            return ""
        words = name_factor(*map(list, zip(*pairs)))
        if words == "the right answer with the opposite sign":
            return "minus "
        odd = words is None or re.search(r"\d\.\d", words)
        return None if odd else words.removesuffix("the right answer")

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
