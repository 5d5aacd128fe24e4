"""The head that classifies: one linear layer on the row of [CLS], with its backward by hand."""

from functools import partial

import numpy as np

from ... import fast, model, optim, train
from ...algebra import namespace
from ...ops import cross_entropy, cross_entropy_backward, linear, linear_backward
from ...ops.table import Op


def cls_head(x, W, b):
    """x (B, T, D), W (D, C), b (C,) -> scores u (B, C), cache. Row 0 of each sequence is read, no other."""
    u, cache = linear(x[:, 0], W, b)
    return u, {"rest": x[:, 1:], "linear": cache}


def cls_head_backward(du, cache):
    """du (B, C) -> dx (B, T, D), dW (D, C), db (C,)."""
    xp = namespace(du)
    dx_0, dW, db = linear_backward(du, cache["linear"])  # (B, D)
    unread = xp.zeros_like(cache["rest"])  # (B, T - 1, D)
    return xp.concat([dx_0[:, None, :], unread], axis=1), dW, db


CLS_HEAD = Op(
    cls_head,
    cls_head_backward,
    {"x": "B T D", "W": "D C", "b": "C"},
    dict(B=2, T=3, D=2, C=4),
)
"""The head as an entry for the checks."""


def begun(params, config, classes, seed):
    """The state of a training before its first update with labels.

    Encoder and embedding are as given; the head is new, its W from N(0, 0.02²), drawn from `seed`.
    """
    rng, E = np.random.default_rng(seed), params["embedding"]["E"]
    W = rng.normal(0, 0.02, (config.D, classes)).astype(E.dtype)
    kept = {name: params[name] for name in ("embedding", "embedding_norm", "encoder") if name in params}
    own = kept | {"classifier": {"W": W, "b": np.zeros(classes, E.dtype)}}
    return train.State(own, optim.adamw_init(own), rng)


def forward(params, config, tokens, draw_keep=None):
    """tokens (B, T) -> scores (B, C), cache."""
    x, encoded = model.encode(params, config, tokens, draw_keep=draw_keep)
    u, read = cls_head(x, params["classifier"]["W"], params["classifier"]["b"])
    return u, {"encoded": encoded, "read": read}


def backward(du, cache, head_backward=cls_head_backward):
    """du (B, C) -> the gradients, a tree like the parameters. head_backward: another, to see what it does."""
    dx, dW, db = head_backward(du, cache["read"])
    grads = model.encode_backward(dx, cache["encoded"])
    grads = {name: part for name, part in grads.items() if part}
    return grads | {"classifier": {"W": dW, "b": db}}


def loss_and_gradients(params, config, batch, draw_keep=None, label_smoothing=0.0, **wrong):
    """Mean cross-entropy of the labels, batch["target_out"] (B,), and its gradients: for `train.update`."""
    u, cache = forward(params, config, batch["tokens"], draw_keep)
    loss, counted = cross_entropy(u, batch["target_out"], label_smoothing=label_smoothing)
    return loss, backward(cross_entropy_backward(1.0, counted), cache, **wrong)


def fine_tuner(config, recipe, **wrong):
    """The argument `engine` of `train.run` for a classifier: AdamW of `fast`, gradients of this file."""
    gradients = partial(loss_and_gradients, **wrong)
    return lambda state, *_: fast.engine(state, config, recipe, gradients=gradients)
