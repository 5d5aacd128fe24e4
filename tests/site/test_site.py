"""The built pages in a browser: they ask no other host, show formulas, move without Python, fit a phone.

The pages are those of ``_build/html``, or of the folder that HANDGRAD_SITE names. With HANDGRAD_SITE set
nothing is skipped: no pages, or no browser, is then a failure.
"""

import functools
import gzip
import http.server
import json
import os
import re
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[2]
REQUIRED = "HANDGRAD_SITE" in os.environ
SITE = ROOT / os.environ.get("HANDGRAD_SITE", "_build/html")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]

PAGES = sorted(str(file.relative_to(SITE)) for file in SITE.rglob("*.html") if "_static" not in file.parts)
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}

# Formulas that KaTeX could not read, or only in part.
NOT_UNDERSTOOD = ".math > code, .katex-error, .katex .mord[style*='color:#cc0000']"

# When the browser has drawn the page anew.
TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))"

# The axe rules that need the colours of every element, nine tenths of its time on a page of code.
COLOURS = ["color-contrast", "link-in-text-block"]

# Before axe looks: of code, one word of each colour stays; of formulas, the first, and the boxes of all.
THIN_OUT = """() => {
    const seen = new Set();
    for (const word of document.querySelectorAll('div.highlight span[class]')) {
        if (seen.has(word.className)) word.replaceWith(...word.childNodes);
        seen.add(word.className);
    }
    for (const formula of [...document.querySelectorAll('.katex')].slice(1)) formula.replaceChildren();
}"""

# What is wider than the window of a phone: the page, things outside a box that scrolls, formulas.
TOO_WIDE = """() => ({
    page: document.documentElement.scrollWidth,
    things: [...document.querySelectorAll('article *')]
        .filter(e => e.getBoundingClientRect().right > innerWidth + 1
            && !e.closest('div.math, .pst-scrollable-table-container, pre, .katex')
            && !e.closest('.output, .cell_output, .scrolls'))
        .map(e => e.outerHTML.slice(0, 120)).slice(0, 3),
    formulas: [...document.querySelectorAll('div.math:not(.output) > .katex-display')]
        .filter(e => e.scrollWidth > e.clientWidth + 1)
        .map(e => e.closest('.math')?.id || e.textContent.slice(0, 60)),
    inline: [...document.querySelectorAll('article span.math .katex-html > .base')]
        .filter(e => e.getBoundingClientRect().right > innerWidth + 1
            && !e.closest('.pst-scrollable-table-container, .output, .cell_output'))
        .map(e => e.textContent.slice(0, 60)),
})"""

# What elements say: a picture by its alternative, with the value that it stands for.
TELL = "all => all.map(e => [e.tagName, e.alt ?? e.textContent, e.dataset.value])"

# Texts that a reader would see with LaTeX or a role left in them.
UNRENDERED = r"""() => {
    const left = /\\[a-zA-Z]{2,}|\$\$|\\\(|\{(eq|cite|ref|numref|math)[:\w]*\}/;
    const meant = 'pre, code, script, style, option, .katex';
    const root = document.querySelector('article') ?? document.body;
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const found = [];
    while (texts.nextNode())
        if (left.test(texts.currentNode.data) && !texts.currentNode.parentElement.closest(meant))
            found.push(texts.currentNode.data);
    return found;
}"""

LOOKING = [
    pytest.mark.site,
    pytest.mark.skipif(not REQUIRED and not PAGES, reason="the book is not built: make book"),
    pytest.mark.skipif(not REQUIRED and not CHROMIUM, reason="no Chromium is installed"),
]
"""What a file of tests needs that looks at pages."""

pytestmark = LOOKING


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@functools.cache
def weight(file):
    return len(gzip.compress(file.read_bytes()))


