"""What the exercises of chapter 17 draw, where no common word says it."""

import numpy as np


def some(rng, shape):
    """True and False, True in each row, both of them where there are two or more."""
    on = rng.random(shape) < 0.6
    on[..., -1] = True
    if on.shape[-1] > 1:
        on[..., 0] = False
    return on


def characters(rng, shape):
    """Characters of which one occurs twice where there are two places; below 3, the smallest vocabulary."""
    drawn = rng.integers(0, 3, shape)
    drawn[..., -1] = drawn[..., 0]
    return drawn


def large_at_first(z):
    """Logits of which those in the first place of each row are some thousands."""
    return z + 3000 * (np.arange(z.shape[1]) == 0)[:, None]


def near_certain(rng, shape):
    """Logits, and in the first place of each row the first character nearly certain."""
    z = rng.normal(size=shape)
    z[:, 0, 0] += 40
    return z


def first_at_first(rng, shape):
    """Characters, the first of them in the first place of each row."""
    drawn = characters(rng, shape)
    drawn[:, 0] = 0
    return drawn


def spread(rng, shape):
    """Logits of which some are far below the largest. In the first place of each row all are kept."""
    z = rng.normal(0, 2, shape)
    z[:, 0] = 0.1 * z[:, 0]
    return z
