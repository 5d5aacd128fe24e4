"""The built pages in a browser: they ask no other host, show formulas, move without Python, fit a phone.

The pages are those of ``_build/html``, or of the folder that HANDGRAD_SITE names. With HANDGRAD_SITE set
nothing is skipped: no pages, or no browser, is then a failure. Screenshots for a human eye land in
``_build/screenshots``.
"""

import functools
import http.server
import json
import os
import re
import shutil
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import chapter
import pytest

ROOT = Path(__file__).parents[2]
REQUIRED = "HANDGRAD_SITE" in os.environ
SITE = ROOT / os.environ.get("HANDGRAD_SITE", "_build/html")
SCREENSHOTS = SITE.parent / "screenshots"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]

PAGES = sorted(str(file.relative_to(SITE)) for file in SITE.rglob("*.html") if "_static" not in file.parts)
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}

# Serious findings of axe-core that are the theme's, not ours, each with its reason. None is left.
FINDINGS_OF_THE_THEME = {}

# Formulas that MathJax could not read, and commands that it did not know, which it prints in red.
NOT_UNDERSTOOD = "mjx-merror, [data-mjx-error], mjx-mtext[style*='red']"

# Texts that a reader would see with LaTeX or a role left in them.
UNRENDERED = r"""() => {
    const left = /\\[a-zA-Z]{2,}|\$\$|\\\(|\{(eq|cite|ref|numref|math)[:\w]*\}/;
    const meant = 'pre, code, script, style, option, mjx-container';
    const root = document.querySelector('article') ?? document.body;
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const found = [];
    while (texts.nextNode())
        if (left.test(texts.currentNode.data) && !texts.currentNode.parentElement.closest(meant))
            found.push(texts.currentNode.data);
    return found;
}"""

pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(not REQUIRED and not PAGES, reason="the book is not built: make book"),
    pytest.mark.skipif(not REQUIRED and not CHROMIUM, reason="no Chromium is installed"),
]
each_page = pytest.mark.parametrize(
    "visit",
    [pytest.param(page, id=page, marks=pytest.mark.xdist_group(page)) for page in PAGES],
    indirect=True,
)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="session")
def address():
    handler = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Visit:
    """One page in a window of its own, and what went wrong while it was loaded."""

    def __init__(self, browser, address, path, viewport=WIDE, scheme="light"):
        self.path, self.foreign, self.errors = path, [], []
        self.context = browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
        self.context.route("**/*", functools.partial(self._allow, address))
        self.page = self.context.new_page()
        self.page.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("response", lambda r: r.status >= 400 and self.errors.append(f"{r.status} {r.url}"))
        self.page.goto(f"{address}/{path}", wait_until="networkidle")
        self.page.evaluate("window.MathJax?.startup?.promise.then(() => null)")

    def _allow(self, address, route):
        url = route.request.url
        if url.startswith((address + "/", "data:", "blob:")):
            route.continue_()
        else:
            self.foreign.append(url)
            route.abort()

    def screenshot(self, name):
        self.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        file = SCREENSHOTS / f"{self.path.removesuffix('.html').replace('/', '-')}-{name}.png"
        self.page.screenshot(path=file, full_page=True, animations="disabled")


@pytest.fixture(scope="module")
def visit(request, browser, address):
    visit = Visit(browser, address, request.param)
    yield visit
    visit.context.close()


def test_there_are_pages_and_a_browser():
    assert "index.html" in PAGES, f"no pages in {SITE}: make book"
    assert CHROMIUM, "no Chromium on the PATH"


@each_page
def test_a_page_loads_cleanly_and_from_here_alone(visit):
    assert visit.foreign == []
    assert visit.errors == []


@each_page
def test_mathematics_is_shown(visit):
    expected = visit.page.locator(".math").count()
    shown = visit.page.locator(".math mjx-container").count()
    assert bool(shown) == bool(expected) and shown >= expected
    assert visit.page.locator(NOT_UNDERSTOOD).count() == 0
    raw = visit.page.evaluate(UNRENDERED)
    assert raw == []


@each_page
def test_mathematics_is_shown_from_a_file(visit, browser):
    page = browser.new_page()
    page.goto(f"file://{SITE.resolve()}/{visit.path}", wait_until="load")
    page.wait_for_function(
        "document.querySelectorAll('.math mjx-container').length >= document.querySelectorAll('.math').length"
    )
    assert page.locator(NOT_UNDERSTOOD).count() == 0
    page.close()


@each_page
def test_a_quiz_replies_by_keyboard(visit):
    for question in visit.page.locator(".question").all():
        answers = question.locator("details")
        assert answers.count() >= 3 and question.locator("details.right").count() == 1
        for answer in answers.all():
            answer.locator("summary").focus()
            answer.locator("summary").press("Enter")
            assert question.locator("[role=status]:visible").count() == 1
            assert answer.locator("[role=status]").is_visible()
        answer.locator("summary").press("Enter")
        assert question.locator("[role=status]:visible").count() == 0


