"""Which check would have found which erratum: each entry is what the check measured, from a run.

A check says by how much it is broken; it finds an erratum where that is more than TOLERANCE. Where it has
nothing to look at, the entry is None.
"""

import numpy as np

from ... import accounting
from ...check import measured
from ...config import Config, init
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
from ..attention import directory
from . import columns, counts, depth, formulas, losses, masks
from .formulas import off

CHECKS = ("shapes", "differences", "invariance", "known level", "count", "falling loss")
TOLERANCE = 1e-3
SEEDS = range(3)


# Training with a printed rule, on the task of chapter 08 ----------------------------------------------------


def right(dq, dk, back):
    """The gradients of attention as they are, and what W_K and the letters get of dk."""
    return dq, dk, dk


def untransposed(dq, dk, back):  # E2: our keys are what text C calls queries
    wrong = back["scale"] * back["ds"] @ back["q"]
    return dq, wrong, wrong


def root_twice(dq, dk, back):  # E3
    return dq, back["scale"] * dk, dk


def untransposed_weight(dq, dk, back):  # E4
    return dq, back["scale"] * back["ds"] @ back["q"], dk


def untransposed_tokens(dq, dk, back):  # E5
    return dq, dk, back["scale"] * back["ds"] @ back["q"]


def slipped_deltas(dq, dk, back):  # E1
    a, da = back["a"], back["da"]
    h = (a * da).sum(axis=-1, keepdims=True)
    ds = h - h.mT @ a
    dk = back["scale"] * ds.mT @ back["q"]
    return back["scale"] * ds @ back["k"], dk, dk


RULES = {
    "right": right,
    "E1": slipped_deltas,
    "E2": untransposed,
    "E3": root_twice,
    "E4": untransposed_weight,
    "E5": untransposed_tokens,
}


def normalised(y, axis):
    """LayerNorm of y (B, T, D) over the features (axis -1), or over the tokens (axis -2), and its cache."""
    y = y if axis == -1 else y.mT
    n, cache = layer_norm(y, np.ones(y.shape[-1]), np.zeros(y.shape[-1]))
    return (n if axis == -1 else n.mT), cache


def normalised_backward(dn, cache, axis):
    return layer_norm_backward(dn, cache)[0] if axis == -1 else layer_norm_backward(dn.mT, cache)[0].mT


def look_up(rule, seed, axis=None, steps=300, rate=0.3, B=32, D=16):
    """The losses of chapter 08's head while it learns a directory by a rule; it stops where it diverges."""
    rng = np.random.default_rng(seed)
    sizes = dict(letters=(26, D), digits=(10, D), W_Q=(D, D), W_K=(D, D), W_O=(D, 10))
    params = {
        name: rng.standard_normal(size) * (D**-0.5 if name[0] == "W" else 1) for name, size in sizes.items()
    }
    found = []
    while len(found) < steps and max(np.abs(x).max() for x in params.values()) < 1e3:
        page = directory.page(rng, B)
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
        dq, dk, dv = attention_backward(dy, look)
        back = look | {"da": dy @ v.mT}
        back["ds"] = back["a"] * (back["da"] - (back["a"] * back["da"]).sum(axis=-1, keepdims=True))
        dq, dk_weight, dk_tokens = rule(dq, dk, back)
        _, dW_K, _ = linear_backward(dk_weight, to_k)
        dm, _, _ = linear_backward(dk_tokens, to_k)
        dx, dW_Q, _ = linear_backward(dq, to_q)
        grads = dict(W_Q=dW_Q, W_K=dW_K, W_O=dW_O, digits=embedding_backward(dv, digits))
        grads["letters"] = embedding_backward(dm, read) + embedding_backward(dx, asked)
        params = {name: params[name] - rate * grads[name] for name in params}
        found.append(float(loss))
    return np.array(found) if len(found) == steps else np.full(steps, np.inf)


def reached(curves, last=30):
    """The mean of the last losses of each of several trainings."""
    return [float(np.mean(curve[-last:])) for curve in curves]


def above(ends, level):
    """By how much the worst of several trainings ends above a level, relative; 0 if all end below."""
    return max(0.0, max(ends) / level - 1)


def below(ends, level):
    """By how much all of several numbers lie below a level that none can go below, relative; else 0."""
    return max(0.0, 1 - max(ends) / level)


# The entries ------------------------------------------------------------------------------------------------


