"""What the figures of chapter 01 show: a loss and its stand-in, and what comes back from ones."""

import numpy as np

from ...ops.normalization import layer_norm, layer_norm_backward
from ...ops.softmax import softmax, softmax_backward


def above(y):
    """A loss of two outputs (..., 2), made up: ln(2 + sin(y₀/4) + (y₁/10)²)."""
    return np.log(2 + np.sin(y[..., 0] / 4) + (y[..., 1] / 10) ** 2)


def gradient_above(y):
    """Its derivatives by the two outputs (2,)."""
    inside = 2 + np.sin(y[0] / 4) + (y[1] / 10) ** 2
    return np.array([np.cos(y[0] / 4) / 4, y[1] / 50]) / inside


def sliding(points, centre, first):
    """The outputs (n, 2) of the sums of squares when the first coordinate of point 0 has the values (n,)."""
    moved = np.repeat(points[None].astype(float), len(first), axis=0)  # (n, T, 2)
    moved[:, 0, 0] = first
    return ((moved - centre) ** 2).sum(axis=1)


SCORES = np.array([0.3, -1.1, 0.8, 1.6, -0.4])
DRAWN = np.array([-1.2, 0.4, 1.5, -0.6, 0.9])


def returned(share):
    """What arrives, ones by that share, and what comes back: (5,), {layer: (5,)}."""
    arriving = (1 - share) * DRAWN + share * np.ones(5)
    _, of_softmax = softmax(SCORES)
    _, of_norm = layer_norm(SCORES, gamma=np.ones(5), beta=np.zeros(5))
    norm_dx, _, _ = layer_norm_backward(arriving, of_norm)
    return arriving, {"softmax": softmax_backward(arriving, of_softmax), "LayerNorm": norm_dx}
