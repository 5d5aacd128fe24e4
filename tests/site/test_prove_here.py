"""The page Prove here: sheets are judged in the page as they are elsewhere."""

from pathlib import Path

import pytest
from test_site import LOOKING, SITE, Visit

from handgrad.page.sheet import outcomes

SHEETS = sorted((Path(__file__).parents[2] / "book/_static/here/sheets").glob("*.txt"))

pytestmark = LOOKING


@pytest.mark.parametrize("file", ["book/prove_here.html", "notebooks/01_chain_rule.html"])
def test_the_size_that_is_named_is_that_of_the_parts(file):
    size = sum(path.stat().st_size for path in (SITE / "_static/here").glob("*.gz"))
    assert f"{size / 1e6:.0f} MB" in (SITE / file).read_text(encoding="utf-8")


def test_every_sheet_of_the_menu_has_the_verdicts_that_it_has_elsewhere(browser, address):
    visit = Visit(browser, address, "book/prove_here.html")
    page, loaded = visit.page, []
    page.on("request", lambda request: loaded.append(request.url))
    menu = page.locator("[name=example] option").evaluate_all("all => all.map(o => o.value)")
    assert sorted(menu) == [path.stem for path in SHEETS] and not any(url.endswith(".gz") for url in loaded)
    for path in SHEETS:
        page.select_option("[name=example]", path.stem)
        title = path.read_text().splitlines()[0].removeprefix("# ")
        assert page.locator(f"option[value={path.stem}]").inner_text() == title
        page.wait_for_function(
            "first => document.getElementsByName('formulas')[0].value.startsWith(first)",
            arg=path.read_text().splitlines()[3],
        )
        page.get_by_role("button", name="Prove").click()
        page.wait_for_function(
            "document.querySelector('#sheet [role=status]').textContent === 'Done.'", timeout=120_000
        )
        shown = page.locator(".here-outcomes li").evaluate_all(
            "all => all.map(li => [...li.children].map(e => e.title || e.textContent))"
        )
        assert [(what, verdict) for verdict, what, _ in shown] == [o[:2] for o in outcomes(path.read_text())]
    page.get_by_label("Letters, and the axes").fill("x (D)")
    page.get_by_label("Formulas in TeX").fill("y_j = x_j")
    page.get_by_label("Lines of NumPy").fill("print('half a line', end='')\ny = 2 * x")
    page.get_by_role("button", name="Prove").click()
    page.locator(".here-outcomes .here-differs").wait_for(timeout=60_000)
    page.get_by_label("Formulas in TeX").fill(
        "y_j = x_j\n" + "\n".join(["\\mathrm dx_j = \\mathrm dy_j"] * 500)
    )
    page.get_by_role("button", name="Prove").click()
    page.get_by_role("button", name="Stop").click()
    assert page.locator("#sheet [role=status]").inner_text() == "Stopped."
    assert visit.foreign == []
    visit.context.close()


def test_a_layer_of_today_is_opened_by_its_link(browser, address):
    visit = Visit(browser, address, "book/five_layers.html")
    links = visit.page.get_by_role("link", name="Open it in Prove here")
    assert links.count() == 5
    links.nth(2).click()
    visit.page.wait_for_function("document.getElementsByName('formulas')[0]?.value.includes('a_{t+1}')")
    assert visit.page.locator("[name=example]").input_value() == "scan"
    assert visit.errors == [] and visit.foreign == []
    visit.context.close()
