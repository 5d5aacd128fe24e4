"""A decoder-only model whose mask can be any array, and can be put in the wrong place.

The parameters are those of `handgrad.config` for the kind "decoder", and so are all parts but one: attention
is `masked_first`, the shipped one, or `masked_last`, a formula in print that masks after the softmax.
"""

import numpy as np

from ... import model
from ...blocks import (
    normalize,
    normalize_backward,
    sublayer,
    sublayer_backward,
    transform,
    transform_backward,
)
from ...ops import (
    attention,
    attention_backward,
    cross_entropy,
    cross_entropy_backward,
    linear,
    linear_backward,
    merge_heads,
    merge_heads_backward,
    split_heads,
    split_heads_backward,
)


def masked_last(q, k, v, mask=None):
    """q (..., T, K), k (..., S, K), v (..., S, E) -> y (..., T, E), cache: masked too late."""
    _, cache = attention(q, k, v)
    kept = cache["a"] if mask is None else np.where(mask, cache["a"], 0.0)  # (..., T, S)
    return kept @ v, cache | {"a": kept, "before": cache["a"], "mask": mask}


def masked_last_backward(dy, cache):
    """dy (..., T, E) -> dq, dk, dv: the right gradient of the wrong function."""
    p, k, q = cache["before"], cache["k"], cache["q"]
    dv = cache["a"].mT @ dy
    dp = dy @ cache["v"].mT  # (..., T, S)
    dp = dp if cache["mask"] is None else np.where(cache["mask"], dp, 0.0)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    return cache["scale"] * (ds @ k), cache["scale"] * (ds.mT @ q), dv


FIRST = (attention, attention_backward)
LAST = (masked_last, masked_last_backward)


def attend(h, params, H, mask, pair=FIRST):
    """h (B, T, D) -> y (B, T, D), cache: self-attention of H heads, by a pair of forward and backward."""
    names, kept = ("Q", "K", "V"), {"pair": pair}
    parts = []
    for name in names:
        x, kept[name] = linear(h, params[f"W_{name}"], params[f"b_{name}"])
        x, kept[f"split_{name}"] = split_heads(x, H)
        parts.append(x)
    y, kept["attended"] = pair[0](*parts, mask)
    y, kept["merged"] = merge_heads(y)
    y, kept["O"] = linear(y, params["W_O"], params["b_O"])
    return y, kept


def attend_backward(dy, cache):
    """dy (B, T, D) -> dx (B, T, D), dparams."""
    grads = {}
    dy, grads["W_O"], grads["b_O"] = linear_backward(dy, cache["O"])
    parts = cache["pair"][1](merge_heads_backward(dy, cache["merged"]), cache["attended"])
    dx = 0
    for name, dpart in zip("QKV", parts, strict=True):
        dpart = split_heads_backward(dpart, cache[f"split_{name}"])
        dh, grads[f"W_{name}"], grads[f"b_{name}"] = linear_backward(dpart, cache[name])
        dx = dx + dh  # x is used three times
    return dx, grads


def blocks(x, params, config, mask, pair=FIRST):
    """x (B, T, D) -> y (B, T, D), cache: the N blocks and the last norm."""
    caches = []

    def f(part):
        return lambda h: attend(h, part, config.H, mask, pair)

    def g(part):
        return lambda h: transform(h, part, config.activation)

    for block in params["decoder"]:
        x, one = sublayer(
            x, f(block["self_attention"]), block["self_attention_norm"], config.norm, config.eps
        )
        x, two = sublayer(x, g(block["feed_forward"]), block["feed_forward_norm"], config.norm, config.eps)
        caches.append((one, two))
    y, normed = normalize(x, params["decoder_norm"], config.eps)
    return y, (caches, normed)


def blocks_backward(dy, cache):
    """dy (B, T, D) -> dx (B, T, D), grads {decoder, decoder_norm}."""
    grads, (caches, normed) = {"decoder": []}, cache
    dx, grads["decoder_norm"] = normalize_backward(dy, normed)
    for one, two in reversed(caches):
        own = {}
        dx, own["feed_forward_norm"], own["feed_forward"] = sublayer_backward(dx, two, transform_backward)
        dx, own["self_attention_norm"], own["self_attention"] = sublayer_backward(dx, one, attend_backward)
        grads["decoder"].insert(0, own)
    return dx, grads


def logits(params, config, tokens, mask, pair=FIRST):
    """tokens (B, T) -> logits (B, T, V), cache."""
    x, embedded = model.embed(tokens, params["embedding"], None, config, None)
    x, stacked = blocks(x, params, config, mask, pair)
    z, headed = model.head(x, params, config)
    return z, (embedded, stacked, headed)


def loss_and_gradients(params, config, batch, mask, pair=FIRST):
    """The mean cross-entropy over the targets that are not padding, and its gradients, a tree like params."""
    z, (embedded, stacked, headed) = logits(params, config, batch["tokens"], mask, pair)
    loss, counted = cross_entropy(z, batch["target_out"], config.ignore_index)
    dx, _, grads = model.head_backward(cross_entropy_backward(1.0, counted), headed)
    dx, of_blocks = blocks_backward(dx, stacked)
    grads |= of_blocks
    grads["embedding"], _ = model.embed_backward(dx, embedded)
    return loss, {name: part for name, part in grads.items() if part}
