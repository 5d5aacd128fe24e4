"""The gradient ledger holds every operation, prints what the witnesses say, and an objection stops it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from handgrad import check
from handgrad.course import ledger
from handgrad.course.evidence import displayed
from handgrad.ops.table import OPS

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
ENTRY = ledger.Entry("softmax", 6, 0.25, 2.8e-11, 3.3e-35, 0.0, 16)


def zeros(op):
    return replace(op, backward=lambda dy, cache: 0 * op.backward(dy, cache))


def test_an_entry_says_what_the_witnesses_say():
    op, entry = OPS["softmax"], ledger.entry("softmax")
    assert entry.proved == check.prove(op) == 12
    assert entry.float64 == check.differences(op, np.random.default_rng(ledger.SEED)) > 0
    assert entry.digits50 == check.differences(op, np.random.default_rng(ledger.SEED), digits=50) < 1e-28
    assert entry.autograd == check.autograd(op, np.random.default_rng(ledger.SEED)) < 1e-12
    assert entry.refuted >= 12
    assert entry.seconds > 0


def test_a_wrong_gradient_stops_the_ledger(monkeypatch):
    monkeypatch.setitem(OPS, "softmax", zeros(OPS["softmax"]))
    with pytest.raises(AssertionError, match="ds"):
        ledger.entry("softmax")


@pytest.mark.parametrize("witness", ["differences", "autograd"])
def test_a_witness_that_accepts_a_wrong_gradient_stops_the_ledger(monkeypatch, witness):
    def accepts(op, rng):
        return 0.0

    accepts.__name__ = witness
    monkeypatch.setattr(check, witness, accepts)
    with pytest.raises(AssertionError, match=f"softmax, zeros: {witness} accepts it"):
        ledger.refuted("softmax")


def test_an_error_of_another_kind_is_no_refutation(monkeypatch):
    def breaks(op, rng):
        raise TypeError("no witness, only a mistake")

    monkeypatch.setattr(check, "differences", breaks)
    with pytest.raises(TypeError):
        ledger.refuted("softmax")


def test_the_same_gradient_is_not_counted_as_wrong():
    assert not ledger.differs(OPS["softmax"], OPS["softmax"])
    assert ledger.differs(OPS["softmax"], zeros(OPS["softmax"]))


def test_the_table_has_a_row_for_each_entry():
    rows = ledger.table([ENTRY]).splitlines()
    assert len(rows) == 3
    assert rows[2] == r"| `softmax` | 6 | 0.2 | $3\cdot10^{-11}$ | $3\cdot10^{-35}$ | 0 | 16 |"
    assert len({row.count("|") for row in rows}) == 1


def test_the_page_has_formula_source_file_and_chapter_of_every_operation():
    page = ledger.page([replace(ENTRY, name=name) for name in OPS], NOTEBOOKS)
    assert len(displayed(page)) == len(OPS)
    for name, op in OPS.items():
        assert page.count(f"**`{name}`**") == 1
        block = page[page.index(f"**`{name}`**") :].split("\n\n**")[0]
        assert ledger.file(op.forward) in block
        assert ledger.section(op.source) in block
        assert "planned" in block or "{doc}`/notebooks/" in block


def test_a_chapter_is_linked_if_it_exists(tmp_path):
    (tmp_path / "08_attention.ipynb").touch()
    assert ledger.chapter("08", tmp_path) == "{doc}`/notebooks/08_attention`"
    assert ledger.chapter("09", tmp_path) == "chapter 9, planned"


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


def test_sections_and_powers_read_well():
    assert ledger.section("Ba et al. (2016), 3") == "Ba et al. (2016), section 3"
    assert ledger.section("Zhang and Sennrich (2019), eq. 4") == "Zhang and Sennrich (2019), eq. 4"
    assert ledger.power(0.0) == "0"
    assert ledger.power(2.46e-11) == r"$2\cdot10^{-11}$"
