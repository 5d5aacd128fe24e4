"""The edits of a right function: each rule makes the mistake that it names, and says it in words."""

import ast
import inspect

import numpy as np
import pytest

from handgrad.mistakes.mutations import Program, watched, wrong_backwards
from handgrad.mistakes.rules import KINDS, LINE_RULES, code, expression, replaced
from handgrad.ops import softmax_backward
from handgrad.ops.normalization import layer_norm, layer_norm_backward
from handgrad.ops.table import NUMERIC_SIZES, OPS


def centre(x, w, mask):
    weighted = w * x
    mean = weighted.mean(axis=-1, keepdims=True)
    gram = x @ weighted.mT
    s = np.where(mask, gram / np.sqrt(mean.shape[-2]), -np.inf)
    return x - mean - 2 * (w**3), np.exp(s).sum(axis=-1)


RNG = np.random.default_rng(0)
ARGUMENTS = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 3, 4)), RNG.random((2, 3, 3)) < 0.7
SIZES = {"D": 4}

# Of every kind: some words of one edit, and the line that it makes.
EXPECTED = [
    ("order", "the wrong order", "return (np.exp(s).sum(axis=-1), x - mean - 2 * w ** 3)"),
    ("term", "the term `mean` is missing", "x - 2 * w ** 3"),
    ("only", "only the term `x` is there", "return (x, np"),
    ("sign", "the term `mean` has the wrong sign", "x + mean - 2 * w ** 3"),
    ("factor", "the factor `w` is missing, in `w * x`", "weighted = x"),
    ("divisor", "the division by `sqrt(mean.shape[-2])` is missing", "np.where(mask, gram, -np.inf)"),
    ("exchanged", "the two sides of `x @ weighted.mT` are exchanged", "gram = weighted.mT @ x"),
    ("transpose", "`weighted` is not transposed in `x @ weighted.mT`", "gram = x @ weighted"),
    ("sum or mean", "a sum stands where a mean should", "mean = weighted.sum(axis=-1, keepdims=True)"),
    ("axis", "the mean runs over axis -2, not over axis -1", "mean = weighted.mean(axis=-2, keepdims=True)"),
    ("axis", "the sum runs over the whole array", "np.exp(s).sum()"),
    ("keepdims", "`keepdims=True` is missing", "mean = weighted.mean(axis=-1)"),
    ("condition", "`mask` is used the wrong way round", "np.where(mask, -np.inf, gram / "),
    ("condition", "`mask` is not asked", "s = gram / np.sqrt(mean.shape[-2])"),
    ("size", "D stands where `mean.shape[-2]` should", "np.sqrt(D)"),
    ("inverse", "`sqrt(mean.shape[-2])` multiplies where it should divide", "gram * np.sqrt(mean.shape[-2])"),
    ("twice", "`w` stands there twice", "weighted = w * x * w"),
    ("reduction", "the mean is not taken", "mean = weighted\n"),
    ("name", "`w` stands where `x` should, in `w * x`", "weighted = w * w"),
    ("step", "`exp` is left out", "s.sum(axis=-1)"),
    ("early", "this is `w`, and not yet `mean(weighted)`", "mean = w\n"),
    ("number", "3 stands where 2 should", "3 * w ** 3"),
    (
        "number",
        "-1e9 stands where -∞ should",
        "np.where(mask, gram / np.sqrt(mean.shape[-2]), -1000000000.0)",
    ),
    ("power", "`w` has the power 2, not 3", "2 * w ** 2"),
    ("power", "a root is missing", "gram / mean.shape[-2]"),
    ("batch", "`x @ weighted.mT` is summed over the batch", "gram = (x @ weighted.mT).sum(axis=0)"),
    ("negative", "`w * x` has the wrong sign", "weighted = -(w * x)"),
    ("names", "`w` and `x` are exchanged", "weighted = x * w"),
    ("weights", "`x` is left out of `x @ weighted.mT`", "gram = (0 * x + 1) @ weighted.mT"),
    ("taken", "which should be taken away", "return (mean + 2 * w ** 3"),
    ("too many", "the factor `2` is too many, at `w * x`", "weighted = w * x * 2"),
    ("too many", "the division by `D` is too many, at `w * x`", "weighted = w * x / D"),
    ("centred", "the mean is taken away from `x`", "w * (x - x.mean(axis=-1, keepdims=True))"),
    ("guard", "1e-8 is added to `sqrt(mean.shape[-2])`", "gram / (np.sqrt(mean.shape[-2]) + 1e-08)"),
]


