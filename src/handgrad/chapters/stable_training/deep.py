"""Stacks of linear layers with an activation behind each: how large numbers get, forward and backward."""

import numpy as np
from scipy.special import ndtr

from handgrad.ops import ACTIVATIONS, linear, linear_backward

WIDTHS = (64, 96, 48, 128)  # no two sides of a weight are equal


def widths(N, cycle=WIDTHS):
    """D_0 ... D_N: N + 1 widths."""
    return [cycle[n % len(cycle)] for n in range(N + 1)]


def variances(sizes, c, rule="in"):
    """The variance of each layer's weights: c / D_in, c / D_out, or c over the mean of both."""
    pairs = zip(sizes, sizes[1:])
    return [c / {"in": a, "out": b, "mean": (a + b) / 2}[rule] for a, b in pairs]


def stack(x, weights, activation="relu"):
    """x (B, D_0) -> the rows before each layer and behind the last, [x, ..., y], and caches."""
    f, levels, caches = ACTIVATIONS[activation][0], [x], []
    for W in weights:
        z, before = linear(levels[-1], W)
        y, active = f(z)
        levels.append(y)
        caches.append((before, active))
    return levels, caches


def stack_backward(dy, caches, activation="relu"):
    """dy (B, D_N) -> the gradients of all levels, [dx, ..., dy]."""
    f_backward, gradients = ACTIVATIONS[activation][1], [dy]
    for before, active in reversed(caches):
        dz = f_backward(gradients[-1], active)
        gradients.append(linear_backward(dz, before)[0])
    return gradients[::-1]


def mean_squares(sizes, c, draws, rule="in", activation="relu", B=4, seed=0):
    """Mean squares of the levels and of their gradients, (draws, N + 1) each; x and dy are normal."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(draws):
        spread = np.sqrt(variances(sizes, c, rule))
        weights = [rng.normal(0, s, shape) for s, shape in zip(spread, zip(sizes, sizes[1:]))]
        levels, caches = stack(rng.standard_normal((B, sizes[0])), weights, activation)
        gradients = stack_backward(rng.standard_normal((B, sizes[-1])), caches, activation)
        found.append([[np.mean(a**2) for a in arrays] for arrays in (levels, gradients)])
    return np.array(found).swapaxes(0, 1)


def law(sizes, c, rule="in"):
    """What the mean squares of ReLU layers are on average, forward and backward, (N + 1,) each."""
    spread = np.array(variances(sizes, c, rule))
    forward = np.cumprod([1, *(spread * sizes[:-1] / 2)])
    backward = np.cumprod([1, *(spread * sizes[1:] / 2)[::-1]])[::-1]
    return forward, backward


def gelu_share(v):
    """E[gelu(z)²] / v for a normal z of mean 0 and variance v, by Gauss and Hermite."""
    nodes, masses = np.polynomial.hermite_e.hermegauss(100)
    z = np.sqrt(v) * nodes
    return masses / masses.sum() @ (z * ndtr(z)) ** 2 / v


def gelu_layers(v, N=20):
    """The variance of z after N layers whose weights balance the variance 1."""
    for _ in range(N):
        v = v * gelu_share(v) / gelu_share(1.0)
    return v
