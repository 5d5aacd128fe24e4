"""Exercises that are answered in the built page: judged as elsewhere, kept, stopped, carried away."""

import json
import linecache
from pathlib import Path

import numpy as np
import pytest
from test_site import CHROMIUM, PAGES, REQUIRED, SITE, Visit, address  # noqa: F401

from handgrad.course import judge

ROOT = Path(__file__).parents[2]
PAGE = "notebooks/exercises/05_normalization.html"
SOLUTIONS = sorted((ROOT / "notebooks/solutions").glob("*.ipynb"))

pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(not REQUIRED and not PAGES, reason="the book is not built: make book"),
    pytest.mark.skipif(not REQUIRED and not CHROMIUM, reason="no Chromium is installed"),
]

WORKER = """where => new Promise(done => {
    window.python = new Worker(where + '/worker.js', {type: 'module'});
    python.onmessage = ({data}) => ['ready', 'broken'].includes(data.kind) && done(data);
    python.postMessage({start: where});
})"""
CELLS = """async cells => {
    const told = [];
    for (const run of cells) await new Promise(done => {
        python.onmessage = ({data}) => { told.push([run.name, data]); if (data.kind === 'done') done(); };
        python.postMessage({run});
    });
    return told;
}"""


def code_cells(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"}


class Desk(Visit):
    """A page of exercises whose cells have become editors, and Python is ready."""

    def __init__(self, browser, server, path=PAGE):
        super().__init__(browser, server, path)
        self.begin()

    def begin(self):
        self.page.get_by_role("button", name="Solve here").click()
        self.says("ready")

    def says(self, words):
        self.page.wait_for_function(
            f"document.querySelector('.here-told').textContent.includes({words!r})", timeout=120_000
        )

    def editor(self, cell):
        return self.page.get_by_label(f"code of {cell}", exact=True)

    def run(self, cell):
        """Run a cell, and give the text that it shows."""
        box = self.page.locator("div.cell", has=self.editor(cell))
        box.get_by_role("button", name="Check" if cell.endswith("-check") else "Run", exact=True).click()
        self.page.wait_for_function("document.querySelector('.here-bar button').disabled", timeout=120_000)
        return box.locator(".here-output").inner_text()


@pytest.fixture
def desk(browser, address):  # noqa: F811
    desk = Desk(browser, address)
    yield desk
    assert desk.foreign == []
    desk.context.close()


def test_nothing_is_loaded_before_somebody_asks(browser, address):  # noqa: F811
    asked = []
    visit = Visit(browser, address, PAGE)
    visit.page.on("request", lambda request: asked.append(request.url))
    visit.page.reload(wait_until="networkidle")
    assert not [url for url in asked if url.endswith((".gz", "worker.js", "editor.js"))]
    other = Visit(browser, address, "notebooks/05_normalization.html")
    assert other.page.locator(".here-bar").count() == 0
    for each in (visit, other):
        each.context.close()


def test_an_answer_is_judged_as_elsewhere_and_kept(desk):
    wrong = next(
        entry["code"]
        for entry in json.loads((ROOT / "tests/holdout/05_normalization.json").read_text(encoding="utf-8"))
        if entry["exercise"] == "layer_norm_dx" and entry["kind"] == "slip"
    )
    space, file = {"np": np}, "<layer-norm-dx-answer>"
    linecache.cache[file] = len(wrong), None, wrong.splitlines(True), file
    exec(compile(wrong, file, "exec"), space)
    natively = judge.layer_norm_dx(space["layer_norm_dx"])
    desk.editor("layer-norm-dx-answer").fill(wrong)
    shown = desk.run("layer-norm-dx-check").replace("`", "")
    assert "✗" in shown and natively.diagnosis.replace("`", "") in shown

    right = code_cells(ROOT / "notebooks/solutions/05_normalization.ipynb")["layer-norm-dx-answer"]
    desk.editor("layer-norm-dx-answer").fill(right)
    assert "✓" in desk.run("layer-norm-dx-check")
    assert "layer_norm_dx" in json.loads(desk.page.evaluate("localStorage['handgrad.progress']"))["solved"]
    desk.page.reload(wait_until="networkidle")
    desk.begin()
    assert desk.editor("layer-norm-dx-answer").input_value() == right.rstrip("\n")


def test_what_has_no_end_is_stopped_and_the_page_goes_on(desk):
    cell = "two-features-answer"
    desk.editor(cell).fill("while True:\n    pass")
    box = desk.page.locator("div.cell", has=desk.editor(cell))
    box.get_by_role("button", name="Run", exact=True).click()
    stop = desk.page.get_by_role("button", name="Stop")
    desk.page.wait_for_function("!document.querySelector('.here-bar button').disabled")
    stop.click()
    desk.editor(cell).fill("print(6 * 7)")
    assert desk.run(cell).strip() == "42"


def test_an_error_names_its_line(desk):
    desk.editor("two-features-answer").fill("a = 1\nb = a / 0")
    shown = desk.run("two-features-answer")
    assert "b = a / 0" in shown and "ZeroDivisionError" in shown and "line 2" in shown


def test_answers_are_carried_away_and_brought_back(desk, browser, address, tmp_path):  # noqa: F811
    desk.editor("two-features-answer").fill("x = 'mine'")
    with desk.page.expect_download() as download:
        desk.page.get_by_role("button", name="Export .ipynb").click()
    download.value.save_as(tmp_path / "mine.ipynb")
    cells = code_cells(tmp_path / "mine.ipynb")
    unsolved = code_cells(ROOT / "notebooks/exercises/05_normalization.ipynb")
    assert cells == unsolved | {"two-features-answer": "x = 'mine'"}
    elsewhere = Desk(browser, address)
    elsewhere.page.locator(".here-import input").set_input_files(tmp_path / "mine.ipynb")
    elsewhere.says("cells read")
    assert elsewhere.editor("two-features-answer").input_value() == "x = 'mine'"
    (tmp_path / "other.ipynb").write_text('{"cells": []}')
    elsewhere.page.locator(".here-import input").set_input_files(tmp_path / "other.ipynb")
    elsewhere.says("Nothing was changed")
    elsewhere.context.close()


def test_every_right_answer_is_right_here_too(browser, address):  # noqa: F811
    visit = Visit(browser, address, PAGE)
    assert visit.page.evaluate(WORKER, f"{address}/_static/here")["kind"] == "ready"
    visit.page.set_default_timeout(300_000)
    right = []
    for path in SOLUTIONS:
        cells = [{"name": name, "source": source} for name, source in code_cells(path).items()]
        told = visit.page.evaluate(CELLS, cells)
        assert not [(name, message) for name, message in told if message["kind"] == "error"]
        right += [name for name, message in told if ': right"' in message.get("html", "")]
    names = [name for exercises in judge.chapters().values() for name in exercises]
    assert sorted(name.removesuffix("-check").replace("-", "_") for name in right) == sorted(names)
    visit.context.close()
