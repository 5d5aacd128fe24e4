"""What chapter 08 draws and measures: the softmax of random scores."""

import numpy as np

from ...ops.softmax import softmax


def jacobian_norms(K, scale, S=64, n=1000):
    """Frobenius norms (n,) of the softmax Jacobian, for n normal queries of width K and S normal keys."""
    rng = np.random.default_rng(K)
    length = np.sqrt(rng.chisquare(K, (n, 1)))  # ‖q‖: given q, the scores are N(0, ‖q‖²)
    a = softmax(scale * length * rng.standard_normal((n, S)))[0]
    jacobians = a[:, :, None] * (np.eye(S) - a[:, None, :])  # (n, S, S)
    return np.linalg.norm(jacobians, axis=(1, 2))
