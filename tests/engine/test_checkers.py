"""The witnesses on trial: each must refute every wrong gradient, and name one that is wrong."""

from dataclasses import replace
from math import prod

import mpmath
import numpy as np
import optree
import pytest

from handgrad import check, sums, symbolic
from handgrad.algebra import is_shape, namespace
from handgrad.course import ledger
from handgrad.mistakes.known import stories
from handgrad.mistakes.mutations import Mutant, wrong_backwards
from handgrad.ops.attention import attention_backward
from handgrad.ops.flash_attention import flash_attention_backward
from handgrad.ops.softmax import softmax_backward
from handgrad.ops.table import NUMERIC_SIZES, OPS

SMALL = NUMERIC_SIZES | dict(B=2, T=3, S=4, D=4, E=3, F=4, M=4, K=2)

WITNESSES = {
    "prove": lambda op, rng: check.Proof(op),
    "differences": check.Differences,
    "differences50": lambda op, rng: check.Differences(op, rng, digits=50, sizes=SMALL),
    "autograd": check.Autograd,
}


def wrong_gradients(name):
    """The stories, and changes of one gradient, whose names the witnesses must tell: {what: Op}."""
    op, wrong = OPS[name], dict(stories(name))
    names = [leaf for name, shapes in op.inputs.items() for leaf in check.leaf_names({name: shapes})]
    for i, leaf in enumerate(names):
        if leaf != "b_K":  # its gradient is 0, since softmax does not feel a shift: 2 · 0 is not wrong
            for what, up in (("zero", 0), ("1.001 times too large", 1001)):
                backward = _changed(name, i, lambda g, dy, cache, up=up: up * g / 1000)
                wrong[f"only d{leaf} is {what}"] = replace(op, backward=backward)
    return wrong


def _changed(name, i, change):
    """The right backward but for leaf i of its gradients, which becomes change(leaf, dy, cache)."""

    def backward(dy, cache):
        leaves, structure = optree.tree_flatten(OPS[name].backward(dy, cache))
        leaves[i] = change(leaves[i], dy, cache)
        return optree.tree_unflatten(structure, leaves)

    return backward


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


SAME = {}  # what a test has found in this process: {operation: edits that change nothing}


@pytest.mark.parametrize("name", OPS)
def test_the_witnesses_refute_every_wrong_backward_that_an_edit_makes(name):
    """And what an edit does not change, an identity explains; the ledger asserts both.

    It proves the right one too, entry by entry, and compares it with differences of both kinds.
    """
    op, entry = OPS[name], ledger.entry(name)
    SAME[name] = set(entry.same)
    shapes = [op.shapes(op.sizes | {"...": axes}) for axes in op.leading[:2]]
    assert entry.proved == sum(prod(s) for s in optree.tree_leaves(shapes, is_leaf=is_shape))
    assert entry.float64 < 1e-7 and entry.digits50 < 1e-28
    assert entry.mutants >= 6 and entry.float64_refuted >= 0.96 * entry.mutants


def test_no_identity_is_named_in_vain():
    for name in OPS.keys() - SAME.keys():
        SAME[name] = {mutant.place for mutant in wrong_backwards(OPS[name]) if mutant.same}
    explained = {place for places in ledger.IDENTITIES.values() for place in places}
    assert set.union(*SAME.values()) == explained


def test_an_edit_that_changes_nothing_without_a_reason_stops_the_ledger():
    place = next(iter(ledger.entry("silu").same))
    others = {why: [p for p in places if p != place] for why, places in ledger.IDENTITIES.items()}
    with pytest.raises(AssertionError, match="silu: this changes nothing, and nobody says why"):
        ledger.entry("silu", identities=others)


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("name", OPS)
def test_each_witness_refutes_each_wrong_gradient_by_name(witness, name):
    op = OPS[name]
    refute = WITNESSES[witness](op, np.random.default_rng(5))
    for what, wrong in wrong_gradients(name).items():
        names = wrong_names(op, wrong, NUMERIC_SIZES)
        assert names, f"{name}, {what}: not wrong at all"
        with pytest.raises(AssertionError) as refuted:
            refute(wrong.backward)
            pytest.fail(f"{witness} accepts {name}: {what}", pytrace=False)
        said = str(refuted.value)
        assert said.startswith(tuple(f"d{n}" for n in names)), f"{name}, {what}: {witness} says {said}"
    refute(op.backward)  # the wrong ones have left nothing behind


