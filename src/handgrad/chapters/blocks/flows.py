"""Whole blocks with random parameters, and the size of the gradient on every edge of a block."""

import numpy as np
import optree

from handgrad import model
from handgrad.blocks import (
    cross_attend_backward,
    decoder_block,
    decoder_block_backward,
    encoder_block,
    normalize_backward,
    self_attend_backward,
    transform_backward,
)
from handgrad.config import Config, init
from handgrad.ops import causal_mask, layer_norm

PARTS = ("feed-forward", "cross-attention", "self-attention")  # in the order of the backward
CACHES = {"self-attention": "attended", "cross-attention": "crossed", "feed-forward": "transformed"}
BACKWARDS = {
    "self-attention": self_attend_backward,
    "cross-attention": cross_attend_backward,
    "feed-forward": transform_backward,
}


def draw(kind, seed, D=16, H=2, F=24, spread=0.5):
    """The parameters of one "encoder" or "decoder" block: matrices as they are drawn, the rest at random.

    γ is N(1, spread²), β and all biases are N(0, spread²).
    """
    rng = np.random.default_rng(seed)
    config = Config("encoder-decoder", 9, D, H, F, 1)

    def moved(path, p):
        return p + spread * rng.standard_normal(p.shape) if p.ndim == 1 else p

    block = init(config, rng, np.float64)[kind][0]
    return optree.tree_map_with_path(moved, block)


def inputs(seed, B=2, T=7, S=5, D=16):
    """x and dy (B, T, D), memory (B, S, D), and masks: causal, and padding (B, 1, 1, S) anywhere."""
    rng = np.random.default_rng([seed, 1])
    x, dy = rng.standard_normal((2, B, T, D))
    real = rng.random((B, S)) < 0.6
    real[np.arange(B), rng.integers(S, size=B)] = True  # somebody is there
    real[0, 0], real[0, 1:3] = False, True
    return x, rng.standard_normal((B, S, D)), dy, causal_mask(T), real[:, None, None]


def decoder(norm, seed, activation="gelu"):
    """(y, cache, dy): one decoder block with random parameters, and what arrives."""
    x, memory, dy, mask, memory_mask = inputs(seed)
    how = dict(norm=norm, mask=mask, memory_mask=memory_mask, activation=activation)
    y, cache = decoder_block(x, memory, draw("decoder", seed), 2, **how)
    return y, cache, dy


def size(array):
    """The root of the mean square of all entries."""
    return float(np.sqrt(np.mean(np.square(array))))


def edges(norm, seed):
    """The size of the gradient on every edge of a decoder block, and the arrays that come out of it.

    A dictionary for each sub-layer, the last one first: dy arrives; du stands at the plus sign and goes on
    along the connection; do is what f receives, dh what it returns, back what comes to x from the branch, dx
    the sum; dmemory in cross-attention.
    """
    _, cache, dy = decoder(norm, seed)
    found, arrays = [], {}
    for part in PARTS:
        kept, at = cache[CACHES[part]], {"dy": dy}
        at["du"] = normalize_backward(dy, kept["post"])[0] if norm == "post" else dy
        at["do"] = normalize_backward(dy, kept["output"])[0] if norm == "output" else at["du"]
        at["dh"], _, *others = BACKWARDS[part](at["do"], kept["f"])
        at["back"] = normalize_backward(at["dh"], kept["pre"])[0] if norm == "pre" else at["dh"]
        at["dx"] = dy = at["du"] + at["back"]
        if others:
            at["dmemory"] = arrays["dmemory"] = others[0]
        found.append({name: size(array) for name, array in at.items()})
    return found, arrays | {"dx": dy}


def shipped(norm, seed):
    """dx and dmemory of the same block by `decoder_block_backward`."""
    _, cache, dy = decoder(norm, seed)
    dx, dmemory, _ = decoder_block_backward(dy, cache)
    return {"dmemory": dmemory, "dx": dx}


def along(norm, seeds):
    """For each seed: what the connections alone leave of the size of dy, and the size of dmemory."""
    kept, of_memory = [], []
    for seed in seeds:
        _, cache, dy = decoder(norm, seed)
        along, (parts, _) = dy, edges(norm, seed)
        for part in PARTS if norm == "post" else ():
            along = normalize_backward(along, cache[CACHES[part]]["post"])[0]
        kept.append(size(along) / size(dy))
        of_memory.append(parts[1]["dmemory"] / size(dy))
    return np.array(kept), np.array(of_memory)


def errors(backward, norm, seed):
    """Largest relative errors of a backward of the block: of the parameters of each part, of dx, of dmemory.

    Each in units of the largest entry of its array. An array that is 0 by symmetry, such as the gradient of
    the bias of the keys, is left out.
    """
    _, cache, dy = decoder(norm, seed)
    (dx, dmemory, grads), (right_dx, right_dmemory, right) = (
        f(dy, cache) for f in (backward, decoder_block_backward)
    )

    def error(got, wanted):
        pairs = zip(optree.tree_leaves(got), optree.tree_leaves(wanted), strict=True)
        leaves = [(a, b) for a, b in pairs if np.abs(b).max() > 1e-10]
        return max(np.abs(a - b).max() / np.abs(b).max() for a, b in leaves)

    def of(part):
        both = [part.replace("-", "_") + ending for ending in ("", "_norm")]
        return error(*([tree[name] for name in both] for tree in (grads, right)))

    return [*map(of, PARTS), error(dx, right_dx), error(dmemory, right_dmemory)]


