"""Six wrong backwards of look-up and linear layer, as a programmer might make them.

Each is a function (dy, tokens, E, W, scale) -> dE, dW for y = scale · E[tokens] W with dy (B, T, F).
"""

import numpy as np

from ...ops.embedding import embedding, embedding_backward
from ...ops.linear import linear, linear_backward


def right(dy, tokens, E, W, scale):
    """The gradients of the table and of the weight by the shipped lines."""
    x, looked_up = embedding(tokens, E, scale)
    dx, dW, _ = linear_backward(dy, linear(x, W)[1])
    return embedding_backward(dx, looked_up), dW


def not_transposed(dy, tokens, E, W, scale):
    """dx = dy W: fits only if the layer is square."""
    _, looked_up = embedding(tokens, E, scale)
    return embedding_backward(dy @ W, looked_up), right(dy, tokens, E, W, scale)[1]


def stored_otherwise(dy, tokens, E, W, scale):
    """dW = dyᵀ x, which belongs to the weight stored as (out, in)."""
    dE, dW = right(dy, tokens, E, W, scale)
    return dE, dW.T


def averaged(dy, tokens, E, W, scale):
    """dW is summed over the positions, and averaged over the sequences."""
    dE, dW = right(dy, tokens, E, W, scale)
    return dE, dW / len(tokens)


def repeats_lost(dy, tokens, E, W, scale):
    """`dE[tokens] += dx`: of a token that occurs twice, the last gradient alone is kept."""
    dE = np.zeros_like(E)
    dE[tokens] += scale * (dy @ W.T)
    return dE, right(dy, tokens, E, W, scale)[1]


def repeats_averaged(dy, tokens, E, W, scale):
    """Each row of dE is divided by the number of times its token occurs."""
    dE, dW = right(dy, tokens, E, W, scale)
    times = np.bincount(np.ravel(tokens), minlength=len(E))
    return dE / np.maximum(times, 1)[:, None], dW


def scale_forgotten(dy, tokens, E, W, scale):
    """The scale of the look-up stands in the forward and not in the backward."""
    dE, dW = right(dy, tokens, E, W, scale)
    return dE / scale, dW


FAULTS = {
    "dX = dY W": not_transposed,
    "dW = dYᵀ X": stored_otherwise,
    "dW, mean over sequences": averaged,
    "dE[tokens] += dX": repeats_lost,
    "dE, mean over repeats": repeats_averaged,
    "dE without the scale": scale_forgotten,
}
"""The wrong backwards by the name of the fault."""


def draw(rng, B=1, T=4, D=3, F=3, V=8, repeat=False, scale=1.0):
    """dy, tokens, E, W, scale; without repeat, no token occurs twice (B T ≤ V)."""
    tokens = rng.permutation(V)[: B * T].reshape(B, T) if not repeat else rng.integers(V // 2, size=(B, T))
    dy, E, W = (rng.standard_normal(shape) for shape in ((B, T, F), (V, D), (D, F)))
    return dy, tokens, E, W, scale


def error(fault, inputs):
    """The largest error of dE and dW, relative to the largest entry; infinite if a shape is wrong."""
    try:
        pairs = [*zip(fault(*inputs), right(*inputs), strict=True)]
    except ValueError:  # the product of matrices that do not fit
        return np.inf
    if any(given.shape != wanted.shape for given, wanted in pairs):
        return np.inf
    return max(np.abs(given - wanted).max() / np.abs(wanted).max() for given, wanted in pairs)


TESTS = ["shapes,\nD = F", "shapes,\nD ≠ F", "numbers,\nfirst test", "tokens\nrepeat", "all\nof it"]
"""The five tests, in the order of the columns of `table`."""


def table(rng):
    """The error that each test sees of each fault: (faults, tests). A test of shapes sees ∞ or nothing."""
    first, repeats = draw(rng), draw(rng, repeat=True)
    everything = draw(rng, B=2, F=5, repeat=True, scale=1.7)
    seen = np.array([[error(f, test) for test in (first, repeats, everything)] for f in FAULTS.values()])
    shapes = np.where(np.isinf(seen), np.inf, 0)
    return np.column_stack([shapes[:, 0], shapes[:, 2], seen])
