"""Exercises answered by a SymPy expression: right when it is equal to the reference, however it is written.

Equality is judged twice. The two expressions are evaluated to 50 digits at random points, exact fractions
from the stated domain of each symbol: this decides. Then SymPy is asked whether their difference simplifies
to 0, and the verdict says whether it could prove it.
"""

from dataclasses import dataclass

import numpy as np
import sympy

from .factor import name_factor
from .function import YOUR_TURN, a_type, listed
from .verdict import NOT_YET, RIGHT, WRONG, Hints, Verdict

POINTS = 24
DIGITS = 50
AGREE = sympy.Float("1e-35", DIGITS)  # relative; 15 of the 50 digits are left to cancellation
SIMPLIFY_UP_TO = 400  # operations; beyond, only the points are used


@dataclass(frozen=True)
class Derivation:
    """An exercise that is answered by one SymPy expression.

    symbols: each symbol of the answer -> its domain: "real", "positive", "count" (2, 3, ...), "delta" (0, 1).
    wrong: pairs (expression, diagnosis). hints: mildest first.
    """

    name: str
    reference: sympy.Expr
    symbols: dict[sympy.Symbol, str]
    wrong: tuple[tuple[sympy.Expr, str], ...]
    hints: tuple[str, ...]

    def points(self):
        """POINTS random points, symbol -> exact number; the same on every call."""
        rng = np.random.default_rng(11)
        return [{s: draw(rng, domain) for s, domain in self.symbols.items()} for _ in range(POINTS)]

    def judge(self, answer=None):
        """The Verdict on the learner's expression. Never raises for what the answer is."""
        if answer is None or answer is ...:
            return self._verdict(NOT_YET, YOUR_TURN)
        try:
            given = self._read(answer)
            return self._compare(answer, given)
        except ValueError as problem:
            return self._verdict(WRONG, str(problem))

    def _read(self, answer):
        """The expression in the exercise's own symbols. Raises ValueError that says what was expected."""
        if isinstance(answer, str):
            raise ValueError(
                f"Expected a SymPy expression in {self._names()}, got text: leave out the quotes."
            )
        try:
            given = sympy.sympify(answer, strict=True)
        except (sympy.SympifyError, TypeError, AttributeError):
            given = None
        if not isinstance(given, sympy.Expr) or given.is_Matrix:
            raise ValueError(f"Expected one SymPy expression in {self._names()}, got {a_type(answer)}.")
        own = {s.name: s for s in self.symbols}
        unknown = sorted({s.name for s in given.free_symbols} - set(own))
        if unknown:
            raise ValueError(
                f"Your expression contains {listed([f'`{n}`' for n in unknown])}. The answer is expected in "
                f"{self._names()}, and in nothing else."
            )
        given = given.xreplace({s: own[s.name] for s in given.free_symbols})
        try:
            return (sympy.nsimplify(given, rational=True) if given.has(sympy.Float) else given).doit()
        except Exception as error:
            raise ValueError(f"SymPy cannot work out your expression: {error}") from error

    def _names(self):
        return listed([f"`{s}`" for s in self.symbols])

    def _compare(self, answer, given):
        points = self.points()
        right = [evaluate(self.reference, p) for p in points]
        mine = [evaluate(given, p) for p in points]
        equal = [agree(m, r) for m, r in zip(mine, right)]
        rows = tuple(
            (
                ", ".join(f"{s} = {float(v):.4g}" for s, v in p.items()),
                f"{float(r):.6g}",
                readable(m),
                "✓" if e else "✗",
            )
            for p, r, m, e in list(zip(points, right, mine, equal))[:4]
        )
        if all(equal):
            return self._verdict(RIGHT, self._proof(given), answer, rows)
        return self._verdict(WRONG, self._diagnose(given, points, mine, right, equal), rows=rows)

    def _proof(self, given):
        difference = given - self.reference
        if difference.count_ops() <= SIMPLIFY_UP_TO and sympy.simplify(difference) == 0:
            return "SymPy proves it equal to the reference."
        return f"Equal to the reference at {POINTS} random points, to 35 digits."

    def _diagnose(self, given, points, mine, right, equal):
        for wrong, diagnosis in self.wrong:
            if all(agree(m, evaluate(wrong, p)) for m, p in zip(mine, points)):
                return diagnosis
        if any(m is None for m in mine):
            return (
                "At some points your expression has no real value: it divides by 0, or takes the root of a "
                "negative number."
            )
        if given == 0:
            return "It is 0, and should not be."
        nonzero = [i for i, r in enumerate(right) if r != 0]
        sizes = [{s.name: float(v) for s, v in points[i].items()} for i in nonzero]
        zeros = all(equal[i] for i in range(len(right)) if right[i] == 0)
        if zeros and (words := name_factor([float(mine[i] / right[i]) for i in nonzero], sizes)):
            return f"It is exactly {words}."
        for s in (s for s, domain in self.symbols.items() if domain == "delta"):
            values = {v for v in (0, 1) if all(e for e, p in zip(equal, points) if p[s] == v)}
            if values:
                return f"It is right where {s} = {values.pop()}, and wrong where it is not."
        missing = self.reference.free_symbols - given.free_symbols
        if missing:
            names = listed(sorted(f"`{s}`" for s in missing))
            return f"It does not depend on {names}, and it should."
        return (
            "It is not equal to the right answer, and not by a mistake known here. Compare the values below."
        )

    def _verdict(self, status, diagnosis, value=None, rows=()):
        value = self.reference if value is None else value
        note = (
            f"The first {len(rows)} of {POINTS} random points. Both expressions are evaluated to {DIGITS} "
            "digits and must agree to 35."
        )
        columns = ("point", "expected", "yours", "equal") if rows else ()
        hints = Hints(self.name, self.hints)
        return Verdict(self.name, status, diagnosis, value, columns, rows, note if rows else "", hints)


def draw(rng, domain):
    """An exact number from the domain, away from 0 where 0 is special."""
    if domain == "count":
        return sympy.Integer(int(rng.integers(2, 12)))
    if domain == "delta":
        return sympy.Integer(int(rng.integers(0, 2)))
    size = sympy.Rational(int(rng.integers(2 * 10**8, 2 * 10**9)), 10**9)  # 0.2 to 2
    return size if domain == "positive" or rng.integers(0, 2) else -size


def evaluate(expression, point):
    """The real value at the point, to DIGITS digits, or None where there is none."""
    try:
        value = expression.xreplace(point).evalf(DIGITS)
    except Exception as error:
        raise ValueError(f"SymPy cannot evaluate your expression: {error}") from error
    if not value.is_number:
        raise ValueError(f"Your expression has no number as its value: it still holds `{value}`.")
    return value if value.is_Float or value.is_Rational else None


def agree(a, b):
    """Equal up to rounding at DIGITS digits. No value agrees with no value."""
    if a is None or b is None:
        return a is b
    return bool(abs(a - b) <= AGREE * max(abs(a), abs(b)))


def readable(value):
    return "no real value" if value is None else f"{float(value):.6g}"