class Visit:
    """One page in a window of its own, and what went wrong while it was loaded."""

    def __init__(self, browser, address, path, until="networkidle"):
        self.path, self.foreign, self.errors, self.weight = path, [], [], 0
        look = dict(viewport=WIDE, color_scheme="light", reduced_motion="reduce")
        self.context = browser.new_context(**look, service_workers="block")  # test_offline.py lets it in
        self.context.route("**/*", functools.partial(self._allow, address))
        self.page = self.context.new_page()
        self.page.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("response", lambda r: r.status >= 400 and self.errors.append(f"{r.status} {r.url}"))
        self.page.on("requestfinished", self._weigh)
        self.page.goto(f"{address}/{path}", wait_until=until)
        self.page.evaluate("document.fonts.ready.then(() => null)")

    def _allow(self, address, route):
        url = route.request.url
        if url.startswith((address + "/", "data:", "blob:")):
            route.continue_()
        else:
            self.foreign.append(url)
            route.abort()

    def _weigh(self, request):
        file = SITE / unquote(urlsplit(request.url).path).lstrip("/")
        if request.url.startswith("http") and file.is_file():
            self.weight += weight(file)


class Look(Visit):
    """A visit at which a page is looked at once for everything: on a phone, on paper, in the dark.

    At the end the page is wide and light again, thinned out (see THIN_OUT), and can be played with.
    """

    def __init__(self, browser, address, path):
        sends_on = path == "index.html"
        super().__init__(browser, address, path, until="networkidle" if sends_on else "load")
        page = self.page
        self.formulas = page.locator(".math").count(), page.locator(".math .katex-html").count()
        self.not_understood = page.locator(NOT_UNDERSTOOD).all_inner_texts()
        self.unrendered = page.evaluate(UNRENDERED)

        page.set_viewport_size(PHONE)
        page.evaluate(TWO_FRAMES)
        self.too_wide = page.evaluate(TOO_WIDE)
        page.set_viewport_size(WIDE)

        page.emulate_media(color_scheme="dark")
        page.evaluate(THIN_OUT)
        self.barriers = {"dark": self._barriers(runOnly={"type": "rule", "values": COLOURS})}
        self.on_paper = self._print()
        page.emulate_media(color_scheme="light")
        self.barriers["light"] = self._barriers()
        page.wait_for_load_state("networkidle")

    def _barriers(self, **options):
        """What axe finds that is serious: {rule: elements}."""
        from axe_playwright_python.sync_playwright import Axe

        report = Axe().run(self.page, options={"resultTypes": ["violations"], "preload": False, **options})
        return {
            finding["id"]: [node["html"][:200] for node in finding["nodes"]][:3]
            for finding in report.response["violations"]
            if finding["impact"] in ("serious", "critical")
        }

    def _print(self):
        """The theme in which a page is printed from the dark, and the one it has afterwards."""
        theme = "document.documentElement.dataset.theme"
        self.page.evaluate(f"addEventListener('beforeprint', () => window.printedIn = {theme})")
        self.page.pdf(page_ranges="1")
        return self.page.evaluate(f"[window.printedIn, {theme}]")


# What a page must hold --------------------------------------------------------------------------------------


def check_a_page_loads_cleanly_and_from_here_alone(look):
    assert look.foreign == []
    assert look.errors == []


def check_a_page_is_light_to_load(look):
    """In bytes as a server would send them; figures are most of a chapter."""
    chapter = re.fullmatch(r"notebooks/\d\d_\w+\.html", look.path)
    assert look.weight <= (1_200_000 if chapter else 500_000)


def check_mathematics_is_shown(look):
    expected, shown = look.formulas
    assert bool(shown) == bool(expected) and shown >= expected
    assert look.not_understood == []
    assert look.unrendered == []


def check_a_quiz_replies_by_keyboard(look):
    for question in look.page.locator(".question").all():
        answers = question.locator("details")
        assert answers.count() >= 3 and question.locator("details.right").count() == 1
        for answer in answers.all():
            answer.locator("summary").press("Enter")
            assert question.locator("[role=status]:visible").count() == 1
            assert answer.locator("[role=status]").is_visible()
        answer.locator("summary").press("Enter")
        assert question.locator("[role=status]:visible").count() == 0


def check_sliders_move_by_keyboard_without_python(look):
    for box in look.page.locator(".frames").all():
        slider, images, shown = box.locator("input"), box.locator("img"), box.locator("img:visible")
        last = images.count() - 1
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