# What a parameter hears -------------------------------------------------------------------------------------


def gradients(norm, seed, scale=1.0, backward=decoder_block_backward):
    """(params, grads) of a decoder block without ε; W_2 and b_2 of its feed-forward layer times `scale`."""
    x, memory, dy, mask, memory_mask = inputs(seed)
    params = draw("decoder", seed)
    for name in ("W_2", "b_2"):
        params["feed_forward"][name] = scale * params["feed_forward"][name]
    how = dict(norm=norm, mask=mask, memory_mask=memory_mask, activation="gelu", eps=0.0)
    _, cache = decoder_block(x, memory, params, 2, **how)
    return params, backward(dy, cache)[2]


def columns(params, grads, place=None):
    """The largest sum of a row of dW_2 over the features, relative to the sum of its sizes."""
    dW_2 = grads["feed_forward"]["W_2"]
    return float(np.max(np.abs(dW_2.sum(axis=1)) / np.abs(dW_2).sum(axis=1)))


def radial(params, grads, place=None):
    """The share of (dW_2, db_2) that lies along (W_2, b_2): a cosine."""
    ours, theirs = ([tree["feed_forward"][name] for name in ("W_2", "b_2")] for tree in (params, grads))
    inner = sum(np.vdot(a, b) for a, b in zip(ours, theirs, strict=True))
    lengths = [np.sqrt(sum(np.vdot(a, a) for a in arrays)) for arrays in (ours, theirs)]
    return float(abs(inner) / np.prod(lengths))


def broken(backward, norm, seed):
    """How many of the identities of this section hold for the shipped gradients and not for those."""
    right, wrong = gradients(norm, seed), gradients(norm, seed, backward=backward)
    return sum(measure(*right, norm) < 1e-12 < measure(*wrong, norm) for measure in (columns, radial, tie))


READ_BY = {
    "pre": {
        "self_attention_norm": ("self_attention", "W_Q", "W_K", "W_V"),
        "cross_attention_norm": ("cross_attention", "W_Q"),
        "feed_forward_norm": ("feed_forward", "W_1"),
    },
    "post": {
        "self_attention_norm": ("cross_attention", "W_Q"),
        "cross_attention_norm": ("feed_forward", "W_1"),
    },
    "output": {},
}
"""For each placement: the norms whose result is multiplied by matrices of the block, and these matrices."""


def tie(params, grads, place):
    """How far γ dγ + β dβ is from the sum of W dW over the readers of each feature, relative, at worst.

    NaN if no norm of this placement has readers.
    """
    worst = 0.0 if READ_BY[place] else np.nan
    for of, (part, *names) in READ_BY[place].items():
        norm, dnorm = params[of], grads[of]
        ours = norm["gamma"] * dnorm["gamma"] + norm["beta"] * dnorm["beta"]
        theirs = sum((params[part][name] * grads[part][name]).sum(axis=1) for name in names)
        worst = max(worst, np.abs(ours - theirs).max() / np.abs(theirs).max())
    return float(worst)


def in_a_model(norm, seed, times=1.0, B=2, T=7):
    """dW_2 of the first block in a whole decoder-only model of two blocks, whose W_2 and b_2 are multiplied.

    Random γ, β and biases, no ε; with pre-norm the model ends in a norm.
    """
    rng = np.random.default_rng(seed)
    sizes = dict(V=9, D=16, H=2, F=24, N=2)
    config = Config("decoder", **sizes, norm=norm, final_norm=norm == "pre", activation="gelu", eps=0.0)
    params = optree.tree_map(
        lambda p: p + 0.5 * rng.standard_normal(p.shape) if p.ndim == 1 else p, init(config, rng, np.float64)
    )
    layer = params["decoder"][0]["feed_forward"]
    layer |= {name: times * layer[name] for name in ("W_2", "b_2")}
    tokens = rng.integers(config.V, size=(B, T + 1))
    batch = {"tokens": tokens[:, :-1], "target_out": tokens[:, 1:]}
    return model.loss_and_gradients(params, config, batch)[1]["decoder"][0]["feed_forward"]["W_2"]


def heard(times, norm, seeds):
    """By what the length of dW_2 in a whole model is multiplied when W_2 and b_2 are: one number a seed."""
    lengths = [[np.linalg.norm(in_a_model(norm, seed, c)) for c in (times, 1.0)] for seed in seeds]
    return np.array([a / b for a, b in lengths])


def unread(N, final, seed, B=2, T=7, S=9, D=32, H=4):
    """What a decoder makes of the memory of a fresh pre-norm encoder of N blocks: three numbers.

    The size of the memory, the mean largest weight of cross-attention, and the size of what returns to the
    memory, divided by that of dy. final: whether the encoder ends in a norm.
    """
    rng = np.random.default_rng(seed)
    params = init(Config("encoder-decoder", 9, D, H, 2 * D, N, norm="pre"), rng, np.float64)
    x, dy = rng.standard_normal((2, B, T, D))
    memory = rng.standard_normal((B, S, D))
    for block in params["encoder"]:
        memory, _ = encoder_block(memory, block, H, "pre", activation="gelu")
    if final:
        memory, _ = layer_norm(memory, np.ones(D), np.zeros(D))
    _, cache = decoder_block(x, memory, params["decoder"][0], H, "pre", causal_mask(T), activation="gelu")
    largest = cache["crossed"]["f"]["attended"]["a"].max(axis=-1).mean()
    return size(memory), largest, size(decoder_block_backward(dy, cache)[1]) / size(dy)
