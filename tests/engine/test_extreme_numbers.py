"""Numbers and settings at the edge: what is refused names itself, what is right stays right."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

import handgrad
from handgrad import check, decode, ops, optim, train
from handgrad.check import Pair
from handgrad.config import Config
from handgrad.fast import update

ROOT = Path(handgrad.__file__).parent


def test_no_verdict_is_an_assert():
    """Python leaves those out where it is asked to, by -O."""
    for file in ROOT.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        left_out = (
            n for n in ast.walk(tree) if isinstance(n, ast.Assert) or vars(n).get("id") == "__debug__"
        )
        assert not [n.lineno for n in left_out], file


@pytest.mark.parametrize(
    ("kind", "size"),
    [(np.float32, 1e20), (np.float32, 1e-25), (np.float64, 1e200), (np.float64, 1e-200), (np.float64, 1.0)],
)
def test_a_gradient_is_clipped_whatever_its_size(kind, size):
    g = {"a": np.full(64, size, kind), "b": np.full((6, 6), size, kind)}
    clipped, norm = optim.clip_by_global_norm(g, 10 * size / 2, eps=1e-300)
    np.testing.assert_allclose(norm, 10 * size, rtol=1e-6)
    np.testing.assert_allclose(clipped["b"], size / 2, rtol=1e-6)
    assert clipped["a"].dtype == kind


@pytest.mark.parametrize("size", [1e20, 1e-25])
def test_the_fast_update_measures_the_same_norm(size):
    p, g = np.ones(100, np.float32), np.full(100, size, np.float32)
    state = {"step": 0, "m": np.zeros_like(p), "v": np.zeros_like(p)}
    norm = update.adamw_in_place(p, g, state, 0.01, max_norm=1.0)
    np.testing.assert_allclose(norm, 10 * size, rtol=1e-6)
    assert np.isfinite(p).all()


def test_the_nucleus_of_everything_leaves_out_nothing():
    rng = np.random.default_rng(0)
    for logits in (np.array([[0.0, -40.0]]), rng.standard_normal((500, 96)).astype(np.float32) * 5):
        assert np.isfinite(decode.nucleus(logits, 1.0)).all()
    assert np.isfinite(decode.nucleus(np.array([[0.0, -40.0]]), 0.999)).tolist() == [[True, False]]


@pytest.mark.parametrize(
    "half", [np.zeros((2, 70_000), np.float16), torch.zeros((2, 5), dtype=torch.bfloat16)]
)
def test_numbers_of_16_bits_are_refused(half):
    with pytest.raises(TypeError, match="expected arrays of float32 or float64, got .*float16"):
        ops.softmax(half)
    with pytest.raises(TypeError, match="dtype: expected float32 or float64, got .*float16"):
        train.start(Config(kind="decoder", V=5, D=4, H=1, F=8, N=1), 0, dtype=np.float16)


SQUARE = Pair(lambda x: (x * x, {"x": x}), lambda dy, cache: 2 * cache["x"] * dy)


@pytest.mark.parametrize("witness", [check.differences, check.autograd])
@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.ones(3, np.float32), "x: expected an array of float64, got ndarray of float32"),
        (0.5, "x: expected an array of float64, got float"),
        (np.ones((0, 3)), "x: expected at least one number, got shape"),
    ],
)
def test_a_witness_blames_the_input_and_not_the_backward(witness, x, said):
    with pytest.raises((TypeError, ValueError), match=said):
        witness(SQUARE, np.random.default_rng(0), dict(x=x))