@each_page
def test_sliders_move_by_keyboard_without_python(visit):
    for box in visit.page.locator(".frames").all():
        slider, images, shown = box.locator("input"), box.locator("img"), box.locator("img:visible")
        last = images.count() - 1
        slider.focus()
        slider.press("Home")
        seen = []
        for i in range(last + 1):
            assert slider.input_value() == str(i)
            assert shown.count() == 1
            assert shown.evaluate("img => img.complete && img.naturalWidth > 0")
            text = shown.get_attribute("data-value")
            assert box.locator("output").inner_text() == text == slider.get_attribute("aria-valuetext")
            seen.append(shown.get_attribute("src"))
            slider.press("ArrowRight")
        assert len(set(seen)) == len(seen), "two frames are the same picture"
        slider.press("End")
        assert slider.input_value() == str(last)


@each_page
def test_questions_answer_without_python(visit):
    for box in visit.page.locator(".lookup").all():
        choice = box.locator("select")
        options = choice.locator("option")
        assert options.count() > 1
        for i in range(options.count()):
            choice.select_option(index=i)
            answer = box.locator("output").evaluate("output => output.textContent")
            assert answer == options.nth(i).get_attribute("value") != ""


@each_page
def test_every_equation_of_a_chapter_shows_its_evidence(visit):
    """A mark beside each number, in words too, leads to a cell; the number begins with the chapter's."""
    chapter = re.fullmatch(r"notebooks/(\d\d)_\w+\.html", visit.path)
    for place, number in enumerate(visit.page.locator(".eqno").all() if chapter else (), 1):
        assert f"({int(chapter[1])}.{place})" in number.inner_text()
        mark = number.locator(".evidence")
        assert mark.count() == 1 and mark.get_attribute("aria-label") and mark.get_attribute("title")
        target = mark.get_attribute("href")
        assert target is None or visit.page.locator(f".cell{target}, .cell span{target}").count() == 1


@each_page
def test_chapters_link_their_companions(visit):
    if visit.path.startswith("notebooks/"):
        links = visit.page.locator("nav.companions a")
        assert links.first.inner_text() == "This notebook"
        notebook = visit.page.request.get(links.first.evaluate("link => link.href"))
        assert notebook.ok and json.loads(notebook.body())["nbformat"] == 4


@each_page
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_barrier(visit, browser, address, scheme):
    from axe_playwright_python.sync_playwright import Axe

    same = scheme == "light"
    here = visit if same else Visit(browser, address, visit.path, scheme=scheme)
    report = Axe().run(here.page, options={"resultTypes": ["violations"]})
    here.screenshot(f"1280-{scheme}")
    if not same:
        here.context.close()
    serious = {
        finding["id"]: [node["html"][:200] for node in finding["nodes"]][:3]
        for finding in report.response["violations"]
        if finding["impact"] in ("serious", "critical") and finding["id"] not in FINDINGS_OF_THE_THEME
    }
    assert serious == {}


@each_page
def test_a_phone_scrolls_in_one_direction(visit, browser, address):
    phone = Visit(browser, address, visit.path, viewport=PHONE)
    wide = phone.page.evaluate(
        """() => [document.documentElement.scrollWidth, [...document.querySelectorAll('article *')]
            .filter(e => e.getBoundingClientRect().right > innerWidth + 1
                && !e.closest('div.math, .pst-scrollable-table-container, pre, mjx-container')
                && !e.closest('.output, .cell_output'))
            .map(e => e.outerHTML.slice(0, 120)).slice(0, 3)]"""
    )
    cut = phone.page.locator("div.math:not(.output) > mjx-container").evaluate_all(
        "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.parentElement.id)"
    )
    phone.screenshot("390-light")
    phone.context.close()
    assert wide == [PHONE["width"], []]
    assert cut == [], "formulas that are wider than the page; break them into lines"


def test_the_map_links_the_chapters_that_are_written(browser, address):
    visit = Visit(browser, address, "book/intro.html")
    links = visit.page.locator("ul.chapters a").evaluate_all("links => links.map(link => link.pathname)")
    assert links == [f"/notebooks/{path.stem}.html" for path in sorted(ROOT.glob("notebooks/[0-9]*.ipynb"))]
    assert visit.page.locator("ul.chapters li.planned").count() == len(chapter.TOPICS) - len(links)
    visit.context.close()


@pytest.mark.parametrize("word", ["softmax", "backpropagation"])
def test_search_finds_a_word_of_the_book(word, browser, address):
    search = Visit(browser, address, f"search.html?q={word}")
    result = search.page.locator("#search-results li a").first
    result.wait_for(timeout=10_000)
    assert word in search.page.locator("#search-results").inner_text().lower()
    search.context.close()


class Links(HTMLParser):
    """The addresses a page links, and the places in it that can be linked."""

    def __init__(self, file):
        super().__init__()
        self.links, self.places = [], {"", "top"}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.places |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        self.links += [attributes[key] for key in ("href", "src") if attributes.get(key)]


def test_every_link_inside_the_site_leads_somewhere():
    pages = {SITE / page: Links(SITE / page) for page in PAGES}
    broken = []
    for file, page in pages.items():
        for link in page.links:
            target, place = urldefrag(link)
            if urlsplit(target).scheme or target.startswith("//"):
                continue
            target = (file.parent / unquote(urlsplit(target).path)).resolve() if target else file
            if not target.is_file() or (target in pages and unquote(place) not in pages[target].places):
                broken.append(f"{file.relative_to(SITE)}: {link}")
    assert broken == []
