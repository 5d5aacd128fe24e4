"""Exercises answered by a function: it is run beside the reference, and beside every known wrong answer.

The list of wrong answers is the diagnosis: a wrong answer is a function whose docstring says what is wrong
with it. If the learner's function does the same as one of them in every case, that docstring is the verdict.
Only where no known mistake fits do the general observations below speak (shape, sign, factor, ...).
"""

import copy
import dis
import inspect
import linecache
import re
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .factor import name_factor
from .verdict import NOT_YET, RIGHT, WRONG, Hints, Verdict

TOLERANCE = 1e-9
REASON = (
    "The numbers are float64. Rounding in a few hundred operations stays below 1e-12, whatever "
    "the order of the sums; every real mistake is far above."
)
# What a line often lacks when its shapes do not fit.
ADVICE = {
    r"\.T\b": "`.T` turns round all axes, the batch too; `.mT` transposes the last two.",
    r"\b(sum|mean|max)\((?!.*keepdims)": "With `keepdims=True` its result can be broadcast again.",
}
YOUR_TURN = "The answer is still open. Write it in the cell above, run that cell, then run this one."


@dataclass(frozen=True)
class Case:
    """One set of inputs: make(rng, **sizes) returns them as a tuple."""

    name: str
    make: Callable
    sizes: dict[str, int]


