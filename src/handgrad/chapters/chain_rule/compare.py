"""A claimed gradient, and the same by central differences, for the three layers of the gallery of checks."""

import numpy as np

from ...check import measured
from ...ops.normalization import layer_norm
from ...ops.softmax import softmax

ROWS = np.random.default_rng(4).standard_normal((3, 4))  # scores of a softmax, or tokens
LARGE = 3.0 + np.random.default_rng(5).random((3, 2))  # points whose deviations are all above 3


def of_softmax(backward, dy):
    """Claimed and measured gradient (3, 4) of ⟨dy, softmax⟩."""
    true = measured(lambda s: (dy * softmax(s)[0]).sum(), ROWS)
    return backward(dy, softmax(ROWS)[1]), true


def of_norm(backward, dy, gamma):
    """Claimed and measured gradient (3, 4) of ⟨dy, LayerNorm⟩."""
    beta = np.zeros_like(gamma)
    true = measured(lambda x: (dy * layer_norm(x, gamma, beta)[0]).sum(), ROWS)
    return backward(dy, layer_norm(ROWS, gamma, beta)[1])[0], true


def of_squares(backward, dy):
    """Claimed and measured gradient (3, 2) of ⟨dy, sums of squares⟩, the centre being 0."""
    true = measured(lambda x: (x**2).sum(axis=0) @ dy, LARGE)
    return backward(dy, LARGE), true


def distance(claimed, true):
    """Relative, by the largest entry."""
    return np.abs(claimed - true).max() / np.abs(true).max()


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
