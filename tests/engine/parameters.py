"""Parameters and batches for the tests of models."""

import numpy as np
import optree

from handgrad.algebra import is_shape
from handgrad.config import shapes


def random_params(config, rng, dtype=np.float64):
    """Parameters of ordinary size with nothing left at 0 or 1: γ away from 1, β and biases away from 0."""

    def draw(path, shape):
        values = rng.standard_normal(shape)
        if path[-1] == "gamma":
            values = 1 + 0.5 * values
        elif path[-1].startswith("W_"):
            values /= np.sqrt(shape[0])
        elif path[-1] == "E" and config.scale_embedding:
            values /= np.sqrt(config.D)
        return values.astype(dtype)

    return optree.tree_map_with_path(draw, shapes(config), is_leaf=is_shape)


def random_batch(config, rng, B=3, T=5, S=6, blind=False):
    """Tokens that repeat, rows padded to different lengths, and some targets that do not count, but one does.

    With `blind`, one row begins with padding: a causal query there sees nothing.
    """

    def rows(length):
        different = min(config.V, max(9, B * length // 4))  # fewer than positions: some repeat
        tokens = rng.integers(1, different, (B, length))
        if config.pad is not None:
            for b in range(1, max(B, 2)):  # the first row is full, unless it is the only one
                tokens[b % B, length - b % length :] = config.pad
            if blind:
                tokens[0, : 1 + length // 4] = config.pad
        return tokens

    if config.kind == "encoder-decoder":
        batch = {"source": rows(S), "target_in": rows(T), "target_out": rows(T)}
    else:
        batch = {"tokens": rows(T), "target_out": rows(T)}
    if config.pad is None:
        batch["target_out"][0, -1] = -100
    if np.all(batch["target_out"] == config.ignore_index):  # there is one token
        batch["target_out"][0, 0] = 1
    if config.segments:
        batch["segments"] = rng.integers(0, config.segments, batch["tokens"].shape)
    return batch
