r"""Blocks: sub-layers with a residual connection around each, in three norm placements.

    post      y = norm(x + f(x))         Vaswani et al. (2017), section 3.1
    pre       y = x + f(norm(x))         Radford et al. (2019), section 2.3; Xiong et al. (2020), section 3
    output    y = x + norm(f(x))         Liu et al. (2022), section 3.2

An encoder block is two sub-layers, self-attention and feed-forward; a decoder block has cross-attention
between them. Each backward is its forward read from the bottom line to the top line.

The parameters say which operation is meant: a norm with a `beta` is LayerNorm and one without is RMSNorm.
Dropout has four sites. `draw_keep` is a function from a shape to a Boolean array, called at each site in the
order in which data passes; it is None without dropout.
"""

from .algebra import check_names
from .ops import (
    GATED,
    dropout,
    dropout_backward,
    feed_forward,
    feed_forward_backward,
    gated_feed_forward,
    gated_feed_forward_backward,
    layer_norm,
    layer_norm_backward,
    multi_head,
    multi_head_backward,
    rms_norm,
    rms_norm_backward,
)

PLACEMENTS = ("post", "pre", "output")
SITES = ("embedding", "attention", "hidden", "sublayer")
"""The dropout sites: the sum of embeddings and positions, the attention weights, the hidden activations of
the feed-forward layer, and the output of each sub-layer before it is added to the residual stream."""


def normalize(x, params, eps=1e-5):
    """x (..., D), params {gamma, beta} or {gamma} -> y (..., D), cache: LayerNorm or RMSNorm."""
    check_names("params", params, ("gamma",), ("beta",))
    if "beta" in params:
        return layer_norm(x, params["gamma"], params["beta"], eps)
    return rms_norm(x, params["gamma"], eps)


def normalize_backward(dy, cache):
    """dy (..., D) -> dx (..., D), dparams."""
    if "inverse_std" in cache:
        dx, dgamma, dbeta = layer_norm_backward(dy, cache)
        return dx, {"gamma": dgamma, "beta": dbeta}
    dx, dgamma = rms_norm_backward(dy, cache)
    return dx, {"gamma": dgamma}


def drop(x, draw_keep, p):
    """x (...) -> y (...), cache: dropout of what the function `draw_keep` keeps for the shape of x."""
    return dropout(x, draw_keep and draw_keep(tuple(x.shape)), p)


def sublayer(x, f, params, norm="post", eps=1e-5, draw_keep=None, p=0.0):
    """One sub-layer f with its norm, dropout and residual connection. x (B, T, D) -> y (B, T, D), cache.

    f: a function from h (B, T, D) to f(h) (B, T, D), cache; params: those of the norm; norm: its place, of
    PLACEMENTS. Dropout acts on f's output. Raises ValueError on another placement.
    """
    if norm not in PLACEMENTS:
        raise ValueError(f"norm: expected one of {PLACEMENTS}, got {norm!r}")
    h, cache = x, {}
    if norm == "pre":
        h, cache["pre"] = normalize(h, params, eps)
    h, cache["f"] = f(h)
    h, cache["dropped"] = drop(h, draw_keep, p)
    if norm == "output":
        h, cache["output"] = normalize(h, params, eps)
    y = x + h
    if norm == "post":
        y, cache["post"] = normalize(y, params, eps)
    return y, cache


def sublayer_backward(dy, cache, f_backward):
    """dy (B, T, D) -> dx (B, T, D), dparams of the norm, then what f_backward returns after its own dx."""
    if "post" in cache:
        dy, dparams = normalize_backward(dy, cache["post"])
    dh = dy
    if "output" in cache:
        dh, dparams = normalize_backward(dh, cache["output"])
    dh = dropout_backward(dh, cache["dropped"])
    dh, *others = f_backward(dh, cache["f"])
    if "pre" in cache:
        dh, dparams = normalize_backward(dh, cache["pre"])
    return dy + dh, dparams, *others  # x is used twice: by f, and by the connection around f


def draw_at(draw_keep, sites):
    """{site: draw_keep where dropout acts, else None}. Raises ValueError if there is no such site."""
    if isinstance(sites, str) or not set(sites) <= set(SITES):
        raise ValueError(f"sites: expected some of {SITES}, got {sites!r}")
    return {site: draw_keep if site in sites else None for site in SITES}


def attend(h, memory, params, H, *, mask, angles, draw_keep, p):
    """h (B, T, D), memory (B, S, D) -> y (B, T, D), cache: multi-head attention, dropout on its weights."""
    shape = (h.shape[0], H, h.shape[1], memory.shape[1])  # (B, H, T, S)
    keep = draw_keep and draw_keep(shape)
    return multi_head(h, memory, params, H, mask=mask, angles=angles, keep=keep, p=p)


def self_attend_backward(dy, cache):
    """dy (B, T, D) -> dx (B, T, D), dparams."""
    dx, dmemory, dparams = multi_head_backward(dy, cache)
    return dx + dmemory, dparams  # x is used twice: it asks the queries, and it is the memory