# The draws on trial: what is wrong at one shape only is refuted by the draw that has it


def labels(op):
    """What each kind of draw changes, in words: "... = B H T", "B = 20, T = 1"."""
    kinds = op.kinds(NUMERIC_SIZES)
    return [
        ", ".join(f"{k} = {v}".strip() for k, v in kind.items() if NUMERIC_SIZES.get(k) != v)
        for kind in kinds
    ]


def accepts(witness, backward):
    try:
        witness(backward)
    except AssertionError:
        return False
    return True


def _at(name, i, condition):
    """Leaf i of the gradients is 0 where the condition on dy holds."""
    return _changed(name, i, lambda g, dy, cache: 0 * g if condition(dy) else g)


def _all_heads_in_one(dy, cache):
    """A product over all axes but the last, where the first two are joined and no more."""
    dx, dgamma, dbeta = OPS["layer_norm"].backward(dy, cache)
    axes = tuple(range(min(2, dy.ndim - 1)))
    return dx, namespace(dy).sum(dy * cache["x_hat"], axis=axes), dbeta


def _sum_of_100_rows(x):
    return x.reshape((-1, x.shape[-1]))[:100, :].sum(0)


def _lonely_query_bias(dy, cache):
    """db_Q is 0 where keys and values have no bias."""
    dx, dparams = OPS["rotary_attention"].backward(dy, cache)
    return dx, dparams if "b_K" in dparams else dparams | {"b_Q": 0 * dparams["b_Q"]}


def _softmax_of_a_matrix(da, cache):
    a = cache["a"]
    return a * (da - namespace(da).sum(a * da, axis=1, keepdims=True))


def _softmax_of_64_keys(da, cache):
    a = cache["a"]
    return a * (da - namespace(da).sum((a * da)[..., :64], axis=-1, keepdims=True))


def _rotary_of_33_positions(dy, cache):
    cos, sin = (cache[name][[min(t, 32) for t in range(dy.shape[-2])], :] for name in ("cos", "sin"))
    return OPS["rotary"].backward(dy, cache | {"cos": cos, "sin": sin})


def _not_transposed_where_square(dy, cache):
    dq, dk, dv = attention_backward(dy, cache)
    square = cache["a"].shape[-1] == cache["a"].shape[-2]
    return dq, dk, cache["kept"] @ dy if square else dv


def _mask_of_the_first_sequence(dy, cache):
    """Every sequence of a batch is masked as the first."""
    mask = cache["mask"]
    return flash_attention_backward(dy, cache | {"mask": mask[:1, ...] if mask.ndim == 3 else mask})


def _never_causal(dy, cache):
    return flash_attention_backward(dy, cache | {"causal": False})


