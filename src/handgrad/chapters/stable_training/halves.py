"""Rounding to formats that are shorter than NumPy's."""

import numpy as np


def rounded(x, n=7, least=-126):
    """x, each entry rounded to n bits of fraction, of two equally near numbers to the even one.

    least: the least exponent. 7, -126 is bfloat16 and 10, -14 float16; what lies beyond their largest number
    is not made infinite.
    """
    _, e = np.frexp(x)  # 2**(e - 1) <= |x| < 2**e
    h = np.ldexp(x.dtype.type(1), np.maximum(e - 1, least) - n)
    return np.rint(x / h) * h
