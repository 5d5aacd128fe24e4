"""What chapter 08 draws and measures: random scores, the softmax of them, errors of gradients, influence."""

import numpy as np

from ...ops.attention import attention, attention_backward
from ...ops.softmax import softmax


def normalised(x):
    """x (..., D) -> the same with mean 0 and variance 1 along the last axis: LayerNorm, γ = 1, β = ε = 0."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / centred.std(axis=-1, keepdims=True)


def drawn_differences(cosine, D=64, K=16, n=4000):
    """n differences s_j - s_r (n,) of the scaled scores of two fixed tokens with this cosine.

    All tokens are behind a LayerNorm; each difference has its own draw of W_Q and W_K.
    """
    rng = np.random.default_rng(3)
    asks, first, other = normalised(rng.standard_normal((3, D)))
    other = normalised(other - first * (first @ other) / D)  # perpendicular to the first
    second = cosine * first + np.sqrt(1 - cosine**2) * other
    W_Q, W_K = rng.standard_normal((2, n, D, K)) / np.sqrt(D)
    return ((asks @ W_Q) * ((first - second) @ W_K)).sum(axis=-1) / np.sqrt(K)


def jacobian_norms(K, scale, S=64, n=1000):
    """Frobenius norms (n,) of the softmax Jacobian, for n normal queries of width K and S normal keys."""
    rng = np.random.default_rng(K)
    length = np.sqrt(rng.chisquare(K, (n, 1)))  # ‖q‖: given q, the scores are N(0, ‖q‖²)
    a = softmax(scale * length * rng.standard_normal((n, S)))[0]
    jacobians = a[:, :, None] * (np.eye(S) - a[:, None, :])  # (n, S, S)
    return np.linalg.norm(jacobians, axis=(1, 2))


def query_gradients(K, S=64, E=8, draws=8, n=250):
    """Lengths ‖dq‖ (draws * n,) for raw scores: all four arrays normal."""
    rng, lengths = np.random.default_rng(K), []
    for _ in range(draws):
        q, k, v, dy = (rng.standard_normal(shape) for shape in ((n, K), (S, K), (S, E), (n, E)))
        _, cache = attention(q, k, v, scale=1.0)
        lengths.append(np.linalg.norm(attention_backward(dy, cache)[0], axis=1))
    return np.concatenate(lengths)


def relative_errors(wrong, right):
    """For each array of right its distance from that of wrong, as a share of its own length."""
    return [np.linalg.norm(w - r) / np.linalg.norm(r) for w, r in zip(wrong, right, strict=True)]


def influence(layer, x, step=1e-6):
    """How far output i of a layer follows token j of x (S, D), per unit of a small step: (T, S)."""

    def follow(j):
        moved = x.copy()
        moved[j] += step / np.sqrt(x.shape[1])
        return np.linalg.norm(layer(moved) - layer(x), axis=1) / step

    return np.stack([follow(j) for j in range(len(x))], axis=1)
