"""The search for a mistake: which edit of the right answer does what the learner's answer does?

In this order: one edit of the right answer, for all results or else for each result by itself; one edit of a
wrong idea; two edits. The first that gives the learner's numbers in every case is the diagnosis. Different
mistakes can give the same numbers, and then the likeliest is named.
"""

import functools
import inspect
import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ...mistakes.mutations import Program
from ...mistakes.rules import KINDS
from .attempt import Failure, attempt
from .values import computed, key

EDITS, TRIALS = 800, 1500
"""So many edits of a program are tried, and so many pairs of edits: about a second."""


AS_IF = "(This is said of the right answer: with it, that gives what yours does.)"
"""Behind an edit of the right answer: what it names need not stand in the learner's."""


@dataclass(frozen=True)
class Idea:
    """A known mistake with its own words: {old: new} in the source of the right answer."""

    words: str
    changes: dict

    def program(self, answer, names, outputs):
        """The wrong answer. ValueError if what it changes does not stand in the right one."""
        source = inspect.getsource(answer)
        for old, new in self.changes.items():
            if old not in source:
                raise ValueError(f"{self.words[:40]!r}: expected {old!r} in the answer {answer.__name__}")
            source = source.replace(old, new)
        return Program(source, answer.__globals__ | names, outputs)


@dataclass(frozen=True)
class Finding:
    """What kind of mistake it is, and where, in sentences. line: the learner's line alone, if it is known."""

    kind: str
    where: str = ""
    line: str = ""


