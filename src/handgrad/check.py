"""The witnesses that a backward is the derivative of its forward. Each raises; they share no mathematics.

    prove         SymPy: the shipped lines run on symbols; every entry of d⟨dy, y⟩/dx - dx is identically 0
    differences   central differences along a random direction, in float64 or with 50 digits
    autograd      torch differentiates the same forward

The upstream gradient is always random: with dy = 1 the true gradients of softmax and of LayerNorm are 0, and
a backward that returns zeros would pass. A failed check is an AssertionError that names the gradient.

`Proof`, `Differences` and `Autograd` are the same witnesses for many backwards of one forward: what does not
depend on the backward is found once, and each call costs little more than the backward itself.
"""

import math
from collections.abc import Callable
from contextlib import contextmanager
from typing import NamedTuple

import mpmath
import numpy as np
import optree
import sympy

from . import symbolic
from .algebra import described, is_shape
from .ops.table import NUMERIC_SIZES
from .symbolic import NotProved, shortened

TOLERANCE = {15: 1e-7, 50: 1e-28}
"""Relative, by digits. The step h = 10^(-digits/3) leaves an error of about h² from the third derivative and
10^(-digits)/h from rounding: 1e-10 at 15 digits, 1e-33 at 50; the tolerances leave room for curvature."""
AUTOGRAD_TOLERANCE = 1e-12
"""Relative, float64: two exact derivatives differ by rounding, about 1e-16 times the number of additions."""


class Pair(NamedTuple):
    """A forward and its backward, where there is no `Op`: a block, a model, an answer.

    >>> square = Pair(lambda x: (x * x, {"x": x}), lambda dy, cache: 2 * cache["x"] * dy)
    >>> rng = np.random.default_rng(0)
    >>> differences(square, rng, dict(x=rng.standard_normal((2, 3)))) < 1e-9
    True
    """

    forward: Callable
    backward: Callable


def prove(op, sizes=None):
    """Prove that op.backward is the derivative of op.forward, at these sizes, for all real inputs.

    sizes: of each letter, op.sizes if left out. The options named in op.exact are symbols too. Returns the
    number of identities that were proved; raises AssertionError with the name of the gradient, the entry and
    the difference otherwise. What no number refutes and SymPy does not decide raises `NotProved`, an
    AssertionError that says "not proved": such a backward may be right. For functions with a kink the
    statement holds away from the kink. TypeError for lines that compare symbols by < or >.

    >>> from handgrad.ops.table import OPS
    >>> prove(OPS["softmax"])  # 2 sequences of 2 rows of 3 entries
    12
    """
    return Proof(op, sizes)(op.backward)


def differences(op, rng, inputs=None, options=None, digits=15, sizes=None, tolerance=None):
    """Compare op.backward with central differences along one random direction for each input.

    op: an entry of OPS or a Pair. inputs: a dictionary of float64 arrays, nested if need be, and options: the
    other arguments; if they are left out, op draws every kind of them, from these sizes. digits: 15 (float64)
    or 50 (mpmath numbers through the same lines). Returns the worst relative error; raises AssertionError
    naming the gradient if it is above the tolerance, TypeError or ValueError naming an input that holds other
    numbers, or none. In float64 a kink may lie within a step of 1e-5, where
    differences are wrong and not the backward: one random draw in some hundreds for ReLU.

    >>> from handgrad.ops.table import OPS
    >>> differences(OPS["softmax"], np.random.default_rng(0), digits=50) < 1e-30
    True
    """
    return Differences(op, rng, inputs, options, digits, sizes, tolerance)(op.backward)


def autograd(op, rng, inputs=None, options=None, device="cpu", sizes=None, tolerance=AUTOGRAD_TOLERANCE):
    """Compare op.backward with torch.autograd through the same forward, entry by entry, in float64.

    Arguments as in `differences`, device: where torch computes. What op draws is followed by one draw of
    whole numbers: they meet the kinks, where torch takes the derivative 0 as we do. Returns the worst
    relative error (of the largest entry of each gradient); raises AssertionError naming the gradient if it is
    above the tolerance, ModuleNotFoundError without PyTorch.

    >>> from handgrad.ops.table import OPS
    >>> autograd(OPS["softmax"], np.random.default_rng(0)) < 1e-14
    True
    """
    return Autograd(op, rng, inputs, options, device, sizes, tolerance)(op.backward)


