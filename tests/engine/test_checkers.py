"""The witnesses on trial: each must refute every wrong gradient, and name one that is wrong."""

import numpy as np
import optree
import pytest

from handgrad import check, symbolic
from handgrad.ops.table import NUMERIC_SIZES, OPS
from handgrad.wrong import wrong_gradients

SMALL = NUMERIC_SIZES | dict(B=2, T=3, S=4, D=4, E=3, F=4, M=4, K=2)

WITNESSES = {
    "prove": lambda op, rng: check.Proof(op),
    "differences": check.Differences,
    "differences50": lambda op, rng: check.Differences(op, rng, digits=50, sizes=SMALL),
    "autograd": check.Autograd,
}

# The gradient of the bias of the keys is 0, since softmax does not feel a shift: 2 · 0 is not wrong.
ZERO_BY_SYMMETRY = {"only db_K is zero", "only db_K is 1.001 times too large"}


def wrong_names(op, wrong_op, sizes):
    """The gradients in which the wrong backward differs from the right one, and whether any does."""
    rng = np.random.default_rng(3)
    inputs, options = op.draw(sizes, rng)
    y, cache = op.forward(**inputs, **options)
    dy = rng.standard_normal(np.shape(y) or None)
    right = check._gradients(inputs, op.backward(dy, cache))
    wrong = check._gradients(inputs, wrong_op.backward(dy, cache))
    largest = max(np.abs(g).max() for _, _, g in right)
    return {
        name
        for (name, _, a), (_, _, b) in zip(right, wrong, strict=True)
        if np.abs(a - b).max() > 1e-9 * largest
    }


def listed():
    return [(name, what) for name in OPS for what in wrong_gradients(name) if what not in ZERO_BY_SYMMETRY]


@pytest.mark.parametrize("name", OPS)
def test_there_are_enough_wrong_gradients(name):
    assert len([what for n, what in listed() if n == name]) >= 12


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("name", OPS)
def test_each_witness_refutes_each_wrong_gradient_by_name(witness, name):
    op = OPS[name]
    refute = WITNESSES[witness](op, np.random.default_rng(5))
    for what, wrong in wrong_gradients(name).items():
        if what in ZERO_BY_SYMMETRY:
            continue
        names = wrong_names(op, wrong, NUMERIC_SIZES)
        assert names, f"{name}, {what}: not wrong at all"
        with pytest.raises(AssertionError) as refuted:
            refute(wrong.backward)
            pytest.fail(f"{witness} accepts {name}: {what}", pytrace=False)
        said = str(refuted.value)
        assert said.startswith(tuple(f"d{n}" for n in names)), f"{name}, {what}: {witness} says {said}"
    refute(op.backward)  # the wrong ones have left nothing behind


def test_a_witness_refutes_a_missing_gradient_and_a_wrong_shape():
    op = OPS["linear"]
    for backward, said in [
        (lambda dy, cache: op.backward(dy, cache)[:2], "expected 3 gradients, got 2"),
        (lambda dy, cache: (*op.backward(dy, cache)[:2], dy), "db: expected shape"),
        (lambda dy, cache: (op.backward(dy, cache)[0].T, *op.backward(dy, cache)[1:]), "dx: expected shape"),
    ]:
        with pytest.raises(AssertionError, match=said):
            check.differences(
                check.Pair(op.forward, backward),
                np.random.default_rng(0),
                *op.draw(NUMERIC_SIZES, np.random.default_rng(0)),
            )


def test_a_witness_refutes_nan():
    op = OPS["softmax"]
    nan = check.Pair(op.forward, lambda da, cache: op.backward(da, cache) * np.nan)
    with pytest.raises(AssertionError, match="ds: relative error nan"):
        check.differences(nan, np.random.default_rng(0), *op.draw(NUMERIC_SIZES, np.random.default_rng(0)))


@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_with_an_upstream_of_ones_zero_would_pass(name):
    """Why the witnesses draw dy: with ones the true dx is 0, and a backward of zeros is right."""
    op = OPS[name]
    rng = np.random.default_rng(0)
    inputs, options = op.draw(NUMERIC_SIZES, rng)
    if name == "layer_norm":
        inputs["gamma"] = np.ones_like(inputs["gamma"])
    y, cache = op.forward(**inputs, **options)
    dx = optree.tree_leaves(op.backward(np.ones_like(y), cache))[0]
    assert np.abs(dx).max() < 1e-14
    assert np.abs(optree.tree_leaves(op.backward(rng.standard_normal(y.shape), cache))[0]).max() > 1e-2


def test_zero_is_decided_exactly():
    import sympy

    x, y = sympy.symbols("x y", real=True)
    zero = [
        sympy.exp(x) * sympy.exp(-x) - 1,
        1 / (1 + 1 / x) - x / (x + 1),
        sympy.sqrt(x**2 + 1) ** 3 - (x**2 + 1) * sympy.sqrt(x**2 + 1),
        1 / sympy.sqrt(1 + sympy.exp(x)) - sympy.sqrt(1 + sympy.exp(x)) / (1 + sympy.exp(x)),
        sympy.sin(x) ** 2 + sympy.cos(x) ** 2 - 1,
        sympy.exp((-x - y) * (x + y) / 2) - sympy.exp(-((x + y) ** 2) / 2),
        sympy.exp((x - y) * (x + y)) * sympy.exp(y**2 - x**2) - 1,
    ]
    other = [
        sympy.exp(x + y) - sympy.exp(x) - sympy.exp(y),
        sympy.exp(sympy.erf(x)) - sympy.erf(x),
        1 / (1 + 1 / x) - x / (x + 2),
        sympy.sqrt(x**2 + 1) - 1,
        sympy.exp((x + y) ** 2 / 2) - sympy.exp(-((x + y) ** 2) / 2),
        sympy.exp(x) * 1e-12,
        sympy.sqrt(x) - x,
        sympy.Integer(1),
    ]
    assert all(symbolic.is_zero(e) for e in zero)
    assert not any(symbolic.is_zero(e) for e in other)
