"""Layers that the book does not have stand what its own stand; so does a reader's, in the notebook for it."""

import doctest
import importlib
import re
import tomllib
from dataclasses import replace
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path

import nbformat
import numpy as np
import pytest
import sympy as sp
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import handgrad
from book._ext import api
from handgrad import check
from handgrad.algebra import namespace
from handgrad.chapters import own_layer
from handgrad.chapters.own_layer.alibi import ALIBI, alibi, alibi_backward
from handgrad.chapters.own_layer.group_norm import group_norm, group_norm_backward
from handgrad.chapters.own_layer.soft_cap import SOFT_CAP, soft_cap
from handgrad.course import ledger
from handgrad.mistakes.mutations import wrong_backwards
from handgrad.ops.attention import attention, attention_backward
from handgrad.ops.normalization import layer_norm
from handgrad.ops.table import Op
from handgrad.sums import arrays, gradient, index, prove_equal, sizes, total
from handgrad.symbolic import step

ROOT = Path(__file__).parents[2]
TAUGHT = (ROOT / "book" / "own_layer.md").read_text(encoding="utf-8")
SHOWN = re.search(r"^GROUP_NORM = (Op\(.+?^\))$", TAUGHT, re.MULTILINE | re.DOTALL)[1]
GROUP_NORM = eval(SHOWN, {"own": own_layer.group_norm, "Op": Op, "sp": sp})
LAYERS = {"group_norm": GROUP_NORM, "alibi": ALIBI, "soft_cap": SOFT_CAP}


@pytest.fixture
def rng():
    return np.random.default_rng(7)


# The three layers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYERS)
def test_every_witness_accepts_it_and_refutes_zeros_and_a_factor(name):
    """The page sets the mutants on the witnesses too; here a few, on draws of another seed."""
    op, rng = LAYERS[name], np.random.default_rng(11)
    witnesses = check.prove, lambda op: check.differences(op, rng), lambda op: check.autograd(op, rng)
    for witness in witnesses:
        witness(op)
        for wrong in (lambda d: 0 * d, lambda d: 1.001 * d, lambda d: -d):
            backward = lambda dy, cache, wrong=wrong: tuple(map(wrong, op.backward(dy, cache)))  # noqa: E731
            with pytest.raises(AssertionError, match=r"^d\w+"):
                witness(replace(op, backward=backward))


@pytest.mark.parametrize("name", LAYERS)
def test_a_mutant_without_a_reason_stops_the_row(name):
    with pytest.raises(AssertionError, match=f"{name}: this changes nothing, and nobody says why"):
        ledger.entry(name, LAYERS[name], {})


