"""Formulas of attention's backward, as printed and as corrected, each beside central differences."""

import numpy as np

from ...check import measured
from ...ops import softmax


def off(x, wanted):
    """The length of the difference over the length of what is wanted; ∞ if the shapes differ."""
    x, wanted = np.asarray(x, float), np.asarray(wanted, float)
    return float(np.linalg.norm(x - wanted) / np.linalg.norm(wanted)) if x.shape == wanted.shape else np.inf


def attend(q, k, v):
    """Text C's head, tokens as columns: its q compete in the softmax, so each column of weights sums to 1."""
    weights = softmax((q.T @ k / len(q) ** 0.5).T)[0].T
    return v @ weights, weights


def answers(K=4, D=5, T=6, seed=6):
    """{erratum and gradient: (as printed, as corrected, by differences)} of one head; E1: by its scores."""
    rng = np.random.default_rng(seed)
    A, B, C = rng.standard_normal((3, K, D))
    X, E = rng.standard_normal((D, T)), rng.standard_normal((K, T))
    q, k, v, root = A @ X, B @ X, C @ X, K**0.5
    a = attend(q, k, v)[1]
    da = v.T @ E
    dc = a * (da - (a * da).sum(axis=0))
    h = (a * da).sum(axis=0)  # E1 in columns: ∂a_it/∂c_ns as printed, contracted
    dq, values = k @ dc.T / root, C.T @ E @ a.T
    of_c = measured(lambda c: (E * (v @ softmax(c.T)[0].T)).sum(), q.T @ k / root)
    of_q = measured(lambda q: (E * attend(q, k, v)[0]).sum(), q)
    of_A = measured(lambda A: (E * attend(A @ X, k, v)[0]).sum(), A)
    of_X = measured(lambda X: (E * attend(A @ X, B @ X, C @ X)[0]).sum(), X)
    return {
        "E1: dc": (h[None] - (a @ h)[:, None], dc, of_c),
        "E2: dQ": (k @ dc / root, dq, of_q),
        "E3: dA": (dq @ X.T / root, dq @ X.T, of_A),
        "E4: dA": (k @ dc @ X.T / root, dq @ X.T, of_A),
        "E5: dX": ((A.T @ k + B.T @ q) @ dc / root + values, A.T @ dq + B.T @ q @ dc / root + values, of_X),
    }
