"""Wrong gradients that are somebody's real mistake, and that no single edit makes or that deserve a name.

γ outside the sums, a missing 1/√K, `=` for `+=`. `stories(name)` returns the operation of that name with a
backward that is wrong in one way, for each way. All other mistakes are made by `mutants`.
"""

from dataclasses import replace
from math import prod

from .algebra import namespace
from .ops.attention import attention_backward
from .ops.embedding import embedding_backward
from .ops.flash_attention import flash_attention_backward
from .ops.multi_head import multi_head_backward
from .ops.softmax import softmax_backward
from .ops.table import OPS


def stories(name):
    """The wrong versions of the operation of that name: {what is wrong: Op}."""
    return {what: replace(OPS[name], backward=backward) for what, backward in STORIES.get(name, {}).items()}


def _layer_norm(dy, cache, gamma_inside=True, mean=True, variance=True):
    """LayerNorm's dx with a part left out or moved, beside the right dγ and dβ."""
    xp, x_hat, gamma = namespace(dy), cache["x_hat"], cache["gamma"]
    g = gamma * dy if gamma_inside else dy
    through_mean = xp.mean(g, axis=-1, keepdims=True) if mean else 0
    through_variance = x_hat * xp.mean(g * x_hat, axis=-1, keepdims=True) if variance else 0
    dx = cache["inverse_std"] * (g - through_mean - through_variance)
    _, dgamma, dbeta = OPS["layer_norm"].backward(dy, cache)
    return (dx if gamma_inside else gamma * dx), dgamma, dbeta


def _rms_norm(dy, cache, gamma_inside=True, centred=False):
    xp, x_hat, gamma = namespace(dy), cache["x_hat"], cache["gamma"]
    g = gamma * dy if gamma_inside else dy
    g = g - xp.mean(g, axis=-1, keepdims=True) if centred else g
    dx = cache["inverse_rms"] * (g - x_hat * xp.mean(g * x_hat, axis=-1, keepdims=True))
    return (dx if gamma_inside else gamma * dx), OPS["rms_norm"].backward(dy, cache)[1]


def _attention(dy, cache, row_sum=True, transposed=False, dq_scale=1, dk_scale=1):
    """Attention's backward with a part left out, or a scale counted more or less often."""
    _, _, dv = attention_backward(dy, cache)
    da = dy @ cache["v"].mT
    ds = softmax_backward(da, cache["normalised"]) if row_sum else cache["a"] * da
    q, k, scale = cache["q"], cache["k"], cache["scale"]
    dk = namespace(ds).reshape(ds, (*ds.shape[:-2], ds.shape[-1], ds.shape[-2])) if transposed else ds.mT
    return scale**dq_scale * (ds @ k), scale**dk_scale * (dk @ q), dv


def _value_gradient_without_transpose(dy, cache):
    dq, dk, _ = attention_backward(dy, cache)
    a = cache["a"]
    return dq, dk, namespace(a).reshape(a, a.mT.shape) @ dy


def _last_queries_win(dy, cache):
    """`=` for `+=`: dk is that of the last block of queries, the last one written."""
    xp, last = namespace(dy), cache["rows"][-1].start
    only_last = xp.concat([0 * dy[..., :last, :], dy[..., last:, :]], axis=-2)
    dq, _, dv = flash_attention_backward(dy, cache)
    return dq, flash_attention_backward(only_last, cache)[1], dv


def _unscaled_queries(dy, cache):
    dq, dk, dv = flash_attention_backward(dy, cache)
    return dq / cache["scale"], dk, dv


def _last_token_wins(dy, cache):
    """`=` for `+=`: of a token that occurs twice, only the last position counts."""
    xp = namespace(dy)
    rows = xp.reshape(dy, (-1, dy.shape[-1]))
    index = cache["index"]
    seen_later = [any(int(j) == int(i) for j in index[n + 1 :]) for n, i in enumerate(index)]
    last = xp.stack([0 * row if later else row for row, later in zip(rows, seen_later, strict=True)])
    return embedding_backward(xp.reshape(last, dy.shape), cache)


def _cross_entropy(dloss, cache, q=lambda cache: cache["q"], m=lambda cache: cache["m"], ignore=True):
    dz = dloss * (cache["p"] - q(cache)) / m(cache)
    return namespace(dz).where(cache["counted"][..., None], dz, 0) if ignore else dz


def _self_attention_overwrites(dy, cache):
    """`=` for `+=`: the gradient through keys and values replaces the one through queries."""
    _, dmemory, dparams = multi_head_backward(dy, cache)
    return dmemory, dparams