def test_one_group_of_one_token_is_layer_norm(rng):
    x, (gamma, beta) = rng.standard_normal((3, 4, 1, 6)), rng.standard_normal((2, 6))
    np.testing.assert_allclose(
        group_norm(x, gamma, beta, 1)[0], layer_norm(x, gamma, beta)[0], rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("axes", [(), (3,), (2, 3)])
@pytest.mark.parametrize("G", [1, 2, 3, 6])
def test_group_norm_is_that_of_torch(axes, G, rng):
    torch = pytest.importorskip("torch")
    x = rng.standard_normal((*axes, 5, 6))
    gamma, beta = rng.standard_normal((2, 6))
    y, cache = group_norm(x, gamma, beta, G, eps=1e-3)
    dy = rng.standard_normal(y.shape)
    theirs = [torch.tensor(a, requires_grad=True) for a in (x, gamma, beta)]
    channels_first = theirs[0].reshape(-1, 5, 6).mT
    out = torch.nn.functional.group_norm(channels_first, G, *theirs[1:], eps=1e-3).mT.reshape(x.shape)
    np.testing.assert_allclose(y, out.detach(), rtol=1e-11, atol=1e-12)
    for ours, wanted in zip(
        group_norm_backward(dy, cache), torch.autograd.grad(out, theirs, torch.tensor(dy))
    ):
        np.testing.assert_allclose(ours, wanted, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("T, S", [(4, 4), (2, 5), (5, 3)])
def test_no_slope_is_causal_attention_and_a_steep_one_looks_at_itself(T, S, rng):
    """With S < T the first queries see nothing, give 0 and send nothing back."""
    q, k, v = (rng.standard_normal((2, 3, n, 4)) for n in (T, S, S))
    mask = np.arange(S - T, S)[:, None] >= np.arange(S)
    y, cache = alibi(q, k, v, np.zeros(3))
    theirs, their_cache = attention(q, k, v, mask)
    np.testing.assert_allclose(y, theirs, rtol=1e-12)
    dy = rng.standard_normal(y.shape)
    for ours, wanted in zip(alibi_backward(dy, cache), attention_backward(dy, their_cache)):
        np.testing.assert_allclose(ours, wanted, rtol=1e-10, atol=1e-13)
    steep, _ = alibi(q, k, v, np.full(3, 1e4))
    np.testing.assert_allclose(steep[..., -1, :], v[..., -1, :])
    assert (y[..., : max(T - S, 0), :] == 0).all()


def test_a_wide_cap_is_no_cap_and_the_mask_holds_under_a_narrow_one(rng):
    q, k, v = (rng.standard_normal((2, n, 4)) for n in (3, 5, 5))
    mask = np.array([[True] * 5, [True, False] * 2 + [False], [False] * 5])
    np.testing.assert_allclose(soft_cap(q, k, v, mask, 1e6)[0], attention(q, k, v, mask)[0], rtol=1e-9)
    narrow, cache = soft_cap(100 * q, k, v, mask, 0.1)
    assert (cache["a"][:, ~mask] == 0).all() and (narrow[:, 2] == 0).all()
    assert np.ptp(cache["a"][:, 0]) < 0.06, "capped at 0.1, no weight can be far from another"


ONES = np.ones(6)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda x: group_norm(x, ONES, ONES, 4), ValueError, "G: expected a divisor of D = 6, got 4"),
        (lambda x: group_norm(x, ONES, ONES, 2.0), TypeError, "G: expected an integer"),
        (lambda x: group_norm(x, ONES[:1], ONES, 2), ValueError, "gamma: expected shape"),
        (lambda x: group_norm(x[0, 0], ONES, ONES, 2), ValueError, "x: expected shape"),
        (lambda x: alibi(x, x, x, np.ones(2)), ValueError, "slope: expected shape"),
        (lambda x: alibi(x[0], x[0], x[0], np.ones(1)), ValueError, r"q: expected shape \(..., H, T, K\)"),
        (lambda x: soft_cap(x, x, x, np.ones((5, 5))), TypeError, "mask: expected Booleans"),
        (lambda x: soft_cap(x, x, x, np.ones((5, 5), bool), None), TypeError, "c: expected a number"),
    ],
)
def test_bad_input_is_named(call, error, words, rng):
    with pytest.raises(error, match=words):
        call(rng.standard_normal((3, 5, 6)))


@pytest.mark.parametrize("name", LAYERS)
def test_float32_stays_float32(name):
    inputs, options = LAYERS[name].draw(
        dict(B=2, T=3, S=4, D=6, G=2, E=3, H=2, K=4), np.random.default_rng(1)
    )
    y, cache = LAYERS[name].forward(**{n: x.astype(np.float32) for n, x in inputs.items()}, **options)
    gradients = LAYERS[name].backward(np.ones_like(y), cache)
    assert {y.dtype, *(g.dtype for g in gradients)} == {np.dtype(np.float32)}


# What does not do at a kink, row by row of the page ---------------------------------------------------------

