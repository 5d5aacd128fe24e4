"""What the exercises of chapter 02 draw, where no common word says it."""

import numpy as np


def high_once(z):
    """The same logits, and at one position 1000 more."""
    z[0, 0] += 1000.0
    return z


def with_padding(rng, shape):
    """Right tokens, and -100 at every third position, from another one on in each sequence."""
    targets = rng.integers(shape[-1], size=shape[:-1])
    b, t = np.ogrid[: shape[0], : shape[1]]
    return np.where((b + t) % 3 == 2, -100, targets)
