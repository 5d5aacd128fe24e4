"""A language of sixteen characters whose best loss is known: Markov chains, and training on pairs of them."""

import numpy as np

from ... import optim

V, SEEDS = 16, 5


def chain(seed):
    """Probabilities (V, V) of each pair: common and rare characters, few of them likely to follow one."""
    rng = np.random.default_rng(seed)
    first = 1 / np.arange(1, V + 1) ** 1.5
    return (first / first.sum())[:, None] * rng.dirichlet(np.full(V, 0.3), size=V)


PAIRS = np.array([chain(seed) for seed in range(SEEDS)])  # (R, V, V)


def counted(rng, batch):
    """Shares (R, V, V) of each pair among `batch` drawn ones; its probabilities if batch is None."""
    if batch is None:
        return PAIRS
    return np.array([rng.multinomial(batch, p.ravel()).reshape(V, V) / batch for p in PAIRS])


def trained(name, rate, gradient, updates=400, batch=32, schedule=None, **numbers):
    """The tables Z (R, V, V) after training from 0 by the optimizer of this name.

    gradient: a function (Z, shares of pairs) -> dZ. schedule: a function of the update and the peak; None for
    a constant rate.
    """
    step, params = getattr(optim, name), {"Z": np.zeros_like(PAIRS)}
    state, rng = getattr(optim, f"{name}_init")(params), np.random.default_rng(7)
    for n in range(1, updates + 1):
        grads = {"Z": gradient(params["Z"], counted(rng, batch))}
        now = rate if schedule is None else schedule(n, rate)
        params, state = step(params, grads, state, now, **numbers)
    return params["Z"]
