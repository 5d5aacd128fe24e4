"""The gradient ledger holds every operation, prints what the witnesses say, and an objection stops it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import optree
import pytest

from handgrad import check
from handgrad.algebra import is_shape
from handgrad.config import shapes
from handgrad.course import ledger
from handgrad.course.evidence import displayed
from handgrad.fast.step import loss_and_gradients as fast_loss_and_gradients
from handgrad.mistakes.mutations import Mutant
from handgrad.ops.table import OPS

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
ENTRY = ledger.Entry("softmax", 6, 0.25, 2.8e-11, 3.3e-35, 0.0, 76, 75, {"In `x`: 1 is added.": "it is 0"})


def zeros(op):
    return replace(op, backward=lambda dy, cache: 0 * op.backward(dy, cache))


def test_an_entry_says_what_the_witnesses_say():
    op, entry = OPS["softmax"], ledger.entry("softmax")
    matrix = check.prove(op, op.sizes | {"...": op.leading[1]})
    assert entry.proved == check.prove(op) + matrix and check.prove(op) == 12 and matrix > 3
    assert entry.float64 == check.differences(op, np.random.default_rng(ledger.SEED)) > 0
    assert entry.digits50 == check.differences(op, np.random.default_rng(ledger.SEED), digits=50) < 1e-28
    assert entry.autograd == check.autograd(op, np.random.default_rng(ledger.SEED)) < 1e-12
    assert entry.mutants > 60 and entry.float64_refuted == entry.mutants and entry.same == {}
    assert entry.seconds > 0


def test_a_wrong_gradient_stops_the_ledger(monkeypatch):
    monkeypatch.setitem(OPS, "softmax", zeros(OPS["softmax"]))
    with pytest.raises(AssertionError, match="ds"):
        ledger.entry("softmax")


@pytest.mark.parametrize("witness", ["Proof", "Differences", "Autograd"])
def test_a_witness_that_accepts_a_wrong_gradient_stops_the_ledger(monkeypatch, witness):
    accepts = type(witness, (), {"__init__": lambda self, *_, **__: None, "__call__": lambda self, _: 0.0})
    monkeypatch.setattr(check, witness, accepts)
    said = "differences accept it" if witness == "Differences" else f"{witness} accepts it"
    with pytest.raises(AssertionError, match=f"softmax: {said}. In `ds`: "):
        ledger.entry("softmax")


def test_an_error_of_the_witness_is_no_refutation():
    def breaks(backward):
        backward(0, {})
        raise TypeError("no witness, only a mistake")

    with pytest.raises(TypeError, match="only a mistake"):
        ledger.rejects(breaks, Mutant("here", lambda dy, cache: dy, same=False))


def test_the_table_has_a_row_for_each_entry():
    rows = ledger.table([ENTRY]).splitlines()
    assert len(rows) == 4
    assert rows[2] == r"| `softmax` | 6 | 0.2 | $3\cdot10^{-11}$ | $3\cdot10^{-35}$ | 0 |"
    assert rows[3] == "| all | 6 | 0.2 |  |  |  |"
    assert len({row.count("|") for row in rows}) == 1


def test_the_refutations_are_counted():
    rows = ledger.refutations([ENTRY, replace(ENTRY, name="relu", same={})]).splitlines()
    assert rows[2] == "| `softmax` | 76 | 76 | 75 | 76 | 1 |"
    assert rows[4] == "| all | 152 | 152 | 150 | 152 | 1 |"
    assert len({row.count("|") for row in rows}) == 1
    said = ledger.score([ENTRY, ENTRY])
    assert "Of 152 wrong backwards" in said and "the other 2 " in said


def test_the_page_has_formula_source_file_and_chapter_of_every_operation():
    page = ledger.page([replace(ENTRY, name=name) for name in OPS])
    assert len(displayed(page)) == len(OPS)
    for name, op in OPS.items():
        assert page.count(f"**`{name}`**") == 1
        block = page[page.index(f"**`{name}`**") :].split("\n\n**")[0]
        assert ledger.file(op.forward) in block
        assert op.source in block and f"{{doc}}`/notebooks/{op.chapter}`" in block
        assert (NOTEBOOKS / f"{op.chapter}.ipynb").exists()


def test_a_formula_has_an_upright_d_and_one_gradient_on_each_line():
    op = replace(
        OPS["relu"], formula=r"dx=dy\cdot[x>0],\; d\mathbf{K}=\left(d\mathbf{S}\right)\overline{d\hat x}"
    )
    gathered = ledger.formula(op)
    assert gathered.splitlines()[1:-1] == [
        r"\mathrm{d}x=\mathrm{d}y\cdot[x>0],\\",
        r"\mathrm{d}\mathbf{K}=\left(\mathrm{d}\mathbf{S}\right)\overline{\mathrm{d}\hat x}",
    ]
    assert displayed(f"$$\n{gathered}\n$$") == [(None, gathered)]


# The fast step ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ledger.MODELS)
def test_the_fast_step_is_compared_with_the_readable_one(name):
    entry = ledger.fast_entry(name)
    arrays = len(optree.tree_leaves(shapes(ledger.MODELS[name]), is_leaf=is_shape))
    assert (entry.name, entry.gradients) == (name, arrays)
    assert 0 < entry.error <= 1e-12


def spoil(what):
    """The fast step with one thing wrong."""

    def wrong(*arguments, **options):
        loss, grads = fast_loss_and_gradients(*arguments, **options)
        return what(loss, grads)

    return wrong


def without_table(loss, grads):
    return loss, {key: value for key, value in grads.items() if key != "decoder"}


def larger_table(loss, grads):
    return loss, optree.tree_map(lambda x: x * (1 + 1e-9), grads)


def other_bias_of_keys(loss, grads):
    grads["decoder"][1]["self_attention"]["b_K"][2] += 1e-6
    return loss, grads


@pytest.mark.parametrize(
    "what, said",
    [
        (lambda loss, grads: (loss * (1 + 1e-9), grads), "the loss"),
        (larger_table, "relative error 1.0e-09"),
        (lambda loss, grads: (loss, optree.tree_map(np.zeros_like, grads)), "relative error 1.0e\\+00"),
        (other_bias_of_keys, "b_K"),
        (without_table, "the gradients are others"),
    ],
)
def test_a_wrong_fast_step_stops_the_ledger(what, said):
    with pytest.raises(AssertionError, match=said):
        ledger.fast_entry("GPT-2", spoil(what))


def test_the_table_of_the_fast_step():
    entry = ledger.FastEntry("GPT-2", 30, 2.4e-15)
    assert ledger.fast_table([entry]).splitlines()[-1] == r"| GPT-2 | 30 | $2\cdot10^{-15}$ |"
