"""Parameters for the tests of models."""

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
