"""What each compiled loop should do, from the lines of `ops` that it stands for: problems with their answers.

A problem calls the loop as it is given, compiled or plain. What a loop is as plain Python is in PLAIN, where
an edited one can take its place.
"""

import functools
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from handgrad import ops, optim
from handgrad.algebra import scatter_add
from handgrad.fast.loops import of_kind
from handgrad.mistakes.mutations import Program
from handgrad.ops.activations import ACTIVATIONS

n, F, H, T, S, V = 3, 5, 2, 4, 6, 7


@dataclass(frozen=True)
class Problem:
    """solve(loop, number) computes what should be `wanted`: a tree of arrays; number: float32 or float64."""

    name: str  # of the loop
    what: str
    solve: Callable
    wanted: Callable
    tolerance: float = 1e-13  # in float64, of the largest number of each array


def compiled(dtype):
    """{name: loop}, and what only loops call, by the names that problems use."""
    loops = vars(of_kind(dtype)).copy()
    for name, (forward, backward) in loops.pop("activations").items():
        loops |= {f"{name}: active": forward, f"{name}: active_backward": backward}
    del loops["number"]
    return loops


def inner(loop):
    """The names that a plain loop sees around it."""
    return inspect.getclosurevars(loop).nonlocals


def plain(dtype):
    """{name: loop} as Python, with the functions that they call."""
    loops = {name: inspect.unwrap(f) for name, f in compiled(dtype).items()}
    loops["largest"] = inner(loops["softmax"])["largest"]
    for name in ACTIVATIONS:
        parts = inner(loops[f"{name}: active_backward"])
        loops |= {f"{name}: gate": parts["gate"], f"{name}: slope": parts["slope"]}
    return loops


def edited(loop, *changes):
    """A plain loop with other words in its source."""
    source = textwrap.dedent(inspect.getsource(loop))
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return Program(source, loop.__globals__ | inner(loop)).function()


PLAIN = plain(np.float64)
RNG = np.random.default_rng(16)


def draw(*shape):
    """Random numbers that float32 can hold."""
    return RNG.standard_normal(shape).astype(np.float32).astype(np.float64)


def to(number, *arrays):
    """Copies of the arrays in that type; Booleans, integers and None stay."""
    return [x.astype(number) if isinstance(x, np.ndarray) and x.dtype == float else x for x in arrays]


# Functions of one number

POINTS = np.concatenate([np.linspace(-30, 30, 41), [0.0, 1e-9, -1e-9, -80.5, 80.5, -86.9], draw(20)])


def activation_problems(name):
    forward, backward = ACTIVATIONS[name]
    h, b, up, da, keep = draw(n, F), draw(F), draw(n, F), draw(n, F), RNG.random((n, F)) > 0.4
    h[0, :3] = 0, 9, -9
    points = np.array([x for x in POINTS if 0 < abs(x) < 20])

    def gates():
        return forward(points)[0] / points

    def slopes(f, number):
        return np.array([f(x, gate) for x, gate in zip(*to(number, points, gates()))])

    def computed(f, number):
        with np.errstate(over="ignore"):  # of an exponential, whose reciprocal is 0
            return np.array([f(x) for x in points.astype(number)])

    yield Problem(f"{name}: gate", "", computed, gates)
    if name == "relu":
        yield Problem(f"{name}: gate", "at the kink", lambda f, number: f(number(0)), lambda: np.float64(0))
    if name == "gelu_tanh":  # beyond what its cube can be
        far = {np.float64: -1e300, np.float32: -1e37}

        def beyond(f, number):
            with np.errstate(over="ignore"):  # of the cube
                return f(number(far[number]))

        yield Problem(f"{name}: gate", "far", beyond, lambda: np.float64(0))
    yield Problem(f"{name}: slope", "", slopes, lambda: backward(np.ones_like(points), forward(points)[1]))
    for given in ("", "b", "up", "keep", "up keep", "b up keep"):
        own_b, own_up, own_keep = (
            x if key in given.split() else None for key, x in (("b", b), ("up", up), ("keep", keep))
        )
        factor = (1 if own_up is None else own_up) * (1 if own_keep is None else own_keep / 0.75)

        def active(f, number, own=(own_b, own_up, own_keep)):
            x, a, b, up, keep = *to(number, h, np.full_like(h, np.nan)), *to(number, *own)
            f(x, a, b, up, keep, number(1 / 0.75))
            return x, a

        def wanted(own_b=own_b, factor=factor):
            x = h if own_b is None else h + own_b
            return x, forward(x)[0] * factor

        def active_backward(f, number, own=(own_up, own_keep)):
            x, dh, up, keep = *to(number, h, da), *to(number, *own)
            f(x, dh, up, keep, number(1 / 0.75))
            return x, dh, [] if up is None else [up]

        def wanted_backward(factor=factor, own_up=own_up, own_keep=own_keep):
            a, cache = forward(h)
            thinned = da if own_keep is None else da * own_keep / 0.75
            return a * factor, backward(da * factor, cache), [] if own_up is None else [thinned * a]

        yield Problem(f"{name}: active", given, active, wanted)
        if "b" not in given.split():
            yield Problem(f"{name}: active_backward", given, active_backward, wanted_backward)


