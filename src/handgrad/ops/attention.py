r"""Scaled dot-product attention, Vaswani et al. (2017), section 3.2.1.

    forward    U = scale · Q Kᵀ
               A = softmax(U + M)          row by row; M is 0 where the mask is true, −∞ elsewhere
               Y = A V
    backward   dV = Aᵀ dY
               dA = dY Vᵀ
               dU = A ∘ (dA - rowsum(A ∘ dA))
               dQ = scale · dU K
               dK = scale · dUᵀ Q

A query whose mask is false everywhere attends to nothing: its output and its gradient are 0.
"""

from math import inf

from ..algebra import check_array, check_number, namespace, root
from .dropout import dropout, dropout_backward
from .masks import whole_mask
from .softmax import softmax, softmax_backward


def attention(q, k, v, mask=None, scale=None, keep=None, p=0.0):
    """q (..., T, K), k (..., S, K), v (..., S, E) -> y (..., T, E), cache.

    mask: Boolean, broadcast to (..., T, S), true where the query may attend; None for everywhere.
    scale: 1/√K if None. keep (..., T, S), p: dropout of the weights. The weights are cache["a"].
    Raises ValueError if shapes or mask do not fit, TypeError if the mask is not Boolean.
    """
    check_shapes(q, k, v)
    xp = namespace(q)
    scale = 1 / root(q.shape[-1], q) if scale is None else scale
    check_number("scale", scale)
    scores = scale * (q @ k.mT)  # (..., T, S)
    if mask is not None:
        scores = xp.where(whole_mask(mask, q, k), scores, -inf)
    a, normalised = softmax(scores)  # (..., T, S)
    kept, dropped = dropout(a, keep, p)
    cache = {"q": q, "k": k, "v": v, "scale": scale, "a": a, "kept": kept}
    return kept @ v, cache | {"normalised": normalised, "dropped": dropped}


def attention_backward(dy, cache):
    """dy (..., T, E) -> dq (..., T, K), dk (..., S, K), dv (..., S, E)."""
    check_array("dy", dy, (*cache["q"].shape[:-1], cache["v"].shape[-1]))
    dv = cache["kept"].mT @ dy  # (..., S, E)
    da = dropout_backward(dy @ cache["v"].mT, cache["dropped"])  # (..., T, S)
    dscores = softmax_backward(da, cache["normalised"])  # (..., T, S)
    dq = cache["scale"] * (dscores @ cache["k"])  # (..., T, K)
    dk = cache["scale"] * (dscores.mT @ cache["q"])  # (..., S, K)
    return dq, dk, dv


def check_shapes(q, k, v):
    """Raise ValueError unless queries and keys have one width, keys and values one length, and no axis is 0.

    The axes before these are equal in all three: nothing is broadcast, so that each gradient has the shape
    of its array.
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_array(name, x)
        lead = tuple(q.shape[:-2])
        if len(x.shape) < 2 or 0 in x.shape or tuple(x.shape[:-2]) != lead:
            expected = f"({', '.join([*map(str, lead), 'length, width'])})"
            raise ValueError(f"{name}: expected a shape {expected} without 0, got {tuple(x.shape)}")
    if k.shape[-1] != q.shape[-1]:
        raise ValueError(f"k: expected width {q.shape[-1]} as q has, got shape {tuple(k.shape)}")
    if v.shape[-2] != k.shape[-2]:
        raise ValueError(f"v: expected {k.shape[-2]} positions as k has, got shape {tuple(v.shape)}")
