"""Wrong gradients: of softmax, as operations that a witness is given, and of LayerNorm and the squares."""

from dataclasses import replace

import numpy as np

from ...algebra import namespace
from ...ops.normalization import layer_norm_backward
from ...ops.softmax import softmax, softmax_backward
from ...ops.table import OPS


def zeros(da, cache):
    return 0 * da


def twice(da, cache):
    return 2 * softmax_backward(da, cache)


def a_little_long(da, cache):
    return (1 + 1e-9) * softmax_backward(da, cache)


def forgets_in_long_rows(da, cache):
    return cache["a"] * da if da.shape[-1] > 100 else softmax_backward(da, cache)


def gives_up(da, cache):
    xp = namespace(da)
    return xp.where(xp.greater(cache["a"], 0.999), 0 * da, softmax_backward(da, cache))


def doubled(s):
    return softmax(2 * s)


RIGHT = OPS["softmax"]
SPOILT = {
    "zeros": replace(RIGHT, backward=zeros),
    "a part in 10⁹": replace(RIGHT, backward=a_little_long),
    "rows beyond 100": replace(RIGHT, backward=forgets_in_long_rows),
    "above 0.999": replace(RIGHT, backward=gives_up),
    "another forward": replace(RIGHT, forward=doubled, backward=twice),
}
"""Softmax with a fault, by its name. The last is the right derivative of the wrong forward."""


def norm_dx(dy, cache):
    """The right dx of LayerNorm."""
    return layer_norm_backward(dy, cache)[0]


def gamma_last(dy, cache):
    """γ is multiplied after the means, not before them."""
    return cache["gamma"] * norm_dx(dy, cache | {"gamma": np.ones_like(cache["gamma"])})


def squares_dx(dy, u):
    """The right dx of the sums of squares."""
    return 2 * u * dy


def twice_squares_dx(dy, u):
    return 4 * u * dy


def objects(check, given):
    """Whether a check refuses what it is given."""
    try:
        check(given)
    except AssertionError:
        return True
    return False


def torch_zeros(scale):
    """Softmax times a scale as a function of PyTorch, with a backward that returns zeros."""
    import torch

    class Zeros(torch.autograd.Function):
        @staticmethod
        def forward(ctx, s):
            return scale * torch.softmax(s, dim=-1)

        @staticmethod
        def backward(ctx, da):
            return 0 * da

    return Zeros.apply
