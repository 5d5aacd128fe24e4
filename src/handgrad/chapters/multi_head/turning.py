"""Three heads of width 2 and six keys, the query of head 0 turned: what the figure that moves shows."""

import numpy as np

from ...ops import attention, merge_heads, softmax_backward, split_heads

_rng = np.random.default_rng(8)
KEYS = 1.5 * _rng.standard_normal((1, 3, 6, 2))  # (B, H, S, K)
VALUES = _rng.standard_normal((1, 3, 6, 2))
QUERIES = _rng.standard_normal((2, 2))  # of heads 1 and 2
W_O, TARGET = 0.7 * _rng.standard_normal((6, 2)), np.array([0.5, -0.5])


def answers(angle, dy=None):
    """Weights (H, S), what the scores receive (H, S), and dy (2,), for head 0 turned to `angle` degrees.

    dy: y minus TARGET if None, the gradient of half the square of that.
    """
    turned = 1.5 * np.array([[np.cos(np.radians(angle)), np.sin(np.radians(angle))]])
    o, look = attention(np.concatenate([turned, QUERIES])[None, :, None], KEYS, VALUES)
    dy = merge_heads(o)[0][0, 0] @ W_O - TARGET if dy is None else dy
    do, _ = split_heads((dy @ W_O.T)[None, None], 3)  # (1, 3, 1, 2)
    ds = softmax_backward(do @ VALUES.mT, look["normalised"])
    return look["a"][0, :, 0], ds[0, :, 0], dy