D = sizes("D")
j, (x, other, dy) = index("j", D), arrays("x z dy")
FORMULAS = {  # what the page writes: a formula that does not do, what is said, one that does; the slope
    "x * sp.Heaviside(x * y)": (
        lambda x, y: x * sp.Heaviside(x * y),
        (ValueError, "expected functions that have numbers, got DiracDelta"),
        lambda x, y: x * step(x * y),
        lambda x, y: step(x * y),
    ),
    "sp.Piecewise((x, sp.And(x > 0, x < 1)), (0, True))": (
        lambda x, _: sp.Piecewise((x, sp.And(x > 0, x < 1)), (0, True)),
        (check.NotProved, "not proved, though 10 random points agree"),
        lambda x, _: sp.Piecewise((0, x <= 0), (x, x < 1), (0, True)),
        lambda x, _: step(x) * step(1 - x),
    ),
}
LINES = {  # what does not do, the witness that objects and its words, what does
    "xp.where(x > 0, …)": (
        lambda x, xp: xp.where(x > 0, x, 0),
        check.prove,
        (TypeError, r"expected xp.where\(xp.greater\(x, 0\), ...\) .*, got a comparison such as x > 0"),
        lambda x, xp: xp.where(xp.greater(x, 0), x, 0),
    ),
    "xp.maximum(x, 0)": (
        lambda x, xp: xp.maximum(x, xp.zeros_like(x)),
        lambda op: check.autograd(op, np.random.default_rng(7)),
        (AssertionError, "^dx: relative error .* against torch.autograd"),
        lambda x, xp: xp.where(xp.greater(x, 0), x, 0),
    ),
    "xp.max(x, axis=-1)": (
        lambda x, xp: xp.max(x, axis=-1),
        check.prove,
        (AssertionError, r"y depends on max.* expected xp.where\(xp.greater\(x, 0\), x, 0\) for a kink"),
        lambda x, xp: xp.maximum(x, 0 * x),
    ),
}


def differentiated(f):
    return gradient(total(lambda k: dy[k] * f(x[k], other[k]), D), x[j])


def kinked(line):
    """The pair of one line y = line(x, xp), whose slope is 1 above 0 and 0 below."""
    return Op(
        lambda x: (line(x, namespace(x)), {"x": x}),
        lambda dy, cache: namespace(dy).where(namespace(dy).greater(cache["x"], 0), dy, 0),
        inputs=dict(x="... D"),
        sizes=dict(T=1, D=3),
        leading=("T",),
    )