def bits(box):
    """What is switched on in each row, by its one picture, whose words are told."""
    shown = box.locator(".strip output, .strip img:visible").evaluate_all(TELL)
    assert [name for name, *_ in shown] == ["OUTPUT", "IMG"] * box.locator(".strip").count()
    assert [words for _, words, _ in shown[::2]] == [words for _, words, _ in shown[1::2]]
    return [value for *_, value in shown[1::2]]


def check_switches_answer_by_keyboard_without_python(look):
    for box in look.page.locator(".switches").all():
        ticks = [row.locator("input").all() for row in box.locator(".strip").all()]
        for button in box.locator("button").all():
            button.press("Enter")
            before = bits(box)
            assert "".join(before) == button.get_attribute("value")
            for r, row in enumerate(ticks):
                for c, tick in enumerate(row):
                    tick.press("Space")
                    before[r] = before[r][:c] + "10"[int(before[r][c])] + before[r][c + 1 :]
                    assert bits(box) == before


def check_questions_answer_without_python(look):
    for box in look.page.locator(".lookup").all():
        choice = box.locator("select")
        options = choice.locator("option")
        assert options.count() > 1
        for i in range(options.count()):
            choice.select_option(index=i)
            answer = box.locator("output").evaluate("output => output.textContent")
            assert answer == options.nth(i).get_attribute("value") != ""


def check_every_equation_of_a_chapter_shows_its_evidence(look):
    """A mark beside each number, in words too, leads to a cell; the number begins with the chapter's."""
    chapter = re.fullmatch(r"notebooks/(\d\d)_\w+\.html", look.path)
    for place, number in enumerate(look.page.locator(".eqno").all() if chapter else (), 1):
        assert f"({int(chapter[1])}.{place})" in number.text_content()  # it may lie in a closed box
        mark = number.locator(".evidence")
        assert mark.count() == 1 and mark.get_attribute("aria-label") and mark.get_attribute("title")
        target = mark.get_attribute("href")
        assert target is None or look.page.locator(f".cell{target}, .cell span{target}").count() == 1


def check_chapters_link_their_companions(look):
    if look.path.startswith("notebooks/"):
        links = look.page.locator("nav.companions a")
        assert links.first.inner_text() == "This notebook"
        notebook = look.page.request.get(links.first.evaluate("link => link.href"))
        assert notebook.ok and json.loads(notebook.body())["nbformat"] == 4


def check_no_serious_barrier(look):
    assert look.barriers == {"light": {}, "dark": {}}


def check_a_phone_scrolls_in_one_direction(look):
    assert look.too_wide == {"page": PHONE["width"], "things": [], "formulas": [], "inline": []}


def check_paper_is_white(look):
    assert look.on_paper == ["light", "dark"]


CHECKS = [check for name, check in globals().items() if name.startswith("check_")]


@pytest.mark.parametrize("path", PAGES)
def test_a_page(path, browser, address, subtests):
    look = Look(browser, address, path)
    for check in CHECKS:
        with subtests.test(check.__name__):
            check(look)
    look.context.close()


# What the site must hold ------------------------------------------------------------------------------------


def test_there_are_pages_and_a_browser():
    assert "index.html" in PAGES, f"no pages in {SITE}: make book"
    assert CHROMIUM, "no Chromium on the PATH"


@pytest.mark.parametrize("folder", sorted({os.path.dirname(page) for page in PAGES}))
def test_mathematics_is_shown_from_a_file(folder, browser):
    """On the largest page of each folder, since what a page loads is found from where it lies."""
    pages = [SITE / page for page in PAGES if os.path.dirname(page) == folder]
    page = browser.new_page()
    page.goto(max(pages, key=lambda file: file.stat().st_size).resolve().as_uri(), wait_until="load")
    page.evaluate("document.fonts.ready.then(() => null)")
    assert page.evaluate("document.fonts.check('1em KaTeX_Main')"), "formulas in the letters of the text"
    assert page.locator(NOT_UNDERSTOOD).count() == 0
    page.close()


@pytest.mark.parametrize("page, links", [("intro", ".chapters a"), ("ways", ".chapter-graph a")])
def test_the_maps_link_every_chapter(page, links, browser, address):
    visit = Visit(browser, address, f"book/{page}.html")
    found = visit.page.locator(links).evaluate_all(
        "links => links.map(link => new URL(link.getAttribute('href'), link.baseURI).pathname)"
    )
    assert found == [f"/notebooks/{path.stem}.html" for path in sorted(ROOT.glob("notebooks/[0-9]*.ipynb"))]
    visit.context.close()