def backwards():
    """{E1 … E5: how far the printed rule is from differences}."""
    s = np.random.default_rng(0).standard_normal((2, 3))
    a = softmax(s)[0]
    lines = list(columns.printed_and_right(K=4, D=5, T=6).values())
    errors = [off(formulas.jacobian(formulas.printed, a), formulas.measured(s))]
    return dict(zip(("E1", "E2", "E3", "E4", "E5"), errors + [float(line[0]) for line in lines], strict=True))


def shapes_of_rules():
    """{E1 … E5: ∞ if the printed rule has not the shape of what it is the gradient of, else 0}."""
    rng, found = np.random.default_rng(0), {}
    q, k, v = (rng.standard_normal((1, 6, K)) for K in (4, 4, 3))
    _, look = attention(q, k, v)
    dy = rng.standard_normal((1, 6, 3))
    dq, dk, _ = attention_backward(dy, look)
    back = look | {"da": dy @ v.mT}
    back["ds"] = back["a"] * (back["da"] - (back["a"] * back["da"]).sum(axis=-1, keepdims=True))
    for name, rule in RULES.items():
        results = rule(dq, dk, back)
        found[name] = 0.0 if [x.shape for x in results] == [q.shape, k.shape, k.shape] else np.inf
    return found


def own_gradient(f, f_backward, x, seed=0):
    """How far a wrong function's own backward is from differences of it: 0, if it is right for it."""
    y, cache = f(x)
    dy = np.random.default_rng(seed).standard_normal(y.shape)
    return off(f_backward(dy, cache), np.tensordot(dy, measured(lambda x: f(x)[0], x), dy.ndim))


def refused(f, *args):
    """∞ if a shipped function refuses its arguments because of a shape, else 0."""
    try:
        f(*args)
    except ValueError:
        return np.inf
    return 0.0


def dropout_moves(seed=0):
    """How far the loss of one batch moves from one draw of dropout to the next: (with it, without)."""
    config = Config("decoder", V=9, D=8, H=2, F=12, N=2, p=0.1)
    params = init(config, np.random.default_rng(seed))
    tokens = np.random.default_rng(seed).integers(0, 9, (4, 7))

    def loss(keep):
        z, _ = forward(params, config, {"tokens": tokens[:, :-1]}, keep)
        return cross_entropy(z, tokens[:, 1:])[0]

    with_it = [loss(dropout_from(np.random.default_rng(draw), 0.1)) for draw in (1, 2)]
    return abs(with_it[0] / with_it[1] - 1), abs(loss(None) / loss(None) - 1)


def lowered(loss, steps=100, rate=1.0, seed=0, T=10, D=16):
    """By how much a training lowers a loss of a layer's normalised outputs, in units of its entries.

    loss: "mean square" of the outputs, or a "projection" on a random array.
    """
    rng = np.random.default_rng(seed)
    x, W, direction = (
        rng.standard_normal((T, D)),
        rng.standard_normal((D, D)) / D**0.5,
        rng.standard_normal((T, D)),
    )
    values = []
    for _ in range(steps):
        h, to_h = linear(x, W)
        y, normed = layer_norm(h, np.ones(D), np.zeros(D))
        entries, dy = (y**2, 2 * y) if loss == "mean square" else (y * direction, direction)
        values.append((entries.mean(), np.abs(entries).mean()))
        dh, _, _ = layer_norm_backward(dy / y.size, normed)
        W = W - rate * linear_backward(dh, to_h)[1]
    (first, size), (last, _) = values[0], values[-1]
    return (first - last) / size


def more_epsilon(loss):
    """How far the first weight's gradient in six blocks moves, relative, if ε is ten times as large."""
    one, ten = (depth.six_blocks(eps, loss)[0] for eps in (1e-5, 1e-4))
    return abs(ten / one - 1)


