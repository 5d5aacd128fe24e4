"""Masks: what leaks where one is missing, comes too late, or was thought of for one place only."""

from contextlib import nullcontext

import numpy as np

from ... import optim
from ...config import Config, init
from ...mistakes import changed, edited
from ...model import backward, forward, loss_and_gradients
from ...ops import attention, attention_backward, causal_mask
from .formulas import off

# After the softmax comes dropout. In the late layer it gets the mask, and the scores get none.
LATE = "scores = xp.where(whole_mask(mask, q, k), scores, -inf)"
LATE += " → keep = xp.broadcast_to(whole_mask(mask, q, k), scores.shape)"
OPEN = "np.tril(np.ones((T, T), dtype=bool)) → np.ones((T, T), dtype=bool)"
FIRST, LAST = (attention, attention_backward), (edited(attention, LATE), attention_backward)


def late(T=6, K=4, seed=0):
    """Row sums (T,) of weights masked after the softmax, and how far the output is from the right one."""
    rng = np.random.default_rng(seed)
    q, k, v = 2 * rng.standard_normal((3, T, K))
    mask = np.tri(T, dtype=bool)
    (y, cache), (right, kept) = (rule(q, k, v, mask) for rule, _ in (LAST, FIRST))
    return cache["kept"].sum(axis=1), kept["a"].sum(axis=1), off(y, right)


def to_the_future(pair, T=6, K=4, seed=0):
    """The longest gradient that a later key receives, over the longest that any key does."""
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((3, T, K))
    _, cache = pair[0](q, k, v, np.tri(T, dtype=bool))
    felt = []
    for i in range(T):
        dy = np.zeros((T, K))
        dy[i] = rng.standard_normal(K)
        felt.append(np.linalg.norm(pair[1](dy, cache)[1], axis=1))
    felt = np.array(felt)
    return float(np.triu(felt, 1).max() / felt.max())


def to_later_inputs(kind, T=6, seed=0):
    """The same share for the inputs of a whole model, "encoder" without a mask or "decoder" with it."""
    config = Config(kind, V=9, D=8, H=2, F=12, N=2, positions="learned", T_max=T)
    params = init(config, np.random.default_rng(seed))
    tokens = np.random.default_rng(seed).integers(0, 9, (1, T))
    z, cache = forward(params, config, {"tokens": tokens})
    felt = []
    for t in range(T):
        dz = np.zeros_like(z)
        dz[0, t] = np.random.default_rng(t).standard_normal(z.shape[-1])
        dP = backward(dz, cache)["embedding"]["P"]  # row s is what arrives at input s
        felt.append(np.abs(dP).max(axis=1))
    felt = np.array(felt)
    return float(np.triu(felt, 1).max() / felt.max())


def own_token(shifted, T=6, seed=0):
    """Places whose logits move with the very token that they are asked for, input shifted or not."""
    config = Config("decoder", V=9, D=8, H=2, F=12, N=2)
    params = init(config, np.random.default_rng(seed))
    row = np.random.default_rng(seed).integers(1, 9, (1, T + 1))

    moved, first = [], int(shifted)  # the place in the row of the token that is asked at t is t + first
    read = row[:, :-1] if shifted else row
    z, _ = forward(params, config, {"tokens": read})
    for t in range(read.shape[1]):
        other = row.copy()
        other[0, t + first] = (row[0, t + first] + 1) % config.V
        z_other, _ = forward(params, config, {"tokens": other[:, :-1] if shifted else other})
        moved.append(bool((z_other[0, t] != z[0, t]).any()))
    return np.flatnonzero(moved)


def padding(masked, seed=0):
    """How far the logits move, relative, if the source has two pads more at its end: masked, or not."""
    config = Config("encoder-decoder", V=9, D=8, H=2, F=12, N=2, pad=0 if masked else None)
    params = init(config, np.random.default_rng(seed))
    source = np.array([[3, 5, 4, 7, 0, 0]])
    longer = np.array([[3, 5, 4, 7, 0, 0, 0, 0]])
    target = np.array([[1, 2, 6]])
    short, long = (forward(params, config, {"source": s, "target_in": target})[0] for s in (source, longer))
    return off(long, short)


# Training on tokens in which there is nothing to learn ------------------------------------------------------


def trained(kind, seed, steps=400, V=10, rate=0.01):
    """The loss of each step on fresh random tokens: "causal", "late" or "none", by hand-written gradients."""
    config = Config(
        "decoder", V=V, D=32, H=2, F=64, N=1, T_max=6, positions="learned", norm="pre", final_norm=True
    )
    faults = {"none": (causal_mask, OPEN), "late": (attention, LATE)}
    rng = np.random.default_rng(seed)
    params = init(config, rng)
    state, losses = optim.adam_init(params), []
    with changed(*faults[kind]) if kind in faults else nullcontext():
        for _ in range(steps):
            tokens = rng.integers(0, V, (32, 7))
            batch = {"tokens": tokens[:, :-1], "target_out": tokens[:, 1:]}
            loss, grads = loss_and_gradients(params, config, batch)
            params, state = optim.adam(params, grads, state, rate)
            losses.append(float(loss))
    return np.array(losses)
