"""Every operation, on every algebra, against every witness, and against PyTorch's own layers."""

import functools
import re
import subprocess
import sys

import array_api_strict
import numpy as np
import optree
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from handgrad import check, ops
from handgrad.ops.table import NUMERIC_SIZES, OPS, shape

SAME = 1e-12  # relative, float64: rounding of sums of at most a few hundred terms


def draw(name, seed=0, sizes=NUMERIC_SIZES):
    rng = np.random.default_rng(seed)
    inputs, options = OPS[name].draw(sizes, rng)
    return inputs, options, rng


def run(op, inputs, options, dy):
    """The output, and the gradients as leaves."""
    y, cache = op.forward(**inputs, **options)
    return y, optree.tree_leaves(op.backward(dy, cache))


def close(got, want, tolerance=SAME, scale=None):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    scale = np.abs(want).max() if scale is None else scale
    assert np.abs(got - want).max() <= tolerance * scale


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", OPS)
def test_differences(name, seed):
    check.differences(OPS[name], np.random.default_rng(seed))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", OPS)
def test_autograd(name, device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("this machine has no GPU")
    check.autograd(OPS[name], np.random.default_rng(0), device=device)


@pytest.mark.parametrize("name", OPS)
def test_the_same_on_the_strict_array_standard(name):
    rng, strict = np.random.default_rng(0), array_api_strict.asarray
    for inputs, options in OPS[name].draws(rng):
        y, _ = OPS[name].forward(**inputs, **options)
        dy = rng.standard_normal(np.shape(y) or None)
        _, gradients = run(OPS[name], inputs, options, dy)
        strict_options = {k: strict(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        strict_y, strict_gradients = run(
            OPS[name], optree.tree_map(strict, inputs), strict_options, strict(dy) if np.ndim(dy) else dy
        )
        close(strict_y, y)
        for got, want in zip(strict_gradients, gradients, strict=True):
            # gradients that are 0 by symmetry are rounding noise, at the scale of their neighbours
            close(got, want, scale=max(np.abs(g).max() for g in gradients))


def test_a_shape_is_written_in_letters():
    sizes = {"B": 2, "H": 3, "K": 4, "...": "B 1"}
    assert shape("B H*K", sizes) == (2, 12)
    assert shape("... K", sizes) == (2, 1, 4)
    assert shape("... K", sizes | {"...": ""}) == (4,)
    with pytest.raises(
        KeyError, match="sizes: expected one for T of B T, got only B, H, K: use letters of NUM"
    ):
        shape("B T", sizes)


def precisions(op, library, dtype, **changes):
    """The floating types of the output, of the gradients, and of all that the cache holds."""
    inputs, options, rng = draw(op)
    options |= changes
    wanted = getattr(torch, dtype) if library == "torch" else np.dtype(dtype)
    convert = (
        (lambda x: torch.tensor(x, dtype=wanted)) if library == "torch" else (lambda x: x.astype(wanted))
    )
    options = {
        k: torch.tensor(v) if library == "torch" and isinstance(v, np.ndarray) else v
        for k, v in options.items()
    }
    inputs = optree.tree_map(convert, inputs)
    y, cache = OPS[op].forward(**inputs, **options)
    dy = convert(np.asarray(rng.standard_normal(tuple(y.shape))))
    leaves = optree.tree_leaves((y, cache, OPS[op].backward(dy, cache)))
    types = {str(leaf.dtype).removeprefix("torch.") for leaf in leaves if hasattr(leaf, "dtype")}
    return {dtype for dtype in types if "float" in dtype}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("name", OPS)
def test_the_precision_is_kept(name, library, dtype):
    assert precisions(name, library, dtype) == {dtype}


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_a_leak_of_float64_is_seen(name):
    """NumPy's float64, where Python's float is meant, turns float32 arrays into float64."""
    assert precisions(name, "numpy", "float32", eps=np.float64(0.1)) == {"float32", "float64"}


ROUNDINGS = dict.fromkeys(OPS, 64) | dict.fromkeys(ops.ACTIVATIONS, 6)
"""How many roundings of float32 the worst entry of a gradient may be off. An activation is a few operations,
of half a rounding each; a sum of n products loses up to n of them, and √n as a rule."""


def roundings(op, seed, backward):
    """The error of a backward in float32, in roundings of the largest entry of each gradient; over all draws.

    A gradient that is 0 by symmetry is rounding noise, and measured against the largest entry of all.
    """
    rng, worst = np.random.default_rng(seed), 0.0
    for inputs, options in op.draws(rng):
        inputs = optree.tree_map(np.float32, inputs)
        y, cache = op.forward(**inputs, **options)
        dy = np.asarray(rng.standard_normal(np.shape(y)), np.float32)
        single = optree.tree_leaves(backward(dy[()], cache))
        _, exact = run(op, optree.tree_map(np.float64, inputs), options, np.float64(dy)[()])
        largest = max(np.abs(want).max() for want in exact)
        for got, want in zip(single, exact, strict=True):
            own = np.abs(want).max()
            scale = own if own > 1e-9 * largest else largest
            worst = max(worst, np.abs(got - want).max() / scale / np.finfo(np.float32).eps)
    return worst


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", OPS)
def test_single_precision_loses_a_few_roundings(name, seed):
    assert roundings(OPS[name], seed, OPS[name].backward) <= ROUNDINGS[name]


@pytest.mark.parametrize("seed", range(3))
def test_a_constant_with_five_digits_is_refuted_in_single_precision(seed):
    """1/√(2π) to five digits is off by 6e-6, which float32 resolves."""

    def five_digits(dy, cache):
        x = cache["x"]
        density = np.exp(-x * x / 2) * x.dtype.type(0.39894)
        return dy * (cache["Phi"] + x * density)

    assert roundings(OPS["gelu"], seed, five_digits) > ROUNDINGS["gelu"]


def test_numpy_and_sympy_paths_need_no_torch():
    program = (
        "import sys\n"
        "class NoTorch:\n"  # as if it were not installed
        "    def find_spec(name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NoTorch)\n"
        "import numpy as np, handgrad\n"
        "from handgrad import check\n"
        "from handgrad.ops.table import OPS\n"
        "for op in OPS.values(): check.differences(op, np.random.default_rng(0))\n"
        "check.prove(OPS['softmax'])\n"
        "check.differences(OPS['attention'], np.random.default_rng(0), digits=50)\n"
        "import handgrad.model, handgrad.optim, handgrad.train, handgrad.data, handgrad.decode\n"
        "import handgrad.accounting, handgrad.sums, handgrad.course.judge, handgrad.course.ledger\n"
        "try: import torch\n"
        "except ModuleNotFoundError: print('no torch')\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "no torch", done.stderr


# PyTorch's own layers


def ours(name):
    return getattr(ops, name), getattr(ops, f"{name}_backward")


def of_tokens(tokens):
    def function(E):
        return F.embedding(torch.tensor(tokens), E)

    return (lambda E: ops.embedding(tokens, E), ops.embedding_backward), function, dict(E=(7, 4))


def of_targets(targets, alpha):
    def function(z):
        own = torch.tensor(targets).reshape(-1)
        return F.cross_entropy(z.reshape(-1, 7), own, label_smoothing=alpha)

    forward = functools.partial(ops.cross_entropy, targets=targets, label_smoothing=alpha)
    return (forward, ops.cross_entropy_backward), function, dict(z=(3, 4, 7))


def under_mask(mask, T=6, S=6):
    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, None if mask is None else torch.tensor(mask))

    pair = functools.partial(ops.attention, mask=mask), ops.attention_backward
    return pair, function, dict(q=(2, 3, T, 5), k=(2, 3, S, 5), v=(2, 3, S, 7))


def grouped(q, k, v):
    (k, copied), (v, _) = ops.repeat_heads(k, 3), ops.repeat_heads(v, 3)
    y, cache = ops.attention(q, k, v)
    return y, (cache, copied)


def grouped_backward(dy, cache):
    dq, dk, dv = ops.attention_backward(dy, cache[0])
    return dq, ops.repeat_heads_backward(dk, cache[1]), ops.repeat_heads_backward(dv, cache[1])


RNG = np.random.default_rng(7)
MASK = (RNG.random((2, 1, 6, 4)) < 0.5) | (np.arange(4) == 0)  # each query sees something
TARGETS = RNG.integers(0, 7, (3, 4))
IGNORED = np.where(RNG.random((3, 4)) < 0.4, -100, TARGETS)
WITH_EPS = functools.partial(ops.layer_norm, eps=1e-3), ops.layer_norm_backward
RMS_WITH_EPS = functools.partial(ops.rms_norm, eps=1e-3), ops.rms_norm_backward
GROUPS = dict(q=(2, 6, 5, 4), k=(2, 2, 5, 4), v=(2, 2, 5, 4))
TORCHS = {
    "linear": (ours("linear"), lambda x, W, b: F.linear(x, W.T, b), dict(x=(2, 3, 4), W=(4, 5), b=(5,))),
    "relu": (ours("relu"), F.relu, dict(x=(2, 4, 5))),
    "gelu": (ours("gelu"), F.gelu, dict(x=(2, 4, 5))),
    "gelu_tanh": (ours("gelu_tanh"), lambda x: F.gelu(x, approximate="tanh"), dict(x=(2, 4, 5))),
    "silu": (ours("silu"), F.silu, dict(x=(2, 4, 5))),
    "softmax": (ours("softmax"), lambda x: F.softmax(x, dim=-1), dict(s=(2, 4, 5))),
    "layer_norm": (
        WITH_EPS,
        lambda x, gamma, beta: F.layer_norm(x, (5,), gamma, beta, 1e-3),
        dict(x=(2, 4, 5), gamma=(5,), beta=(5,)),
    ),
    "rms_norm": (
        RMS_WITH_EPS,
        lambda x, gamma: F.rms_norm(x, (5,), gamma, 1e-3),
        dict(x=(2, 4, 5), gamma=(5,)),
    ),
    "embedding": of_tokens(np.array([[1, 1, 0], [6, 1, 6]])),
    "attention": under_mask(None, S=4),
    "attention, causal": under_mask(ops.causal_mask(6)),
    "attention, masked": under_mask(MASK, S=4),
    "grouped queries": (
        (grouped, grouped_backward),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        GROUPS,
    ),
} | {
    f"cross-entropy, α = {alpha}, {what}": of_targets(targets, alpha)
    for alpha in (0.0, 0.1)
    for what, targets in (("all count", TARGETS), ("some are ignored", IGNORED))
}


@pytest.mark.parametrize("name", TORCHS)
def test_outputs_and_gradients_are_those_of_torchs_layer(name, rng):
    (forward, backward), function, shapes = TORCHS[name]
    inputs = {name: 2 * rng.standard_normal(shape) for name, shape in shapes.items()}
    next(iter(inputs.values())).flat[0] = 0.0  # at the kink of ReLU torch chooses 0 too
    y, cache = forward(**inputs)
    dy = np.asarray(rng.standard_normal(np.shape(y)))
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs.values()]
    wanted = function(*tensors)
    close(y, wanted.detach())
    gradients = backward(dy, cache)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    for got, want in zip(gradients, torch.autograd.grad(wanted, tensors, torch.tensor(dy)), strict=True):
        close(got, want)


@pytest.mark.parametrize("to", [np.asarray, torch.from_numpy, array_api_strict.asarray])
def test_relu_hides_no_nan(to):
    """In a where that asks for x > 0 it would become 0, and a model with such a weight a finite loss."""
    y, _ = ops.relu(to(np.array([np.nan, -1.0, 0.0, 2.0, np.inf, -np.inf])))
    assert np.array_equal(np.asarray(y), [np.nan, 0, 0, 2, np.inf, 0], equal_nan=True)
    assert np.asarray(y).dtype == np.float64


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("ignored", [False, True])
def test_a_logit_of_minus_infinity_is_taken_as_torch_takes_it(smoothing, ignored, rng):
    """Of a word that is no target it changes nothing; with smoothing, where each word is, the loss is ∞."""
    z, targets = rng.standard_normal((3, 4)), np.array([1, 2, 3])
    z[:, 0] = z[1, 3] = -np.inf
    if ignored:
        targets[1] = -100
    torch_z = torch.tensor(z, requires_grad=True)
    want = F.cross_entropy(torch_z, torch.tensor(targets), label_smoothing=smoothing)
    loss, cache = ops.cross_entropy(z, targets, label_smoothing=smoothing)
    assert loss == pytest.approx(want.item(), rel=1e-14) and np.isinf(loss) == (smoothing > 0)
    upstream = torch.tensor(0.7, dtype=torch.float64)
    close(ops.cross_entropy_backward(0.7, cache), torch.autograd.grad(want, torch_z, upstream)[0])


def test_dropout_is_torchs_with_its_own_mask(rng):
    x = rng.standard_normal((4, 5)) + 10.0  # no zero but those that dropout makes
    torch_x = torch.tensor(x, requires_grad=True)
    torch_y = torch.nn.Dropout(0.3)(torch_x)
    keep = (torch_y != 0).numpy()
    assert 0 < keep.sum() < keep.size
    y, cache = ops.dropout(x, keep, 0.3)
    dy = rng.standard_normal(x.shape)
    close(y, torch_y.detach())
    close(ops.dropout_backward(dy, cache), torch.autograd.grad(torch_y, torch_x, torch.tensor(dy))[0])


# The edges: sizes of one, masks of every kind, huge scores, constant rows

lengths = st.integers(1, 4)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    name=st.sampled_from(sorted(OPS)),
    sizes=st.fixed_dictionaries(
        {letter: lengths for letter in "BTSDEFHG"} | {"V": st.integers(1, 6), "K": st.sampled_from([2, 4])}
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_all_sizes(name, sizes, seed):
    """Central differences at random sizes, axes of length one among them."""
    leading = OPS[name].leading
    sizes = sizes | {"M": sizes["T"] + seed % 2, "...": leading[seed % len(leading)]}
    rng = np.random.default_rng(seed)
    inputs, options = OPS[name].draw(sizes, rng)
    if name in ("layer_norm", "rms_norm"):
        # at D = 1, and in a row that happens to be nearly constant, curvature is 1/ε: take a larger ε
        options = options | {"eps": 0.5}
    check.differences(OPS[name], rng, inputs, options, tolerance=1e-6)
    check.autograd(OPS[name], rng, inputs, options)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(T=lengths, S=lengths, density=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
def test_attention_under_any_mask(T, S, density, seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((T, S)) < density
    inputs = {n: rng.standard_normal((2, length, 3)) for n, length in [("q", T), ("k", S), ("v", S)]}
    op = OPS["attention"]
    check.differences(op, rng, inputs, {"mask": mask})
    y, cache = op.forward(**inputs, mask=mask)
    dq, dk, dv = op.backward(rng.standard_normal(y.shape), cache)
    blind, unseen = ~mask.any(axis=1), ~mask.any(axis=0)
    assert (y[:, blind] == 0).all() and (dq[:, blind] == 0).all()
    assert (dk[:, unseen] == 0).all() and (dv[:, unseen] == 0).all()
    np.testing.assert_allclose(cache["a"].sum(-1), np.broadcast_to(~blind, (2, T)), rtol=1e-14)
    assert (cache["a"][:, ~mask] == 0).all()


@pytest.mark.parametrize("size", [1e4, -1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_scores_neither_overflow_nor_lose_the_row(size, dtype):
    s = np.array([[size, 0.0, 1.0], [size, size, -size], [-size, -size, -size]], dtype)
    a, cache = ops.softmax(s)
    assert np.isfinite(a).all()
    np.testing.assert_allclose(a.sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(a[2], 1 / 3, rtol=1e-6)
    assert np.isfinite(ops.softmax_backward(s, cache)).all()
    targets = np.array([0, 1, 2])
    loss, cache = ops.cross_entropy(s, targets)
    assert np.isfinite(loss)
    assert np.isfinite(ops.cross_entropy_backward(1.0, cache)).all()
    q = np.full((2, 3), 100.0, dtype)
    y, cache = ops.attention(q, size / 100 * q, q, scale=1.0)
    assert np.isfinite(y).all()
    assert all(np.isfinite(g).all() for g in ops.attention_backward(q, cache))


def test_a_constant_row_in_layer_norm_gives_beta_and_a_finite_gradient(rng):
    x = np.full((1, 2, 5), 3.7)
    gamma, beta = rng.standard_normal(5), rng.standard_normal(5)
    y, cache = ops.layer_norm(x, gamma, beta)
    np.testing.assert_allclose(y, np.broadcast_to(beta, y.shape), atol=1e-9)
    dy = rng.standard_normal(y.shape)
    dx, _, _ = ops.layer_norm_backward(dy, cache)
    # x̂ = 0: only the direct path and that through the mean remain, divided by √ε
    g = gamma * dy
    close(dx, (g - g.mean(-1, keepdims=True)) / np.sqrt(1e-5), tolerance=1e-9)


# Bad input


def of_other_shapes(x):
    """The array with an axis shortened to 1; with one more axis, of length 1 and 2; with one less; turned."""
    yield from (x.take([0], axis=axis) for axis in range(x.ndim))
    yield from (x[None], np.stack([x, x]), *([x[0]] if x.ndim else []), x.T)


@pytest.mark.parametrize("name", OPS)
def test_a_gradient_from_above_has_the_shape_of_the_output_and_nothing_is_changed_in_place(name):
    inputs, options, rng = draw(name)
    before = optree.tree_map(np.copy, inputs)
    y, cache = OPS[name].forward(**inputs, **options)
    dy = np.asarray(rng.standard_normal(np.shape(y)))
    dy_before = dy.copy()
    OPS[name].backward(dy, cache)
    optree.tree_map(np.testing.assert_array_equal, (inputs, dy), (before, dy_before))
    for other in of_other_shapes(dy):
        if other.shape != dy.shape:
            with pytest.raises((TypeError, ValueError), match="^d(y|a|z|loss): expected"):
                OPS[name].backward(other, cache)


@pytest.mark.parametrize("name", OPS)
def test_an_input_is_refused_or_its_gradient_has_its_shape(name):
    inputs, options, rng = draw(name)
    leaves, structure = optree.tree_flatten(inputs)
    for n, leaf in enumerate(leaves):
        for other in of_other_shapes(leaf):
            changed = optree.tree_unflatten(structure, [*leaves[:n], other, *leaves[n + 1 :]])
            try:
                y, cache = OPS[name].forward(**changed, **options)
            except ValueError as error:
                assert re.match(r"[\w.]+(\[.*\])?: expected ", str(error)), error
                continue
            gradients = OPS[name].backward(rng.standard_normal(y.shape or None), cache)
            gradients = gradients if isinstance(gradients, tuple) else (gradients,)
            for x, dx in zip(changed.values(), gradients, strict=True):
                assert optree.tree_map(np.shape, dx) == optree.tree_map(np.shape, x)


def test_nothing_is_broadcast_where_nothing_is_dropped_or_copied():
    for forward, backward in (
        (lambda x: ops.dropout(x, None, 0.0), ops.dropout_backward),
        (lambda x: ops.repeat_heads(x, 1), ops.repeat_heads_backward),
    ):
        y, cache = forward(np.ones((2, 1, 3, 4)))
        with pytest.raises(ValueError, match=r"dy: expected shape \(2, 1, 3, 4\), got \(2, 1, 3, 1\)"):
            backward(y[..., :1], cache)


X, M, E, TWO = np.ones((2, 3, 6)), np.ones((2, 3)), np.ones((7, 2)), np.array([0, 1])
WEIGHTS = {n: np.ones((6, 6)) for n in ["W_Q", "W_K", "W_V", "W_O"]}
GATES = dict(W_gate=np.ones((6, 5)), W_up=np.ones((6, 1)), W_down=np.ones((5, 6)))
SEEN, KEEP, IDS = np.ones((3, 3), bool), np.ones(3, bool), np.ones((2, 3), int)


def smoothed(alpha):
    return lambda: ops.cross_entropy(M, TWO, label_smoothing=alpha)


def aimed(targets):
    return lambda: ops.cross_entropy(M, targets)


def kept(keep, p=0.1):
    return lambda: ops.dropout(np.ones(3), keep, p)


def looked_up(tokens, E=E):
    return lambda: ops.embedding(tokens, E)


VALUES = [
    (looked_up(np.array([[0, 7]])), "tokens: expected ids from 0 to V - 1 = 6, got ids from 0 to 7"),
    (looked_up(np.array([-1])), "tokens: .* from -1 to -1"),
    (looked_up(np.zeros((0, 3), int)), "tokens: expected at least one token"),
    (looked_up(TWO, np.ones(7)), r"E: expected shape \(any, any\)"),
    (lambda: ops.tied_head(X, np.ones(6)), r"E: expected shape \(any, 6\), got \(6,\)"),
    (lambda: ops.linear(M, np.ones((4, 5))), r"W: expected shape \(3, any\), got \(4, 5\)"),
    (lambda: ops.linear(X, np.ones((6, 5)), np.ones(1)), r"b: expected shape \(5,\), got \(1,\)"),
    (lambda: ops.layer_norm(X, np.ones(1), np.ones(6)), r"gamma: expected shape \(6,\)"),
    (lambda: ops.layer_norm(X, np.ones(6), X), r"beta: expected shape \(6,\)"),
    (lambda: ops.rms_norm(X, np.ones((3, 1))), r"gamma: expected shape \(6,\), got \(3, 1\)"),
    (lambda: ops.add_positions(X, np.ones((2, 6))), "x: expected at most 2 positions"),
    (lambda: ops.add_positions(X, np.ones((3, 1))), r"P: expected shape \(any, 6\), got \(3, 1\)"),
    (lambda: ops.add_positions(X[0], np.ones((3, 6))), "x: expected shape .*any, any, any"),
    (lambda: ops.sinusoidal(3, 5), "width: expected an even number"),
    (lambda: ops.sinusoidal(3, 4, base=-10.0), "base: expected a positive number, got -10.0"),
    (lambda: ops.rotary(X, X[0, :, :2]), r"angles: expected shape \(3, 3\)"),
    (lambda: ops.rotary(X[..., :3], np.ones((3, 1))), "x: expected an even width"),
    (lambda: ops.rotary_angles(3, 4, base=0), "base: expected a positive number, got 0"),
    (kept(TWO > 0), r"keep: expected shape \(3,\), got \(2,\)"),
    (kept(KEEP, 1.0), "p: expected a probability"),
    (lambda: ops.feed_forward(X, {}, "tanh"), "activation: expected one of"),
    (lambda: ops.gated_feed_forward(X, GATES), r"W_up: expected shape \(6, 5\), got \(6, 1\)"),
    (aimed(np.array([0, 3])), "targets: expected ids from 0 to V - 1 = 2"),
    (aimed(np.array([-100, -100])), "targets: .* all are -100"),
    (aimed(np.array([0])), r"targets: expected shape \(2,\), got \(1,\)"),
    (smoothed(np.float32(1.5)), "label_smoothing: expected a number.*, got 1.5"),
    (smoothed(np.nan), "label_smoothing: expected a number.*, got nan"),
    (lambda: ops.attention(M, M[:, :2], M), "k: expected width 3"),
    (lambda: ops.attention(M, M, X[0]), "v: expected 2 positions"),
    (lambda: ops.attention(X, X[:1], X), r"k: expected a shape \(2, length, width\) .*got \(1, 3, 6\)"),
    (lambda: ops.attention(X[:1], X, X), r"k: expected a shape \(1, length, width\) .*got \(2, 3, 6\)"),
    (lambda: ops.attention(X, X, X[:, :, None]), "v: expected a shape"),
    (lambda: ops.attention(X, X[:, :0], X[:, :0]), "k: expected a shape .* without 0"),
    (lambda: ops.attention(X[0, 0], X, X), r"q: expected a shape \(length, width\)"),
    (lambda: ops.attention(M, M, M, mask=SEEN), r"mask: .* \(2, 2\), got \(3, 3\)"),
    (lambda: ops.attention(X, X, X, mask=SEEN[None, None]), r"mask: .* \(2, 3, 3\), got \(1, 1, 3, 3\)"),
    (lambda: ops.flash_attention(M, M, M, mask=SEEN), r"mask: .* broadcasts to \(2, 2\), got \(3, 3\)"),
    (lambda: ops.flash_attention(M, M, M, mask=SEEN[0]), r"mask: .* \(2, 2\), got \(3,\)"),
    (lambda: ops.flash_attention(M[:0], M, M), r"q: expected a shape .* without 0, got \(0, 3\)"),
    (lambda: ops.flash_attention(M, M, M, block=0), "block: expected an integer, 1 ≤ block, got 0"),
    (lambda: ops.split_heads(X, 4), "H: expected a divisor of the width 6, got 4"),
    (lambda: ops.split_heads(X, -2), "H: expected an integer, 1 ≤ H, got -2"),
    (lambda: ops.split_heads(X[0], 2), r"x: expected shape .* got \(3, 6\)"),
    (lambda: ops.merge_heads(X), r"x: expected shape .* got \(2, 3, 6\)"),
    (lambda: ops.repeat_heads(X[None], 0), "G: expected an integer, 1 ≤ G, got 0"),
    (lambda: ops.repeat_heads(X, 1), r"x: expected shape .* got \(2, 3, 6\)"),
    (lambda: ops.multi_head(X, X, WEIGHTS, 4), "H: expected"),
    (lambda: ops.multi_head(X, X[:1], WEIGHTS, 2), "k: expected a shape"),
    (lambda: ops.causal_mask(0), "T: expected an integer, 1 ≤ T, got 0"),
    (lambda: ops.padding_mask(np.ones(3, int), 0), r"tokens: expected shape \(any, any\), got \(3,\)"),
]
TYPES = [
    (looked_up(np.array([0.5])), "tokens: expected integers, got float64"),
    (looked_up([0, 1]), "tokens: expected an array of integers"),
    (lambda: ops.padding_mask([[1, 0]], 0), "tokens: expected an array of integers, got list"),
    (aimed(TWO / 1), "targets: expected integers, got float64"),
    (aimed(TWO > 0), "targets: expected integers, got bool"),
    (aimed([0, 1]), "targets: expected an array of integers, got list"),
    (smoothed(np.array([0.1, 0.2])), r"label_smoothing: expected a number.*, got shape \(2,\)"),
    (smoothed("0.1"), "label_smoothing: expected a number.*, got '0.1'"),
    (kept(255 * KEEP.astype(np.uint8)), "keep: expected Booleans, got uint8"),
    (kept([True] * 3), "keep: expected an array of Booleans, got list"),
    (kept(KEEP, np.ones(3) / 2), "p: expected a number"),
    (lambda: ops.attention([1.0], X, X), "q: expected an array, got list"),
    (lambda: ops.attention(M, M, M, mask=np.ones((2, 2))), "mask: expected Booleans, got float64"),
    (lambda: ops.attention(X, X, X, mask=[[True]]), "mask: expected an array of Booleans, got list"),
    (lambda: ops.attention(X, X, X, scale=np.ones(6)), r"scale: expected a number, got shape \(6,\)"),
    (lambda: ops.flash_attention(X, X, X, scale=np.ones((4, 1, 1, 1))), "scale: expected a number"),
    (lambda: ops.flash_attention(M, M, M, mask=M), "mask: expected Booleans, got float64"),
    (lambda: ops.flash_attention(M, M, M, block=2.5), "block: expected an integer, 1 ≤ block, got 2.5"),
    (lambda: ops.cross_entropy(X, IDS, ignore_index=TWO), r"ignore_index: .* a number, got shape \(2,\)"),
    (lambda: ops.feed_forward(X, [np.ones((6, 6))]), "params: expected a dictionary, got list"),
    (lambda: ops.split_heads(X, 2.0), "H: expected an integer, 1 ≤ H, got 2.0"),
]
BAD = [(ValueError, *row) for row in VALUES] + [(TypeError, *row) for row in TYPES]


@pytest.mark.parametrize(("error", "call", "said"), BAD)
def test_bad_input_is_named(error, call, said):
    with pytest.raises(error, match=said):
        call()
