"""Mistakes that people make, as edits of the shipped lines, each with its name.

γ outside the sums, a missing 1/√K, `=` for `+=`. `stories(name)` returns the operation of that name with a
backward that is wrong in one way, for each way. All others are made by `mutations`.
"""

from dataclasses import replace

from ..ops.multi_head import multi_head_backward
from ..ops.table import OPS
from . import edited


def stories(name):
    """The wrong versions of the operation of that name: {what is wrong: Op}."""
    op, at = OPS[name], PLACES.get(name)
    return {
        what: replace(op, backward=edited(op.backward, *changes, at=at))
        for what, changes in KNOWN.get(name, {}).items()
    }


PLACES = {"rotary_attention": multi_head_backward}
"""Where the edits of an operation are made, if not in its own backward."""

KNOWN = {
    "embedding": {
        "= for +=: the last occurrence of a token wins": [
            """return scatter_add(cache["index"], cache["scale"] * rows, cache["V"])
            → last = {int(v): row for v, row in zip(cache["index"], cache["scale"] * rows)}
return xp.stack([last.get(v, 0 * rows[0]) for v in range(cache["V"])])"""
        ],
        "the scale is missing": ['cache["scale"] * rows → rows'],
    },
    "linear": {"db is a mean": ["xp.sum(rows_dy, axis=0) → xp.mean(rows_dy, axis=0)"]},
    "softmax": {
        "the row sum is missing": ["da - xp.sum(a * da, axis=-1, keepdims=True) → da"],
        "a diagonal Jacobian": ["xp.sum(a * da, axis=-1, keepdims=True) → a * da"],
    },
    "cross_entropy": {
        "not divided by the number of targets": ['/ cache["m"] →'],
        "divided by all positions": ['cache["m"] → len(xp.reshape(cache["counted"], (-1,)))'],
        "ignored targets counted": ['return xp.where(cache["counted"][..., None], dz, 0) → return dz'],
        "q is not normalised": ['cache["q"] → 8 * cache["q"] / 7'],
    },
    "layer_norm": {
        "γ outside the sums": [
            'cache["gamma"] * dy → dy',
            'dx = cache["inverse_std"] → dx = cache["gamma"] * cache["inverse_std"]',
        ],
        "the path through the mean is missing": ["- through_mean →"],
        "the path through the variance is missing": ["- through_variance →"],
    },
    "rms_norm": {
        "γ outside the sum": [
            'cache["gamma"] * dy → dy',
            'dx = cache["inverse_rms"] → dx = cache["gamma"] * cache["inverse_rms"]',
        ],
        "LayerNorm's formula": [
            "dx_hat - through_rms → dx_hat - xp.mean(dx_hat, axis=-1, keepdims=True) - through_rms"
        ],
    },
    "dropout": {
        "the mask is missing": ['_apply(dy, cache["keep"], cache["p"]) → dy / (1 - cache["p"])'],
        "1/(1 - p) is missing": ['_apply(dy, cache["keep"], cache["p"]) → _apply(dy, cache["keep"], 0)'],
    },
    "attention": {
        "1/√K is missing from dq": ['dq = cache["scale"] * → dq ='],
        "1/√K is missing from dk": ['dk = cache["scale"] * → dk ='],
        "1/√K twice in dk": ['dk = cache["scale"] * → dk = cache["scale"] ** 2 *'],
        "the row sum is missing from dU": ['softmax_backward(da, cache["normalised"]) → cache["a"] * da'],
        "dU is not transposed in dk": ["dscores.mT → namespace(dscores).reshape(dscores, dscores.mT.shape)"],
        "A is not transposed in dv": [
            'cache["kept"].mT → namespace(dy).reshape(cache["kept"], cache["kept"].mT.shape)'
        ],
    },
    "flash_attention": {
        "D is missing from dU": ["- D[..., i, :] →"],
        "D has the wrong sign": ["- D[..., i, :] → + D[..., i, :]"],
        "= for +=: the last block of queries wins in dk": ["dk[m] + dscores.mT → dscores.mT"],
        "the scale is missing from dq": ['return cache["scale"] * dq → return dq'],
    },
    "repeat_heads": {
        "only the first copy counts": [
            "xp.sum(xp.reshape(dy, (B, HG // G, G, S, K)), axis=2) → dy[:, ::G, :, :]"
        ],
        "a mean over the copies": ["xp.sum → xp.mean"],
    },
    "rotary_attention": {
        "the keys are not turned back": ["rotary_backward(dk, turned_k) → dk"],
        "the keys are turned on, not back": [
            'rotary_backward(dk, turned_k) → rotary_backward(dk, turned_k | {"sin": -turned_k["sin"]})'
        ],
    },
    "self_attention": {
        "= for +=: the memory's gradient replaces that of the queries": ["dx + dmemory → dmemory"],
        "the memory's gradient is forgotten": ["dx + dmemory → dx"],
    },
}
"""Mistakes with one operation: {operation: {what is wrong: texts "old → new"}}."""