@dataclass
class Search:
    """What is known of an exercise before anybody answers it.

    answer: the right one. ideas: wrong ideas. cases: with `inputs` and `sizes`. outputs: names of the
    results. names: what the answer may use besides its own globals.
    """

    answer: Callable
    ideas: tuple
    cases: list
    outputs: tuple
    names: dict = field(default_factory=dict)
    made: dict = field(default_factory=dict, repr=False)

    def one(self, given):
        """The Finding of one edit with these results, for each case {output: array or exception}; or None."""
        if self.wrong(given):
            return self._one(self.program, given, self._probe(given), self.outputs)

    def each(self, given, *first):
        """The Finding of an idea or one edit for each wrong result; or None.

        first: what is asked before, functions of the name of a result.
        """
        probe, wrong = self._probe(given), self.wrong(given)
        if raises(given):
            return None
        return together({name: asked(first, name) or self._of(name, given, probe) for name in wrong})

    def more(self, given, first=(), then=()):
        """The Finding for each wrong result: an idea, an edit, an edit of an idea, two edits; or None.

        first, then: what is asked before, and before two edits are tried, functions of the name of a result.
        """
        probe, wrong = self._probe(given), self.wrong(given)
        if raises(given):
            return None
        if wrong and (found := self._besides(given, probe, self.outputs)):
            return found
        findings = {}
        for name in wrong:
            found = asked(first, name) or self._of(name, given, probe)
            found = found or self._besides(given, probe, [name]) or asked(then, name)
            findings[name] = found or self._two(given, probe, name, TRIALS // len(wrong))
        return together(findings)

    def good(self, given):
        """The outputs that are right, and those that are too near to be told from the right ones."""
        return [name for name in self.outputs if fits(given, self.right, [name])]

    def wrong(self, given):
        """The other outputs."""
        return [name for name in self.outputs if not fits(given, self.right, [name])]

    def _probe(self, given):
        """The case in which edits are tried first."""
        wrong = self.wrong(given)
        return max(range(len(given)), key=lambda i: (sum(finite(given[i][n]) for n in wrong), -abs(i - 1)))

    @cached_property
    def program(self):
        return Program(self.answer, self.names, self.outputs)

    @cached_property
    def right(self):
        return [self._results(self.program.function(), case) for case in self.cases]

    @cached_property
    def values(self):
        """{code: array in each case} of what the right answer computes; equal ones once."""
        runs = [computed(self.program, case) for case in self.cases]
        found = {}
        for code in runs[-1]:
            arrays = [run.get(code) for run in runs]
            if all(key(array) is not None for array in arrays):
                found.setdefault(tuple(map(key, arrays)), (code, [np.asarray(array) for array in arrays]))
        return dict(found.values())

    @cached_property
    def known(self):
        """[(idea, its program, its results in every case)]."""
        programs = [idea.program(self.answer, self.names, self.outputs) for idea in self.ideas]
        return [
            (idea, program, [self._results(program.function(), case) for case in self.cases])
            for idea, program in zip(self.ideas, programs)
        ]

    def rows(self, program, probe):
        """[(edit, its results in the probe case)] of a program, the likeliest first; made once a case."""
        key, case = (probe, id(program)), self.cases[probe]
        if key not in self.made:
            edits = edits_of(program, case)[:EDITS]
            self.made[key] = [(edit, self._results(program.function(edit), case)) for edit in edits]
        return self.made[key]

    def _results(self, function, case):
        """output -> array, or the kind of failure."""
        function.__globals__.update(case.sizes)  # its own: see Program
        return results_of(attempt(function, case.inputs, self.outputs, told=False), self.outputs)

    def _agrees(self, program, edits, given, probe, outputs):
        """Whether the edited program gives the learner's outputs in all other cases too."""
        function = program.function(*edits)
        return all(
            same(g, self._results(function, case), outputs)
            for i, (g, case) in enumerate(zip(given, self.cases))
            if i != probe
        )

    def told(self, given):
        """The Finding of an idea that fits all results, or None."""
        for idea, _, results in self.known:
            if fits(given, results, self.outputs):
                return Finding(idea.words)

    def _of(self, name, given, probe):
        """The Finding for one result: an idea that fits in all that it changes, or one edit."""
        for idea, _, results in self.known:
            changed = self.wrong(results)
            if name in changed and fits(given, results, changed):
                return Finding(idea.words)
        return self._one(self.program, given, probe, [name, *self.good(given)])

    def _one(self, program, given, probe, outputs, allowed=lambda edit: True):
        """One edit. Of a part of the results none is said to stand in another's place."""
        for edit, results in self.rows(program, probe):
            fit = same(given[probe], results, outputs) and (edit.kind != "order" or outputs == self.outputs)
            if fit and allowed(edit) and self._agrees(program, [edit], given, probe, outputs):
                return Finding(KINDS[edit.kind][1], f"{program.place(edit)} {AS_IF}")

    def _besides(self, given, probe, outputs):
        """One edit of an idea, which takes back no part of it. Both leave right what is right."""
        good = self.good(given)
        concerned = tuple(dict.fromkeys([*outputs, *good]))
        for idea, program, results in self.known:
            if fits(results, self.right, good) and not isinstance(results[probe][outputs[0]], str):
                onwards = functools.partial(self._onwards, program)
                if found := self._one(program, given, probe, concerned, onwards):
                    return replace(found, kind=f"{idea.words} Besides: {found.kind}")

    def _onwards(self, program, edit):
        """Whether a wrong program is no nearer to the right answer after the edit."""
        right, before, after = (
            Counter(re.findall(r"\w+|\S", source))
            for source in (self.program.source(), program.source(), program.source(edit))
        )
        return ((after - right) + (right - after)).total() >= ((before - right) + (right - before)).total()

    def _two(self, given, probe, name, trials):
        """Two edits of the right answer: pairs of those that make a difference, the cheapest first."""
        if not finite(given[probe][name]):
            return None
        distinct = {}
        for edit, results in self.rows(self.program, probe):
            result = results[name]
            moved = not isinstance(result, str) and not alike(result, self.right[probe][name])
            if moved and edit.kind != "order":
                distinct.setdefault(result.round(9).tobytes(), edit)
        pairs = itertools.combinations(distinct.values(), 2)
        for edits in sorted(pairs, key=lambda pair: pair[0].cost + pair[1].cost)[:trials]:
            result = self._results(self.program.function(*edits), self.cases[probe])
            if same(given[probe], result, [name]) and self._agrees(self.program, edits, given, probe, [name]):
                kinds = dict.fromkeys(KINDS[edit.kind][1] for edit in edits)
                return Finding(
                    " ".join(["Two things are wrong.", *kinds]), f"{self.program.place(*edits)} {AS_IF}"
                )


def edits_of(program, case):
    """The edits for the inputs of a case; none if it raises there, as a known mistake may."""
    try:
        return program.edits(case.inputs, case.sizes)
    except Exception:
        return []


def asked(ways, name):
    """What the first of these functions that knows of a result says of it; or None."""
    return next(filter(None, (way(name) for way in ways)), None)


def together(findings):
    """One Finding for {output: its Finding}, each said once, with its outputs. None if one of them is."""
    if not findings or not all(findings.values()):
        return None
    outputs = {}
    for name, finding in findings.items():
        outputs.setdefault(finding, []).append(name)
    if len(findings) == 1:
        return next(iter(outputs))
    said = [(", ".join(names), finding) for finding, names in outputs.items()]
    return Finding(
        " ".join(f"{names}: {finding.kind}" for names, finding in said),
        *(" ".join(filter(None, (getattr(f, part) for _, f in said))) for part in ("where", "line")),
    )


def results_of(run, outputs):
    """{output: array of floats} of an attempt; the kind of its failure for each if there are none."""
    if isinstance(run, Failure):
        return dict.fromkeys(outputs, run.kind)
    return {name: np.asarray(array, float) for name, array in run.arrays.items()}


def raises(given):
    """Whether there are no results in some case."""
    return any(isinstance(result, str) for case in given for result in case.values())


def fits(given, results, outputs):
    """Whether two answers gave the same for these outputs, in every case."""
    return all(same(g, r, outputs) for g, r in zip(given, results))


def same(a, b, outputs):
    return all(alike(a[name], b[name]) for name in outputs)


def alike(a, b, tolerance=1e-10):
    """The same numbers up to rounding, and not finite in the same rows; or the same exception."""
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str) and a == b
    if a.shape != b.shape:
        return False
    if not (finite(a) and finite(b)):
        if a.ndim == 0:
            return bool(np.isfinite(a) == np.isfinite(b))
        good, also = np.isfinite(a).all(-1), np.isfinite(b).all(-1)
        return bool((good == also).all() and good.any()) and alike(a[good], b[good])
    return bool(np.abs(a - b).max(initial=0) <= tolerance * (np.abs(b).max(initial=0) or 1))


def finite(a):
    return not isinstance(a, str) and bool(np.isfinite(a).all())
