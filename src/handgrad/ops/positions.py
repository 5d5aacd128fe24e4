r"""Positions, counted from 0: added (sinusoidal or learned), or turned into the queries and keys (rotary).

sinusoidal  P[t, 2i] = sin(t / base^(2i/D)),  P[t, 2i+1] = cos(t / base^(2i/D))
                                                         Vaswani et al. (2017), section 3.5
added       y = x + P[:T]                                dx = dy,  dP[t] = Σ over the batch of dy[:, t]
rotary      each pair (x[2i], x[2i+1]) turns by the angle t / base^(2i/K); the backward turns it back
                                                         Su et al. (2021), section 3.4.2
"""

import numpy as np

from ..algebra import check_array, like, namespace


def sinusoidal(T, D, base=10000.0):
    """The table P (T, D), float64. Raises ValueError if D is odd, or the base not positive."""
    angles = rotary_angles(T, D, base)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(T, D)


def add_positions(x, P):
    """x (B, T, D), P (T_max, D) -> y (B, T, D), cache. Raises ValueError if T > T_max or widths differ."""
    check_array("x", x, (None, None, None))
    check_array("P", P, (None, x.shape[2]))
    T = x.shape[1]
    if T > P.shape[0]:
        raise ValueError(f"x: expected at most {P.shape[0]} positions, the rows of P, got {T}")
    return x + P[:T, :], {"shape": x.shape, "P": P}


def add_positions_backward(dy, cache):
    """dy (B, T, D) -> dx (B, T, D), dP (T_max, D); positions that no sequence reached get 0."""
    check_array("dy", dy, cache["shape"])
    xp = namespace(dy)
    unused = xp.zeros_like(cache["P"][dy.shape[1] :, :])  # (T_max - T, D)
    return dy, xp.concat([xp.sum(dy, axis=0), unused], axis=0)


def rotary_angles(T, K, base=10000.0):
    """Angles (T, K/2): t / base^(2i/K). Raises ValueError if K is odd, or the base not positive."""
    if not base > 0:
        raise ValueError(f"base: expected a positive number, got {base}")
    if K % 2:
        raise ValueError(f"width: expected an even number, since sines and cosines come in pairs, got {K}")
    frequencies = base ** (-np.arange(0, K, 2) / K)  # (K/2,)
    return np.arange(T)[:, None] * frequencies


def rotary(x, angles):
    """x (..., T, K), angles (T, K/2) -> y (..., T, K), cache. Raises ValueError if the shapes do not fit."""
    T, K = x.shape[-2:]
    if K % 2:
        raise ValueError(f"x: expected an even width, to be turned in pairs, got shape {tuple(x.shape)}")
    check_array("angles", angles, (T, K // 2))
    xp_angles = namespace(angles)
    cos, sin = like(xp_angles.cos(angles), x), like(xp_angles.sin(angles), x)  # (T, K/2)
    return _turn(x, cos, sin), {"shape": x.shape, "cos": cos, "sin": sin}


def rotary_backward(dy, cache):
    """dy (..., T, K) -> dx (..., T, K): the same turn, by the opposite angle."""
    check_array("dy", dy, cache["shape"])
    return _turn(dy, cache["cos"], -cache["sin"])


def _turn(x, cos, sin):
    xp = namespace(x)
    even, odd = x[..., 0::2], x[..., 1::2]  # (..., T, K/2)
    return xp.reshape(xp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1), x.shape)
