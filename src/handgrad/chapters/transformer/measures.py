"""What chapter 13 counts and times in real runs, multiply-adds, bytes and seconds; one model, switched."""

from time import perf_counter

import numpy as np
import optree

from handgrad import accounting, model
from handgrad.blocks import encoder_block, transform
from handgrad.config import Config, init, vaswani_base
from handgrad.ops import attention, linear, merge_heads, split_heads

BOXES = ("own source table", "own head matrix", "attention biases", "feed-forward biases", "final norms")
"""What can be switched on, beginning from a base Transformer with one table, no biases and no final norm."""


def switched(on):
    """The base Transformer with the boxes that are on."""
    own_source, own_head, attention_biases, feed_forward_biases, final_norm = map(bool, on)
    return vaswani_base(
        shared=not own_source,
        tied=not own_head,
        attention_biases=attention_biases,
        feed_forward_biases=feed_forward_biases,
        final_norm=final_norm,
    )


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


def seconds(T, D, H, F, repeats=5):
    """Seconds of one block's forward in float32: scores and sums with their softmax; and all products else.

    The least of `repeats` runs each, in turn, so that what else the machine does disturbs both alike.
    """
    rng = np.random.default_rng(0)
    own = init(Config("encoder", V=2, D=D, H=H, F=F, N=1), rng, np.float32)["encoder"][0]
    x = rng.standard_normal((1, T, D), dtype=np.float32)
    q, k, v = (split_heads(x @ own["self_attention"][W], H)[0] for W in ("W_Q", "W_K", "W_V"))

    def rest():
        for W in ("W_Q", "W_K", "W_V", "W_O"):
            linear(x, own["self_attention"][W])
        merge_heads(q)
        transform(x, own["feed_forward"])

    def timed(f):
        start = perf_counter()
        f()
        return perf_counter() - start

    return np.min([[timed(f) for f in (lambda: attention(q, k, v), rest)] for _ in range(repeats)], axis=0)
