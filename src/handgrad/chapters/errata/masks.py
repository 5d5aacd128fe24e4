"""Masks: what leaks where one is missing, or comes too late."""

from contextlib import nullcontext

import numpy as np

from ... import optim
from ...config import Config, init
from ...mistakes import changed, edited
from ...model import backward, forward, loss_and_gradients
from ...ops import attention, attention_backward, causal_mask

# After the softmax comes dropout. In the late layer it gets the mask, and the scores get none.
LATE = "scores = xp.where(whole_mask(mask, q, k), scores, -inf)"
LATE += " → keep = xp.broadcast_to(whole_mask(mask, q, k), scores.shape)"
OPEN = "np.tril(np.ones((T, T), dtype=bool)) → np.ones((T, T), dtype=bool)"
KINDS = ("causal", "late", "none")  # what `trained` can be asked
FIRST, LAST = (attention, attention_backward), (edited(attention, LATE), attention_backward)


def to_the_future(pair, T=6, K=4, seed=0):
    """The longest gradient that a later key receives, over the longest that any key does."""
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((3, T, K))
    _, cache = pair[0](q, k, v, np.tri(T, dtype=bool))
    arrived = []
    for i in range(T):
        dy = np.zeros((T, K))
        dy[i] = rng.standard_normal(K)
        arrived.append(np.linalg.norm(pair[1](dy, cache)[1], axis=1))
    arrived = np.array(arrived)
    return float(np.triu(arrived, 1).max() / arrived.max())


def to_later_inputs(kind, T=6, seed=0):
    """The same share for the inputs of a whole model, "encoder" without a mask or "decoder" with it."""
    config = Config(kind, V=9, D=8, H=2, F=12, N=2, positions="learned", T_max=T)
    params = init(config, np.random.default_rng(seed))
    tokens = np.random.default_rng(seed).integers(0, 9, (1, T))
    z, cache = forward(params, config, {"tokens": tokens})
    arrived = []
    for t in range(T):
        dz = np.zeros_like(z)
        dz[0, t] = np.random.default_rng(t).standard_normal(z.shape[-1])
        dP = backward(dz, cache)["embedding"]["P"]  # row s is what arrives at input s
        arrived.append(np.abs(dP).max(axis=1))
    arrived = np.array(arrived)
    return float(np.triu(arrived, 1).max() / arrived.max())


def trained(kind, seed, steps=150, V=10, rate=0.01):
    """The losses on fresh random tokens, in which there is nothing to learn: "causal", "late" or "none"."""
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
