"""Stacks of decoder blocks that read one memory, and what each block returns for it."""

import numpy as np

from handgrad.blocks import decoder_block, decoder_block_backward, transform, transform_backward
from handgrad.config import Config, init
from handgrad.ops import causal_mask, multi_head, multi_head_backward


def stack(norm, N, seed, B=2, T=7, S=9, D=32, H=4):
    """(f, memory, dy): a function f(memory) -> y (B, T, D), caches of N fresh blocks; memory (B, S, D)."""
    rng = np.random.default_rng(seed)
    blocks = init(Config("encoder-decoder", 9, D, H, 2 * D, N, norm=norm), rng, np.float64)["decoder"]
    x, dy = rng.standard_normal((2, B, T, D))

    def f(memory):
        y, caches = x, []
        for block in blocks:
            y, cache = decoder_block(y, memory, block, H, norm, mask=causal_mask(T))
            caches.append(cache)
        return y, caches

    return f, rng.standard_normal((B, S, D)), dy


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
