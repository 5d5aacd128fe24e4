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
    W_q, W_k, W_v = rng.standard_normal((3, K, D))
    X, dz = rng.standard_normal((D, T)), rng.standard_normal((K, T))
    q, k, v, root = W_q @ X, W_k @ X, W_v @ X, K**0.5
    a = attend(q, k, v)[1]
    da = v.T @ dz
    dc = a * (da - (a * da).sum(axis=0))
    h = (a * da).sum(axis=0)  # E1 in columns: ∂a_it/∂c_ns as printed, contracted
    dq, values = k @ dc.T / root, W_v.T @ dz @ a.T
    of_c = measured(lambda c: (dz * (v @ softmax(c.T)[0].T)).sum(), q.T @ k / root)
    of_q = measured(lambda q: (dz * attend(q, k, v)[0]).sum(), q)
    of_W_q = measured(lambda W_q: (dz * attend(W_q @ X, k, v)[0]).sum(), W_q)
    of_X = measured(lambda X: (dz * attend(W_q @ X, W_k @ X, W_v @ X)[0]).sum(), X)
    return {
        "E1: dc": (h[None] - (a @ h)[:, None], dc, of_c),
        "E2: dQ": (k @ dc / root, dq, of_q),
        "E3: dW_q": (dq @ X.T / root, dq @ X.T, of_W_q),
        "E4: dW_q": (k @ dc @ X.T / root, dq @ X.T, of_W_q),
        "E5: dX": (
            (W_q.T @ k + W_k.T @ q) @ dc / root + values,
            W_q.T @ dq + W_k.T @ q @ dc / root + values,
            of_X,
        ),
    }
