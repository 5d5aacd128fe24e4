"""The backward of an encoder-decoder once more, in lines that can be slipped, and what the slips cost."""

import numpy as np
import optree

from handgrad import model
from handgrad.algebra import root
from handgrad.config import Config, init

SLIPS = {
    "last block only": "the memory hears the last block and no other",
    "head forgotten": "the table misses its third use",
    "source forgotten": "the table misses its first use",
    "no √D": "the gradients of look-ups are not scaled",
}
MODELS = {
    "N = 1": {},
    "N = 3": dict(N=3),
    "own\ntables": dict(N=3, tied=False, shared=False),
    "decoder\nonly": dict(N=3, kind="decoder"),
    "no scale": dict(N=3, scale_embedding=False),
}


def backward(dlogits, cache, slip=None):
    """As model.backward, for a model without norms around its stacks; slip: one of SLIPS, or None."""
    config = cache["config"]
    dx, dE, grads = model.head_backward(dlogits, cache["headed"])
    dmemory, of_decoder = model.decode_backward(dx, cache["decoded"])
    grads |= of_decoder
    scale = root(config.D, dx) if config.scale_embedding and slip == "no √D" else 1.0
    grads["embedding"]["E"] = grads["embedding"]["E"] / scale
    if dmemory is not None:
        if slip == "last block only":
            dmemory = last_only(dx, cache["decoded"]["blocks"])
        of_encoder = model.encode_backward(dmemory, cache["encoded"])
        of_source = of_encoder["source_embedding"]["E"] / scale
        grads |= of_encoder
        if not config.shared:
            grads["source_embedding"]["E"] = of_source
        else:
            del grads["source_embedding"]["E"]
        if config.shared and slip != "source forgotten":
            grads["embedding"]["E"] = grads["embedding"]["E"] + of_source
    if config.tied and slip != "head forgotten":
        grads["embedding"]["E"] = grads["embedding"]["E"] + dE
    return {name: part for name, part in grads.items() if part}


def last_only(dx, blocks):
    """What the last block alone returns for the memory."""
    return model.decoder_block_backward(dx, blocks[-1])[1]


def sizes(changes):
    """A small model with the changes of one of MODELS."""
    same = dict(kind="encoder-decoder", V=11, D=8, H=2, F=12, N=1, scale_embedding=True)
    return Config(**same | changes)


def errors(seed=0):
    """The largest relative error of any gradient: a row for each of SLIPS, a column for each of MODELS."""
    rng, rows = np.random.default_rng(seed), []
    for slip in SLIPS:
        row = []
        for changes in MODELS.values():
            config = sizes(changes)
            batch = {"target_in": rng.integers(11, size=(2, 5)), "source": rng.integers(11, size=(2, 7))}
            if config.kind == "decoder":
                batch = {"tokens": batch["target_in"]}
            z, cache = model.forward(init(config, rng), config, batch)
            dz = rng.standard_normal(z.shape)
            row.append(apart(backward(dz, cache, slip), model.backward(dz, cache)))
        rows.append(row)
    return np.array(rows)


def apart(grads, right):
    """The largest error of any gradient, relative to the largest entry of the right one, or of all."""
    most = max(np.abs(g).max() for g in optree.tree_leaves(right))

    def error(mine, other):
        return np.abs(mine - other).max() / max(np.abs(other).max(), 1e-5 * most)

    return max(optree.tree_leaves(optree.tree_map(error, grads, right)))
