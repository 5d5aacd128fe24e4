"""Optimisers: from gradients to the next parameters, and the size of the step.

Parameters, gradients and moments are trees of one shape: nested dicts and lists of arrays. Every optimizer is
a pure function of one signature,

    state = adam_init(params)
    params, state = adam(params, grads, state, rate)

which raises TypeError or ValueError, with the name of the argument, unless the trees have one shape and one
type of arrays and every number is in its range. It works on arrays of any kind, because it only adds,
multiplies and takes powers. The number of the step counts from 1. Arrays keep their precision: float32
parameters stay float32, even if the rate is a float64 of NumPy's, such as an entry of an array.
"""

import math

import numpy as np
import optree

from .algebra import check_amount, check_integer, check_like


def sgd_init(params):
    """Return the state of `sgd`: the number of steps taken, 0."""
    return {"step": 0}


def sgd(params, grads, state, rate):
    """Gradient descent, p ← p − rate · g (Robbins and Monro 1951). Returns params, state.

    Raises ValueError if rate is negative or the two trees differ.
    """
    (rate,) = checked(params, grads, rate=rate)
    check_state(state, params)
    return optree.tree_map(lambda p, g: p - rate * g, params, grads), {"step": state["step"] + 1}


def momentum_init(params):
    """Return the state of `momentum`: no step taken, a velocity of 0 for each parameter."""
    return {"step": 0, "v": _zeros(params)}


def momentum(params, grads, state, rate, beta=0.9):
    """Gradient descent with momentum, v ← β v + g, p ← p − rate · v (Polyak 1964). Returns params, state.

    Raises ValueError if rate is negative, beta is outside [0, 1) or the trees differ.
    """
    rate, beta = checked(params, grads, rate=rate, beta=beta)
    check_state(state, params, "v")
    v = optree.tree_map(lambda v, g: beta * v + g, state["v"], grads)
    return optree.tree_map(lambda p, v: p - rate * v, params, v), {"step": state["step"] + 1, "v": v}


def adam_init(params):
    """Return the state of `adam`: no step taken, both moments 0 for each parameter."""
    return {"step": 0, "m": _zeros(params), "v": _zeros(params)}


def adam(params, grads, state, rate, beta_1=0.9, beta_2=0.999, eps=1e-8):
    """Adam (Kingma and Ba 2015, Algorithm 1). Returns params, state.

        m ← β₁ m + (1 − β₁) g          m̂ = m / (1 − β₁ᵗ)
        v ← β₂ v + (1 − β₂) g²         v̂ = v / (1 − β₂ᵗ)          p ← p − rate · m̂ / (√v̂ + ε)

    The moments start at 0 and are therefore too small at first, by exactly the factor 1 − βᵗ.
    Raises ValueError if rate is negative, a beta is outside [0, 1), eps is not positive or the trees differ.
    """
    numbers = dict(rate=rate, beta_1=beta_1, beta_2=beta_2, eps=eps)
    rate, beta_1, beta_2, eps = checked(params, grads, **numbers)
    check_state(state, params, "m", "v")
    t = state["step"] + 1
    m = optree.tree_map(lambda m, g: beta_1 * m + (1 - beta_1) * g, state["m"], grads)
    v = optree.tree_map(lambda v, g: beta_2 * v + (1 - beta_2) * (g * g), state["v"], grads)
    m_bias, v_bias = 1 - beta_1**t, 1 - beta_2**t

    def update(p, m, v):
        return p - rate * (m / m_bias) / ((v / v_bias) ** 0.5 + eps)

    return optree.tree_map(update, params, m, v), {"step": t, "m": m, "v": v}


def adamw_init(params):
    """Return the state of `adamw`, which is that of `adam`."""
    return adam_init(params)


