r"""Embedding: a row of E for each token; and the tied head, which multiplies by the same matrix.

    forward    y  = scale · E[tokens]                       z  = x Eᵀ
    backward   dE[v] = scale · Σ over positions with token v of dy
                                                            dx = dz E,   dE = dzᵀ x

The lookup is the product of one-hot rows with E, so its adjoint scatters the rows of dy and adds them.
The scale √D is that of Vaswani et al. (2017), section 3.4; so is the sharing of E with the head,
after Press and Wolf (2017).
"""

from ..algebra import check_array, like, namespace, scatter_add


def embedding(tokens, E, scale=1.0):
    """tokens (...) integers, E (V, D) -> y (..., D), cache.

    Raises TypeError if the tokens are no integers, ValueError if one is negative or not below V, or there is
    none.
    """
    check_array("tokens", tokens, kind="integers")
    check_array("E", E, (None, None))
    xp, (V, D) = namespace(E), E.shape
    if 0 in tokens.shape:
        raise ValueError(f"tokens: expected at least one token, got shape {tuple(tokens.shape)}")
    index = xp.reshape(like(tokens, E), (-1,))  # (n,)
    low, high = int(xp.min(index)), int(xp.max(index))
    if low < 0 or high >= V:
        raise ValueError(f"tokens: expected ids from 0 to V - 1 = {V - 1}, got ids from {low} to {high}")
    y = xp.reshape(scale * xp.take(E, index, axis=0), (*tokens.shape, D))
    return y, {"index": index, "shape": y.shape, "V": V, "scale": scale}


def embedding_backward(dy, cache):
    """dy (..., D) -> dE (V, D). A token that occurs twice receives both gradients."""
    check_array("dy", dy, cache["shape"])
    xp = namespace(dy)
    rows = xp.reshape(dy, (-1, dy.shape[-1]))  # (n, D)
    return scatter_add(cache["index"], cache["scale"] * rows, cache["V"])


def tied_head(x, E):
    """x (..., D), E (V, D) -> logits z (..., V), cache. Raises ValueError if widths do not fit."""
    check_array("E", E, (None, x.shape[-1]))
    return x @ E.T, {"x": x, "E": E}


def tied_head_backward(dz, cache):
    """dz (..., V) -> dx (..., D), dE (V, D)."""
    xp = namespace(dz)
    x, E = cache["x"], cache["E"]
    check_array("dz", dz, (*x.shape[:-1], E.shape[0]))
    dE = xp.reshape(dz, (-1, E.shape[0])).T @ xp.reshape(x, (-1, E.shape[1]))
    return dz @ E, dE
