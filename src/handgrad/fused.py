r"""The training step of `model`, made fast: the same parameters, loss and gradients, for NumPy and torch.

The formulas are those of `ops`; each function here names its own and says what it does to be quicker:

    one product       the queries, keys and values come from one product, and so do their gradients
    causal blocks     queries are taken some at a time, with the keys up to the last of them: most of what
                      the causal mask hides is never computed
    cache blocks      a chain of element-wise steps takes as many numbers at a time as stay in the cache
    in place          a result takes the place of an input that is not needed again
    folding           γ and β of a norm move into the weights behind it, which are smaller than its output
    workspace         the arrays of a step lie in memory that the next step uses again
    two workers       each takes half of the sequences, in a thread; their gradients are added

What NumPy and torch say differently is in `kernels`: sums as products, sorting, fused chains.

A backward here uses up its cache and the dy that it is given, and writes the gradients of the parameters
to the arrays of a tree that it is given too. Shapes: b sequences of T tokens are n = b·T rows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from .algebra import like
from .config import Config
from .kernels import (
    ACTIVATIONS,
    column_sum,
    cross_entropy,
    drop,
    empty,
    exponentials,
    fold,
    fold_backward,
    heads,
    hidden_future,
    library,
    linear,
    linear_backward,
    matmul,
    row_dot,
    scale_shift,
    scatter_add,
    standardize,
    standardize_backward,
    take,
    turn,
)
from .model import check_batch
from .ops import rotary_angles, sinusoidal
from .sharing import keep_of, masks_of, weighted_targets
from .workspace import Arena, Workspace, shares

# Embedding: ops.embedding and ops.positions


def embed(tokens, segments, tables, norm, config, keep, arena):
    """model.embed. tokens (b, T) -> x (n, D), cache."""
    (b, T), D, index = tokens.shape, config.D, tokens.reshape(-1)
    x = take(tables["E"], index, arena.empty(b * T, D))
    cache = {"index": index, "segments": segments, "config": config, "normed": None}
    if config.scale_embedding:
        x *= math.sqrt(D)
    if config.segments:
        cache["segments"] = 0 * index if segments is None else segments.reshape(-1)
        x += tables["E_segment"][cache["segments"]]
    if config.positions == "learned":
        x.reshape(b, T, D)[...] += tables["P"][:T]
    if config.positions == "sinusoidal":
        x.reshape(b, T, D)[...] += like(sinusoidal(T, D), x)
    if norm:
        x, cache["normed"] = normalize(x, norm, config.eps, arena, out=x)
    cache["mask"] = keep("embedding")
    return drop(x, cache["mask"], config.p), cache


def embed_backward(dx, T, cache, dtables, dnorm, arena):
    """dx (n, D); what the rows of the tables receive is added to dtables."""
    config = cache["config"]
    dx = drop(dx, cache["mask"], config.p)
    if cache["normed"]:
        dx = normalize_backward(dx, cache["normed"], dnorm, arena)
    if config.positions == "learned":
        dtables["P"][:T] += dx.reshape(-1, T, config.D).sum(axis=0)
    if config.segments:
        scatter_add(cache["segments"], dx, dtables["E_segment"])
    if config.scale_embedding:
        dx *= math.sqrt(config.D)
    scatter_add(cache["index"], dx, dtables["E"])


# Normalization: ops.layer_norm, and ops.rms_norm where there is no β


def normalize(x, params, eps, arena, out):
    """x (n, D) -> y (n, D), written to out (which may be x), cache."""
    gamma, beta = params["gamma"], params.get("beta")
    x_hat, inverse_std = standardize(x, eps, beta is not None, arena)
    scale_shift(x_hat, gamma, beta, out)
    return out, {"x_hat": x_hat, "inverse_std": inverse_std, "gamma": gamma, "beta": beta}


def normalize_backward(dy, cache, dparams, arena):
    """dy (n, D) -> dx (n, D) in its place."""
    x_hat, gamma, used = cache["x_hat"], cache["gamma"], arena.used
    column_sum(library(dy).multiply(dy, x_hat, out=arena.like(dy)), out=dparams["gamma"])
    if "beta" in dparams:
        column_sum(dy, out=dparams["beta"])
    arena.used = used
    dy *= gamma  # dx̂
    return standardize_backward(dy, x_hat, cache["inverse_std"], "beta" in dparams, arena)


# Attention: ops.multi_head and ops.attention


def project(x, params, names, scale, arena):
    """Those of x W_Q + b_Q, x W_K + b_K, x W_V + b_V in `names`, by one product: x (n, D) -> y (n, width).

    The scale of the scores is multiplied into W_Q and b_Q, so that the scores need none.
    """
    columns, width = {}, 0
    for name in names:
        start, width = width, width + params[f"W_{name}"].shape[1]
        columns[name] = slice(start, width)
    joined = {"W": arena.empty(x.shape[1], width)}
    if f"b_{names[0]}" in params:
        joined["b"] = arena.empty(width)
    for letter, array in joined.items():
        for name, at in columns.items():
            array[..., at] = params[f"{letter}_{name}"]
        if "Q" in columns:
            array[..., columns["Q"]] *= scale
    y = linear(x, joined["W"], joined.get("b"), arena.passing(len(x), width))
    return y, {"joined": joined, "columns": columns, "scale": scale}


def project_backward(dy, x, cache, dparams, arena):
    """dy (n, width) -> dx (n, D)."""
    columns, dx = cache["columns"], arena.like(x)
    joined = {letter: arena.like(array) for letter, array in cache["joined"].items()}
    linear_backward(dy, x, cache["joined"]["W"], dx, joined["W"], joined.get("b"))
    for letter, array in joined.items():
        if "Q" in columns:
            array[..., columns["Q"]] *= cache["scale"]
        for name, at in columns.items():
            dparams[f"{letter}_{name}"][...] = array[..., at]
    return dx


def spread(x, groups, arena):
    """ops.repeat_heads: x (b, H_kv, S, K) -> (b, H, S, K). For torch each head then lies in one piece."""
    if groups == 1 and library(x) is np:
        return x
    b, H_kv, S, K = x.shape
    y = arena.empty(b, H_kv, groups, S, K)
    y[...] = x[:, :, None]
    return y.reshape(b, -1, S, K)


def attention(q, k, v, causal, hidden, mask, p, arena):
    """q (b, H, T, K) scaled, k and v (b, H, S, K) -> o (n, H·K), cache. hidden (b, 1, 1, S): 0, -∞; or None.

    By blocks of queries. A causal block sees the keys up to its own last query: only its last corner hides
    something. What is kept is the exponentials: `factor` completes the softmax in o, which is smaller.
    """
    (b, H, T, K), S = q.shape, k.shape[2]
    o, parts = arena.empty(b * T, H * K), []
    o_heads = heads(o, b, K)
    queries = min(arena.queries, max(32, T // 4))
    future = hidden_future(queries, arena)
    for start in range(0, T, queries):
        rows = slice(start, min(T, start + queries))
        length, end = rows.stop - start, rows.stop if causal else S
        e = matmul(q[:, :, rows], k[:, :, :end].mT, out=arena.empty(b, H, length, end))
        if causal:
            e[..., start:] += future[:length, :length]
        if hidden is not None:
            e += hidden[..., :end]
        factor = exponentials(e, arena.empty(b, H, length, 1), hidden is not None)
        kept, used = e, arena.used
        if mask is not None:
            kept = drop(arena.copy(e), mask[..., rows, :end], p)
        y = matmul(kept, v[:, :, :end], out=o_heads[:, :, rows])
        if factor is not None:
            y *= factor
        arena.used = used
        parts.append((rows, end, e, factor))
    return o, {"q": q, "k": k, "v": v, "o": o, "parts": parts, "mask": mask, "p": p}


def attention_backward(do, cache, dq, dk, dv, arena):
    """do (n, H·K) -> dq, dk, dv, written to arrays shaped as q, k, v.

    rowsum(A ∘ dA) is rowsum(O ∘ dO), which is smaller (Dao et al. 2022, section 3.1 and appendix B.2). With
    do and this sum multiplied by the factor, the exponentials serve as weights.
    """
    q, k, v, mask = cache["q"], cache["k"], cache["v"], cache["mask"]
    (b, _, _, K), xp = q.shape, library(q)
    dots = heads(row_dot(cache["o"], do, K), b, 1)  # (b, H, T, 1)
    do = spread(heads(do, b, K), 1, arena)  # (b, H, T, K)
    for number, (rows, end, e, factor) in enumerate(reversed(cache["parts"])):
        used, dy, dot, kept = arena.used, do[:, :, rows], dots[:, :, rows], e
        if factor is not None:
            dy, dot = xp.multiply(dy, factor, out=arena.like(dy)), dot * factor
        ds = matmul(dy, v[:, :, :end].mT, out=arena.like(e))
        if mask is not None:
            drop(ds, mask[..., rows, :end], cache["p"])
            kept = drop(arena.copy(e), mask[..., rows, :end], cache["p"])
        ds -= dot
        ds *= e
        matmul(ds, k[:, :, :end], out=dq[:, :, rows])
        if number == 0:  # the last queries see every key
            matmul(kept.mT, dy, out=dv)
            matmul(ds.mT, q[:, :, rows], out=dk)
        else:
            part = arena.like(dv[:, :, :end])
            dv[:, :, :end] += matmul(kept.mT, dy, out=part)
            dk[:, :, :end] += matmul(ds.mT, q[:, :, rows], out=part)
        arena.used = used


def multi_head(h, memory, params, causal, hidden, mask, out, step):
    """h (n, D) -> cache; y (n, D) is written to out. memory (m, D), m = b·S; None: h itself."""
    config, arena, projected, parts = step.config, step.arena, [], {}
    groups = config.H // (config.H_kv or config.H)
    for x, names in [(h, "QKV")] if memory is None else [(h, "Q"), (memory, "KV")]:
        y, of_names = project(x, params, names, 1 / math.sqrt(config.K), arena)
        projected.append(of_names)
        parts |= {name: heads(y[:, at], step.b, config.K) for name, at in of_names["columns"].items()}
    if step.angles and memory is None:
        turn(parts["Q"], *step.angles)
        turn(parts["K"], *step.angles)
    q, k, v = (spread(parts[name], groups if name in "KV" else 1, arena) for name in "QKV")
    o, attended = attention(q, k, v, causal, hidden, mask, config.p, arena)
    linear(o, params["W_O"], params.get("b_O"), out)
    return {"params": params, "projected": projected, "attended": attended}


def multi_head_backward(dy, h, cache, dparams, dmemory, step):
    """dy, h (n, D) -> dx (n, D); what the memory receives is added to dmemory, if there is one."""
    arena, K, attended, parts, whole = step.arena, step.config.K, cache["attended"], {}, {}
    do = arena.like(attended["o"])
    linear_backward(dy, attended["o"], cache["params"]["W_O"], do, dparams["W_O"], dparams.get("b_O"))
    uses = list(zip([h] if dmemory is None else [h, step.memory], cache["projected"]))
    dys = [arena.empty(len(x), of_names["joined"]["W"].shape[1]) for x, of_names in uses]
    for y, (_, of_names) in zip(dys, uses):
        parts |= {name: heads(y[:, at], step.b, K) for name, at in of_names["columns"].items()}
    for name, x in zip("QKV", (attended["q"], attended["k"], attended["v"])):
        in_place = library(x) is np and parts[name].shape == x.shape
        whole[name] = parts[name] if in_place else arena.like(x)
    attention_backward(do, attended, whole["Q"], whole["K"], whole["V"], arena)
    for name, part in parts.items():
        if whole[name].shape != part.shape:  # ops.repeat_heads_backward
            whole[name] = whole[name].reshape(*part.shape[:2], -1, *part.shape[2:]).sum(axis=2)
        if whole[name] is not part:
            part[...] = whole[name]
    if step.angles and dmemory is None:
        cos, sin = step.angles
        turn(parts["Q"], cos, -sin)
        turn(parts["K"], cos, -sin)
    dx, *others = [project_backward(y, x, of_names, dparams, arena) for y, (x, of_names) in zip(dys, uses)]
    for dx_memory in others:
        dmemory += dx_memory  # every block uses the memory
    return dx


# Feed-forward: ops.feed_forward and ops.gated_feed_forward


def dense_active(x, W, b, activation, mask, p, arena):
    """φ(x W + b), dropped: x (n, D) -> a and its slope, both (n, F). In cache blocks."""
    a = arena.empty(len(x), W.shape[1])
    slope = arena.like(a)
    for y, y_slope, own_x, own_mask in arena.blocks(a, slope, x, mask):
        used = arena.used
        ACTIVATIONS[activation](linear(own_x, W, b, y), y_slope, scratch=arena.like(y))
        drop(y, own_mask, p)
        drop(y_slope, own_mask, p)  # dropout multiplies both, so its backward is in the slope
        arena.used = used
    return a, slope


def feed_forward(x, params, config, mask, out, arena):
    """x (n, D) -> cache; y (n, D) is written to out."""
    if config.activation != "swiglu":
        a, slope = dense_active(x, params["W_1"], params.get("b_1"), config.activation, mask, config.p, arena)
        linear(a, params["W_2"], params.get("b_2"), out)
        return {"params": params, "a": a, "slope": slope}
    gate, slope = dense_active(x, params["W_gate"], params.get("b_gate"), "silu", None, 0, arena)
    a = linear(x, params["W_up"], params.get("b_up"), arena.like(gate))
    slope *= a  # of the product, through the gate
    a *= gate
    linear(a, params["W_down"], None, out)
    return {"params": params, "a": a, "slope": slope, "gate": gate}


def feed_forward_backward(dy, x, cache, dparams, arena):
    """dy, x (n, D) -> dx (n, D). The activations give their place to their gradient."""
    params, a, slope, dx = cache["params"], cache["a"], cache["slope"], arena.like(x)
    if "gate" not in cache:
        linear_backward(dy, a, params["W_2"], a, dparams["W_2"], dparams.get("b_2"))
        slope *= a
        linear_backward(slope, x, params["W_1"], dx, dparams["W_1"], dparams.get("b_1"))
        return dx
    linear_backward(dy, a, params["W_down"], a, dparams["W_down"], None)
    slope *= a
    linear_backward(slope, x, params["W_gate"], dx, dparams["W_gate"], dparams.get("b_gate"))
    a *= cache["gate"]
    through_up = arena.like(dx)
    linear_backward(a, x, params["W_up"], through_up, dparams["W_up"], dparams.get("b_up"))
    dx += through_up  # x is used twice: by the gate, and by what it gates
    return dx


# Blocks: blocks.sublayer, blocks.encoder_block and blocks.decoder_block


@dataclass
class Step:
    """What all blocks of a stack are told."""

    config: Config
    keep: Callable  # keep(site): the mask of a dropout site, or None; asked in the order of `blocks`
    arena: Arena
    b: int  # sequences
    causal: bool
    hidden: Any  # (b, 1, 1, T), -∞ at padding and 0 elsewhere, or None
    memory: Any  # (m, D) or None
    memory_hidden: Any  # (b, 1, 1, S) or None
    angles: tuple  # cos and sin (T, K/2) of rotary positions, or nothing
    buffer: Any  # (n, D), for what comes out of a sub-layer


def following(name, params):
    """The linear layers of a sub-layer that take its input."""
    if name == "feed_forward":
        return ("1",) if "W_1" in params else ("gate", "up")
    return "QKV" if name == "self_attention" else "Q"  # the memory has its own norm


def inside(name, h, params, out, step):
    """What a sub-layer computes of h (n, D): written to out. Returns its cache."""
    if name == "feed_forward":
        return feed_forward(h, params, step.config, step.keep("hidden"), out, step.arena)
    mask = step.keep("attention")
    if name == "cross_attention":
        return multi_head(h, step.memory, params, False, step.memory_hidden, mask, out, step)
    return multi_head(h, None, params, step.causal, step.hidden, mask, out, step)


def inside_backward(name, dy, h, cache, dparams, dmemory, step):
    """dy, h (n, D) -> dx (n, D)."""
    if name == "feed_forward":
        return feed_forward_backward(dy, h, cache, dparams, step.arena)
    return multi_head_backward(dy, h, cache, dparams, dmemory if name == "cross_attention" else None, step)


def sublayer(x, name, params, step):
    """x (n, D) -> y (n, D), cache. With the norm in front, y takes the place of x, and γ and β are folded."""
    config, arena, after, own = step.config, step.arena, step.buffer, params[name]
    h, cache, norm = x, {"name": name, "x": x, "params": params}, params[f"{name}_norm"]
    if config.norm == "pre":
        h, inverse_std = standardize(x, config.eps, "beta" in norm, arena)
        folded = fold(norm, own, following(name, own), arena)
        cache["normed"] = {"x_hat": h, "inverse_std": inverse_std, "folded": folded}
        own = own | folded
    cache["f"] = inside(name, h, own, after, step)
    cache["mask"] = step.keep("sublayer")
    drop(after, cache["mask"], config.p)
    if config.norm == "pre":
        x += after
        return x, cache
    if config.norm == "post":
        after += x
    y, cache["normed"] = normalize(after, norm, config.eps, arena, out=arena.like(x))
    if config.norm == "output":
        y += x
    return y, cache


def sublayer_backward(dy, cache, grads, dmemory, step):
    """dy (n, D) -> dx (n, D) in its place; grads of the block."""
    arena, config, used, name, normed = (
        step.arena,
        step.config,
        step.arena.used,
        cache["name"],
        cache["normed"],
    )
    own, dnorm, h, dinside = cache["params"][name], grads[f"{name}_norm"], cache["x"], grads[name]
    if config.norm == "post":
        dy = normalize_backward(dy, normed, dnorm, arena)
    dh = dy if config.norm != "output" and cache["mask"] is None else arena.copy(dy)
    if config.norm == "output":
        dh = normalize_backward(dh, normed, dnorm, arena)
    if config.norm == "pre":
        h = normed["x_hat"]
        dinside = dinside | {name: arena.like(array) for name, array in normed["folded"].items()}
    dh = drop(dh, cache["mask"], config.p)
    dh = inside_backward(name, dh, h, cache["f"], dinside, dmemory, step)
    if config.norm == "pre":
        norm = cache["params"][f"{name}_norm"]
        fold_backward(dinside, norm, own, following(name, own), dnorm, grads[name])
        dh = standardize_backward(dh, h, normed["inverse_std"], "beta" in norm, arena)
    dy += dh  # x is used twice: by f, and by the connection around f
    arena.used = used
    return dy


# The model: model.encode and model.decode in one, model.head, the loss, and the step


def stack(name, tokens, params, config, keep, arena, segments=None, memory=None, memory_hidden=None):
    """Embedding, blocks, final norm of "encoder" or "decoder": tokens (b, T) -> x (n, D), cache."""
    (b, T), hidden, angles = tokens.shape, None, ()
    source = "source_" if name == "encoder" and config.kind == "encoder-decoder" else ""
    tables = params["embedding"] | params.get(f"{source}embedding", {})
    x, embedded = embed(tokens, segments, tables, params.get(f"{source}embedding_norm"), config, keep, arena)
    if config.pad is not None:
        hidden = arena.empty(b, 1, 1, T)
        hidden[...] = 0
        hidden[:, 0, 0][tokens == config.pad] = -math.inf
    if config.positions == "rotary":
        angles = rotary_angles(T, config.K, config.rotary_base)
        angles = like(np.cos(angles), x), like(np.sin(angles), x)
    seen = name == "decoder", hidden, memory, memory_hidden
    step = Step(config, keep, arena, b, *seen, angles, arena.like(x))
    cache = {"name": name, "source": source, "T": T, "embedded": embedded, "step": step, "normed": None}
    cache["blocks"] = [[] for _ in params[name]]
    for block, of_block in zip(params[name], cache["blocks"]):
        for part in ("self_attention", "cross_attention", "feed_forward"):
            if part in block:
                x, of_part = sublayer(x, part, block, step)
                of_block.append(of_part)
    if config.final_norm:
        x, cache["normed"] = normalize(x, params[f"{name}_norm"], config.eps, arena, out=x)
    return x, cache


def stack_backward(dx, cache, grads):
    """dx (n, D) -> dmemory (m, D), the sum of what the blocks give, or None."""
    name, source, step, dmemory = cache["name"], cache["source"], cache["step"], None
    if step.memory is not None:
        dmemory = step.arena.like(step.memory)
        dmemory[...] = 0
    if cache["normed"]:
        dx = normalize_backward(dx, cache["normed"], grads[f"{name}_norm"], step.arena)
    for block, of_block in reversed(list(zip(cache["blocks"], grads[name]))):
        for of_part in reversed(block):
            dx = sublayer_backward(dx, of_part, of_block, dmemory, step)
    dtables, dnorm = (
        grads["embedding"] | grads.get(f"{source}embedding", {}),
        grads.get(f"{source}embedding_norm"),
    )
    embed_backward(dx, cache["T"], cache["embedded"], dtables, dnorm, step.arena)
    return dmemory


def head(x, params, config, arena):
    """model.head: x (n, D) -> logits (n, V), cache."""
    own, h, cache = params.get("head", {}), x, {"x": x}
    if config.head_transform:
        W, b = own["W_transform"], own["b_transform"]
        h, cache["slope"] = dense_active(x, W, b, config.activation, None, 0, arena)
        h, cache["normed"] = normalize(h, params["head_norm"], config.eps, arena, out=h)
    W = params["embedding"]["E"].T if config.tied else own["W_out"]
    logits = linear(h, W, own.get("b_out"), arena.empty(len(x), config.V))
    return logits, cache | {"h": h, "W": W}


def head_backward(dlogits, cache, params, config, grads, arena):
    """dlogits (n, V) -> dx (n, D). The first to write to the gradient of a table that the head shares."""
    own, dx = grads.get("head", {}), arena.like(cache["x"])
    dW = grads["embedding"]["E"].T if config.tied else own["W_out"]
    linear_backward(dlogits, cache["h"], cache["W"], dx, dW, own.get("b_out"))
    if config.head_transform:
        dx = normalize_backward(dx, cache["normed"], grads["head_norm"], arena)
        slope, W = cache["slope"], params["head"]["W_transform"]
        slope *= dx
        linear_backward(slope, cache["x"], W, dx, own["W_transform"], own["b_transform"])
    return dx


def part_forward(job, arena):
    """The logits (n, V) of the sequences of one worker, in its arena, and the cache."""
    params, config, batch, keep = job
    encoded = decoded = None
    if config.kind == "encoder-decoder":
        memory, encoded = stack("encoder", batch["source"], params, config, keep, arena)
        seen = memory, encoded["step"].hidden
        x, decoded = stack("decoder", batch["target_in"], params, config, keep, arena, None, *seen)
    elif config.kind == "decoder":
        x, decoded = stack("decoder", batch["tokens"], params, config, keep, arena)
    else:
        x, encoded = stack("encoder", batch["tokens"], params, config, keep, arena, batch.get("segments"))
    logits, headed = head(x, params, config, arena)
    return logits, {"params": params, "config": config, "headed": headed, "stacks": (decoded, encoded)}


def part_backward(dlogits, cache, grads, arena):
    """Write the gradients of one worker to grads, or to a tree in its arena; return them."""
    params, config = cache["params"], cache["config"]
    if grads is None:
        grads = optree.tree_map(arena.like, params)
    for name in {"embedding", "source_embedding"} & grads.keys():
        for table in grads[name].values():
            table[...] = 0  # rows are added
    dx = head_backward(dlogits, cache["headed"], params, config, grads, arena)
    for of_stack in filter(None, cache["stacks"]):
        dx = stack_backward(dx, of_stack, grads)  # after the decoder, dx is the gradient of the memory
    return grads


def part(job, arena):
    """Loss and gradients of the sequences of one worker."""
    inputs, targets, weights, label_smoothing, grads = job
    logits, cache = part_forward(inputs, arena)
    loss = cross_entropy(logits, targets.reshape(-1), weights.reshape(-1), label_smoothing, arena)
    return loss, part_backward(logits, cache, grads, arena)  # the logits have become their gradient


def forward(params, config, batch, keep=None, workspace=None):
    """model.forward: the logits (B, T, V), and a cache for one `backward`, before the workspace's next use.

    workspace: memory and threads for one step after another. Raises TypeError or ValueError as `model` does.
    """
    check_batch(config, batch)
    workspace, shared, inputs = _inputs(params, config, batch, keep, workspace)
    logits, caches = zip(*workspace.map(part_forward, inputs))
    shape = *batch["target_in" if config.kind == "encoder-decoder" else "tokens"].shape, config.V
    cache = {"workspace": workspace, "use": workspace.uses, "shares": shared, "parts": caches}
    return library(logits[0]).concatenate(logits).reshape(shape), cache  # a copy


def backward(dlogits, cache, out=None):
    """model.backward: dlogits (B, T, V) -> grads, the tree of the parameters.

    out: a tree of arrays like the parameters, which receives the gradients and is returned; new ones if None.
    Raises RuntimeError if the workspace has been used since `forward`: it holds another step by now.
    """
    workspace = cache["workspace"]
    if workspace.uses != cache["use"]:
        raise RuntimeError("cache: expected that of the workspace's last step, but it has been used since")
    workspace.uses += 1

    def run(job, arena):
        dz, of_part, grads = job
        return part_backward(arena.copy(dz.reshape(-1, dz.shape[-1])), of_part, grads, arena)

    outs = _outs(cache["parts"][0]["params"], out, len(cache["parts"]))
    jobs = zip([dlogits[rows] for rows in cache["shares"]], cache["parts"], outs)
    return _sum(workspace.map(run, list(jobs)))


def loss_and_gradients(params, config, batch, keep=None, label_smoothing=0.0, workspace=None, out=None):
    """What model.loss_and_gradients returns: the mean loss, and the tree of its gradients.

    workspace, out: as in `forward` and `backward`. What is returned never lies in the workspace. keep is
    asked as `model` asks it, for the whole batch. Raises TypeError or ValueError as `model` does.
    """
    E = params["embedding"]["E"]
    targets, weights = weighted_targets(batch, config, label_smoothing, E)
    workspace, shared, inputs = _inputs(params, config, batch, keep, workspace)
    rows = [(targets[share], weights[share]) for share in shared]
    jobs = zip(inputs, *zip(*rows), [label_smoothing] * len(rows), _outs(params, out, len(rows)))
    losses, grads = zip(*workspace.map(part, list(jobs)))
    return like(np.asarray(sum(losses)), E)[()], _sum(grads)


def _inputs(params, config, batch, keep, workspace):
    """The workspace, the share of each worker, and what `part_forward` needs for it."""
    E, masks = params["embedding"]["E"], masks_of(batch, config, keep)
    workspace = workspace or Workspace()
    workspace.reset(E)
    shared = shares(len(next(iter(batch.values()))), len(workspace.arenas))
    batch = {name: like(array, E) for name, array in batch.items()}
    parts = [{name: array[rows] for name, array in batch.items()} for rows in shared]
    inputs = [(params, config, part, keep_of(masks, rows)) for part, rows in zip(parts, shared)]
    return workspace, shared, inputs


def _outs(params, out, workers):
    """Where the workers write gradients: the first to `out` or to new arrays, the others to their arenas."""
    first = optree.tree_map(lambda p: empty(p.shape, p), params) if out is None else out
    return [first, *[None] * (workers - 1)]


def _sum(grads):
    """Add up the workers' gradients, in the first tree."""
    first, *others = grads
    for other in others:
        optree.tree_map_(lambda a, b: a.__iadd__(b), first, other)
    return first
