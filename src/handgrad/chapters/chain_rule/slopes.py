"""The slope of ln(1 + eˣ) at x = 1 in four ways, and how far each is off."""

import mpmath
import numpy as np

WAYS = {
    "forward": lambda f, x, h: (f(x + h) - f(x)) / h,
    "central": lambda f, x, h: (f(x + h) - f(x - h)) / (2 * h),
    "complex step": lambda f, x, h: f(x + 1j * h).imag / h,  # no difference is taken
}
UNIT = 2.0**-53  # the largest relative error of one rounding in float64
VALUE = float(np.log1p(np.e))
with mpmath.workdps(60):
    SLOPE = 1 / (1 + mpmath.exp(-1))  # σ(1)
THIRD = float(SLOPE * (1 - SLOPE) * (1 - 2 * SLOPE))  # σ″(1), the third derivative
BEST_STEP = (3 * UNIT * VALUE / abs(THIRD)) ** (1 / 3)


def error(way, h, digits=15):
    """The relative error of the slope at 1, found in one of the WAYS with the step h and so many digits."""
    xp, number = (mpmath, mpmath.mpf) if digits > 15 else (np, float)
    with mpmath.workdps(digits):
        found = WAYS[way](lambda x: xp.log(1 + xp.exp(x)), number(1), number(h))
    with mpmath.workdps(60):
        return float(abs(found / SLOPE - 1))


def bound(h):
    """The relative error that truncation and one rounding of the value allow a central difference."""
    return (h**2 / 6 * abs(THIRD) + UNIT * VALUE / h) / float(SLOPE)