@dataclass(frozen=True)
class Exercise:
    """An exercise that is answered by a function.

    reference: the right answer, by the shipped lines. outputs: the names of what it returns.
    wrong: known wrong answers, functions whose docstring is the diagnosis. hints: mildest first.
    """

    name: str
    reference: Callable
    outputs: tuple[str, ...]
    cases: tuple[Case, ...]
    wrong: tuple[Callable, ...]
    hints: tuple[str, ...]
    tolerance: float = TOLERANCE
    reason: str = REASON

    def inputs(self):
        """The inputs of each case; the same on every call."""
        return [c.make(np.random.default_rng([7, i]), **c.sizes) for i, c in enumerate(self.cases)]

    def judge(self, answer=None):
        """The Verdict on the learner's function. Never raises for what the answer does."""
        if answer is None or answer is ...:
            return self._verdict(NOT_YET, YOUR_TURN)
        if problem := self._cannot_be_called(answer):
            return self._verdict(WRONG, problem)
        inputs = self.inputs()
        given = [attempt(answer, i, self.outputs) for i in inputs]
        if any(isinstance(g, Failure) and g.unfinished for g in given):
            return self._verdict(NOT_YET, YOUR_TURN)
        expected = [attempt(self.reference, i, self.outputs) for i in inputs]
        errors = [{n: relative_error(g, e, n) for n in self.outputs} for g, e in zip(given, expected)]
        rows = self._rows(given, expected, errors)
        worst = max(error for case in errors for error in case.values())
        flaw = side_effect(answer, given, self) or wrong_precision(given, self)
        if worst <= self.tolerance and not flaw:
            text = f"Right in all {len(rows)} cases; the largest relative error is {worst:.0e}."
            return self._verdict(RIGHT, text, answer, rows)
        diagnosis = (
            flaw or self._known_mistake(given, expected, inputs) or self._observe(given, expected, errors)
        )
        return self._verdict(WRONG, diagnosis, rows=rows)

    def _verdict(self, status, diagnosis, value=None, rows=()):
        columns = ("case", *self.outputs) if rows else ()
        note = (
            "The numbers are errors relative to the largest expected number; beside them stand the shapes. "
            f"Allowed is {self.tolerance:.0e}. {self.reason}"
            if rows
            else ""
        )
        value = self.reference if value is None else value
        return Verdict(self.name, status, diagnosis, value, columns, rows, note, Hints(self.name, self.hints))

    def _rows(self, given, expected, errors):
        """One row per case: its name, and for each output the error and the shape."""

        def cell(g, e, error):
            if isinstance(g, Failure):
                return "✗ nothing"
            if g.shape != e.shape:
                return f"✗ {g.shape}, expected {e.shape}"
            number = f"{error:.0e}" if np.isfinite(error) else "not finite"
            return f"{'✓' if error <= self.tolerance else '✗'} {number}  {g.shape}"

        return tuple(
            (
                case.name,
                *(
                    cell(g if isinstance(g, Failure) else g.arrays[n], e.arrays[n], error[n])
                    for n in self.outputs
                ),
            )
            for case, g, e, error in zip(self.cases, given, expected, errors)
        )

    def _cannot_be_called(self, answer):
        wanted = inspect.signature(self.reference)
        call = f"`{self.name}({', '.join(wanted.parameters)})`"
        if not callable(answer):
            return (
                f"Expected a function, got {a_type(answer)}. Hand over the function itself, without calling "
                f"it: `check.{self.name}(my_function)`."
            )
        try:
            inspect.signature(answer).bind(*wanted.parameters)
        except TypeError:
            return f"It is called as {call}; your function does not take {len(wanted.parameters)} arguments."
        except ValueError:  # a built-in that does not tell its signature
            pass
        return ""

    def _known_mistake(self, given, expected, inputs):
        """The docstring of the wrong answer that does the same, for all outputs or else output by output."""
        runs = {wrong: [attempt(wrong, i, self.outputs) for i in inputs] for wrong in self.wrong}
        for wrong, run in runs.items():
            if same(given, run, self.outputs):
                return diagnosis_of(wrong)
        if any(isinstance(g, Failure) for g in given):
            return ""
        found = {}
        for n in self.outputs:
            if not same(given, expected, (n,)):
                match = next((w for w, run in runs.items() if same(given, run, (n,))), None)
                if match is None:
                    return ""
                found.setdefault(match, []).append(n)
        return " ".join(f"{listed(names)}: {diagnosis_of(wrong)}" for wrong, names in found.items())

    def _observe(self, given, expected, errors):
        """What can be said of a mistake that is not on the list."""
        bad = [i for i, case in enumerate(errors) if max(case.values()) > self.tolerance]
        failed = [i for i in bad if isinstance(given[i], Failure)]
        where = self._where(bad, failed)
        if failed:
            return where + given[failed[0]].text
        sentences = []
        for n in self.outputs:
            wrong = [i for i in bad if errors[i][n] > self.tolerance]
            if wrong:
                pairs = [(given[i].arrays[n], expected[i].arrays[n], self.cases[i]) for i in wrong]
                sentences.append(observe(n, pairs))
        fine = [n for n in self.outputs if all(errors[i][n] <= self.tolerance for i in bad)]
        if fine:
            sentences.append(f"{listed(fine)} {'is' if len(fine) == 1 else 'are'} right.")
        return where + " ".join(sentences)

    def _where(self, bad, failed):
        """Which cases are wrong, if some are right; or which raises, if some do not."""
        names = [case.name for case in self.cases]
        right = [name for i, name in enumerate(names) if i not in bad]
        if not right:
            return f"In the case {quoted(names[failed[0]])}: " if 0 < len(failed) < len(names) else ""
        if len(right) < len(bad):
            return f"Right only in {listed([quoted(n) for n in right])}. "
        return f"Wrong only in {listed([quoted(names[i]) for i in bad])}. "


@dataclass(frozen=True)
class Values:
    """What a function returned, by name, and which of its arguments it changed."""

    arrays: dict[str, np.ndarray]
    changed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Failure:
    """Why there is nothing to compare."""

    text: str
    kind: str
    unfinished: bool = False


