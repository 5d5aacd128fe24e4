"""The training of chapter 03: the entropy of counts, rivals by singular values, the twin in PyTorch."""

import numpy as np

from ...manual import V


def entropy(counts):
    """-Σ n ln(n/total)/total of counts of any shape: nats per count."""
    shares = counts[counts > 0] / counts.sum()
    return -(shares * np.log(shares)).sum()


def init(r, seed):
    """E (V, r) and W (r, V): entries of the logits E W have the standard deviation ¼."""
    rng = np.random.default_rng(seed)
    return [0.5 * r**-0.25 * rng.standard_normal(shape) for shape in ((V, r), (r, V))]


def truncated(counts, r, kappa):
    """The rank-r table (V, V) nearest to the centred logarithms of counts + kappa, by singular values."""
    log = np.log(counts + kappa)
    left, values, right = np.linalg.svd(log - log.mean(axis=1, keepdims=True))
    return (left[:, :r] * values[:r]) @ right[:r]


def twin_train(counts, r, seed, steps, rate):
    """The losses (steps,) of the same training, its gradients made by PyTorch from the forward."""
    import torch
    from torch.nn import functional

    E, W = (torch.tensor(a, requires_grad=True) for a in init(r, seed))
    shares, everything = torch.tensor(counts / counts.sum()), torch.arange(V)
    optimizer, losses = torch.optim.SGD([E, W], lr=rate), []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        z = functional.linear(functional.embedding(everything, E), W.T)
        loss = -(shares * functional.log_softmax(z, dim=-1)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)
