"""What chapter 20 tries: a stack of blocks."""

import numpy as np

from ...blocks import encoder_block
from ...config import gpt2_small, init
from ...ops import causal_mask


def deep_stack(N=8, D=16, T=12):
    """N blocks, an input and an upstream gradient (3, T, D), and through(x, blocks) -> y, caches."""
    config = gpt2_small(V=11, D=D, H=2, F=4 * D, N=N, T_max=T, p=0.0)
    blocks = init(config, np.random.default_rng(0), np.float64)["decoder"]
    settings = dict(H=2, norm="pre", mask=causal_mask(T), activation="gelu_tanh")

    def through(x, some):
        caches = []
        for block in some:
            x, cache = encoder_block(x, block, **settings)
            caches.append(cache)
        return x, caches

    return blocks, *np.random.default_rng(1).standard_normal((2, 3, T, D)), through
