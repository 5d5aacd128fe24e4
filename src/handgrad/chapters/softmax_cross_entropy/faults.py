"""Wrong gradients of a cross-entropy by its logits, each a line that has been written by somebody.

Each takes the cache of `handgrad.ops.cross_entropy`, the loss's own gradient being 1, and returns dz. The
padding, where cache["counted"] is false, is -100 in the targets; a smoothed q is (1 - α) one_hot + α/V.
"""

import numpy as np


def right(cache):
    return masked(cache, cache["p"] - cache["q"]) / cache["m"]


def summed(cache):
    return masked(cache, cache["p"] - cache["q"])


def over_all_positions(cache):
    return masked(cache, cache["p"] - cache["q"]) / cache["counted"].size


def mean_of_means(cache):
    each = np.maximum(cache["counted"].sum(axis=-1), 1)[..., None, None]  # of one sequence
    return masked(cache, cache["p"] - cache["q"]) / each / len(cache["p"])


def padding_pushed(cache):
    """As if padding were token 0, and a target like any other."""
    q = cache["q"].copy()
    pad = ~cache["counted"]
    q[pad, 0] = 1 - q[pad, 1:].sum(axis=-1)
    return (cache["p"] - q) / cache["m"]


def not_smoothed(cache):
    one_hot = cache["q"] == cache["q"].max(axis=-1, keepdims=True)
    return masked(cache, cache["p"] - one_hot) / cache["m"]


def jacobian_twice(cache):
    p, gap = cache["p"], cache["p"] - cache["q"]
    return masked(cache, p * (gap - (p * gap).sum(axis=-1, keepdims=True))) / cache["m"]


def only_the_right(cache):
    return (
        masked(cache, np.where(cache["q"] > 1 / cache["q"].shape[-1], cache["p"] - cache["q"], 0))
        / cache["m"]
    )


def masked(cache, dz):
    return np.where(cache["counted"][..., None], dz, 0.0)


FAULTS = {
    "a sum, not a mean": summed,
    "mean over all positions": over_all_positions,
    "mean of the means": mean_of_means,
    "padding is pushed": padding_pushed,
    "smoothing forgotten": not_smoothed,
    "softmax backward twice": jacobian_twice,
    "right token alone": only_the_right,
}
