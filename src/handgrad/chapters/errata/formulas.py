"""Formulas of attention's backward, as printed and as corrected, each beside central differences."""

import numpy as np

from ... import check
from ...ops import (
    attention,
    attention_backward,
    layer_norm,
    layer_norm_backward,
    relu,
    relu_backward,
    softmax,
)
from . import columns


def off(x, wanted):
    """The length of the difference over the length of what is wanted; ∞ if the shapes differ."""
    x, wanted = np.asarray(x, float), np.asarray(wanted, float)
    return float(np.linalg.norm(x - wanted) / np.linalg.norm(wanted)) if x.shape == wanted.shape else np.inf


def delta(i, j):
    return 1.0 * (i == j)


# Rows: the Jacobian of the softmax --------------------------------------------------------------------------


def jacobian(rule, a):
    """rule(a, i, j, m, n) at every place: (T, S, T, S), where entry (i, j, m, n) is ∂a_ij/∂u_mn."""
    places = [np.ndindex(a.shape)] * 2
    return np.array([rule(a, *out, *at) for out in places[0] for at in np.ndindex(a.shape)]).reshape(
        a.shape + a.shape
    )


def printed(a, i, j, m, n):
    return a[i, j] * (delta(i, m) - a[i, n])


def corrected(a, i, j, m, n):
    return delta(i, m) * a[i, j] * (delta(j, n) - a[i, n])


def measured(s):
    """The Jacobian of the softmax of rows s (T, S) by central differences, (T, S, T, S)."""
    return check.measured(lambda s: softmax(s)[0], s)


# Columns: four lines of text C ------------------------------------------------------------------------------


def standard_names(K=4, D=5, T=6, seed=6):
    """If q asks and k answers, c = KᵀQ: {gradient: (off as printed, off as corrected)}."""
    rng = np.random.default_rng(seed)
    A, B, C = rng.standard_normal((3, K, D))
    X, E = rng.standard_normal((D, T)), rng.standard_normal((K, T))

    def head(A, B):  # the same function with A and B exchanged
        return columns.forward(B, A, C, X)[0]

    _, (k, q, v, a) = columns.forward(B, A, C, X)
    da = v.T @ E
    dc = a * (da - (a * da).sum(axis=0))
    wanted = {
        "dA": check.measured(lambda A: (E * head(A, B)).sum(), A),
        "dB": check.measured(lambda B: (E * head(A, B)).sum(), B),
    }
    lines = {
        "dA": (k @ dc @ X.T / K**0.5, k @ dc @ X.T / K**0.5),
        "dB": (q @ dc @ X.T / K**0.5, q @ dc.T @ X.T / K**0.5),
    }
    return {name: tuple(off(line, wanted[name]) for line in lines[name]) for name in lines}


def roles(K=4, D=5, T=6, seed=7):
    """How far text C's head is from the usual one: with its names as they are, and with q and k exchanged."""
    rng = np.random.default_rng(seed)
    A, B, C = rng.standard_normal((3, K, D))
    X = rng.standard_normal((D, T))
    Z, (Q, K_, V, _) = columns.forward(A, B, C, X)
    as_named, exchanged = attention(Q.T, K_.T, V.T)[0], attention(K_.T, Q.T, V.T)[0]
    return off(Z.T, as_named), off(Z.T, exchanged)


def causal(late, K=4, D=5, T=6, seed=8):
    """Text C's dB for causal attention, masked late or before the softmax: how far off it is."""
    rng = np.random.default_rng(seed)
    A, B, C = rng.standard_normal((3, K, D))
    X, E = rng.standard_normal((D, T)), rng.standard_normal((K, T))
    allowed = np.triu(np.ones((T, T), bool))  # (source, target) in columns

    def weights(B):
        scores = (A @ X).T @ (B @ X) / K**0.5
        if late:
            return np.where(allowed, softmax(scores.T)[0].T, 0.0)
        return softmax(np.where(allowed, scores, -np.inf).T)[0].T

    a = weights(B)
    da = (C @ X).T @ E
    dc = a * (da - (a * da).sum(axis=0))
    dB = (A @ X) @ dc @ X.T / K**0.5
    return off(dB, check.measured(lambda B: (E * (C @ X @ weights(B))).sum(), B))


