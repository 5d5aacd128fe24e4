"""The head of chapter 08, with any backward pass of attention."""

import numpy as np

from ...ops import attention, cross_entropy, cross_entropy_backward


def start(rng, D=16):
    """A table of letters, a table of digits, W_Q, W_K and W_O."""
    tables = rng.standard_normal((26, D)), rng.standard_normal((10, D))
    return *tables, *(rng.standard_normal((D, n)) / D**0.5 for n in (D, D, 10))


def loss_and_gradients(params, page, rule):
    """The loss on pages of the directory, and the gradients of params. rule(dy, cache) -> dq, dk, dv."""
    letters, digits, W_Q, W_K, W_O = params
    x, m, v = letters[page["asked"]], letters[page["letters"]], digits[page["digits"]]
    y, look = attention(x @ W_Q, m @ W_K, v)
    loss, end = cross_entropy(y @ W_O, page["answers"])
    dz = cross_entropy_backward(1.0, end)
    dq, dk, dv = rule(dz @ W_O.T, look)
    dletters, ddigits = np.zeros(letters.shape), np.zeros(digits.shape)
    np.add.at(dletters, page["asked"], dq @ W_Q.T)
    np.add.at(dletters, page["letters"], dk @ W_K.T)
    np.add.at(ddigits, page["digits"], dv)
    weights = ((a.mT @ b).sum(axis=0) for a, b in ((x, dq), (m, dk), (y, dz)))
    return loss, (dletters, ddigits, *weights)
