"""What the exercises of chapter 21 draw, where no common word says it."""

import numpy as np

from ...course.judge.draws import SPECIAL


def kept(rng, shape):
    """What counts: about 60 % of all, never the first of three or more, and one in each sequence at least."""
    keep = rng.random(shape) < 0.6
    keep[:, -1] |= ~keep.any(axis=1)
    if shape[1] > 2:
        keep[0, 0] = False
        keep[0, -1] = True
    return keep


def with_an_empty_one(rng, shape):
    keep = kept(rng, shape)
    keep[1] = False
    return keep


def claimed(name):
    """One of the arrays of two claims on one head, the first of which is right, the second without 1/√K."""
    rng = np.random.default_rng(20)
    T, S, K, E = (SPECIAL[letter] for letter in "TSKE")
    q, k, v, dy = (rng.normal(size=shape) for shape in ((T, K), (S, K), (S, E), (T, E)))
    a = np.exp(q @ k.T / np.sqrt(K))
    a = a / a.sum(axis=1, keepdims=True)
    da = dy @ v.T
    ds = a * (da - (a * da).sum(axis=1, keepdims=True)) / np.sqrt(K)
    dq, dk, dv = ds @ k, ds.T @ q, a.T @ dy
    pairs = {"dq": (dq, dq * np.sqrt(K)), "dk": (dk, dk), "dv": (dv, 1.5 * dv)}
    arrays = {"q": q, "k": k, "dy": dy} | {n: np.stack(both) for n, both in pairs.items()}
    return lambda rng, shape: arrays[name]