def attempt(function, inputs, outputs):
    """Run the function on copies of the inputs: Values, or a Failure that says why there are none."""
    copies = copy.deepcopy(inputs)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*copies)
    except NotImplementedError:
        return Failure(YOUR_TURN, "stub", unfinished=True)
    except Exception as error:
        if isinstance(error, TypeError) and "ellipsis" in str(error):
            return Failure(YOUR_TURN, "stub", unfinished=True)
        return Failure(explain(error, function), type(error).__name__)
    if result is ... or (result is None and is_empty(function)):
        return Failure(YOUR_TURN, "stub", unfinished=True)
    if result is None:
        return Failure("It returns None. Did you forget `return`?", "None")
    found = read(result, outputs)
    if isinstance(found, Failure):
        return found
    changed = tuple(
        i for i, (a, b) in enumerate(zip(copies, inputs)) if not np.array_equal(a, b, equal_nan=True)
    )
    return Values(found, changed)


def read(result, outputs):
    """The returned object as named float arrays, or the Failure that says what was expected."""
    parts = [result] if len(outputs) == 1 else result
    if len(outputs) > 1 and not (isinstance(result, tuple | list) and len(result) == len(outputs)):
        got = f"{len(result)} values" if isinstance(result, tuple | list) else a_type(result)
        return Failure(f"Expected {len(outputs)} values, ({', '.join(outputs)}), got {got}.", "count")
    if any(part is ... for part in parts):
        return Failure(YOUR_TURN, "stub", unfinished=True)
    arrays = {}
    for name, part in zip(outputs, parts):
        if part is None:
            return Failure(f"{name} is None. Did you forget to compute or to return it?", "None")
        try:
            array = np.asarray(part)
        except Exception:
            array = None
        if array is None or array.dtype.kind not in "fiub":
            is_complex = array is not None and array.dtype.kind == "c"
            kind = f"numbers of type {array.dtype}" if is_complex else a_type(part)
            return Failure(f"{name} should be an array of real numbers, but it is {kind}.", "type")
        arrays[name] = array
    return arrays


def explain(error, function):
    """The exception in words, with the line of the learner's code in which it was raised."""
    code = getattr(function, "__code__", None)
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if code is not None and f.filename == code.co_filename]
    text = f"It raises {type(error).__name__}: {str(error).strip() or 'no message'}"
    if not own:
        return text
    line = linecache.getline(own[-1].filename, own[-1].lineno).strip()
    text = f"{text} (line {own[-1].lineno - code.co_firstlineno + 1} of your function: `{line}`)."
    advice = [words for pattern, words in ADVICE.items() if re.search(pattern, line)]
    return " ".join([text, *advice]) if isinstance(error, ValueError) else text


def is_empty(function):
    """Whether the body is only a docstring, `...`, `pass` or `return None`."""
    try:
        names = {instruction.opname for instruction in dis.get_instructions(function)}
    except TypeError:
        return False
    return names <= {"RESUME", "NOP", "LOAD_CONST", "POP_TOP", "RETURN_VALUE", "RETURN_CONST"}


def relative_error(given, expected, name):
    """max |given - expected| / max |expected|; the error itself where all expected numbers are 0.

    Infinite where there is nothing to compare, or a number is not finite.
    """
    if isinstance(given, Failure) or given.arrays[name].shape != expected.arrays[name].shape:
        return np.inf
    g, e = given.arrays[name].astype(float), expected.arrays[name]
    if not np.all(np.isfinite(g)):
        return np.inf
    return float(np.max(np.abs(g - e)) / (np.max(np.abs(e)) or 1.0))


def close(a, b, tolerance=TOLERANCE):
    """Equal shapes, and equal numbers up to rounding; NaN equals NaN."""
    if a.shape != b.shape:
        return False
    finite = np.abs(b[np.isfinite(b)])
    scale = finite.max() if finite.size and finite.max() > 0 else 1.0
    return bool(np.allclose(a, b, rtol=0, atol=tolerance * scale, equal_nan=True))


def same(runs, others, names):
    """Whether two functions did the same in all cases: the same numbers, or the same kind of failure."""

    def alike(a, b):
        if isinstance(a, Failure) or isinstance(b, Failure):
            return isinstance(a, Failure) and isinstance(b, Failure) and a.kind == b.kind
        return all(close(a.arrays[n], b.arrays[n]) for n in names)

    both = list(zip(runs, others))
    compared = any(isinstance(a, Values) and isinstance(b, Values) for a, b in both)
    return compared and all(alike(a, b) for a, b in both)


