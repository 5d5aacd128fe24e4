r"""The training step of `model`, made fast for NumPy: the same parameters, the same loss, the same gradients.

The formulas are those of `ops`; each function here names its own and says what it does to be quicker:

    one product       the queries, keys and values come from one product, and so do their gradients
    causal blocks     queries are taken some at a time, with the keys up to the last of them: most of what
                      the causal mask hides is never computed
    cache blocks      a chain of element-wise steps takes BLOCK numbers at a time, which stay in the cache
    in place          a result takes the place of an input that is not needed again
    sums as products  a sum over rows or columns is a product with ones
    sorting           the gradients of equal tokens are brought together by a sort, and each run is added up
    workspace         the arrays of a step lie in memory that the next step uses again
    two workers       each takes half of the sequences, in a thread; their gradients are added

The last one wants matrix products that use one thread each: set OMP_NUM_THREADS=1 before NumPy is imported.

A backward here uses up its cache and the dy that it is given. What is left to `model` is
refused: see HERE.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
import optree
from scipy.special import erf

from .config import Config
from .model import check_batch
from .ops import sinusoidal
from .ops.cross_entropy import counted_targets

BLOCK = 131072  # numbers in a block of an element-wise chain: few calls, and half a megabyte in float32
QUERIES = 32  # queries in a block of attention


class Arena:
    """Memory that is handed out in order and given back in the opposite order.

    What does not fit is allocated by itself, and the next `reset` makes room for it.
    """

    def __init__(self):
        self.memory, self.used, self.most = np.empty(0, np.uint8), 0, 0

    def reset(self):
        """Take everything back."""
        if self.most > self.memory.size:
            self.memory = np.empty(self.most, np.uint8)
        self.used = 0

    def empty(self, shape, dtype):
        """An array whose numbers are still to be written."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        start, self.used = self.used, self.used + -(-size // 64) * 64  # whole lines of the cache
        self.most = max(self.most, self.used)
        if self.used > self.memory.size:
            return np.empty(shape, dtype)
        return self.memory[start : start + size].view(dtype).reshape(shape)

    def like(self, x):
        """An array of the shape and type of x."""
        return self.empty(x.shape, x.dtype)


class Workspace:
    """The memory and the threads of a training step, for one call of `loss_and_gradients` at a time.

    Nothing that a step returns lies in it. Raises ValueError unless workers is at least 1.
    """

    def __init__(self, workers=2):
        if workers < 1:
            raise ValueError(f"workers: expected at least 1, got {workers}")
        self.arenas = [Arena() for _ in range(workers)]
        self.threads = ThreadPoolExecutor(max(1, workers - 1))

    def map(self, f, jobs):
        """f(job, arena) for each job, at most as many as workers. The caller does the first."""
        others = [self.threads.submit(f, *pair) for pair in zip(jobs[1:], self.arenas[1:])]
        try:
            first = f(jobs[0], self.arenas[0])
        finally:
            wait(others)  # their memory is in use until then
        return [first, *(other.result() for other in others)]


# Pieces that several operations share


def flat(x):
    """x (..., D) -> the same numbers as rows (n, D)."""
    return x.reshape(-1, x.shape[-1])


