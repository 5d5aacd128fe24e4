"""What chapter 17 trains and measures: windows of a text, bits by place, checks."""

from functools import partial

import numpy as np
import optree

from handgrad import decode, manual, model
from handgrad.config import Config, init

T = 128  # characters in a window
SPENT = 20_000  # characters that the held-out text begins with: they have served to search a recipe


def gpt(**changes):
    """The model of the chapter: decoder-only, pre-norm, final norm, GELU, tied head, rotary positions."""
    config = dict(kind="decoder", V=manual.V, D=128, H=4, F=512, N=3, norm="pre", final_norm=True)
    config |= dict(activation="gelu_tanh", positions="rotary")
    return Config(**config | changes)


def windows(tokens, starts, T=T):
    """The batch of windows of tokens (L,) from `starts` (B,) on: each place is asked for the next token."""
    rows = tokens[np.asarray(starts)[:, None] + np.arange(T + 1)]  # (B, T + 1)
    return {"tokens": rows[:, :-1], "target_out": rows[:, 1:]}


def repeated(training, held_out, n=50):
    """The share of the pieces of n characters of a text that stand in another, word for word."""
    source, asked = manual.decode(training), manual.decode(held_out)
    pieces = {source[i : i + n] for i in range(len(source) - n + 1)}
    return np.mean([asked[i : i + n] in pieces for i in range(len(asked) - n + 1)])


def by_place(params, config, tokens, stride, T=T):
    """The loss in nats of tokens 1, …, L − 1: (L − 1,).

    Windows of T places, each `stride` after the last, and one at the end. A token counts once: in the first
    window that holds it, where it has the most context, more than T − stride tokens but for the first window.
    """
    L = len(tokens)
    starts = [L - 1 - T, *reversed(range(0, L - 1 - T, stride))]  # the last first, so that earlier ones stay
    losses = np.empty(L - 1)
    for at in range(0, len(starts), 32):
        some = starts[at : at + 32]
        batch = windows(tokens, some, T)
        z, _ = model.forward(params, config, batch)
        for start, row in zip(some, nats_of(z, batch["target_out"]), strict=True):
            losses[start : start + T] = row
    return losses


def nats_of(z, targets):
    """The cost −ln p of each target: z (..., V), targets (...) -> (...), in float64."""
    return -np.take_along_axis(decode.log_softmax(z.astype(np.float64)), targets[..., None], axis=-1)[..., 0]


def by_temperature(z, targets):
    """The derivative of the mean loss by the temperature, at 1: the mean of z_y − z̄."""
    log_p = decode.log_softmax(z.astype(np.float64))  # z less one number at each place
    return -(nats_of(z, targets) + (np.exp(log_p) * log_p).sum(axis=-1)).mean()


# Writing ----------------------------------------------------------------------------------------------------


def continued(params, config, text, length, choose):
    """Text that is written behind a text, character by character; `choose`: as in `decode.greedy`."""
    next_logits = decode.cached_continuer(params, config)
    tokens = manual.encode(text)[None]
    for _ in range(length):
        z = next_logits(tokens, np.array([0]))
        tokens = np.concatenate([tokens, choose(z)[:, None]], axis=1)
    return manual.decode(tokens[0])


def continuation(params, config, begun, length=60):
    """A text of 1 to 60 characters, continued by `length` drawn ones. ValueError for any other."""
    if not 1 <= len(begun) <= 60:
        raise ValueError("expected a text of 1 to 60 characters")
    choose = decode.sampler(np.random.default_rng(len(begun)), 0.8, partial(decode.nucleus, p=0.95))
    return continued(params, config, begun, length, choose)


# Checks of a model: each returns an error ------------------------------------------------------------------

TINY = gpt(D=32, F=64, N=2)
PARAMS = init(TINY, np.random.default_rng(3))
ROWS = np.random.default_rng(3).integers(0, 96, (2, 17))


def batch_of(rows):
    """The batch of two rows (2, 17), by the maker of all batches."""
    return windows(rows.ravel(), [0, 17], 16)


def differences(step=1e-5):
    """Are these the gradients of this loss? Along one direction in the space of all parameters."""
    rng, batch = np.random.default_rng(4), batch_of(ROWS)
    way = optree.tree_map(lambda x: rng.normal(size=x.shape), PARAMS)
    _, grads = model.loss_and_gradients(PARAMS, TINY, batch)
    moved = [optree.tree_map(lambda x, d, by=by: x + by * d, PARAMS, way) for by in (step, -step)]
    up, down = (model.loss_and_gradients(params, TINY, batch)[0] for params in moved)
    slope = sum((g * d).sum() for g, d in zip(*map(optree.tree_leaves, (grads, way))))
    return abs((up - down) / (2 * step) / slope - 1)


def untrained():
    """Does a model that knows nothing pay ln V? Its table is small, so its logits are near 0."""
    small = PARAMS | {"embedding": {"E": PARAMS["embedding"]["E"] / 10}}
    return abs(model.loss_and_gradients(small, TINY, batch_of(ROWS))[0] / np.log(96) - 1)


def leak(t=7):
    """Do the logits at a place move when the character is replaced that is asked there?"""
    other, place = ROWS.copy(), batch_of(np.arange(34).reshape(2, 17))["target_out"][0, t]
    other[0, place] = (ROWS[0, place] + 1) % 96
    one, two = (model.forward(PARAMS, TINY, batch_of(rows))[0][0, t] for rows in (ROWS, other))
    return np.abs(one - two).max() / np.abs(one).max()


def piecewise():
    """Does a text that is read in pieces get the logits of one pass?"""
    first, past = decode.extend(PARAMS, TINY, ROWS[:, :5])
    rest, _ = decode.extend(PARAMS, TINY, ROWS[:, 5:], past)
    whole, _ = model.forward(PARAMS, TINY, {"tokens": ROWS})
    return np.abs(np.concatenate([first, rest], axis=1) - whole).max() / np.abs(whole).max()


CHECKS = {check.__name__: check for check in (differences, untrained, leak)}
