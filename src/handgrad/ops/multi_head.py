r"""Multi-head attention, Vaswani et al. (2017), section 3.2.2: self, cross, and with grouped queries.

    forward    Q = x W_Q + b_Q,  K = memory W_K + b_K,  V = memory W_V + b_V       cut into heads
               y = merge(attention(Q, K, V)) W_O + b_O
    backward   the same lines, bottom-up; x receives its gradient through Q, memory through K and V

In self-attention memory is x, and the caller adds dx and dmemory. If W_K and W_V are narrower than W_Q,
each head of keys serves several heads of queries.
"""

from ..algebra import check_integer, check_names
from .attention import attention, attention_backward
from .heads import (
    merge_heads,
    merge_heads_backward,
    repeat_heads,
    repeat_heads_backward,
    split_heads,
    split_heads_backward,
)
from .linear import linear, linear_backward
from .positions import rotary, rotary_backward


def multi_head(x, memory, params, H, mask=None, angles=None, scale=None, keep=None, p=0.0):
    """x (B, T, D), memory (B, S, D), params {W_Q, W_K, W_V, W_O, b_Q, ...} -> y (B, T, D), cache.

    W_Q (D, H·K), W_K and W_V (D, H_kv·K) with H_kv a divisor of H, W_O (H·K, D); biases may be absent.
    mask, scale, keep and p: see attention.
    angles (T, K/2): rotary positions for queries and keys, in self-attention. The weights are
    cache["attended"]["a"]. Raises TypeError or ValueError if names, shapes or heads do not fit.
    """
    check_names("params", params, ("W_Q", "W_K", "W_V", "W_O"), ("b_Q", "b_K", "b_V", "b_O"))
    check_integer("H", H, least=1)
    q, from_q = linear(x, params["W_Q"], params.get("b_Q"))  # (B, T, H·K)
    k, from_k = linear(memory, params["W_K"], params.get("b_K"))  # (B, S, H_kv·K)
    v, from_v = linear(memory, params["W_V"], params.get("b_V"))  # (B, S, H_kv·K)
    K, rest = divmod(q.shape[-1], H)
    H_kv, rest_kv = divmod(k.shape[-1], max(K, 1))
    if rest or rest_kv or H_kv == 0 or H % H_kv:
        widths = f"{q.shape[-1]} for W_Q and {k.shape[-1]} for W_K"
        raise ValueError(f"H: expected to cut the widths into equal heads, got H = {H} and widths {widths}")
    q, split_q = split_heads(q, H)  # (B, H, T, K)
    k, split_k = split_heads(k, H_kv)  # (B, H_kv, S, K)
    v, split_v = split_heads(v, H_kv)
    if angles is not None:
        q, turned_q = rotary(q, angles)
        k, turned_k = rotary(k, angles)
    k, copied = repeat_heads(k, H // H_kv)  # (B, H, S, K)
    v, _ = repeat_heads(v, H // H_kv)
    o, attended = attention(q, k, v, mask=mask, scale=scale, keep=keep, p=p)  # (B, H, T, K)
    o, merged = merge_heads(o)  # (B, T, H·K)
    y, out = linear(o, params["W_O"], params.get("b_O"))  # (B, T, D)
    cache = {"from_q": from_q, "from_k": from_k, "from_v": from_v, "copied": copied}
    cache |= {"split_q": split_q, "split_k": split_k, "split_v": split_v}
    cache["turned"] = None if angles is None else (turned_q, turned_k)
    return y, cache | {"attended": attended, "merged": merged, "out": out}


def multi_head_backward(dy, cache):
    """dy (B, T, D) -> dx (B, T, D), dmemory (B, S, D), dparams with the keys of params."""
    do, dW_O, db_O = linear_backward(dy, cache["out"])
    do = merge_heads_backward(do, cache["merged"])
    dq, dk, dv = attention_backward(do, cache["attended"])
    dv = repeat_heads_backward(dv, cache["copied"])
    dk = repeat_heads_backward(dk, cache["copied"])
    if cache["turned"] is not None:
        turned_q, turned_k = cache["turned"]
        dq, dk = rotary_backward(dq, turned_q), rotary_backward(dk, turned_k)
    dx, dW_Q, db_Q = linear_backward(split_heads_backward(dq, cache["split_q"]), cache["from_q"])
    dmemory, dW_K, db_K = linear_backward(split_heads_backward(dk, cache["split_k"]), cache["from_k"])
    dmemory_v, dW_V, db_V = linear_backward(split_heads_backward(dv, cache["split_v"]), cache["from_v"])
    dmemory = dmemory + dmemory_v  # memory is used twice, for the keys and for the values
    dparams = {"W_Q": dW_Q, "b_Q": db_Q, "W_K": dW_K, "b_K": db_K, "W_V": dW_V, "b_V": db_V}
    dparams |= {"W_O": dW_O, "b_O": db_O}
    return dx, dmemory, {name: gradient for name, gradient in dparams.items() if gradient is not None}
