"""Without a network: what was visited is shown again, what was not is not, and nothing of an older build."""

import functools
import http.server
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Error
from test_site import LOOKING, SITE, Quiet

from book._ext import offline

ROOT = Path(__file__).parents[2]
CHAPTER = "notebooks/05_normalization.html"
HOUSE = (ROOT / "book/_static/house.js").read_text(encoding="utf-8")
UNTIL = """async ([path, old]) => {
    for (const end = Date.now() + 60_000; Date.now() < end; await new Promise(done => setTimeout(done, 50)))
        if (await caches.match(path) && !(await caches.keys()).includes(old)) return;
    throw new Error(`not kept within a minute: ${path}`);
}"""

pytestmark = LOOKING


class Forgotten(Quiet):
    """Files that the browser itself must not keep."""

    def end_headers(self):
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


class Reader:
    """Reads a folder, served as a site, in a browser that keeps; `leave` takes the network away."""

    def __init__(self, browser, folder):
        handler = functools.partial(Forgotten, directory=folder)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.context, self.foreign, self.failed = browser.new_context(), [], []
        self.context.on("request", self._asked)
        self.page = self.context.new_page()
        self.page.on("requestfailed", lambda request: self.failed.append(request.url))

    def _asked(self, request):
        if not request.url.startswith((self.address + "/", "data:", "blob:")):
            self.foreign.append(request.url)

    def visit(self, path, and_keep=True):
        self.page.goto(f"{self.address}/{path}", wait_until="networkidle")
        if and_keep:
            self.keeps(path)
        return self.page.locator("body").inner_text()

    def keeps(self, path, old=None):
        """Wait until a file is kept, and what an old build kept is gone."""
        self.page.evaluate(UNTIL, [f"{self.address}/{path}", old])

    def leave(self):
        self.server.shutdown()
        self.server.server_close()
        self.failed.clear()


@pytest.fixture
def reader(browser):
    readers = []

    def opened(folder):
        readers.append(Reader(browser, folder))
        return readers[-1]

    yield opened
    for reader in readers:
        reader.context.close()
        reader.server.shutdown()
        reader.server.server_close()
        assert reader.foreign == []


LOOK = """() => document.fonts.ready.then(() => ({
    rules: [...document.styleSheets].map(sheet => sheet.cssRules.length),
    missing: [...document.fonts].filter(font => font.status === 'error').map(font => font.family),
    pictures: [...document.images].map(image => [image.naturalWidth, image.currentSrc]),
    formulas: document.querySelectorAll('.katex').length,
}))"""


def test_what_was_visited_is_shown_as_it_was(reader):
    reader = reader(SITE)
    paths = [CHAPTER, "book/intro.html"]  # the first is loaded before anything is kept
    before = {path: (reader.visit(path), reader.page.evaluate(LOOK)) for path in paths}
    reader.leave()
    for path in paths:
        assert (reader.visit(path), reader.page.evaluate(LOOK)) == before[path]
        assert reader.failed == []
    assert min(before[CHAPTER][1]["rules"]) > 0 and before[CHAPTER][1]["formulas"] > 0
    with pytest.raises(Error, match="ERR_CONNECTION_REFUSED|ERR_FAILED"):
        reader.page.goto(f"{reader.address}/book/notation.html")


def proved(page):
    page.get_by_role("button", name="Prove").click()
    page.wait_for_function(
        "document.querySelector('#sheet [role=status]').textContent === 'Done.'", timeout=120_000
    )
    return page.locator(".here-outcomes").inner_text()


def test_python_that_ran_once_runs_again(reader):
    reader = reader(SITE)
    reader.visit("book/prove_here.html")
    before = proved(reader.page)
    for part in ("python.wasm", "library.pack", "book.pack"):
        reader.keeps(f"_static/here/{part}.gz")
    reader.leave()
    reader.visit("book/prove_here.html")
    assert proved(reader.page) == before and "proved" in before


def built(site, **words):
    """A site of few pages, with the shipped scripts, as a build leaves it."""
    for name, text in words.items():
        head = '<html data-content_root="./"><link rel="icon" href="data:,"><script src="house.js"></script>'
        (site / f"{name}.html").write_text(f"{head}<body>{text}</body></html>")
    (site / "house.js").write_text(HOUSE)
    (site / "offline.js").write_text(offline.named(site))


def test_with_a_network_the_new_is_shown_and_without_one_nothing_of_the_old(reader, tmp_path):
    built(tmp_path, first="one", second="one")
    reader = reader(tmp_path)
    assert reader.visit("first.html") == reader.visit("second.html") == "one"
    (own,) = reader.page.evaluate("caches.keys()")
    for name in ("another", "handgrad elsewhere/ 1"):  # of other pages of this host
        reader.page.evaluate("async name => (await caches.open(name)).add('second.html')", name)
    built(tmp_path, first="two", second="two")
    assert reader.visit("first.html?highlight=x") == "two"
    reader.keeps("first.html?highlight=x", old=own)
    reader.visit("nowhere.html", and_keep=False)
    reader.leave()
    assert reader.visit("first.html", and_keep=False) == "two", "whatever stands behind the question mark"
    names = set(reader.page.evaluate("caches.keys()"))
    assert {"another", "handgrad elsewhere/ 1"} < names and len(names) == 3
    for path in ("second.html", "nowhere.html"):
        with pytest.raises(Error, match="ERR_CONNECTION_REFUSED|ERR_FAILED"):
            reader.page.goto(f"{reader.address}/{path}")


def test_the_name_of_a_build_is_that_of_its_content(tmp_path):
    assert (SITE / "offline.js").read_text(encoding="utf-8") == offline.named(SITE)
    built(tmp_path, page="one")
    one = offline.named(tmp_path)
    assert one == offline.named(tmp_path) and "BUILD" not in one
    built(tmp_path, page="two")
    two = offline.named(tmp_path)
    (tmp_path / "page.html").rename(tmp_path / "other.html")
    assert len({one, two, offline.named(tmp_path)}) == 3
