r"""Attention whose scores are capped softly, Gemma Team (2024), section 2.

    forward    U  = Q Kᵀ/√K
               S  = c tanh(U/c) + M        |S| < c where the mask allows; M is −∞ elsewhere
               A  = softmax(S),   Y = A V
    backward   dV = Aᵀ dY,   dA = dY Vᵀ
               dS = A ∘ (dA − rowsum(A ∘ dA))
               dU = dS ∘ (1 − tanh²(U/c))
               dQ = dU K/√K,   dK = dUᵀ Q/√K

The mask comes after the cap: capped first, −∞ stays −∞; the other way round it would become −c, and leak.
"""

from math import inf

import sympy

from ...algebra import check_array, check_number, namespace, root
from ...ops.attention import check_shapes
from ...ops.masks import whole_mask
from ...ops.softmax import softmax, softmax_backward
from ...ops.table import Op


def soft_cap(q, k, v, mask, c=50.0, scale=None):
    """q (..., T, K), k (..., S, K), v (..., S, E) -> y (..., T, E), cache.

    mask: Boolean, broadcast to (..., T, S), true where the query may attend. c: the cap, above 0.
    scale: 1/√K if None. Raises ValueError if shapes or mask do not fit, TypeError if the mask is not Boolean
    or c or scale is no number.
    """
    check_shapes(q, k, v)
    check_number("c", c)
    xp = namespace(q)
    scale = 1 / root(q.shape[-1], q) if scale is None else scale
    check_number("scale", scale)
    bent = xp.tanh(scale * (q @ k.mT) / c)  # (..., T, S)
    s = xp.where(whole_mask(mask, q, k), c * bent, -inf)
    a, normalised = softmax(s)  # (..., T, S)
    cache = {"q": q, "k": k, "v": v, "scale": scale, "bent": bent, "a": a}
    return a @ v, cache | {"normalised": normalised}


def soft_cap_backward(dy, cache):
    """dy (..., T, E) -> dq (..., T, K), dk (..., S, K), dv (..., S, E)."""
    check_array("dy", dy, (*cache["q"].shape[:-1], cache["v"].shape[-1]))
    dv = cache["a"].mT @ dy  # (..., S, E)
    ds = softmax_backward(dy @ cache["v"].mT, cache["normalised"])  # (..., T, S)
    du = ds * (1 - cache["bent"] * cache["bent"])  # (..., T, S)
    dq = cache["scale"] * (du @ cache["k"])  # (..., T, K)
    dk = cache["scale"] * (du.mT @ cache["q"])  # (..., S, K)
    return dq, dk, dv


def _mask(sizes, rng):
    """A random mask for every head alike: one query sees everything, another nothing."""
    mask = rng.random((sizes["T"], sizes["S"])) < 0.6
    mask[0], mask[-1] = True, sizes["T"] == 1
    return mask


SOFT_CAP = Op(
    soft_cap,
    soft_cap_backward,
    inputs=dict(q="... T K", k="... S K", v="... S E"),
    sizes=dict(B=2, T=2, S=3, K=2, E=1),
    leading=("B", "", "B H"),
    long=dict(S=70),
    options=lambda sizes, rng: dict(mask=_mask(sizes, rng), c=1.5),
    exact=dict(zip(("c", "scale"), sympy.symbols("c scale", positive=True))),
)