def source(program, edit):
    """The text of the program after an edit."""
    return ast.unparse(replaced(program.tree, {id(old): new for old, new in edit.changes})) + "\n"


def heavy(x, w):
    y = (w * x).mean(axis=-1, keepdims=True) * (x + w)
    z = np.exp(x - w) * (x**2).sum(axis=-1, keepdims=True)
    return w * y - z * x


OTHERS = [
    ("outside", "`w` stands outside a mean", "y = x.mean(axis=-1, keepdims=True) * w * (x + w)"),
    ("outside", "`w` stands outside `exp`", "z = (np.exp(x) - w) *"),
    ("outside", "the power stands outside a sum", "x.sum(axis=-1, keepdims=True) ** 2"),
    (
        "apart",
        "this is a product of means",
        "x.mean(axis=-1, keepdims=True) * w.mean(axis=-1, keepdims=True)",
    ),
    ("partly", "does not reach `w`", "y = x * (w * x).mean(axis=-1, keepdims=True) + w"),
    ("partly", "the brackets around `x + w` are missing", "keepdims=True) * x + w"),
    ("moved", "the factor `w` belongs to", "return y - z * x * w"),
]


def walk(dy, cache, *, steps, flag=None):
    grads, dh, first, last = {"W": 0.0}, dy, 1, 3
    if flag and "post" in cache:
        dh, scale = np.divmod(cache["post"], cache["scale"])
    for n in reversed(range(steps)):
        dh *= dy.ndim - n
        grads["W"] += dh[first:last].sum(axis=0, keepdims=steps > 2)
    kept = {name: gradient for name, gradient in grads.items() if steps < dy.size}
    return dh, grads if flag is None else kept


LINES = [
    ("step", "the line `dh *= dy.ndim - n` is left out", "        pass\n"),
    ("term", "`=` stands in `grads['W'] += ", "        grads['W'] = dh[first:last]"),
    ("sign", "-= dh[first:last]", "        grads['W'] -= dh[first:last]"),
    ("sign", "`dh /= dy.ndim - n` stands where `dh *= dy.ndim - n` should", "        dh /= dy.ndim - n"),
    (
        "condition",
        "`flag and 'post' in cache` is used the wrong way round",
        "if not (flag and 'post' in cache):",
    ),
    ("condition", "is not asked: it is always True", "    if True:"),
    ("condition", "`flag` is not asked, of `flag and 'post' in cache`", "    if 'post' in cache:"),
    ("condition", "`steps < dy.size` is not asked: it is always False", "grads.items() if False}"),
    ("condition", "`flag is None` is used the wrong way round", "grads if not flag is None else"),
    ("condition", "`steps >= 2` stands where `steps > 2` should", "keepdims=steps >= 2)"),
    ("order", "is run through the other way round", "for n in list(reversed(range(steps)))[::-1]:"),
    ("order", "has lost its first", "for n in list(reversed(range(steps)))[1:]:"),
    ("order", "has lost its last", "for name, gradient in list(grads.items())[:-1]"),
    ("size", "the slice `first:last` has lost `last`", "dh[first:].sum("),
    ("number", "1 stands where 0 should", ".sum(axis=1, "),
    ("name", '"post" stands where "scale" should', "np.divmod(cache['post'], cache['post'])"),
    ("name", "`last` stands where `first` should", "dh[last:last]"),
    ("names", "`dh` and `scale` are exchanged, at the left", "scale, dh = np.divmod("),
    ("name", "`dy.size` stands where `dy.ndim` should", "dy.size - n"),
]


FOUND = {"dy": RNG.normal(size=(4, 3)), "steps": 2, "first": 1, "last": 3}


SAID = [(Program(centre), (ARGUMENTS, SIZES), row) for row in EXPECTED]
SAID += [(Program(heavy), (ARGUMENTS[:2],), row) for row in OTHERS]
SAID += [(Program(walk, lines=True), FOUND, row) for row in LINES]


