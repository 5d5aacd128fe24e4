"""Pages on paper: the cheat sheet is two pages of A4 or Letter, and nothing on it is cut or too small."""

import re

import pytest
from test_site import LOOKING, PAGES, SITE, Visit

SHEET = "book/cheat_sheet.html"
CHAPTERS = [page for page in PAGES if re.fullmatch(r"notebooks/\d\d_\w+\.html", page)]

# Its sides in mm. A window as large, less 7 mm at each edge, has columns as wide as those of the paper.
PAPER = {"A4": (297, 210), "Letter": (279.4, 215.9)}
LEAST = 6.5  # points: text, and the letters of formulas that are no subscripts

pytestmark = LOOKING

# What sticks out of its card, of the page, or is smaller than it may be.
WRONG = """least => {
    const cards = [...document.querySelectorAll('.sheet-card')];
    const out = (e, box) => e.getBoundingClientRect().right > box.getBoundingClientRect().right + 0.5;
    const shown = e => !e.closest('.katex-mathml, .katex svg');
    const words = [...document.querySelectorAll('.cheat-sheet *')].filter(e =>
        !e.closest('.katex') && [...e.childNodes].some(c => c.nodeType === 3 && c.data.trim()));
    const formulas = [...document.querySelectorAll('.cheat-sheet .katex')];
    const size = e => parseFloat(getComputedStyle(e).fontSize) * 0.75;
    return {
        wide: cards.flatMap(card => [...card.querySelectorAll('*')]
            .filter(e => shown(e) && out(e, card)).map(e => e.textContent.slice(0, 40))),
        small: [...words, ...formulas].filter(e => size(e) < least).map(e => e.textContent.slice(0, 40)),
        high: [...document.querySelectorAll('.cheat-sheet')].map(e => e.getBoundingClientRect().height),
    };
}"""


def pages_of(pdf):
    """The pages of a PDF as Chromium writes it."""
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.fixture(params=PAPER)
def printed(request, browser, address):
    """The cheat sheet, as it is on paper: (name of the paper, page in the browser)."""
    visit = Visit(browser, address, SHEET)
    visit.page.emulate_media(media="print")
    width, height = ((side - 14) * 96 / 25.4 for side in PAPER[request.param])
    visit.page.set_viewport_size({"width": int(width), "height": int(height)})
    yield request.param, visit.page, height
    visit.context.close()


def test_the_cheat_sheet_is_two_pages(printed):
    paper, page, height = printed
    assert pages_of(page.pdf(format=paper)) == 2
    wrong = page.evaluate(WRONG, LEAST)
    assert wrong["wide"] == [] and wrong["small"] == []
    assert len(wrong["high"]) == 2 and max(wrong["high"]) < 0.97 * height


def test_what_is_wrong_on_paper_is_seen(printed):
    """A formula that is too wide, letters that are too small, a card that is too long for the second page."""
    paper, page, _ = printed
    page.add_style_tag(
        content=".sheet-card:first-child .statement { width: 30rem; font-size: 4pt !important; }"
    )
    wrong = page.evaluate(WRONG, LEAST)
    assert wrong["wide"] and wrong["small"]
    page.add_style_tag(content=".sheet-card:last-child { padding-bottom: 200mm !important; }")
    assert pages_of(page.pdf(format=paper)) > 2


def test_every_chapter_is_on_the_cheat_sheet(browser, address):
    visit = Visit(browser, address, SHEET)
    links = visit.page.locator(".sheet-card > p > a").evaluate_all("all => all.map(a => a.pathname.slice(1))")
    assert links == CHAPTERS and len(links) == 21
    numbers = visit.page.locator(".sheet-card .evidence a")
    assert numbers.count() > 80
    for number in numbers.all()[::10]:
        path, _, place = number.evaluate("a => a.pathname.slice(1) + a.hash").partition("#")
        assert f'id="{place}"' in (SITE / path).read_text()
    visit.context.close()
