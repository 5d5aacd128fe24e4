"""Each compiled loop beside the lines that it stands for, under edits of itself, and at its door."""

import ast
import inspect
import pickle
import subprocess
import sys
import textwrap

import mpmath
import numpy as np
import optree
import pytest
from checked_loops import PLAIN, POINTS, PROBLEMS, compiled, edited, plain
from numba import njit

from handgrad.fast import loops
from handgrad.fast.loops import of_kind

TYPES = [np.float64, np.float32]
ALL = {f"{problem.name}, {problem.what}": problem for problem in PROBLEMS}
ROUNDINGS = {np.float64: 40, np.float32: 12}
"""How many a loop may lose, of the largest number of an array: a few operations on sums of few terms. In
float32 also what NumPy loses in float64 for the truth, which is nothing."""


def compare(got, wanted, tolerance):
    for a, b in zip(optree.tree_leaves(got), optree.tree_leaves(wanted), strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.abs(a - b).max() <= tolerance * np.abs(b).max()  # written so that NaN fails


@pytest.mark.parametrize("number", TYPES)
@pytest.mark.parametrize("name", ALL)
def test_each_loop_computes_its_lines(name, number):
    problem = ALL[name]
    run = (plain(number) | compiled(number))[problem.name]  # what only loops call is plain
    compare(problem.solve(run, number), problem.wanted(), ROUNDINGS[number] * np.finfo(number).eps)


def test_what_up_receives_is_thinned_by_dropout_too():
    """Wrong where `up` and `keep` come together, and only there: no Config asks for both."""
    for name in ("relu", "silu"):
        right = PLAIN[f"{name}: active_backward"]
        wrong = edited(right, ("up[i, j] = dup", "up[i, j] = dy * x * g"))
        refuting = []
        for problem in (p for p in PROBLEMS if p.name == f"{name}: active_backward"):
            try:
                compare(problem.solve(wrong, np.float64), problem.wanted(), 1e-13)
            except AssertionError:
                refuting.append(problem.what)
        assert refuting == ["up keep"]


def test_every_loop_has_a_problem():
    assert {problem.name for problem in PROBLEMS} == set(PLAIN)


@pytest.mark.parametrize("number", TYPES)
def test_exp_loses_less_than_one_rounding(number):
    """Beside 50 digits; exactly 0 far below, infinite or huge above, no number of none."""
    limits = (-86.9, 87.9) if number is np.float32 else (-707, 708)
    points = np.concatenate([np.random.default_rng(0).uniform(*limits, 2000), POINTS]).astype(number)
    exp = of_kind(number).exp
    for run in (exp, njit(lambda x: exp(x))):  # as Python, and as a loop has it
        with mpmath.workdps(50):
            errors = [abs(float(run(x) / mpmath.exp(mpmath.mpf(float(x))) - 1)) for x in points]
        assert max(errors) <= np.finfo(number).eps
        assert run(number(-1000)) == 0 and run(number(0)) == 1
        with np.errstate(invalid="ignore"):
            assert run(number(-np.inf)) == 0 and np.isnan(run(number(np.nan)))


@pytest.mark.parametrize("number", TYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_finite_number_is_not_hidden(number, bad):
    """It reaches the loss, or the array: a training that fails has to say so."""
    z, x = np.ones((2, 21), number), np.ones((3, 20), number)
    z[1, 17] = bad
    run, targets, weights = of_kind(number), np.array([0, 1 if bad == np.inf else 17]), np.ones(2, number)
    assert not np.isfinite(run.cross_entropy(z, targets, weights, number(0)))
    x[1, 7] = bad
    y, r = np.empty_like(x), np.empty(3, number)
    run.normalize(x, np.ones(20, number), np.ones(20, number), np.empty_like(x), r, y, number(1e-5))
    assert not np.isfinite(y[1]).any() and np.isfinite(y[[0, 2]]).all()
    if bad != -np.inf:  # which is a score that is hidden
        s = np.ones((1, 1, 2, 19), number)
        s[0, 0, 1, 11] = bad
        run.softmax(s, None, -1, number(1))
        assert not np.isfinite(s[0, 0, 1]).all() and np.isfinite(s[0, 0, 0]).all()
    for forward, _ in run.activations.values():
        h = np.ones((1, 20), number)
        h[0, 7] = np.nan
        a = np.zeros_like(h)
        forward(h, a, None, None, None, number(1))
        assert np.isnan(a[0, 7]) and np.isfinite(np.delete(a[0], 7)).all()


@pytest.mark.parametrize("number", TYPES)
def test_a_door_refuses_what_does_not_fit(number):
    run, x, b = of_kind(number), np.ones((4, 6), number), np.ones(6, number)
    wide, angles, table = np.ones((3, 4), number), np.ones((3, 3), number), np.ones((4, 4), number)
    other = np.float64 if number is np.float32 else np.float32
    ones, fixed = np.ones(3, number), x.copy()
    fixed.flags.writeable = False
    kinds = f"y: expected {np.dtype(number)} in one piece, got {np.dtype(other)}"
    bad = [
        (TypeError, kinds, lambda: run.scale_shift(x, b, None, x.astype(other))),
        (TypeError, "x_hat: expected .* with gaps", lambda: run.scale_shift(x[:, ::2], b, None, x)),
        (TypeError, "x_hat: expected .* with gaps", lambda: run.scale_shift(x.T, b, None, x)),
        (ValueError, r"y: expected shape \(4, 6\), got \(3, 6\)", lambda: run.scale_shift(x, b, None, x[:3])),
        (ValueError, r"gamma: expected shape \(6\), got \(5,\)", lambda: run.scale_shift(x, b[:5], None, x)),
        (ValueError, r"gamma: expected shape \(6\), got \(4, 6\)", lambda: run.scale_shift(x, x, None, x)),
        (
            TypeError,
            "gamma: expected an array of NumPy, got list",
            lambda: run.scale_shift(x, [1.0], None, x),
        ),
        (ValueError, "y: expected an array to write to", lambda: run.scale_shift(x, b, None, fixed)),
        (
            TypeError,
            "keep: expected bool in one piece, got int64",
            lambda: run.dropped_sum(x, x, np.ones((4, 6), int), x, 1.0),
        ),
        (ValueError, "y: expected a width that the heads", lambda: run.turn(wide, angles, angles)),
    ]
    for index in (np.array([0, -1, 1]), np.array([0, 4, 1])):  # nor is a number written in the rows before
        bad += [
            (IndexError, "targets: expected logits", lambda i=index: run.cross_entropy(wide, i, ones, 0.0)),
            (IndexError, "index: expected rows", lambda i=index: run.scatter_add(i, wide, table)),
        ]
    for error, message, call in bad:
        with pytest.raises(error, match=message):
            call()
    assert (x == 1).all() and (wide == 1).all() and (table == 1).all()
    run.scale_shift(x, b, None, x)
    run.scale_shift(fixed, b, None, x)  # which is only read


def test_each_loop_tells_what_it_writes_to():
    """What its lines assign to, and no other argument."""
    views, told = {"softmax": "s", "cross_entropy": "z"}, {}
    for name, door in compiled(np.float64).items():
        wanted = inspect.getclosurevars(door).nonlocals.get("wanted", ())
        told[name] = {argument for argument, *_, writes in wanted if writes}
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(door))))
        stored = [n for n in ast.walk(tree) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
        names = {views.get(name) if n.value.id == "row" else n.value.id for n in stored}
        assert names & {argument for argument, *_ in wanted} == told[name], name
    assert [name for name, written in told.items() if not written] == ["exp"]  # of one number


@pytest.mark.parametrize("number", TYPES)
def test_gelu_of_huge_numbers_is_that_of_ops(number):
    huge = number(1e37 if number is np.float32 else 1e300)
    h = np.array([[huge, -huge, 100, -100]], number)
    a = np.empty_like(h)
    of_kind(number).activations["gelu_tanh"][0](h, a, None, None, None, number(1))
    assert np.array_equal(a, [[huge, 0, 100, 0]])


def test_there_are_loops_for_two_types():
    for kind in (np.float16, int, complex):
        with pytest.raises(TypeError, match="dtype: expected float32 or float64, got "):
            of_kind(kind)
    assert of_kind(float) is of_kind(np.dtype("f8")) is not of_kind(np.float32)


def test_a_damaged_cache_is_named(monkeypatch):
    class Damaged:
        class stats:
            cache_path = "/some/folder"

        def __init__(self, error):
            self.error = error

        def __call__(self, *given):
            raise self.error

    for error in (EOFError("Ran out of input"), pickle.UnpicklingError("invalid load key")):
        monkeypatch.setattr(loops, "njit", lambda f, error=error, **_: Damaged(error))
        with pytest.raises(
            RuntimeError, match="numba's cache: .* damaged file .* remove the folder /some/folder"
        ):
            loops.loop(np.float32, "", x="n")(lambda x: None)(np.ones(3, np.float32))


def test_a_number_of_python_becomes_one_of_the_arrays_own_type(monkeypatch):
    """Else all of the loop would be computed in 64 bits: numba would compile it anew for such an argument."""
    seen = []
    monkeypatch.setattr(loops, "njit", lambda f, **_: lambda *given: seen.extend(map(type, given)))
    loops.loop(np.float32, "", x="n")(lambda x, scale: None)(np.ones(3, np.float32), 0.5)
    assert seen == [np.ndarray, np.float32]


KEPT = """
import numpy as np
from handgrad.fast.loops import of_kind
from handgrad.fast import loops
import inspect
for name in ("relu", "silu"):
    door, _ = of_kind(np.float32).activations[name]
    x = np.ones((2, 3), np.float32)
    door(x, x.copy(), None, None, None, 1.0)
    stats = inspect.getclosurevars(door).nonlocals["run"].stats
    print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def test_what_was_compiled_is_kept_on_disk():
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "0"] * 2


def test_without_a_folder_to_keep_it_in_a_loop_is_compiled_all_the_same(monkeypatch):
    monkeypatch.setattr("numba.core.caching.CompileResultCacheImpl._locator_classes", [])
    twice = loops.kept(lambda x: 2 * x)
    assert twice(3) == 6