def blocks(n, width):
    """Slices of n rows, each about BLOCK numbers."""
    step = max(1, BLOCK // width)
    return [slice(start, start + step) for start in range(0, n, step)]


def column_sum(x):
    """x (n, F) -> (F,), as a product."""
    return np.ones(len(x), x.dtype) @ x


def drop(x, mask, p):
    """ops.dropout, and its backward, in place."""
    if mask is not None:
        x *= mask
        x *= 1 / (1 - p)
    return x


def linear(x, W, b, out):
    """ops.linear: x (..., D), W (D, F), b (F,) or None -> out (..., F)."""
    np.matmul(flat(x), W, out=flat(out))
    if b is not None:
        out += b
    return out


def linear_backward(dy, x, W, b, out):
    """dy (..., F) -> dx (..., D), written to out, dW (D, F), db (F,) or None."""
    rows = flat(dy)
    dW = flat(x).T @ rows
    np.matmul(rows, W.T, out=flat(out))
    return out, dW, None if b is None else column_sum(rows)


def present(**grads):
    """The gradients of the parameters that there are."""
    return {name: gradient for name, gradient in grads.items() if gradient is not None}


# Embedding: ops.embedding and ops.positions


def embed(tokens, segments, tables, norm, config, keep, arena):
    """model.embed. tokens (b, T) -> x (b, T, D), cache."""
    E, T = tables["E"], tokens.shape[1]
    x = arena.empty((*tokens.shape, config.D), E.dtype)
    np.take(E, tokens, axis=0, out=x, mode="clip")  # the ids are checked; "clip" spares a copy
    if config.scale_embedding:
        x *= math.sqrt(config.D)
    if config.segments:
        x += tables["E_segment"][np.zeros_like(tokens) if segments is None else segments]
    if config.positions == "learned":
        x += tables["P"][:T]
    if config.positions == "sinusoidal":
        x += sinusoidal(T, config.D).astype(x.dtype)
    cache = {"tokens": tokens, "segments": segments, "tables": tables, "config": config, "normed": None}
    if norm:
        x, cache["normed"] = normalize(x, norm, config.eps, arena, out=x)
    cache["mask"] = keep("embedding", x.shape)
    return drop(x, cache["mask"], config.p), cache


def embed_backward(dx, cache, arena):
    """dx (b, T, D) -> dtables, dnorm ({} without a norm)."""
    config, tables, tokens = cache["config"], cache["tables"], cache["tokens"]
    dtables, dnorm = {}, {}
    dx = drop(dx, cache["mask"], config.p)
    if cache["normed"]:
        dx, dnorm = normalize_backward(dx, cache["normed"], arena)
    if config.positions == "learned":
        dtables["P"] = np.zeros_like(tables["P"])
        np.sum(dx, axis=0, out=dtables["P"][: tokens.shape[1]])
    if config.segments:
        segments = np.zeros_like(tokens) if cache["segments"] is None else cache["segments"]
        dtables["E_segment"] = scatter_add(segments, dx, config.segments)
    if config.scale_embedding:
        dx *= math.sqrt(config.D)
    dtables["E"] = scatter_add(tokens, dx, config.V)
    return dtables, dnorm


def scatter_add(index, values, rows):
    """algebra.scatter_add. index (b, T), values (b, T, D) -> (rows, D): sort, and add up each run."""
    index = index.reshape(-1)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    total = np.zeros((rows, values.shape[-1]), values.dtype)
    total[ordered[starts]] = np.add.reduceat(flat(values)[order], starts, axis=0)
    return total


# Normalization: ops.layer_norm


def normalize(x, params, eps, arena, out):
    """x (..., D) -> y (..., D), written to out (which may be x), cache. In cache blocks."""
    gamma, beta, x_hat, D = params["gamma"], params["beta"], arena.like(x), x.shape[-1]
    inverse_std = arena.empty((x.size // D, 1), x.dtype)
    mean = np.full((D, 1), 1 / D, x.dtype)
    for rows in blocks(len(inverse_std), D):
        source, hat, r = flat(x)[rows], flat(x_hat)[rows], inverse_std[rows]  # (block, D), and (block, 1)
        np.subtract(source, np.matmul(source, mean, out=r), out=hat)
        np.vecdot(hat, hat, out=r[:, 0])
        r *= 1 / D
        r += eps
        np.sqrt(r, out=r)
        np.reciprocal(r, out=r)
        hat *= r
        y = np.multiply(hat, gamma, out=flat(out)[rows])
        y += beta
    return out, {"x_hat": x_hat, "inverse_std": inverse_std, "gamma": gamma, "beta": beta}


def normalized(cache, out):
    """The output of `normalize` once more: γ ∘ x̂ + β costs less to compute than to keep."""
    np.multiply(cache["x_hat"], cache["gamma"], out=out)
    out += cache["beta"]
    return out


def normalize_backward(dy, cache, arena):
    """dy (..., D) -> dx (..., D) in its place, dparams."""
    x_hat, gamma = flat(cache["x_hat"]), cache["gamma"]
    n, D = x_hat.shape
    used, scratch = arena.used, arena.empty((min(n, BLOCK // D + 1), D), dy.dtype)
    dgamma, dbeta = np.zeros_like(gamma), np.zeros_like(gamma)
    mean = np.full((D, 1), 1 / D, dy.dtype)
    for rows in blocks(n, D):
        d, hat = flat(dy)[rows], x_hat[rows]  # (block, D)
        product = np.multiply(d, hat, out=scratch[: len(d)])
        dgamma += column_sum(product)
        dbeta += column_sum(d)
        d *= gamma  # dx̂
        product *= gamma
        through_variance = product @ mean  # (block, 1)
        d -= d @ mean
        d -= np.multiply(hat, through_variance, out=product)
        d *= cache["inverse_std"][rows]
    arena.used = used
    return dy, {"gamma": dgamma, "beta": dbeta}


# Attention: ops.multi_head and ops.attention


def heads(x, K):
    """ops.split_heads without a copy: x (b, T, H·K) -> (b, H, T, K)."""
    return x.reshape(*x.shape[:2], -1, K).swapaxes(1, 2)


def project(x, params, names, scale, arena):
    """Several of x W_Q + b_Q, x W_K + b_K, x W_V + b_V in one product: x (b, T, D) -> y (b, T, n D), cache.

    The scale of the scores is multiplied into W_Q and b_Q, so that the scores need none.
    """
    D, scales = x.shape[-1], np.ones(len(names) * x.shape[-1], x.dtype)
    if "Q" in names:
        scales[:D] = scale
    weights = [params[f"W_{name}"] for name in names]
    W, b = np.concatenate(weights, axis=1, out=arena.empty((D, len(scales)), x.dtype)), None
    W *= scales
    if "b_Q" in params:
        b = np.concatenate([params[f"b_{name}"] for name in names]) * scales
    y = linear(x, W, b, arena.empty((*x.shape[:2], len(scales)), x.dtype))
    return y, {"W": W, "b": b, "names": names, "scales": scales}


def project_backward(dy, x, cache, out):
    """dy (b, T, n D) -> dx (b, T, D), written to out, dparams."""
    names, scales = cache["names"], cache["scales"]
    dx, dW, db = linear_backward(dy, x, cache["W"], cache["b"], out)
    grads = dict(zip([f"W_{name}" for name in names], np.split(dW * scales, len(names), axis=1)))
    if db is not None:
        grads |= zip([f"b_{name}" for name in names], np.split(db * scales, len(names)))
    return dx, {name: gradient.copy() for name, gradient in grads.items()}  # each in memory of its own


def exponentials(s, totals):
    """The numerators of ops.softmax, in place; row sums to totals (..., 1), 1 for a row of −∞.

    The row maxima are those of runs in one long row: numpy.max is slow along many short ones.
    """
    S = s.shape[-1]
    ones, lowest = np.ones((S, 1), s.dtype), np.finfo(s.dtype).min
    for rows in blocks(s.size // S, S):
        e = flat(s)[rows]  # (block, S)
        top = np.maximum.reduceat(e.reshape(-1), np.arange(0, e.size, S))[:, None]
        e -= np.maximum(top, lowest)  # −∞ − −∞ is no number
        np.exp(e, out=e)
        np.matmul(e, ones, out=flat(totals)[rows])
    np.copyto(totals, 1, where=totals == 0)


def attention(q, k, v, causal, seen, mask, p, arena):
    """q (b, H, T, K) scaled, k and v (b, H, S, K) -> o (b, T, H·K), cache. seen: (b, 1, 1, S) or None.

    By blocks of queries. A causal block sees the keys up to its own last query, and only its last corner has
    something to hide. What is kept is the exponentials: the row sums divide o, which is smaller.
    """
    b, H, T, K = q.shape
    S = k.shape[2]
    o = arena.empty((b, T, H * K), q.dtype)
    hidden = None if seen is None else np.where(seen, 0, -np.inf).astype(q.dtype)  # (b, 1, 1, S)
    future = np.triu(np.full((QUERIES, QUERIES), -np.inf, q.dtype), 1)
    parts = []
    for start in range(0, T, QUERIES):
        rows, end = slice(start, min(T, start + QUERIES)), S
        if causal:
            end = rows.stop
        length = rows.stop - start
        e = np.matmul(q[:, :, rows], k[:, :, :end].mT, out=arena.empty((b, H, length, end), q.dtype))
        if causal:
            e[..., start:] += future[:length, :length]
        if hidden is not None:
            e += hidden[..., :end]
        inverse = arena.empty((b, H, length, 1), q.dtype)
        exponentials(e, inverse)
        np.reciprocal(inverse, out=inverse)
        kept, used = e, arena.used
        if mask is not None:
            kept = drop(_copy(e, arena), mask[..., rows, :end], p)
        y = np.matmul(kept, v[:, :, :end], out=heads(o, K)[:, :, rows])
        y *= inverse
        arena.used = used
        parts.append((rows, end, e, inverse))
    return o, {"q": q, "k": k, "v": v, "o": o, "parts": parts, "mask": mask, "p": p}


def attention_backward(do, cache, dq, dk, dv, arena):
    """do (b, T, H·K) -> dq, dk, dv, written to arrays shaped as q, k, v.

    rowsum(A ∘ dA) is rowsum(O ∘ dO), which is smaller (Dao et al. 2022, section 3.1 and appendix B.2). With
    do and this sum divided by the row sums, the exponentials serve as weights.
    """
    q, k, v, mask = cache["q"], cache["k"], cache["v"], cache["mask"]
    K = q.shape[-1]
    dots = heads(np.vecdot(*(a.reshape(*a.shape[:2], -1, K) for a in (cache["o"], do))), 1)  # (b, H, T, 1)
    do = heads(do, K)
    for number, (rows, end, e, inverse) in enumerate(reversed(cache["parts"])):
        used = arena.used
        dy = np.multiply(do[:, :, rows], inverse, out=arena.empty((*e.shape[:3], K), e.dtype))
        ds = np.matmul(dy, v[:, :, :end].mT, out=arena.like(e))
        kept = e
        if mask is not None:
            drop(ds, mask[..., rows, :end], cache["p"])
            kept = drop(_copy(e, arena), mask[..., rows, :end], cache["p"])
        ds -= dots[:, :, rows] * inverse
        ds *= e
        np.matmul(ds, k[:, :, :end], out=dq[:, :, rows])
        if number == 0:  # the last queries see every key
            np.matmul(kept.mT, dy, out=dv)
            np.matmul(ds.mT, q[:, :, rows], out=dk)
        else:
            dv[:, :, :end] += kept.mT @ dy
            dk[:, :, :end] += ds.mT @ q[:, :, rows]
        arena.used = used


def multi_head(h, memory, params, causal, seen, mask, out, step):
    """h (b, T, D) -> cache; y (b, T, D) is written to out. memory (b, S, D); None: h itself."""
    K, cache, views = step.config.K, {"params": params, "projected": []}, []
    uses = [(h, "QKV")] if memory is None else [(h, "Q"), (memory, "KV")]
    for x, names in uses:
        y, projected = project(x, params, names, 1 / math.sqrt(K), step.arena)
        cache["projected"].append(projected)
        views += [heads(part, K) for part in np.split(y, len(names), axis=-1)]
    q, k, v = views  # (b, H, T, K), (b, H, S, K) twice
    o, cache["attended"] = attention(q, k, v, causal, seen, mask, step.config.p, step.arena)
    linear(o, params["W_O"], params.get("b_O"), out)
    return cache


def multi_head_backward(dy, h, memory, dmemory, cache, arena):
    """dy, h (b, T, D) -> dx (b, T, D), dparams; what the memory receives is added to dmemory."""
    params, attended, views = cache["params"], cache["attended"], []
    o, K = attended["o"], attended["q"].shape[-1]
    do = arena.like(o)
    do, dW_O, db_O = linear_backward(dy, o, params["W_O"], params.get("b_O"), do)
    uses = list(zip([h] if memory is None else [h, memory], cache["projected"]))
    dys = [arena.empty((*x.shape[:2], len(projected["scales"])), x.dtype) for x, projected in uses]
    for y, (_, projected) in zip(dys, uses):
        views += [heads(part, K) for part in np.split(y, len(projected["names"]), axis=-1)]
    attention_backward(do, attended, *views, arena)
    dparams, dxs = present(W_O=dW_O, b_O=db_O), []
    for y, (x, projected) in zip(dys, uses):
        dx, of_these = project_backward(y, x, projected, arena.like(x))
        dxs.append(dx)
        dparams |= of_these
    if memory is not None:
        dmemory += dxs[1]  # every block uses the memory
    return dxs[0], dparams


# Feed-forward: ops.feed_forward and ops.activations


def relu(x, slope, scratch):
    """x -> φ(x) in its place, φ'(x) in slope; so do all the others. In cache blocks, scratch is one block."""
    np.greater(x, 0, out=slope)
    np.maximum(x, 0, out=x)


def gelu(x, slope, scratch):
    """Φ(x) stands in scratch."""
    np.multiply(x, 1 / math.sqrt(2), out=scratch)
    erf(scratch, out=scratch)
    scratch += 1
    scratch *= 0.5
    np.multiply(x, x, out=slope)
    slope *= -0.5
    np.exp(slope, out=slope)
    slope *= 1 / math.sqrt(2 * math.pi)
    slope *= x
    slope += scratch
    x *= scratch


def gelu_tanh(x, slope, scratch):
    """With t = tanh u: φ = x (1 + t)/2 and, in terms of it, φ' = 1 + (1 - t)(φ u' - 1/2)."""
    c = math.sqrt(2 / math.pi)
    np.multiply(x, x, out=slope)
    np.multiply(slope, 0.044715 * c, out=scratch)
    scratch += c
    scratch *= x
    np.tanh(scratch, out=scratch)
    slope *= 3 * 0.044715 * c
    slope += c  # u'
    scratch += 1
    x *= scratch
    x *= 0.5  # φ
    slope *= x
    slope -= 0.5
    np.subtract(2, scratch, out=scratch)  # 1 - t
    slope *= scratch
    slope += 1


ACTIVATIONS = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh}


def dense_active(x, W, b, activation, mask, p, arena):
    """φ(x W + b), dropped: x (..., D) -> a and its slope, both (..., F). In cache blocks."""
    a = arena.empty((*x.shape[:-1], W.shape[1]), x.dtype)
    slope = arena.like(a)
    flat_a, flat_slope = flat(a), flat(slope)
    used, scratch = arena.used, arena.empty((min(len(flat_a), BLOCK // W.shape[1] + 1), W.shape[1]), x.dtype)
    for rows in blocks(*flat_a.shape):
        h = linear(flat(x)[rows], W, b, flat_a[rows])  # (block, F)
        ACTIVATIONS[activation](h, flat_slope[rows], scratch[: len(h)])
        if mask is not None:  # dropout multiplies both, so its backward is in the slope
            drop(h, flat(mask)[rows], p)
            drop(flat_slope[rows], flat(mask)[rows], p)
    arena.used = used
    return a, slope


def feed_forward(x, params, activation, mask, p, out, arena):
    """x (b, T, D) -> cache; y (b, T, D) is written to out."""
    a, slope = dense_active(x, params["W_1"], params.get("b_1"), activation, mask, p, arena)
    linear(a, params["W_2"], params.get("b_2"), out)
    return {"a": a, "slope": slope, "params": params}


def feed_forward_backward(dy, x, cache, arena):
    """dy, x (b, T, D) -> dx (b, T, D), dparams. The activations give their place to their gradient."""
    params, a, dh = cache["params"], cache["a"], cache["slope"]
    da, dW_2, db_2 = linear_backward(dy, a, params["W_2"], params.get("b_2"), a)
    dh *= da
    dx = arena.like(x)
    dx, dW_1, db_1 = linear_backward(dh, x, params["W_1"], params.get("b_1"), dx)
    return dx, present(W_1=dW_1, b_1=db_1, W_2=dW_2, b_2=db_2)


# Blocks: blocks.sublayer, blocks.encoder_block and blocks.decoder_block


@dataclass
class Step:
    """What all blocks of a stack are told."""

    config: Config
    keep: Callable  # keep(site, shape): the mask of a dropout site, or None; asked in the order of `blocks`
    arena: Arena
    causal: bool
    seen: np.ndarray | None  # (b, 1, 1, T), false at padding
    memory: np.ndarray | None = None  # (b, S, D)
    memory_seen: np.ndarray | None = None  # (b, 1, 1, S)
    dmemory: np.ndarray | None = None  # (b, S, D), the sum of what the blocks give
    buffers: tuple = ()  # two arrays (b, T, D), for what goes into a sub-layer and what comes out


def inside(name, h, params, out, step):
    """What a sub-layer computes of h (b, T, D): written to out. Returns its cache."""
    config, keep, (b, T, _) = step.config, step.keep, h.shape
    if name == "feed_forward":
        mask = keep("hidden", (b, T, config.F))
        return feed_forward(h, params, config.activation, mask, config.p, out, step.arena)
    if name == "cross_attention":
        mask = keep("attention", (b, config.H, T, step.memory.shape[1]))
        return multi_head(h, step.memory, params, False, step.memory_seen, mask, out, step)
    mask = keep("attention", (b, config.H, T, T))
    return multi_head(h, None, params, step.causal, step.seen, mask, out, step)


def inside_backward(name, dy, h, cache, step):
    """dy, h (b, T, D) -> dx (b, T, D), dparams."""
    if name == "feed_forward":
        return feed_forward_backward(dy, h, cache, step.arena)
    memory, dmemory = (step.memory, step.dmemory) if name == "cross_attention" else (None, None)
    return multi_head_backward(dy, h, memory, dmemory, cache, step.arena)


def sublayer(x, name, params, step):
    """x (b, T, D) -> y (b, T, D), cache. With the norm in front, y takes the place of x."""
    config, arena, (before, after) = step.config, step.arena, step.buffers
    h, cache, norm = x, {"name": name, "x": x}, params[f"{name}_norm"]
    if config.norm == "pre":
        h, cache["pre"] = normalize(x, norm, config.eps, arena, out=before)
    cache["f"] = inside(name, h, params[name], after, step)
    cache["mask"] = step.keep("sublayer", x.shape)
    drop(after, cache["mask"], config.p)
    if config.norm == "pre":
        x += after
        return x, cache
    if config.norm == "post":
        after += x
    y, cache[config.norm] = normalize(after, norm, config.eps, arena, out=arena.like(x))
    if config.norm == "output":
        y += x
    return y, cache


def sublayer_backward(dy, cache, step):
    """dy (b, T, D) -> dx (b, T, D) in its place, dparams of the norm and of f."""
    arena, config, name, used = step.arena, step.config, cache["name"], step.arena.used
    if config.norm == "post":
        dy, dnorm = normalize_backward(dy, cache["post"], arena)
    h, dh = cache["x"], _copy(dy, arena)
    if config.norm == "output":
        dh, dnorm = normalize_backward(dh, cache["output"], arena)
    if config.norm == "pre":
        h = normalized(cache["pre"], step.buffers[0])
    dh, dparams = inside_backward(name, drop(dh, cache["mask"], config.p), h, cache["f"], step)
    if config.norm == "pre":
        dh, dnorm = normalize_backward(dh, cache["pre"], arena)
    dy += dh  # x is used twice: by f, and by the connection around f
    arena.used = used
    return dy, {name: dparams, f"{name}_norm": dnorm}


# The model: model.encode and model.decode in one, model.head with the loss, and the step


def stack(name, tokens, params, config, keep, arena, segments=None, memory=None, memory_seen=None):
    """Embedding, blocks, final norm of "encoder" or "decoder": tokens (b, T) -> x (b, T, D), cache."""
    source = "source_" if name == "encoder" and config.kind == "encoder-decoder" else ""
    tables = params["embedding"] | params.get(f"{source}embedding", {})
    norm = params.get(f"{source}embedding_norm")
    x, embedded = embed(tokens, segments, tables, norm, config, keep, arena)
    seen = None if config.pad is None else (tokens != config.pad)[:, None, None, :]  # (b, 1, 1, T)
    step = Step(config, keep, arena, name == "decoder", seen, memory, memory_seen)
    step.buffers = arena.like(x), arena.like(x)
    cache = {"name": name, "source": source, "embedded": embedded, "step": step, "blocks": [], "normed": None}
    for block in params[name]:
        cache["blocks"].append([])
        for part in ("self_attention", "cross_attention", "feed_forward"):
            if part in block:
                x, of_part = sublayer(x, part, block, step)
                cache["blocks"][-1].append(of_part)
    if config.final_norm:
        x, cache["normed"] = normalize(x, params[f"{name}_norm"], config.eps, arena, out=x)
    return x, cache


def stack_backward(dx, cache):
    """dx (b, T, D) -> dmemory (b, S, D) or None, grads."""
    grads, name, source, step = {}, cache["name"], cache["source"], cache["step"]
    if step.memory is not None:
        step.dmemory = step.arena.like(step.memory)
        step.dmemory[...] = 0
    if cache["normed"]:
        dx, grads[f"{name}_norm"] = normalize_backward(dx, cache["normed"], step.arena)
    grads[name] = [{} for _ in cache["blocks"]]
    for block, of_block in reversed(list(zip(cache["blocks"], grads[name]))):
        for of_part in reversed(block):
            dx, dparams = sublayer_backward(dx, of_part, step)
            of_block |= dparams
    tables = embed_backward(dx, cache["embedded"], step.arena)
    grads[f"{source}embedding"], grads[f"{source}embedding_norm"] = tables
    return step.dmemory, grads


def head_and_loss(x, targets, weights, params, config, label_smoothing, arena):
    """model.head, the loss and both backwards. x (b, T, D), targets and their weights (b, T).

    Returns the loss, dx (b, T, D), dE (V, D) or None, the gradients of the head.
    """
    own, grads, h = params.get("head", {}), {}, x
    if config.head_transform:
        W, b = own["W_transform"], own["b_transform"]
        h, slope = dense_active(x, W, b, config.activation, None, 0, arena)
        h, normed = normalize(h, params["head_norm"], config.eps, arena, out=h)
    W = params["embedding"]["E"].T if config.tied else own["W_out"]
    z = linear(h, W, own.get("b_out"), arena.empty((*x.shape[:2], config.V), x.dtype))
    loss = cross_entropy(flat(z), targets.reshape(-1), weights.reshape(-1), label_smoothing)  # z is now dz
    dx, dW, db = linear_backward(z, h, W, own.get("b_out"), arena.like(x))
    grads["head"] = present(W_out=None if config.tied else dW, b_out=db)
    if config.head_transform:
        dx, grads["head_norm"] = normalize_backward(dx, normed, arena)
        slope *= dx
        dx, dW_t, db_t = linear_backward(slope, x, own["W_transform"], own["b_transform"], dx)
        grads["head"] |= {"W_transform": dW_t, "b_transform": db_t}
    return loss, dx, dW.T if config.tied else None, grads


def cross_entropy(z, targets, weights, label_smoothing):
    """ops.cross_entropy. z (n, V), targets and weights (n,) -> loss; z becomes its gradient. By blocks."""
    ones, smooth, loss = np.ones((z.shape[1], 1), z.dtype), label_smoothing / z.shape[1], 0.0
    for rows in blocks(*z.shape):
        s, weight = z[rows], weights[rows, None].astype(z.dtype)  # (block, V), (block, 1)
        at = np.arange(len(s)), targets[rows]
        s -= np.max(s, axis=1, keepdims=True)
        wanted = (1 - label_smoothing) * s[at][:, None] + smooth * (s @ ones)
        np.exp(s, out=s)
        total = s @ ones
        loss += float(np.vdot(weight, np.log(total) - wanted))
        s *= weight / total
        s -= smooth * weight
        s[at] -= (1 - label_smoothing) * weight[:, 0]
    return loss


def part(job, arena):
    """Loss and gradients of the sequences of one worker."""
    params, config, batch, targets, weights, label_smoothing, keep = job
    arena.reset()
    encoded = decoded = None
    if config.kind == "encoder-decoder":
        memory, encoded = stack("encoder", batch["source"], params, config, keep, arena)
        seen = encoded["step"].seen
        x, decoded = stack("decoder", batch["target_in"], params, config, keep, arena, None, memory, seen)
    elif config.kind == "decoder":
        x, decoded = stack("decoder", batch["tokens"], params, config, keep, arena)
    else:
        x, encoded = stack("encoder", batch["tokens"], params, config, keep, arena, batch.get("segments"))
    loss, dx, dE, grads = head_and_loss(x, targets, weights, params, config, label_smoothing, arena)
    for cache in filter(None, (decoded, encoded)):
        dx, of_stack = stack_backward(dx, cache)  # after the decoder, dx is the gradient of the memory
        grads |= of_stack
    if config.kind == "encoder-decoder" and config.shared:
        grads["embedding"]["E"] += grads["source_embedding"].pop("E")  # used by source and target
    if config.tied:
        grads["embedding"]["E"] += dE  # the table is used again, as the head
    return loss, {name: gradients for name, gradients in grads.items() if gradients}


def drawn(batch, config, keep):
    """All the masks of a step, asked of `keep` in the order of `model`; the workers share them."""
    masks, D, H = [], config.D, config.H
    for name in ("source", "target_in", "tokens"):
        if name in batch:
            B, T = batch[name].shape
            sites = [("attention", (B, H, T, T)), ("sublayer", (B, T, D))]
            if name == "target_in":
                sites += [("attention", (B, H, T, batch["source"].shape[1])), ("sublayer", (B, T, D))]
            sites += [("hidden", (B, T, config.F)), ("sublayer", (B, T, D))]
            for site, shape in [("embedding", (B, T, D)), *sites * config.N]:
                if site in config.dropout_sites:
                    masks.append(keep(shape))
                    if tuple(masks[-1].shape) != shape:
                        got = tuple(masks[-1].shape)
                        raise ValueError(f"keep: expected the shape of x {shape}, got {got}")
    return masks


HERE = {
    "H_kv": (None,),
    "normalization": ("layer_norm",),
    "activation": tuple(ACTIVATIONS),
    "positions": ("sinusoidal", "learned"),
}
"""What a configuration may ask for here; the rest is left to `model`."""


def loss_and_gradients(params, config, batch, keep=None, label_smoothing=0.0, workspace=None):
    """What model.loss_and_gradients returns, for NumPy arrays: the mean loss, and the tree of its gradients.

    workspace: memory and threads for one call after another; a fresh one if None. The gradients never lie in
    it: the next call leaves them as they are. keep is asked as `model` asks it, for the whole batch.

    Raises TypeError or ValueError as `model` does; NotImplementedError, with the field's name, for what HERE
    does not list.
    """
    for name, choices in HERE.items():
        if getattr(config, name) not in choices:
            got = getattr(config, name)
            raise NotImplementedError(f"{name}: expected one of {choices}, got {got!r}; use model")
    check_batch(config, batch)
    targets, weights = weights_of(config, batch, label_smoothing)
    masks = drawn(batch, config, keep) if keep else []
    workspace, jobs, B = workspace or Workspace(), [], len(batch["target_out"])
    edges = np.linspace(0, B, min(B, len(workspace.arenas)) + 1).astype(int)
    for rows in map(slice, edges[:-1], edges[1:]):

        def own_keep(site, shape, own=iter([mask[rows] for mask in masks])):  # noqa: B008
            return next(own) if keep and site in config.dropout_sites else None

        own_batch = {name: np.ascontiguousarray(array[rows]) for name, array in batch.items()}
        jobs.append((params, config, own_batch, targets[rows], weights[rows], label_smoothing, own_keep))
    (loss, grads), *others = workspace.map(part, jobs)
    for other_loss, other in others:
        loss += other_loss
        optree.tree_map(lambda a, b: np.add(a, b, out=a), grads, other)
    return params["embedding"]["E"].dtype.type(loss), grads


def weights_of(config, batch, label_smoothing):
    """Targets (B, T), 0 where they do not count, and their weights (B, T) in the mean, 0 there.

    Raises ValueError as model.loss_and_gradients and ops.cross_entropy do.
    """
    if "target_out" not in batch:
        raise ValueError(f'batch: expected the entry "target_out", got {sorted(batch)}')
    targets, ignore_index = batch["target_out"], -100 if config.pad is None else config.pad
    counted, m = counted_targets(targets, config.V, ignore_index, label_smoothing)
    return np.where(counted, targets, 0), counted / m


def _copy(x, arena):
    copy = arena.like(x)
    copy[...] = x
    return copy
