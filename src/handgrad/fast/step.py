r"""The training step of `model`, made fast: the same parameters, loss and gradients, on arrays of NumPy.

The formulas are those of `ops`; each function here names its own and says what it does to be quicker:

    loops             a chain of element-wise steps is one compiled loop, in `loops`
    causal blocks     queries are taken some at a time, with the keys up to the last of them: most of what
                      the causal mask hides is never computed
    in place          a result takes the place of an input that is not needed again
    recomputation     the outputs of norms and activations are computed again, and not kept; so are attention
                      weights, where there are many
    workspace         the arrays of a step lie in memory that the next step uses again, at lines of the cache,
                      and the backward gives it back in the opposite order, as it is done with each part
    two workers       each takes half of the sequences, in a thread, and their gradients are added; or half
                      of the heads and rows of a lone sequence

A backward here uses up its cache and the dy that it is given, and adds the gradients of the parameters to
the arrays of a tree that it is given too. Shapes: b sequences of T tokens are n = b·T rows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..algebra import check_like
from ..config import Config, check_params
from ..model import check_batch
from ..ops import GATED, rotary_angles, sinusoidal
from .memory import Arena, Workspace, shares
from .sharing import (
    added_up,
    arguments_of,
    check_kind,
    gradients_of_others,
    receiving,
    weighted_targets,
    whole,
)

# Linear layers: ops.linear


def linear(x, W, b, arena, out=None):
    """x (n, D), W (D, F), b (F,) or None -> y (n, F), written to out if there is one."""
    out = arena.product(x, W, out=arena.empty(len(x), W.shape[1]) if out is None else out)
    if b is not None:
        out += b
    return out


def linear_backward(dy, x, dW, db, arena):
    """dy (n, F), x (n, D): their dW (D, F) and db (F,), unless it is None, are added.

    Of the first sequences dW is written: there is nothing yet to add to. Rows are summed as a product.
    """
    if arena.first:
        arena.product(x.T, dy, out=dW)
    else:
        with arena.scratch():
            dW += arena.product(x.T, dy, out=arena.empty(*dW.shape))
    if db is not None:
        db += np.ones(len(dy), dy.dtype) @ dy


# Embedding: ops.embedding and ops.positions


def embed(tokens, segments, tables, norm, *, config, next_keep, arena):
    """model.embed. tokens (b, T) -> x (n, D), cache."""
    (b, T), D, index = tokens.shape, config.D, tokens.reshape(-1)
    x = np.take(tables["E"], index, axis=0, out=arena.empty(b * T, D), mode="clip")  # "clip" spares a copy
    cache = {"index": index, "config": config, "normed": None}
    if config.scale_embedding:
        x *= math.sqrt(D)
    if config.segments:
        cache["segments"] = 0 * index if segments is None else segments.reshape(-1)
        x += tables["E_segment"][cache["segments"]]
    if config.positions in ("learned", "sinusoidal"):
        x.reshape(b, T, D)[...] += tables["P"][:T] if config.positions == "learned" else sinusoidal(T, D)
    if norm:
        x, cache["normed"] = normalize(x, norm, config.eps, arena, out=x)
    cache["keep"] = next_keep("embedding")
    return drop(x, cache["keep"], config.p, out=x), cache


def embed_backward(dx, T, cache, dtables, dnorm, arena):
    """dx (n, D); what the rows of the tables receive is added to dtables."""
    config = cache["config"]
    drop(dx, cache["keep"], config.p, out=dx)
    if cache["normed"]:
        normalize_backward(dx, cache["normed"], dnorm, arena)
    if config.positions == "learned":
        dtables["P"][:T] += dx.reshape(-1, T, config.D).sum(axis=0)
    if config.segments:
        arena.loops.scatter_add(cache["segments"], dx, dtables["E_segment"])
    if config.scale_embedding:
        dx *= math.sqrt(config.D)
    arena.loops.scatter_add(cache["index"], dx, dtables["E"])


def drop(x, keep, p, out):
    """ops.dropout, and its backward: x ∘ keep/(1 - p) -> out, which may be x. Without keep: x itself."""
    if keep is None:
        return x
    np.multiply(x, keep, out=out)
    out *= 1 / (1 - p)
    return out


def cut(x, part):
    """Some of x, or None of None."""
    return None if x is None else x[part]


# Normalization: ops.layer_norm, and ops.rms_norm where there is no β


def normalize(x, params, eps, arena, out):
    """x (n, D) -> y (n, D), written to out (which may be x), cache."""
    gamma, beta = (None if b is None else whole(b, b.dtype) for b in (params["gamma"], params.get("beta")))
    cache = {"x_hat": arena.like(x), "inverse_std": arena.empty(len(x)), "gamma": gamma, "beta": beta}
    arena.loops.normalize(x, gamma, beta, cache["x_hat"], cache["inverse_std"], out, eps)
    return out, cache


def normalize_backward(dy, cache, dparams, arena, into=None):
    """dy (n, D) -> dx (n, D): in the place of dy, or added to `into`."""
    known, dx = [cache[name] for name in ("x_hat", "inverse_std", "gamma")], dy if into is None else into
    arena.loops.normalize_backward(dy, *known, dparams["gamma"], dparams.get("beta"), dx, into is not None)


# Attention: ops.multi_head and ops.attention


def heads(x, b, H, K):
    """x (b·T, H·g·K) -> (b, H, g, T, K), the same numbers: g heads of queries for each of H heads of keys."""
    return x.reshape(b, len(x) // b, H, -1, K).transpose(0, 2, 3, 1, 4)


def weights(q, k, hidden, before, arena):
    """softmax(q kᵀ/√K): q (b, H, g, t, K), k (b, H, 1, s, K) -> a (b, H, g, t, s).

    hidden (b, S): keys at padding, or None. before: keys before the first query's own; -1: all are seen.
    """
    a = np.matmul(q, k.mT, out=arena.empty(*q.shape[:-1], k.shape[-2]))
    arena.loops.softmax(a.reshape(len(a), -1, *a.shape[-2:]), hidden, before, 1 / math.sqrt(q.shape[-1]))
    return a


def attention(q, k, v, y, causal, hidden, keep, room, step, arena):
    """q (b, H, g, T, K), k and v (b, H, 1, S, K) -> cache; y (b, H, g, T, K) is written.

    By blocks of queries. A causal block sees the keys up to its own last query, the others see all. There is
    room for so many weights: those of later blocks are not kept, and the backward computes them again.
    """
    T, S, parts, start = q.shape[3], k.shape[3], [], arena.used
    for first in range(0, T, step.queries if causal else T):
        rows = slice(first, min(T, first + step.queries) if causal else T)
        end, before, used = (rows.stop, first, arena.used) if causal else (S, -1, arena.used)
        a = weights(q[..., rows, :], k[..., :end, :], hidden, before, arena)
        is_kept = a.size <= room
        if is_kept:
            room, used = room - a.size, arena.used
        parts.append((rows, end, before, a if is_kept else None))
        dropped = a if keep is None else drop(a, keep[..., rows, :end], step.config.p, arena.like(a))
        np.matmul(dropped, v[..., :end, :], out=y[..., rows, :])
        arena.used = used
    return {"q": q, "k": k, "v": v, "hidden": hidden, "keep": keep, "parts": parts, "start": start}


def attention_backward(dy, cache, dk, dv, p, arena):
    """dy (b, H, g, T, K) -> dk, dv, written to arrays shaped as k and v; dq takes the place of q."""
    keep = cache["keep"]
    for rows, end, before, a in reversed(cache["parts"]):
        q, k, v = cache["q"][..., rows, :], cache["k"][..., :end, :], cache["v"][..., :end, :]
        with arena.scratch():
            if a is None:
                a = weights(q, k, cache["hidden"], before, arena)
            ds, dropped = np.matmul(dy[..., rows, :], v.mT, out=arena.like(a)), a
            if keep is not None:
                drop(ds, keep[..., rows, :end], p, out=ds)
                dropped = drop(a, keep[..., rows, :end], p, out=arena.like(a))
            arena.loops.softmax_backward(ds.reshape(-1, end), a.reshape(-1, end), 1 / math.sqrt(q.shape[-1]))
            first = rows.stop == len(cache["q"][0, 0, 0])  # the last queries come first, and see every key
            add_heads(dropped.mT, dy[..., rows, :], dv[..., :end, :], first, arena)
            add_heads(ds.mT, q, dk[..., :end, :], first, arena)
            np.matmul(ds, k, out=q)


def add_heads(x, y, out, first, arena):
    """x y (b, H, g, s, K), summed over g, is added to out (b, H, 1, s, K); written, if it is the first."""
    if first and x.shape[2] == 1:
        np.matmul(x, y, out=out)
    else:
        part = np.matmul(x, y, out=arena.empty(*x.shape[:-1], y.shape[-1]))
        part = part if x.shape[2] == 1 else part.sum(axis=2, keepdims=True)  # ops.repeat_heads_backward
        np.add(0 if first else out, part, out=out)


def multi_head(h, params, memory, causal, hidden, keep, out, step):
    """h (n, D) -> cache; y (n, D) is written to out. memory (m, D), m = b·S; None: h itself."""
    arena, config, H = step.arena, step.config, step.config.H_kv or step.config.H
    memory, angles = (h, step.angles) if memory is None else (memory, ())
    q = linear(h, params["W_Q"], params.get("b_Q"), arena)
    k = linear(memory, params["W_K"], params.get("b_K"), arena)
    v = linear(memory, params["W_V"], params.get("b_V"), arena)
    for x in (q, k) if angles else ():
        arena.loops.turn(x, *angles)
    o = arena.like(q)
    by_head = [heads(x, step.b, H, config.K) for x in (q, k, v, o)]
    keep = None if keep is None else keep.reshape(*by_head[0].shape[:4], -1)
    jobs = arena.halves(H)

    def of_heads(own, arena):
        own_keep, room = cut(keep, np.s_[:, own]), step.kept // len(jobs)
        return attention(*(x[:, own] for x in by_head), causal, hidden, own_keep, room, step, arena)

    parts = arena.each(jobs, of_heads)
    linear(o, params["W_O"], params.get("b_O"), arena, out=out)
    return {"params": params, "q": q, "k": k, "v": v, "o": o, "angles": angles, "parts": parts}


def multi_head_backward(dy, h, cache, dparams, dmemory, step):
    """dy, h (n, D) -> dx (n, D) in the place of h; what the memory receives is added to dmemory, if any."""
    arena, config, H = step.arena, step.config, step.config.H_kv or step.config.H
    params, o, memory = cache["params"], cache["o"], h if dmemory is None else step.memory
    linear_backward(dy, o, dparams["W_O"], dparams.get("b_O"), arena)
    do = arena.product(dy, params["W_O"].T, out=o)
    dq, dk, dv = cache["q"], arena.like(cache["k"]), arena.like(cache["v"])  # dq takes the place of q
    by_head = [heads(x, step.b, H, config.K) for x in (do, dk, dv)]

    def of_heads(job, arena):
        own, part = job
        own_do, own_dk, own_dv = (x[:, own] for x in by_head)
        attention_backward(own_do, part, own_dk, own_dv, config.p, arena)
        return part["start"]

    starts = arena.each(list(zip(arena.halves(H), cache["parts"])), of_heads)
    if len(starts) > 1:
        arena.idle.used = starts[1]  # the rest is the sub-layer's
    for x in (dq, dk) if cache["angles"] else ():
        cos, sin = cache["angles"]
        arena.loops.turn(x, cos, -sin)
    linear_backward(dq, h, dparams["W_Q"], dparams.get("b_Q"), arena)
    linear_backward(dk, memory, dparams["W_K"], dparams.get("b_K"), arena)
    linear_backward(dv, memory, dparams["W_V"], dparams.get("b_V"), arena)
    dx = arena.product(dq, params["W_Q"].T, out=h)
    dmemory = dx if dmemory is None else dmemory  # every block uses the memory, and self-attention its x
    through = arena.like(memory)
    dmemory += arena.product(dk, params["W_K"].T, out=through)
    dmemory += arena.product(dv, params["W_V"].T, out=through)
    return dx


# Feed-forward: ops.feed_forward and ops.gated_feed_forward


def active(h, b, up, keep, activation, p, arena):
    """φ(h + b) ∘ up, dropped: h (n, F) -> a (n, F); h + b takes the place of h. What is None is left out."""
    a, (forward, _) = arena.like(h), arena.loops.activations[activation]

    def of_rows(rows, _):
        forward(h[rows], a[rows], b, cut(up, rows), cut(keep, rows), 1 / (1 - p))

    arena.each(arena.halves(len(h)), of_rows)
    return a


def active_backward(da, h, up, keep, activation, p, arena):
    """da (n, F) -> dh in its place; dup takes the place of up; and a is computed again, in the place of h."""
    _, backward = arena.loops.activations[activation]

    def of_rows(rows, _):
        backward(h[rows], da[rows], cut(up, rows), cut(keep, rows), 1 / (1 - p))

    arena.each(arena.halves(len(h)), of_rows)


def feed_forward(x, params, config, keep, out, arena):
    """x (n, D) -> cache; y (n, D) is written to out. What comes after W_1, or W_gate, is not kept."""
    first, last, activation, up = "1", "2", config.activation, None
    if config.gated:
        first, last, activation = "gate", "down", GATED[activation]
        up = linear(x, params["W_up"], None, arena)
    h = linear(x, params[f"W_{first}"], None, arena)
    chain = {"up": up, "keep": keep, "activation": activation, "p": config.p}
    with arena.scratch():
        b = params.get(f"b_{first}")
        a = active(h, None if b is None else whole(b, b.dtype), **chain, arena=arena)
        linear(a, params[f"W_{last}"], params.get(f"b_{last}"), arena, out=out)
    return {"params": params, "first": first, "last": last, "h": h, "chain": chain}


def feed_forward_backward(dy, x, cache, dparams, arena):
    """dy (n, D) -> dx (n, D) in the place of x."""
    params, h, first, last = (cache[name] for name in ("params", "h", "first", "last"))
    up = cache["chain"]["up"]
    da = arena.product(dy, params[f"W_{last}"].T, out=arena.like(h))
    active_backward(da, h, **cache["chain"], arena=arena)  # h is a now, da is dh, up is dup
    linear_backward(dy, h, dparams[f"W_{last}"], dparams.get(f"b_{last}"), arena)
    linear_backward(da, x, dparams[f"W_{first}"], dparams.get(f"b_{first}"), arena)
    if up is not None:
        linear_backward(up, x, dparams["W_up"], None, arena)
    dx = arena.product(da, params[f"W_{first}"].T, out=x)
    if up is not None:  # x is used twice: by the gate, and by what it gates
        dx += arena.product(up, params["W_up"].T, out=arena.like(x))
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
    kept: int  # the most attention weights that a layer keeps
    causal: bool
    hidden: Any  # (b, T), where the padding is, or None
    memory: Any  # (m, D) or None
    dmemory: Any  # (m, D), the gradient of the memory, or None
    memory_hidden: Any  # (b, S) or None
    angles: tuple  # cos and sin (T, K/2) of rotary positions, or nothing
    buffers: tuple  # two arrays (n, D), for what goes into a sub-layer and what comes out


def inside(name, h, params, out, step):
    """What a sub-layer computes of h (n, D): written to out. Returns its cache."""
    if name == "feed_forward":
        return feed_forward(h, params, step.config, step.next_keep("hidden"), out, step.arena)
    keep = step.next_keep("attention")
    if name == "cross_attention":
        return multi_head(h, params, step.memory, False, step.memory_hidden, keep, out, step)
    return multi_head(h, params, None, step.causal, step.hidden, keep, out, step)


def inside_backward(name, dy, h, cache, dparams, step):
    """dy, h (n, D) -> dx (n, D) in the place of h."""
    if name == "feed_forward":
        return feed_forward_backward(dy, h, cache, dparams, step.arena)
    dmemory = step.dmemory if name == "cross_attention" else None
    return multi_head_backward(dy, h, cache, dparams, dmemory, step)


def sublayer(x, name, params, step):
    """x (n, D) -> y (n, D), cache. With the norm in front, y takes the place of x."""
    config, arena, (before, after), norm = step.config, step.arena, step.buffers, params[f"{name}_norm"]
    h, cache, scale = x, {"name": name, "x": x, "start": arena.used}, 1 / (1 - config.p)
    if config.norm == "pre":
        h, cache["normed"] = normalize(x, norm, config.eps, arena, out=before)
    cache["f"] = inside(name, h, params[name], after, step)
    keep = cache["keep"] = step.next_keep("sublayer")
    if config.norm == "pre":
        arena.loops.dropped_sum(x, after, keep, x, scale)
        return x, cache | {"end": arena.used}
    arena.loops.dropped_sum(x if config.norm == "post" else None, after, keep, after, scale)
    y, cache["normed"] = normalize(after, norm, config.eps, arena, out=arena.like(x))
    if config.norm == "output":
        y += x
    return y, cache


def sublayer_backward(dy, cache, grads, step):
    """dy (n, D) -> dx (n, D) in its place; added to grads of the block."""
    arena, config, name, normed = step.arena, step.config, cache["name"], cache["normed"]
    dnorm, h, keep = grads[f"{name}_norm"], cache["x"], cache["keep"]
    with arena.scratch():
        if config.norm == "pre":
            h = step.buffers[0]
            arena.loops.scale_shift(normed["x_hat"], normed["gamma"], normed["beta"], h)  # again
        if config.norm == "post":
            normalize_backward(dy, normed, dnorm, arena)
        dh = dy if keep is None and config.norm != "output" else arena.copy(dy)
        if config.norm == "output":
            normalize_backward(dh, normed, dnorm, arena)
        dh = inside_backward(name, drop(dh, keep, config.p, out=dh), h, cache["f"], grads[name], step)
        if config.norm == "pre":
            normalize_backward(dh, normed, dnorm, arena, into=dy)
        else:
            dy += dh  # x is used twice: by f, and by the connection around f
    if config.norm == "pre":  # else dy may lie there: in the place of the last sub-layer's y
        arena.give_back(cache["start"], cache["end"])
    return dy


# The model: model.encode and model.decode in one, model.head, the loss, and the step


def stack(name, tokens, params, *, config, next_keep, arena, workspace, segments=None, **of_memory):
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
        hidden = tokens == config.pad
    if config.positions == "rotary":
        angles = rotary_angles(T, config.K, config.rotary_base)
        angles = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    of_memory = {"memory": None, "dmemory": None, "memory_hidden": None} | of_memory
    step = Step(
        **told,
        **of_memory,
        b=b,
        queries=min(workspace.queries, max(32, T // 4)),
        kept=workspace.kept,
        causal=name == "decoder",
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
        normalize_backward(dx, cache["normed"], grads[f"{name}_norm"], arena)
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
        cache["h"] = linear(x, own["W_transform"], None, arena)
        y = active(cache["h"], own["b_transform"], None, None, config.activation, 0, arena)
        y, cache["normed"] = normalize(y, params["head_norm"], config.eps, arena, out=y)
    W = params["embedding"]["E"].T if config.tied else own["W_out"]
    logits = linear(y, W, own.get("b_out"), arena)
    return logits, cache | {"y": y, "W": W, "start": start, "end": arena.used}


def head_backward(dlogits, cache, params, config, grads, arena):
    """dlogits (n, V) -> dx (n, D) in the place of x."""
    own, x, y = grads.get("head", {}), cache["x"], cache["y"]
    dW = grads["embedding"]["E"].T if config.tied else own["W_out"]
    with arena.scratch():
        linear_backward(dlogits, y, dW, own.get("b_out"), arena)
        dx = arena.product(dlogits, cache["W"].T, out=y)
        if config.head_transform:
            normalize_backward(dx, cache["normed"], grads["head_norm"], arena)
            active_backward(dx, cache["h"], None, None, config.activation, 0, arena)
            linear_backward(dx, x, own["W_transform"], own["b_transform"], arena)
            dx = arena.product(dx, params["head"]["W_transform"].T, out=x)
    arena.give_back(cache["start"], cache["end"])
    return dx


def cross_entropy(z, targets, weights, label_smoothing, arena):
    """ops.cross_entropy: z (n, V), targets and weights (n,) -> loss; z becomes its gradient."""

    def of_rows(rows, _):
        return arena.loops.cross_entropy(z[rows], targets[rows], weights[rows], float(label_smoothing))

    return sum(arena.each(arena.halves(len(z)), of_rows))


def part_forward(params, config, batch, next_keep, arena, workspace):
    """The logits (n, V) of some sequences, in the arena of a worker, and the cache."""
    encoded, decoded, told = None, None, {"config": config, "next_keep": next_keep, "arena": arena}
    told["workspace"] = workspace
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
    check_kind("params", params["embedding"]["E"])
    check_batch(config, batch)
    workspace = workspace or Workspace()
    B, T = batch["target_in" if config.kind == "encoder-decoder" else "tokens"].shape
    shared, of_rows = shares(B, len(workspace.arenas)), arguments_of(params, config, batch, draw_keep)
    with workspace.one_step():
        workspace.reset(params["embedding"]["E"].dtype)
        others = gradients_of_others(params, workspace, shared)
        told = {"workspace": workspace}
        parts = workspace.map(lambda rows, arena: part_forward(**of_rows(rows), arena=arena, **told), shared)
        logits, caches = zip(*parts)
        cache = {"workspace": workspace, "use": workspace.uses, "shares": shared, "parts": caches}
        cache |= {"others": others, "shape": (B, T, config.V)}
        return np.concatenate(logits).reshape(B, T, config.V), cache  # a copy


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
    dtype, workspace = check_kind("params", params["embedding"]["E"]), workspace or Workspace()
    targets, counted = weighted_targets(batch, config, label_smoothing, dtype)
    (B, T), of_rows = targets.shape, arguments_of(params, config, batch, draw_keep)
    total = receiving(out, params, workspace)

    def run(share, grads, arena):
        loss = 0.0
        for rows in workspace.pieces(share, T * config.F):
            with arena.scratch():
                z, cache = part_forward(**of_rows(rows), arena=arena, workspace=workspace)
                loss += cross_entropy(z, targets[rows].ravel(), counted[rows].ravel(), label_smoothing, arena)
                # z has become its gradient
                part_backward(z, cache, grads, arena)
            arena.first = False
        return loss

    jobs = shares(B, len(workspace.arenas))
    with workspace.one_step():
        workspace.reset(dtype)
        others = gradients_of_others(params, workspace, jobs)
        losses, grads = added_up(run, jobs, total, others=others, workspace=workspace)
    return dtype.type(sum(losses)), grads
