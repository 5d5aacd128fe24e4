"""A valley with two parameters: a quadratic loss, turned against the axes, and walks down it."""

import numpy as np

from ... import optim

CURVATURES = np.array([1.0, 12.0])
TURN = np.deg2rad(30)
AXES = np.array([[np.cos(TURN), np.sin(TURN)], [-np.sin(TURN), np.cos(TURN)]])  # rows: flat, steep
H = AXES.T @ np.diag(CURVATURES) @ AXES
START = np.array([-3.0, -0.6])


def loss(p):
    """½ pᵀ H p of places p (..., 2)."""
    return 0.5 * np.einsum("...i,ij,...j->...", p, H, p)


def walk(step, init, rate, steps, start=START, H=H, **numbers):
    """The places (steps + 1, D) of the shipped `step` from start, on the loss ½ pᵀ H p."""
    params, state, places = {"p": start}, init({"p": start}), [start]
    for _ in range(steps):
        params, state = step(params, {"p": params["p"] @ H}, state, rate, **numbers)
        places.append(params["p"])
    return np.array(places)


def rate_gradient(places, rate, H=H):
    """The derivative of the last loss by the rate, for gradient descent: backward through every step."""
    dp, d_rate = places[-1] @ H, 0.0
    for p in places[-2::-1]:
        d_rate -= (p @ H) @ dp
        dp = dp - rate * dp @ H
    return d_rate


def growth(beta, rate, curvature=1.0, steps=300):
    """By how much a step of the shipped `momentum` multiplies |p| on ½ curvature p², after the first ones."""
    H = np.full((1, 1), curvature)
    p = np.abs(walk(optim.momentum, optim.momentum_init, rate, steps, np.ones(1), H, beta=beta)[:, 0])
    third = steps // 3
    return (p[2 * third :].max() / p[third : 2 * third].max()) ** (1 / third)


def larger_root(beta, eta_h):
    """The larger |z| of the matrix of a step with momentum, at each ηh (m,)."""
    return np.array([np.abs(np.roots([1, x - 1 - beta, beta])).max() for x in eta_h])
