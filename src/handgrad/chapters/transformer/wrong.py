"""What wrong backwards of a whole model cost, in five small models."""

import numpy as np
import optree

from handgrad import model
from handgrad.config import Config, init

MODELS = {
    "N = 1": {},
    "N = 3": dict(N=3),
    "own\ntables": dict(N=3, tied=False, shared=False),
    "decoder\nonly": dict(N=3, kind="decoder"),
    "no scale": dict(N=3, scale_embedding=False),
}


def sizes(changes):
    """A small model with the changes of one of MODELS."""
    same = dict(kind="encoder-decoder", V=11, D=8, H=2, F=12, N=1, scale_embedding=True)
    return Config(**same | changes)


def errors(backwards, seed=0):
    """The largest relative error of any gradient: a row for each backward, a column for each of MODELS."""
    rng, rows = np.random.default_rng(seed), []
    for backward in backwards:
        row = []
        for changes in MODELS.values():
            config = sizes(changes)
            batch = {"target_in": rng.integers(11, size=(2, 5)), "source": rng.integers(11, size=(2, 7))}
            if config.kind == "decoder":
                batch = {"tokens": batch["target_in"]}
            z, cache = model.forward(init(config, rng), config, batch)
            dz = rng.standard_normal(z.shape)
            row.append(apart(backward(dz, cache), model.backward(dz, cache)))
        rows.append(row)
    return np.array(rows)


def apart(grads, right):
    """The largest error of any gradient, relative to the largest entry of the right one, or of all."""
    most = max(np.abs(g).max() for g in optree.tree_leaves(right))

    def error(mine, other):
        return np.abs(mine - other).max() / max(np.abs(other).max(), 1e-5 * most)

    return max(optree.tree_leaves(optree.tree_map(error, grads, right)))