def matrix(attended, leaking, reported):
    """{erratum: {check: what it measured}}; an absent check has nothing to look at.

    attended: {rule: ends of trainings} of `look_up`, and the dull level; leaking: {kind: ends} of
    `masks.trained`, and ln 10; reported: {seed: (reports, entropy)} of `losses.reports`.
    """
    (ends, dull), (leaks, uniform) = attended, leaking
    fits, apart = shapes_of_rules(), backwards()
    found = {
        name: {"shapes": fits[name], "differences": apart[name], "falling loss": above(ends[name], dull)}
        for name in apart
    }
    x = np.random.default_rng(1).standard_normal((6, 5))
    mask = np.tri(6, dtype=bool)
    for name, kind, pair, share in (
        ("E6", "late", masks.LAST, masks.to_the_future(masks.LAST)),
        ("E9", "none", masks.FIRST, masks.to_later_inputs("encoder")),
    ):
        seen = mask if kind == "late" else None
        found[name] = {
            "shapes": 0.0 if pair[0](x, x, x, seen)[0].shape == x.shape else np.inf,
            "differences": own_gradient(
                lambda x, pair=pair, seen=seen: pair[0](x, x, x, seen),
                lambda dy, cache, pair=pair: sum(pair[1](dy, cache)),
                x,
            ),
            "invariance": share,
            "known level": below(leaks[kind], uniform),
            "falling loss": above(leaks[kind], uniform),
        }
    found["E7"] = {
        "shapes": 0.0 if normalised(x, -2)[0].shape == x.shape else np.inf,
        "differences": own_gradient(
            lambda x: normalised(x, -2), lambda dy, cache: normalised_backward(dy, cache, -2), x
        ),
        "invariance": depth.whose_statistics()["per feature"][1],
        "falling loss": above(ends["E7"], dull),
    }
    levels = list(reported.values())

    def ends_of(name):
        return [numbers[name][0] / level for numbers, level in levels]

    began = np.log(losses.V + 1)  # of a table of zeros
    n, T = 128, losses.LENGTH
    found["E8"] = {"count": n / reported[0][0]["batches"] - 1}
    found["E10"] = {"count": T * n / reported[0][0]["targets"] - 1}
    found["E11"] = {"invariance": dropout_moves()[0]}
    for name, report in (
        ("E8", "divided by rows"),
        ("E10", "padding counted"),
        ("E11", "rows it was trained on"),
    ):
        found[name] |= {
            "known level": below(ends_of(report), 1),
            "falling loss": above(ends_of(report), began / max(level for _, level in levels)),
        }
    found["E12"] = {
        "invariance": more_epsilon("mean square"),
        "falling loss": 1.0 if lowered("mean square") < 1e-3 else 0.0,
    }
    z, step = np.array([1.0]), 1e-6
    slope = (losses.plotted(z + step) - losses.plotted(z - step)) / (2 * step)
    sigma = 1 / (1 + np.exp(-z))
    found["E13"] = {
        "differences": off(slope, sigma - 1),
        "known level": off(losses.plotted(z), -np.log(sigma)),
    }
    base = counts.base()
    found["E14"] = {"count": base["own head"] / 86e6 - 1}
    found["E15"] = {"count": counts.wider() - 1}
    found["E16"] = {"count": 0.5 / max(share for share, *_ in counts.shares().values()) - 1}
    by_logits, to_the_target = losses.by_logits()
    found["E17"] = {"differences": off(to_the_target, by_logits)}
    printed_block, right_block = counts.blocks()
    found["E19"] = {"count": right_block / printed_block - 1}
    found["E20"] = {
        "known level": abs(
            np.mean([numbers["1/N, nothing learned"][0] for numbers, _ in levels]) / began - 1
        ),
        "count": abs(reported[0][0]["targets"] / n / 6 - 1),
        "falling loss": above(
            [numbers["1/N, N blocks"][0] / numbers["1/N, nothing learned"][0] for numbers, _ in levels], 1
        ),
    }
    found["E21"] = {
        "shapes": refused(linear, np.ones((1, 2048 * 128)), np.ones((12288, 1))),
        "invariance": masks.to_later_inputs("encoder"),
    }
    found["E22"] = {"shapes": refused(layer_norm, x, np.ones(5) + x, np.zeros(5))}
    found["E23"] = {"differences": depth.frozen(12, norm=True)}
    found["E18"], found["E24"] = {}, {}
    return {f"E{n}": found[f"E{n}"] for n in range(1, 25)}


