"""Cells that run in the built page: exercises are judged as elsewhere, kept, carried away; chapters run."""

import json
import linecache
from pathlib import Path

import numpy as np
import pytest
from test_site import LOOKING, PHONE, WIDE, Visit

from handgrad.course import judge

ROOT = Path(__file__).parents[2]
PAGE = "notebooks/exercises/05_normalization.html"
CHAPTER = "notebooks/05_normalization.html"
STOP = "[...document.querySelectorAll('.here-bar button')].find(b => b.textContent === 'Stop')"
SOLUTIONS = sorted((ROOT / "notebooks/solutions").glob("*.ipynb"))

pytestmark = LOOKING

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
    """A page whose cells have become editors, and Python is ready."""

    def __init__(self, browser, server, path=PAGE):
        super().__init__(browser, server, path)
        self.begin()

    def begin(self):
        self.page.locator(".here-bar").get_by_role("button").click()
        self.says("ready")

    def says(self, words):
        self.page.wait_for_function(
            f"document.querySelector('.here-told')?.textContent.includes({words!r})", timeout=120_000
        )

    def editor(self, cell):
        return self.page.get_by_label(f"code of {cell}", exact=True)

    def text(self, cell):
        return "\n".join(self.editor(cell).locator(".cm-line").all_text_contents())

    def box(self, cell):
        return self.page.locator("div.cell", has=self.editor(cell))

    def run(self, cell):
        """Run a cell, and give the text that it shows."""
        name = "Check" if cell.endswith("-check") else "Run"
        self.box(cell).get_by_role("button", name=name, exact=True).click()
        self.page.wait_for_function(f"{STOP}.disabled", timeout=120_000)
        return self.box(cell).locator(".here-output").inner_text()


def opened(browser, address):
    desk = Desk(browser, address)
    yield desk
    assert desk.foreign == []
    desk.context.close()


desk = pytest.fixture(opened)
lent = pytest.fixture(opened, scope="session")
"""A desk for tests that leave nothing but a cell, which each of them fills, with an output of its own."""


@pytest.mark.parametrize("path", [PAGE, CHAPTER])
def test_nothing_is_loaded_before_somebody_asks(browser, address, path):
    asked = []
    visit = Visit(browser, address, path)
    visit.page.on(
        "request", lambda request: asked.append(request.url.partition("/here/")[2].partition("?")[0])
    )
    visit.page.reload(wait_until="networkidle")
    bar = visit.page.locator(".here-bar")
    assert bar.locator("button").count() == 1
    assert bar.evaluate("bar => getComputedStyle(bar).position") == "static", "it lies over what is read"
    assert {file for file in asked if file} == {"here.js", "here.css"}
    visit.context.close()
    elsewhere = Visit(browser, address, "search.html")
    assert elsewhere.page.locator(".here-bar").count() == 0
    elsewhere.context.close()


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
    assert desk.text("layer-norm-dx-answer") == right.rstrip("\n")


def test_what_has_no_end_is_stopped_and_the_page_goes_on(lent):
    cell = "two-features-answer"
    lent.editor(cell).fill("while True:\n    pass")
    lent.box(cell).get_by_role("button", name="Run", exact=True).click()
    lent.page.wait_for_function(f"!{STOP}.disabled")
    lent.page.get_by_role("button", name="Stop").click()
    lent.says("Stopped")
    lent.editor(cell).fill("print(6 * 7)")
    assert lent.run(cell).strip() == "42"


def test_an_error_names_its_line(lent):
    lent.editor("two-features-answer").fill("a = 1\nb = a / 0")
    shown = lent.run("two-features-answer")
    assert "b = a / 0" in shown and "ZeroDivisionError" in shown and "line 2" in shown


def test_answers_are_carried_away_and_brought_back(desk, browser, address, tmp_path):
    desk.editor("two-features-answer").fill("x = 'mine'")
    with desk.page.expect_download() as download:
        desk.page.get_by_role("button", name="Export .ipynb").click()
    download.value.save_as(tmp_path / "mine.ipynb")
    cells = code_cells(tmp_path / "mine.ipynb")
    unsolved = code_cells(ROOT / "notebooks/exercises/05_normalization.ipynb")
    assert cells == unsolved | {"two-features-answer": "x = 'mine'"}
    elsewhere = Desk(browser, address)
    elsewhere.page.locator(".here-bar input").set_input_files(tmp_path / "mine.ipynb")
    elsewhere.says("cells read")
    assert elsewhere.text("two-features-answer") == "x = 'mine'"
    (tmp_path / "other.ipynb").write_text('{"cells": []}')
    elsewhere.page.locator(".here-bar input").set_input_files(tmp_path / "other.ipynb")
    elsewhere.says("Nothing was changed")
    elsewhere.context.close()


def test_the_editor_is_one_for_code_and_for_a_keyboard(lent):
    cell = "two-features-answer"
    lent.editor(cell).fill("def f(x):")
    lent.editor(cell).press("End")
    for key in ("Enter", "Tab", "Escape", "Tab"):
        lent.page.keyboard.press(key)
    assert lent.text(cell) == "def f(x):\n        "
    assert lent.page.evaluate("document.activeElement.textContent") == "Run"
    keyword = lent.editor(cell).locator(".k").first
    ours = lent.page.evaluate(
        "[...document.querySelectorAll('.highlight .k')].map(e => getComputedStyle(e).color)"
    )
    assert keyword.inner_text() == "def" and len(set(ours)) == 1
    lent.editor(cell).fill("print(6 * 8)")
    lent.editor(cell).press("Control+Enter")
    lent.page.wait_for_function(f"{STOP}.disabled")
    assert lent.box(cell).locator(".here-output").inner_text().strip() == "48"
    lent.page.set_viewport_size(PHONE)
    assert lent.editor(cell).evaluate("e => parseFloat(getComputedStyle(e).fontSize)") >= 16
    lent.page.set_viewport_size(WIDE)