def test_the_page_has_a_row_for_each_and_no_others():
    table = TAUGHT.partition("What does not do, and why:")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.+?)`", table, re.MULTILINE)
    assert rows == [*FORMULAS, *LINES]


@pytest.mark.parametrize("row", FORMULAS)
def test_a_formula_with_a_kink_does_or_does_not_do_as_the_page_says(row):
    wrong, (error, words), right, slope = FORMULAS[row]
    wanted = dy[j] * slope(x[j], other[j])
    with pytest.raises(error, match=words):
        prove_equal(differentiated(wrong), wanted)
    prove_equal(differentiated(right), wanted)


def test_formulas_that_the_page_allows_are_differentiated():
    for f, slope in (
        (lambda x: sp.Max(x, 0), step),
        (lambda x: sp.Min(x, 0), lambda x: step(-x)),
        (lambda x: sp.Abs(x), lambda x: 2 * step(x) - 1),
        (lambda x: sp.Piecewise((x, x > 0), (0, True)), step),
        (lambda x: sp.Max(0, sp.Min(x, 1)), lambda x: step(x) * step(1 - x)),
        (lambda x: x * sp.Heaviside(x), step),
    ):
        prove_equal(differentiated(lambda x, _, f=f: f(x)), dy[j] * slope(x[j]))


@pytest.mark.parametrize("row", LINES)
def test_a_line_with_a_kink_does_or_does_not_do_as_the_page_says(row):
    wrong, witness, (error, words), right = LINES[row]
    with pytest.raises(error, match=words):
        witness(kinked(wrong))
    assert check.prove(kinked(right)) == 3


# The notebook for a layer of one's own ----------------------------------------------------------------------


def run(notebook):
    place = {"metadata": {"path": str(ROOT / "notebooks")}}
    return NotebookClient(notebook, timeout=120, resources=place).execute()


@pytest.fixture
def own():
    return nbformat.read(ROOT / "notebooks" / "own_layer.ipynb", as_version=4)


def test_the_notebook_runs_as_it_is(own):
    last = run(own).cells[-1].outputs[-1]["data"]["text/markdown"]
    assert "`squash`" in last and "refute every one" in last


@pytest.mark.parametrize(
    "cell, old, new, said",
    [
        (
            "pair",
            "dx = dy * shrink * shrink * shrink",
            "dx = dy * shrink * shrink",
            r"AssertionError.*: dx\[",
        ),
        ("pair", 'return dx, -cache["b"] *', 'return dx, cache["b"] *', r"AssertionError.*: db\["),
        ("proof", "slope(j) * dY[j]", "slope(j)", "AssertionError.*: not equal"),
        ("identities", "Everywhere: `shrink`", "Somewhere: `shrink`", "nobody says why"),
    ],
)
def test_the_notebook_stops_where_something_is_wrong_and_says_what(own, cell, old, new, said):
    place = next(c for c in own.cells if c.id == cell)
    assert old in place.source
    place.source = place.source.replace(old, new)
    with pytest.raises(CellExecutionError) as stopped:
        run(own)
    plain = re.sub(r"\x1b\[[\d;]*m", "", str(stopped.value))
    assert re.search(said, plain), plain[-600:]


# The library ------------------------------------------------------------------------------------------------

OFFERED = {module: names.split() for module, names in api.OFFERED.items()}


@pytest.mark.parametrize("module", OFFERED)
def test_every_example_runs(module):
    results = doctest.testmod(importlib.import_module(module), raise_on_error=False)
    assert results.failed == 0 and (results.attempted > 0 or module == "handgrad.algebra")


def test_the_library_page_documents_what_a_layer_of_ones_own_calls(own):
    """Every name that page and notebook take from a module that the page of the library describes."""
    texts = [cell.source for cell in own.cells if cell.cell_type == "code"]
    texts.append(TAUGHT)
    asked = re.findall(r"from (handgrad[\w.]*) import ([\w, ]+)", "\n".join(texts))
    asked = {(module, name) for module, names in asked for name in names.split(", ")}
    assert ("handgrad.algebra", "check_array") in asked and "handgrad.algebra" in OFFERED
    assert all(name in OFFERED[module] for module, name in asked if module in OFFERED)
    called = re.findall(r"\bledger\.(\w+)\(", "\n".join(texts))
    assert "score" in called and set(called) <= set(OFFERED["handgrad.course.ledger"])


def test_an_unknown_letter_is_refused_with_the_remedy(rng):
    op = replace(GROUP_NORM, inputs=dict(GROUP_NORM.inputs, x="... N G*E"))
    with pytest.raises(
        KeyError, match="one for N of .* use letters of NUMERIC_SIZES, B T S .* or give N a size"
    ):
        check.differences(op, rng)


@pytest.mark.parametrize("module, name", [(m, name) for m, names in OFFERED.items() for name in names])
def test_what_is_offered_is_explained_with_an_example(module, name):
    thing = attrgetter(name)(importlib.import_module(module))
    text = api.entry(importlib.import_module(module), name)
    tables = ("Entry", "table", "score", "refutations")  # shown by the page itself
    lines = "handgrad.algebra"  # shown by the lines of every operation
    assert "```pycon" in text or not callable(thing) or name in tables or module == lines


def test_a_name_without_words_is_refused():
    with pytest.raises(ValueError, match="handgrad.sums._NAMES: expected a docstring, got none"):
        api.entry(importlib.import_module("handgrad.sums"), "_NAMES")


def test_a_function_without_source_is_refused_by_its_name():
    scope = {}
    exec("def nowhere(dy, cache):\n    return dy", scope)
    op = replace(GROUP_NORM, backward=scope["nowhere"])
    with pytest.raises(ValueError, match="nowhere: expected a function whose source"):
        wrong_backwards(op)


def test_there_is_one_version():
    stated = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1]
    newest = re.search(r"^## (\d.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert stated == newest == handgrad.__version__ and "version" in project["dynamic"]
    assert version("handgrad") == handgrad.__version__
