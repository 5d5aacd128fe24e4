"""Whole models to try things with, of every family, with padding and noise in every parameter."""

import optree

from handgrad import model, twin
from handgrad.config import Config, init

SAME = dict(V=11, D=8, H=4, F=12, N=3, pad=0, activation="gelu")
MODELS = (
    Config("encoder-decoder", **SAME, scale_embedding=True),
    Config("encoder-decoder", **SAME, positions="learned", T_max=9, norm="output"),
    Config("decoder", **SAME, norm="pre", final_norm=True, positions="rotary", H_kv=2),
    Config("encoder", **SAME, positions="learned", T_max=7, segments=2, head_bias=True),
)
"""Every family and every placement of the norms."""


def batch(config, rng):
    """Random tokens, with padding at the start, in the middle and at the end."""
    source, row, asked = (rng.integers(1, config.V, size=(2, n)) for n in (7, 5, 5))
    for tokens in (source, row):
        tokens[0, 0] = tokens[1, tokens.shape[1] // 2] = tokens[1, -1] = config.pad
    asked[0, 1] = asked[1, -1] = config.pad
    if config.kind == "encoder-decoder":
        return {"source": source, "target_in": row, "target_out": asked}
    return {"tokens": row, "target_out": asked}


def params(config, rng):
    """Parameters with noise in every entry: no scale is 1, and no bias or shift is 0."""
    return optree.tree_map(lambda w: w + 0.3 * rng.standard_normal(w.shape), init(config, rng))


def beside_the_twin(config, rng):
    """The worst relative error of any gradient beside the twin's; AssertionError if the losses differ."""
    own, some = params(config, rng), batch(config, rng)
    loss, grads = model.loss_and_gradients(own, config, some)
    wanted, of_torch = twin.loss_and_gradients(twin.load(twin.Twin(config), own), some)
    if not abs(loss - wanted) < 1e-12:
        raise AssertionError(f"loss: expected {wanted}, got {loss}")
    return twin.compare(grads, of_torch)