def corrected(attended, leaking, reported):
    """The same checks of the corrected forms; arguments and answer as for `matrix`.

    Where the tokens are random, the right model's loss does not fall; there the last check refuses it.
    """
    (ends, dull), (leaks, uniform) = attended, leaking
    s, rng = np.random.default_rng(0).standard_normal((2, 3)), np.random.default_rng(1)
    lines = [float(line[2]) for line in columns.printed_and_right(K=4, D=5, T=6).values()]
    of_jacobian = off(formulas.jacobian(formulas.corrected, softmax(s)[0]), formulas.measured(s))
    falls = above(ends["right"], dull)
    found = {
        f"E{n}": {"shapes": shapes_of_rules()["right"], "differences": gap, "falling loss": falls}
        for n, gap in enumerate([of_jacobian, *lines], start=1)
    }
    x, mask = rng.standard_normal((6, 5)), np.tri(6, dtype=bool)

    def attend(x):
        return attention(x, x, x, mask)

    own = own_gradient(attend, lambda dy, cache: sum(attention_backward(dy, cache)), x)
    causal = {"shapes": 0.0 if attend(x)[0].shape == x.shape else np.inf, "differences": own}
    causal |= {
        "known level": below(leaks["causal"], uniform),
        "falling loss": above(leaks["causal"], uniform),
    }
    found["E6"] = causal | {"invariance": masks.to_the_future(masks.FIRST)}
    found["E9"] = causal | {"invariance": masks.to_later_inputs("decoder")}
    found["E7"] = {
        "shapes": 0.0 if normalised(x, -1)[0].shape == x.shape else np.inf,
        "differences": own_gradient(
            lambda x: normalised(x, -1), lambda dy, cache: normalised_backward(dy, cache, -1), x
        ),
        "invariance": depth.whose_statistics()["per token"][1],
        "falling loss": above(ends["per token"], dull),
    }
    levels, began = list(reported.values()), np.log(losses.V + 1)
    numbers = {
        "known level": below([one["right"][1] / level for one, level in levels], 1),
        "falling loss": above([one["right"][1] for one, _ in levels], began),
    }
    means, targets = reported[0][0]["batches"], reported[0][0]["targets"]
    found["E8"] = numbers | {"count": abs(128 / 16 / means - 1)}
    found["E10"] = numbers | {"count": abs(reported[0][0]["kept"] / targets - 1)}
    found["E11"] = numbers | {"invariance": dropout_moves()[1]}
    found["E12"] = {
        "invariance": more_epsilon("projection"),
        "falling loss": 1.0 if lowered("projection") < 1e-3 else 0.0,
    }
    z, step = 1.0, 1e-6

    def one_logit(z):
        return float(cross_entropy(np.array([[z, 0.0]]), np.array([0]))[0])

    sigma = 1 / (1 + np.exp(-z))
    slope = (one_logit(z + step) - one_logit(z - step)) / (2 * step)
    found["E13"] = {"differences": off(slope, sigma - 1), "known level": off(one_logit(z), -np.log(sigma))}
    D, F, N, V = 512, 2048, 6, 50_000
    enc = 4 * D * D + 4 * D + 2 * D * F + F + D + 4 * D
    both = N * (2 * enc + 4 * D * D + 4 * D + 2 * D)
    found["E14"] = {"count": abs((both + 2 * V * D) / counts.base()["own head"] - 1)}
    by_formula = [20 * (4 * d**2 + 2 * 20 * d + 2 * d * 4 * d) for d in (64, 128)]
    ran = [counts.products(20, d, 4, 4 * d)[0] for d in (64, 128)]
    found["E15"] = {"count": abs(by_formula[1] / by_formula[0] / (ran[1] / ran[0]) - 1)}
    one = accounting.multiply_adds(Config("encoder", V=2, D=D, H=8, F=F, N=1), 2 * D + 1)
    square = one["scores and sums"] / (one["scores and sums"] + one["projections"])
    found["E16"] = {"count": max(0.0, 0.5 / square - 1)}
    by_logits, to_the_target = losses.by_logits()
    found["E17"] = {"differences": off(-to_the_target, by_logits)}
    decoder = 8 * D * D + 2 * D * F + F + D + 6 * D
    found["E19"] = {"count": abs(decoder / counts.blocks()[1] - 1)}
    nothing = [one["1/N, nothing learned"][1] for one, _ in levels]
    found["E20"] = {"known level": abs(np.mean(nothing) / began - 1)} | {
        "count": abs(reported[0][0]["kept"] / targets - 1),
        "falling loss": above([one["1/N, N blocks"][1] for one, _ in levels], began),
    }
    found["E21"] = {"shapes": refused(linear, np.ones((1, 96 * 128)), np.ones((12288, 1)))} | {
        "invariance": masks.to_later_inputs("decoder")
    }
    found["E22"] = {"shapes": refused(layer_norm, x, np.ones(5), np.zeros(5))}
    found["E23"] = {"differences": depth.frozen(12, norm=False)}
    found["E18"], found["E24"] = {}, {}
    return {f"E{n}": found[f"E{n}"] for n in range(1, 25)}


def finds(entry):
    return entry is not None and entry > TOLERANCE
