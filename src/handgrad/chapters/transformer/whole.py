"""Whole models to try things with: one of small integers, some of every family, and what witnesses say."""

import numpy as np
import optree

from handgrad import model
from handgrad.config import Config, init

SAME = dict(V=11, D=8, H=4, F=12, N=3, pad=0, activation="gelu")
MODELS = (
    Config("encoder-decoder", **SAME, scale_embedding=True),
    Config("encoder-decoder", **SAME, positions="learned", T_max=9, norm="output"),
    Config("decoder", **SAME, norm="pre", final_norm=True, positions="rotary", H_kv=2),
    Config("encoder", **SAME, positions="learned", T_max=7, segments=2, head_bias=True),
)
"""Every family and every placement of the norms, with padding."""


def of_integers():
    """The encoder-decoder of the example in small integers: config, params, batch."""
    config = Config(
        "encoder-decoder",
        **dict(V=3, D=1, H=1, F=1, N=2, norm="pre", positions="learned", T_max=2),
        **dict(attention_biases=False, feed_forward_biases=False),
    )
    params = optree.tree_map(np.zeros_like, init(config, np.random.default_rng(0)))
    params["embedding"] |= dict(E=np.array([[1.0], [2], [-1]]), P=np.array([[0.0], [1]]))
    params["source_embedding"]["P"] = np.array([[-1.0], [0]])
    for c, block in zip((1.0, 2.0), params["decoder"], strict=True):
        block["cross_attention"] |= dict(W_V=np.array([[c]]), W_O=np.ones((1, 1)))
    return config, params, {"source": np.array([[1]]), "target_in": np.array([[1, 1]])}


def batch(config, rng, B=2, S=7, T=5):
    """Random tokens; if the model has padding, some at the start, in the middle and at the end."""
    source, row, asked = (rng.integers(1, config.V, size=(B, n)) for n in (S, T, T))
    if config.pad is not None:
        for tokens in (source, row):
            tokens[0, 0] = tokens[1, tokens.shape[1] // 2] = tokens[1, -1] = config.pad
        asked[0, 1] = asked[1, -1] = config.pad
    if config.kind == "encoder-decoder":
        return {"source": source, "target_in": row, "target_out": asked}
    return {"tokens": row, "target_out": asked}


def params(config, rng):
    """Parameters with noise in every entry: no scale is 1, and no bias or shift is 0."""
    return optree.tree_map(lambda w: w + 0.3 * rng.standard_normal(w.shape), init(config, rng))


def slopes(config, rng, h=1e-6):
    """The derivative of the loss along a random direction of all parameters: by gradient, by difference."""
    start, some = params(config, rng), batch(config, rng)
    way = optree.tree_map(lambda w: rng.standard_normal(w.shape), start)

    def at(h):
        moved = optree.tree_map(lambda w, r: w + h * r, start, way)
        return model.loss_and_gradients(moved, config, some)

    _, grads = at(0.0)
    leaves = zip(optree.tree_leaves(grads), optree.tree_leaves(way), strict=True)
    return sum(np.vdot(g, r) for g, r in leaves), (at(h)[0] - at(-h)[0]) / (2 * h)


def deeper_by_nothing(params, config):
    """The same pre-norm decoder with one more block, which adds 0; and that model's config."""
    deeper = Config(**{**{f: getattr(config, f) for f in config.__dataclass_fields__}, "N": config.N + 1})
    block = init(deeper, np.random.default_rng(0))["decoder"][-1]
    for part, names in (("self_attention", ("W_O", "b_O")), ("feed_forward", ("W_2", "b_2"))):
        block[part] |= {name: 0 * block[part][name] for name in names}
    return params | {"decoder": [*params["decoder"], block]}, deeper


def reordered(params, order):
    """The same model with the features of its stream in another order: order (D,)."""
    into = {"W_Q", "W_K", "W_V", "W_1"}  # rows are features of the stream
    out = {"E", "P", "W_O", "b_O", "W_2", "b_2", "gamma", "beta"}  # columns are

    def moved(path, w):
        return w[order] if path[-1] in into else w[..., order] if path[-1] in out else w

    return optree.tree_map_with_path(moved, params)


def halves(x, angles):
    """Rotary positions in the pairs (i, i + K/2). x (T, K), angles (T, K/2)."""
    low, high = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([low * cos - high * sin, low * sin + high * cos], axis=-1)
