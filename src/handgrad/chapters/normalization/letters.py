"""The text of the training in chapter 05, the parameters of its network, and the same training in PyTorch."""

import codecs
import contextlib
import io

import numpy as np
import optree


def next_letters():
    """The poem that ships with Python: the two letters before each letter (m, 2), and the letter (m,)."""
    with contextlib.redirect_stdout(io.StringIO()):  # importing it prints it
        import this
    text = codecs.decode(this.s, "rot13").lower()
    letters = sorted(set(text))
    ids = np.array([letters.index(letter) for letter in text])
    return np.stack([ids[:-2], ids[1:-1]], axis=1), ids[2:]


def init(seed, size=0.35, each=16, D=64, N=4, V=32):
    """Parameters: N layers of width D on two embedded letters, `each` wide. Weights: N(0, size² / inputs)."""
    rng = np.random.default_rng(seed)

    def draw(m, n):
        return size * rng.standard_normal((m, n)) / np.sqrt(m)

    widths = [2 * each] + [D] * N
    layers = [
        {"W": draw(m, n), "gamma": np.ones(n), "beta": np.zeros(n)}
        for m, n in zip(widths[:-1], widths[1:], strict=True)
    ]
    return {"E": rng.standard_normal((V, each)), "layers": layers, "W": draw(D, V), "b": np.zeros(V)}


def scale_and_shift(x, gamma, beta):
    """LayerNorm without its statistics: x (..., D) -> y (..., D), cache."""
    return gamma * x + beta, (x, gamma)


def scale_and_shift_backward(dy, cache):
    """dy (m, D) -> dx (m, D), dgamma (D,), dbeta (D,)."""
    x, gamma = cache
    return gamma * dy, (dy * x).sum(axis=0), dy.sum(axis=0)


def twin_train(before, target, seed, steps=300, rate=0.3):
    """The losses (steps,) of the same training with LayerNorm, its gradients made by PyTorch."""
    import torch
    from torch.nn import functional

    params = optree.tree_map(lambda p: torch.tensor(p, requires_grad=True), init(seed))
    before, target = torch.tensor(before), torch.tensor(target)
    optimizer, losses = torch.optim.SGD(optree.tree_leaves(params), lr=rate), []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        x = functional.embedding(before, params["E"]).flatten(1)
        for layer in params["layers"]:
            x = functional.layer_norm(x @ layer["W"], (64,), layer["gamma"], layer["beta"])
            x = functional.relu(x)
        loss = functional.cross_entropy(x @ params["W"] + params["b"], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)
