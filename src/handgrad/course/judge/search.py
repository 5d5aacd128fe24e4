"""The search for a mistake: which edit of the right answer does what the learner's answer does?

In this order: the known mistakes that have a story; one edit of the right answer, for all results or else for
each result by itself; one edit of a known mistake; two edits. The first that gives the learner's numbers in
every case is the diagnosis. Different mistakes can give the same numbers, and then the likeliest is named.
"""

import inspect
import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...mutants import Program
from ...slips import KINDS
from .attempt import Failure, attempt

TRIALS = 2500  # wrong answers that are tried where one edit is not enough: about two seconds


@dataclass(frozen=True)
class Story:
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


def stories_of(text):
    """The stories of a text: a list, whose lines `old → new` say what is changed; all else is words."""
    found = []
    for item in items(text):
        words = " ".join(line for line in item if "→" not in line)
        changes = (line.split("→") for line in item if "→" in line)
        found.append(Story(words, {old.strip(): new.strip() for old, new in changes}))
    return tuple(found)


def texts(text):
    """The items of a list in a text, each in one line."""
    return tuple(" ".join(item) for item in items(text))


def items(text):
    """The items of a list in a text, which begin with "- ": for each its lines."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("- ") and "→" not in line:
            found.append([line.removeprefix("- ")])
        else:
            found[-1].append(line)
    return found


@dataclass(frozen=True)
class Finding:
    """What kind of mistake it is, and where, in sentences."""

    kind: str
    where: str = ""


@dataclass
class Search:
    """What is known of an exercise before anybody answers it.

    answers: the right answer, and other right ways to think of it, each in lines that can be edited.
    stories: known mistakes. cases: with `inputs` and `sizes`. outputs: names of the results. names: what the
    answers may use besides their own globals.
    """

    answers: tuple
    stories: tuple
    cases: list
    outputs: tuple
    names: dict = field(default_factory=dict)
    made: dict = field(default_factory=dict, repr=False)

    def find(self, given, trials=TRIALS):
        """The Finding for the results `given`, for each case {output: array or exception}; or None."""
        wrong = [n for n in self.outputs if not fits(given, self.right, [n])]
        if not wrong:  # too near to be told from the right answer, so from no edit that changes nothing
            return None
        probe = max(range(len(given)), key=lambda i: (sum(finite(given[i][n]) for n in wrong), -abs(i - 1)))
        found = self.told(given) or self._one(given, probe, self.outputs, self.rows(probe))
        if found or any(isinstance(given[probe][name], str) for name in wrong):
            return found
        findings = {name: self._of(name, given, probe) for name in wrong}
        still = [name for name, finding in findings.items() if finding is None]
        near = [known for known in self.known if any(fits(given, known[2], [name]) for name in wrong)]
        if still and (found := self._besides(given, probe, self.outputs, near, trials)):
            return found
        stories = near + [known for known in self.known if known not in near]
        for name in still:
            share = trials // len(still)
            found = self._besides(given, probe, [name], stories, share // 2)
            findings[name] = found or self._two(given, probe, name, share)
        return together(findings) if findings and all(findings.values()) else None

    @cached_property
    def programs(self):
        return [Program(answer, self.names, self.outputs) for answer in self.answers]

    @cached_property
    def right(self):
        return [self._results(self.programs[0].function(), case) for case in self.cases]

    @cached_property
    def known(self):
        """[(story, its program, its results in every case)]."""
        programs = [story.program(self.answers[0], self.names, self.outputs) for story in self.stories]
        return [
            (story, program, [self._results(program.function(), case) for case in self.cases])
            for story, program in zip(self.stories, programs)
        ]

    def rows(self, probe):
        """[(program, edit, its results in the probe case)] of the right answers, the likeliest first."""
        return self._edited(self.programs, probe)

    def _edited(self, programs, probe):
        """The rows of some programs. They are made once for each case."""
        key, case = (probe, *map(id, programs)), self.cases[probe]
        if key not in self.made:
            edits = [(program, edit) for program in programs for edit in edits_of(program, case)]
            edits.sort(key=lambda pair: pair[1].cost)
            self.made[key] = [(p, edit, self._results(p.function(edit), case)) for p, edit in edits]
        return self.made[key]

    def _results(self, function, case):
        """output -> array, or the kind of failure."""
        function.__globals__.update(case.sizes)  # its own: see Program
        run = attempt(function, case.inputs, self.outputs)
        if isinstance(run, Failure):
            return dict.fromkeys(self.outputs, run.kind)
        return {name: np.asarray(array, float) for name, array in run.arrays.items()}

    def _agrees(self, program, edits, given, probe, outputs):
        """Whether the edited program gives the learner's outputs in all other cases too."""
        function = program.function(*edits)
        return all(
            same(g, self._results(function, case), outputs)
            for i, (g, case) in enumerate(zip(given, self.cases))
            if i != probe
        )

    def _of(self, name, given, probe):
        """The Finding for one result. A story is told if it fits in all that it changes.

        If nothing else does, also if what it does not fit in is right, and not spoken of.
        """
        good, partial = self._good(given), None
        for story, _, results in self.known:
            changed = [n for n in self.outputs if not fits(results, self.right, [n])]
            if name in changed and fits(given, results, changed):
                return Finding(story.words)
            spoken = any(re.search(rf"\b{n}\b", story.words) for n in good)
            if not spoken and name in changed and fits(given, results, [n for n in changed if n not in good]):
                partial = partial or Finding(story.words)
        return self._one(given, probe, [name], self.rows(probe)) or partial

    def _good(self, given):
        """The outputs that are right."""
        return [name for name in self.outputs if fits(given, self.right, [name])]

    def told(self, given):
        """The Finding of a story that fits all results, or None."""
        for story, _, results in self.known:
            if fits(given, results, self.outputs):
                return Finding(story.words)

    def _one(self, given, probe, outputs, rows):
        """One edit. Of a part of the results none is said to stand in another's place."""
        for program, edit, results in rows:
            if edit.kind == "order" and outputs != self.outputs:
                continue
            if same(given[probe], results, outputs) and self._agrees(program, [edit], given, probe, outputs):
                return Finding(KINDS[edit.kind][1], program.place(edit))

    def _besides(self, given, probe, outputs, stories, trials):
        """One edit of a known mistake; first of those that explain another result.

        What is right must be right after the known mistake too, and after the edit: neither may concern it.
        An edit that takes back a part of the mistake is none besides.
        """
        good = self._good(given)
        concerned = tuple(dict.fromkeys([*outputs, *good]))
        for story, program, results in stories:
            if trials > 0 and not isinstance(results[probe][outputs[0]], str):
                if not fits(results, self.right, good):
                    continue
                rows = self._edited([program], probe)
                trials -= len(rows)
                rows = [row for row in rows if same(given[probe], row[2], concerned)]
                rows = [row for row in rows if not self._takes_back(program, row[1])]
                if found := self._one(given, probe, concerned, rows):
                    return Finding(f"{story.words} Besides: {found.kind}", found.where)

    def _takes_back(self, program, edit):
        """Whether a known mistake is nearer to the right answer after the edit."""
        right, before, after = (
            Counter(re.findall(r"\w+|\S", source))
            for source in (self.programs[0].source(), program.source(), program.source(edit))
        )
        return ((after - right) + (right - after)).total() < ((before - right) + (right - before)).total()

    def _two(self, given, probe, name, trials):
        """Two edits of one right answer: pairs of those that make a difference, the cheapest first."""
        if not finite(given[probe][name]):
            return None
        distinct = {}
        for program, edit, results in self.rows(probe):
            result = results[name]
            moved = not isinstance(result, str) and not alike(result, self.right[probe][name])
            if moved and edit.kind != "order":
                distinct.setdefault((id(program), result.round(9).tobytes()), (program, edit))
        pairs = [(p, a, b) for (p, a), (q, b) in itertools.combinations(distinct.values(), 2) if p is q]
        for program, *edits in sorted(pairs, key=lambda pair: pair[1].cost + pair[2].cost)[:trials]:
            result = self._results(program.function(*edits), self.cases[probe])
            if same(given[probe], result, [name]) and self._agrees(program, edits, given, probe, [name]):
                kinds = dict.fromkeys(KINDS[edit.kind][1] for edit in edits)
                return Finding(" ".join(["Two things.", *kinds]), program.place(*edits))


def edits_of(program, case):
    """The edits for the inputs of a case; none if it raises there, as a known mistake may."""
    try:
        return program.edits(case.inputs, case.sizes)
    except Exception:
        return []


def together(findings):
    """One Finding for the findings {output: Finding}: each said once, with the outputs it holds for."""
    outputs = {}
    for name, finding in findings.items():
        outputs.setdefault(finding, []).append(name)
    if len(outputs) == 1 and len(findings) == 1:
        return next(iter(outputs))
    said = [(", ".join(names), finding) for finding, names in outputs.items()]
    return Finding(
        " ".join(f"{names}: {finding.kind}" for names, finding in said),
        " ".join(finding.where for _, finding in said if finding.where),
    )


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
