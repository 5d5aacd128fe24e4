r"""Heads: cut the width into H heads of width K, and join them again.

    split      (B, T, H·K) -> (B, H, T, K)
    merge      (B, H, T, K) -> (B, T, H·K)
    repeat     (B, H, S, K) -> (B, H·G, S, K)      each head of keys serves G heads of queries

Splitting and merging only move numbers, so each is the other's inverse and the other's backward. The
backward of a repetition is a sum. Grouped queries: Ainslie et al. (2023), section 2.2.
"""

from ..algebra import check_array, check_integer, namespace


def split_heads(x, H):
    """x (B, T, H·K) -> (B, H, T, K), cache. Raises TypeError or ValueError unless H divides the width."""
    check_array("x", x, (None, None, None))
    check_integer("H", H, least=1)
    B, T, D = x.shape
    if D % H:
        raise ValueError(f"H: expected a divisor of the width {D}, got {H}")
    xp = namespace(x)
    y = xp.permute_dims(xp.reshape(x, (B, T, H, D // H)), (0, 2, 1, 3))
    return y, {"shape": y.shape}


def split_heads_backward(dy, cache):
    """dy (B, H, T, K) -> dx (B, T, H·K): the merge."""
    check_array("dy", dy, cache["shape"])
    return merge_heads(dy)[0]


def merge_heads(x):
    """x (B, H, T, K) -> (B, T, H·K), cache. Raises ValueError if x has not four axes."""
    check_array("x", x, (None, None, None, None))
    B, H, T, K = x.shape
    xp = namespace(x)
    y = xp.reshape(xp.permute_dims(x, (0, 2, 1, 3)), (B, T, H * K))
    return y, {"H": H, "shape": y.shape}


def merge_heads_backward(dy, cache):
    """dy (B, T, H·K) -> dx (B, H, T, K): the split."""
    check_array("dy", dy, cache["shape"])
    return split_heads(dy, cache["H"])[0]


def repeat_heads(x, G):
    """x (B, H, S, K) -> (B, H·G, S, K), cache; the G copies of a head lie side by side.

    Raises TypeError or ValueError if x has not four axes, or G is no positive integer.
    """
    check_array("x", x, (None, None, None, None))
    check_integer("G", G, least=1)
    B, H, S, K = x.shape
    cache = {"G": G, "shape": (B, H * G, S, K)}
    if G == 1:
        return x, cache
    xp = namespace(x)
    copies = xp.broadcast_to(x[:, :, None, :, :], (B, H, G, S, K))
    return xp.reshape(copies, cache["shape"]), cache


def repeat_heads_backward(dy, cache):
    """dy (B, H·G, S, K) -> dx (B, H, S, K): copies add."""
    G = cache["G"]
    check_array("dy", dy, cache["shape"])
    if G == 1:
        return dy
    B, HG, S, K = dy.shape
    xp = namespace(dy)
    return xp.sum(xp.reshape(dy, (B, HG // G, G, S, K)), axis=2)
