"""Half precision in float64 and float32: rounding to a shorter format, and the scale of the loss."""

import numpy as np

FORMATS = {"float16": (10, -14, 15), "bfloat16": (7, -126, 127), "float32": (23, -126, 127)}
"""Bits of the fraction, least and greatest exponent of a normal number."""


def rounded(x, fraction=10, least=-14, most=15):
    """x, each entry rounded to the nearest number of the format, of two equally near to the even one."""
    _, e = np.frexp(x)  # 2**(e - 1) <= |x| < 2**e
    gap = np.ldexp(x.dtype.type(1), np.maximum(e - 1, least) - fraction)
    y = np.rint(x / gap) * gap  # rint takes the even one of two
    largest = x.dtype.type((2 - 2.0**-fraction) * 2.0**most)
    return np.where(np.abs(y) <= largest, y, np.copysign(x.dtype.type(np.inf), x))


def next_scale(scale, good, finite, interval=2000):
    """The scale of the next loss, and the number of finite steps in a row.

    Halved after a step whose gradients are not finite; doubled after `interval` finite steps in a row.
    """
    if not finite:
        return scale / 2, 0
    if good + 1 == interval:
        return scale * 2, 0
    return scale, good + 1


def lost(grads, scale):
    """The share of the gradients, 0 left aside, that float16 rounds to 0 if multiplied by `scale`."""
    g = grads[grads != 0]
    return float(np.mean(np.abs(g) * scale <= 2.0**-25))


def edges(numbers):
    """The numbers of a format, every middle between neighbours, and what lies directly beside each middle."""
    numbers = np.unique(numbers[np.isfinite(numbers)])
    half = numbers.dtype.type(0.5)
    middles = half * numbers[1:] + half * numbers[:-1]
    beside = [np.nextafter(middles, middles.dtype.type(end)) for end in (np.inf, -np.inf)]
    return np.concatenate([numbers, middles, *beside])


def all_float16():
    """The 2¹⁶ numbers of float16 as float64; some are not finite."""
    return np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)


def stays(w, delta, format):
    """Whether w + delta, rounded, is w."""
    return rounded(w + delta, *FORMATS[format]) == w
