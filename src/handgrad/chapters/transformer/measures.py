"""What chapter 13 counts in real runs: parameters, multiply-adds, and numbers that are kept."""

import numpy as np
import optree

from handgrad import accounting, model
from handgrad.blocks import encoder_block
from handgrad.chapters.tiles.counting import Counted
from handgrad.config import init


def block_sizes(config):
    """Entries of all arrays of the first block of each stack of an encoder-decoder, counted."""
    params = init(config, np.random.default_rng(0))
    return [sum(w.size for w in optree.tree_leaves(params[k][0])) for k in ("encoder", "decoder")]


def products(config, T, S=None):
    """Multiply-adds of all products of matrices done by one forward and by its backward: two numbers."""
    rng = np.random.default_rng(0)
    params = optree.tree_map(lambda w: w.view(Counted), init(config, rng))
    row = rng.integers(config.V, size=(1, T))
    both = {"source": rng.integers(config.V, size=(1, S or 1)), "target_in": row}
    Counted.multiply_adds = 0
    z, cache = model.forward(params, config, both if config.kind == "encoder-decoder" else {"tokens": row})
    forward = Counted.multiply_adds
    model.backward(np.ones_like(z), cache)
    return forward, Counted.multiply_adds - forward


def kept(config, T):
    """Numbers that one encoder block keeps: attention weights, and all else but parameters."""
    own = init(config, np.random.default_rng(0))["encoder"][0]
    _, cache = encoder_block(np.random.default_rng(1).standard_normal((1, T, config.D)), own, config.H)
    held = [w for w in optree.tree_leaves(own) if w.ndim == 2]  # matrices; and γ, of the two norms
    parameters = sum(w.size for w in held) + 2 * config.D
    weights = cache["attended"]["f"]["attended"]["a"].size
    return weights, accounting.cache_bytes(cache) // 8 - parameters - weights
