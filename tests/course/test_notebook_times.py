"""No notebook takes longer than it says; the build writes the times on the page of the environment."""

import os
from html.parser import HTMLParser
from pathlib import Path

import pytest

from handgrad.course.evidence import chapters

ROOT = Path(__file__).parents[2]
SITE = ROOT / os.environ.get("HANDGRAD_SITE", "_build/html")
CHAPTERS = chapters(ROOT / "notebooks")
BUDGET = 60  # seconds on two cores, for what has no budget of its own: exercises, solutions, pages
BUDGETS = {
    f"notebooks/{path.stem}": notebook.metadata["handgrad"]["budget"]
    for path, notebook in CHAPTERS
    if "handgrad" in notebook.metadata
}
BUDGETS["book/ledger"] = 120  # every proof, and some thousand wrong gradients before four witnesses


class Rows(HTMLParser):
    """The cells of all table rows of a page."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.in_cell = [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag):
        self.in_cell = self.in_cell and tag not in ("td", "th")

    def handle_data(self, data):
        if self.in_cell:
            self.rows[-1][-1] += data.strip()


def run_times(page):
    """{document: seconds} from the table of executions. Raises ValueError if the page has none."""
    rows = Rows(page).rows
    for place, row in enumerate(rows):
        if "Run Time (s)" in row:
            seconds = row.index("Run Time (s)")
            return {row[0]: float(row[seconds]) for row in rows[place + 1 :]}
    raise ValueError("page: expected a table with the column Run Time (s)")


def too_slow(times, budgets):
    return [
        f"{document}: took {seconds:.0f} s, and may take {budgets.get(document, BUDGET)} s"
        for document, seconds in times.items()
        if seconds > budgets.get(document, BUDGET)
    ]


@pytest.mark.site
def test_no_notebook_takes_longer_than_it_says():
    page = SITE / "book" / "environment.html"
    if not page.exists() and "HANDGRAD_SITE" not in os.environ:
        pytest.skip("the book is not built")
    times = run_times(page.read_text())
    assert {f"notebooks/{path.stem}" for path, _ in CHAPTERS} <= set(times)
    assert too_slow(times, BUDGETS) == []


PAGE = """<table><tr><th>Package</th></tr></table><table>
<thead><tr><th><p>Document</p></th><th><p>Method</p></th><th><p>Run Time (s)</p></th></tr></thead>
<tr><td><p><a><span>notebooks/05_a</span></a></p></td><td>force</td><td>59.5</td></tr>
<tr><td><p><a><span>notebooks/16_b</span></a></p></td><td>force</td><td>200.0</td></tr></table>"""


def test_the_times_are_read_and_compared():
    times = run_times(PAGE)
    assert times == {"notebooks/05_a": 59.5, "notebooks/16_b": 200.0}
    assert too_slow(times, {"notebooks/16_b": 240}) == []
    assert too_slow(times, {}) == ["notebooks/16_b: took 200 s, and may take 60 s"]
    assert len(too_slow(times, {"notebooks/05_a": 30, "notebooks/16_b": 100})) == 2


def test_a_page_without_times_is_refused():
    with pytest.raises(ValueError, match="expected a table"):
        run_times("<table><tr><th>Package</th></tr></table>")