def module(function, *inputs, seed=0, batch=None, draws=None, device="cpu", tolerance=TOLERANCE[15]):
    """Compare the gradients of somebody's PyTorch code with central differences, however it may be used.

    function: a torch.nn.Module, a subclass of torch.autograd.Function, or a function of tensors. inputs: what
    it is called with. Of tensors, shape and kind count: it is differentiated by those that require a
    gradient, or else by all floating ones, and by the parameters of a module that do. These are drawn, in
    float64, three times: inputs normal, parameters around their values. The others stay as they are.

    batch: the names of the inputs whose first axis is the batch; if left out, those with a first axis as long
    as that of the first input, but no vectors of floats. A batch of 1 is tried, and one of more.
    draws: {name: function (rng, shape) -> array} for inputs that may not be any number.

    The gradient from above is random. The same backward must then give the same for inputs and gradients from
    above with gaps or transposed in memory, for expanded ones and zeros; where only some tensors require a
    gradient; a second time; after another forward; in float32, up to `modules.FLOAT32_TOLERANCE`. It may
    change nothing in place, and an input that changes after the forward must be refused, as that does which
    `ctx.save_for_backward` saves.

    Returns the worst relative error against differences. Raises AssertionError, the smallest case first, in
    at most ten lines that say gradient, case, expected, got and entry; ValueError for a forward that raises,
    or gives infinite or random numbers; TypeError for what is no function of tensors; ModuleNotFoundError
    without PyTorch.

    The forward is a black box: a wrong one passes with the right gradient of what it computes. Second
    derivatives are not asked for.

    >>> import torch
    >>> module(torch.nn.Linear(4, 3), torch.ones(5, 4)) < 1e-8
    True
    """
    from .modules import judged

    return judged(function, inputs, seed, batch, draws or {}, device, tolerance)


def measured(function, x, step=1e-5):
    """The derivative of a function of one array by each number of it, by central differences in float64.

    Of a number, it has the shape of x; of an array, the shape of that and then the shape of x.

    >>> measured(lambda x: (x**3).sum(), np.array([1.0, 2.0])).round(6)
    array([ 3., 12.])
    """
    steps = step * np.eye(x.size).reshape(-1, *x.shape)
    found = np.stack([function(x + one) - function(x - one) for one in steps], axis=-1) / (2 * step)
    return found.reshape(*found.shape[:-1], *x.shape)


