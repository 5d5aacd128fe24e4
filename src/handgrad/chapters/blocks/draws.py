"""Blocks with random parameters, and what is measured of their gradients."""

import numpy as np
import optree

from handgrad.blocks import encoder_block
from handgrad.config import Config, init
from handgrad.ops import causal_mask

PARTS = ("self_attention_norm", "self_attention")  # a norm and what reads it


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


def tie_gap(backward):
    """How far γ dγ + β dβ of the first norm of an encoder block is from the sum of W dW over its readers."""
    (x, dy, _, mask, _), params = inputs(0), parameters("encoder", 0)
    _, grads = backward(dy, encoder_block(x, params, 2, "pre", mask, activation="gelu")[1])
    own, read = ({n: p * grads[part][n] for n, p in params[part].items()} for part in PARTS)
    ours = own["gamma"] + own["beta"]
    theirs = sum(read[name].sum(axis=1) for name in ("W_Q", "W_K", "W_V"))
    return np.abs(ours - theirs).max() / np.abs(theirs).max()
