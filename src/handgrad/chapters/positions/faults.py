"""Wrong backwards of rotary positions, and what three tests say about them."""

import numpy as np

from ...ops.positions import rotary, rotary_angles, rotary_backward


def by_halves(dy, cache):
    """Turned back, but with the pairs (i, i + K/2) where the forward has (2i, 2i + 1)."""
    order = np.arange(dy.shape[-1]).reshape(2, -1).T.ravel()
    dx = np.empty_like(dy)
    dx[..., order] = rotary_backward(dy[..., order], cache)
    return dx


def errors(backward, T, K=8):
    """How far ‖dx‖ is from ‖dy‖, and dx from central differences along a random direction; both relative."""
    x, dy, step = np.random.default_rng(T).standard_normal((3, 2, T, K))
    angles = rotary_angles(T, K)

    def loss(x):
        return (dy * rotary(x, angles)[0]).sum()

    measured = (loss(x + 1e-5 * step) - loss(x - 1e-5 * step)) / 2e-5
    dx = backward(dy, rotary(x, angles)[1])
    length = abs(np.linalg.norm(dx) / np.linalg.norm(dy) - 1)
    return length, abs((dx * step).sum() - measured) / np.linalg.norm(dx * step)
