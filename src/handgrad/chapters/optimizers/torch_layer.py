"""PyTorch's optimizers, step for step beside ours on the same gradients."""

import numpy as np
import optree
import torch

from ... import optim
from ...algebra import is_shape

SHAPES = {"table": (5, 3), "layers": [{"W": (3, 4), "b": (4,)}, {"W": (4, 2)}], "gain": (1,)}


def drawn(rng):
    """A tree of random arrays: parameters or gradients, of very different sizes."""
    return optree.tree_map(
        lambda shape: rng.standard_normal(shape) * 10 ** rng.uniform(-3, 2), SHAPES, is_leaf=is_shape
    )


def pairs(rng):
    """{name: (our step, our first state, a function that makes PyTorch's optimizer)}, numbers at random."""
    beta, beta_1, beta_2 = rng.uniform(0.5, 0.95), rng.uniform(0.5, 0.95), rng.uniform(0.9, 0.999)
    eps, decay = 10 ** rng.uniform(-8, -1), 10 ** rng.uniform(-2, 0)
    ours = dict(beta_1=beta_1, beta_2=beta_2, eps=eps)
    theirs = dict(lr=1.0, betas=(beta_1, beta_2), eps=eps)

    def with_l2(params, grads, state, rate):
        pulled = optree.tree_map(lambda g, p: g + decay * p, grads, params)
        return optim.adam(params, pulled, state, rate, **ours)

    return {
        "SGD": (optim.sgd, optim.sgd_init, lambda p: torch.optim.SGD(p, lr=1.0)),
        "momentum": (
            lambda *a: optim.momentum(*a, beta=beta),
            optim.momentum_init,
            lambda p: torch.optim.SGD(p, lr=1.0, momentum=beta),
        ),
        "Adam": (
            lambda *a: optim.adam(*a, **ours),
            optim.adam_init,
            lambda p: torch.optim.Adam(p, **theirs),
        ),
        "AdamW": (
            lambda *a: optim.adamw(*a, weight_decay=decay, **ours),
            optim.adamw_init,
            lambda p: torch.optim.AdamW(p, weight_decay=decay, **theirs),
        ),
        "Adam + L2": (
            with_l2,
            optim.adam_init,
            lambda p: torch.optim.Adam(p, weight_decay=decay, **theirs),
        ),
    }


def race(seed, steps=60):
    """{name: the largest difference of any parameter after any step, relative to its array's largest}."""
    errors = {}
    for name, (step, init, make) in pairs(np.random.default_rng(seed)).items():
        rng = np.random.default_rng([seed, 1])
        params = drawn(rng)
        leaves = [torch.tensor(p, requires_grad=True) for p in optree.tree_leaves(params)]
        state, optimizer, worst = init(params), make(leaves), 0.0
        for _ in range(steps):
            grads, rate = drawn(rng), 10 ** rng.uniform(-3, -1)
            for leaf, g in zip(leaves, optree.tree_leaves(grads), strict=True):
                leaf.grad = torch.tensor(g)
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
            params, state = step(params, grads, state, rate)
            for p, leaf in zip(optree.tree_leaves(params), leaves, strict=True):
                worst = max(worst, float(np.abs(p - leaf.detach().numpy()).max() / np.abs(p).max()))
        errors[name] = worst
    return errors


def steps(beta_1, beta_2, gradients):
    """What `trials.steps` returns, by torch.optim.Adam."""
    p = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer, places = torch.optim.Adam([p], lr=1.0, betas=(beta_1, beta_2), eps=1e-300), [0.0]
    for g in gradients:
        p.grad = torch.tensor([g], dtype=p.dtype)
        optimizer.step()
        places.append(p.item())
    return -np.diff(places)


def beside_the_paper(factor, alpha=0.02, decay=0.05, steps=40):
    """How far torch.optim.AdamW ends from Algorithm 2 of Loshchilov and Hutter (2019), relative.

    Both follow the same random gradients along a cosine. The λ of PyTorch is `decay`, that of the paper
    `alpha · decay`; then both take `factor · alpha` for the constant rate.
    """
    rng, of_paper, rate = np.random.default_rng(4), alpha * decay, factor * alpha
    p = rng.standard_normal(50)
    theirs = torch.tensor(p, requires_grad=True)
    optimizer, state = torch.optim.AdamW([theirs], lr=rate, weight_decay=decay), optim.adam_init(p)
    for n in range(1, steps + 1):
        g, multiplier = rng.standard_normal(50), optim.cosine(n, steps, 1.0)
        theirs.grad = torch.tensor(g)
        optimizer.param_groups[0]["lr"] = multiplier * rate
        optimizer.step()
        moved, state = optim.adam(p, g, state, multiplier * rate)
        p = moved - multiplier * of_paper * p
    theirs = theirs.detach().numpy()
    return float(np.abs(p - theirs).max() / np.abs(theirs).max())
