"""Each piece of the fast step beside the operation it stands for, and under the wrong gradients of that."""

import numpy as np
import optree
import pytest
import torch

from handgrad import check
from handgrad.check import leaf_names
from handgrad.config import Config
from handgrad.fast import kernels
from handgrad.fast import step as fast_step
from handgrad.fast.memory import Arena
from handgrad.mutants import wrong_backwards
from handgrad.ops.table import NUMERIC_SIZES, OPS
from handgrad.wrong import stories


def rows(x):
    return x.reshape(-1, x.shape[-1])


def linear(dy, arena, x, W, b):
    y = kernels.linear(rows(x), W, b, arena.empty(len(rows(x)), W.shape[1]))
    dx, dW, db = arena.like(rows(x)), arena.zeros_like(W), arena.zeros_like(b)
    kernels.linear_backward(rows(dy), rows(x), W, dx, dW, db, arena)
    return y, (dx, dW, db)


def normalization(dy, arena, x, **params):
    y, cache = fast_step.normalize(rows(x), params, 1e-5, arena, out=arena.like(rows(x)))
    dparams = {name: arena.zeros_like(param) for name, param in params.items()}
    return y, (fast_step.normalize_backward(arena.copy(rows(dy)), cache, dparams, arena), *dparams.values())


def activation(name):
    def step(dy, arena, x):
        y, slope = fast_step.active(rows(x), None, name, None, 0, arena), arena.copy(rows(x))
        again = fast_step.active_again(slope, name, None, 0, arena)
        assert bool((y == again).all())
        slope *= rows(dy)
        return y, (slope,)

    return step


def softmax(dy, arena, s):
    e, ds = arena.copy(s), arena.copy(dy)
    factor = kernels.exponentials(e, arena.empty(*s.shape[:-1], 1), False)
    y = e if factor is None else e * factor
    if factor is not None:
        ds *= factor
    kernels.softmax_backward(ds, e, factor)
    return y, (ds,)


def cross_entropy(dy, arena, z, targets, label_smoothing):
    counted = targets != -100
    weights = arena.empty(*counted.shape)
    weights[...] = counted
    weights /= counted.sum()
    dz, weights = arena.copy(rows(z)), weights.reshape(-1)
    loss = kernels.cross_entropy(dz, (targets * counted).reshape(-1), weights, label_smoothing, arena)
    return np.asarray(loss), (dz * dy,)


def embedding(dy, arena, E, tokens, scale):
    y = kernels.take(E, tokens.reshape(-1), arena.empty(tokens.shape[0] * tokens.shape[1], E.shape[1]))
    return y * scale, (kernels.scatter_add(tokens.reshape(-1), rows(dy) * scale, arena.zeros_like(E)),)


def rotary(dy, arena, x, angles):
    cos, sin = np.cos(np.asarray(angles)), np.sin(np.asarray(angles))
    if not isinstance(x, np.ndarray):
        cos, sin = torch.asarray(cos, dtype=x.dtype), torch.asarray(sin, dtype=x.dtype)
    y, dx = arena.copy(x), arena.copy(dy)
    kernels.turn(y, cos, sin)
    kernels.turn(dx, cos, -sin)
    return y, (dx,)


def feed_forward(dy, arena, x, params, activation="swiglu", keep=None, p=0.0):
    F = params.get("W_1", params.get("W_gate")).shape[1]
    config = Config("decoder", V=2, D=x.shape[-1], H=1, N=1, F=F, activation=activation, p=p)
    y, keep = arena.like(rows(x)), keep if keep is None else rows(keep)
    cache = fast_step.feed_forward(rows(x), params, config, keep, y, arena)
    dparams = optree.tree_map(arena.zeros_like, params)
    return y, (fast_step.feed_forward_backward(rows(dy), rows(x), cache, dparams, arena), dparams)


PIECES = {
    "linear": linear,
    "layer_norm": normalization,
    "rms_norm": normalization,
    **{name: activation(name) for name in kernels.ACTIVATIONS},
    "softmax": softmax,
    "cross_entropy": cross_entropy,
    "embedding": embedding,
    "rotary": rotary,
    "feed_forward": feed_forward,
    "gated_feed_forward": feed_forward,
}


