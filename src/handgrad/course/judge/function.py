"""Exercises answered by a function: it is run beside the right one, and its mistake is searched for."""

import inspect
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from . import draws
from .attempt import Failure, a_type, attempt, listed, quoted
from .diagnose import diagnose, said
from .observe import confined, observe, relative_error, side_effect, wrong_precision
from .search import Search, results_of
from .task import Task
from .verdict import NOT_YET, RIGHT, WRONG

TOLERANCE = 1e-11
REMEMBERS = (
    "Right in every case; but asked twice in a row, with other numbers of the same shapes, it does not give "
    "both results. Does it keep something from one call to the next?"
)


@dataclass(frozen=True)
class Exercise(Task):
    """A Task that is answered by a function.

    outputs: names of what it returns. inputs: {argument: Draw}. special: cases besides those that
    every exercise has, {name: {argument: Draw}}. only: {case: words}, what it means if nothing else is wrong.
    reserved: the operations of the package that do all the work; a report on notebooks refuses an answer that
    calls one.
    """

    outputs: tuple[str, ...]
    inputs: dict
    special: dict = field(default_factory=dict)
    only: dict = field(default_factory=dict)
    reserved: tuple = ()

    @cached_property
    def cases(self):
        """The inputs of each case; the same every time."""
        return draws.cases(self.inputs, self.special, self.seed)

    @cached_property
    def expected(self):
        """The right results of each case."""
        return [attempt(self.answer, case.inputs, self.outputs) for case in self.cases]

    @cached_property
    def twice(self):
        """One case, and the same with other numbers; and the right results of both."""
        first = self.cases[1]
        both = [first, draws.case(first.name, first.sizes, self.inputs, self.seed + 2)]
        return both, [attempt(self.answer, one.inputs, self.outputs) for one in both]

    @cached_property
    def search(self):
        return Search(self.answer, self.ideas, self.cases, self.outputs)

    def _judged(self, answer):
        if problem := self._cannot_be_called(answer):
            return self._verdict(WRONG, problem)
        given = [attempt(answer, case.inputs, self.outputs) for case in self.cases]
        for g in given:
            if isinstance(g, Failure) and g.unfinished:
                return self._verdict(NOT_YET, g.text)
        errors = [{n: relative_error(g, e, n) for n in self.outputs} for g, e in zip(given, self.expected)]
        rows = self._rows(given, errors)
        worst = max(error for case in errors for error in case.values())
        flaw = side_effect(given, list(self.inputs)) or wrong_precision(given)
        if worst <= TOLERANCE and not flaw:
            flaw = no_booleans(given, self.expected) or (REMEMBERS if self._remembers(answer) else "")
        if flaw:
            return self._verdict(WRONG, flaw, rows=rows)
        if worst <= TOLERANCE:
            text = f"Right in all {len(rows)} cases; the largest relative error is {worst:.0e}."
            return self._verdict(RIGHT, text, value=answer, rows=rows)
        return self._mistaken(answer, given, errors, rows)

    def _mistaken(self, answer, given, errors, rows):
        """The Verdict on a function that is wrong, or raises, in some case."""
        raises = any(isinstance(g, Failure) and g.raised for g in given)
        failed = [i for i, g in enumerate(given) if isinstance(g, Failure)]
        wrong = {n: [i for i, case in enumerate(errors) if case[n] > TOLERANCE] for n in self.outputs}
        bad = sorted(set().union(*wrong.values()))
        results = [results_of(g, self.outputs) for g in given]
        only = self.cases[bad[0]].name if len(bad) == 1 else None
        if only in self.only and not self.search.told(results):
            return self._verdict(WRONG, f"Wrong only in {quoted(only)}. {self.only[only]}", rows=rows)
        _ = self.search.known  # raises for an idea that does not fit the answer: no failure of the search
        try:
            found, fails = diagnose(answer, self.search, results, failed == bad), ""
        except Exception as error:
            found, fails = None, f"The search for the mistake failed, by {type(error).__name__}: {error}."
        right = [n for n in self.outputs if not wrong[n]]
        right = [f"{listed(right)} {'is' if len(right) == 1 else 'are'} right."] if right else []
        pairs = {
            n: [(given[i].arrays[n], self.expected[i].arrays[n], self.cases[i]) for i in places]
            for n, places in wrong.items()
            if places and not failed
        }
        if found:
            ends = [f"{n} is wrong {end} only." for n, some in pairs.items() if (end := confined(some))]
            raised = [f"In the case {quoted(self.cases[i].name)}: {given[i].text}" for i in failed[:1]]
            text = " ".join([said(found, self.outputs), *right, *ends, *raised])
        else:
            seen = (
                [given[failed[0]].text] if failed else [observe(n, some) for n, some in pairs.items()] + right
            )
            text = self._which(bad, failed) + " ".join(seen)
            text = " ".join([*self._ignored(answer), text, fails]).strip()
        return self._verdict(WRONG, text, found, rows=rows, raises=raises)

    @property
    def _columns(self):
        return "case", *self.outputs

    _note = (
        "The numbers are errors relative to the largest expected number; beside them stand the shapes. "
        f"Allowed is {TOLERANCE:.0e}. The numbers are float64. Rounding in a few hundred operations stays "
        "below 1e-12, whatever the order of the sums; every real mistake is far above."
    )

    def _remembers(self, answer):
        """Whether a second call with inputs of the same shapes goes wrong, or changes the first result."""
        both, expected = self.twice
        given = [attempt(answer, one.inputs, self.outputs) for one in both]
        errors = [relative_error(g, e, n) for g, e in zip(given, expected) for n in self.outputs]
        return max(errors) > TOLERANCE

    def _rows(self, given, errors):
        """One row per case: its name, and for each output the error and the shape."""

        def cell(g, e, name, error):
            if isinstance(g, Failure):
                return "✗ nothing"
            got, wanted = g.arrays[name].shape, e.arrays[name].shape
            if got != wanted:
                return f"✗ {got}, expected {wanted}"
            number = f"{error:.0e}" if np.isfinite(error) else "not finite"
            return f"{'✓' if error <= TOLERANCE else '✗'} {number}  {got}"

        return tuple(
            (case.name, *(cell(g, e, n, error[n]) for n in self.outputs))
            for case, g, e, error in zip(self.cases, given, self.expected, errors)
        )

    def _cannot_be_called(self, answer):
        arguments = list(self.inputs)
        if not callable(answer):
            return (
                f"Expected a function, got {a_type(answer)}. Hand over the function itself, without calling "
                f"it: `judge.{self.name}(my_function)`."
            )
        try:
            inspect.signature(answer).bind(*arguments)
        except TypeError:
            call = f"`{self.name}({', '.join(arguments)})`"
            return f"It is called as {call}; your function does not take {len(arguments)} arguments."
        except ValueError:  # a built-in that does not tell its signature
            pass
        return ""

    def _ignored(self, answer):
        """A sentence on the arguments that the right answer uses and the learner's does not, or none."""
        names, case = [], self.cases[1]
        for i, argument in enumerate(self.inputs):
            other = other_value(case.inputs[i])
            changed = (*case.inputs[:i], other, *case.inputs[i + 1 :])
            mine, right = (
                [attempt(function, inputs, self.outputs) for inputs in (case.inputs, changed)]
                for function in (answer, self.answer)
            )
            if equal(*mine) and not equal(*right):
                names.append(f"`{argument}`")
        return [f"Your result does not depend on {listed(names)}, and it should."] if names else []

    def _which(self, bad, failed):
        """Which cases are wrong, if some are right; or which raises, if some do not."""
        names = [case.name for case in self.cases]
        right = [name for i, name in enumerate(names) if i not in bad]
        if not right:
            return f"In the case {quoted(names[failed[0]])}: " if 0 < len(failed) < len(names) else ""
        if len(right) < len(bad):
            return f"Right only in {listed([quoted(n) for n in right])}. "
        return f"Wrong only in {listed([quoted(names[i]) for i in bad])}. "


def no_booleans(given, expected):
    """A sentence on results that are numbers where True and False are asked for, or ""."""
    for g, e in zip(given, expected):
        for name, array in e.arrays.items():
            got = g.arrays[name].dtype
            if array.dtype.kind == "b" and got.kind != "b":
                return (
                    f"The entries of {name} are right, but they are {got}. Asked are Booleans only: "
                    "end with a comparison, or combine Booleans by &."
                )
    return ""


def equal(one, other):
    """Whether two runs gave the same numbers, if both gave any."""
    if isinstance(one, Failure) or isinstance(other, Failure):
        return False
    return all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(one.arrays.values(), other.arrays.values())
    )


def other_value(x):
    """Another input like x: its numbers a little larger, its Booleans turned round in the last entry."""
    if np.asarray(x).dtype == bool:
        other = np.array(x)
        other[..., -1] = ~other[..., -1]
        return other
    return 1.1 * x + 0.1
