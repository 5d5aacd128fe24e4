"""The chain closes: what the page prints, computed by its reader, is what the shipped functions return."""

from pathlib import Path

import numpy as np
import pytest

from handgrad import ops
from handgrad.page import read

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SIZES = dict(B=2, T=3, S=4, D=5, E=3, F=6, V=7, K=2)

# For each operation: its notebook, the printed forward with its letters, the shipped pair of functions as
# (values) -> (y, cache) and backward, and the letters whose gradients the backward returns, in order.
LAYER = "x (B, T, D); gamma, beta (D); epsilon > 0"
ATTENTION = ("eq-attention-scores", "eq-attention-weights", "eq-attention-output")
FEED_FORWARD = "x (B, T, D); W_1 (D, F); b_1 (F); W_2 (F, D); b_2 (D); phi function"
CASES = {
    "linear": (
        "03_linear_and_embedding",
        ["eq-linear"],
        dict(letters="x (B, T, D); W (D, F); b (F)"),
        lambda v: ops.linear(v["x"], v["W"], v["b"]),
        ops.linear_backward,
        ["x", "W", "b"],
    ),
    "softmax": (
        "02_softmax_cross_entropy",
        ["eq-softmax"],
        dict(letters="z (B, T, V)"),
        lambda v: ops.softmax(v["z"]),
        lambda dy, cache: (ops.softmax_backward(dy, cache),),
        ["z"],
    ),
    "layer_norm": (
        "05_normalization",
        ["eq-layer-norm"],
        dict(letters=LAYER, columns=True),
        lambda v: ops.layer_norm(v["x"], v["gamma"], v["beta"], eps=float(v["epsilon"])),
        ops.layer_norm_backward,
        ["x", "gamma", "beta"],
    ),
    "rms_norm": (
        "05_normalization",
        ["eq-rms-norm"],
        dict(letters="x (B, T, D); gamma (D); epsilon > 0", columns=True),
        lambda v: ops.rms_norm(v["x"], v["gamma"], eps=float(v["epsilon"])),
        ops.rms_norm_backward,
        ["x", "gamma"],
    ),
    "attention": (
        "08_attention",
        ATTENTION,
        dict(letters="q (T, K); k (S, K); v (S, E); m (T, S)"),
        lambda v: ops.attention(v["q"], v["k"], v["v"], v["m"] == 0),
        ops.attention_backward,
        ["q", "k", "v"],
    ),
}


def drawn(letters, rng):
    """Random values for the letters of a case, by the sizes above."""
    values = {}
    for item in letters.split(";"):
        names, _, shape = item.partition("(")
        kind = "positive" if ">" in names else ""
        axes = [SIZES[a.strip()] for a in shape.strip(" )").split(",") if a.strip()]
        for name in names.replace("> 0", "").split(","):
            number = rng.uniform(0.5, 1.5, size=axes) if kind else rng.standard_normal(axes)
            values[name.strip()] = number
    if "m" in values:
        values["m"] = np.zeros_like(values["m"])
    return values


@pytest.mark.parametrize("name", CASES)
def test_the_printed_forward_and_its_gradients_are_the_shipped_ones(name):
    notebook, labels, settings, forward, backward, inputs = CASES[name]
    reading = read(NOTEBOOKS / f"{notebook}.ipynb").given(*labels, **settings)
    rng = np.random.default_rng(7)
    values = drawn(settings["letters"], rng)
    y, cache = forward(values)
    output = reading.reading.output
    np.testing.assert_allclose(reading.compute(output, SIZES, values), y, rtol=1e-12, atol=1e-13)

    dy = rng.standard_normal(y.shape)
    gradients = backward(dy, cache)
    for letter, gradient in zip(inputs, gradients):
        read_ = reading.compute(letter, SIZES, values, upstream=dy)
        np.testing.assert_allclose(read_, gradient, rtol=1e-10, atol=1e-12, err_msg=letter)
