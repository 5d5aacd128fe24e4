"""Formulas of attention's backward, as printed and as corrected, each beside central differences."""

import numpy as np

from ...check import measured
from ...ops import attention, softmax


def off(x, wanted):
    """The length of the difference over the length of what is wanted; ∞ if the shapes differ."""
    x, wanted = np.asarray(x, float), np.asarray(wanted, float)
    return float(np.linalg.norm(x - wanted) / np.linalg.norm(wanted)) if x.shape == wanted.shape else np.inf


def answers(K=4, D=5, T=6, seed=21):
    """{erratum and gradient: (as printed, as corrected, by differences)} of one head, tokens as rows."""
    rng = np.random.default_rng(seed)
    W_Q, W_K, W_V = rng.standard_normal((3, D, K))
    x, dy = rng.standard_normal((T, D)), rng.standard_normal((T, K))
    q, k, v, root = x @ W_Q, x @ W_K, x @ W_V, K**0.5
    a, da = softmax(q @ k.T / root)[0], dy @ v.T
    h = (a * da).sum(axis=1, keepdims=True)
    du = a * (da - h)
    dk = du.T @ q / root
    others = du @ k @ W_Q.T / root + a.T @ dy @ W_V.T  # what reaches x through q and v
    of_u = measured(lambda u: (dy * (softmax(u)[0] @ v)).sum(), q @ k.T / root)
    of_k = measured(lambda k: (dy * attention(q, k, v)[0]).sum(), k)
    of_W_K = measured(lambda W_K: (dy * attention(q, x @ W_K, v)[0]).sum(), W_K)
    of_x = measured(lambda x: (dy * attention(x @ W_Q, x @ W_K, x @ W_V)[0]).sum(), x)
    return {
        "E1: dU": (h - h.T @ a, du, of_u),  # ∂a_ts/∂u_nr as printed, contracted
        "E2: dK": (du @ q / root, dk, of_k),
        "E3: dW_K": (x.T @ dk / root, x.T @ dk, of_W_K),
        "E4: dW_K": (x.T @ du @ q / root, x.T @ dk, of_W_K),
        "E5: dX": (du @ q @ W_K.T / root + others, dk @ W_K.T + others, of_x),
    }
