"""The optimizers, beside torch.optim step for step, and the schedules beside their closed forms."""

import functools
import math
from itertools import product

import numpy as np
import optree
import pytest

from handgrad import optim
from handgrad.algebra import is_shape
from handgrad.fast import Workspace, update

STEPS = 120
TOLERANCE = 1e-12  # float64, 120 steps whose rounding errors (1e-16 each) add up


@pytest.fixture
def rng():
    return np.random.default_rng(15)


def tree(rng, dtype=np.float64):
    """Parameters, or gradients, of mixed shapes in nested dicts and lists."""
    shapes = {"E": (5, 3), "layers": [{"W": (3, 4), "b": (4,)}, {"W": (4, 2), "b": (2,)}], "gain": ()}
    return optree.tree_map(
        lambda shape: np.asarray(rng.normal(size=shape), dtype=dtype)[()], shapes, is_leaf=is_shape
    )


def gradients(rng, params):
    """Gradients of very different sizes: of a steep and a flat quadratic, with noise and some exact zeros."""

    def gradient(p):
        p = np.asarray(p)
        return (3 * p + rng.normal(size=p.shape)) * 10 ** rng.uniform(-6, 2) * (rng.random(p.shape) < 0.9)

    return optree.tree_map(gradient, params)


def worst(ours, theirs):
    """The largest difference relative to the size of the parameter array."""
    return max(
        float(np.max(np.abs(a - b.detach().numpy())) / np.max(np.abs(a)))
        for a, b in zip(optree.tree_leaves(ours), theirs, strict=True)
    )


def beside_torch(rng, make, init, step):
    """Run STEPS steps here and in torch from one start, on the same gradients; return the worst error."""
    torch = pytest.importorskip("torch")
    params = tree(rng)
    theirs = [torch.tensor(p, requires_grad=True) for p in optree.tree_leaves(params)]
    optimizer, state, error = make(torch, theirs), init(params), 0.0
    for t in range(1, STEPS + 1):
        rate = 0.05 * math.cos(t / 40) ** 2  # a schedule: the rate changes at each step
        grads = gradients(rng, params)
        for p, g in zip(theirs, optree.tree_leaves(grads), strict=True):
            p.grad = torch.tensor(g)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        params, state = step(params, grads, state, rate)
        error = max(error, worst(params, theirs))
    assert state["step"] == STEPS
    return error


def in_place(**options):
    """`adamw_in_place` with the signature of `adamw`, by way of vectors."""

    def step(params, grads, state, rate):
        (p, new), (g, _) = update.flatten(params), update.flatten(grads)
        (m, first), (v, second) = update.flatten(state["m"]), update.flatten(state["v"])
        vectors = {"step": state["step"], "m": m, "v": v}
        update.adamw_in_place(p, g, vectors, rate, **options)
        return new, {"step": vectors["step"], "m": first, "v": second}

    return step


STRONG = dict(beta_1=0.8, beta_2=0.95, eps=1e-6, weight_decay=0.3)


def strong(torch, p):
    return torch.optim.AdamW(p, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3)