def _axes_of_copies_exchanged(dy, cache):
    B, HG, S, K = dy.shape
    G = cache["G"]
    return namespace(dy).sum(namespace(dy).reshape(dy, (B, G, HG // G, S, K)), axis=1)


EVERY_KIND, HEADS, LONG = "every kind", "... = B H T", "B = 1, T = 120"
MATRICES = ["... = B T", HEADS, "B = 20, T = 1", "S = 5", "S = 70"]


def _in_heads(dy):
    return dy.ndim == 4


def _eleven_places(dy):
    return dy.shape[1] == 11


NORM, LINEAR, GATED, DROPPING = "layer_norm", "linear", "gated_feed_forward", "attention_dropout"
DGAMMA = _changed(NORM, 1, lambda g, dy, cache: _sum_of_100_rows(dy * cache["x_hat"]))
DB = _changed(LINEAR, 2, lambda g, dy, cache: _sum_of_100_rows(dy))
BLIND_SPOTS = [
    (NORM, "dγ sums two axes", _all_heads_in_one, [HEADS]),
    (NORM, "dγ of 100 rows", DGAMMA, [LONG]),
    (NORM, "no dβ with heads", _at(NORM, 2, _in_heads), [HEADS]),
    (GATED, "no dW_up with heads", _at(GATED, 3, _in_heads), [HEADS]),
    ("rms_norm", "no dγ in a matrix", _at("rms_norm", 1, lambda dy: dy.ndim == 2), ["... = T"]),
    ("softmax", "axis 1 for -1", _softmax_of_a_matrix, MATRICES),
    ("softmax", "64 keys in the row sum", _softmax_of_64_keys, ["S = 70"]),
    ("rotary", "33 angles", _rotary_of_33_positions, ["T = 40"]),
    (LINEAR, "db of 100 rows", DB, [LONG]),
    ("attention", "dv not transposed if T = S", _not_transposed_where_square, ["S = 5"]),
    ("attention", "no dq of one query", _at("attention", 0, lambda dy: dy.shape[-2] == 1), ["B = 20, T = 1"]),
    (DROPPING, "no dv of heads", _at(DROPPING, 2, _in_heads), ["... = B H"]),
    ("flash_attention", "one mask for the batch", _mask_of_the_first_sequence, ["... = B", "S = 5"]),
    ("flash_attention", "the future is not hidden", _never_causal, ["S = 5"]),
    ("add_positions", "dP of a full table", _at("add_positions", 1, _eleven_places), ["T = 11"]),
    ("repeat_heads", "H and G exchanged", _axes_of_copies_exchanged, EVERY_KIND),
    ("rotary_attention", "no db_Q without b_K", _lonely_query_bias, ["... ="]),
]


@pytest.mark.parametrize("witness", [check.Differences, check.Autograd])
@pytest.mark.parametrize(("name", "what", "wrong", "kinds"), BLIND_SPOTS)
def test_what_is_wrong_at_one_shape_is_refuted_there_and_only_there(name, what, wrong, kinds, witness):
    op, rng = OPS[name], np.random.default_rng(1)
    witnesses = dict(zip(labels(op), [witness(op, rng, *draw) for draw in op.draws(rng)], strict=True))
    refuting = [label for label, one in witnesses.items() if not accepts(one, wrong)]
    assert refuting == (list(witnesses) if kinds == EVERY_KIND else kinds)
    assert not accepts(witness(op, rng), wrong)  # all draws together


@pytest.mark.parametrize("witness", [check.Differences, check.Autograd])
@pytest.mark.parametrize("name", OPS)
def test_no_draw_is_passed_over(name, witness):
    op = OPS[name]
    all_draws = witness(op, np.random.default_rng(0))
    assert len(all_draws.draws) == len(op.kinds(NUMERIC_SIZES)) + (witness is check.Autograd)
    for draw in all_draws.draws:

        def wrong(dy, cache, draw=draw):
            gradients = op.backward(dy, cache)
            return optree.tree_map(lambda g: 2 * g, gradients) if any(cache is x for x in draw) else gradients

        assert not accepts(all_draws, wrong)


@pytest.mark.parametrize("name", OPS)
def test_the_draws_are_varied(name):
    op = OPS[name]
    letters = {c for shape in optree.tree_leaves(op.inputs) for c in shape if c.isalpha()}
    letters |= {c for c in op.leading[0] if c.isalpha()}
    sizes = [NUMERIC_SIZES[letter] for letter in letters]
    assert len(set(sizes)) == len(sizes) and min(sizes) > 1
    draws = op.draws(np.random.default_rng(0))
    axes = {tuple(np.ndim(x) for x in optree.tree_leaves(draw)) for draw in draws}
    assert len(axes) == len(op.leading)
    kinds = op.kinds(NUMERIC_SIZES)
    assert any(kind["T"] == 1 for kind in kinds) == ("T" in letters)
    if {"T", "S"} <= letters:
        assert any(kind["T"] == kind["S"] for kind in kinds)
    if "B" in letters:
        assert op.sizes["B"] > 1


def test_the_kink_is_met_by_autograd_alone():
    """At 0 there is no derivative that differences or symbols could find; torch and we say 0."""
    rng = np.random.default_rng(0)

    def one_at_zero(dy, cache):
        return namespace(dy).where(cache["x"] >= 0, dy, 0)

    assert accepts(check.Differences(OPS["relu"], rng), one_at_zero)
    with pytest.raises(AssertionError, match="dx: relative error"):
        check.Autograd(OPS["relu"], rng)(one_at_zero)


def _summed_over_the_batch(dy, cache):
    """Attention whose dA is summed over the batch."""
    xp, _, dv = namespace(dy), *attention_backward(dy, cache)[1:]
    da = dy @ cache["v"].mT
    da = xp.broadcast_to(xp.sum(da, axis=0, keepdims=True), da.shape)
    ds = softmax_backward(da, cache["normalised"])
    return cache["scale"] * (ds @ cache["k"]), cache["scale"] * (ds.mT @ cache["q"]), dv


def _rest_at_ignored_targets(dloss, cache):
    right = OPS["cross_entropy"].backward(dloss, cache)
    return namespace(right).where(cache["counted"][..., None], right, right + dloss / 10**9)


def test_the_proof_sees_the_batch_and_the_smallest_rest():
    for name, wrong, blind, seeing in [
        ("attention", _summed_over_the_batch, {"B": 1}, {}),
        ("cross_entropy", _rest_at_ignored_targets, {"B": 1, "T": 1}, {}),  # the first target is not ignored
        ("layer_norm", _all_heads_in_one, {}, {"...": "B H T", "H": 2}),
        ("flash_attention", _mask_of_the_first_sequence, {"B": 1}, {}),
    ]:
        op = OPS[name]
        assert accepts(check.Proof(op, op.sizes | blind), wrong)
        assert not accepts(check.Proof(op, op.sizes | seeing), wrong)
    rest = check.Autograd(OPS["cross_entropy"], np.random.default_rng(0))
    assert not accepts(rest, _rest_at_ignored_targets)


def test_the_proof_asks_the_numbers_first_and_then_the_symbols():
    op = OPS["softmax"]
    proof, asked = check.Proof(op), []

    def wrong_for(algebra):
        def backward(da, cache):
            asked.append("numbers" if symbolic.holds_numbers(da) else "symbols")
            return op.backward(da, cache) + int(asked[-1] == algebra)

        return backward

    for algebra, wanted in [("numbers", ["numbers"]), ("symbols", ["numbers", "symbols"])]:
        asked.clear()
        with pytest.raises(AssertionError, match=r"ds\[0, 0, 0\]: .* not 0 but -1.0\d* at a random point"):
            proof(wrong_for(algebra))
        assert asked == wanted
    with pytest.raises(AssertionError, match="not 0 but nan"):
        proof(lambda da, cache: op.backward(da, cache) * mpmath.nan)


def test_a_witness_refutes_a_missing_gradient_a_wrong_shape_and_nan():
    op = OPS["linear"]
    for backward, said in [
        (lambda dy, cache: op.backward(dy, cache)[:2], "expected 3 gradients, got 2"),
        (lambda dy, cache: (*op.backward(dy, cache)[:2], dy), "db: expected shape"),
        (lambda dy, cache: (*op.backward(dy, cache)[:2], 1.0), r"db: expected shape .*, got \(\)"),
        (lambda dy, cache: (op.backward(dy, cache)[0].T, *op.backward(dy, cache)[1:]), "dx: expected shape"),
        (lambda dy, cache: tuple(np.nan * g for g in op.backward(dy, cache)), "dx: relative error nan"),
    ]:
        with pytest.raises(AssertionError, match=said):
            check.differences(
                check.Pair(op.forward, backward),
                np.random.default_rng(0),
                *op.draw(NUMERIC_SIZES, np.random.default_rng(0)),
            )


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
    assert all(symbolic.is_zero(e) is True for e in zero)
    assert all(symbolic.is_zero(e) is False for e in other)


def test_steps_are_reduced_where_their_laws_hold_and_nowhere_else():
    import sympy

    x, y = sympy.symbols("x y", real=True)
    step, relu = symbolic.step, x * symbolic.step(x)
    zero = [
        step(x) ** 2 - step(x),
        (1 + step(x)) ** 3 - 1 - 7 * step(x),
        step(relu) - step(x),
        step(3 * x * sympy.exp(y)) - step(x),
        step(x - y) + step(y - x) - 1,
        step(x**2) - 1,
        step(-relu),
        step(x * (y + 1)) - step(x * y + x),
        1 / (1 + step(x)) - 1 + step(x) / 2,
        sympy.sqrt(relu**2 + 1) ** 2 - x * relu - 1,
    ]
    other = [
        step(-relu) - 1 + step(x),  # -relu is 0 on a whole side
        step(x + y) - step(x) * step(y),
        step(x) - step(x - 1),
        1 / step(x) - 1,
        step(x) ** 2 + step(x),
        step(x) * step(y) - step(x * y),
    ]
    assert all(symbolic.is_zero(e) is True for e in zero)
    assert all(symbolic.is_zero(e) is False for e in other)
    assert symbolic.is_zero(sympy.Abs(x) * step(x) - relu) is None  # 0, but no law of ours says so


# Kinks: what is right is proved however it is written, what is wrong is refuted, and the rest is "not proved"


def above(of, x):
    xp = namespace(x)
    return xp.where(xp.greater(of, 0), x, 0)


def kinked(forward, inputs):
    return replace(OPS["relu"], forward=forward, inputs=inputs)


def relu_squared(x):
    r = above(x, x)
    return r * r, {"x": x, "r": r, "y": r * r}


def relu_twice(x):
    r = above(x, x)
    return above(r, r), {"x": x, "r": r}


def gated_square(x, gate):
    r = above(gate, gate)
    return x * r * r, {"x": x, "gate": gate, "r": r}


ROWS = "... T D"
KINKED = {  # the layer, right backwards and wrong ones, in the names of dy, `above` and the cache
    "squared ReLU": (
        kinked(relu_squared, {"x": ROWS}),
        ["2*dy*r", "2*dy*above(x, x)", "above(x, 2*dy*r)", "above(r, 2*dy*x)", "above(y, 2*dy*r)"]
        + ["2*dy*(x - above(-x, x))", "dy*r + above(x, dy*x)"],
        ["dy*r", "2*dy*x", "above(x, dy)", "2*dy*r**2", "2*dy*above(-x, x)", "above(dy, 2*dy*r)"]
        + ["2*dy*(r + x)/2"],
    ),
    "ReLU twice": (
        kinked(relu_twice, {"x": ROWS}),
        ["above(x, dy)", "above(r, dy)", "above(x, above(r, dy))", "dy - above(-x, dy)"],
        ["dy", "above(x, dy)*2", "above(-r, dy)", "above(dy, dy)", "above(x - 1, dy)"],
    ),
    "gated square": (
        kinked(gated_square, {"x": ROWS, "gate": ROWS}),
        [
            "dy*r*r, 2*dy*x*r",
            "dy*gate*r, above(gate, 2*dy*x*gate)",
            "above(r, dy*gate**2), above(gate, 2*dy*x*r)",
        ],
        ["dy*r, 2*dy*x*r", "dy*gate**2, 2*dy*x*r", "dy*r**2, dy*x*r", "dy*r**2, 2*dy*r"]
        + ["dy*r**2, 2*dy*x*gate", "dy*r**2, above(x, 2*dy*x*r)"],
    ),
}


def written(formula):
    """The backward that a formula of the table says."""
    return lambda dy, cache: eval(formula, {"dy": dy, "above": above} | cache)


@pytest.mark.parametrize("name", KINKED)
def test_a_kinked_layer_is_proved_however_its_backward_is_written(name):
    op, right, wrong = KINKED[name]
    proof = check.Proof(op)
    numbers = check.Differences(op, np.random.default_rng(0))
    for formula in right:
        assert accepts(numbers, written(formula)) and proof(written(formula)) > 0, formula
    for formula in wrong:
        assert not accepts(numbers, written(formula)), formula
        with pytest.raises(AssertionError, match="the derivative minus the code is not 0 but") as refuted:
            proof(written(formula))
        assert not isinstance(refuted.value, check.NotProved)


def test_what_is_merely_undecided_is_called_not_proved():
    op, _, _ = KINKED["squared ReLU"]
    proof = check.Proof(op)
    with pytest.raises(
        check.NotProved, match=r"^dx\[0, 0, 0, 0\]: not proved. The derivative minus the code is 0 at"
    ):
        proof(lambda dy, c: 2 * dy * namespace(dy).sqrt(c["y"]))  # right: √(r²) = r
    only_below = lambda dy, c: 2 * dy * (c["r"] + above(c["x"] + 9 / 10, above(-c["x"], c["x"])))  # noqa: E731
    with pytest.raises(AssertionError, match="is not 0 but"):
        proof(only_below)


def test_both_proofs_shorten_a_difference_alike():
    assert check.shortened is sums.shortened is symbolic.shortened
    assert symbolic.shortened("x" * 200) == "x" * 200
    assert symbolic.shortened("x" * 1234) == f"{'x' * 200} … (1,234 characters)"


def test_a_mutant_that_is_merely_not_proved_is_not_counted_as_refuted():
    def undecided(backward):
        raise check.NotProved("dx: not proved")

    with pytest.raises(check.NotProved):
        ledger.rejects(undecided, Mutant("", None, same=False))


def test_a_comparison_of_symbols_says_how_it_is_written():
    op = kinked(lambda x: (namespace(x).where(x > 0, x, 0), {"x": x}), {"x": ROWS})
    with pytest.raises(TypeError, match=r"expected xp.where\(xp.greater\(x, 0\), ...\) .*, got a comparison"):
        check.Proof(op)
