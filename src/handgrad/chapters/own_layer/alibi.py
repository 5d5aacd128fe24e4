r"""Causal attention with linear biases (ALiBi), Press et al. (2022), section 3: keys farther back cost more.

The queries are the last T of the S positions: query i stands at i + S − T. R is how far it looks back.

    forward    R  = i + S − T − j              of query i and key j
               S  = Q Kᵀ/√K − m R + M          m is the slope of the head; M is −∞ where R < 0
               A  = softmax(S),   Y = A V
    backward   dV = Aᵀ dY,   dA = dY Vᵀ
               dS = A ∘ (dA − rowsum(A ∘ dA))
               dQ = dS K/√K,   dK = dSᵀ Q/√K
               dm = −Σ dS ∘ R                  over queries, keys and sequences

The slopes of the paper are fixed. Here they may be learned, and have a gradient.
"""

from math import inf

import numpy as np
import sympy

from ...algebra import check_array, check_number, like, namespace, root
from ...ops.attention import check_shapes
from ...ops.softmax import softmax, softmax_backward
from ...ops.table import Op


def alibi(q, k, v, slope, scale=None):
    """q (..., H, T, K), k (..., H, S, K), v (..., H, S, E), slope (H,) -> y (..., H, T, E), cache.

    scale: 1/√K if None. A query with no key behind it, where S < T, gives 0.
    Raises ValueError if shapes do not fit, TypeError if scale is no number.
    """
    check_shapes(q, k, v)
    if q.ndim < 3:
        raise ValueError(f"q: expected shape (..., H, T, K), got {tuple(q.shape)}")
    check_array("slope", slope, q.shape[-3:-2])
    xp, T, S = namespace(q), q.shape[-2], k.shape[-2]
    back = np.arange(S - T, S)[:, None] - np.arange(S)  # (T, S)
    distance = xp.astype(like(back, q), q.dtype)
    scale = 1 / root(q.shape[-1], q) if scale is None else scale
    check_number("scale", scale)
    s = scale * (q @ k.mT) - slope[:, None, None] * distance  # (..., H, T, S)
    a, normalised = softmax(xp.where(like(back >= 0, q), s, -inf))  # (..., H, T, S)
    cache = {"q": q, "k": k, "v": v, "scale": scale, "distance": distance, "a": a}
    return a @ v, cache | {"normalised": normalised}


def alibi_backward(dy, cache):
    """dy (..., H, T, E) -> dq (..., H, T, K), dk (..., H, S, K), dv (..., H, S, E), dslope (H,)."""
    check_array("dy", dy, (*cache["q"].shape[:-1], cache["v"].shape[-1]))
    xp = namespace(dy)
    dv = cache["a"].mT @ dy  # (..., H, S, E)
    ds = softmax_backward(dy @ cache["v"].mT, cache["normalised"])  # (..., H, T, S)
    dq = cache["scale"] * (ds @ cache["k"])  # (..., H, T, K)
    dk = cache["scale"] * (ds.mT @ cache["q"])  # (..., H, S, K)
    all_but_heads = (*range(dy.ndim - 3), -2, -1)
    dslope = -xp.sum(ds * cache["distance"], axis=all_but_heads)  # (H,)
    return dq, dk, dv, dslope


ALIBI = Op(
    alibi,
    alibi_backward,
    inputs=dict(q="... H T K", k="... H S K", v="... H S E", slope="H"),
    sizes=dict(B=2, H=2, T=2, S=3, K=2, E=1),
    leading=("B", "", "B G"),
    exact=dict(scale=sympy.Symbol("scale", positive=True)),
    long=dict(S=3),  # fewer keys than queries: some see nothing
)
