r"""Linear layer, row convention: a token is a row, and a weight matrix is (in, out).

forward    y  = x W + b
backward   dx = dy Wᵀ
           dW = xᵀ dy        summed over every position of every sequence
           db = Σ dy         likewise
"""

from ..algebra import check_array, namespace


def linear(x, W, b=None):
    """x (..., D), W (D, F), b (F,) or None -> y (..., F), cache. Raises ValueError if widths do not fit."""
    check_array("W", W, (x.shape[-1], None))
    if b is not None:
        check_array("b", b, W.shape[1:])
    y = x @ W
    return (y if b is None else y + b), {"x": x, "W": W, "bias": b is not None}


def linear_backward(dy, cache):
    """dy (..., F) -> dx (..., D), dW (D, F), db (F,) or None if there was no bias."""
    xp = namespace(dy)
    x, W = cache["x"], cache["W"]
    check_array("dy", dy, (*x.shape[:-1], W.shape[1]))
    rows_dy = xp.reshape(dy, (-1, W.shape[1]))  # (positions, F)
    dW = xp.reshape(x, (-1, W.shape[0])).T @ rows_dy
    db = xp.sum(rows_dy, axis=0) if cache["bias"] else None
    return xp.reshape(rows_dy @ W.T, x.shape), dW, db
