"""What symbols offer under a name of the array standard is what the others do under it."""

import array_api_strict
import mpmath
import numpy as np
import pytest
from array_api_compat import numpy as in_numpy
from array_api_compat import torch as in_torch
from sympy import sympify
from sympy.logic.boolalg import Boolean

from handgrad import check, symbolic
from handgrad.algebra import namespace
from handgrad.ops.table import Op

X = np.random.default_rng(0).uniform(0.1, 2, (2, 3)) * np.array([[1, -1, 1], [-1, 1, 1]])
Y = np.random.default_rng(1).standard_normal((2, 3))
POSITIVE = ("log", "sqrt")
PLACES = np.array([[2, 0], [1, 1]])
OF_ONE = "abs asarray cos exp expm1 isfinite log ones_like sign sin sqrt square tanh tril triu zeros_like"
OF_TWO = "greater greater_equal less less_equal maximum minimum"
ALONG_AN_AXIS = "cumulative_sum diff expand_dims flip max mean sum"
CALLS = {
    **{name: lambda xp, x, y, name=name: getattr(xp, name)(x) for name in OF_ONE.split()},
    **{name: lambda xp, x, y, name=name: getattr(xp, name)(x, y) for name in OF_TWO.split()},
    **{name: lambda xp, x, y, name=name: getattr(xp, name)(x, axis=1) for name in ALONG_AN_AXIS.split()},
    "all": lambda xp, x, y: xp.all(xp.asarray([[True, False], [True, True]]), axis=1),
    "any": lambda xp, x, y: xp.any(xp.asarray([[True, False], [False, False]]), axis=1),
    "arange": lambda xp, x, y: xp.arange(5),
    "astype": lambda xp, x, y: xp.astype(xp.asarray([True, False]), xp.int64),
    "broadcast_to": lambda xp, x, y: xp.broadcast_to(x, (4, 2, 3)),
    "clip": lambda xp, x, y: xp.clip(x, -0.5, 0.7),
    "concat": lambda xp, x, y: xp.concat([x, y], axis=1),
    "full_like": lambda xp, x, y: xp.full_like(x, 2),
    "log1p": lambda xp, x, y: xp.log1p(x * x),
    "min": lambda xp, x, y: xp.min(xp.arange(5)),
    "moveaxis": lambda xp, x, y: xp.moveaxis(x, 0, 1),
    "permute_dims": lambda xp, x, y: xp.permute_dims(x, (1, 0)),
    "prod": lambda xp, x, y: xp.prod(x, axis=0),
    "repeat": lambda xp, x, y: xp.repeat(x, 2, axis=1),
    "reshape": lambda xp, x, y: xp.reshape(x, (3, 2)),
    "roll": lambda xp, x, y: xp.roll(x, 1, axis=1),
    "squeeze": lambda xp, x, y: xp.squeeze(xp.expand_dims(x, axis=0), axis=0),
    "stack": lambda xp, x, y: xp.stack([x, y], axis=1),
    "take": lambda xp, x, y: xp.take(x, xp.asarray([2, 0, 2]), axis=1),
    "take_along_axis": lambda xp, x, y: xp.take_along_axis(x, xp.asarray(PLACES), axis=1),
    "tile": lambda xp, x, y: xp.tile(x, (2, 1)),
    "where": lambda xp, x, y: xp.where(xp.greater(x, y), x, y * y),
}


def test_every_name_is_called():
    everywhere = symbolic, in_numpy, in_torch
    shared = {name for name in dir(symbolic) if all(callable(getattr(xp, name, None)) for xp in everywhere)}
    assert shared == CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_the_same_in_every_algebra(name):
    call, x = CALLS[name], abs(X) if name in POSITIVE else X
    wanted = call(in_numpy, x, Y)

    def the_same(got):
        got = np.asarray(got)
        assert got.shape == np.shape(wanted)
        np.testing.assert_allclose(got.astype(float), np.asarray(wanted, dtype=float), rtol=1e-14)

    for xp in (in_torch, array_api_strict):
        the_same(call(xp, xp.asarray(x), xp.asarray(Y)))
    exact = np.vectorize(mpmath.mpf, otypes=[object])
    the_same(call(symbolic, exact(x), exact(Y)))
    if name != "max":  # of symbols an unknown number
        letters = [symbolic.symbols(letter, x.shape) for letter in "xy"]
        values = dict(zip(np.ravel(letters), np.ravel([x, Y])))
        got = np.asarray(call(symbolic, *letters), dtype=object)
        number = lambda e: bool(e) if isinstance(e, Boolean) else e  # noqa: E731
        the_same(np.vectorize(lambda e: number(sympify(e).subs(values)), otypes=[object])(got))


KINKED = {  # y, and its slope, with the words of a backward
    "abs": (lambda x, xp: xp.abs(x), lambda x, xp: xp.sign(x)),
    "sign": (lambda x, xp: xp.sign(x) * x * x, lambda x, xp: 2 * xp.abs(x)),
    "maximum": (lambda x, xp: xp.maximum(x, x * x), lambda x, xp: xp.where(xp.greater(x, x * x), 1, 2 * x)),
    "minimum": (lambda x, xp: xp.minimum(2 * x, x), lambda x, xp: xp.where(xp.greater(x, 0), 1, 2)),
    "clip": (
        lambda x, xp: xp.clip(x, -1, 1),
        lambda x, xp: xp.where(xp.greater_equal(x, -1), xp.where(xp.less_equal(x, 1), 1, 0), 0),
    ),
    "where": (
        lambda x, xp: xp.where(xp.less(x, 1), x * x, x),
        lambda x, xp: xp.where(xp.less(x, 1), 2 * x, 1),
    ),
    "log1p": (lambda x, xp: xp.log1p(xp.square(x)), lambda x, xp: 2 * x / (1 + x * x)),
    "expm1": (lambda x, xp: xp.expm1(x), lambda x, xp: xp.exp(x)),
    "cumulative_sum": (lambda x, xp: xp.cumulative_sum(x, axis=-1), None),
}


def kinked(name, factor=1):
    line, slope = KINKED[name]

    def backward(dy, cache):
        xp = namespace(dy)
        if slope is None:
            return factor * xp.flip(xp.cumulative_sum(xp.flip(dy, axis=-1), axis=-1), axis=-1)
        return factor * dy * slope(cache["x"], xp)

    return Op(
        lambda x: (line(x, namespace(x)), {"x": x}),
        backward,
        inputs=dict(x="... D"),
        sizes=dict(T=1, D=3),
        leading=("T",),
    )


@pytest.mark.parametrize("name", KINKED)
def test_a_layer_of_it_is_proved_and_a_wrong_backward_refuted(name):
    rng = np.random.default_rng(2)
    assert check.prove(kinked(name)) == 3
    assert check.differences(kinked(name), rng, digits=50) < 1e-28
    assert check.autograd(kinked(name), rng, inputs=dict(x=X), options={}) < 1e-12
    with pytest.raises(AssertionError, match="^dx"):
        check.prove(kinked(name, factor=2))


@pytest.mark.parametrize("name, words", [("sigmoid", r"1 / \(1 \+ xp.exp\(-x\)\)"), ("hypot", "what dir")])
def test_what_symbols_lack_is_said_with_what_to_write(name, words):
    with pytest.raises(AttributeError, match=f"symbols have no {name}: write {words}"):
        getattr(symbolic, name)
