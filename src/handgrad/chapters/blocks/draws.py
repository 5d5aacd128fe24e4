"""Random parameters and inputs of one block."""

import numpy as np
import optree

from handgrad.config import Config, init
from handgrad.ops import causal_mask


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
