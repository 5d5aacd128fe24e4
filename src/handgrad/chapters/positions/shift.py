"""The task of chapter 07: which token stood two places before? Lines, and the twin in PyTorch."""

from collections import Counter, defaultdict
from itertools import permutations

import numpy as np
from scipy.stats import entropy

from ...ops.positions import rotary, rotary_angles

VOCABULARY, BACK = 32, 2


def lines(rng, B=32, T=8):
    """B lines of T different tokens out of 32, in random order: (B, T). Raises ValueError if T > 32."""
    if T > VOCABULARY:
        raise ValueError(f"T: expected at most {VOCABULARY} different tokens, got {T}")
    return rng.permuted(np.tile(np.arange(VOCABULARY), (B, 1)), axis=1)[:, :T]


def torch_turned(x, angles):
    """Rotary positions as one product of complex numbers: x (B, T, K), angles (T, K/2)."""
    import torch

    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))  # (B, T, K/2)
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def torch_loss(params, tokens, angles):
    """The loss of the chapter's model with rotary positions, by PyTorch's own functions."""
    from torch.nn import functional

    x = functional.embedding(tokens, params["E"])
    q, k = (x @ params[f"W_{n}"] + params[f"b_{n}"] for n in "QK")
    q, k = torch_turned(q, angles), torch_turned(k, angles)
    y = functional.scaled_dot_product_attention(q, k, x @ params["W_V"])
    z = y[:, BACK:] @ params["W"]
    return functional.cross_entropy(z.flatten(0, 1), tokens[:, :-BACK].flatten())


def torch_train(params, angles, rng, steps, rate):
    """The losses (steps,) of the same training by automatic differentiation, from these params."""
    import torch

    params = {name: torch.tensor(x, requires_grad=True) for name, x in params.items()}
    optimizer = torch.optim.SGD(params.values(), lr=rate)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch_loss(params, torch.tensor(lines(rng)), torch.tensor(angles))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def least(T, sees):
    """The least mean loss of any answer that depends on sees(order, t) alone, over all orders of T."""
    counts = defaultdict(Counter)
    for order in permutations(range(T)):
        for t in range(BACK, T):
            counts[sees(order, t)][order[t - BACK]] += 1
    times = [counter.total() for counter in counts.values()]
    return np.average([entropy([*counter.values()]) for counter in counts.values()], weights=times)


def clipped_scores(q, k, reach):
    """Rotary scores (B, T, T) of q and k (B, T, K), as if no difference r - t were beyond the reach."""
    T, K = q.shape[1:]
    by_one = rotary_angles(2, K)[1]
    held = np.clip(np.arange(T) - np.arange(T)[:, None], -reach, reach)  # r - t
    s = np.empty((len(q), T, T))
    for difference in range(-reach, reach + 1):
        turned, _ = rotary(k, np.tile(difference * by_one, (T, 1)))
        s = np.where(held == difference, q @ turned.mT, s)
    return s / np.sqrt(K)
