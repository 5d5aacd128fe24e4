"""Wrong backwards of the feed-forward layer, as a programmer might make them."""

import numpy as np

from ...ops.activations import ACTIVATIONS, relu_backward
from ...ops.feed_forward import feed_forward, feed_forward_backward
from ...ops.linear import linear_backward


def faulty(slope=None, share=None):
    """A backward with one step replaced: dy (..., D) -> dx, dparams.

    slope: (da, cache of the activation, its output a, its name) -> dh. share: (dparams, number of tokens) ->
    dparams.
    """

    def backward(dy, cache):
        if slope is None:
            dx, dparams = feed_forward_backward(dy, cache)
        else:
            da, dW_2, db_2 = linear_backward(dy, cache["second"])
            dh = slope(da, cache["active"], cache["second"]["x"], cache["activation"])
            dx, dW_1, db_1 = linear_backward(dh, cache["first"])
            dparams = {"W_1": dW_1, "b_1": db_1, "W_2": dW_2, "b_2": db_2}
        return dx, dparams if share is None else share(dparams, dy.size // dy.shape[-1])

    return backward


def _at_output(da, active, a, activation):
    forward, backward = ACTIVATIONS[activation]
    return backward(da, forward(a)[1])


def _of_tanh_form(da, active, a, activation):
    other = "gelu_tanh" if activation == "gelu" else activation
    forward, backward = ACTIVATIONS[other]
    return backward(da, forward(active["x"])[1])


def _sign_of_gradient(da, active, a, activation):
    return relu_backward(da, {"x": da})


def _value(da, active, a, activation):
    return da * a


FAULTS = {
    "φ′ taken at a, not at h": faulty(_at_output),
    "φ′ of the tanh form": faulty(_of_tanh_form),
    "φ(h) for φ′(h)": faulty(_value),
    "max(da, 0) for dh": faulty(_sign_of_gradient),
    "mean over tokens": faulty(share=lambda grads, m: {name: g / m for name, g in grads.items()}),
}


def compare(x, params, activation, rng):
    """The errors of each fault on the first token of x (T, D) and on all: (2, faults)."""
    errors = []
    for tokens in (x[:1], x):
        y, cache = feed_forward(tokens, params, activation)
        dy = rng.standard_normal(y.shape)
        errors.append([largest_error(fault, dy, cache) for fault in FAULTS.values()])
    return np.array(errors)


def largest_error(fault, dy, cache):
    """The largest error of any gradient, relative to the largest entry of the right one."""
    (dx, dparams), (right_dx, right) = fault(dy, cache), feed_forward_backward(dy, cache)
    pairs = [(dx, right_dx), *((dparams[name], right[name]) for name in right)]
    return max(np.abs(mine - theirs).max() / np.abs(theirs).max() for mine, theirs in pairs)