def norm_problems():
    x, dy, gamma, beta, into = draw(n, F), draw(n, F), draw(F), draw(F), draw(n, F)
    start = draw(2, F)
    for what, params in (("β", (gamma, beta)), ("no β", (gamma, None))):
        operation = ops.layer_norm if params[1] is not None else ops.rms_norm
        back = ops.layer_norm_backward if params[1] is not None else ops.rms_norm_backward
        own = [p for p in params if p is not None]

        def forward(operation=operation, own=own):
            y, cache = operation(x, *own, eps=0.1)
            return cache["x_hat"], cache.get("inverse_std", cache.get("inverse_rms"))[:, 0], y

        def normalize(f, number, params=params, in_place=False):
            own_x, x_hat, *own = to(number, x, np.full_like(x, np.nan), *params)
            r, y = np.empty(n, number), own_x if in_place else np.empty_like(own_x)
            f(own_x, *own, x_hat, r, y, number(0.1))
            return x_hat, r, y

        def backward(f, number, params=params, forward=forward, add=False):
            x_hat, r, _ = to(number, *forward())
            own_dy, own_into, gamma, dgamma, dbeta = to(number, dy, into, params[0], *start)
            dx = own_into if add else own_dy
            f(own_dy, x_hat, r, gamma, dgamma, None if params[1] is None else dbeta, dx, add)
            return dx, dgamma, [] if params[1] is None else [dbeta]

        def wanted(operation=operation, back=back, own=own, add=False):
            dx, *dparams = back(dy, operation(x, *own, eps=0.1)[1])
            dgamma, *dbeta = (s + d for s, d in zip(start, dparams))
            return dx + (into if add else 0), dgamma, dbeta

        def scale_shift(f, number, params=params):
            x_hat, *own = to(number, x, *params)
            y = np.empty_like(x_hat)
            f(x_hat, *own, y)
            return y

        in_place = functools.partial(normalize, in_place=True)
        yield Problem("normalize", what, normalize, forward)
        yield Problem("normalize", f"{what}, in place", in_place, forward)
        yield Problem("normalize_backward", what, backward, wanted)
        yield Problem(
            "normalize_backward",
            f"{what}, added",
            functools.partial(backward, add=True),
            functools.partial(wanted, add=True),
        )
        yield Problem(
            "scale_shift", what, scale_shift, lambda p=params: x * p[0] + (0 if p[1] is None else p[1])
        )


def sum_problems():
    x, y, keep = draw(n, F), draw(n, F), RNG.random((n, F)) > 0.4
    for what, own_x, own_keep in (("", x, keep), ("no x", None, keep), ("no keep", x, None)):

        def dropped_sum(f, number, own_x=own_x, own_keep=own_keep):
            one, two = to(number, own_x, y)
            f(one, two, own_keep, two, number(1 / 0.75))
            return two

        def wanted(own_x=own_x, own_keep=own_keep):
            return (0 if own_x is None else own_x) + (y if own_keep is None else y * own_keep / 0.75)

        yield Problem("dropped_sum", what, dropped_sum, wanted)


def softmax_problems():
    s, a, da = 3 * draw(n, H, T, S), np.abs(draw(n, S)), draw(n, S)
    s[0, 0], s[1, 1] = 3000 * s[0, 0], -9000.0 + s[1, 1]
    s = s.astype(np.float32).astype(np.float64)
    hidden = RNG.random((n, S)) > 0.5
    hidden[1], hidden[2] = True, False
    for what, own_hidden, before in (
        ("", None, -1),
        ("causal", None, S - T),
        ("padded", hidden, -1),
        ("both", hidden, S - T),
        ("first", None, 0),
    ):

        def softmax(f, number, own_hidden=own_hidden, before=before):
            (own,) = to(number, s)
            f(own, own_hidden, before, number(0.3))
            return own

        def wanted(own_hidden=own_hidden, before=before):
            masked = 0.3 * (s - s.max(axis=-1, keepdims=True))
            if own_hidden is not None:
                masked = np.where(own_hidden[:, None, None, :], -np.inf, masked)
            if before >= 0:
                masked = np.where(np.tri(T, S, before, dtype=bool), masked, -np.inf)
            return ops.softmax(masked)[0]

        yield Problem("softmax", what, softmax, wanted)

    def back(f, number):
        own_a, ds = to(number, a, da)
        f(ds, own_a, number(0.3))
        return ds, own_a

    yield Problem("softmax_backward", "", back, lambda: (0.3 * ops.softmax_backward(da, {"a": a}), a))
    rows = [np.roll(np.sort(draw(length)), place) for length in range(1, 11) for place in range(length)]
    rows += [draw(12) for _ in range(40)] + [np.full(3, -np.inf), np.array([-np.inf, 2, -5, 1, 0])]
    yield Problem(
        "largest",
        "",
        lambda f, number: np.exp([f(row.astype(number)) for row in rows]),
        lambda: np.exp([row.max() for row in rows]),
    )


