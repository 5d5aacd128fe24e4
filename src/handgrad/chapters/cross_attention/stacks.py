"""Stacks of decoder blocks that read one memory, and what each block returns for it."""

import numpy as np

from handgrad.blocks import decoder_block, decoder_block_backward, transform, transform_backward
from handgrad.config import Config, init
from handgrad.ops import causal_mask, multi_head, multi_head_backward


def stack(norm, N, seed, B=2, T=7, S=9, D=32, H=4):
    """(f, memory, dy, way): f(memory) -> y (B, T, D), caches of N fresh blocks; memory and way (B, S, D).

    The activation is smooth, so that no kink comes between a derivative and a difference.
    """
    rng = np.random.default_rng(seed)
    blocks = init(Config("encoder-decoder", 9, D, H, 2 * D, N, norm=norm), rng, np.float64)["decoder"]
    x, dy = rng.standard_normal((2, B, T, D))

    def f(memory):
        y, caches = x, []
        for block in blocks:
            y, cache = decoder_block(y, memory, block, H, norm, mask=causal_mask(T), activation="gelu")
            caches.append(cache)
        return y, caches

    memory, way = rng.standard_normal((2, B, S, D))
    return f, memory, dy, way


def returned(caches, dy):
    """What each block returns for the memory, (N, B, S, D)."""
    parts = []
    for cache in reversed(caches):
        dy, dmemory, _ = decoder_block_backward(dy, cache)
        parts.insert(0, dmemory)
    return np.stack(parts)


def measured(f, memory, dy, direction, h=1e-5):
    """The central difference of ⟨dy, f(memory)⟩ along a direction."""
    ends = [np.sum(dy * f(memory + step * direction)[0]) for step in (h, -h)]
    return (ends[0] - ends[1]) / (2 * h)


def hears(T, S, row, D=8, H=2):
    """{sub-layer: (targets, sources)} that get a gradient if one arrives in one row of its output only."""
    rng = np.random.default_rng(0)
    own = init(Config("encoder-decoder", 9, D, H, 2 * D, 1), rng, np.float64)["decoder"][0]
    x, memory, dy = (rng.standard_normal((1, rows, D)) for rows in (T, S, T))
    dy[:, np.arange(T) != row] = 0

    def rows(gradient):
        return np.flatnonzero(gradient.any(axis=(0, 2))).tolist()

    _, cache = multi_head(x, x, own["self_attention"], H, mask=causal_mask(T))
    asks, is_asked, _ = multi_head_backward(dy, cache)
    _, cache = multi_head(x, memory, own["cross_attention"], H)
    crossed, read, _ = multi_head_backward(dy, cache)
    _, cache = transform(x, own["feed_forward"])
    return {
        "self-attention": (rows(asks + is_asked), []),
        "cross-attention": (rows(crossed), rows(read)),
        "feed-forward": (rows(transform_backward(dy, cache)[0]), []),
    }


def lengths(parts, norm):
    """The norms (seeds, N) of what the blocks returned: parts {(norm, seed): (N, B, S, D)}."""
    of_norm = [part for (placed, _), part in parts.items() if placed == norm]
    return np.sqrt(np.square(of_norm).sum(axis=(2, 3, 4)))


def sums(norm, N, draws=10):
    """The norm of the memory's whole gradient, in some draws of a stack: (draws,)."""
    fresh = [stack(norm, N, seed) for seed in range(draws)]
    return np.array([np.linalg.norm(returned(f(memory)[1], dy).sum(axis=0)) for f, memory, dy, _ in fresh])


def leaks(mask, is_pad, D=8, H=2):
    """How far an output moves with what stands in padded sources, and the largest gradient that they get.

    mask: as for multi_head, T = S; is_pad (B, S), true at padding.
    """
    rng = np.random.default_rng(2)
    x, memory, dy, other = rng.standard_normal((4, *is_pad.shape, D))
    params = {name: rng.standard_normal((D, D)) / 3 for name in ("W_Q", "W_K", "W_V", "W_O")}
    y, cache = multi_head(x, memory, params, H, mask=mask)
    moved, _ = multi_head(x, np.where(is_pad[..., None], other, memory), params, H, mask=mask)
    return np.abs(moved - y).max(), np.abs(multi_head_backward(dy, cache)[1][is_pad]).max()
