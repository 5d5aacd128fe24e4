"""What chapter 13 counts and times in real runs: shapes, multiply-adds, bytes and seconds."""

from time import perf_counter

import numpy as np
import optree

from handgrad import accounting, model
from handgrad.blocks import decoder_block, encoder_block, transform
from handgrad.config import Config, init
from handgrad.ops import attention, causal_mask, linear, merge_heads, split_heads

# Shapes -----------------------------------------------------------------------------------------------------


def of_attention(cache, H):
    """Names and arrays of one attention, read from its cache: input, memory, q, k, v, scores, output."""
    core = cache["attended"]
    return {
        "x, made to queries": cache["from_q"]["x"],
        "what keys and values are made of": cache["from_k"]["x"],
        "Q": cache["from_q"]["x"] @ cache["from_q"]["W"],
        "K": cache["from_k"]["x"] @ cache["from_k"]["W"],
        f"Q in {H} heads": core["q"],
        f"K in {H} heads": core["k"],
        "weights A": core["a"],
        "heads merged": cache["out"]["x"],
    }


def run_block(config, T, S=None, seed=0):
    """The cache and the output of one block of a model, on random rows: T of x and, if S, S of the memory."""
    rng = np.random.default_rng(seed)
    params = init(config, rng)
    x = rng.standard_normal((1, T, config.D))
    if S is None:
        return encoder_block(x, params["encoder"][0], config.H)[::-1]
    memory = rng.standard_normal((1, S, config.D))
    return decoder_block(x, memory, params["decoder"][0], config.H, mask=causal_mask(T))[::-1]


def trace_encoder(config, T):
    """(what, shape) of each step of an encoder block, from the cache of a run, without the batch axis."""
    cache, y = run_block(config, T)
    attended, transformed = cache["attended"], cache["transformed"]
    inner = transformed["f"]
    steps = of_attention(attended["f"], config.H)
    steps.pop("what keys and values are made of")
    steps["norm(x + attention)"] = inner["first"]["x"]
    steps["feed-forward, hidden"] = inner["second"]["x"]
    steps["norm(x + feed-forward)"] = y
    return [(name, array.shape[1:]) for name, array in steps.items()]


def trace_cross(config, T, S):
    """(what, shape) of each step of a decoder's cross-attention, without the batch axis."""
    cache, y = run_block(config, T, S)
    steps = of_attention(cache["crossed"]["f"], config.H)
    steps["the block's output"] = y
    return [(name, array.shape[1:]) for name, array in steps.items()]


# Parameters -------------------------------------------------------------------------------------------------


def block_sizes(config):
    """Entries of all arrays of the first block of each stack of an encoder-decoder, counted."""
    params = init(config, np.random.default_rng(0))
    return [sum(w.size for w in optree.tree_leaves(params[k][0])) for k in ("encoder", "decoder")]


# Multiply-adds ----------------------------------------------------------------------------------------------


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
    z, cache = model.forward(params, config, tokens(config, rng, T, S))
    forward = sum(done)
    model.backward(np.ones_like(z), cache)
    return forward, sum(done) - forward


def tokens(config, rng, T, S=None):
    """Random inputs of one sequence."""
    row = rng.integers(config.V, size=(1, T))
    if config.kind == "encoder-decoder":
        return {"source": rng.integers(config.V, size=(1, S)), "target_in": row}
    return {"tokens": row}


# Bytes ------------------------------------------------------------------------------------------------------


def kept(config, T):
    """Numbers that one encoder block keeps: attention weights, and all else but parameters."""
    cache, _ = run_block(config, T)
    own = init(config, np.random.default_rng(0))["encoder"][0]
    held = [w for w in optree.tree_leaves(own) if w.ndim == 2]  # matrices; and γ, of the two norms
    parameters = sum(w.size for w in held) + 2 * config.D
    weights = cache["attended"]["f"]["attended"]["a"].size
    return weights, accounting.cache_bytes(cache) // 8 - parameters - weights


# Seconds ----------------------------------------------------------------------------------------------------


def seconds(T, D, H, F, repeats=5):
    """Seconds of one block's forward in float32: scores and sums with their softmax; and all products else.

    The least of `repeats` runs each, in turn, so that what else the machine does disturbs both alike.
    """
    rng = np.random.default_rng(0)
    config = Config("encoder", V=2, D=D, H=H, F=F, N=1)
    own = init(config, rng, np.float32)["encoder"][0]
    x = rng.standard_normal((1, T, D), dtype=np.float32)
    q, k, v = (split_heads(x @ own["self_attention"][W], H)[0] for W in ("W_Q", "W_K", "W_V"))

    def square():
        return attention(q, k, v)

    def rest():
        for W in ("W_Q", "W_K", "W_V", "W_O"):
            linear(x, own["self_attention"][W])
        merge_heads(q)
        transform(x, own["feed_forward"])

    times = [[timed(f) for f in (square, rest)] for _ in range(repeats)]
    return np.min(times, axis=0)


def timed(f):
    start = perf_counter()
    f()
    return perf_counter() - start
