"""Masks: Boolean arrays, true where a query may attend. Two masks are combined by &."""

import numpy as np


def causal_mask(T):
    """(T, T): position t sees positions 0..t."""
    return np.tril(np.ones((T, T), dtype=bool))


def padding_mask(tokens, pad):
    """tokens (B, S) -> (B, 1, 1, S): no query sees a key that is padding. It fits any heads and queries."""
    return (np.asarray(tokens) != pad)[:, None, None, :]
