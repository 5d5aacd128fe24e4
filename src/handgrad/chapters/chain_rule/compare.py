"""A claimed gradient, and the same by central differences, for the three layers of the gallery of checks."""

import numpy as np

from ...ops.normalization import layer_norm
from ...ops.softmax import softmax

ROWS = np.random.default_rng(4).standard_normal((3, 4))  # scores of a softmax, or tokens
LARGE = 3.0 + np.random.default_rng(5).random((3, 2))  # points whose deviations are all above 3


def by_differences(loss, x, h=1e-5):
    """The gradient of a loss at x, an entry at a time."""
    dx = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[i] = h
        dx[i] = (loss(x + moved) - loss(x - moved)) / (2 * h)
    return dx


def of_softmax(backward, dy):
    """Claimed and measured gradient (3, 4) of ⟨dy, softmax⟩."""
    measured = by_differences(lambda s: (dy * softmax(s)[0]).sum(), ROWS)
    return backward(dy, softmax(ROWS)[1]), measured


def of_norm(backward, dy, gamma):
    """Claimed and measured gradient (3, 4) of ⟨dy, LayerNorm⟩."""
    beta = np.zeros_like(gamma)
    measured = by_differences(lambda x: (dy * layer_norm(x, gamma, beta)[0]).sum(), ROWS)
    return backward(dy, layer_norm(ROWS, gamma, beta)[1])[0], measured


def of_squares(backward, dy):
    """Claimed and measured gradient (3, 2) of ⟨dy, sums of squares⟩, the centre being 0."""
    measured = by_differences(lambda x: (x**2).sum(axis=0) @ dy, LARGE)
    return backward(dy, LARGE), measured


def distance(claimed, measured):
    """Relative, by the largest entry."""
    return np.abs(claimed - measured).max() / np.abs(measured).max()


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
