"""Norms, residual connections and depth: what is said of them, and what a run of it shows."""

import numpy as np

from ...check import measured
from ...ops import layer_norm, layer_norm_backward, linear, linear_backward, relu, relu_backward
from ..residuals import stacks
from .formulas import off

DEEP = (10, 30, 100, 300, 1000)
"""Numbers of sub-layers for `deep_skips`."""


def per_feature(x):
    """What text D's sentence says: mean and variance of each feature over all tokens, x (T, D)."""
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)


def per_token(x):
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


def whose_statistics(T=7, D=16, seed=0):
    """{rule: (how far from the shipped layer, how far token 0 moves if the last token is replaced)}."""
    x = np.random.default_rng(seed).standard_normal((T, D))
    other = np.vstack([x[:-1], 3 * x[-1:]])
    shipped, _ = layer_norm(x, np.ones(D), np.zeros(D))
    rules = {"per feature": per_feature, "per token": per_token}
    return {name: (off(rule(x), shipped), off(rule(other)[0], rule(x)[0])) for name, rule in rules.items()}


# A loss that is constant: text D's six blocks ---------------------------------------------------------------


def six_blocks(eps, loss, norm=True, seed=0, N=6, T=10, D=16):
    """Norms of the gradients of the first weight in each of N blocks LN(x + FFN(x)).

    loss: "mean square" of the outputs, as printed, or a "projection" on a random array. norm: or x + FFN(x).
    """
    rng = np.random.default_rng(seed)
    x, direction = rng.standard_normal((T, D)), rng.standard_normal((T, D))
    weights = rng.uniform(-(D**-0.5), D**-0.5, (N, 2, D, D))
    caches = []
    for W_1, W_2 in weights:
        h, first = linear(x, W_1)
        a, bent = relu(h)
        y, second = linear(a, W_2)
        x, normed = layer_norm(x + y, np.ones(D), np.zeros(D), eps) if norm else (x + y, None)
        caches.append((first, bent, second, normed))
    dx, norms = (2 * x / x.size if loss == "mean square" else direction), []
    for first, bent, second, normed in reversed(caches):
        dx = layer_norm_backward(dx, normed)[0] if norm else dx
        da, _, _ = linear_backward(dx, second)
        back, dW_1, _ = linear_backward(relu_backward(da, bent), first)
        dx = dx + back
        norms.append(np.linalg.norm(dW_1))
    return np.array(norms[::-1])


# The skip, and depth ----------------------------------------------------------------------------------------


def skips(depths, seeds):
    """{depth: (skip alone in a post-norm stack, in one without norm, all paths)}, medians over seeds."""
    found = {}
    for N in depths:
        alone, bare, whole = [], [], []
        for seed in seeds:
            x, dy, rng = stacks.inputs(seed)
            layers = stacks.draw(["feed-forward"] * N, rng)
            for place, branch, ratios in (
                ("post", False, alone),
                ("none", False, bare),
                ("post", True, whole),
            ):
                _, caches = stacks.stack(x, layers, place)
                back, _ = stacks.stack_backward(dy, caches, branch=branch)
                ratios.append(stacks.size(back[0]) / stacks.size(dy))
        found[N] = tuple(float(np.median(part)) for part in (alone, bare, whole))
    return found


def frozen(N, norm, seed=0):
    """How far a gradient left as it is, "intact", is from differences along the connections of N sub-layers.

    The branches' outputs are held fixed: what is left is a sum and a norm N times, or N sums without norm.
    """
    x, dy, rng = stacks.inputs(seed, (1, 3, 8))
    layers = stacks.draw(["feed-forward"] * N, rng, 8, 16)
    place = "post" if norm else "none"
    outputs, _ = stacks.stack(x, layers, place)
    added = [stacks.function(*layer)(h)[0] for layer, h in zip(layers, outputs, strict=False)]

    def along(x):
        for branch in added:
            x = stacks.norm(x + branch)[0] if norm else x + branch
        return x

    return off(dy, measured(lambda x: (dy * along(x)).sum(), x))


def residual_sum(seed=0):
    """dX of X + f(X): how far dR alone is off, and dR plus what returns through the branch."""
    x, dy, rng = stacks.inputs(seed, (2, 3, 8))
    layers = stacks.draw(["feed-forward"], rng, 8, 16)
    _, caches = stacks.stack(x, layers, "none")
    wanted = measured(lambda x: (dy * stacks.stack(x, layers, "none")[0][-1]).sum(), x)
    return off(dy, wanted), off(stacks.stack_backward(dy, caches)[0][0], wanted)


def mixed_placement(depths, seeds):
    """The size of the output of N blocks of text C's kind, x + LN(attention), then + FFN without a norm."""
    found = {}
    for N in depths:
        sizes = []
        for seed in seeds:
            x, _, rng = stacks.inputs(seed)
            for kind, params in stacks.draw(["attention", "feed-forward"] * N, rng):
                place = "output" if kind == "attention" else "none"
                x, _ = stacks.sublayer(x, stacks.function(kind, params), place)
            sizes.append(stacks.size(x))
        found[N] = float(np.median(sizes))
    return found


def query_gradients(seeds, N=6):
    """Lengths of dW_Q in the deepest of N blocks: with the connection, and without, (seeds,) each."""
    kinds = ["attention", "feed-forward"] * N
    lengths = []
    for skip in (True, False):
        grads = [stacks.measure(kinds, "post", seed, skip=skip)[2] for seed in seeds]
        lengths.append([np.linalg.norm(found[2 * N - 2]["W_Q"]) for found in grads])
    return np.array(lengths)


def deep_skips(depths, seeds, deep, D=16, F=32):
    """{N: what returns along the skips alone of N sub-layers LN(αx + f(x))}, medians over seeds.

    deep: α = N^¼ and weights β = (4N)^−¼ times as large, as in DeepNorm; else α = β = 1, plain post-norm.
    """
    found, ones = {}, np.ones(D)
    for N in depths:
        alpha, beta = (N**0.25, (4 * N) ** -0.25) if deep else (1.0, 1.0)
        ratios = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            x, dy = rng.standard_normal((2, 8, D))
            caches = []
            for _ in range(N):
                W_1, W_2 = rng.normal(0, D**-0.5, (D, F)), rng.normal(0, (2 / F) ** 0.5, (F, D))
                f = np.maximum(x @ (beta * W_1), 0) @ (beta * W_2)
                x, normed = layer_norm(alpha * x + f, ones, 0 * ones)
                caches.append(normed)
            dx = dy
            for normed in reversed(caches):
                dx = alpha * layer_norm_backward(dx, normed)[0]
            ratios.append(stacks.size(dx) / stacks.size(dy))
        found[N] = float(np.median(ratios))
    return found