def test_a_box_of_the_model_shows_its_card_alone(browser, address):
    visit = Visit(browser, address, "book/intro.html")
    shown = visit.page.locator(".architecture > .box:visible")
    assert shown.get_attribute("id") == "box-attention"
    visit.page.locator('.architecture a[href="#box-positions"]').focus()
    visit.page.keyboard.press("Enter")
    assert shown.get_attribute("id") == "box-positions" and shown.locator(".evidence").count() == 2
    visit.context.close()


def test_the_map_says_what_a_chapter_needs(browser, address):
    visit = Visit(browser, address, "book/ways.html")
    visit.page.locator('.chapter-graph a[data-number="8"]').focus()
    needed = visit.page.locator(".chapter-graph a.needed").evaluate_all(
        "all => all.map(a => a.dataset.number)"
    )
    assert needed == ["1", "2", "3"]
    assert "Chapter 8 builds on 1, 2, 3:" in visit.page.locator(".chapter-graph-told").inner_text()
    visit.page.locator('.chapter-graph a[data-number="8"]').blur()
    assert visit.page.locator(".chapter-graph .needed").count() == 0
    visit.context.close()


def test_what_is_read_and_solved_is_remembered(browser, address, tmp_path):
    """Ticked in a chapter, seen on the map; a record is loaded, another file is not; all is forgotten."""
    visit = Visit(browser, address, "notebooks/08_attention.html")
    visit.page.locator(".read-mark input").check()
    visit.page.goto(f"{address}/book/ways.html")
    told, card = visit.page.locator(".progress-told"), '.chapters .done[data-page="notebooks/08_attention"]'
    assert "Read: 1 of 21 chapters. Solved: 0 of" in told.inner_text()
    record = '{"exercise": "softmax_ds", "status": "right"}\n'
    for name, text, reply in (("record", record, "1 verdict read"), ("other", "words", "is not a record")):
        (tmp_path / name).write_text(text)
        visit.page.locator(".your-progress input").set_input_files(tmp_path / name)
        visit.page.locator(".progress-loaded", has_text=reply).wait_for()
    assert visit.page.locator(card).inner_text() == "✓ read · 1 of 6 exercises solved"
    assert visit.page.locator(".chapter-graph a.read").count() == 1
    visit.page.reload()
    assert "Read: 1 of 21 chapters. Solved: 1 of" in told.inner_text()
    visit.page.locator(".your-progress button").click()
    assert "Read: 0 of 21 chapters. Solved: 0 of" in told.inner_text()
    assert visit.foreign == [] and visit.errors == []
    visit.context.close()


def test_a_mark_opens_the_fold_that_it_leads_to(browser, address):
    folded = ".cell[id^=check-] details.hide, .cell:has([id^=check-]) details.hide"
    page = next(
        f"notebooks/{path.name}"
        for path in sorted(SITE.glob("notebooks/[0-9]*.html"))
        if BeautifulSoup(path.read_text("utf-8"), "html.parser").select(folded)
    )
    visit = Visit(browser, address, page)
    fold = visit.page.locator(folded).first
    name = fold.locator("xpath=ancestor-or-self::*[starts-with(@id, 'check-')]").first.get_attribute("id")
    assert not fold.evaluate("fold => fold.open")
    visit.page.locator(f'a.evidence[href="#{name}"]').click()
    visit.page.wait_for_function("fold => fold.open", arg=fold.element_handle())
    visit.page.reload(wait_until="load")  # an address that is opened anew
    visit.page.wait_for_function("fold => fold.open", arg=fold.element_handle())
    visit.context.close()


