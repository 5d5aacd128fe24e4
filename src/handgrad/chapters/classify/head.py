"""The head that classifies: one linear layer on the row of [CLS], with its backward by hand."""

import numpy as np

from ... import model
from ...algebra import namespace
from ...ops import cross_entropy, cross_entropy_backward, linear, linear_backward
from ...ops.table import Op


def cls_head(x, W, b):
    """x (B, T, D), W (D, C), b (C,) -> scores z (B, C), cache. Row 0 of each sequence is read, no other."""
    z, cache = linear(x[:, 0], W, b)
    return z, {"rest": x[:, 1:], "linear": cache}


def cls_head_backward(dz, cache):
    """dz (B, C) -> dx (B, T, D), dW (D, C), db (C,)."""
    xp = namespace(dz)
    dx_0, dW, db = linear_backward(dz, cache["linear"])  # (B, D)
    unread = xp.zeros_like(cache["rest"])  # (B, T - 1, D)
    return xp.concat([dx_0[:, None, :], unread], axis=1), dW, db


CLS_HEAD = Op(
    cls_head,
    cls_head_backward,
    {"x": "B T D", "W": "D C", "b": "C"},
    dict(B=2, T=3, D=2, C=4),
    formula=r"\mathrm{d}\mathbf{x}_t = \delta_{t0}\, \mathrm{d}\mathbf{z}\, \mathbf{W}^\top",
    source="Devlin et al. (2019), section 4.1",
    chapter="18",
)
"""The head as an entry for the checks."""


def start(params, config, classes, rng):
    """The parameters of a classifier: the encoder and its embedding, which are given, and a new head."""
    E = params["embedding"]["E"]
    W = rng.normal(0, config.std, (config.D, classes)).astype(E.dtype)
    kept = {name: params[name] for name in ("embedding", "embedding_norm", "encoder") if name in params}
    return kept | {"classifier": {"W": W, "b": np.zeros(classes, E.dtype)}}


def forward(params, config, tokens, draw_keep=None):
    """tokens (B, T) -> scores (B, C), cache."""
    x, encoded = model.encode(params, config, tokens, draw_keep=draw_keep)
    z, read = cls_head(x, params["classifier"]["W"], params["classifier"]["b"])
    return z, {"encoded": encoded, "read": read}


def backward(dz, cache):
    """dz (B, C) -> the gradients, a tree like the parameters."""
    dx, dW, db = cls_head_backward(dz, cache["read"])
    grads = model.encode_backward(dx, cache["encoded"])
    grads = {name: part for name, part in grads.items() if part}
    return grads | {"classifier": {"W": dW, "b": db}}


def loss_and_gradients(params, config, batch, draw_keep=None, label_smoothing=0.0):
    """Mean cross-entropy of the labels, batch["target_out"] (B,), and its gradients: for `train.update`."""
    z, cache = forward(params, config, batch["tokens"], draw_keep)
    loss, counted = cross_entropy(z, batch["target_out"], label_smoothing=label_smoothing)
    return loss, backward(cross_entropy_backward(1.0, counted), cache)
