"""The book as one PDF: every page is in it, numbered and marked, and its links lead inside."""

import io
import re
from pathlib import Path

import pdf
import pytest
from pypdf import PdfReader, PdfWriter
from test_site import LOOKING, SITE

pytestmark = LOOKING
PARTS = [("", ["book/how_to_use.html"]), ("Attention", ["notebooks/09_masks.html", "book/notation.html"])]


@pytest.fixture(scope="session")
def made():
    data, within, missing = pdf.make(SITE.resolve(), parts=PARTS)
    return PdfReader(io.BytesIO(data)), within, missing


def begins(reader):
    """{title: the number of the page on which it begins, from 0}, by the bookmarks."""
    flat = [item for entry in reader.outline for item in (entry if isinstance(entry, list) else [entry])]
    return {item.title: reader.get_destination_page_number(item) for item in flat}


def test_each_page_has_a_bookmark_a_line_in_the_contents_and_a_number(made):
    reader, _, _ = made
    first = begins(reader)
    assert [*first] == ["How to use this book", "Attention", "9. Masks", "Notation"]
    assert "Contents" in reader.pages[1].extract_text() and first["Attention"] == first["9. Masks"]
    listed = reader.pages[1].extract_text()
    for title in ("How to use this book", "9. Masks", "Notation"):
        words = reader.pages[first[title]].extract_text()
        assert title in words and words.rstrip().endswith(str(first[title] + 1))
        assert str(first[title] + 1) in listed and title in listed
    assert first["Notation"] - first["9. Masks"] > 5 and len(reader.pages) > first["Notation"] + 2


def test_links_between_pages_and_to_places_lead_inside(made):
    reader, within, missing = made
    first, goals = begins(reader), []
    for sheet in reader.pages[first["9. Masks"] : first["Notation"]]:
        for link in sheet.get("/Annots", ()):
            action = link.get_object().get("/A", {})
            assert "file:" not in str(action.get("/URI", "")) or "notation" not in str(action.get("/URI"))
            if action.get("/S") == "/GoTo":
                goals.append(reader.get_page_number(action["/D"][0].get_object()))
    assert missing == [] and within > 20
    assert any(goal >= first["Notation"] for goal in goals), "to another page"
    assert any(first["9. Masks"] < goal < first["Notation"] for goal in goals), "to a place in the same"


def test_the_first_page_links_the_pdf_that_is_made_of_its_build(tmp_path, monkeypatch):
    blank, data, first = PdfWriter(), io.BytesIO(), tmp_path / "book/intro.html"
    blank.add_blank_page(100, 100)
    blank.write(data)
    monkeypatch.setattr(pdf, "contents", lambda root, site: [("", ["book/intro.html"])])
    monkeypatch.setattr(pdf, "make", lambda site, parts: (data.getvalue(), 0, []))
    first.parent.mkdir()
    first.write_text(Path(pdf.ROOT, "book/intro.md").read_text(encoding="utf-8"))
    unlinked = first.read_text()
    assert pdf.main([str(tmp_path), str(tmp_path / "elsewhere.pdf")]) == 0 and first.read_text() == unlinked
    for _ in range(2):  # it may be printed twice
        assert pdf.main([str(tmp_path)]) == 0
        (href,) = re.findall(r'<span class="as-pdf">.*<a href="([^"]*)".*, 1 pages', first.read_text())
        assert href == "../the-transformer-by-hand.pdf"
        assert (first.parent / href).read_bytes() == data.getvalue()
    first.write_text("a page without a place for it")
    with pytest.raises(ValueError, match="expected one place"):
        pdf.main([str(tmp_path)])


def test_what_is_missing_is_said(tmp_path, monkeypatch, capsys):
    assert pdf.main([str(tmp_path)]) == 1
    assert "make book builds it" in capsys.readouterr().err
    monkeypatch.setattr(pdf.shutil, "which", lambda name: None)
    assert pdf.main([str(SITE)]) == 1
    assert "install it, then make pdf" in capsys.readouterr().err


def test_the_contents_are_those_of_the_book_with_the_solutions_last():
    parts = pdf.contents(Path(pdf.ROOT), SITE.resolve())
    pages = [page for _, pages in parts for page in pages]
    assert parts[-1][0] == "Solutions" and len(parts[-1][1]) == 21
    assert len(set(pages)) == len(pages) > 60
