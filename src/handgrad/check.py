"""The witnesses that a backward is the derivative of its forward. Each raises; they share no mathematics.

    prove         SymPy: the shipped lines run on symbols; every entry of d⟨dy, y⟩/dx - dx is identically 0
    differences   central differences along a random direction, in float64 or with 50 digits
    autograd      torch differentiates the same forward

The upstream gradient is always random: with dy = 1 the true gradients of softmax and of LayerNorm are 0, and
a backward that returns zeros would pass. A failed check is an AssertionError that names the gradient.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import mpmath
import numpy as np
import optree
import sympy

from . import symbolic
from .algebra import is_shape
from .ops.table import NUMERIC_SIZES

TOLERANCE = {15: 1e-7, 50: 1e-28}
"""Relative, by digits. The step h = 10^(-digits/3) leaves an error of about h² from the third derivative and
10^(-digits)/h from rounding: 1e-10 at 15 digits, 1e-33 at 50; the tolerances leave room for curvature."""
AUTOGRAD_TOLERANCE = 1e-12
"""Relative, float64: two exact derivatives differ by rounding, about 1e-16 times the number of additions."""


class Pair(NamedTuple):
    """A forward and its backward, where there is no entry of OPS: a block, a model, an answer."""

    forward: Callable
    backward: Callable


def prove(op):
    """Prove that op.backward is the derivative of op.forward, at op.sizes, for all real inputs.

    The options named in op.exact are symbols too. Returns the number of identities that were proved; raises
    AssertionError with the name of the gradient, the entry and the difference otherwise. For functions with a
    kink the statement holds away from the kink.
    """
    rng = np.random.default_rng(0)
    shapes = op.shapes(op.sizes)
    options = op.options(op.sizes, rng) | op.exact
    names = leaf_names(shapes, is_leaf=is_shape)
    inputs = optree.tree_unflatten(
        optree.tree_structure(shapes, is_leaf=is_shape),
        [
            symbolic.symbols(name, shape)
            for name, shape in zip(names, optree.tree_leaves(shapes, is_leaf=is_shape), strict=True)
        ],
    )
    y, cache = op.forward(**inputs, **options)
    y = np.asarray(y, dtype=object)
    dy = symbolic.symbols("dy", y.shape)
    loss = np.sum(dy * y)
    for unknown in sorted(_unknown_maxima(loss), key=str):
        assert symbolic.is_zero(sympy.diff(loss, unknown)), (
            f"y depends on {unknown}, which only shifts the exponents"
        )
    proved = 0
    for name, x, dx in _gradients(inputs, op.backward(_unwrap(dy), cache)):
        for i in np.ndindex(x.shape):
            gap = sympy.diff(loss, x[i]) - dx[i]
            assert symbolic.is_zero(gap), (
                f"d{name}{list(i)}: the derivative minus the code is not 0 but {_shown(gap)}"
            )
            proved += 1
    return proved


def differences(op, rng, inputs=None, options=None, digits=15, sizes=None, tolerance=None):
    """Compare op.backward with central differences along one random direction for each input.

    op: an entry of OPS or a Pair. inputs: a dictionary of float64 arrays, nested if need be, and options: the
    other arguments; both are drawn from op if left out. digits: 15 (float64) or 50 (mpmath numbers through
    the same lines). Returns the worst relative error; raises AssertionError naming the gradient if it is
    above the tolerance.
    """
    if inputs is None:
        inputs, options = op.draw(sizes or NUMERIC_SIZES, rng)
    tolerance = TOLERANCE[digits] if tolerance is None else tolerance
    compare = partial(_differences, op, rng, inputs, options or {}, digits=digits, tolerance=tolerance)
    if digits == 15:
        return compare(number=np.asarray, total=math.fsum)
    with mpmath.workdps(digits + 5):
        return compare(number=_precise, total=mpmath.fsum)


def _differences(op, rng, inputs, options, *, number, total, digits, tolerance):
    inputs = optree.tree_map(number, inputs)
    h = 10.0 ** (-digits / 3) if digits == 15 else mpmath.mpf(10) ** (-digits // 3)
    y, cache = op.forward(**inputs, **options)
    dy = number(rng.standard_normal(np.shape(y) or None))
    # a derivative that is smaller than this is 0 as far as differences of this loss can tell
    resolution = 1e-4 * float(total(np.ravel(np.abs(dy * y))))
    worst = 0.0
    for name, x, dx in _gradients(inputs, op.backward(_unwrap(dy), cache)):
        direction = number(rng.standard_normal(x.shape))

        def loss(t, x=x, direction=direction):
            moved = optree.tree_map(lambda leaf: leaf + t * direction if leaf is x else leaf, inputs)
            return total(np.ravel(dy * op.forward(**moved, **options)[0]))

        measured = (loss(h) - loss(-h)) / (2 * h)
        terms = direction * dx
        claimed = total(terms.flat)
        scale = max(float(np.sqrt(float(total((terms * terms).flat)))), abs(float(measured)), resolution)
        error = float(abs(measured - claimed)) / scale if scale else 0.0
        assert error <= tolerance, (  # written so that NaN fails
            f"d{name}: relative error {error:.1e} against central differences with {digits} digits, "
            f"tolerance {tolerance:.0e}"
        )
        worst = max(worst, error)
    return worst


def autograd(op, rng, inputs=None, options=None, device="cpu", sizes=None, tolerance=AUTOGRAD_TOLERANCE):
    """Compare op.backward with torch.autograd through the same forward, entry by entry, in float64.

    Arguments as in `differences`, device: where torch computes. Returns the worst relative error (of the
    largest entry of each gradient); raises AssertionError naming the gradient if it is above the tolerance.
    """
    import torch

    if inputs is None:
        inputs, options = op.draw(sizes or NUMERIC_SIZES, rng)
    inputs = optree.tree_map(lambda x: torch.tensor(x, device=device, requires_grad=True), inputs)
    options = {
        name: torch.tensor(value, device=device) if isinstance(value, np.ndarray) else value
        for name, value in (options or {}).items()
    }
    y, cache = op.forward(**inputs, **options)
    dy = torch.tensor(rng.standard_normal(tuple(y.shape)), device=device)
    with torch.no_grad():
        gradients = _gradients(inputs, op.backward(dy, cache))
    wanted = torch.autograd.grad(y, [x for _, x, _ in gradients], dy, materialize_grads=True)
    largest = max(float(want.abs().max()) for want in wanted)
    worst = 0.0
    for (name, _, dx), want in zip(gradients, wanted, strict=True):
        # a gradient that is 0 by symmetry is rounding noise: it is compared at the scale of its neighbours
        scale = max(float(want.abs().max()), 1e-2 * largest)
        error = float((dx - want).abs().max()) / scale if scale else float(dx.abs().max())
        assert error <= tolerance, (
            f"d{name}: relative error {error:.1e} against torch.autograd, tolerance {tolerance:.0e}"
        )
        worst = max(worst, error)
    return worst


def _shown(gap):
    """A short expression as it is; of a long one, the value at a random point."""
    if len(str(gap)) < 200:
        return gap
    return f"{symbolic.random_value(gap, np.random.default_rng(0)).n(3)} at a random point"


def _gradients(inputs, gradients):
    """[(name, x, dx)] for every array of the inputs, after a check that the gradients have their shapes."""
    if not isinstance(gradients, tuple):
        gradients = (gradients,)
    assert len(gradients) == len(inputs), f"expected {len(inputs)} gradients, got {len(gradients)}"
    rows = []
    for (name, x), dx in zip(inputs.items(), gradients, strict=True):
        expected, got = optree.tree_structure(x), optree.tree_structure(dx)
        assert expected == got, f"d{name}: expected the tree {expected}, got {got}"
        for leaf, a, da in zip(
            leaf_names({name: x}), optree.tree_leaves(x), optree.tree_leaves(dx), strict=True
        ):
            assert tuple(a.shape) == tuple(da.shape), (
                f"d{leaf}: expected shape {tuple(a.shape)}, got {tuple(da.shape)}"
            )
            rows.append((leaf, a, da))
    return rows


def leaf_names(tree, is_leaf=None):
    """A name for each leaf: its path, joined by dots, without a leading "params"."""
    names = []
    for path in optree.tree_paths(tree, is_leaf=is_leaf):
        path = path[1:] if path[0] == "params" and len(path) > 1 else path
        names.append(".".join(map(str, path)))
    return names


def _unwrap(dy):
    return dy[()] if dy.shape == () else dy


def _unknown_maxima(expression):
    return {s for s in expression.free_symbols if s.name.startswith("max")}


def _precise(x):
    """A float64 array, exactly, as mpmath numbers."""
    return np.vectorize(lambda e: mpmath.mpf(float(e)), otypes=[object])(x)
