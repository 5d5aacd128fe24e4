"""How long each page took in the last build, beside the time it may take.

    python tools/times.py                   of the book in _build/html, the slowest first

Only LIMIT times that is too long: one machine is twice as fast as another, and a busy one slower still.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import yaml

ROOT = Path(__file__).parents[1]
PAGE = Path("book") / "environment.html"  # in the built book: where the build writes its times
BUDGET = 60  # seconds on two idle cores, for what has no budget of its own: exercises, solutions, pages
LIMIT = 3


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


def budgets(root=ROOT):
    """{document: seconds} that chapters and pages with code state in their metadata."""
    stated = {}
    for path in sorted(root.glob("notebooks/[0-9][0-9]_*.ipynb")):
        own = nbformat.read(path, as_version=4).metadata.get("handgrad", {})
        stated[f"notebooks/{path.stem}"] = own.get("budget", BUDGET)
    for path in sorted(root.glob("book/*.md")):
        text = path.read_text(encoding="utf-8")
        own = next(yaml.safe_load_all(text)) if text.startswith("---\n") else {}
        if "handgrad" in own:
            stated[f"book/{path.stem}"] = own["handgrad"]["budget"]
    return stated


def too_slow(times, budgets):
    """A sentence for each page that took more than LIMIT times its budget."""
    limits = {document: LIMIT * budgets.get(document, BUDGET) for document in times}
    return [
        f"{document}: took {seconds:.0f} s, expected at most {limits[document]} s, {LIMIT} times its budget"
        for document, seconds in times.items()
        if seconds > limits[document]
    ]


def report(times, budgets):
    """The times as lines of text, the slowest first, and their sum."""
    slowest_first = sorted(times.items(), key=lambda pair: -pair[1])
    lines = [f"{'seconds':>8} {'budget':>7}"]
    for document, seconds in slowest_first:
        budget = budgets.get(document, BUDGET)
        lines.append(f"{seconds:8.1f} {budget:7} {document}{'   over' if seconds > budget else ''}")
    return "\n".join([*lines, f"{sum(times.values()):8.1f}         together"])


def main():
    page = ROOT / "_build" / "html" / PAGE
    if not page.exists():
        sys.exit("There is no book in _build/html: make book builds it, and takes the times.")
    print(report(run_times(page.read_text(encoding="utf-8")), budgets()))


if __name__ == "__main__":
    main()
