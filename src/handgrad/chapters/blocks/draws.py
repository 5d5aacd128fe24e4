"""Blocks with random parameters, and what is measured of their gradients."""

import numpy as np
import optree

from handgrad.blocks import decoder_block, decoder_block_backward
from handgrad.config import Config, init
from handgrad.ops import causal_mask

PARTS = ("feed_forward", "cross_attention", "self_attention")  # in the order of the backward


def parameters(kind, seed, D=16, H=2, F=24, spread=0.5):
    """The parameters of one "encoder" or "decoder" block: γ is N(1, spread²), β and biases N(0, spread²)."""
    rng = np.random.default_rng(seed)
    block = init(Config("encoder-decoder", 9, D, H, F, 1), rng, np.float64)[kind][0]
    return optree.tree_map(lambda p: p + spread * rng.standard_normal(p.shape) if p.ndim == 1 else p, block)


def inputs(seed, B=2, T=7, S=5, D=16):
    """x and dy (B, T, D), memory (B, S, D), and masks: causal, and padding (B, 1, 1, S) anywhere."""
    rng = np.random.default_rng([seed, 1])
    x, dy = rng.standard_normal((2, B, T, D))
    seen = rng.random((B, S)) < 0.6
    seen[:, 1], seen[0, 0] = True, False
    return x, dy, rng.standard_normal((B, S, D)), causal_mask(T), seen[:, None, None]


def decoder(place, seed, eps=1e-5):
    """dy and the cache of a decoder block with random parameters."""
    x, dy, memory, mask, seen = inputs(seed)
    params = parameters("decoder", seed)
    return dy, decoder_block(x, memory, params, 2, place, mask, seen, "gelu", eps=eps)[1]


def errors(got, right):
    """Largest relative errors of (dx, dmemory, grads): of the parameters of each part, of dx, of dmemory.

    Each in units of the largest entry of its array. An array that is 0 by symmetry, such as the gradient of
    the bias of the keys, is left out.
    """

    def error(ours, wanted):
        pairs = zip(optree.tree_leaves(ours), optree.tree_leaves(wanted), strict=True)
        return max(np.abs(a - b).max() / np.abs(b).max() for a, b in pairs if np.abs(b).max() > 1e-10)

    both = [[[grads[part], grads[f"{part}_norm"]] for part in PARTS] for *_, grads in (got, right)]
    return [*map(error, *both), error(got[0], right[0]), error(got[1], right[1])]


def zeros(place, seed, backward=decoder_block_backward):
    """What is 0 by symmetry in some placement, of a decoder block without ε; see the second reading.

    The largest sum of a row of dW_2, relative to the sum of its sizes; the cosine of (dW_2, db_2) and
    (W_2, b_2); how far γ dγ + β dβ of the first norm is from the sum of W dW over the readers.
    """
    params, grads = parameters("decoder", seed), backward(*decoder(place, seed, eps=0.0))[2]
    W, dW = (np.vstack([t["feed_forward"][n] for n in ("W_2", "b_2")]) for t in (params, grads))
    norm, dnorm = (tree["self_attention_norm"] for tree in (params, grads))
    ours = sum(norm[name] * dnorm[name] for name in norm)
    read, dread = (tree["self_attention"] for tree in (params, grads))
    theirs = sum((read[name] * dread[name]).sum(axis=1) for name in ("W_Q", "W_K", "W_V"))
    return {
        "row sum": np.max(np.abs(dW.sum(axis=1)) / np.abs(dW).sum(axis=1)),
        "along W": abs(np.vdot(W, dW)) / np.linalg.norm(W) / np.linalg.norm(dW),
        "shared scale": np.abs(ours - theirs).max() / np.abs(theirs).max(),
    }
