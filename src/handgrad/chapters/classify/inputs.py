"""What the exercises of chapter 18 draw, where no common word says it."""

import numpy as np


def real_tokens(rng, shape):
    """False at padding, which may stand anywhere. Each sequence has padding if it is longer than 2."""
    real, rows, S = rng.random(shape) < 0.6, np.arange(shape[0]), shape[1]
    place = rng.integers(S, size=shape[0])
    real[rows, place] = real[rows, place - 2] = True
    real[rows, place - 1] = S < 3
    return real


def counted_calls(rng, shape):
    """A confusion matrix: counts, some rows and columns of which are 0; one language stands in neither."""
    counts = rng.integers(0, 6, shape) + np.diag(rng.integers(0, 9, shape[0]))
    if shape[0] > 3:
        counts[:, 1] = 0
        counts[2] = 0
        counts[3], counts[:, 3] = 0, 0
    if shape[0] > 5:
        counts[:, 4] = 0
        counts[5, 5], counts[5, 0], counts[0, 5] = 0, 3, 2
    return counts


def some_known(rng, shape):
    """True where an answer is known: some in each column, not all."""
    known = rng.random(shape) < 0.6
    known.flat[0], known.flat[-1] = True, known.size == 1
    return known
