"""What the exercises of chapter 16 draw, where no common word says it."""

import numpy as np

PAD, BOS, EOS = 0, 1, 2


def ended_rows(rng, shape):
    """Rows of words 3 … 8, each ended by EOS and filled up with PAD; a word may stand twice."""
    rows, T = rng.integers(3, 9, size=shape), shape[1]
    length = rng.integers(min(2, T), T + 1, size=shape[0])  # EOS counts
    length[0] = T
    rows[np.arange(T) == length[:, None] - 1] = EOS
    rows[np.arange(T) >= length[:, None]] = PAD
    return rows


def begun_rows(rng, shape):
    """Rows that begin with BOS, as the decoder reads them."""
    rows = ended_rows(rng, shape)
    rows = np.concatenate([np.full_like(rows[:, :1], BOS), rows[:, :-1]], axis=1)
    return np.where(rows == EOS, PAD, rows)


def padded_before(rows):
    """Rows with their padding in front, but for the first."""
    rows[1:] = rows[1:, ::-1]
    return rows


def frequencies(rng, shape):
    """Positive numbers that add up to 1."""
    u = rng.uniform(0.2, 2, shape)
    return u / u.sum()


def logits(rng, shape):
    """Logits that choose EOS now and then, and hardly ever padding."""
    z = rng.normal(0, 1.5, shape)
    z[..., EOS] += 1.2
    z[..., PAD] -= 2.0
    return z


def targets_with_padding(rng, shape):
    targets = rng.integers(1, shape[1], size=shape[0])
    targets[2:] = PAD
    return targets
