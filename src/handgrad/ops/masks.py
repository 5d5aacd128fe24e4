"""Masks: Boolean arrays, true where a query may attend. Two masks are combined by &."""

import numpy as np

from ..algebra import check_array, check_integer, like, namespace


def causal_mask(T):
    """(T, T): position t sees positions 0..t. Raises TypeError or ValueError unless T is an integer ≥ 1."""
    check_integer("T", T, least=1)
    return np.tril(np.ones((T, T), dtype=bool))


def padding_mask(tokens, pad):
    """tokens (B, S) -> (B, 1, 1, S): no query sees a key that is padding. It fits any heads and queries.

    Raises TypeError if the tokens are no integers, ValueError if they have other axes.
    """
    check_array("tokens", tokens, (None, None), "integers")
    return (np.asarray(tokens) != pad)[:, None, None, :]


def whole_mask(mask, q, k):
    """A view of the mask for q (..., T, K) and k (..., S, K), its last two axes broadcast to (T, S).

    Raises TypeError if the mask is not Boolean, ValueError if it does not broadcast to (..., T, S).
    """
    check_array("mask", mask, kind="Booleans")
    T, S = q.shape[-2], k.shape[-2]
    expected = (*q.shape[:-1], S)
    if mask.ndim > q.ndim or any(m not in (1, n) for m, n in zip(mask.shape[::-1], expected[::-1])):
        raise ValueError(f"mask: expected a shape that broadcasts to {expected}, got {tuple(mask.shape)}")
    return namespace(q).broadcast_to(like(mask, q), (*mask.shape[:-2], T, S))
