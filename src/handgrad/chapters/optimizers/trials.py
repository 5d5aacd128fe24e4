"""Small trials of the shipped optimizers: walks on given gradients, on noise, and in badly scaled valleys."""

import numpy as np

from ... import optim
from .valley import walk


def walked(name, start, gradients, rate, **numbers):
    """The places (t + 1, n) from start on the given gradients (t, n), by the optimizer of this name."""
    start = np.asarray(start, dtype=float)
    places, state = [start], getattr(optim, f"{name}_init")(start)
    for g in np.asarray(gradients, dtype=float):
        p, state = getattr(optim, name)(places[-1], g, state, rate, **numbers)
        places.append(p)
    return np.array(places)


def weighted(t, beta):
    """Weights (t,) of the gradients 1 … t in a running mean, and these divided by their sum."""
    each = (1 - beta) * beta ** (t - np.arange(1, t + 1.0))
    return each, each / each.sum()


def steps(beta_1, beta_2, gradients):
    """Adam's steps (t,), over the rate, on the given gradients (t,) of one parameter, for ε near 0."""
    numbers = dict(beta_1=beta_1, beta_2=beta_2, eps=1e-300)
    places = walked("adam", [0.0], np.reshape(gradients, (-1, 1)), 1.0, **numbers)
    return -np.diff(places[:, 0])


def left_over(name, degrees, rates, along=(-1.0, -0.01)):
    """The share of the loss that is left after 300 steps at the best rate, in a valley turned so far.

    The curvatures are 1 and 10⁴, as if one of two features were a hundred times larger than the other.
    along: the start, in the directions of the two curvatures.
    """
    angle, found = np.deg2rad(degrees), []
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    H, start = turn @ np.diag([1.0, 1e4]) @ turn.T, turn @ along
    with np.errstate(all="ignore"):  # large rates diverge
        for rate in rates:
            p = walk(getattr(optim, name), getattr(optim, f"{name}_init"), rate, 300, start, H)[-1]
            found.append(p @ H @ p / (start @ H @ start))
    return np.nanmin(found)


def decayed(decoupled, size, steps=4000, rate=0.001, lam=0.1):
    """The mean (steps + 1,) of a thousand parameters, from 1 on, under noise of this size and decay λ."""
    rng, p = np.random.default_rng(3), np.ones(1000)
    state, means = optim.adam_init(p), [1.0]
    for _ in range(steps):
        g = size * rng.standard_normal(1000)
        if decoupled:
            p, state = optim.adamw(p, g, state, rate, weight_decay=lam)
        else:
            p, state = optim.adam(p, g + lam * p, state, rate)
        means.append(p.mean())
    return np.array(means)


def on_noise(rng, updates, parameters=100_000):
    """The root mean square (updates,) of Adam's steps, over the rate, on independent normal gradients."""
    p, state, sizes = np.zeros(parameters), optim.adam_init(np.zeros(parameters)), []
    for _ in range(updates):
        new, state = optim.adam(p, rng.standard_normal(parameters), state, 1.0)
        sizes.append(np.sqrt(np.mean((new - p) ** 2)))
        p = new
    return np.array(sizes)


def circled(name, C=3.0, updates=1500, **numbers):
    """Where a parameter in [−1, 1] ends if the gradients C, −1, −1 repeat (Reddi, Kale and Kumar 2018)."""
    p, state = np.zeros(1), getattr(optim, f"{name}_init")(np.zeros(1))
    for t in range(1, updates + 1):
        g = np.array([C if t % 3 == 1 else -1.0])
        p, state = getattr(optim, name)(p, g, state, 0.5 / t**0.5, **numbers)
        p = np.clip(p, -1, 1)
    return float(p[0])