def _self_attention_forgets(dy, cache):
    dx, _, dparams = multi_head_backward(dy, cache)
    return dx, dparams


def _rotary_attention(dy, cache, angle=lambda turned: turned):
    """Attention with rotary positions, whose keys are turned back by another angle."""
    turned_q, turned_k = cache["turned"]
    dx, dmemory, dparams = multi_head_backward(dy, cache | {"turned": (turned_q, angle(turned_k))})
    return dx + dmemory, dparams


def _first_copy_only(dy, cache):
    return dy[:, :: cache["G"], :, :]


def _dropout(dy, cache, mask=True, scale=True):
    dx = namespace(dy).where(cache["keep"], dy, 0) if mask else dy
    return dx / (1 - cache["p"]) if scale else dx


STORIES = {
    "embedding": {
        "= for +=: the last occurrence of a token wins": _last_token_wins,
        "the scale is missing": lambda dy, cache: embedding_backward(dy, cache | {"scale": 1}),
    },
    "linear": {
        "db is a mean": lambda dy, cache: (
            *OPS["linear"].backward(dy, cache)[:2],
            OPS["linear"].backward(dy, cache)[2] / dy.shape[0],
        ),
    },
    "softmax": {
        "the row sum is missing": lambda da, cache: cache["a"] * da,
        "a diagonal Jacobian": lambda da, cache: cache["a"] * (1 - cache["a"]) * da,
    },
    "cross_entropy": {
        "not divided by the number of targets": lambda d, c: _cross_entropy(d, c, m=lambda c: 1),
        "divided by all positions": lambda d, c: _cross_entropy(d, c, m=lambda c: prod(c["counted"].shape)),
        "ignored targets counted": lambda d, c: _cross_entropy(d, c, ignore=False),
        "q is not normalised": lambda d, c: _cross_entropy(d, c, q=lambda c: 8 * c["q"] / 7),
    },
    "layer_norm": {
        "γ outside the sums": lambda dy, cache: _layer_norm(dy, cache, gamma_inside=False),
        "the path through the mean is missing": lambda dy, cache: _layer_norm(dy, cache, mean=False),
        "the path through the variance is missing": lambda dy, cache: _layer_norm(dy, cache, variance=False),
    },
    "rms_norm": {
        "γ outside the sum": lambda dy, cache: _rms_norm(dy, cache, gamma_inside=False),
        "LayerNorm's formula": lambda dy, cache: _rms_norm(dy, cache, centred=True),
    },
    "dropout": {
        "the mask is missing": lambda dy, cache: _dropout(dy, cache, mask=False),
        "1/(1 - p) is missing": lambda dy, cache: _dropout(dy, cache, scale=False),
    },
    "attention": {
        "1/√K is missing from dq": lambda dy, cache: _attention(dy, cache, dq_scale=0),
        "1/√K is missing from dk": lambda dy, cache: _attention(dy, cache, dk_scale=0),
        "1/√K twice in dk": lambda dy, cache: _attention(dy, cache, dk_scale=2),
        "the row sum is missing from dS": lambda dy, cache: _attention(dy, cache, row_sum=False),
        "dS is not transposed in dk": lambda dy, cache: _attention(dy, cache, transposed=True),
        "A is not transposed in dv": _value_gradient_without_transpose,
    },
    "flash_attention": {
        "D is missing from dS": lambda dy, cache: flash_attention_backward(dy, cache | {"y": 0 * cache["y"]}),
        "D has the wrong sign": lambda dy, cache: flash_attention_backward(dy, cache | {"y": -cache["y"]}),
        "= for +=: the last block of queries wins in dk": _last_queries_win,
        "the scale is missing from dq": _unscaled_queries,
    },
    "repeat_heads": {
        "only the first copy counts": _first_copy_only,
        "a mean over the copies": lambda dy, cache: OPS["repeat_heads"].backward(dy, cache) / cache["G"],
    },
    "rotary_attention": {
        "the keys are not turned back": lambda dy, cache: _rotary_attention(
            dy, cache, lambda turned: turned | {"cos": 1, "sin": 0}
        ),
        "the keys are turned on, not back": lambda dy, cache: _rotary_attention(
            dy, cache, lambda turned: turned | {"sin": -turned["sin"]}
        ),
    },
    "self_attention": {
        "= for +=: the memory's gradient replaces that of the queries": _self_attention_overwrites,
        "the memory's gradient is forgotten": _self_attention_forgets,
    },
}
"""Mistakes with one operation."""
