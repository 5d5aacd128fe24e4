"""What chapter 06 trains: a channel with misprints, learned by several networks side by side.

A network is fed one of V tokens and says which token comes out of the channel: the one that a fixed
permutation puts in its place, but with probability 1/10 another, each as likely as the next.
"""

import numpy as np

from handgrad.optim import adam, adam_init, sgd, sgd_init

V, D, F = 16, 32, 64
MISPRINTS = 0.1
SMOOTHING = MISPRINTS * V / (V - 1)
"""Label smoothing spreads its share over all V tokens, the right one too."""


def channel(seeds):
    """The token that should come out for each that goes in, (R, V), a permutation for each seed."""
    return np.array([np.random.default_rng([6, seed]).permutation(V) for seed in seeds])


def initial(seeds, N, dtype=np.float32):
    """Parameters of a network for each seed, side by side: their axis comes before the last two."""

    def one(seed):
        rng = np.random.default_rng(seed)
        params = {"E": rng.normal(0, 1, (V, D)), "W": rng.normal(0, D**-0.5, (D, V))}
        params["W_1"] = rng.normal(0, D**-0.5, (N, D, F))
        return params | {"W_2": rng.normal(0, (2 / F) ** 0.5, (N, F, D))}

    networks = [one(seed) for seed in seeds]
    return {name: np.stack([n[name] for n in networks], axis=-3).astype(dtype) for name in networks[0]}


def train(step, params, rate, warmup=0, steps=150, method="adam"):
    """Losses (steps, R). step: a function from params to losses (R,) and gradients; warmup: rising steps."""
    update, init = (adam, adam_init) if method == "adam" else (sgd, sgd_init)
    state, losses = init(params), []
    with np.errstate(all="ignore"):  # a network that diverges does so alone
        for t in range(1, steps + 1):
            loss, grads = step(params)
            params, state = update(params, grads, state, rate * min(1, t / max(warmup, 1)))
            losses.append(loss)
    return np.array(losses)


def twin_gradients(params, place, skip, targets):
    """The loss of each network (R,) and the gradients, as PyTorch finds them from the forward alone."""
    import torch
    from torch.nn import functional

    leaves = {name: torch.tensor(x, requires_grad=True) for name, x in params.items()}

    def norm(x):
        return functional.layer_norm(x, (D,))

    x = leaves["E"]
    for W_1, W_2 in zip(leaves["W_1"], leaves["W_2"], strict=True):
        h = torch.relu((norm(x) if place == "pre" else x) @ W_1) @ W_2
        x = skip * x + h
        x = norm(x) if place == "post" else x
    z = norm(x) @ leaves["W"]  # (R, V, V)
    every = functional.cross_entropy(
        z.reshape(-1, V), torch.tensor(targets).reshape(-1), label_smoothing=SMOOTHING, reduction="none"
    )
    loss = every.reshape(targets.shape).mean(axis=1)
    loss.sum().backward()
    return loss.detach().numpy(), {name: leaf.grad.numpy() for name, leaf in leaves.items()}