@pytest.mark.parametrize(
    "program, given, row", SAID, ids=[f"{row[0]}-{n}" for n, (*_, row) in enumerate(SAID)]
)
def test_an_edit_is_what_its_words_say(program, given, row):
    kind, words, line = row
    edits = program.edits_of(given) if program.lines else program.edits(*given)
    edits = [e for e in edits if e.kind == kind and words in e.place]
    made = [program.source(e) if program.lines else source(program, e) for e in edits]
    assert any(line in text for text in made), made or words


def turned(x, angle):
    def both(a):
        return np.cos(a), np.sin(a)

    cos, sin = both(angle)[0], np.sin(angle)
    return cos * x - sin


def test_every_kind_is_expected_here():
    assert {kind for kind, *_ in EXPECTED + OTHERS} | {"entries"} == set(KINDS)


def test_one_mistake_at_several_places():
    def chain(dy, a):
        da = dy @ a.mT
        return (a * da).sum(axis=-1), (a * dy).sum(axis=-1), (dy * da).sum(axis=-1)

    program = Program(chain, outputs=("x", "y", "z"))
    a, dy = RNG.normal(size=(2, 3, 3)), RNG.normal(size=(2, 3, 3))
    habits = [e for e in program.edits((dy, a)) if e.scope == "Everywhere" and "a mean stands" in e.what]
    assert len(habits) == 1 and source(program, habits[0]).count(".mean(") == 3
    but = [
        e for e in program.edits((dy, a)) if e.scope.startswith("Everywhere but for") and "a mean" in e.what
    ]
    assert sorted(source(program, e).count(".mean(") for e in but) == [2, 2, 2]
    assert {e.label for e in program.edits((dy, a)) if e.kind == "sum or mean" and not e.scope} == set("xyz")


def test_an_edited_function_runs_and_the_right_one_stays_as_it_is():
    before = inspect.getsource(centre)
    program = Program(centre)
    right = centre(*ARGUMENTS)
    for mine, own in zip(program.function()(*ARGUMENTS), right):
        assert np.array_equal(mine, own)
    edit = next(e for e in program.edits(ARGUMENTS) if "the term `mean` is missing" in e.what)
    assert not np.array_equal(program.function(edit)(*ARGUMENTS)[0], right[0])
    assert np.array_equal(program.function()(*ARGUMENTS)[0], right[0]) and inspect.getsource(centre) == before


def test_the_mutants_of_a_shipped_backward():
    """Among those of LayerNorm is the formula that is in print: γ outside the sums."""
    x, gamma, dy = RNG.normal(size=(2, 3, 4)), RNG.normal(1, 0.5, 4), RNG.normal(size=(2, 3, 4))
    _, cache = layer_norm(x, gamma, 0 * gamma)
    x_hat, r = cache["x_hat"], cache["inverse_std"]
    printed = gamma * r * (dy - dy.mean(-1, keepdims=True) - x_hat * (dy * x_hat).mean(-1, keepdims=True))
    found = []
    program = Program(layer_norm_backward, outputs=("dx", "dgamma", "dbeta"))
    for edit in program.edits((dy, cache)):
        try:
            dx = program.function(edit)(dy, cache)[0]
        except Exception:
            continue  # an edit need not run
        if np.shape(dx) == printed.shape and np.allclose(dx, printed, rtol=1e-12, atol=0):
            found.append(edit)
    assert any(edit.kind == "moved" for edit in found)


def test_the_wrong_backwards_of_an_operation_differ_from_the_right_one_and_from_each_other():
    op = OPS["softmax"]
    found = wrong_backwards(op)
    assert len(found) > 50 and [m.place for m in found] == [m.place for m in wrong_backwards(op)]
    inputs, options = op.draw(NUMERIC_SIZES, np.random.default_rng(3))
    a, cache = op.forward(**inputs, **options)
    da = RNG.normal(size=a.shape)
    right = softmax_backward(da, cache)
    wrong = [m.backward(da, cache) for m in found if not m.same]
    differ = [np.shape(g) != right.shape or np.abs(g - right).max() > 1e-11 for g in wrong]
    assert sum(differ) >= 0.9 * len(wrong)  # some differ from it on other kinds of input only


