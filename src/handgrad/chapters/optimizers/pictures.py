"""The pictures of chapter 15 that move: each value of a slider is walked, drawn and put into words here."""

import numpy as np

from ... import optim
from . import figures, valley

LINE = np.linspace(0.001, 0.185, 120)
NAMES = {"SGD": "sgd", "momentum 0.9": "momentum", "Adam": "adam"}
GRADIENT = np.array([3.0, 0.3])
EPSILONS = (1e-8, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def _sgd(rate):
    return valley.walk(optim.sgd, optim.sgd_init, rate, 10)


def rate(axes, value):
    """Ten steps of three optimizers, and the loss of SGD after them with its tangent."""
    walks = {
        label: valley.walk(getattr(optim, name), getattr(optim, f"{name}_init"), value, 10)
        for label, name in NAMES.items()
    }
    ends = [valley.loss(_sgd(float(x))[-1]) for x in LINE]
    slope = valley.rate_gradient(walks["SGD"], value)
    figures.rate_answer(axes, value, walks, (LINE, ends), slope)


def rate_words(value):
    """What `rate` shows, for those who cannot see it."""
    places = _sgd(value)
    return (
        f"Rate {value:g}: after ten steps SGD has the loss {valley.loss(places[-1]):.3g}, and the derivative "
        f"of this loss by the rate, the slope of the tangent, is {valley.rate_gradient(places, value):.3g}"
    )


def beta(axes, value):
    """Forty steps with momentum, with the step of the gradient and of the velocity at four places."""
    places = valley.walk(optim.momentum, optim.momentum_init, 0.1, 40, beta=value)
    at = [1, 3, 6, 10]
    gradients, velocities = 0.1 * places[at] @ valley.H, [places[n] - places[n + 1] for n in at]
    figures.beta_answer(axes, value, places, places[at], gradients, velocities)


def beta_loss(value):
    """The loss after forty steps with this β."""
    return valley.loss(valley.walk(optim.momentum, optim.momentum_init, 0.1, 40, beta=value)[-1])


def beta_words(value):
    """What `beta` shows, for those who cannot see it."""
    return (
        f"β = {value:g}: a walk in the valley with arrows; after 40 steps the loss is {beta_loss(value):.1e}"
    )


def first_step(eps):
    """Adam's first step, over the rate, for the gradient (3, 0.3)."""
    return optim.adam(np.zeros(2), GRADIENT, optim.adam_init(np.zeros(2)), 1.0, eps=eps)[0]


def eps(ax, value):
    """Adam's first step for one gradient at every ε; the chosen one stands out."""
    figures.eps_answer(ax, value, GRADIENT, {e: first_step(e) for e in EPSILONS})


def eps_words(value):
    """What `eps` shows, for those who cannot see it."""
    across, up = first_step(value)
    return f"ε = {value:g}: for the gradient (3, 0.3) Adam’s first step is ({across:.3f}, {up:.3f}) η"