CASES = {
    "sgd": (lambda torch, p: torch.optim.SGD(p, lr=1.0), optim.sgd_init, optim.sgd),
    "momentum": (
        lambda torch, p: torch.optim.SGD(p, lr=1.0, momentum=0.8),
        optim.momentum_init,
        lambda *a: optim.momentum(*a, beta=0.8),
    ),
    "adam": (lambda torch, p: torch.optim.Adam(p), optim.adam_init, optim.adam),
    "adamw": (lambda torch, p: torch.optim.AdamW(p), optim.adamw_init, optim.adamw),
    "adamw, strong decay": (strong, optim.adamw_init, functools.partial(optim.adamw, **STRONG)),
    "adamw in place": (strong, optim.adamw_init, in_place(**STRONG)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_step_is_that_of_torch(name, rng):
    assert beside_torch(rng, *CASES[name]) <= TOLERANCE


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("max_norm", [None, 0.5, 1e9])
def test_in_place_with_workers_and_clipping(rng, monkeypatch, workers, max_norm):
    """Equal to the two pure functions, when shares do not divide the vector."""
    monkeypatch.setattr(update, "SHARE", 1)
    params, state, workspace = tree(rng), optim.adamw_init(tree(rng)), Workspace(workers)
    p, views = update.flatten(params)
    in_place_state = {"step": 0, "m": 0 * p, "v": 0 * p}
    for _ in range(5):
        grads = gradients(rng, params)
        g, _ = update.flatten(grads)
        norm = None
        if max_norm is not None:
            grads, norm = optim.clip_by_global_norm(grads, max_norm)
        got = update.adamw_in_place(p, g, in_place_state, 0.1, max_norm=max_norm, workspace=workspace)
        assert (got is None) == (norm is None) and (norm is None or abs(got - norm) <= TOLERANCE * norm)
        params, state = optim.adamw(params, grads, state, 0.1)
    for ours, theirs in zip(optree.tree_leaves(views), optree.tree_leaves(params), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    assert in_place_state["step"] == 5


def test_in_place_nothing_changes_if_the_gradient_is_not_finite(rng):
    p, g = rng.normal(size=7), np.full(7, np.inf)
    state, before = {"step": 0, "m": np.zeros(7), "v": np.zeros(7)}, p.copy()
    with pytest.raises(FloatingPointError, match="grads"):
        update.adamw_in_place(p, g, state, 0.1, max_norm=1.0)
    assert np.array_equal(p, before) and state["step"] == 0 and not state["m"].any() and not state["v"].any()
    fixed = p.copy()
    fixed.flags.writeable = False
    for change, message in (
        ({"g": g[1:]}, r"g: expected shape \(7,\), got \(6,\)"),
        ({"p": p[:, None]}, r"p: expected shape \(7,\), got \(7, 1\)"),
        ({"v": np.zeros(7, np.float32)}, "v: expected ndarray of float64, got ndarray of float32"),
        ({"v": state["m"]}, "p, g, m, v: expected arrays with memory of their own"),
        ({"p": np.arange(7)}, "p: expected arrays of NumPy, of float32 or float64, got ndarray of int"),
        ({"m": np.zeros(14)[::2]}, "m: expected a vector in one piece, got one with gaps"),
        ({"p": fixed}, "p, g, m, v: expected arrays that can be written to"),
        ({"rate": -0.1}, "rate: expected a number"),
    ):
        own = {"p": p, "g": g, "rate": 0.1} | state | change
        moments = {name: own[name] for name in state}
        with pytest.raises((TypeError, ValueError), match=message):
            update.adamw_in_place(own["p"], own["g"], moments, own["rate"])
    assert np.array_equal(p, before) and state["step"] == 0


def test_flatten_makes_views_of_one_vector(rng):
    params = tree(rng)
    vector, views = update.flatten(params)
    assert optree.tree_all(optree.tree_map(np.array_equal, params, views))
    assert all(np.shares_memory(vector, leaf) for leaf in optree.tree_leaves(views))
    assert not any(np.shares_memory(vector, np.asarray(leaf)) for leaf in optree.tree_leaves(params))
    assert vector.size == sum(np.size(leaf) for leaf in optree.tree_leaves(params))
    with pytest.raises(ValueError, match=r"tree: expected arrays of one type, got \['float32', 'float64'\]"):
        update.flatten({"a": np.zeros(2), "b": np.zeros(2, np.float32)})


WRONG = {
    "no bias correction": lambda p, g, s, rate: optim.adam(p, g, {**s, "step": 10**6}, rate),
    "eps ten times too large": lambda p, g, s, rate: optim.adam(p, g, s, rate, eps=1e-7),
    "rate of the step before": lambda p, g, s, rate: optim.adam(p, g, s, 0.05),
    "beta_2 for beta_1": lambda p, g, s, rate: optim.adam(p, g, s, rate, beta_1=0.999),
    "moments never kept": lambda p, g, s, rate: optim.adam(p, g, optim.adam_init(p), rate),
    "decay through the moments": lambda p, g, s, rate: optim.adam(
        p, optree.tree_map(lambda p, g: g + 0.01 * p, p, g), s, rate
    ),
    "decay missing": optim.adam,
    "sign": lambda p, g, s, rate: optim.adam(p, optree.tree_map(lambda g: -g, g), s, rate),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_comparison_refutes_wrong_optimizers(name, rng):
    make = CASES["adamw" if name.startswith("decay") else "adam"][0]

    def step(p, g, s, rate):
        params, state = WRONG[name](p, g, s, rate)
        return params, {**state, "step": s["step"] + 1}

    assert beside_torch(rng, make, optim.adam_init, step) > 1e3 * TOLERANCE


NAMES = ["sgd", "momentum", "adam", "adamw"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [0.1, np.float64(0.1)])
def test_precision_is_kept_and_nothing_is_changed_in_place(name, dtype, rate, rng):
    params, grads = tree(rng, dtype), tree(rng, dtype)
    before = optree.tree_map(np.copy, params)
    state = getattr(optim, name + "_init")(params)
    new, state = getattr(optim, name)(params, grads, state, rate)
    new, state = getattr(optim, name)(new, grads, state, rate)
    moments = [leaf for key, part in state.items() if key != "step" for leaf in optree.tree_leaves(part)]
    assert {leaf.dtype for leaf in optree.tree_leaves(new) + moments} == {np.dtype(dtype)}
    assert all(np.array_equal(a, b) for a, b in zip(*map(optree.tree_leaves, (params, before)), strict=True))
    assert not np.array_equal(new["E"], params["E"])


def test_adam_runs_on_symbols():
    import sympy as sp

    p, g, rate = sp.symbols("p g rate", positive=True)
    params, grads = {"p": np.array([p], dtype=object)}, {"p": np.array([g], dtype=object)}
    half, zero = sp.Rational(1, 2), sp.Integer(0)
    new, _ = optim.adam(params, grads, optim.adam_init(params), 1, half, half, sp.Rational(1, 10**9))
    # m̂ = g and v̂ = g² in the first step, whatever the betas are
    assert sp.nsimplify(new["p"][0] - (p - g / (g + sp.Rational(1, 10**9))), rational=True).simplify() == zero


def test_clipping_is_that_of_torch(rng):
    torch = pytest.importorskip("torch")
    for size in (1e-3, 1.0, 1e4):
        grads = optree.tree_map(lambda g, size=size: size * g, tree(rng))
        theirs = [torch.zeros_like(torch.tensor(g)) for g in optree.tree_leaves(grads)]
        for p, g in zip(theirs, optree.tree_leaves(grads), strict=True):
            p.grad = torch.tensor(g)
        norm = torch.nn.utils.clip_grad_norm_(theirs, 0.7)
        clipped, ours = optim.clip_by_global_norm(grads, 0.7)
        assert abs(ours - float(norm)) <= TOLERANCE * ours
        assert worst(clipped, [p.grad for p in theirs]) <= TOLERANCE
        after = optim.clip_by_global_norm(clipped, 1e9)[1]
        assert after <= 0.7 and (ours <= 0.7) == (after == ours)


def test_clipping_refuses_what_is_not_finite(rng):
    grads = tree(rng)
    for bad, max_norm in product((math.nan, math.inf), (1.0, math.inf)):
        grads["E"][0, 0] = bad
        with pytest.raises(FloatingPointError, match="grads: expected finite numbers"):
            optim.clip_by_global_norm(grads, max_norm)
    for max_norm in (0.0, -1.0, math.nan, None, True, "1", np.array([1.0])):
        with pytest.raises((TypeError, ValueError), match="max_norm"):
            optim.clip_by_global_norm(tree(rng), max_norm)
    for eps in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="eps"):
            optim.clip_by_global_norm(tree(rng), 1.0, eps)


def test_an_infinite_length_clips_nothing(rng):
    grads = tree(rng)
    clipped, norm = optim.clip_by_global_norm(grads, math.inf)
    assert optree.tree_all(optree.tree_map(np.array_equal, grads, clipped))
    assert norm == optim.clip_by_global_norm(grads, 0.1)[1]


def test_clipping_keeps_zeros_and_the_precision():
    for max_norm, number in product((0.5, np.float64(0.5)), (0, 1)):
        clipped, norm = optim.clip_by_global_norm({"W": np.full((2, 3), number, np.float32)}, max_norm)
        assert (norm > 0) == clipped["W"].any() == number and clipped["W"].dtype == np.float32


def test_inverse_square_root_is_its_closed_form():
    D, warmup = 512, 4000
    rates = [optim.inverse_square_root(t, D, warmup) for t in range(1, 20_001)]
    t = np.arange(1, 20_001)
    closed = np.where(t < warmup, t / warmup, np.sqrt(warmup / t)) / math.sqrt(D * warmup)
    np.testing.assert_allclose(rates, closed, rtol=1e-13)
    assert np.argmax(rates) + 1 == warmup
    assert round(max(rates), 7) == 6.988e-4  # the peak that Vaswani et al. (2017) train the base model with


def test_cosine_is_that_of_torch():
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=150, eta_min=0.01)
    for step in range(151):
        assert abs(optim.cosine(step, 150, 0.3, floor=0.01) - schedule.get_last_lr()[0]) <= 1e-12 * 0.3
        optimizer.step()
        schedule.step()


def test_cosine_with_warmup_is_its_closed_form():
    rates = np.array([optim.cosine(step, 100, 2.0, warmup=20, floor=0.5) for step in range(101)])
    np.testing.assert_allclose(rates[:21], np.linspace(0, 2, 21), rtol=1e-14)
    s = np.linspace(0, 1, 81)
    np.testing.assert_allclose(rates[20:], 0.5 + 1.5 * np.cos(np.pi * s / 2) ** 2, rtol=1e-13)


SETTINGS = {
    optim.sgd: {"rate": [-0.1, math.nan, math.inf, True, np.array([0.1])]},
    optim.momentum: {"beta": [1.0]},
    optim.adam: {"beta_1": [-0.1, math.nan], "beta_2": [1.0, "0.9"], "eps": [0.0, math.inf]},
    optim.adamw: {"weight_decay": [-1.0, math.inf, True]},
    optim.inverse_square_root: {
        "step": [0, math.nan, 2.5, True],
        "D": [math.nan],
        "warmup": [0, math.inf],
        "scale": [0, math.nan, math.inf],
    },
    optim.cosine: {
        "step": [11, 2.5, math.nan],
        "steps": [10.5, True],
        "peak": [math.inf, math.nan],
        "warmup": [10, 2.5],
        "floor": [2.0, math.nan],
    },
}
RIGHT = {
    optim.inverse_square_root: {"step": 1, "D": 512, "warmup": 4000},
    optim.cosine: {"step": 1, "steps": 10, "peak": 1.0},
}


@pytest.mark.parametrize("function", SETTINGS)
def test_settings_that_do_not_fit_are_refused_by_name(function, rng):
    params = tree(rng)
    own = {"params": params, "grads": params, "state": optim.adam_init(params), "rate": 0.1}
    right = RIGHT.get(function, own)
    function(**right)
    for name, values in SETTINGS[function].items():
        for value in values:
            with pytest.raises((TypeError, ValueError), match=f"^{name}: expected"):
                function(**right | {name: value})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", [-1, 2.0, "2", True, None, math.nan])
def test_a_step_that_does_not_count_is_refused(name, step, rng):
    params = tree(rng)
    state = getattr(optim, name + "_init")(params)
    with pytest.raises((TypeError, ValueError), match=r'state\["step"\]: expected an integer'):
        getattr(optim, name)(params, params, state | {"step": step}, 0.1)


TREES = [*product(NAMES, ["grads"]), ("momentum", "v"), ("adam", "m"), ("adam", "v"), ("adamw", "v")]


@pytest.mark.parametrize(("name", "which"), TREES)
def test_gradients_and_moments_that_do_not_fit_are_refused(name, which, rng):
    """Most of these would broadcast, or turn float32 into float64."""
    params = tree(rng)
    state, E = getattr(optim, name + "_init")(params), params["E"]
    for bad, message in (
        (params | {"E": E[:1]}, r" at .*E.*: expected shape \(5, 3\), got \(1, 3\)"),
        (params | {"E": E[None]}, r".*got \(1, 5, 3\)"),
        (params | {"E": E[0, 0]}, r".*got \(\)"),
        (params | {"E": E.astype(np.float32)}, " at .*E.*: expected ndarray of float64, got .* float32"),
        ({"E": E}, ": expected the keys"),
    ):
        own, grads, said = state, bad, "grads"
        if which in state:
            own, grads, said = state | {which: bad}, params, rf'state\["{which}"\]'
        with pytest.raises((TypeError, ValueError), match=f"^{said}{message}"):
            getattr(optim, name)(params, grads, own, 0.1)
    if state.pop(which, None):
        with pytest.raises(ValueError, match=f"state: expected the entry '{which}', got .*'step'"):
            getattr(optim, name)(params, params, state, 0.1)