def cross_attend_backward(dy, cache):
    """dy (B, T, D) -> dx (B, T, D), dparams, dmemory (B, S, D)."""
    dx, dmemory, dparams = multi_head_backward(dy, cache)
    return dx, dparams, dmemory


def transform(h, params, activation="relu", draw_keep=None, p=0.0):
    """h (B, T, D) -> y (B, T, D), cache: the feed-forward layer, gated if the activation is one of GATED."""
    if activation in GATED:
        return gated_feed_forward(h, params, GATED[activation])
    keep = draw_keep and draw_keep((*h.shape[:-1], params["W_1"].shape[1]))  # (B, T, F)
    return feed_forward(h, params, activation, keep=keep, p=p)


def transform_backward(dy, cache):
    """dy (B, T, D) -> dx (B, T, D), dparams."""
    return gated_feed_forward_backward(dy, cache) if "gate" in cache else feed_forward_backward(dy, cache)


def encoder_block(
    x,
    params,
    H,
    norm="post",
    mask=None,
    activation="relu",
    angles=None,
    eps=1e-5,
    draw_keep=None,
    p=0.0,
    sites=SITES,
):
    """Self-attention and feed-forward. x (B, T, D) -> y (B, T, D), cache.

    params {self_attention, self_attention_norm, feed_forward, feed_forward_norm}; H heads; mask broadcast to
    (B, H, T, T), true where a query may attend; angles: rotary positions; sites: those of SITES where dropout
    acts. With a causal mask this is the block of a decoder-only model.

    Raises ValueError as its operations do.
    """
    at = draw_at(draw_keep, sites)

    def self_attention(h):
        own, draw = params["self_attention"], at["attention"]
        return attend(h, h, own, H, mask=mask, angles=angles, draw_keep=draw, p=p)

    def feed_forward(h):
        return transform(h, params["feed_forward"], activation, draw_keep=at["hidden"], p=p)

    around = {"norm": norm, "eps": eps, "draw_keep": at["sublayer"], "p": p}
    x, attended = sublayer(x, self_attention, params["self_attention_norm"], **around)
    x, transformed = sublayer(x, feed_forward, params["feed_forward_norm"], **around)
    return x, {"attended": attended, "transformed": transformed}


def encoder_block_backward(dy, cache):
    """dy (B, T, D) -> dx (B, T, D), dparams with the keys of params."""
    grads = {}
    dx, grads["feed_forward_norm"], grads["feed_forward"] = sublayer_backward(
        dy, cache["transformed"], transform_backward
    )
    dx, grads["self_attention_norm"], grads["self_attention"] = sublayer_backward(
        dx, cache["attended"], self_attend_backward
    )
    return dx, grads


def decoder_block(
    x,
    memory,
    params,
    H,
    norm="post",
    mask=None,
    memory_mask=None,
    activation="relu",
    angles=None,
    eps=1e-5,
    draw_keep=None,
    p=0.0,
    sites=SITES,
):
    """Self-attention, cross-attention, feed-forward. x (B, T, D), memory (B, S, D) -> y (B, T, D), cache.

    As encoder_block, with cross_attention and cross_attention_norm among the params; mask broadcast to
    (B, H, T, T), causal as a rule, and memory_mask to (B, H, T, S). The memory is taken as it is: a norm
    before the sub-layer acts on x alone.
    """
    at = draw_at(draw_keep, sites)

    def self_attention(h):
        own, draw = params["self_attention"], at["attention"]
        return attend(h, h, own, H, mask=mask, angles=angles, draw_keep=draw, p=p)

    def cross_attention(h):
        own, draw = params["cross_attention"], at["attention"]
        return attend(h, memory, own, H, mask=memory_mask, angles=None, draw_keep=draw, p=p)

    def feed_forward(h):
        return transform(h, params["feed_forward"], activation, draw_keep=at["hidden"], p=p)

    around = {"norm": norm, "eps": eps, "draw_keep": at["sublayer"], "p": p}
    x, attended = sublayer(x, self_attention, params["self_attention_norm"], **around)
    x, crossed = sublayer(x, cross_attention, params["cross_attention_norm"], **around)
    x, transformed = sublayer(x, feed_forward, params["feed_forward_norm"], **around)
    return x, {"attended": attended, "crossed": crossed, "transformed": transformed}


def decoder_block_backward(dy, cache):
    """dy (B, T, D) -> dx (B, T, D), dmemory (B, S, D), dparams with the keys of params."""
    grads = {}
    dx, grads["feed_forward_norm"], grads["feed_forward"] = sublayer_backward(
        dy, cache["transformed"], transform_backward
    )
    dx, grads["cross_attention_norm"], grads["cross_attention"], dmemory = sublayer_backward(
        dx, cache["crossed"], cross_attend_backward
    )
    dx, grads["self_attention_norm"], grads["self_attention"] = sublayer_backward(
        dx, cache["attended"], self_attend_backward
    )
    return dx, dmemory, grads