def fourth_path(K=4, F=6, T=5, seed=11):
    """dX of text C's whole block, y = z̄ + FFN(z̄) with z̄ = x + LN(z): (by Q, K and V alone, with the skip).

    Both are distances from differences. All widths are K, as its step 4 asks; γ and β are random.
    """
    rng = np.random.default_rng(seed)
    A, B, C = rng.standard_normal((3, K, K))
    X, W_1, W_2 = rng.standard_normal((K, T)), rng.standard_normal((F, K)), rng.standard_normal((K, F))
    gamma, beta, dY = rng.standard_normal(K), rng.standard_normal(K), rng.standard_normal((K, T))

    def block(X):
        Z, (Q, K_, V, a) = columns.forward(A, B, C, X)
        n, normed = layer_norm(Z.T, gamma, beta)
        h, bent = relu(W_1 @ (X + n.T))
        return X + n.T + W_2 @ h, (Q, K_, V, a, normed, bent)

    _, (Q, K_, V, a, normed, bent) = block(X)
    dz_bar = dY + W_1.T @ relu_backward(W_2.T @ dY, bent)
    E = layer_norm_backward(dz_bar.T, normed)[0].T  # dZ
    da = V.T @ E
    dc = a * (da - (a * da).sum(axis=0)) / K**0.5
    three = A.T @ K_ @ dc.T + B.T @ Q @ dc + C.T @ E @ a.T
    wanted = check.measured(lambda X: (dY * block(X)[0]).sum(), X)
    return off(three, wanted), off(three + dz_bar, wanted)


# Conventions that change a number ---------------------------------------------------------------------------


def unscaled(K, T=5, S=7, seed=9):
    """dQ if the gradient by the scaled scores is used as that by QKᵀ, over the right one: (ratio, spread)."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((n, K)) for n in (T, S, S))
    _, cache = attention(q, k, v)
    dy = rng.standard_normal((T, K))
    dq, _, _ = attention_backward(dy, cache)
    da = dy @ v.T
    ds = cache["a"] * (da - (cache["a"] * da).sum(axis=1, keepdims=True))
    ratio = (ds @ k) / dq
    return float(ratio.mean()), float(np.ptp(ratio))


def stored_other_way(T=5, D=3, F=4, seed=10):
    """The weight's gradient of Y = XW₁ᵀ: its shape, that of XᵀdY, and how far dYᵀX is off."""
    rng = np.random.default_rng(seed)
    X, W, dY = rng.standard_normal((T, D)), rng.standard_normal((F, D)), rng.standard_normal((T, F))
    wanted = check.measured(lambda W: (dY * (X @ W.T)).sum(), W)
    return wanted.shape, (X.T @ dY).shape, off(dY.T @ X, wanted)


def row_jacobian(a):
    """Diag(a) − aaᵀ and Diag(a) − aᵀa for a row a (1, n): the shapes of both products, and the Jacobian."""
    return (a @ a.T).shape, (a.T @ a).shape, np.diag(a[0]) - a.T @ a


# What moves -------------------------------------------------------------------------------------------------


def answers(K=4, D=5, T=6, seed=6):
    """{erratum and gradient: (as printed, by differences)} of one head in columns; of E1, by its scores."""
    rng = np.random.default_rng(seed)
    A, B, C = rng.standard_normal((3, K, D))
    X, E = rng.standard_normal((D, T)), rng.standard_normal((K, T))
    _, (q, k, v, a) = columns.forward(A, B, C, X)
    da, root = v.T @ E, K**0.5
    dc = a * (da - (a * da).sum(axis=0))
    h = (a * da).sum(axis=0)  # E1 in columns: ∂a_it/∂c_ns as printed, contracted
    scores = q.T @ k / root

    def loss(A=A, X=X):
        return (E * columns.forward(A, B, C, X)[0]).sum()

    def of_scores(c):
        return (E * (v @ softmax(c.T)[0].T)).sum()

    dq, dA = check.measured(lambda q: of_scores(q.T @ k / root), q), check.measured(lambda A: loss(A=A), A)
    dX = check.measured(lambda X: loss(X=X), X)
    values = C.T @ E @ a.T
    return {
        "E1: dc": (h[None] - (a @ h)[:, None], check.measured(of_scores, scores)),
        "E2: dQ": (k @ dc / root, dq),
        "E3: dA": (dq @ X.T / root, dA),
        "E4: dA": (k @ dc @ X.T / root, dA),
        "E5: dX": ((A.T @ k + B.T @ q) @ dc / root + values, dX),
    }