def both(name, library, dtype):
    """The gradients of a piece, and the operation with its cache and upstream gradient, in float64."""
    op, rng = OPS[name], np.random.default_rng(1)
    inputs, options = op.draw(NUMERIC_SIZES | {"B": 4, "T": 9}, rng)
    inputs = optree.tree_map(lambda x: x.astype(dtype), inputs)
    y, cache = op.forward(**optree.tree_map(lambda x: x.astype(np.float64), inputs), **options)
    dy = rng.standard_normal(np.shape(y)).astype(dtype)

    def to(x):
        return torch.from_numpy(x) if library == "torch" and isinstance(x, np.ndarray) else x

    arena = Arena(block=20, queries=4)
    arena.reset(to(np.empty(1, dtype)))
    given = optree.tree_map(to, inputs) | {key: to(value) for key, value in options.items()}
    result = PIECES[name](to(dy) if dy.shape else float(dy), arena, **given)
    got_y, got = optree.tree_map(lambda x: np.asarray(x, np.float64), result)
    assert np.abs(got_y.reshape(np.shape(y)) - y).max() <= tolerance(dtype) * np.abs(y).max()
    return op, cache, dy.astype(np.float64)[()], inputs, got


def tolerance(dtype):
    """A piece is a few operations on sums of few terms: in float32 it loses less than six roundings."""
    return 1e-12 if dtype is np.float64 else 6 * 2.0**-23


def compare(inputs, got, wanted, tolerance):
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for leaf, a, b in zip(
        leaf_names(inputs), optree.tree_leaves(got), optree.tree_leaves(wanted), strict=True
    ):
        assert a.size == np.size(b) and np.isfinite(b).all(), leaf
        assert np.abs(a - np.reshape(b, a.shape)).max() <= tolerance * np.abs(b).max(), leaf


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("name", PIECES)
def test_each_piece_is_its_operation(name, library, dtype):
    op, cache, dy, inputs, got = both(name, library, dtype)
    compare(inputs, got, op.backward(dy, cache), tolerance(dtype))


def test_a_constant_with_five_digits_is_refuted_in_single_precision(monkeypatch):
    """1/√(2π) to five digits is off by 6e-6, which float32 resolves."""
    gate, _ = kernels.ACTIVATIONS["gelu"]

    def five_digits(x, gate, a):
        x[...] = gate + x * np.exp(-x * x / 2) * x.dtype.type(0.39894)

    monkeypatch.setitem(kernels.ACTIVATIONS, "gelu", (gate, five_digits))
    op, cache, dy, inputs, got = both("gelu", "numpy", np.float32)
    compare(inputs, got, op.backward(dy, cache), 1e-5)
    with pytest.raises(AssertionError):
        compare(inputs, got, op.backward(dy, cache), tolerance(np.float32))


@pytest.mark.parametrize("name", PIECES)
def test_each_piece_refutes_the_wrong_gradients_of_its_operation(name):
    """What the other witnesses must refute, the comparison refutes too."""
    op, cache, dy, inputs, got = both(name, "numpy", np.float64)
    wrong = {mutant.place: mutant.backward for mutant in wrong_backwards(op) if not mutant.same}
    assert len(wrong) >= 12
    right, felt = check._gradients(inputs, op.backward(dy, cache)), 0
    for what, backward in (wrong | {story: other.backward for story, other in stories(name).items()}).items():
        try:
            given = check._gradients(inputs, backward(dy, cache))
        except AssertionError:
            continue  # it raises, or gives other shapes, on this kind of input
        if all(np.abs(a - b).max() <= 1e-4 * np.abs(b).max() for (_, _, a), (_, _, b) in zip(given, right)):
            continue  # another kind of input would tell, or a constant is off by less than is compared
        felt += 1
        with pytest.raises(AssertionError):
            compare(inputs, got, backward(dy, cache), 1e-5)
            pytest.fail(f"{name}: {what} is accepted", pytrace=False)
    assert felt >= 0.6 * len(wrong)