def test_private_functions_are_edited_and_lines_that_are_not_reached_are_not():
    places = {m.place for m in wrong_backwards(OPS["rotary"])}
    assert any(place.startswith("_turn: ") for place in places)
    rotary = {m.place for m in wrong_backwards(OPS["rotary_attention"])}
    plain = {m.place for m in wrong_backwards(OPS["self_attention"])}
    turned = {place for place in rotary if "`rotary_backward` is left out" in place}
    assert turned and not turned & plain


def test_what_runs_on_some_kinds_of_input_only_is_wrong_and_says_so_where_it_raises():
    """γ's gradient summed over two axes: right for sequences, and no sum for a matrix of tokens."""
    op = OPS["layer_norm"]
    mutant = next(
        m for m in wrong_backwards(op) if m.place.startswith("In `dgamma`: the sum runs over axis (0, 1)")
    )
    assert not mutant.same
    for leading in op.leading[:2]:
        inputs, options = op.draw(NUMERIC_SIZES | {"...": leading}, np.random.default_rng(0))
        y, cache = op.forward(**inputs, **options)
        if leading == "B T":
            assert np.allclose(mutant.backward(y, cache)[1], op.backward(y, cache)[1], rtol=1e-12)
        else:
            assert mutant.backward(y, cache)[1].shape != inputs["gamma"].shape


def test_what_changes_nothing_is_kept_apart():
    same = {m.place for m in wrong_backwards(OPS["silu"]) if m.same}
    assert same == {"Everywhere: `sigma` and `x` are exchanged."}


def test_a_function_inside_another_one_is_edited_with_its_variables():
    def cubed(n):
        def backward(dy, cache):
            return n * dy * cache["x"] ** 2

        return backward

    x = np.arange(1.0, 4)
    edited = Program(cubed(3))
    np.testing.assert_array_equal(edited.function()(x, {"x": x}), 3 * x**3)
    assert edited.edits((x, {"x": x}))


def test_axes_behind_a_star_are_called_by_their_name():
    def backward(dy, cache):
        axes = (*range(dy.ndim - 2), -1)
        return np.sum(dy, axis=axes), dy

    edits = Program(backward).edits((np.ones((2, 3, 4)), {}))
    assert {edit.label for edit in edits if edit.kind == "order"} == {"the results"}
    assert {edit.label for edit in edits if edit.kind == "entries"} == {"axes"}


def test_only_what_the_function_returns_is_called_its_results():
    edits = Program(turned).edits((np.ones(3), np.ones(3)))
    assert not any(edit.kind == "order" or edit.label == "the results" for edit in edits)
    assert {edit.label for edit in edits if edit.kind == "entries"} == {"both", "cos, sin"}


def test_what_is_no_function_is_refused():
    with pytest.raises(ValueError, match="function: expected the source of a function, got 'x = 1'"):
        Program("x = 1")


def test_expressions_read_as_one_says_them():
    tree = expression(
        "np.mean(A, axis=-1, keepdims=True) * xp.sum(B, axis=0)", A=expression("x"), B=expression("y")
    )
    assert code(tree) == "`mean(x) * sum(y, axis=0)`"
    assert code(expression("cache['a'] * da")) == "`a * da`"
    assert code(expression("a" * 100)).endswith("…`")


def test_every_rule_of_lines_is_used_and_only_where_lines_are_asked_for():
    program = Program(walk, lines=True)
    for rule in LINE_RULES:
        assert any(edit for line in program._lines(FOUND) for edit in rule(line)), rule
    assert not any("is not asked" in edit.what for edit in Program(walk).edits_of(FOUND))


def test_the_variables_of_a_call_are_seen_at_its_end_also_those_of_a_function_inside():
    def outer(x):
        def inner(y):
            z = y + 1
            return [n * z for n in range(2)]

        x = inner(x)
        return x

    with watched(outer, centre) as calls:
        assert outer(2) == [0, 3]
    assert [(f, sorted(found)) for f, found in calls] == [(outer, ["y", "z"]), (outer, ["inner", "x"])]
    assert calls[0][1] == {"y": 2, "z": 3} and calls[1][1]["x"] == [0, 3]
