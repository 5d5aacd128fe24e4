"""The chain closes: what the page prints, computed by its reader, is what the shipped functions return."""

from pathlib import Path

import numpy as np
import pytest

from handgrad import ops
from handgrad.page import read
from handgrad.page.algebras import draw

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CASES = {}


def case(notebook, *printed, inputs, **settings):
    """The function below as a case: of the values of the letters it makes y, and the backward of dy."""

    def kept(shipped):
        CASES[shipped.__name__] = notebook, printed, inputs, settings, shipped
        return shipped

    return kept


@case("03_linear_and_embedding", "eq-linear", inputs="x w b", letters="x (B, T, D); w (D, F); b (F)")
def linear(v):
    y, cache = ops.linear(v["x"], v["w"], v["b"])
    return y, lambda dy: ops.linear_backward(dy, cache)


@case(
    "03_linear_and_embedding",
    "o_{tv}",
    "eq-lookup",
    inputs="e",
    letters="e (V, D); a (T) < V; lambda",
)
def embedding(v):
    y, cache = ops.embedding(v["a"], v["e"], float(v["lambda"]))
    return y, lambda dy: [ops.embedding_backward(dy, cache)]


@case("02_softmax_cross_entropy", "eq-softmax", inputs="z", letters="z (B, T, V)")
def softmax(v):
    y, cache = ops.softmax(v["z"])
    return y, lambda dy: [ops.softmax_backward(dy, cache)]


@case(
    "02_softmax_cross_entropy",
    *["eq-softmax", "eq-cross-entropy", "eq-mean-loss"],
    inputs="z",
    letters="z (T, V); q (T, V) distribution; b (T) in {0, 1}",
    loss="L",
)
def cross_entropy(v):
    v["q"][:] = np.eye(v["q"].shape[1])[np.arange(len(v["q"])) % 2]  # a label for each token
    v["b"][:2] = 1
    targets = np.where(v["b"] == 1, v["q"].argmax(axis=1), -100)
    loss, cache = ops.cross_entropy(v["z"], targets)
    return loss, lambda dloss: [ops.cross_entropy_backward(1.0, cache)]


@case(
    "04_feed_forward",
    *[r"\mathrm{relu}(x)", r"\phi(x) = \mathrm{relu}(x)", "eq-feed-forward"],
    inputs="x w_1 b_1 w_2 b_2",
    letters="x (B, T, D); w_1 (D, F); b_1 (F); w_2 (F, D); b_2 (D)",
)
def feed_forward(v):
    params = {name.upper().replace("B", "b"): v[name] for name in ("w_1", "b_1", "w_2", "b_2")}
    y, cache = ops.feed_forward(v["x"], params)

    def backward(dy):
        dx, grads = ops.feed_forward_backward(dy, cache)
        return [dx, *(grads[name] for name in params)]

    return y, backward


@case(
    "04_feed_forward",
    *[r"\mathrm{relu}(x)", r"\phi(x) = \mathrm{relu}(x)", "eq-feed-forward-gated"],
    inputs="x w_gate w_up w_down",
    letters="x (B, T, D); w_gate, w_up (D, F); w_down (F, D)",
)
def gated_feed_forward(v):
    params = {"W" + name: v["w" + name] for name in ("_gate", "_up", "_down")}
    y, cache = ops.gated_feed_forward(v["x"], params, activation="relu")

    def backward(dy):
        dx, grads = ops.gated_feed_forward_backward(dy, cache)
        return [dx, *(grads[name] for name in params)]

    return y, backward


@case(
    "05_normalization",
    "eq-layer-norm",
    inputs="x gamma beta",
    letters="x (B, T, D); gamma, beta (D); epsilon > 0",
    columns=True,
)
def layer_norm(v):
    y, cache = ops.layer_norm(v["x"], v["gamma"], v["beta"], eps=float(v["epsilon"]))
    return y, lambda dy: ops.layer_norm_backward(dy, cache)


@case(
    "05_normalization",
    "eq-rms-norm",
    inputs="x gamma",
    letters="x (B, T, D); gamma (D); epsilon > 0",
    columns=True,
)
def rms_norm(v):
    y, cache = ops.rms_norm(v["x"], v["gamma"], eps=float(v["epsilon"]))
    return y, lambda dy: ops.rms_norm_backward(dy, cache)


@case("07_positions", "eq-positions-added", inputs="x p", letters="x (B, T, D); p (T, D)")
def add_positions(v):
    y, cache = ops.add_positions(v["x"], v["p"])
    return y, lambda dy: ops.add_positions_backward(dy, cache)


@case("07_positions", "eq-positions-rotary", inputs="x", letters="x, y (T, 2I); theta (T, I)")
def rotary(v):
    y, cache = ops.rotary(v["x"].reshape(len(v["x"]), -1), v["theta"])
    return y.reshape(v["x"].shape), lambda dy: [
        ops.rotary_backward(dy.reshape(y.shape), cache).reshape(dy.shape)
    ]


@case(
    "08_attention",
    *[r"u_{ts} = \mathbf{q}_t \cdot \mathbf{k}_s / \sqrt{K}", "w_{ts} = b_{ts} e^{u_{ts}}"],
    *[r"z_t = \sum_r w_{tr}", "a_{ts} = w_{ts} / z_t", "eq-attention-output"],
    inputs="q k v",
    letters="q (T, K); k (S, K); v (S, E); b (T, S) in {0, 1}; m",
)
def attention(v):
    v["b"][:, 0] = 1  # a key for each query
    y, cache = ops.attention(v["q"], v["k"], v["v"], v["b"] == 1)
    return y, lambda dy: ops.attention_backward(dy, cache)


@case(
    "10_multi_head",
    *["eq-multi-head-head", "eq-multi-head-output"],
    inputs="x x' w_Q w_K w_V w_O",
    letters="Z (T, HK)",
)
def multi_head(v):
    v["m"][:] = 0
    params = {"W_" + n: v["w_" + n].reshape(len(v["w_" + n]), -1) for n in "QKV"}
    params["W_O"] = v["w_O"].reshape(-1, v["w_O"].shape[-1])
    y, cache = ops.multi_head(v["x"][None], v["x'"][None], params, H=v["w_Q"].shape[1])

    def backward(dy):
        dx, dmemory, grads = ops.multi_head_backward(dy[None], cache)
        return [dx, dmemory, *(grads[name] for name in params)]

    return y[0], backward


@case("14_stable_training", "eq-drop", inputs="x", letters="x (D); b (D) in {0, 1}; p in (0, 1)")
def dropout(v):
    y, cache = ops.dropout(v["x"], v["b"] == 1, float(v["p"]))
    return y, lambda dy: [ops.dropout_backward(dy, cache)]


@pytest.mark.parametrize("name", CASES)
def test_the_printed_forward_and_its_gradients_are_the_shipped_ones(name):
    notebook, printed, inputs, settings, shipped = CASES[name]
    given = read(NOTEBOOKS / f"{notebook}.ipynb").given(*printed, **settings)
    rng = np.random.default_rng(7)
    sizes, values = draw(given.reading, rng)
    y, backward = shipped(values)
    output = given.reading.loss or given.reading.output
    np.testing.assert_allclose(given.compute(output, sizes, values).reshape(np.shape(y)), y, rtol=1e-12)

    dy = rng.standard_normal(np.shape(y))
    for letter, gradient in zip(inputs.split(), backward(dy), strict=True):
        read_ = given.compute(letter, sizes, values, upstream=dy).reshape(gradient.shape)
        np.testing.assert_allclose(read_, gradient, rtol=1e-10, atol=1e-13, err_msg=letter)
