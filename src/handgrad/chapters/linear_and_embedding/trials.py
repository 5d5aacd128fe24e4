"""Small experiments of chapter 03, whose results the notebook asserts."""

import numpy as np

from ...ops.embedding import embedding, embedding_backward, tied_head, tied_head_backward
from ...ops.positions import sinusoidal


def flops(function):
    """How many FLOPs the products of matrices in a call without arguments take, as PyTorch counts them."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


def both_parts(tokens, dz, E):
    """What reaches each row of E if z = E[tokens] Eᵀ: from the look-up (V, D), and from the head (V, D)."""
    x, looked_up = embedding(tokens, E)
    dx, of_head = tied_head_backward(dz, tied_head(x, E)[1])
    return embedding_backward(dx, looked_up), of_head


def lengths(scale, seed, D=64, T=64, V=96):
    """The Frobenius norms (2,) of the parts of dE, from look-up and head, where positions are added.

    z = (scale · E[tokens] + P) Eᵀ with entries of E of variance 1/D, random tokens and a random dz.
    """
    rng = np.random.default_rng(seed)
    E, dz = rng.standard_normal((V, D)) / np.sqrt(D), rng.standard_normal((8, T, V))
    rows, looked_up = embedding(rng.integers(V, size=(8, T)), E, scale)
    dx, of_head = tied_head_backward(dz, tied_head(rows + sinusoidal(T, D), E)[1])
    return np.array([np.linalg.norm(embedding_backward(dx, looked_up)), np.linalg.norm(of_head)])


def one_batch_then_none(update, init, E, rate=0.01):
    """How E (V, D) moves in a step in which row 0 has a gradient, and in ten more in which no row has any."""
    params, state, dE = {"E": E}, init({"E": E}), np.zeros_like(E)
    dE[0] = np.arange(1, E.shape[1] + 1)
    params, state = update(params, {"E": dE}, state, rate)
    first = params["E"] - E
    for _ in range(10):
        params, state = update(params, {"E": 0 * dE}, state, rate)
    return first, params["E"] - E - first


def symmetric_end(loss_and_dz, V=96, steps=2500, rate=20.0):
    """The loss of a symmetric table of logits A + Aᵀ of any rank, after gradient descent from 0."""
    A = np.zeros((V, V))
    for step in range(steps):
        loss, dz = loss_and_dz(A + A.T)
        A = A - rate * (1 - step / steps) * (dz + dz.T)
    return float(loss)
