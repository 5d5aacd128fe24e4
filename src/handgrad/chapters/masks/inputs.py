"""What the exercises of chapter 09 draw, where no common word says it."""

import numpy as np


def documents(rng, shape):
    """Rows (B, T) of numbers of documents, not in order, and 0 for padding, behind or before them."""
    B, T = shape
    rows = []
    for b in range(B):
        padding = min((b + 1) % 3, T - 1)
        cuts = np.sort(rng.integers(0, T - padding + 1, 2)) if T > 3 else [1, T]
        parts = np.searchsorted(cuts, np.arange(T - padding), side="right")
        numbers = rng.permutation(np.arange(1, 4))[parts]
        rows.append(np.pad(numbers, (0, padding) if b % 2 else (padding, 0)))
    return np.array(rows)


def visible(rng, shape):
    """A mask (S, S) that allows four entries of ten, but query 0 nothing behind itself."""
    allowed = rng.random(shape) < 0.4
    allowed[0, 1:] = False
    return allowed


def influences(rng, shape):
    """Derivatives (B, S, S), half of them 0, of either sign, one in ten tiny; one at the end of row 0."""
    size = np.where(rng.random(shape) < 0.1, 1e-15, 1.0)
    found = rng.normal(size=shape) * size * (rng.random(shape) < 0.5)
    found[0, 0, -1] = -0.7
    return found


def with_a_blind_query(allowed):
    allowed[:, 1] = False
    return allowed


def before(rng, shape):
    """Each query sees the position before it, and not itself."""
    return np.eye(shape[0], k=-1) > 0


def band(rng, shape):
    """A window of two: each query sees itself and the position before."""
    return (np.eye(shape[0]) + np.eye(shape[0], k=-1)) > 0


def sixteen_together(rng, shape):
    """Sixteen tokens that all see each other, and one that sees itself and is seen by nobody else."""
    return np.pad(np.ones((16, 16), dtype=bool), (0, 1)) | np.eye(17, dtype=bool)
