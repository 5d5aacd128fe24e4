"""The value of a formula, and what a wrong one is in terms of the right one, as a fact: sums for products,
powers, ratio, difference.

All but the last two are found by numbers, on exact points; those two are what SymPy makes of them.
"""

import sympy

from .attempt import listed

DIGITS = 50
AGREE = sympy.Float("1e-35", DIGITS)  # relative; 15 of the 50 digits are left to cancellation
SHORT = 12
"""A ratio or a difference of more operations says nothing."""
COMPARED = "It is the right one"
"""How a ratio or a difference is told: it does not say what is wrong."""
LONG = 60
"""What has more operations is not simplified: it would take seconds."""


def evaluate(expression, point):
    """The real value at the point, to DIGITS digits, or None where there is none."""
    try:
        value = expression.xreplace(point).evalf(DIGITS)
    except Exception as error:
        raise ValueError(f"SymPy cannot evaluate your formula: {error}") from error
    if not value.is_number:
        raise ValueError(f"Your formula has no number as its value: it still holds `{value}`.")
    return value if value.is_Float or value.is_Rational else None


def agree(a, b):
    """Equal up to rounding at DIGITS digits. No value agrees with no value."""
    if a is None or b is None:
        return a is b
    return bool(abs(a - b) <= AGREE * max(abs(a), abs(b)))


def equal(one, other, points):
    """Whether two formulas have the same values at these points."""
    return all(agree(evaluate(one, p), evaluate(other, p)) for p in points)


def fact(given, right, points, domains):
    """A sentence on the formula `given`, or "".

    points: [{symbol: number}]. domains: {symbol: name of its domain}.
    """
    ways = (interchanged, at_one, powers, compared, at_one_compared)
    return next(filter(None, (way(given, right, points, domains) for way in ways)), "")


def interchanged(given, right, points, domains):
    """Factors that are added, or terms that are multiplied."""
    factors = [part.as_base_exp() for part in sympy.Mul.make_args(right)]
    factors = [
        (base, power) if power.is_Symbol or power.is_Integer else (base**power, 1) for base, power in factors
    ]
    terms = sympy.Add.make_args(right)
    added = [
        sympy.Add(*(power * base for base, power in factors)),
        1 + sympy.Add(*(power * (base - 1) for base, power in factors)),
    ]
    if any(equal(given, one, points) for one in added if len(factors) > 1 or factors[0][1] != 1):
        return "What should be multiplied is added."
    if len(terms) > 1 and equal(given, sympy.Mul(*terms), points):
        return "What should be added is multiplied."
    return ""


def at_one(given, right, points, domains):
    """A formula that is right where a count is 1."""
    for count in counts(domains):
        ends = [point | {count: sympy.Integer(1)} for point in points]
        depends_on = sympy.simplify(given / right).free_symbols
        if equal(given, right, ends) and depends_on != {count}:
            return (
                f"It is right where `{count}` is 1, and only there: is something done once that "
                f"should be done `{count}` times?"
            )
    return ""


def at_one_compared(given, right, points, domains):
    """The ratio of the two formulas, or their difference, where a count is 1."""
    for count in counts(domains):
        one, other = (formula.subs(count, 1) for formula in (given, right))
        if words := compared(one, other, points, domains):
            return f"Where `{count}` is 1: {words} Elsewhere something else is wrong, too."
    return ""


def counts(domains):
    """The symbols that are counts."""
    return [symbol for symbol, domain in domains.items() if domain == "count"]


def powers(given, right, points, domains):
    """The powers of symbols, if both formulas are products of powers."""
    wrong = []
    for symbol in domains:
        mine, theirs = (power(formula, symbol, points) for formula in (given, right))
        if mine is None or theirs is None:
            return ""
        if mine != theirs:
            wrong.append(f"`{symbol}` has the power {mine}, and should have {theirs}")
    return f"A power is wrong: {listed(wrong)}." if wrong else ""


def power(formula, symbol, points):
    """The power of a symbol in a product of powers; None if it is none."""
    point = points[0]
    values = [formula.xreplace(point | {symbol: factor * point[symbol]}).evalf(30) for factor in (1, 2)]
    if not all(value.is_Float and value for value in values) or values[1] / values[0] <= 0:
        return None
    found = sympy.nsimplify(sympy.log(values[1] / values[0], 2).evalf(30), rational=True, tolerance=1e-20)
    scaled = formula.xreplace({symbol: 3 * symbol})
    return found if abs(found.q) <= 12 and equal(scaled, 3**found * formula, points) else None


def compared(given, right, points, domains):
    """The ratio of the two formulas, or their difference, if it is short."""
    if given.count_ops() + right.count_ops() > LONG:
        return ""
    own = {s: sympy.Symbol(s.name, **ASSUMED[domain]) for s, domain in domains.items()}
    given, right = given.xreplace(own), right.xreplace(own)
    found = [
        (sympy.factor(sympy.simplify(made)), words)
        for made, words in ((given / right, "times"), (given - right, "plus"))
    ]
    made, words = min(found, key=lambda one: one[0].count_ops())
    if made.count_ops() > min(SHORT, right.count_ops()):
        return ""
    return f"{COMPARED} {words} `{made}`."


ASSUMED = {
    "positive": {"positive": True},
    "count": {"positive": True, "integer": True},
    "real": {"real": True},
    "delta": {"integer": True, "nonnegative": True},
}
"""What SymPy is told of the symbols of a domain."""
