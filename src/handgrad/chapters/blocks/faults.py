"""Backwards of a decoder and an encoder block with one fault each, as one writes them by mistake."""

import numpy as np
import optree

from handgrad import blocks
from handgrad.blocks import (
    cross_attend_backward,
    normalize_backward,
    self_attend_backward,
    transform_backward,
)
from handgrad.chapters.blocks import flows
from handgrad.ops import dropout_backward, multi_head_backward

FAULTS = {
    "memory half": "self-attention returns what came through the queries only",
    "dmemory": "cross-attention returns 0 for the memory",
    "connection": "what came along the connection is not added",
    "branch": "what came through the branch is not added",
    "norm": "the gradient passes the norm unchanged",
    "wrong side": "the connection joins on the wrong side of the norm",
}


def sublayer_backward(dy, cache, f_backward, fault=None):
    """As `blocks.sublayer_backward`, with a fault of FAULTS or none."""
    du, arrived = dy, dy
    if "post" in cache:
        du, dparams = normalize_backward(dy, cache["post"])
    du = arrived if fault == "norm" else du
    dh = du
    if "output" in cache:
        dh, dparams = normalize_backward(dh, cache["output"])
        dh = du if fault == "norm" else dh
    do = dh
    dh = dropout_backward(dh, cache["dropped"])
    dh, *others = f_backward(dh, cache["f"])
    along = du
    if fault == "wrong side":
        along = {"post": arrived, "output": do}.get(next(p for p in ("post", "output", "pre") if p in cache))
    if "pre" in cache:
        through, dparams = normalize_backward(dh, cache["pre"])
        if fault == "wrong side":  # added before the norm, so the sum passes it
            through, dparams = normalize_backward(du + dh, cache["pre"])
            along = 0 * du
        dh = dh if fault == "norm" else through
    if fault == "connection":
        along = 0 * du
    if fault == "branch":
        dh = 0 * dh
    return along + dh, dparams, *others


def self_backward(dy, cache, fault=None):
    if fault != "memory half":
        return self_attend_backward(dy, cache)
    dx, _, dparams = multi_head_backward(dy, cache)
    return dx, dparams


def cross_backward(dy, cache, fault=None):
    dx, dparams, dmemory = cross_attend_backward(dy, cache)
    return dx, dparams, 0 * dmemory if fault == "dmemory" else dmemory


def decoder_block_backward(dy, cache, fault=None):
    """dy -> dx, dmemory, dparams, as `blocks.decoder_block_backward`."""
    grads = {}
    dx, grads["feed_forward_norm"], grads["feed_forward"] = sublayer_backward(
        dy, cache["transformed"], transform_backward, fault
    )
    dx, grads["cross_attention_norm"], grads["cross_attention"], dmemory = sublayer_backward(
        dx, cache["crossed"], lambda d, c: cross_backward(d, c, fault), fault
    )
    dx, grads["self_attention_norm"], grads["self_attention"] = sublayer_backward(
        dx, cache["attended"], lambda d, c: self_backward(d, c, fault), fault
    )
    return dx, dmemory, grads


def encoder_block_backward(dy, cache, fault=None):
    """dy -> dx, dparams, as `blocks.encoder_block_backward`."""
    grads = {}
    dx, grads["feed_forward_norm"], grads["feed_forward"] = sublayer_backward(
        dy, cache["transformed"], transform_backward, fault
    )
    dx, grads["self_attention_norm"], grads["self_attention"] = sublayer_backward(
        dx, cache["attended"], lambda d, c: self_backward(d, c, fault), fault
    )
    return dx, grads


def error(got, wanted):
    """The largest relative error of all arrays of a tree, each in units of its largest entry.

    An array that is 0 by symmetry, such as the gradient of the bias of the keys, is left out.
    """
    pairs = zip(optree.tree_leaves(got), optree.tree_leaves(wanted), strict=True)
    leaves = [(a, b) for a, b in pairs if np.abs(b).max() > 1e-10]
    return max(np.abs(a - b).max() / np.abs(b).max() for a, b in leaves)


def errors(fault, cache, dy, right):
    """Relative errors of a faulty backward: of the parameters of each sub-layer, last first, dx, dmemory."""
    dx, dmemory, grads = decoder_block_backward(dy, cache, fault)
    right_dx, right_dmemory, right_grads = right

    def of(name):
        both = (name, f"{name}_norm")
        return error({k: grads[k] for k in both}, {k: right_grads[k] for k in both})

    rows = [of(name) for name in ("feed_forward", "cross_attention", "self_attention")]
    return [*rows, error(dx, right_dx), error(dmemory, right_dmemory)]


def table(rows, seeds):
    """`errors` of each row (placement, fault), for each seed: (seeds, rows, 5)."""

    def one(place, fault, seed):
        _, cache, dy = flows.decoder(place, seed)
        return errors(fault, cache, dy, blocks.decoder_block_backward(dy, cache))

    return np.array([[one(*row, seed) for row in rows] for seed in seeds])


def broken(place, fault, seed):
    """How many of the identities of `flows` hold for the right gradients and not for the faulty ones."""
    right = flows.gradients(place, seed)
    wrong = flows.gradients(place, seed, backward=lambda dy, cache: decoder_block_backward(dy, cache, fault))
    measures = (flows.columns, flows.radial, flows.tie)
    return sum(measure(*right, place) < 1e-12 < measure(*wrong, place) for measure in measures)