def refused(f, *arguments):
    """1 if f says that these do not fit, before it writes beside an array, else 0."""
    try:
        f(*arguments)
    except (IndexError, ValueError) as error:
        return float("expected" in str(error))
    return 0.0


def other_problems():
    y, angles = draw(2 * T, 12), draw(T, 3)

    def turn(f, number):
        own, cos, sin = to(number, y, np.cos(angles), np.sin(angles))
        f(own, cos, sin)
        return own

    def turned():
        return ops.rotary(y.reshape(2, T, 2, 6).swapaxes(1, 2), angles)[0].swapaxes(1, 2).reshape(2 * T, 12)

    def narrow(f, number):
        widths = [refused(f, *to(number, draw(T, width), angles, angles)) for width in (9, 8, 12)]
        return np.array(widths)

    yield Problem("turn", "", turn, turned)
    yield Problem("turn", "too narrow", narrow, lambda: np.array([1.0, 1, 0]))
    index, values, table = np.array([2, 0, 2, 5, 0, 2]), draw(6, F), draw(V, F)

    def scatter(f, number):
        own_values, own = to(number, values, table)
        f(index, own_values, own)
        return own

    def beside(f, number, bad):
        return np.array(
            [
                refused(f, np.array(own), *to(number, draw(2, F), table))
                for i in bad
                for own in ([0, i], [i, 0])
            ]
        )

    yield Problem(
        "scatter_add",
        "beside",
        lambda f, number: beside(f, number, [-1, V, 0]),
        lambda: np.array([1.0, 1, 1, 1, 0, 0]),
    )
    yield Problem("scatter_add", "", scatter, lambda: table + scatter_add(index, values, V))
    z, targets, weights = 3 * draw(5, V), np.array([0, 3, 0, 6, 2]), np.array([1, 1, 0, 1, 1]) / 4
    z[2, 1], z[0], z[1] = -np.inf, 3000 * z[0], z[1] - 3000
    z = z.astype(np.float32).astype(np.float64)

    def outside(f, number):
        return np.array(
            [refused(f, *to(number, draw(1, V)), np.array([i]), np.ones(1, number), 0.0) for i in bad]
        )

    bad = (-1, V, 0)
    yield Problem("cross_entropy", "outside", outside, lambda: np.array([1.0, 1, 0]))
    for smoothing in (0.0, 0.1, 1.0):

        def cross_entropy(f, number, smoothing=smoothing):
            dz, own = to(number, z, weights)
            loss = f(dz, targets, own, number(smoothing))
            return np.float64(loss), dz

        def wanted(smoothing=smoothing):
            counted = np.where(weights > 0, targets, -100)
            loss, cache = ops.cross_entropy(z, counted, label_smoothing=smoothing)
            return np.float64(loss), ops.cross_entropy_backward(1.0, cache)

        yield Problem("cross_entropy", f"α = {smoothing}", cross_entropy, wanted)
    p, g, m, v = draw(9), draw(9), draw(9), np.abs(draw(9))
    numbers = dict(rate=0.1, beta_1=0.8, beta_2=0.99, eps=1e-3, weight_decay=0.3)

    def adamw(f, number):
        own = to(number, p, g, m, v)
        more = (0.7, 1 - 0.1 * 0.3, 1 - 0.8, 1 - 0.99, np.sqrt(1 - 0.99**4), 0.1 / (1 - 0.8**4), 1e-3)
        f(*own, *map(number, more))
        return own[0], own[2], own[3]

    def stepped():
        after, state = optim.adamw(p, 0.7 * g, {"step": 3, "m": m, "v": v}, **numbers)
        return after, state["m"], state["v"]

    yield Problem("adamw", "", adamw, stepped)
    far = np.array([720.0, 90000.0, -720.0, -90000.0])

    def exps(f, number):
        with np.errstate(over="ignore", invalid="ignore"):
            ratios = [f(x) / np.exp(x) for x in POINTS.astype(number)]
            return np.array(ratios), np.array([1 / f(x) if x > 0 else f(x) == 0 for x in far.astype(number)])

    yield Problem("exp", "", exps, lambda: (np.ones_like(POINTS), np.array([0.0, 0, 1, 1])), tolerance=1e-15)


PROBLEMS = [problem for name in ACTIVATIONS for problem in activation_problems(name)]
PROBLEMS += [*norm_problems(), *sum_problems(), *softmax_problems(), *other_problems()]
