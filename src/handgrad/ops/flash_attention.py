r"""Attention in tiles, a block of queries by a block of keys at a time: no (T, S) array is ever held.

    forward    tile by tile, with the maximum m' of a row so far, and m before this tile:
               z <- exp(m - m') z + rowsum(exp(U - m')),    Y <- exp(m - m') Y + exp(U - m') V
               at the end Y <- Y / z,    ℓ = m + log z = log rowsum(exp(U))
    backward   D = rowsum(dY ∘ Y)                           equal to rowsum(A ∘ dA)
               tile by tile, A = exp(U - ℓ) anew,    dU = A ∘ (dY Vᵀ - D)
               dV += Aᵀ dY,    dQ += scale · dU K,    dK += scale · dUᵀ Q

The running sum is Milakov and Gimelshein (2018), section 3; Y without its denominator until the end is Rabe
and Staats (2021), section 2, after Jang et al. (2019). Recomputation and D are Dao et al. (2022), algorithm 1
and appendix B. The single ℓ is Dao (2023), section 3.1, and so is the forward's loop over queries outside,
which section 3.2 there gives to Phil Tillet, in Triton. Queries outside in the backward are our choice: both
papers have keys outside there.
"""

import numpy as np

from ..algebra import check_array, check_integer, check_number, like, namespace, root
from .attention import check_shapes
from .masks import whole_mask


def flash_attention(q, k, v, mask=None, scale=None, causal=False, block=128):
    """q (..., T, K), k (..., S, K), v (..., S, E) -> y (..., T, E), cache: `attention`, without dropout.

    mask, scale: as there. causal: query t sees the keys 0..t only; unlike causal_mask(T) it takes no memory,
    and may stand beside a mask. block: queries b, and keys c, of a tile. The cache: inputs, y and ℓ (..., T).
    Raises TypeError or ValueError if shapes, mask or block do not fit.
    """
    check_shapes(q, k, v)
    check_integer("block", block, least=1)
    xp, T, S = namespace(q), q.shape[-2], k.shape[-2]
    mask = None if mask is None else whole_mask(mask, q, k)  # (..., T, S), a view
    scale = 1 / root(q.shape[-1], q) if scale is None else scale
    check_number("scale", scale)
    rows, columns = ([slice(n, min(n + block, N)) for n in range(0, N, block)] for N in (T, S))
    cache = dict(q=q, k=k, v=v, mask=mask, scale=scale, causal=causal, rows=rows, columns=columns)
    y, log_sum = [], []
    for i in rows:
        top, total = xp.full_like(q[..., i, :1], -np.inf), xp.zeros_like(q[..., i, :1])  # (..., b, 1)
        y_i = total @ xp.zeros_like(v[..., :1, :])  # (..., b, E)
        for _, j, scores in _tiles(i, cache):  # (..., b, c)
            before, top = top, xp.maximum(top, xp.max(scores, axis=-1, keepdims=True))
            shift = xp.where(xp.isfinite(top), top, 0)
            fade, e = xp.exp(before - shift), xp.exp(scores - shift)
            total = fade * total + xp.sum(e, axis=-1, keepdims=True)
            y_i = fade * y_i + e @ v[..., j, :]
        blind, total = total == 0, xp.where(total == 0, 1, total)  # a blind query sees nothing: y = 0
        y.append(y_i / total)
        log_sum.append(xp.where(blind, 0, top + xp.log(total))[..., 0])
    y = xp.concat(y, axis=-2)
    return y, cache | {"y": y, "log_sum": xp.concat(log_sum, axis=-1)}


def flash_attention_backward(dy, cache):
    """dy (..., T, E) -> dq (..., T, K), dk (..., S, K), dv (..., S, E)."""
    q, k, v, rows, columns = (cache[name] for name in ["q", "k", "v", "rows", "columns"])
    check_array("dy", dy, cache["y"].shape)
    xp = namespace(q)
    D = xp.sum(dy * cache["y"], axis=-1, keepdims=True)  # (..., T, 1)
    dq = [xp.zeros_like(q[..., i, :]) for i in rows]
    dk, dv = ([xp.zeros_like(x[..., j, :]) for j in columns] for x in (k, v))
    for n, i in enumerate(rows):
        for m, j, scores in _tiles(i, cache):
            a = xp.exp(scores - cache["log_sum"][..., i, None])  # (..., b, c)
            dscores = a * (dy[..., i, :] @ v[..., j, :].mT - D[..., i, :])  # (..., b, c)
            dq[n] = dq[n] + dscores @ k[..., j, :]
            dk[m] = dk[m] + dscores.mT @ q[..., i, :]
            dv[m] = dv[m] + a.mT @ dy[..., i, :]
    dq, dk, dv = (xp.concat(tiles, axis=-2) for tiles in (dq, dk, dv))
    return cache["scale"] * dq, cache["scale"] * dk, dv


def _tiles(i, cache):
    """For the queries of slice i: each m and slice j of keys of which they see any, and the scores."""
    xp, q_i, k, mask = namespace(cache["q"]), cache["q"][..., i, :], cache["k"], cache["mask"]
    for m, j in enumerate(cache["columns"]):
        diagonal = i.start - j.start if cache["causal"] else j.stop  # with `stop`, everything is seen
        seen = like(np.tri(i.stop - i.start, j.stop - j.start, diagonal, dtype=bool), q_i)
        seen = seen if mask is None else seen & mask[..., i, j]
        if xp.any(seen):
            yield m, j, xp.where(seen, cache["scale"] * (q_i @ k[..., j, :].mT), -np.inf)  # (..., b, c)
