"""What chapter 13 counts in real runs: parameters, multiply-adds, and numbers that are kept."""

import numpy as np
import optree

from handgrad import accounting, model
from handgrad.blocks import encoder_block
from handgrad.config import init


def block_sizes(config):
    """Entries of all arrays of the first block of each stack of an encoder-decoder, counted."""
    params = init(config, np.random.default_rng(0))
    return [sum(w.size for w in optree.tree_leaves(params[k][0])) for k in ("encoder", "decoder")]


def products(config, T, S=None):
    """Multiply-adds of all products of matrices done by one forward and by its backward: two numbers.

    The parameters are arrays that note each product they take part in, and hand that on to the results.
    """
    done = []

    class Noting(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
            inputs = [plain(x) for x in inputs]
            if out is not None:
                options["out"] = tuple(map(plain, out))
            y = getattr(ufunc, method)(*inputs, **options)
            if ufunc is np.matmul:
                done.append(y.size * inputs[0].shape[-1])
            return y.view(Noting) if isinstance(y, np.ndarray) else y

        def __array_function__(self, function, types, inputs, options):
            y = super().__array_function__(function, types, inputs, options)
            return y.view(Noting) if isinstance(y, np.ndarray) else y

    def plain(x):
        return x.view(np.ndarray) if isinstance(x, Noting) else x

    rng = np.random.default_rng(0)
    params = optree.tree_map(lambda w: w.view(Noting), init(config, rng))
    row = rng.integers(config.V, size=(1, T))
    both = {"source": rng.integers(config.V, size=(1, S or 1)), "target_in": row}
    z, cache = model.forward(params, config, both if config.kind == "encoder-decoder" else {"tokens": row})
    forward = sum(done)
    model.backward(np.ones_like(z), cache)
    return forward, sum(done) - forward


def kept(config, T):
    """Numbers that one encoder block keeps: attention weights, and all else but parameters."""
    own = init(config, np.random.default_rng(0))["encoder"][0]
    _, cache = encoder_block(np.random.default_rng(1).standard_normal((1, T, config.D)), own, config.H)
    held = [w for w in optree.tree_leaves(own) if w.ndim == 2]  # matrices; and γ, of the two norms
    parameters = sum(w.size for w in held) + 2 * config.D
    weights = cache["attended"]["f"]["attended"]["a"].size
    return weights, accounting.cache_bytes(cache) // 8 - parameters - weights
