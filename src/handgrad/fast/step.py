r"""The training step of `model`, made fast: the same parameters, loss and gradients, for NumPy and torch.

The formulas are those of `ops`; each function here names its own and says what it does to be quicker:

    one product       the queries, keys and values come from one product, and so do their gradients
    causal blocks     queries are taken some at a time, with the keys up to the last of them: most of what
                      the causal mask hides is never computed
    cache blocks      a chain of element-wise steps takes as many numbers at a time as stay in the cache
    in place          a result takes the place of an input that is not needed again
    recomputation     the outputs of norms and activations are computed again, and not kept
    workspace         the arrays of a step lie in memory that the next step uses again, at lines of the cache,
                      and the backward gives it back in the opposite order, as it is done with each part
    two workers       each takes half of the sequences, in a thread; their gradients are added

What NumPy and torch say differently is in `kernels`: sums as products, sorting, fused chains.

A backward here uses up its cache and the dy that it is given, and adds the gradients of the parameters to
the arrays of a tree that it is given too. Shapes: b sequences of T tokens are n = b·T rows.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..algebra import check_like, like
from ..config import Config, check_params
from ..model import check_batch
from ..ops import GATED, rotary_angles, sinusoidal
from .kernels import (
    ACTIVATIONS,
    column_sum,
    cross_entropy,
    drop,
    exponentials,
    heads,
    hidden_future,
    library,
    linear,
    linear_backward,
    matmul,
    scale_shift,
    scatter_add,
    softmax_backward,
    standardize,
    subtract_product,
    take,
    turn,
)
from .memory import Arena, Workspace, shares
from .sharing import added_up, arguments_of, gradients_of_others, receiving, weighted_targets

# Embedding: ops.embedding and ops.positions


def embed(tokens, segments, tables, norm, *, config, next_keep, arena):
    """model.embed. tokens (b, T) -> x (n, D), cache."""
    (b, T), D, index = tokens.shape, config.D, tokens.reshape(-1)
    x = take(tables["E"], index, arena.empty(b * T, D))
    cache = {"index": index, "config": config, "normed": None}
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
    cache["keep"] = next_keep("embedding")
    return drop(x, cache["keep"], config.p), cache


def embed_backward(dx, T, cache, dtables, dnorm, arena):
    """dx (n, D); what the rows of the tables receive is added to dtables."""
    config = cache["config"]
    dx = drop(dx, cache["keep"], config.p)
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
    """dy (n, D) -> dx (n, D) in its place, r ∘ (γ ∘ dy - mean(γ ∘ dy) - x̂ ∘ mean(γ ∘ dy ∘ x̂)).

    In cache blocks. A mean over γ ∘ z is a product of z and γ/D. The first is 0 where there is no β.
    """
    gamma = cache["gamma"]
    mean = gamma[:, None] / len(gamma)
    for d, hat, r in arena.blocks(dy, cache["x_hat"], cache["inverse_std"]):  # (block, D) twice, (block, 1)
        with arena.scratch():
            product = library(d).multiply(d, hat, out=arena.like(d))
            through_variance = product @ mean
            dparams["gamma"] += column_sum(product)
            if "beta" in dparams:
                through_mean = d @ -mean
                dparams["beta"] += column_sum(d)
            scale_shift(d, gamma, through_mean if "beta" in dparams else None, out=d)
            subtract_product(d, hat, through_variance, scratch=product)
            d *= r
    return dy


# Attention: ops.multi_head and ops.attention


def joined(of_names, arena):
    """W_Q, W_K and W_V, or some of them, side by side (D, width), and their biases (width,), or None.

    The scale of the scores is multiplied into W_Q and b_Q, so that the scores need none.
    """
    params, columns, scale = (of_names[key] for key in ("params", "columns", "scale"))
    W, b = (
        [params[f"{letter}_{name}"] for name in columns if f"{letter}_{name}" in params] for letter in "Wb"
    )
    width, concatenate = sum(own.shape[1] for own in W), library(W[0]).concatenate
    W = concatenate(W, axis=1, out=arena.empty(len(W[0]), width))
    b = concatenate(b, axis=0, out=arena.empty(width)) if b else None
    for array in (W, b):
        if "Q" in columns and array is not None:
            array[..., columns["Q"]] *= scale
    return W, b


def project(x, params, names, scale, arena):
    """Those of x W_Q + b_Q, x W_K + b_K, x W_V + b_V in `names`, by one product: x (n, D) -> y (n, width)."""
    columns, width = {}, 0
    for name in names:
        start, width = width, width + params[f"W_{name}"].shape[1]
        columns[name] = slice(start, width)
    y, of_names = arena.empty(len(x), width), {"params": params, "columns": columns, "scale": scale}
    with arena.scratch():
        W, b = joined(of_names, arena)
        linear(x, W, b, out=y)
    return y, of_names


def project_backward(dy, x, of_names, dparams, arena):
    """dy (n, width) -> dx (n, D)."""
    dx, columns, matmul = arena.like(x), of_names["columns"], library(x).matmul
    with arena.scratch():
        W, b = joined(of_names, arena)
        matmul(dy, W.T, out=dx)
        sums = {"W": matmul(x.T, dy, out=W)}
        if b is not None:
            sums["b"] = column_sum(dy)
        for letter, array in sums.items():
            if "Q" in columns:
                array[..., columns["Q"]] *= of_names["scale"]
            for name, at in columns.items():
                if arena.first:
                    dparams[f"{letter}_{name}"][...] = array[..., at]
                else:
                    dparams[f"{letter}_{name}"] += array[..., at]
    return dx


def attention(q, k, v, future, hidden, keep, step):
    """q (b, H, T, K) scaled, k and v (b, H, S, K) -> o (n, H·K), cache.

    future (queries, queries) and hidden (b, 1, 1, S) are -∞ where a key is hidden and 0 elsewhere, or None.
    By blocks of queries. A causal block sees the keys up to its own last query: only its last corner hides
    something. What is kept is the exponentials: `factor` completes the softmax in o, which is smaller.
    """
    (b, H, T, K), S, p, arena = q.shape, k.shape[2], step.config.p, step.arena
    o, parts = arena.empty(b * T, H * K), []
    o_heads = heads(o, b, K)
    for start in range(0, T, step.queries):
        rows = slice(start, min(T, start + step.queries))
        length, end = rows.stop - start, S if future is None else rows.stop
        e = matmul(q[:, :, rows], k[:, :, :end].mT, out=arena.empty(b, H, length, end))
        if future is not None:
            e[..., start:] += future[:length, :length]
        if hidden is not None:
            e += hidden[..., :end]
        factor = exponentials(e, arena.empty(b, H, length, 1), hidden is not None)
        with arena.scratch():
            dropped = e if keep is None else drop(arena.copy(e), keep[..., rows, :end], p)
            y = matmul(dropped, v[:, :, :end], out=o_heads[:, :, rows])
        if factor is not None:
            y *= factor
        parts.append((rows, end, e, factor))
    return o, {"q": q, "k": k, "v": v, "o": o, "parts": parts, "keep": keep, "p": p}


def attention_backward(do, cache, dq, dk, dv, arena):
    """do (n, H·K) -> dq, dk, dv, written to arrays shaped as q, k, v.

    With do multiplied by the factor, the exponentials serve as weights.
    """
    q, k, v, keep = cache["q"], cache["k"], cache["v"], cache["keep"]
    do = heads(do, q.shape[0], q.shape[3])  # (b, H, T, K)
    if library(do) is not np:
        do = arena.copy(do)
    for number, (rows, end, e, factor) in enumerate(reversed(cache["parts"])):
        with arena.scratch():
            dy, dropped = do[:, :, rows], e
            if factor is not None:
                dy = np.multiply(dy, factor, out=arena.like(dy))
            ds = matmul(dy, v[:, :, :end].mT, out=arena.like(e))
            if keep is not None:
                drop(ds, keep[..., rows, :end], cache["p"])
                dropped = drop(arena.copy(e), keep[..., rows, :end], cache["p"])
            softmax_backward(ds, e, factor)
            matmul(ds, k[:, :, :end], out=dq[:, :, rows])
            if number == 0:  # the last queries see every key
                matmul(dropped.mT, dy, out=dv)
                matmul(ds.mT, q[:, :, rows], out=dk)
            else:
                part = arena.like(dv[:, :, :end])
                dv[:, :, :end] += matmul(dropped.mT, dy, out=part)
                dk[:, :, :end] += matmul(ds.mT, q[:, :, rows], out=part)


def multi_head(h, params, memory, future, hidden, keep, out, step):
    """h (n, D) -> cache; y (n, D) is written to out. memory (m, D), m = b·S; None: h itself.

    For torch q, k and v are copied, so that each head lies in one piece, and their product is let go.
    """
    config, arena, b, projected, parts, whole = step.config, step.arena, step.b, [], {}, {}
    uses = [(h, "QKV")] if memory is None else [(h, "Q"), (memory, "KV")]
    for x, names in uses:
        for name in names:
            if library(h) is not np or params[f"W_{name}"].shape[1] != config.H * config.K:
                whole[name] = arena.empty(b, config.H, len(x) // b, config.K)
    with nullcontext() if library(h) is np else arena.scratch():
        for x, names in uses:
            y, of_names = project(x, params, names, scale=1 / math.sqrt(config.K), arena=arena)
            projected.append(of_names)
            parts |= {name: heads(y[:, at], b, config.K) for name, at in of_names["columns"].items()}
        if step.angles and memory is None:
            cos, sin = step.angles
            turn(parts["Q"], cos, sin)
            turn(parts["K"], cos, sin)
        for name, array in whole.items():  # ops.repeat_heads
            array.reshape(b, parts[name].shape[1], -1, *array.shape[2:])[...] = parts[name][:, :, None]
    q, k, v = ((parts | whole)[name] for name in "QKV")
    o, attended = attention(q, k, v, future=future, hidden=hidden, keep=keep, step=step)
    linear(o, params["W_O"], params.get("b_O"), out=out)
    return {"params": params, "projected": projected, "attended": attended}


def multi_head_backward(dy, h, cache, dparams, dmemory, step):
    """dy, h (n, D) -> dx (n, D); what the memory receives is added to dmemory, if there is one."""
    arena, K, attended, parts, whole = step.arena, step.config.K, cache["attended"], {}, {}
    o, W = attended["o"], cache["params"]["W_O"]
    dW, db = dparams["W_O"], dparams.get("b_O")
    do = linear_backward(dy, o, W, dx=arena.like(o), dW=dW, db=db, arena=arena)
    uses = list(zip([h] if dmemory is None else [h, step.memory], cache["projected"]))
    dys = [arena.empty(len(x), list(of_names["columns"].values())[-1].stop) for x, of_names in uses]
    for y, (_, of_names) in zip(dys, uses):
        parts |= {name: heads(y[:, at], step.b, K) for name, at in of_names["columns"].items()}
    for name, x in zip("QKV", (attended["q"], attended["k"], attended["v"])):
        in_place = parts[name].shape == x.shape and (name == "Q" or library(x) is np)
        whole[name] = parts[name] if in_place else arena.like(x)
    attention_backward(do, attended, dq=whole["Q"], dk=whole["K"], dv=whole["V"], arena=arena)
    for name, part in parts.items():
        if whole[name].shape != part.shape:  # ops.repeat_heads_backward
            whole[name] = whole[name].reshape(*part.shape[:2], -1, *part.shape[2:]).sum(axis=2)
        if whole[name] is not part:
            part[...] = whole[name]
    if step.angles and dmemory is None:
        cos, sin = step.angles
        turn(parts["Q"], cos, -sin)
        turn(parts["K"], cos, -sin)
    dx, *others = [
        project_backward(y, x, of_names, dparams=dparams, arena=arena) for y, (x, of_names) in zip(dys, uses)
    ]
    for dx_memory in others:
        dmemory += dx_memory  # every block uses the memory
    return dx


# Feed-forward: ops.feed_forward and ops.gated_feed_forward


def active(h, b, activation, keep, p, arena):
    """φ(h), dropped: h (n, F) -> a (n, F). In cache blocks. First b (F,) is added to h, if there is one."""
    a, (gate, _) = arena.like(h), ACTIVATIONS[activation]
    for own_h, own_a, own_keep in arena.blocks(h, a, keep):
        if b is not None:
            own_h += b
        gate(own_h, out=own_a)
        own_a *= own_h
        drop(own_a, own_keep, p)
    return a


def active_again(h, activation, keep, p, arena):
    """The result of `active` once more; its slope takes the place of h. In cache blocks."""
    a, (gate, slope) = arena.like(h), ACTIVATIONS[activation]
    for own_h, own_a, own_keep in arena.blocks(h, a, keep):
        with arena.scratch():
            own_gate = arena.like(own_h)
            gate(own_h, out=own_gate)
            library(own_h).multiply(own_h, own_gate, out=own_a)
            slope(own_h, own_gate, own_a)
            drop(own_a, own_keep, p)
            drop(own_h, own_keep, p)  # dropout multiplies both, so its backward is in the slope
    return a


def feed_forward(x, params, config, keep, out, arena):
    """x (n, D) -> cache; y (n, D) is written to out. What comes after W_1, or W_gate, is not kept."""
    first, last, activation, up = "1", "2", config.activation, None
    if config.gated:
        first, last, activation = "gate", "down", GATED[activation]
        up = linear(x, params["W_up"], None, arena.empty(len(x), config.F))
    h = linear(x, params[f"W_{first}"], None, arena.empty(len(x), config.F))
    with arena.scratch():
        chain = {"activation": activation, "keep": keep, "p": config.p}
        a = active(h, params.get(f"b_{first}"), **chain, arena=arena)
        if up is not None:
            a *= up
        linear(a, params[f"W_{last}"], params.get(f"b_{last}"), out)
    return {"params": params, "first": first, "last": last, "h": h, "up": up, "chain": chain}


def feed_forward_backward(dy, x, cache, dparams, arena):
    """dy (n, D) -> dx (n, D) in the place of x. The activations give their place to their gradient."""
    params, slope, up = cache["params"], cache["h"], cache["up"]
    (W, b), (W_last, b_last) = ([f"{letter}_{cache[name]}" for letter in "Wb"] for name in ("first", "last"))
    a = active_again(slope, **cache["chain"], arena=arena)
    da = product = a if up is None else library(a).multiply(a, up, out=arena.like(a))
    dW, db = dparams[W_last], dparams.get(b_last)
    linear_backward(dy, product, params[W_last], dx=da, dW=dW, db=db, arena=arena)
    slope *= da
    if up is not None:
        slope *= up
        a *= da  # the gradient of what is gated
        W_up, dW_up = params["W_up"], dparams["W_up"]
        through_up = linear_backward(a, x, W_up, dx=arena.like(x), dW=dW_up, db=None, arena=arena)
    dx = linear_backward(slope, x, params[W], dx=x, dW=dparams[W], db=dparams.get(b), arena=arena)
    if up is not None:
        dx += through_up  # x is used twice: by the gate, and by what it gates
    return dx


# Blocks: blocks.sublayer, blocks.encoder_block and blocks.decoder_block


@dataclass
class Step:
    """What all blocks of a stack are told."""

    config: Config
    next_keep: Callable  # of a dropout site: what is kept there, or None; asked in the order of `blocks`
    arena: Arena
    b: int  # sequences
    queries: int  # in a block of attention
    future: Any  # (queries, queries), -∞ where a key comes after the query and 0 elsewhere, or None
    hidden: Any  # (b, 1, 1, T), -∞ at padding and 0 elsewhere, or None
    memory: Any  # (m, D) or None
    dmemory: Any  # (m, D), the gradient of the memory, or None
    memory_hidden: Any  # (b, 1, 1, S) or None
    angles: tuple  # cos and sin (T, K/2) of rotary positions, or nothing
    buffers: tuple  # two arrays (n, D), for what goes into a sub-layer and what comes out


def inside(name, h, params, out, step):
    """What a sub-layer computes of h (n, D): written to out. Returns its cache."""
    if name == "feed_forward":
        return feed_forward(h, params, step.config, step.next_keep("hidden"), out=out, arena=step.arena)
    crossing = name == "cross_attention"
    return multi_head(
        h,
        params,
        memory=step.memory if crossing else None,
        future=None if crossing else step.future,
        hidden=step.memory_hidden if crossing else step.hidden,
        keep=step.next_keep("attention"),
        out=out,
        step=step,
    )


def inside_backward(name, dy, h, cache, dparams, step):
    """dy, h (n, D) -> dx (n, D)."""
    if name == "feed_forward":
        return feed_forward_backward(dy, h, cache, dparams, arena=step.arena)
    dmemory = step.dmemory if name == "cross_attention" else None
    return multi_head_backward(dy, h, cache, dparams, dmemory=dmemory, step=step)


def sublayer(x, name, params, step):
    """x (n, D) -> y (n, D), cache. With the norm in front, y takes the place of x."""
    config, arena, (before, after) = step.config, step.arena, step.buffers
    h, cache, norm, start = x, {"name": name, "x": x}, params[f"{name}_norm"], arena.used
    if config.norm == "pre":
        h, cache["normed"] = normalize(x, norm, config.eps, arena, out=before)
    cache["f"] = inside(name, h, params[name], out=after, step=step)
    cache["keep"] = step.next_keep("sublayer")
    drop(after, cache["keep"], config.p)
    if config.norm == "pre":
        x += after
        return x, cache | {"start": start, "end": arena.used}
    if config.norm == "post":
        after += x
    y, cache["normed"] = normalize(after, norm, config.eps, arena, out=arena.like(x))
    if config.norm == "output":
        y += x
    return y, cache


def sublayer_backward(dy, cache, grads, step):
    """dy (n, D) -> dx (n, D) in its place; added to grads of the block."""
    arena, config, name, normed = step.arena, step.config, cache["name"], cache["normed"]
    dnorm, h = grads[f"{name}_norm"], cache["x"]
    with arena.scratch():
        if config.norm == "post":
            dy = normalize_backward(dy, normed, dnorm, arena)
        dh = dy if config.norm != "output" and cache["keep"] is None else arena.copy(dy)
        if config.norm == "output":
            dh = normalize_backward(dh, normed, dnorm, arena)
        if config.norm == "pre":
            h = scale_shift(normed["x_hat"], normed["gamma"], normed["beta"], step.buffers[0])  # again
        dh = drop(dh, cache["keep"], config.p)
        dh = inside_backward(name, dh, h, cache["f"], dparams=grads[name], step=step)
        if config.norm == "pre":
            dh = normalize_backward(dh, normed, dnorm, arena)
        dy += dh  # x is used twice: by f, and by the connection around f
    if config.norm == "pre":  # else dy may lie there: in the place of the last sub-layer's y
        arena.give_back(cache["start"], cache["end"])
    return dy


# The model: model.encode and model.decode in one, model.head, the loss, and the step


def stack(name, tokens, params, *, config, next_keep, arena, segments=None, **of_memory):
    """Embedding, blocks, final norm of "encoder" or "decoder": tokens (b, T) -> x (n, D), cache.

    of_memory: of a decoder with a memory, the fields memory, dmemory and memory_hidden of its Step.
    """
    (b, T), hidden, angles, start = tokens.shape, None, (), arena.used
    source = "source_" if name == "encoder" and config.kind == "encoder-decoder" else ""
    tables = params["embedding"] | params.get(f"{source}embedding", {})
    told = {"config": config, "next_keep": next_keep, "arena": arena}
    norm = params.get(f"{source}embedding_norm")
    x, embedded = embed(tokens, segments, tables, norm, **told)
    if config.pad is not None:
        hidden = arena.empty(b, 1, 1, T)
        hidden[...] = 0
        hidden[:, 0, 0][tokens == config.pad] = -math.inf
    if config.positions == "rotary":
        angles = rotary_angles(T, config.K, config.rotary_base)
        angles = like(np.cos(angles), x), like(np.sin(angles), x)
    queries = min(arena.queries, max(32, T // 4))
    future = hidden_future(queries, arena) if name == "decoder" else None
    of_memory = {"memory": None, "dmemory": None, "memory_hidden": None} | of_memory
    step = Step(
        **told,
        **of_memory,
        b=b,
        queries=queries,
        future=future,
        hidden=hidden,
        angles=angles,
        buffers=(arena.like(x), arena.like(x)),
    )
    cache = {"name": name, "source": source, "T": T, "embedded": embedded, "step": step, "normed": None}
    cache |= {"start": start, "below_blocks": arena.used, "blocks": [[] for _ in params[name]]}
    for block, of_block in zip(params[name], cache["blocks"]):
        for part in ("self_attention", "cross_attention", "feed_forward"):
            if part in block:
                x, of_part = sublayer(x, part, block, step)
                of_block.append(of_part)
    cache["above_blocks"] = arena.used
    if config.final_norm:
        x, cache["normed"] = normalize(x, params[f"{name}_norm"], config.eps, arena, out=x)
    return x, cache | {"end": arena.used}


def stack_backward(dx, cache, grads):
    """dx (n, D) -> dmemory (m, D), the sum of what the blocks give, or None. Gives back all of the stack."""
    name, source, step, arena = cache["name"], cache["source"], cache["step"], cache["step"].arena
    if step.dmemory is not None:
        step.dmemory[...] = 0
    if cache["normed"]:
        dx = normalize_backward(dx, cache["normed"], grads[f"{name}_norm"], arena)
    arena.give_back(cache["above_blocks"], cache["end"])
    for block, of_block in reversed(list(zip(cache["blocks"], grads[name]))):
        for of_part in reversed(block):
            dx = sublayer_backward(dx, of_part, of_block, step)
    dtables = grads["embedding"] | grads.get(f"{source}embedding", {})
    dnorm = grads.get(f"{source}embedding_norm")
    embed_backward(dx, cache["T"], cache["embedded"], dtables=dtables, dnorm=dnorm, arena=arena)
    blocks_are_back = step.config.norm == "pre"
    arena.give_back(cache["start"], cache["below_blocks" if blocks_are_back else "above_blocks"])
    return step.dmemory


def head(x, params, config, arena):
    """model.head: x (n, D) -> logits (n, V), cache."""
    start, own, y, cache = arena.used, params.get("head", {}), x, {"x": x}
    if config.head_transform:
        cache["h"] = linear(x, own["W_transform"], None, arena.like(x))
        chain = {"activation": config.activation, "keep": None, "p": 0}
        y = active(cache["h"], own["b_transform"], **chain, arena=arena)
        y, cache["normed"] = normalize(y, params["head_norm"], config.eps, arena, out=y)
    W = params["embedding"]["E"].T if config.tied else own["W_out"]
    logits = linear(y, W, own.get("b_out"), arena.empty(len(x), config.V))
    return logits, cache | {"y": y, "W": W, "start": start, "end": arena.used}


def head_backward(dlogits, cache, params, config, grads, arena):
    """dlogits (n, V) -> dx (n, D) in the place of x."""
    own, x, y = grads.get("head", {}), cache["x"], cache["y"]
    dW, db = grads["embedding"]["E"].T if config.tied else own["W_out"], own.get("b_out")
    with arena.scratch():
        dx = linear_backward(dlogits, y, cache["W"], dx=y, dW=dW, db=db, arena=arena)
        if config.head_transform:
            dx = normalize_backward(dx, cache["normed"], grads["head_norm"], arena)
            slope, W = cache["h"], params["head"]["W_transform"]
            active_again(slope, config.activation, keep=None, p=0, arena=arena)
            slope *= dx
            dW, db = own["W_transform"], own["b_transform"]
            dx = linear_backward(slope, x, W, dx=x, dW=dW, db=db, arena=arena)
    arena.give_back(cache["start"], cache["end"])
    return dx


def part_forward(params, config, batch, next_keep, arena):
    """The logits (n, V) of some sequences, in the arena of a worker, and the cache."""
    encoded, decoded, told = None, None, {"config": config, "next_keep": next_keep, "arena": arena}
    if config.kind == "encoder-decoder":
        m = math.prod(batch["source"].shape)
        dmemory = arena.empty(m, config.D)  # below both stacks: the encoder's backward gives back above it
        memory, encoded = stack("encoder", batch["source"], params, **told)
        told |= {"memory": memory, "dmemory": dmemory, "memory_hidden": encoded["step"].hidden}
        x, decoded = stack("decoder", batch["target_in"], params, **told)
    elif config.kind == "decoder":
        x, decoded = stack("decoder", batch["tokens"], params, **told)
    else:
        x, encoded = stack("encoder", batch["tokens"], params, **told, segments=batch.get("segments"))
    logits, headed = head(x, params, config, arena)
    cache = {"params": params, "config": config, "headed": headed, "stacks": (decoded, encoded)}
    return logits, cache | {"logits": logits}


def part_backward(dlogits, cache, grads, arena):
    """Add the gradients of these sequences to grads; dlogits (n, V)."""
    params, config = cache["params"], cache["config"]
    dx = head_backward(dlogits, cache["headed"], params, config, grads=grads, arena=arena)
    for of_stack in filter(None, cache["stacks"]):
        dx = stack_backward(dx, of_stack, grads)  # after the decoder, dx is the gradient of the memory


def forward(params, config, batch, draw_keep=None, workspace=None):
    """model.forward: the logits (B, T, V), and a cache for one `backward`, before the workspace's next use.

    workspace: memory and threads for one step after another. Raises TypeError or ValueError as `model` does,
    RuntimeError if another step is using the workspace.
    """
    check_params(config, params)
    check_batch(config, batch)
    workspace = workspace or Workspace()
    B, T = batch["target_in" if config.kind == "encoder-decoder" else "tokens"].shape
    shared, of_rows = shares(B, len(workspace.arenas)), arguments_of(params, config, batch, draw_keep)
    with workspace.one_step():
        workspace.reset(params["embedding"]["E"])
        others = gradients_of_others(params, workspace, shared)
        parts = workspace.map(lambda rows, arena: part_forward(**of_rows(rows), arena=arena), shared)
        logits, caches = zip(*parts)
        cache = {"workspace": workspace, "use": workspace.uses, "shares": shared, "parts": caches}
        cache |= {"others": others, "shape": (B, T, config.V)}
        return library(logits[0]).concatenate(logits).reshape(B, T, config.V), cache  # a copy


def backward(dlogits, cache, out=None):
    """model.backward: dlogits (B, T, V) -> grads, the tree of the parameters.

    out: a tree of arrays like the parameters, which receives the gradients and is returned; new ones if None.
    Raises RuntimeError if the workspace has been used since `forward`, since it holds another step by now, or
    is being used; TypeError or ValueError unless dlogits is like the logits, and out like the parameters.
    """
    workspace, params = cache["workspace"], cache["parts"][0]["params"]
    check_like("dlogits", dlogits, cache["parts"][0]["logits"], cache["shape"])
    total = receiving(out, params, workspace)

    def run(job, grads, arena):
        rows, own = job
        own["logits"][...] = dlogits[rows].reshape(own["logits"].shape)
        part_backward(own["logits"], own, grads, arena)

    jobs = list(zip(cache["shares"], cache["parts"]))
    with workspace.one_step():
        if workspace.uses != cache["use"]:
            raise RuntimeError(
                "cache: expected that of the workspace's last step, but it has been used since"
            )
        workspace.uses += 1
        return added_up(run, jobs, total, others=cache["others"], workspace=workspace)[1]


def loss_and_gradients(params, config, batch, draw_keep=None, label_smoothing=0.0, workspace=None, out=None):
    """What model.loss_and_gradients returns: the mean loss, and the tree of its gradients.

    workspace, out: as in `forward` and `backward`, with the same errors. What is returned never lies in the
    workspace. draw_keep is asked as `model` asks it, for the whole batch. Raises TypeError or ValueError as
    `model` does.
    """
    check_params(config, params)
    E, workspace = params["embedding"]["E"], workspace or Workspace()
    targets, weights = weighted_targets(batch, config, label_smoothing, E)
    (B, T), of_rows = targets.shape, arguments_of(params, config, batch, draw_keep)
    total = receiving(out, params, workspace)

    def run(share, grads, arena):
        loss = 0.0
        for rows in workspace.pieces(share, T * config.F):
            with arena.scratch():
                z, cache = part_forward(**of_rows(rows), arena=arena)
                loss += cross_entropy(
                    z,
                    targets=targets[rows].reshape(-1),
                    weights=weights[rows].reshape(-1),
                    label_smoothing=label_smoothing,
                    arena=arena,
                )  # z has become its gradient
                part_backward(z, cache, grads, arena)
            arena.first = False
        return loss

    jobs = shares(B, len(workspace.arenas))
    with workspace.one_step():
        workspace.reset(E)
        others = gradients_of_others(params, workspace, jobs)
        losses, grads = added_up(run, jobs, total, others=others, workspace=workspace)
    return like(np.asarray(sum(losses)), E)[()], grads
