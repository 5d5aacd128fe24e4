"""Stacks of sub-layers that chapter 06 measures: four places for the norm, with and without the connection.

With the connection and a norm, a sub-layer is `blocks.sublayer`; this is the same with two switches more, and
with γ = 1 and β = 0. On the way back the branches may be left out, so that only the skip is walked.
"""

import numpy as np

from handgrad import blocks
from handgrad.blocks import (
    attend,
    normalize,
    normalize_backward,
    self_attend_backward,
    transform,
    transform_backward,
)
from handgrad.ops.table import Op

PLACES = ("none", "pre", "post", "output")


def norm(x):
    """LayerNorm with γ = 1 and β = 0. x (..., D) -> y (..., D), cache."""
    D = x.shape[-1]
    return normalize(x, {"gamma": np.ones(D, x.dtype), "beta": np.zeros(D, x.dtype)})


def norm_backward(dy, cache):
    """dy (..., D) -> dx (..., D)."""
    return normalize_backward(dy, cache)[0]


def sublayer(x, f, place, skip=True, scale=1.0):
    """x (B, T, D) -> y (B, T, D), cache. f: a function from h to f(h), cache; scale: what multiplies f(h)."""
    h, cache = x, {"skip": skip, "scale": scale}
    if place == "pre":
        h, cache["pre"] = norm(h)
    h, cache["f"] = f(h)
    h = scale * h
    if place == "output":
        h, cache["output"] = norm(h)
    y = x + h if skip else h
    if place == "post":
        y, cache["post"] = norm(y)
    return y, cache


def sublayer_backward(dy, cache, f_backward, branch=True):
    """dy (B, T, D) -> dx (B, T, D), dparams of f. Without branch, dx is what returns along the skip alone."""
    if "post" in cache:
        dy = norm_backward(dy, cache["post"])
    dh = dy
    if "output" in cache:
        dh = norm_backward(dh, cache["output"])
    dh, dparams = f_backward(cache["scale"] * dh, cache["f"])
    if "pre" in cache:
        dh = norm_backward(dh, cache["pre"])
    return cache["skip"] * dy + branch * dh, dparams


def feed_forward_weights(D, F, rng):
    """W_1 (D, F), W_2 (F, D): they keep the mean square of tokens, on average over draws."""
    return {"W_1": rng.normal(0, D**-0.5, (D, F)), "W_2": rng.normal(0, (2 / F) ** 0.5, (F, D))}


def attention_weights(D, rng):
    """W_Q, W_K, W_V, W_O (D, D), each keeps the mean square of a token, on average over weights."""
    return {name: rng.normal(0, D**-0.5, (D, D)) for name in ("W_Q", "W_K", "W_V", "W_O")}


def draw(kinds, rng, D=32, F=64):
    """A sub-layer (kind, its weights) for each of the kinds, "attention" or "feed-forward"."""
    return [
        (kind, attention_weights(D, rng) if kind == "attention" else feed_forward_weights(D, F, rng))
        for kind in kinds
    ]


def function(kind, params, H=4):
    """The sub-layer's f of h (B, T, D)."""
    if kind == "attention":
        return lambda h: attend(h, h, params, H, mask=None, angles=None, draw_keep=None, p=0.0)
    return lambda h: transform(h, params)


def stack(x, layers, place, skip=True, scale=1.0):
    """x (B, T, D) -> the streams [x, ..., y], one more than there are sub-layers, and caches."""
    streams, caches = [x], []
    for kind, params in layers:
        y, cache = sublayer(streams[-1], function(kind, params), place, skip, scale)
        streams.append(y)
        caches.append((kind, cache))
    return streams, caches


def stack_backward(dy, caches, branch=True):
    """dy (B, T, D) -> the gradients of the streams, [dx, ..., dy], and dparams of each sub-layer.

    branch: whether the branches are walked; or a Boolean for each sub-layer.
    """
    walked = np.broadcast_to(branch, len(caches))
    gradients, grads = [dy], []
    for (kind, cache), walk in zip(reversed(caches), reversed(walked), strict=True):
        backward = self_attend_backward if kind == "attention" else transform_backward
        dx, dparams = sublayer_backward(gradients[-1], cache, backward, bool(walk))
        gradients.append(dx)
        grads.append(dparams)
    return gradients[::-1], grads[::-1]


def size(x):
    """The root mean square of the entries."""
    return float(np.sqrt(np.mean(np.square(x))))


def inputs(seed, shape=(4, 8, 32)):
    """Tokens x and an upstream gradient dy, both (B, T, D) and normal, and a generator for the weights."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape), rng.standard_normal(shape), rng


def measure(kinds, place, seed, skip=True, scale=1.0, final=True):
    """One draw: sizes of the streams and of their gradients, (N + 1,) each, and dparams of each sub-layer.

    Where the stream is not normalised at the end, a last norm is added if `final`.
    """
    x, dy, rng = inputs(seed)
    streams, caches = stack(x, draw(kinds, rng), place, skip, scale)
    if final and skip and place != "post":
        dy = norm_backward(dy, norm(streams[-1])[1])
    gradients, grads = stack_backward(dy, caches)
    return np.array([*map(size, streams)]), np.array([*map(size, gradients)]), grads


def spread(x):
    """How far tokens x (B, T, D) are from being equal: the share of their length that their mean lacks."""
    return np.linalg.norm(x - x.mean(axis=-2, keepdims=True)) / np.linalg.norm(x)


def shipped(place):
    """The package's sub-layer with a feed-forward f and a norm in that place, as an entry for the checks."""

    def forward(x, norm, params):
        return blocks.sublayer(x, lambda h: transform(h, params), norm, place)

    def backward(dy, cache):
        return blocks.sublayer_backward(dy, cache, transform_backward)

    shapes = {"x": "T D", "norm": {"gamma": "D", "beta": "D"}, "params": {"W_1": "D F", "W_2": "F D"}}
    return Op(forward, backward, shapes, dict(T=1, D=3, F=2))


# What the chapter asks of many draws ------------------------------------------------------------------------


def by_depth(kinds, place, seeds, **how):
    """Sizes of the streams and of their gradients by depth, (seeds, N + 1) each; how: as for `measure`."""
    found = [measure(kinds, place, seed, **how)[:2] for seed in seeds]
    return np.array([streams for streams, _ in found]), np.array([gradients for _, gradients in found])


def weight_gradients(kinds, place, seeds, at, name):
    """Lengths of the gradients of one weight in the sub-layers `at`, (seeds, at)."""
    grads = [measure(kinds, place, seed)[2] for seed in seeds]
    return np.array([[np.linalg.norm(found[n][name]) for n in at] for found in grads])


def spreads(kinds, place, skip, seeds):
    """How unlike the tokens are in front of each sub-layer and at the end, (seeds, N + 1)."""

    def one(seed):
        x, _, rng = inputs(seed)
        return [*map(spread, stack(x, draw(kinds, rng), place, skip)[0])]

    return np.array([*map(one, seeds)])
