"""The function ln(1 + eˣ) at x = 1, and how far its slope is off by each way of finding it."""

import mpmath
import numpy as np

from .slopes import central_difference, complex_step, forward_difference, with_digits

WAYS = {
    "forward": forward_difference,
    "central": central_difference,
    "complex step": complex_step,
    "central, 50 digits": with_digits,
}
UNIT = 2.0**-53  # the largest relative error of one rounding in float64

with mpmath.workdps(60):
    SLOPE = 1 / (1 + mpmath.exp(-1))  # σ(1)
    THIRD = float(SLOPE * (1 - SLOPE) * (1 - 2 * SLOPE))  # σ″(1), the third derivative


def softplus(x, xp=np):
    return xp.log(1 + xp.exp(x))


def error(way, h):
    """The relative error of the slope at 1, found in one of the WAYS with the step h."""
    xp = mpmath if way.endswith("digits") else np
    with mpmath.workdps(60):
        return float(abs(WAYS[way](lambda x: softplus(x, xp), 1.0, h) / SLOPE - 1))


def bound(h):
    """The relative error that truncation and one rounding of the value allow a central difference."""
    return (h**2 / 6 * abs(THIRD) + UNIT * softplus(1.0) / h) / float(SLOPE)


BEST_STEP = (3 * UNIT * softplus(1.0) / abs(THIRD)) ** (1 / 3)
