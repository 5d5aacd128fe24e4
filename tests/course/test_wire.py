"""What crosses over from a learner's process: it means the same there, and nothing of it runs."""

import base64
import inspect
import json

import numpy as np
import pytest
import sympy

from handgrad.course import judge, wire
from handgrad.course.judge import Derivation
from handgrad.course.judge.attempt import Failure

FORMULAS = [
    exercise.reference
    for exercises in judge.chapters().values()
    for exercise in exercises.values()
    if isinstance(exercise, Derivation)
]


def crossed(value):
    return wire.decode(json.loads(json.dumps(wire.encode(value))))


class Mine(np.ndarray):
    pass


@pytest.mark.parametrize(
    "value",
    [None, ..., 1, 2.5, -0.0, np.inf, 1 + 2j, "text", "\ud800", (1, [2.0, None]), True, ()],
    ids=ascii,
)
def test_plain_values_arrive_as_they_are(value):
    assert repr(crossed(value)) == repr(value)


def test_signatures_and_failures_arrive_as_they_are():
    signature = inspect.signature(lambda a, /, b, *c, d=1, **e: 0)
    assert str(crossed(signature)) == "(a, /, b, *c, d=None, **e)"
    assert crossed(Failure("It raises.", "ValueError")) == Failure("It raises.", "ValueError")


@pytest.mark.parametrize("dtype", "? i1 u8 f2 f4 f8 c16 >f8".split())
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 3), (3, 0)])
def test_arrays_arrive_as_they_are(dtype, shape):
    array = np.random.default_rng(0).normal(size=shape).astype(dtype)
    for there in (array, array.view(Mine), np.asfortranarray(array)):
        found = crossed(there)
        assert type(found) is np.ndarray and found.dtype == array.dtype and found.flags.writeable
        np.testing.assert_array_equal(found, np.asarray(there), strict=True)


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_right_formula_arrives(formula):
    assert crossed(formula) == formula


def test_formulas_of_other_kinds_arrive():
    x, n = sympy.symbols("x n", positive=True)
    y, k = sympy.Symbol("x"), sympy.Symbol("k")
    for there, here in [
        (x**0.1, y ** sympy.Float(0.1)),
        (sympy.Float("0." + "123" * 20, 60), sympy.Float("0." + "123" * 20, 60)),
        (sympy.Sum(x**k, (k, 0, n)), sympy.Sum(y**k, (k, 0, sympy.Symbol("n")))),
        (sympy.Piecewise((1, x > 2), (sympy.pi, True)), sympy.Piecewise((1, y > 2), (sympy.pi, True))),
        (sympy.oo * sympy.I + sympy.E, sympy.oo * sympy.I + sympy.E),
    ]:
        assert crossed(there) == here
    array = crossed(np.array([[x, 1], [None, 2.5]]))
    assert array.shape == (2, 2) and array[0, 0] == y and array[1, 0] is None


class Strange:
    def __array__(self, *_, **__):
        raise SystemError("no")


def test_of_all_else_the_name_of_its_type_arrives():
    loop = []
    loop.append(loop)
    x = sympy.Symbol("x")
    for value in ({1: 2}, Strange(), b"b", sympy.Matrix([x]), sympy.Function("f")(x), 2**64, np, len):
        found = crossed(value)
        assert type(found).__name__ == type(value).__name__ and not callable(found)
    assert json.dumps(wire.encode(loop)).count("list") > 5
    with pytest.raises(wire.TooLong):
        wire.encode([1, np.zeros((5000, 5000))])


NUMBERS = base64.b64encode(bytes(16)).decode()
HOSTILE = [
    [1, 2],
    {},
    {"pickle": "gASVAAAA"},
    {"tuple": 3},
    {"list": {"list": []}},
    {"array": ["|O", [2], NUMBERS]},
    {"array": ["<f8", [3], NUMBERS]},
    {"array": ["<f8", [-1], NUMBERS]},
    {"array": ["<f8", [True, 2], NUMBERS]},
    {"array": ["<f8", [2.0], NUMBERS]},
    {"array": ["<f8", [0, 10**12], ""]},
    {"array": ["<f8,<f8", [1], NUMBERS]},
    {"array": ["<M8[s]", [2], NUMBERS]},
    {"array": ["<f8", [2], "*" + NUMBERS]},
    {"objects": [[10**12, 0], []]},
    {"objects": [[2], [{"array": ["|O", [], ""]}, 1]]},
    {"formula": "x"},
    {"formula": ["Symbol", ["x"]]},
    {"formula": ["Add", "open('pwned', 'w')"]},
    {"formula": ["exp", "open('pwned', 'w')"]},
    {"formula": ["Rational", "open('pwned', 'w')", "1"]},
    {"formula": ["Float", "open('pwned', 'w')", 53]},
    {"formula": ["Float", "1", 10**12]},
    {"formula": ["Float", "1", -1]},
    {"formula": ["lambdify", ["Symbol", "x"]]},
    {"formula": ["Function", ["Symbol", "x"]]},
    {"formula": ["sympify", ["Symbol", "x"]]},
    {"formula": ["__class__"]},
    {"signature": [["a b", 1, False]]},
    {"signature": [["a", 9, False]]},
    {"signature": [["a"]]},
    {"failure": ["text", "kind", 1]},
    {"stranger": 1},
    {"complex": ["1", 2.0]},
]


@pytest.mark.parametrize("said", HOSTILE, ids=repr)
def test_what_nobody_writes_is_refused_and_does_nothing(said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError)):
        wire.decode(said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["tuple", "list"])
def test_depth_is_limited(kind):
    said = 1
    for _ in range(wire.DEPTH + 3):
        said = {kind: [said]}
    with pytest.raises(ValueError, match="depth"):
        wire.decode(said)
