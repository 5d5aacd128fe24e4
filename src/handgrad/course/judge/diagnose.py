"""What is wrong with an answer: what is certain first, and in the learner's own lines.

In this order: a wrong idea that gives these very results; one change of the learner's function that makes it
right; one edit of the right answer that gives these results; several changes of the learner's function; one
value in it that is wrong; an edit of the right answer for each result; values that the wrong results are made
of; a change after which more is right; two edits of the right answer; a line that makes a wrong result of
right values. The place is the learner's line, if one is known.
"""

import contextlib
import functools
import io
import warnings
from dataclasses import replace

import numpy as np

from .explain import Explain
from .repair import repair
from .search import AS_IF, Finding

REASONS = {
    "A term is missing.": "A gradient has a term for each path: what depends on the input is no constant.",
    "A sum or mean is missing.": (
        "What is used several times collects from all its uses; in a softmax, a mean or a norm every entry "
        "depends on all the others, not on itself alone."
    ),
    "A mean stands where a sum should, or the other way round.": (
        "What several share collects the sum of their gradients. A division by their number comes only from "
        "a mean in the forward."
    ),
    "A factor is missing.": "The chain rule multiplies by the derivative of each step on the way.",
    "A matrix is transposed that should not be, or is not where it should be.": (
        "On the way back a product is undone from the other side: y = x W sends back dx = dy Wᵀ."
    ),
}
"""Why, by the kind of mistake: what is true of every gradient."""


def said(found, outputs=()):
    """What a Finding says first: the kind of mistake, and why, if all outputs are gradients.

    Of an edit of the right answer it says so: the learner's own code may hold no such mistake.
    """
    why = REASONS.get(found.kind, "") if outputs and all(name.startswith("d") for name in outputs) else ""
    text = f"{found.kind} {why}".strip()
    if not found.where.endswith(AS_IF) or "In your line" in found.where:
        return text
    both = text.removeprefix("Two things are wrong. ")
    mistake = "this mistake" if both == text else "these two mistakes"
    return f"With {mistake} the right answer gives what yours does: {both}"


def diagnose(answer, search, given, only_raises=False):
    """The Finding for the results `given` of an answer, for each case {output: array or exception}; or None.

    only_raises: nothing is wrong but that it raises; an edit of the right answer that raises as well would
    explain nothing. What the answer prints in a thousand trials is not heard.
    """
    silence = contextlib.redirect_stdout(io.StringIO())
    with silence, np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a thousand changes compute, or write as no one would
        return _found(answer, search, given, only_raises)


def _found(answer, search, given, only_raises):
    own = repair(answer, search, given)
    nothing = any(all(is_zero(g[n], r[n]) for g, r in zip(given, search.right)) for n in search.outputs)
    place = own and functools.cache(lambda: own.value() or own.line())
    if found := search.told(given):
        return placed(found, place)
    explain = Explain(search, given) if len(given) > 1 else None
    factor = explain and explain.multiples()
    if found := own and own.one():
        return replace(found, kind=f"{found.kind} {factor.kind}") if factor else found
    if only_raises or nothing:
        return place and place()
    if found := search.one(given):
        return placed(found, place)
    if factor:
        return placed(factor, place)
    if found := own and (own.further() or own.two() or own.but_a_factor() or own.value()):
        return found
    lines, made = [own.part] if own else [], [explain.one] if explain else []
    found = search.each(given, *lines) or explain and explain.all()
    if found := found or own and own.nearly() or search.more(given, lines, made):
        return placed(found, place)
    return own and own.line()


def placed(found, place):
    """The Finding, with the learner's line in its place if a wrong value is found there."""
    own = place and not found.line and place()
    return Finding(found.kind, f"{own.where} {found.where}".strip(), own.line) if own else found


def is_zero(given, right):
    """Whether what was given is 0, up to the rounding of numbers of the size that was expected."""
    return not isinstance(given, str) and np.abs(given).max(initial=0) <= 1e-14 * np.abs(right).max(initial=0)