class Proof:
    """All of `prove` that can be known before the backward. Called with one, it proves or refutes it.

    A wrong backward falls in milliseconds, with 50 digits at a random point; what agrees there is run on
    symbols. A backward that changes its cache in place would spoil the next call.

    >>> from handgrad.ops.table import OPS
    >>> proof = Proof(OPS["softmax"])
    >>> proof(lambda da, cache: 0 * da)
    Traceback (most recent call last):
    ...
    AssertionError: ds[0, 0, 0]: the derivative minus the code is not 0 but -0.124 at a random point
    """

    def __init__(self, op, sizes=None):
        rng = np.random.default_rng(0)
        sizes = sizes or op.sizes
        options = op.arguments(sizes, rng) | op.exact
        shapes, structure = optree.tree_flatten(op.shapes(sizes), is_leaf=is_shape)
        names = leaf_names(op.inputs)
        self.inputs = optree.tree_unflatten(structure, map(symbolic.symbols, names, shapes))
        with _without_order():
            y, self.cache = op.forward(**self.inputs, **options)
        y = np.asarray(y, dtype=object)
        self.dy = symbolic.symbols("dy", y.shape)
        terms = [(term, set(symbolic.parts(term))) for term in np.ravel(self.dy * y)]
        for unknown in _unknown_maxima(terms):
            zero = symbolic.is_zero(_derivative(terms, unknown))
            if zero is False:
                raise AssertionError(
                    f"y depends on {unknown}: on symbols, the maximum is an unknown number, for y that does "
                    "not change with it, as softmax; expected xp.where(xp.greater(x, 0), x, 0) for a kink"
                )
            if zero is None:
                raise NotProved(
                    f"not proved that y does not depend on {unknown}, as a shift of the exponents"
                )
        derivative = np.vectorize(lambda symbol: _derivative(terms, symbol), otypes=[object])
        self.wanted = [derivative(x) for _, x in _leaves(self.inputs)]
        with mpmath.workdps(50):
            self.point, at_point, self.dy_there, self.wanted_there = symbolic.random_values(
                (self.inputs, options, self.dy, self.wanted), rng
            )
            self.cache_there = op.forward(**self.point, **at_point)[1]

    def __call__(self, backward):
        """The number of identities proved; raises AssertionError as `prove` does."""
        with mpmath.workdps(50):
            gradients = backward(self.dy_there[()], self.cache_there)
            for entry, gap in _gaps(self.point, gradients, self.wanted_there):
                # a wrong backward may leave a complex number, or a root still to be taken
                number = gap if isinstance(gap, mpmath.mpf) else complex(gap)
                if not abs(number) <= 1e-30:
                    raise AssertionError(_refuted(entry, f"{mpmath.nstr(number, 3)} at a random point"))
        with _without_order():
            gradients = backward(self.dy[()], self.cache)
        undecided = []
        for entry, gap in _gaps(self.inputs, gradients, self.wanted):
            zero = symbolic.is_zero(gap)
            if zero is False:
                raise AssertionError(_refuted(entry, _shown(gap)))
            undecided += [] if zero else [(entry, gap)]
        if undecided:
            entry, gap = undecided[0]
            raise NotProved(
                f"{entry}: not proved. The derivative minus the code is 0 at random points, but "
                f"SymPy does not reduce it to 0: {shortened(gap)}"
            )
        return sum(wanted.size for wanted in self.wanted)


