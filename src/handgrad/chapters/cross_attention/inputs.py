"""What the exercises of chapter 11 draw, where no common word says it."""

import numpy as np


def real_tokens(rng, shape):
    """False at padding, which may stand anywhere. Each sequence has padding, and two tokens if S > 2."""
    real, rows, S = rng.random(shape) < 0.6, np.arange(shape[0]), shape[1]
    place = (1 + rng.integers(S, size=shape[0])) % S
    real[rows, place - 2] = S > 2
    real[rows, place] = True
    real[rows, place - 1] = False
    return real


def rows_with_zeros(rng, shape):
    """Weights, some of them exactly 0, as behind a mask."""
    seen = rng.random(shape) < 0.8
    seen[..., :2] = True
    e = np.where(seen, np.exp(rng.normal(0, 1.2, shape)), 0.0)
    return e / e.sum(axis=-1, keepdims=True)
