"""Four ways to find the slope of a function of one number from its values alone."""

import mpmath


def forward_difference(f, x, h):
    return (f(x + h) - f(x)) / h


def central_difference(f, x, h):
    return (f(x + h) - f(x - h)) / (2 * h)


def complex_step(f, x, h):
    return f(x + 1j * h).imag / h  # no difference is taken


def with_digits(f, x, h, digits=50):
    with mpmath.workdps(digits):
        return central_difference(f, mpmath.mpf(x), mpmath.mpf(h))
