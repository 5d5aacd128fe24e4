r"""Cross-entropy of softmax(z) against integer targets, averaged over the m targets that are not ignored.

    forward    q    = (1 - α) one_hot(target) + α/V                    label smoothing α
               loss = -1/m Σ_t Σ_v q_tv log p_tv,    p = softmax(z)
    backward   dz   = dloss · (p - q)/m                                0 at ignored targets

Label smoothing: Szegedy et al. (2016), section 7.
"""

import numpy as np

from ..algebra import check_array, check_number, like, namespace


def cross_entropy(z, targets, ignore_index=-100, label_smoothing=0.0):
    """z (..., V), targets (...) integers -> loss (a scalar array), cache.

    Raises TypeError if the targets are no integers; ValueError if the shapes differ, a target is outside
    0..V-1, or all targets are ignored. Where q is 0, log p does not count, even if it is −∞.
    """
    xp, V = namespace(z), z.shape[-1]
    check_array("targets", targets, z.shape[:-1], "integers")
    targets = like(targets, z)
    counted, m = counted_targets(targets, V, ignore_index, label_smoothing)
    shifted = z - xp.max(z, axis=-1, keepdims=True)  # (..., V)
    e = xp.exp(shifted)  # (..., V)
    total = xp.sum(e, axis=-1, keepdims=True)  # (..., 1)
    log_p = shifted - xp.log(total)  # (..., V)
    one_hot = xp.astype(targets[..., None] == like(np.arange(V), z), z.dtype)  # (..., V)
    q = (1 - label_smoothing) * one_hot + label_smoothing / V  # (..., V)
    per_target = -xp.sum(q * xp.where(q == 0, 0, log_p), axis=-1)  # (...)
    loss = xp.sum(xp.where(counted, per_target, 0)) / m
    return loss, {"p": e / total, "q": q, "counted": counted, "m": m}


def cross_entropy_backward(dloss, cache):
    """dloss (scalar) -> dz (..., V)."""
    check_number("dloss", dloss)
    xp = namespace(cache["p"])
    dz = dloss * (cache["p"] - cache["q"]) / cache["m"]  # (..., V)
    return xp.where(cache["counted"][..., None], dz, 0)


def counted_targets(targets, V, ignore_index, label_smoothing):
    """targets (...) integers -> which are counted (...), Boolean, and their number m; errors as above."""
    check_number("ignore_index", ignore_index)
    check_number("label_smoothing", label_smoothing)
    if not getattr(label_smoothing, "is_Symbol", False) and not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing: expected a number from 0 to 1, got {label_smoothing}")
    xp = namespace(targets)
    counted = targets != ignore_index  # (...)
    if bool(xp.any(counted & ((targets < 0) | (targets >= V)))):
        raise ValueError(f"targets: expected ids from 0 to V - 1 = {V - 1} or ignore_index = {ignore_index}")
    m = int(xp.sum(xp.astype(counted, xp.int64)))
    if m == 0:
        raise ValueError(f"targets: expected at least one target to count, all are {ignore_index}")
    return counted, m
