"""What the chapter measures in models of this package: real gradients, Adam after one bad batch."""

from functools import cache

import numpy as np

from handgrad import manual, model, optim
from handgrad.config import Config, init
from handgrad.ops import cross_entropy, cross_entropy_backward

KIND = dict(kind="decoder", V=manual.V, D=64, H=4, F=256, norm="pre", final_norm=True)


@cache
def text():
    """The training tokens of the manual."""
    return manual.split()[0]


def windows(count, seed):
    """A batch of `count` windows of 64 characters of the manual, and the characters behind them."""
    starts = np.random.default_rng(seed).integers(0, len(text()) - 65, count)
    rows = np.stack([text()[s : s + 65] for s in starts])
    return {"tokens": rows[:, :-1], "target_out": rows[:, 1:]}


def trained_decoder(steps=200, rate=0.003):
    """A decoder of two blocks, and its parameters after so many updates of Adam on eight windows each."""
    config = Config(**KIND, N=2, activation="gelu")
    params = init(config, np.random.default_rng(0), np.float32)
    state = optim.adam_init(params)
    for step in range(steps):
        _, grads = model.loss_and_gradients(params, config, windows(8, 100 + step))
        params, state = optim.adam(params, grads, state, rate)
    return config, params


def dlogits_of(params, config, batch):
    """The gradient of the loss by the logits (B, T, V), and the cache of the forward."""
    logits, kept = model.forward(params, config, batch)
    _, counted = cross_entropy(logits, batch["target_out"])
    return cross_entropy_backward(1.0, counted), kept


def moves(R, bad=1000.0, at=2000, steps=3000):
    """How far Adam moves a parameter in each step, in rates: the gradient is 1, but `bad` in step `at`."""
    place, found = [np.zeros(1)], []
    state = optim.adam_init(place)
    for step in range(1, steps + 1):
        grads, _ = optim.clip_by_global_norm([np.array([bad if step == at else 1.0])], R)
        was, (place, state) = place[0], optim.adam(place, grads, state, 1.0)
        found.append(float(was[0] - place[0][0]))
    return np.array(found)


def average_dx(backward, dy, p, rng, draws=20_000):
    """The mean of a dropout's dx over draws of its mask; dy stays."""
    caches = ({"keep": rng.random(dy.shape) >= p, "shape": dy.shape, "p": p} for _ in range(draws))
    return np.mean([backward(dy, cache) for cache in caches], axis=0)
