"""A model of pairs of characters, trained on all pairs of the manual at once, with numbers of any format.

The batch is the whole text: 96 contexts, each with its share of the pairs, so nothing is left to chance but
the first weights. A loss that is a mean over all pairs gives a rare context a small gradient.
"""

import math

import numpy as np

from handgrad import manual, optim
from handgrad.chapters.stable_training.halves import next_scale

V = manual.V


def pairs():
    """share (V,) of each context among the pairs of the training text, and q (V, V), what follows it."""
    train, _ = manual.split()
    n = manual.count_pairs(train).astype(np.float64)
    rows = n.sum(axis=1, keepdims=True)
    return (rows / n.sum())[:, 0], np.divide(n, rows, out=np.zeros_like(n), where=rows > 0)


def entropies(q):
    """The entropy of each row of q, (V,): no model can have a smaller loss there."""
    return -(q * np.log(np.where(q > 0, q, 1))).sum(axis=1)


def initial(seed, N=1, D=64, F=128, c=2.0, dtype=np.float32):
    """An embedding, N layers with weights of variance c / D_in, and a head."""
    rng = np.random.default_rng(seed)
    sizes = [D] + N * [F]
    hidden = [rng.normal(0, math.sqrt(c / a), (a, b)).astype(dtype) for a, b in zip(sizes, sizes[1:])]
    E = rng.normal(0, 1, (V, D)).astype(dtype)
    return {"E": E, "W": hidden, "W_out": rng.normal(0, F**-0.5, (F, V)).astype(dtype)}


def as_is(x):
    """No rounding."""
    return x


def gradients(params, share, q, half=as_is, scale=1.0):
    """losses (V,), one for each context, and the gradients of scale · loss, every array rounded by `half`.

    Sums within a product of matrices keep their precision, as they do in hardware; so does the softmax.
    """
    x, caches = half(params["E"]), []  # (V, D)
    weights, W_out = [half(W) for W in params["W"]], half(params["W_out"])
    for W in weights:
        z = half(x @ W)
        caches.append((x, z > 0))
        x = np.maximum(z, 0)  # (V, F)
    z = x @ W_out  # the logits (V, V)
    z = z - z.max(axis=1, keepdims=True)
    total = np.exp(z).sum(axis=1, keepdims=True)
    losses = -(q * (z - np.log(total))).sum(axis=1)
    dz = half((scale * share[:, None] * (np.exp(z) / total - q)).astype(x.dtype))
    grads = {"W_out": half(x.T @ dz), "W": []}
    dx = half(dz @ W_out.T)
    for W, (before, active) in zip(reversed(weights), reversed(caches), strict=True):
        da = dx * active
        grads["W"].insert(0, half(before.T @ da))
        dx = half(da @ W.T)
    return losses, {"E": dx, "W": grads["W"], "W_out": grads["W_out"]}


def leaves(tree):
    """The arrays of params or of gradients."""
    return [tree["E"], *tree["W"], tree["W_out"]]


def divided(grads, scale):
    """The gradients of the loss itself, in the precision of the parameters."""
    by = np.float32(1 / scale)
    return {"E": grads["E"] * by, "W": [g * by for g in grads["W"]], "W_out": grads["W_out"] * by}


def train(params, share, q, steps, rate=0.01, half=as_is, scale=1.0, dynamic=False, keep=as_is, interval=50):
    """Adam. -> the loss of each step (steps,), the last losses (V,), and the scale of each step.

    A step whose gradients are not finite is left out. keep: how the parameters are stored. dynamic: whether
    the scale follows `next_scale`.
    """
    state, curve, scales, good = optim.adam_init(params), [], [], 0
    for _ in range(steps):
        with np.errstate(over="ignore", invalid="ignore"):
            losses, grads = gradients(params, share, q, half, scale)
            finite = all(np.isfinite(g).all() for g in leaves(grads))
        curve.append(float(share @ losses))
        scales.append(scale)
        if finite:
            params, state = optim.adam(params, divided(grads, scale), state, rate)
            stored = [keep(W) for W in params["W"]]
            params = {"E": keep(params["E"]), "W": stored, "W_out": keep(params["W_out"])}
        if dynamic:
            scale, good = next_scale(scale, good, finite, interval)
    return np.array(curve), losses, scales


def ends(share, q, steps=200, seeds=range(3), **how):
    """Nats above the floor after a training (seeds, 2): of all contexts, and the mean of the rare ones."""
    floors, rare, found = entropies(q), (share > 0) & (share < 1e-4), []
    for seed in seeds:
        curve, last, _ = train(initial(seed), share, q, steps, **how)
        found.append((curve[-1] - share @ floors, (last - floors)[rare].mean()))
    return np.array(found)


def deep_curves(share, q, c, rate, N=24, F=64, steps=100, seeds=range(3)):
    """The losses (seeds, steps) of a deep stack with weights of variance c / D_in."""
    starts = (initial(seed, N=N, F=F, c=c) for seed in seeds)
    return np.array([train(params, share, q, steps, rate=rate)[0] for params in starts])
