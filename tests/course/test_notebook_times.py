"""The times that the build writes are read and reported; only three times a budget is refused."""

import os
from pathlib import Path

import pytest
from times import LIMIT, PAGE, budgets, report, run_times, too_slow

ROOT = Path(__file__).parents[2]
SITE = ROOT / os.environ.get("HANDGRAD_SITE", "_build/html")


@pytest.mark.site
def test_no_notebook_takes_three_times_as_long_as_it_says():
    page = SITE / PAGE
    if not page.exists() and "HANDGRAD_SITE" not in os.environ:
        pytest.skip("the book is not built")
    times = run_times(page.read_text())
    assert set(budgets()) <= set(times)
    assert too_slow(times, budgets()) == []


TABLES = """<table><tr><th>Package</th></tr></table><table>
<thead><tr><th><p>Document</p></th><th><p>Method</p></th><th><p>Run Time (s)</p></th></tr></thead>
<tr><td><p><a><span>notebooks/05_a</span></a></p></td><td>force</td><td>170.0</td></tr>
<tr><td><p><a><span>notebooks/16_b</span></a></p></td><td>force</td><td>500.0</td></tr></table>"""


def test_the_times_are_read_and_only_three_times_the_budget_is_too_slow():
    times = run_times(TABLES)
    assert times == {"notebooks/05_a": 170.0, "notebooks/16_b": 500.0} and LIMIT == 3
    assert too_slow(times, {"notebooks/16_b": 240}) == []
    assert [line.split(",")[0] for line in too_slow(times, {})] == ["notebooks/16_b: took 500 s"]
    assert len(too_slow(times, {"notebooks/05_a": 50, "notebooks/16_b": 160})) == 2


def test_the_report_says_what_is_over_its_budget():
    lines = report(run_times(TABLES), {"notebooks/05_a": 180, "notebooks/16_b": 240}).splitlines()
    assert lines[1].split() == ["500.0", "240", "notebooks/16_b", "over"]
    assert lines[2].split() == ["170.0", "180", "notebooks/05_a"]
    assert lines[3].split() == ["670.0", "together"]


def test_every_chapter_has_a_budget():
    assert {f"notebooks/{path.stem}" for path in ROOT.glob("notebooks/[0-9][0-9]_*.ipynb")} <= set(budgets())


def test_a_page_without_times_is_refused():
    with pytest.raises(ValueError, match="expected a table"):
        run_times("<table><tr><th>Package</th></tr></table>")
