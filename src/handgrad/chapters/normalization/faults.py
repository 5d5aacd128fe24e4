"""Six wrong backwards of LayerNorm, as a programmer might make them."""

import numpy as np

from ...ops.normalization import layer_norm_backward


def gamma_outside(dy, cache):
    """γ is multiplied at the end, not before the means: dy (..., D) -> dx, dgamma, dbeta."""
    dx, dgamma, dbeta = layer_norm_backward(dy, cache | {"gamma": 1.0})
    return cache["gamma"] * dx, dgamma, dbeta


def forget(term):
    """A backward, dy (..., D) -> dx, without the path through the "mean" or through the "variance"."""

    def backward(dy, cache):
        d, hat = cache["gamma"] * dy, cache["x_hat"]
        terms = {
            "mean": d.mean(axis=-1, keepdims=True),
            "variance": hat * (d * hat).mean(axis=-1, keepdims=True),
        }
        return cache["inverse_std"] * (d - sum(t for name, t in terms.items() if name != term))

    return backward


FAULTS = {
    "γ outside the sums": lambda dy, cache: gamma_outside(dy, cache)[0],
    "zeros": lambda dy, cache: np.zeros_like(dy),
    "no path through the mean": forget("mean"),
    "no path through the variance": forget("variance"),
    "twice the gradient": lambda dy, cache: 2 * layer_norm_backward(dy, cache)[0],
    "opposite sign": lambda dy, cache: -layer_norm_backward(dy, cache)[0],
}
"""The wrong dx by the name of the fault: functions (dy, cache) -> dx."""
