"""Four formulas of attention with tokens as columns, as printed and as corrected, beside differences."""

import numpy as np

from ...check import measured
from ...ops import softmax


def forward(A, B, C, X):
    """One head in columns: A, B, C (K, D), X (D, T). Its q compete in the softmax, so they are keys."""
    Q, K, V = A @ X, B @ X, C @ X
    weights = softmax((Q.T @ K / len(A) ** 0.5).T)[0].T  # each column sums to 1
    return V @ weights, (Q, K, V, weights)


def printed_and_right(K, D, T, seed=6):
    """{gradient: (relative error and cosine as printed, relative error as corrected)}, beside differences."""
    rng = np.random.default_rng(seed)
    A, B, C = rng.standard_normal((3, K, D))
    X, E = rng.standard_normal((D, T)), rng.standard_normal((K, T))
    _, (q, k, v, a) = forward(A, B, C, X)
    da, root = v.T @ E, K**0.5
    dc = a * (da - (a * da).sum(axis=0))
    dq = k @ dc.T / root

    def head(q):
        weights = softmax((q.T @ k / root).T)[0].T
        return v @ weights

    values = C.T @ E @ a.T
    dA = measured(lambda A: (E * forward(A, B, C, X)[0]).sum(), A)
    lines = {
        "dQ": (measured(lambda q: (E * head(q)).sum(), q), k @ dc / root, dq),
        "dA, from the right dQ": (dA, dq @ X.T / root, dq @ X.T),
        "dA, in one piece": (dA, k @ dc @ X.T / root, k @ dc.T @ X.T / root),
        "dX": (
            measured(lambda X: (E * forward(A, B, C, X)[0]).sum(), X),
            (A.T @ k + B.T @ q) @ dc / root + values,
            (A.T @ k @ dc.T + B.T @ q @ dc) / root + values,
        ),
    }
    return {
        line: (apart(printed, wanted), cosine(printed, wanted), apart(right, wanted))
        for line, (wanted, printed, right) in lines.items()
    }


def apart(x, wanted):
    """The relative distance of two arrays."""
    return np.linalg.norm(x - wanted) / np.linalg.norm(wanted)


def cosine(x, wanted):
    return (x * wanted).sum() / np.linalg.norm(x) / np.linalg.norm(wanted)