def adamw(params, grads, state, rate, beta_1=0.9, beta_2=0.999, eps=1e-8, weight_decay=0.01):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, Algorithm 2). Returns params, state.

    Every parameter first shrinks, p ← (1 − rate · λ) p, then takes Adam's step. The decay does not pass
    through the moments: added to the gradient, it would be divided by √v̂ as well, which is another method.
    λ is multiplied by the rate, as in PyTorch. In the paper only a schedule multiplies it: the paper's λ is
    this one times its constant rate α.
    Raises ValueError as `adam`, and if weight_decay is negative.
    """
    rate, weight_decay = checked(params, grads, rate=rate, weight_decay=weight_decay)
    shrunk = optree.tree_map(lambda p: (1 - rate * weight_decay) * p, params)
    return adam(shrunk, grads, state, rate, beta_1=beta_1, beta_2=beta_2, eps=eps)


def clip_by_global_norm(grads, max_norm, eps=1e-6):
    """Shorten the gradient, taken as one long vector, to at most max_norm (Pascanu et al. 2013, Algorithm 1).

    Returns grads, norm, where norm is the length before. The factor is max_norm / (norm + eps) if that is
    below 1; eps is PyTorch's and keeps the result strictly shorter than max_norm. The direction stays. With
    max_norm = ∞ the length stays too.
    Raises ValueError unless max_norm > 0 and eps > 0; FloatingPointError if a gradient is not finite.
    """
    norm = math.hypot(*map(norm_of, optree.tree_leaves(grads)))
    factor = clip_factor(norm, max_norm, eps)
    return optree.tree_map(lambda g: g * factor, grads), norm


def inverse_square_root(step, D, warmup, scale=1.0):
    """Return the learning rate scale · D^(−1/2) · min(step^(−1/2), step · warmup^(−3/2)).

    This is Vaswani et al. 2017, section 5.3, whose scale is 1. It rises linearly for `warmup` steps, to
    scale / √(D · warmup), and then falls as 1/√step.
    Raises TypeError or ValueError unless step, D and warmup are integers ≥ 1 and scale is a number > 0.
    """
    for name, value in (("step", step), ("D", D), ("warmup", warmup)):
        check_integer(name, value, least=1)
    check_amount("scale", scale, positive=True)
    return scale * D**-0.5 * min(step**-0.5, step * warmup**-1.5)


def cosine(step, steps, peak, warmup=0, floor=0.0):
    """Return a learning rate that rises linearly to `peak` and falls along half a cosine to `floor`.

    For step ≤ warmup it is peak · step / warmup; then floor + (peak − floor) (1 + cos(π s)) / 2, where s runs
    from 0 at step = warmup to 1 at step = steps: Loshchilov and Hutter 2017, equation 5, one cycle, after a
    linear warm-up.
    Raises TypeError or ValueError unless these are integers, 0 ≤ warmup < steps and 0 ≤ step ≤ steps, and
    numbers, 0 ≤ floor ≤ peak.
    """
    check_integer("steps", steps, least=1)
    check_integer("warmup", warmup, most=steps - 1)
    check_integer("step", step, most=steps)
    for name, value in (("peak", peak), ("floor", floor)):
        check_amount(name, value)
    if floor > peak:
        raise ValueError(f"floor: expected 0 ≤ floor ≤ peak, got floor {floor} and peak {peak}")
    if step < warmup:
        return peak * step / warmup
    return floor + (peak - floor) * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2


def norm_of(g):
    """The length of an array as one vector, even if the squares of its numbers are ∞ or 0."""
    largest = float(abs(g).max()) if math.prod(g.shape) else 0.0
    if not 0 < largest < math.inf:
        return largest
    return largest * float(np.linalg.norm(np.ravel(g / largest)))


def clip_factor(norm, max_norm, eps):
    """What a gradient of this norm is multiplied by."""
    check_amount("eps", eps, positive=True)
    if max_norm != math.inf:
        check_amount("max_norm", max_norm, positive=True)
    if not math.isfinite(norm):
        raise FloatingPointError(f"grads: expected finite numbers, got a gradient of norm {norm}")
    return min(1.0, float(max_norm) / (norm + eps))


def _zeros(params):
    return optree.tree_map(lambda p: 0 * p, params)


def checked(params, grads, **numbers):
    """Return the numbers, those of NumPy as Python's, which turn no float32 into float64.

    Refuses numbers out of range and trees that differ in keys, shapes or types.
    """
    for name, value in numbers.items():
        check_amount(name, value, positive=name == "eps", below=1 if name.startswith("beta") else math.inf)
    check_tree("grads", grads, params)
    return [value.item() if isinstance(value, np.generic) else value for value in numbers.values()]


def check_state(state, params, *moments):
    """Refuse a state without the number of its step, or whose moments are not trees like params."""
    if missing := {"step", *moments} - set(state):
        raise ValueError(f"state: expected the entry {sorted(missing)[0]!r}, got {sorted(state)}")
    check_integer('state["step"]', state["step"])
    for name in moments:
        check_tree(f'state["{name}"]', state[name], params)


def check_tree(name, tree, params):
    """Refuse a tree whose keys, or whose shapes and kinds of arrays, are not those of params."""
    paths, arrays, keys = optree.tree_flatten_with_path(tree)
    wanted_paths, leaves, wanted_keys = optree.tree_flatten_with_path(params)
    if keys != wanted_keys:
        first = next(iter(set(paths) ^ set(wanted_paths)), "another order")
        raise ValueError(f"{name}: expected the keys of params, but only one of them holds {first}")
    for path, array, leaf in zip(paths, arrays, leaves, strict=True):
        check_like(f"{name} at {path}", array, leaf)