def side_effect(answer, given, exercise):
    """Names the arguments that the function changed in place."""
    changed = sorted({i for g in given if isinstance(g, Values) for i in g.changed})
    if not changed:
        return ""
    names = list(inspect.signature(exercise.reference).parameters)
    return (
        f"It changes its argument {listed([f'`{names[i]}`' for i in changed])} in place. The caller still "
        "needs it: write the result into a new array (`x = x - m`, not `x -= m`)."
    )


def wrong_precision(given, exercise):
    """Names the results that came back in less than double precision."""
    narrow = {
        n: str(g.arrays[n].dtype)
        for g in given
        if isinstance(g, Values)
        for n in exercise.outputs
        if g.arrays[n].dtype in (np.float32, np.float16)
    }
    if not narrow:
        return ""
    return (
        f"{listed(list(narrow))}: the inputs are float64, the result is "
        f"{listed(sorted(set(narrow.values())))}. Some line converts to a narrower type; a check of "
        "gradients needs all the digits."
    )


def observe(name, pairs):
    """One general observation about a wrong output; pairs are (given, expected, case), the wrong cases
    only."""
    for given, expected, case in pairs:
        if given.shape != expected.shape:
            text = (
                f"{name} has shape {given.shape}, expected {expected.shape}, in the case {quoted(case.name)}."
            )
            if given.size == expected.size and close(given.reshape(expected.shape), expected):
                return text + " The numbers are right: an axis of length 1 was kept or lost."
            if given.ndim >= 2 and close(given.swapaxes(-1, -2), expected):
                return text + " It is the transpose of the right answer."
            return text
    for given, _, case in pairs:
        if not np.all(np.isfinite(given)):
            what = "NaN" if np.any(np.isnan(given)) else "infinite numbers"
            bad = int(np.sum(~np.isfinite(given)))
            return f"{name} contains {what} ({bad} of {given.size} numbers) in the case {quoted(case.name)}."
    if all(not np.any(given) for given, _, _ in pairs):
        return f"{name} is 0 everywhere, and should not be."
    if words := constant_factor(pairs):
        return f"{name} is exactly {words}."
    square = [(g, e) for g, e, _ in pairs if g.ndim >= 2 and g.shape[-1] == g.shape[-2]]
    if square and len(square) == len(pairs) and all(close(g.swapaxes(-1, -2), e) for g, e in square):
        return f"{name} is the transpose of the right answer."
    worst = max(
        float(np.max(np.abs(g - e)) / np.max(np.abs(e))) if np.any(e) else np.inf for g, e, _ in pairs
    )
    if worst < 1e-4:
        return (
            f"{name} agrees to about {int(-np.log10(worst))} digits only. Was it computed in float32, by "
            "differences, or with another ε?"
        )
    given, expected, case = pairs[0]
    place = np.unravel_index(np.argmax(np.abs(given - expected)), given.shape)
    place = tuple(int(i) for i in place)
    return (
        f"{name} is wrong, and not by a mistake known here. The largest difference in the case "
        f"{quoted(case.name)} is at index {place}: expected {expected[place]:.6g}, got {given[place]:.6g}."
    )


def constant_factor(pairs):
    """The factor between given and expected, in words, if every wrong case is an exact multiple."""
    ratios = []
    for given, expected, _ in pairs:
        power = float(np.sum(expected * expected))
        ratio = float(np.sum(given * expected)) / power if power else 0.0
        if ratio == 0 or not close(given, ratio * expected):
            return None
        ratios.append(ratio)
    return name_factor(ratios, [case.sizes for _, _, case in pairs])


def diagnosis_of(wrong):
    return " ".join(inspect.getdoc(wrong).split())


def a_type(thing):
    name = type(thing).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} `{name}`"


def quoted(name):
    return f"“{name}”"


def listed(names):
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
