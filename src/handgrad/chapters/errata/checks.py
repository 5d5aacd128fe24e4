"""Which check would have found which erratum: each entry is what the check measured, from a run.

A check says by how much it is broken; it finds an erratum where that is more than TOLERANCE. Where it has
nothing to look at, there is no entry.
"""

import numpy as np

from ... import accounting
from ...check import measured
from ...config import Config, init
from ...mistakes import edited
from ...model import forward
from ...ops import (
    attention,
    attention_backward,
    cross_entropy,
    cross_entropy_backward,
    embedding,
    embedding_backward,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    softmax,
)
from ...train import dropout_from
from ..residuals import stacks
from . import counts, depth, formulas, losses, masks
from .formulas import off

CHECKS = ("shapes", "differences", "invariance", "known level", "count", "falling loss")
TOLERANCE = 1e-3

# The printed backwards, on the task of chapter 08 -----------------------------------------------------------

# E2 in rows: our keys are what text C calls queries. E1: text D's Jacobian, contracted with the gradient.
LOST = edited(attention_backward, '(dscores.mT @ cache["q"]) → (dscores @ cache["q"])')
SLIPPED = edited(
    attention_backward,
    'softmax_backward(da, cache["normalised"]) → (cache["a"] * da).sum(-1)[..., None]',
    'dq = → dscores = dscores - dscores.mT @ cache["a"]; dq =',
)
# The backward that the weight of the keys gets its gradient from, and the one of the tokens.
PRINTED = {"right": (attention_backward,) * 2, "E1": (SLIPPED,) * 2, "E2": (LOST,) * 2}
PRINTED |= {
    "E3": (attention_backward,) * 2,
    "E4": (LOST, attention_backward),
    "E5": (attention_backward, LOST),
}


def normalised(y, axis):
    """LayerNorm of y (B, T, D) over the features (axis -1), or over the tokens (axis -2), and its cache."""
    y = y if axis == -1 else y.mT
    n, cache = layer_norm(y, np.ones(y.shape[-1]), np.zeros(y.shape[-1]))
    return (n if axis == -1 else n.mT), cache


def normalised_backward(dn, cache, axis):
    return layer_norm_backward(dn, cache)[0] if axis == -1 else layer_norm_backward(dn.mT, cache)[0].mT


def start(rng, D=16):
    """The parameters of chapter 08's head: two tables and three matrices."""
    sizes = dict(letters=(26, D), digits=(10, D), W_Q=(D, D), W_K=(D, D), W_O=(D, 10))
    return {
        name: rng.standard_normal(size) / (D**0.5 if name[0] == "W" else 1) for name, size in sizes.items()
    }


def gradients(params, page, rule="right", axis=None):
    """The loss on pages of the directory and all gradients, by a printed rule; axis: of a norm behind."""
    x, asked = embedding(page["asked"], params["letters"])
    m, read = embedding(page["letters"], params["letters"])
    v, digits = embedding(page["digits"], params["digits"])
    q, to_q = linear(x, params["W_Q"])
    k, to_k = linear(m, params["W_K"])
    y, look = attention(q, k, v)
    n, normed = (y, None) if axis is None else normalised(y, axis)
    z, head = linear(n, params["W_O"])
    loss, end = cross_entropy(z, page["answers"])
    dn, dW_O, _ = linear_backward(cross_entropy_backward(1.0, end), head)
    dy = dn if axis is None else normalised_backward(dn, normed, axis)
    (dq, dk_weight, dv), (_, dk_tokens, _) = (back(dy, look) for back in PRINTED[rule])
    _, dW_K, _ = linear_backward(dk_weight * (look["scale"] if rule == "E3" else 1), to_k)
    dm, _, _ = linear_backward(dk_tokens, to_k)
    dx, dW_Q, _ = linear_backward(dq, to_q)
    grads = dict(W_Q=dW_Q, W_K=dW_K, W_O=dW_O, digits=embedding_backward(dv, digits))
    return loss, grads | {"letters": embedding_backward(dm, read) + embedding_backward(dx, asked)}


# What a check measures --------------------------------------------------------------------------------------


def above(ends, level):
    """By how much the worst of several trainings ends above a level, relative; 0 if all end below."""
    return max(0.0, max(ends) / level - 1)


def below(ends, level):
    """By how much all of several numbers lie below a level that none can go below, relative; else 0."""
    return max(0.0, 1 - max(ends) / level)


