r"""Softmax over the last axis.

    forward    aᵢ = exp(sᵢ) / Σⱼ exp(sⱼ)
    backward   ds = a ∘ (da - ⟨a, da⟩)

The maximum is subtracted first; softmax does not feel a shift, and exp cannot overflow. A row of −∞, which
attends to nothing, gives zeros: the empty sum of the values, and no gradient.
"""

from ..algebra import check_array, namespace


def softmax(s):
    """s (..., S) -> a (..., S), rows that sum to 1 (to 0 where every entry is −∞), cache."""
    xp = namespace(s)
    top = xp.max(s, axis=-1, keepdims=True)  # (..., 1)
    e = xp.exp(s - xp.where(xp.isfinite(top), top, 0))  # (..., S)
    total = xp.sum(e, axis=-1, keepdims=True)  # (..., 1)
    a = e / xp.where(total == 0, 1, total)
    return a, {"a": a}


def softmax_backward(da, cache):
    """da (..., S) -> ds (..., S)."""
    xp = namespace(da)
    a = cache["a"]
    check_array("da", da, a.shape)
    return a * (da - xp.sum(a * da, axis=-1, keepdims=True))
