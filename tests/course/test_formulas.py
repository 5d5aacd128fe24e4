"""What a wrong formula is said to be in terms of the right one is true, and nothing is said of others."""

import pytest
import sympy

from handgrad.course.judge import Derivation, formulas

x, y, n = (sympy.Symbol(name) for name in "xyn")
COUNT = "It is right where `n` is 1, and only there: is something done once that should be done `n` times?"


def said(given, right):
    """The fact that is told of the formula."""
    domains = dict(x="positive", y="real", n="count")
    exercise = Derivation(lambda x, y, n: right, domains, ideas=(), hints=(), asks="")
    return formulas.fact(sympy.sympify(given), right, exercise.points, exercise.spaces)


@pytest.mark.parametrize(
    ("given", "right", "fact"),
    [
        (1 + x + y**2 + x * y, (1 + x) * (1 + y**2) * (1 + x * y), "What should be multiplied is added."),
        (n * (2 - x), (2 - x) ** n, "What should be multiplied is added."),
        (x * y**3 * n, x + y**3 + n, "What should be added is multiplied."),
        (x**n / sympy.sqrt(1 + y**2), (x / sympy.sqrt(1 + y**2)) ** n, COUNT),
        (3 * x * n, 3 * (x * n) ** sympy.Rational(1, 3), "`x` has the power 1, and should have 1/3"),
        (sympy.exp(x) * y + 3 * n, sympy.exp(x) * y, "It is the right one plus `3*n`."),
        ((1 + x) * y / (n + y**2), y / (n + y**2), "It is the right one times `x + 1`."),
        (n / sympy.sqrt(1 + x**2), (x / sympy.sqrt(1 + x**2)) ** n, "Where `n` is 1: "),
        (sympy.sin(x + 3) * sympy.exp(y**2) + n, x**2 + y / (x + y**2), ""),
        (sympy.cos(x * y) ** 3 + sympy.log(x + 2) * n, sympy.exp(x) / (1 + y**2), ""),
    ],
)
def test_a_fact_is_told_and_of_another_formula_none(given, right, fact):
    assert fact in said(given, right) and bool(fact) == bool(said(given, right))
