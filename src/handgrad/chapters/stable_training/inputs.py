"""What the exercises of chapter 14 draw, where no common word says it."""

import numpy as np


def different(rng, shape):
    """Counts that all differ."""
    return 1.0 + 3 * rng.permutation(*shape)


def rows_of_weights(rng, shape):
    """Rows that are positive and add up to 1."""
    a = np.exp(rng.normal(size=shape))
    return a / a.sum(axis=-1, keepdims=True)


def some_of_each_row(rng, shape):
    """Booleans; of every row something is kept, and something dropped."""
    keep = rng.random(shape) < 0.6
    keep[~keep.any(axis=-1), 0] = True
    keep[keep.all(axis=-1), -1] = False
    return keep


def spread_out(rng, shape):
    """Sizes from 2^-40 to 1, with signs; the middle entry is 0 if there are three."""
    g = rng.choice([-1.0, 1.0], shape) * 2.0 ** rng.uniform(-40, 0, shape)
    g.flat[1] = 0.0
    return g


def with_ends(least, largest):
    """The same with a given least size, negative, and a given largest."""

    def change(g):
        g = np.clip(g, -largest / 2, largest / 2)
        g = np.where((np.abs(g) < 4 * least) & (g != 0), 4 * least, g)
        g.flat[0], g.flat[-1] = -least, largest
        return g

    return change
