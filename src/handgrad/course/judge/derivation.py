"""Exercises answered by a formula: right when it is equal to the reference, however it is written.

Equality is judged twice. The two expressions are evaluated to 50 digits at random points, exact fractions
from the stated domain of each symbol: this decides. Then SymPy is asked whether their difference simplifies
to 0, and the verdict says whether it could prove it. A mistake is searched for on the same points.
"""

from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import sympy

from . import formulas
from .attempt import YOUR_TURN, a_type, failure, listed
from .diagnose import diagnose, said
from .draws import Case
from .formulas import DIGITS, agree, evaluate
from .observe import UNKNOWN, name_factor, told_apart
from .repair import TRULY
from .search import Search
from .task import Task
from .verdict import NOT_YET, RIGHT, WRONG

POINTS, SHOWN = 24, 4
NEAR = 1e-4  # relative; nearer than this, a formula is said to agree to some digits
SIMPLIFY_UP_TO = 400  # operations; beyond, only the points are used
NUMERIC = {"sqrt": np.sqrt, "exp": np.exp, "log": np.log, "pi": np.pi, "Integer": lambda n: n}
NUMERIC |= {"Rational": lambda p, q=1: p / q, "S": lambda n: n}
NUMERIC |= dict.fromkeys(("sympy", "sp"), SimpleNamespace(**NUMERIC))
"""What the functions of a formula are on arrays of points."""