def test_a_python_that_dies_is_told_and_started_again(lent):
    cell = "two-features-answer"
    lent.editor(cell).fill("import os\nos._exit(1)")
    lent.run(cell)
    lent.says("Python has ended")
    lent.editor(cell).fill("print(6 * 9)")
    assert lent.run(cell).strip() == "54"
    lent.page.workers[-1].evaluate("close()")
    lent.run(cell)
    lent.says("it does not answer")
    assert lent.run(cell).strip() == "54" and lent.text(cell) == "print(6 * 9)"


def test_a_browser_that_keeps_nothing_says_so_once_and_typing_goes_on(desk):
    cell, warning = "two-features-answer", desk.page.locator(".here-bar [role=alert]")
    desk.page.evaluate("() => { Storage.prototype.setItem = () => { throw new DOMException('full') } }")
    desk.editor(cell).fill("x = 1")
    assert "keeps nothing more" in warning.inner_text()
    warning.evaluate("e => { new MutationObserver(() => { e.told = true }).observe(e, {childList: true}) }")
    desk.editor(cell).press("End")
    desk.page.keyboard.type("23")
    assert desk.text(cell) == "x = 123" and not warning.evaluate("e => e.told")


def test_two_tabs_do_not_overwrite_each_other(desk, address):
    cell, other = "two-features-answer", Desk.__new__(Desk)
    other.page = desk.context.new_page()
    other.page.goto(f"{address}/{PAGE}", wait_until="networkidle")
    other.begin()
    asks = desk.box(cell).locator(".here-asks")
    other.editor(cell).fill("x = 'theirs'")
    asks.get_by_text("changed in another tab").wait_for()
    desk.editor(cell).fill("x = 'mine'")
    kept = "JSON.parse(localStorage['handgrad.answers notebooks/exercises/05_normalization'])"
    assert desk.page.evaluate(kept)[cell] == "x = 'theirs'"
    asks.get_by_role("button", name="Keep mine").click()
    assert desk.page.evaluate(kept)[cell] == "x = 'mine'" and asks.inner_text() == ""
    other.box(cell).locator(".here-asks").get_by_role("button", name="Take it").click()
    assert other.text(cell) == "x = 'mine'" and asks.inner_text() == ""


def test_a_chapter_runs_and_what_cannot_keeps_its_output(browser, address):
    desk = Desk(browser, address, CHAPTER)

    def stored(cell):
        return desk.box(cell).locator(".cell_output pre").first.text_content().strip()

    shown = desk.run("prove-run")
    assert shown.strip() == stored("prove-run") and desk.page.locator(".here-output .stderr").count() == 0
    drawn = desk.box("integers-picture")
    assert drawn.locator(".here-output figcaption").is_visible()
    assert drawn.locator(".here-output img").get_attribute("src").startswith("data:image/svg+xml")
    assert not drawn.locator(".cell_output").first.is_visible()
    drawn.get_by_role("button", name="As stored").click()
    assert drawn.locator(".cell_output").first.is_visible()

    assert "it needs torch, which is not in this page" in desk.run("witness-numbers")
    desk.editor("example").fill("token = 7\nprint(token)")
    assert desk.run("example").strip() == "7"
    assert "TypeError" in desk.run("integers-shipped")
    desk.box("example").get_by_role("button", name="Reset").click()
    assert desk.run("integers-shipped").strip() == stored("integers-shipped")
    assert desk.foreign == []
    desk.context.close()


def test_a_cell_of_more_than_a_minute_is_left_out(browser, address):
    desk = Desk(browser, address, CHAPTER)
    desk.page.clock.install()
    desk.run("depth")
    desk.editor("example").fill("while True:\n    pass")
    desk.box("example").get_by_role("button", name="Run", exact=True).click()
    desk.page.locator("div.cell[aria-busy]", has=desk.editor("example")).wait_for()
    desk.page.wait_for_timeout(3000)  # it has begun
    desk.page.clock.fast_forward(60_000)
    desk.says("1 of ")
    assert "it takes more than a minute" in desk.box("example").locator(".here-output").inner_text()
    assert desk.box("example").locator(".cell_output").first.is_visible()
    desk.context.close()


def test_every_right_answer_is_right_here_too(browser, address):
    visit = Visit(browser, address, PAGE)
    assert visit.page.evaluate(WORKER, f"{address}/_static/here")["kind"] == "ready"
    visit.page.set_default_timeout(300_000)
    right = []
    for path in SOLUTIONS:
        cells = [{"name": name, "source": source} for name, source in code_cells(path).items()]
        told = visit.page.evaluate(CELLS, cells)
        assert not [(name, message) for name, message in told if message["kind"] == "error"]
        assert all("it needs torch" in message["text"] for _, message in told if message["kind"] == "left")
        right += [name for name, message in told if ': right"' in message.get("html", "")]
    names = [name for exercises in judge.chapters().values() for name in exercises]
    assert sorted(name.removesuffix("-check").replace("-", "_") for name in right) == sorted(names)
    visit.context.close()