def test_formulas_are_read_soon_on_a_slow_phone(browser, address):
    """4.5 Mbit/s, as pages are not compressed here; three times the goal of 3 s, for a busy machine."""
    context = browser.new_context(viewport=PHONE, java_script_enabled=False)
    page = context.new_page()
    line = context.new_cdp_session(page)
    line.send("Network.enable")
    speed = dict(downloadThroughput=4.5e6 / 8, uploadThroughput=1e6 / 8, latency=150, offline=False)
    line.send("Network.emulateNetworkConditions", speed)
    begin = time.monotonic()
    with page.expect_response("**/KaTeX_Math-Italic.woff2", timeout=60_000) as letters:
        page.goto(f"{address}/notebooks/09_masks.html", wait_until="commit")
    letters.value.finished()
    assert page.locator(".katex-html").first.is_visible()  # set without a script
    assert time.monotonic() - begin < 9
    context.close()


def test_a_figure_is_enlarged_on_a_phone(browser, address):
    visit = Visit(browser, address, "notebooks/09_masks.html")
    visit.page.set_viewport_size(PHONE)
    figure = visit.page.locator(".bd-article .cell_output img").first
    narrow = figure.bounding_box()["width"]
    figure.click()
    large = visit.page.locator("dialog.enlarged[open] img")
    assert narrow <= PHONE["width"] < large.bounding_box()["width"]
    large.click()
    assert visit.page.locator("dialog[open]").count() == 0
    visit.context.close()


def test_the_index_of_equations_is_filtered(browser, address):
    visit = Visit(browser, address, "book/equation_index.html")
    shown = visit.page.locator(".entry:visible")
    every = shown.count()
    visit.page.get_by_label("in chapter").select_option("9")
    of_chapter = shown.count()
    visit.page.get_by_label("evidence").select_option("general")
    assert 0 < shown.count() < of_chapter < every
    assert visit.page.locator(".entry-filter output").inner_text() == f"{shown.count()} found"
    visit.context.close()


@pytest.mark.parametrize("path", sorted(ROOT.glob("notebooks/[0-9]*.ipynb")), ids=lambda path: path.stem)
def test_folds_say_what_they_hold_and_checks_what_they_show(path):
    page = (SITE / f"notebooks/{path.stem}.html").read_text(encoding="utf-8")
    assert "Show code cell" not in page
    told = re.findall(r'<ul class="established".*?</ul>', page, re.DOTALL)
    assert told and all(re.search(r'href="#equation-eq-[\w-]+">\(\d+\.\d+\)</a> [a-z]', one) for one in told)


@pytest.mark.parametrize(
    ("page", "before", "behind"),
    [
        ("09_masks", "08_attention", "10_multi_head"),
        ("exercises/09_masks", "09_masks", "solutions/09_masks"),
        ("solutions/09_masks", "exercises/09_masks", "10_multi_head"),
    ],
)
def test_previous_and_next_lead_from_chapter_to_chapter(page, before, behind, browser, address):
    visit = Visit(browser, address, f"notebooks/{page}.html")
    for side, wanted in (("left-prev", before), ("right-next", behind)):
        link = visit.page.locator(f"a.{side}")
        assert link.evaluate("a => new URL(a.href).pathname") == f"/notebooks/{wanted}.html"
    visit.context.close()


def test_the_sidebar_shows_where_one_is(browser, address):
    visit = Visit(browser, address, "notebooks/20_speed.html")
    here = visit.page.locator(".bd-sidebar-primary .current.active").last
    assert 0 < here.bounding_box()["y"] < visit.page.viewport_size["height"]
    visit.context.close()


@pytest.mark.parametrize(
    "word, page",
    [("softmax", "02_softmax_cross_entropy"), ("optimizers", "15_optimizers"), ("backpropagation", "")],
)
def test_search_finds_a_word_of_the_book_and_the_page_named_so_first(word, page, browser, address):
    search = Visit(browser, address, f"search.html?q={word}")
    first = search.page.locator("#search-results li").first
    first.locator("p.context").wait_for(timeout=30_000)
    assert word in search.page.locator("#search-results").inner_text().lower()
    assert page in first.locator("a").first.get_attribute("href")
    assert not re.search(r"\\\(|Contents", first.inner_text())  # an excerpt is text of the page
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
            path = unquote(urlsplit(target).path)  # 404.html counts from the root
            target = (SITE.resolve() / path[1:] if path[:1] == "/" else file.parent / path).resolve()
            target = target if path else file
            if not target.is_file() or (target in pages and unquote(place) not in pages[target].places):
                broken.append(f"{file.relative_to(SITE)}: {link}")
    assert broken == []