@dataclass(frozen=True)
class Derivation(Task):
    """A Task that is answered by a formula: a function of symbols, or a SymPy expression.

    domains: {argument: "real", "positive", "count" (1, 2, 3, ...) or "delta" (0, 1)}.
    """

    domains: dict
    seed: int = field(default=11, kw_only=True)
    _columns = ("point", "expected", "yours", "equal")
    _note = (
        f"The first {SHOWN} of {POINTS} random points. Both formulas are evaluated to {DIGITS} digits and "
        "must agree to 35."
    )

    @cached_property
    def spaces(self):
        """{symbol: name of its domain}."""
        return {sympy.Symbol(name): domain for name, domain in self.domains.items()}

    @property
    def symbols(self):
        return tuple(self.spaces)

    @cached_property
    def reference(self):
        """The right expression."""
        return sympy.sympify(self.answer(*self.symbols))

    @cached_property
    def points(self):
        """POINTS random points, symbol -> exact number; the same every time."""
        rng = np.random.default_rng(self.seed)
        return [{symbol: draw(rng, domain) for symbol, domain in self.spaces.items()} for _ in range(POINTS)]

    @cached_property
    def ends(self):
        """[(a count, a point where it is 1)], which no random point has, if the right answer has a value."""
        counts = formulas.counts(self.spaces)
        ends = [(count, point | {count: sympy.Integer(1)}) for count, point in zip(counts, self.points)]
        return [(count, point) for count, point in ends if evaluate(self.reference, point) is not None]

    @cached_property
    def search(self):
        arrays = tuple(np.array([float(p[s]) for p in self.points]) for s in self.symbols)
        return Search(self.answer, self.ideas, [Case("the points", {}, arrays)], ("the formula",), NUMERIC)

    def _judged(self, answer):
        try:
            given = self._read(answer)
            return self._verdict(NOT_YET, YOUR_TURN) if given is None else self._compare(answer, given)
        except ValueError as problem:
            return self._verdict(WRONG, str(problem))

    def _read(self, answer):
        """The expression in the exercise's own symbols, None if it is still open.

        Raises ValueError that says what was expected.
        """
        if isinstance(answer, str):
            raise ValueError(f"Expected a formula in {self._names()}, got text: leave out the quotes.")
        if is_function(answer):
            try:
                answer = answer(*self.symbols)
            except (Exception, SystemExit) as error:
                problem = failure(error, answer)
                if problem.unfinished:
                    return None
                raise ValueError(problem.text) from error
            if answer is ...:
                return None
            if answer is None:
                raise ValueError("It returns None. Did you forget `return`?")
        try:
            given = sympy.sympify(answer, strict=True)
        except (sympy.SympifyError, TypeError, AttributeError):
            given = None
        if not isinstance(given, sympy.Expr) or given.is_Matrix:
            raise ValueError(f"Expected one formula in {self._names()}, got {a_type(answer)}.")
        own = {s.name: s for s in self.symbols}
        unknown = sorted({s.name for s in given.free_symbols} - set(own))
        if unknown:
            raise ValueError(
                f"Your formula contains {listed([f'`{n}`' for n in unknown])}. The answer is expected in "
                f"{self._names()}, and in nothing else."
            )
        given = given.xreplace({s: own[s.name] for s in given.free_symbols})
        try:
            return (sympy.nsimplify(given, rational=True) if given.has(sympy.Float) else given).doit()
        except Exception as error:
            raise ValueError(f"SymPy cannot work out your formula: {error}") from error

    def _names(self):
        return listed([f"`{s}`" for s in self.symbols])

    def _compare(self, answer, given):
        right = [evaluate(self.reference, p) for p in self.points]
        mine = [evaluate(given, p) for p in self.points]
        equal = [agree(m, r) for m, r in zip(mine, right)]
        rows = tuple(
            (", ".join(f"{s} = {float(v):.4g}" for s, v in p.items()), *shown(r, m), "✓" if e else "✗")
            for p, r, m, e in list(zip(self.points, right, mine, equal))[:SHOWN]
        )
        if all(equal) and (wrong := self._wrong_end(given)):
            return self._verdict(WRONG, wrong, rows=rows)
        if all(equal):
            value = answer if is_function(answer) else sympy.Lambda(self.symbols, given)
            return self._verdict(RIGHT, self._proof(given), value=value, rows=rows)
        numbers = np.array([np.nan if m is None else float(m) for m in mine])
        values = [{"the formula": numbers}]
        found = diagnose(answer, self.search, values)
        certain = found and found.where.endswith(TRULY)
        told = self.search.told(values)
        observed = self._observe(given, mine, right, equal)
        exact = ""
        if UNKNOWN in observed and not (certain or told):
            exact = formulas.fact(given, self.reference, self.points, self.spaces)
        if exact and not exact.startswith(formulas.COMPARED) and found and "Besides" in found.kind:
            found = None  # a guess of two parts, where one thing is known
        missing = sorted(f"`{s}`" for s in self.reference.free_symbols - given.free_symbols)
        if missing and given != 0 and None not in mine and not told:
            text = f"It does not depend on {listed(missing)}, and it should."
            text += f" {said(found)}" if found else ""
        elif found:
            text = f"{exact} {said(found)}".strip().replace("One array stands", "One symbol stands")
        else:
            text = exact or observed
        return self._verdict(WRONG, text, found=found, rows=rows)

    def _wrong_end(self, given):
        """Where a count is 1 and the formula has another value than the right one, in a sentence; or ""."""
        for count, point in self.ends:
            mine, right = evaluate(given, point), evaluate(self.reference, point)
            if mine is not None and not agree(mine, right):
                wanted, got = shown(right, mine)
                return (
                    f"Equal to the reference at {POINTS} random points, but not where {count} is 1: at one "
                    f"such point the right answer is {wanted}, yours {got}."
                )
        return ""

    def _proof(self, given):
        difference = given - self.reference
        if difference.count_ops() <= SIMPLIFY_UP_TO and sympy.simplify(difference) == 0:
            return "SymPy proves it equal to the reference."
        return f"Equal to the reference at {POINTS} random points, to 35 digits."

    def _observe(self, given, mine, right, equal):
        """What can be said of a mistake that was not found."""
        if any(m is None for m in mine):
            return (
                "At some points your formula has no real value: it divides by 0, or takes the root of a "
                "negative number."
            )
        if given == 0:
            return "It is 0, and should not be."
        nonzero = [i for i, r in enumerate(right) if r != 0]
        sizes = [{s.name: float(v) for s, v in self.points[i].items()} for i in nonzero]
        zeros = all(equal[i] for i in range(len(right)) if right[i] == 0)
        if zeros and (words := name_factor([float(mine[i] / right[i]) for i in nonzero], sizes)):
            return f"It is exactly {words}."
        apart = max(abs(m - r) / abs(r) if r else 1 for m, r in zip(mine, right))
        if apart < NEAR:
            digits = int(-sympy.log(apart, 10))
            return f"It agrees to about {digits} digits only. Is a number in it rounded?"
        for s in (s for s, domain in self.spaces.items() if domain == "delta"):
            values = {v for v in (0, 1) if all(e for e, p in zip(equal, self.points) if p[s] == v)}
            if values:
                return f"It is right where {s} = {values.pop()}, and wrong where it is not."
        return f"It is not equal to the right answer, and {UNKNOWN}. Compare the values below."


def is_function(answer):
    """Whether the formula is a function of symbols; otherwise it is an expression."""
    return callable(answer) and not isinstance(answer, sympy.Basic)


def draw(rng, domain):
    """An exact number from the domain, away from 0 where 0 is special."""
    if domain == "count":
        return sympy.Integer(int(rng.integers(2, 12)))
    if domain == "delta":
        return sympy.Integer(int(rng.integers(0, 2)))
    size = sympy.Rational(int(rng.integers(2 * 10**8, 2 * 10**9)), 10**9)  # 0.2 to 2
    return size if domain == "positive" or rng.integers(0, 2) else -size


def shown(right, mine):
    """Both values as text."""
    return (f"{float(right):.6g}", "no real value") if mine is None else told_apart(right, mine)
