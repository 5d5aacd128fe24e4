"""The data of the training in chapter 01, and the same training in PyTorch."""

import codecs
import contextlib
import io

import numpy as np


def characters():
    """The poem that ships with Python, in lower case."""
    with contextlib.redirect_stdout(io.StringIO()):  # importing it prints it
        import this
    return codecs.decode(this.s, "rot13").lower()


def vowels():
    """Two characters before each character, as features (m, 4) of 0 and 1; is it a vowel (m,), 0 or 1.

    The features: the character before is a vowel, is no letter; the one before that likewise.
    """
    text = characters()
    vowel = np.array([c in "aeiou" for c in text], dtype=float)
    other = np.array([not c.isalpha() for c in text], dtype=float)
    return np.stack([vowel[1:-1], other[1:-1], vowel[:-2], other[:-2]], axis=1), vowel[2:]


def entropy_given(x, q):
    """The mean entropy, in nats, of q (m,) given what stands in the rows of x (m, D), both 0 and 1."""
    total = 0.0
    for context in np.unique(x, axis=0):
        here = q[(x == context).all(axis=1)]
        total -= sum(len(here) * p * np.log(p) for p in (here.mean(), 1 - here.mean()) if p > 0)
    return total / len(q)


def twin_train(x, q, w, b, rate, steps):
    """The losses (steps,) of gradient descent from w (D,) and b, the gradients made by PyTorch."""
    import torch
    from torch.nn import functional

    x, q = torch.tensor(x), torch.tensor(q)
    w, b = (torch.tensor(p, dtype=x.dtype, requires_grad=True) for p in (w, b))
    optimizer, losses = torch.optim.SGD([w, b], lr=rate), []
    for _ in range(steps):
        loss = functional.binary_cross_entropy_with_logits(x @ w + b, q)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)