def own_gradient(f, f_backward, x, seed=0):
    """How far a wrong function's own backward is from differences of it: 0, if it is right for it."""
    y, cache = f(x)
    dy = np.random.default_rng(seed).standard_normal(y.shape)
    return off(f_backward(dy, cache), np.tensordot(dy, measured(lambda x: f(x)[0], x), dy.ndim))


def own_of_mask(pair, mask):
    """The same of self-attention x (6, 5) with a mask: its forward and backward."""
    x = np.random.default_rng(1).standard_normal((6, 5))
    return own_gradient(lambda x: pair[0](x, x, x, mask), lambda dy, cache: sum(pair[1](dy, cache)), x)


def own_of_norm(axis):
    x = np.random.default_rng(1).standard_normal((6, 5))
    return own_gradient(
        lambda x: normalised(x, axis), lambda dy, cache: normalised_backward(dy, cache, axis), x
    )


def neighbour(axis):
    """How far the first token moves, relative, if the last one is replaced in front of a norm."""
    x = np.random.default_rng(0).standard_normal((7, 16))
    other = np.vstack([x[:-1], 3 * x[-1:]])
    return off(normalised(other, axis)[0][0], normalised(x, axis)[0][0])


def refused(f, *args):
    """∞ if a shipped function refuses its arguments because of a shape, else 0."""
    try:
        f(*args)
    except ValueError:
        return np.inf
    return 0.0


def dropout_moves(p):
    """How far the loss of one batch moves, relative, from one draw of dropout to the next."""
    config = Config("decoder", V=9, D=8, H=2, F=12, N=2, p=0.1)
    params = init(config, np.random.default_rng(0))
    tokens = np.random.default_rng(0).integers(0, 9, (4, 7))
    found = []
    for draw in (1, 2):
        keep = dropout_from(np.random.default_rng(draw), p) if p else None
        z, _ = forward(params, config, {"tokens": tokens[:, :-1]}, keep)
        found.append(cross_entropy(z, tokens[:, 1:])[0])
    return abs(found[0] / found[1] - 1)


def more_epsilon(loss):
    """How far the first weight's gradient in six blocks moves, relative, if ε is ten times as large."""
    one, ten = (depth.six_blocks(eps, loss)[0] for eps in (1e-5, 1e-4))
    return abs(ten / one - 1)


def intact(place, N=12, seed=0):
    """How far a gradient left "intact" is from what the connections of N sub-layers alone return."""
    x, dy, rng = stacks.inputs(seed, (1, 3, 8))
    _, caches = stacks.stack(x, stacks.draw(["feed-forward"] * N, rng, 8, 16), place)
    return off(dy, stacks.stack_backward(dy, caches, branch=False)[0][0])


def two_logits(z):
    """The loss of the logits (z, −z), which text D draws over z, and of (z, 0); the first is right."""
    return [cross_entropy(np.array([[z, other]]), np.array([0]))[0] for other in (-z, 0.0)]


# The entries ------------------------------------------------------------------------------------------------


