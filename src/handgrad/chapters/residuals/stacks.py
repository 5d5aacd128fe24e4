"""Stacks of fresh sub-layers that chapter 06 measures: the shipped ones, with γ = 1 and β = 0."""

import numpy as np

from handgrad.blocks import (
    attend,
    normalize,
    normalize_backward,
    self_attend_backward,
    sublayer,
    sublayer_backward,
    transform,
    transform_backward,
)
from handgrad.ops.table import Op

BACKWARD = {"attention": self_attend_backward, "feed-forward": transform_backward}


def unit(x):
    """The parameters of a norm of x (..., D) that neither scales nor shifts."""
    D = x.shape[-1]
    return {"gamma": np.ones(D, x.dtype), "beta": np.zeros(D, x.dtype)}


def norm(x):
    """LayerNorm with γ = 1 and β = 0. x (..., D) -> y (..., D), cache."""
    return normalize(x, unit(x))


def norm_backward(dy, cache):
    """dy (..., D) -> dx (..., D)."""
    return normalize_backward(dy, cache)[0]


def weights(kind, rng, D, scale=1.0):
    """Each matrix of an "attention", or the two of a "feed-forward" with scale 1, keep the size of tokens.

    They do on average over draws; scale multiplies what a feed-forward returns.
    """
    if kind == "attention":
        return {name: rng.normal(0, D**-0.5, (D, D)) for name in ("W_Q", "W_K", "W_V", "W_O")}
    return {"W_1": rng.normal(0, D**-0.5, (D, 2 * D)), "W_2": rng.normal(0, scale * D**-0.5, (2 * D, D))}


def draw(kinds, rng, D=32, scale=1.0):
    """A sub-layer (kind, its weights) for each of the kinds."""
    return [(kind, weights(kind, rng, D, scale)) for kind in kinds]


def function(kind, params, H=4):
    """The sub-layer's f of h (B, T, D)."""
    if kind == "attention":
        return lambda h: attend(h, h, params, H, mask=None, angles=None, draw_keep=None, p=0.0)
    return lambda h: transform(h, params)


def stack(x, layers, place, skip=True):
    """x (B, T, D) -> the streams (N + 1, B, T, D), from x to the end, and caches.

    Without skip, a sub-layer of "pre" or "output" is its branch alone.
    """
    streams, caches = [x], []
    for kind, params in layers:
        y, cache = sublayer(x, function(kind, params), unit(x), place)
        x = y if skip else y - x
        streams.append(x)
        caches.append((kind, cache))
    return np.array(streams), caches


def stack_backward(dy, caches, skip=True):
    """dy (B, T, D) -> the gradients of the streams (N + 1, B, T, D), and dparams of each sub-layer."""
    gradients, grads = [dy], []
    for kind, cache in reversed(caches):
        dx, _, dparams = sublayer_backward(dy, cache, BACKWARD[kind])
        dy = dx if skip else dx - dy
        gradients.append(dy)
        grads.append(dparams)
    return np.array(gradients[::-1]), grads[::-1]


def size(x):
    """x (..., B, T, D) -> the root mean square of its entries, (...)."""
    return np.sqrt(np.mean(np.square(x), axis=(-3, -2, -1)))


def spread(x):
    """How far tokens x (..., B, T, D) are from being equal: the share of their size that their mean lacks."""
    return size(x - x.mean(axis=-2, keepdims=True)) / size(x)


def inputs(seed, shape=(4, 8, 32)):
    """Tokens x and an upstream gradient dy, both (B, T, D) and normal, and a generator for the weights."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape), rng.standard_normal(shape), rng


def measure(kinds, place, seed, skip=True, scale=1.0, shape=(4, 8, 32)):
    """One draw of a stack and a final norm: its streams, their gradients, and dparams of each sub-layer."""
    x, dy, rng = inputs(seed, shape)
    streams, caches = stack(x, draw(kinds, rng, shape[-1], scale), place, skip)
    if place != "post":  # which has one already
        dy = norm_backward(dy, norm(streams[-1])[1])
    return streams, *stack_backward(dy, caches, skip)


def shipped(place):
    """The package's sub-layer with a feed-forward f and a norm in that place, as an entry for the checks."""

    def forward(x, norm, params):
        return sublayer(x, lambda h: transform(h, params), norm, place)

    def backward(dy, cache):
        return sublayer_backward(dy, cache, transform_backward)

    shapes = {"x": "T D", "norm": {"gamma": "D", "beta": "D"}, "params": {"W_1": "D F", "W_2": "F D"}}
    return Op(forward, backward, shapes, dict(T=1, D=3, F=2))
