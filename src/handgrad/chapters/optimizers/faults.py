"""Mistakes in Adam and AdamW: the shipped lines with one of them changed, and the checks they meet."""

import inspect

import numpy as np

from ... import optim

EDITS = {
    "β₁ and β₂ exchanged": [
        ("beta_1 * m + (1 - beta_1)", "beta_2 * m + (1 - beta_2)"),
        ("beta_2 * v + (1 - beta_2)", "beta_1 * v + (1 - beta_1)"),
        ("1 - beta_1**t, 1 - beta_2**t", "1 - beta_2**t, 1 - beta_1**t"),
    ],
    "1 − β₁ forgotten": [("beta_1 * m + (1 - beta_1) * g", "beta_1 * m + g")],
    "no correction": [("1 - beta_1**t, 1 - beta_2**t", "1, 1")],
    "corrected with t + 1": [("1 - beta_1**t, 1 - beta_2**t", "1 - beta_1**(t + 1), 1 - beta_2**(t + 1)")],
    "v of |g|, not of g²": [("(g * g)", "abs(g)")],
    "root forgotten": [(" ** 0.5", "")],
    "ε inside the root": [("((v / v_bias) ** 0.5 + eps)", "((v / v_bias + eps) ** 0.5)")],
    "ε before the correction": [("((v / v_bias) ** 0.5 + eps)", "((v ** 0.5 + eps) / v_bias ** 0.5)")],
}
"""What is changed, old → new, in the lines of `optim.adam`."""

DECAYED = "decay in the gradient"


def wrong_adam(name):
    """The shipped `adam` with the mistake of this name."""
    source = inspect.getsource(optim.adam)
    for old, new in EDITS[name]:
        if source.count(old) != 1:
            raise ValueError(f"name: {old!r} stands {source.count(old)} times in adam, expected once")
        source = source.replace(old, new)
    names = dict(vars(optim))
    exec(source, names)
    return names["adam"]


def wrong_adamw(name):
    """AdamW with the mistake of this name, with the signature of `optim.adamw`."""
    step = optim.adam if name == DECAYED else wrong_adam(name)

    def adamw(params, grads, state, rate, weight_decay=0.0, **numbers):
        if name == DECAYED:
            grads = {key: g + weight_decay * params[key] for key, g in grads.items()}
        else:
            params = {key: (1 - rate * weight_decay) * p for key, p in params.items()}
        return step(params, grads, state, rate, **numbers)

    return adamw


NAMES = (*EDITS, DECAYED)


def path(step, gradients, start, **numbers):
    """The parameters (steps + 1, D) after each of the given gradients (steps, D), at rates that change."""
    params, state, places = {"p": start}, optim.adam_init({"p": start}), [start]
    for t, g in enumerate(gradients, 1):
        params, state = step(params, {"p": g}, state, 0.1 / np.sqrt(t), **numbers)
        places.append(params["p"])
    return np.array(places)


def checks(rng):
    """{name of a check: (gradients, start, numbers)}, from the weakest to the one that sees everything."""
    start, random = rng.standard_normal(6), rng.standard_normal((60, 6))
    usual = dict(beta_1=0.9, beta_2=0.999, eps=1e-8)
    return {
        "one step,\nfrom zero": (random[:1], 0 * start, usual | dict(weight_decay=0.1)),
        "60 equal\ngradients": (np.tile(random[0], (60, 1)), start, usual | dict(weight_decay=0.0)),
        "60 random,\nλ = 0": (random, start, usual | dict(weight_decay=0.0)),
        "60 random,\nλ, large ε": (random, start, dict(beta_1=0.8, beta_2=0.95, eps=0.1, weight_decay=0.1)),
    }


def errors(rng):
    """(faults, checks): the largest error of the parameters, relative to how far they went."""
    rows = []
    for name in NAMES:
        row = []
        for gradients, start, numbers in checks(np.random.default_rng(rng.integers(2**31))).values():
            right, wrong = (
                path(step, gradients, start, **numbers) for step in (optim.adamw, wrong_adamw(name))
            )
            row.append(np.abs(wrong - right).max() / np.abs(right - start).max())
        rows.append(row)
    return np.array(rows)