def matrix(ends, dull, leaks, uniform, reported):
    """{erratum: {check: (what it measures on the printed form, on the corrected form)}}.

    ends: {rule: ends of trainings} by `gradients`, dull: their dull level; leaks: {kind: ends} of
    `masks.trained`, uniform: ln 10; reported: {seed: (reports, entropy)} of `losses.reports`.
    """
    falls, found = above(ends["right"], dull), {}
    for line, (printed, corrected, wanted) in formulas.answers().items():
        found[line[:2]] = {
            "shapes": (0.0, 0.0),  # the trainings ran: S = T, and everything fits
            "differences": (off(printed, wanted), off(corrected, wanted)),
            "falling loss": (above(ends[line[:2]], dull), falls),
        }
    first, last, mask = masks.FIRST, masks.LAST, np.tri(6, dtype=bool)
    leaking = {
        "E6": ("late", own_of_mask(last, mask), masks.to_the_future(last), masks.to_the_future(first)),
        "E9": ("none", own_of_mask(first, None), *map(masks.to_later_inputs, ("encoder", "decoder"))),
    }
    for name, (kind, own, share, none) in leaking.items():
        found[name] = {
            "shapes": (0.0, 0.0),
            "differences": (own, own_of_mask(first, mask)),
            "invariance": (share, none),
            "known level": (below(leaks[kind], uniform), below(leaks["causal"], uniform)),
            "falling loss": (above(leaks[kind], uniform), above(leaks["causal"], uniform)),
        }
    found["E7"] = {
        "shapes": (0.0, 0.0),
        "differences": (own_of_norm(-2), own_of_norm(-1)),
        "invariance": (neighbour(-2), neighbour(-1)),
        "falling loss": (above(ends["E7"], dull), above(ends["per token"], dull)),
    }
    tallies, levels = reported[0][0], [level for _, level in reported.values()]
    many, began, n = tallies["targets"], np.log(losses.V + 1), 128  # ln 9: the loss of a table of zeros

    def told(name, which=0):
        return [numbers[name][which] / level for numbers, level in reported.values()]

    right = {
        "known level": below(told("right", 1), 1),
        "falling loss": above(told("right", 1), began / max(levels)),
    }
    for name, report in zip(
        ("E8", "E10", "E11"), ("divided by rows", "padding counted", "rows it was trained on"), strict=True
    ):
        wrong = below(told(report), 1), above(told(report), began / max(levels))
        found[name] = {check: (w, right[check]) for check, w in zip(right, wrong, strict=True)}
    found["E8"]["count"] = n / tallies["batches"] - 1, abs(n / 16 / tallies["batches"] - 1)
    found["E10"]["count"] = losses.LENGTH * n / many - 1, abs(tallies["kept"] / many - 1)
    found["E11"]["invariance"] = dropout_moves(0.1), dropout_moves(0)
    lossy = ("mean square", "projection")
    found["E12"] = {
        "invariance": tuple(map(more_epsilon, lossy)),
        "falling loss": tuple(float(depth.lowered(loss) < 1e-3) for loss in lossy),
    }
    slopes = np.subtract(two_logits(1 + 1e-6), two_logits(1 - 1e-6)) / 2e-6
    share = 1 / (1 + np.exp(-1))
    found["E13"] = {
        "differences": tuple(off(slope, share - 1) for slope in slopes),
        "known level": tuple(off(loss, -np.log(share)) for loss in two_logits(1.0)),
    }
    D, F, N, V = 512, 2048, 6, 50_000
    enc = 4 * D * D + 4 * D + 2 * D * F + F + D + 4 * D
    whole, by_hand = counts.base()["own head"], N * (2 * enc + 4 * D * D + 6 * D) + 2 * V * D
    found["E14"] = {"count": (whole / 86e6 - 1, abs(by_hand / whole - 1))}
    narrow, wide = (20 * (4 * d**2 + 2 * 20 * d + 2 * d * 4 * d) for d in (64, 128))
    found["E15"] = {"count": (counts.wider() / 2 - 1, abs(wide / narrow / counts.wider() - 1))}
    parts = accounting.multiply_adds(Config("encoder", V=2, D=D, H=8, F=F, N=1), 2 * D + 1)
    square = parts["scores and sums"] / (parts["scores and sums"] + parts["projections"])
    largest = max(share for share, *_ in counts.shares().values())
    found["E16"] = {"count": (0.5 / largest - 1, max(0.0, 0.5 / square - 1))}
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((6, 9)), rng.integers(0, 9, 6)
    by_logits = measured(lambda z: cross_entropy(z, y)[0], z)
    toward = (np.eye(9)[y] - softmax(z)[0]) / 6
    found["E17"] = {"differences": (off(toward, by_logits), off(-toward, by_logits))}
    printed_block, block = counts.blocks()
    found["E19"] = {"count": (block / printed_block - 1, abs((enc + 4 * D * D - 2 * D) / block - 1))}
    idle, busy = "1/N, nothing learned", "1/N, N blocks"
    fall = [np.array(told(busy, k)) / told(idle, k) for k in (0, 1)]
    found["E20"] = {
        "known level": tuple(
            abs(np.mean([numbers[idle][k] for numbers, _ in reported.values()]) / began - 1) for k in (0, 1)
        ),
        "count": (abs(many / n / 6 - 1), abs(tallies["kept"] / many - 1)),
        "falling loss": (above(fall[0], 1), above(fall[1], 1)),
    }
    found["E21"] = {
        "shapes": tuple(refused(linear, np.ones((1, m * 128)), np.ones((12288, 1))) for m in (2048, 96)),
        "invariance": tuple(map(masks.to_later_inputs, ("encoder", "decoder"))),
    }
    x, gain = np.ones((6, 5)), np.ones(5)
    found["E22"] = {"shapes": tuple(refused(layer_norm, x, g, np.zeros(5)) for g in (gain + x, gain))}
    found["E23"] = {"differences": tuple(map(intact, ("post", "none")))}
    found["E18"], found["E24"] = {}, {}
    return {f"E{n}": found[f"E{n}"] for n in range(1, 25)}


def finds(entry):
    return entry > TOLERANCE