class Differences:
    """All of `differences` that can be known before the backward: the losses on both sides of each draw.

    Arguments as there. Called with a backward, it returns the worst relative error or raises AssertionError,
    at the price of one backward for each draw. A backward that changes its cache would spoil the next call.

    >>> from handgrad.ops.table import OPS
    >>> differences = Differences(OPS["softmax"], np.random.default_rng(0))
    >>> differences(OPS["softmax"].backward) < 1e-9
    True
    """

    def __init__(self, op, rng, inputs=None, options=None, digits=15, sizes=None, tolerance=None):
        self.digits = digits
        self.tolerance = TOLERANCE[digits] if tolerance is None else tolerance
        self.number, self.total = (np.asarray, _total) if digits == 15 else (_precise, mpmath.fsum)
        draws = op.draws(rng, sizes or NUMERIC_SIZES) if inputs is None else [(inputs, options or {})]
        _check_inputs(draws)
        with mpmath.workdps(digits + 5):
            self.draws = [self._measured(op.forward, rng, *draw) for draw in draws]

    def _measured(self, forward, rng, inputs, options):
        inputs = optree.tree_map(self.number, inputs)
        h = 10.0 ** (-self.digits / 3) if self.digits == 15 else mpmath.mpf(10) ** (-self.digits // 3)
        y, cache = forward(**inputs, **options)
        dy = self.number(rng.standard_normal(np.shape(y) or None))
        directions = [self.number(rng.standard_normal(x.shape)) for _, x in _leaves(inputs)]

        def loss(x, step):
            moved = optree.tree_map(lambda leaf: leaf + step if leaf is x else leaf, inputs)
            return self.total(np.ravel(dy * forward(**moved, **options)[0]))

        measured = [
            (loss(x, h * direction) - loss(x, -h * direction)) / (2 * h)
            for (_, x), direction in zip(_leaves(inputs), directions, strict=True)
        ]
        # a derivative that is smaller than this is 0 as far as differences of this loss can tell
        resolution = 1e-4 * float(self.total(np.ravel(np.abs(dy * y))))
        return inputs, dy[()], cache, directions, measured, resolution

    def __call__(self, backward):
        """The worst relative error; raises AssertionError as `differences` does."""
        with mpmath.workdps(self.digits + 5):
            errors = (error for draw in self.draws for error in self._errors(backward, *draw))
            return _worst(errors, self.tolerance, f"central differences with {self.digits} digits")

    def _errors(self, backward, inputs, dy, cache, directions, measured, resolution):
        rows = _gradients(inputs, backward(dy, cache))
        for (name, _, dx), direction, wanted in zip(rows, directions, measured, strict=True):
            terms = direction * dx
            claimed = self.total(terms.flat)
            size = float(np.sqrt(float(self.total((terms * terms).flat))))
            scale = max(size, abs(float(wanted)), resolution)
            yield name, float(abs(wanted - claimed)) / scale if scale else 0.0


class Autograd:
    """All of `autograd` that can be known before the backward: what torch finds for each draw.

    Arguments as there. Called with a backward, it returns the worst relative error or raises AssertionError,
    at the price of one backward for each draw. A backward that changes its cache would spoil the next call.

    >>> from handgrad.ops.table import OPS
    >>> autograd = Autograd(OPS["softmax"], np.random.default_rng(0))
    >>> autograd(OPS["softmax"].backward) < 1e-9
    True
    """

    def __init__(
        self, op, rng, inputs=None, options=None, device="cpu", sizes=None, tolerance=AUTOGRAD_TOLERANCE
    ):
        self.tolerance = tolerance
        if inputs is None:
            sizes = sizes or NUMERIC_SIZES
            whole, its_options = op.draw(sizes, rng)
            whole = optree.tree_map(np.round, whole)
            draws = [*op.draws(rng, sizes), (whole, its_options)]
        else:
            draws = [(inputs, options or {})]
        _check_inputs(draws)
        self.draws = [self._differentiated(op.forward, rng, device, *draw) for draw in draws]

    def _differentiated(self, forward, rng, device, inputs, options):
        import torch

        inputs = optree.tree_map(lambda x: torch.tensor(x, device=device, requires_grad=True), inputs)
        options = {
            name: torch.tensor(value, device=device) if isinstance(value, np.ndarray) else value
            for name, value in options.items()
        }
        y, cache = forward(**inputs, **options)
        dy = torch.tensor(rng.standard_normal(tuple(y.shape)), device=device)
        wanted = torch.autograd.grad(y, [x for _, x in _leaves(inputs)], dy, materialize_grads=True)
        return inputs, dy, cache, wanted

    def __call__(self, backward):
        """The worst relative error; raises AssertionError as `autograd` does."""
        import torch

        with torch.no_grad():
            errors = (error for draw in self.draws for error in self._errors(backward, *draw))
            return _worst(errors, self.tolerance, "torch.autograd")

    def _errors(self, backward, inputs, dy, cache, wanted):
        largest = max(float(want.abs().max()) for want in wanted)
        for (name, _, dx), want in zip(_gradients(inputs, backward(dy, cache)), wanted, strict=True):
            # a gradient that is 0 by symmetry is rounding noise: compare it at the scale of its neighbours
            scale = max(float(want.abs().max()), 1e-2 * largest)
            if dx.dtype != want.dtype:
                raise AssertionError(f"d{name}: expected numbers of type {want.dtype}, got {dx.dtype}")
            yield name, float((dx - want).abs().max()) / scale if scale else float(dx.abs().max())


def _worst(errors, tolerance, against):
    """The worst of the relative errors (name of the gradient, error); AssertionError above the tolerance."""
    worst = 0.0
    for name, error in errors:
        if not error <= tolerance:  # written so that NaN fails
            said = f"relative error {error:.1e} against {against}, tolerance {tolerance:.0e}"
            raise AssertionError(f"d{name}: {said}")
        worst = max(worst, error)
    return worst


def _check_inputs(draws):
    """Refuse an input for which a right backward would be blamed: other numbers than float64, or none."""
    for name, x in (row for inputs, _ in draws for row in _leaves(inputs)):
        if not isinstance(x, np.ndarray | np.float64) or x.dtype != np.float64:
            raise TypeError(f"{name}: expected an array of float64, got {described(x)}")
        if not x.size:
            raise ValueError(f"{name}: expected at least one number, got shape {x.shape}")


def _derivative(terms, symbol):
    """The derivative of a sum by a symbol, given its terms, each with the set of its parts."""
    return sympy.Add(*(sympy.diff(term, symbol) for term, parts in terms if symbol in parts))


def _unknown_maxima(terms):
    """The symbols that stand for the maximum of a slice."""
    parts = set().union(*(parts for _, parts in terms))
    return sorted((p for p in parts if p.is_Symbol and p.name.startswith("max")), key=str)


@contextmanager
def _without_order():
    """Symbols have no order: where Python asks for one, the error says how a comparison is written."""
    try:
        yield
    except TypeError as error:
        if "truth value of Relational" not in str(error):
            raise
        raise TypeError(
            "the proof runs these lines on symbols, which are not larger or smaller than others: expected "
            f"xp.where(xp.greater(x, 0), ...) of xp = namespace(x), got a comparison such as x > 0 ({error})"
        ) from error


def _shown(gap):
    """A short expression as it is; of a long one, the value at a random point where it is not 0."""
    if len(str(gap)) < 200:
        return gap
    rng = np.random.default_rng(0)
    values = [symbolic.random_values(gap, rng) for _ in range(33)]
    return f"{mpmath.nstr(max(values, key=abs), 3)} at a random point"


def _refuted(entry, gap):
    return f"{entry}: the derivative minus the code is not 0 but {gap}"


def _gaps(inputs, gradients, wanted):
    """The entries of the gradients by name, each with what is wanted there minus what the backward gave."""
    for (name, _, dx), want in zip(_gradients(inputs, gradients), wanted, strict=True):
        for i in np.ndindex(want.shape):
            yield f"d{name}{list(i)}", want[i] - dx[i]


def _gradients(inputs, gradients):
    """[(name, x, dx)] for every array of the inputs, after a check that the gradients have their shapes."""
    if not isinstance(gradients, tuple):
        gradients = (gradients,)
    if len(gradients) != len(inputs):
        raise AssertionError(f"expected {len(inputs)} gradients, got {len(gradients)}")
    for (name, x), dx in zip(inputs.items(), gradients, strict=True):
        expected, got = optree.tree_structure(x), optree.tree_structure(dx)
        if expected != got:
            raise AssertionError(f"d{name}: expected the tree {expected}, got {got}")
    leaves = [leaf for dx in gradients for leaf in optree.tree_leaves(dx)]
    rows = [(name, x, dx) for (name, x), dx in zip(_leaves(inputs), leaves, strict=True)]
    for name, x, dx in rows:
        got = tuple(getattr(dx, "shape", ()))  # a single number has none
        if tuple(x.shape) != got:
            raise AssertionError(f"d{name}: expected shape {tuple(x.shape)}, got {got}")
    return rows


def _leaves(inputs):
    """[(name, x)] for every array of the inputs, in the order in which a backward returns their gradients."""
    return [row for name, x in inputs.items() for row in zip(leaf_names({name: x}), optree.tree_leaves(x))]


def leaf_names(tree, is_leaf=None):
    """A name for each leaf: its path, joined by dots, without a leading "params"."""
    names = []
    for path in optree.tree_paths(tree, is_leaf=is_leaf):
        path = path[1:] if path[0] == "params" and len(path) > 1 else path
        names.append(".".join(map(str, path)))
    return names


def _total(terms):
    """The sum, rounded once; no number if a term is infinite, so that what is asked of it fails."""
    terms = np.asarray([*terms])
    return math.fsum(terms) if np.isfinite(terms).all() else math.nan


def _precise(x):
    """A float64 array, exactly, as mpmath numbers."""
    return np.vectorize(lambda e: mpmath.mpf(float(e)), otypes=[object])(x)
