"""Print the built book into one PDF, with bookmarks, page numbers, and links from page to page.

    python tools/pdf.py [SITE] [FILE]     by default _build/html, and in it the-transformer-by-hand.pdf
    python tools/pdf.py --only 9          one chapter, its exercises and solutions: _build/chapter-09.pdf

Chromium prints every page of the table of contents; pypdf joins them, and pikepdf packs the file. A link to
another page of the book, or to a place in it, becomes one inside the file. The solutions stand at the end.
The first page of the site links the file in it, until that page is built anew.
"""

import argparse
import io
import os
import re
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from html import escape, unescape
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pikepdf
import yaml
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, FloatObject, NameObject, NullObject
from tqdm import tqdm

import handgrad

ROOT = Path(__file__).parents[1]
TITLE = "The Transformer by Hand"
OWN = "book:/"  # what the links of the contents begin with
AT_A_TIME = min(2, os.cpu_count() or 1)
SHEET = dict(format="A4", print_background=True)
PAPER = dict(format="A4", scale=0.85, margin=dict(top="16mm", bottom="20mm", left="20mm", right="20mm"))
FLAGS = ["--no-sandbox", "--disable-gpu"]

# What is folded is opened; code that is folded goes to the end of its page, in small print. Every place that
# another page leads to is linked from here as well: Chromium notes where a place is only if a link of the
# same page leads to it.
PREPARE = """places => {
    const end = document.createElement('section');
    end.className = 'folded';
    end.innerHTML = '<h2>Folded code</h2>';
    for (const [i, fold] of document.querySelectorAll('details.hide').entries()) {
        const summary = fold.querySelector('summary'), name = summary.querySelector('p').textContent.trim();
        const note = document.createElement('p');
        note.textContent = `${name}: at the end, ${i + 1}`;
        fold.replaceWith(note);
        summary.textContent = `${i + 1}. ${name}`;
        fold.open = true;
        end.append(fold);
    }
    if (end.children.length > 1) document.querySelector('article').append(end);
    for (const box of document.querySelectorAll('details:not(.question details, .hide)')) box.open = true;
    for (const place of places) {
        const link = document.createElement('a');
        link.href = '#' + place;
        link.style.display = 'none';
        document.body.append(link);
    }
}"""

FRONT = """<!doctype html><meta charset="utf-8"><style>
@page {{ margin: 20mm }}
body {{ font: 10.5pt/1.45 sans-serif; color: #000 }}
.cover {{ height: 235mm; display: flex; flex-direction: column; justify-content: center; break-after: page }}
h1 {{ font-size: 34pt; font-weight: 600; margin: 0 }}
h2 {{ font-size: 12pt; margin: 1.2em 0 .3em; break-after: avoid }}
.cover p {{ font-size: 14pt }}
ol {{ list-style: none; margin: 0; padding: 0 }}
li {{ display: flex; break-inside: avoid }}
li::after {{ content: attr(data-page); order: 2 }}
li span {{ flex: 1; border-bottom: 1px dotted #888; margin: 0 .4em .35em }}
a {{ color: inherit; text-decoration: none }}
</style><div class="cover"><h1>{title}</h1><p>Every gradient derived, checked and trained.</p>
<p style="font-size:10.5pt">Version {version}. Text and figures: CC BY 4.0; code: BSD-3-Clause.</p></div>
<h1 style="font-size:20pt">Contents</h1>{contents}"""

NUMBERS = """<!doctype html><meta charset="utf-8"><style>
@page {{ size: A4; margin: 0 }}
body {{ margin: 0; font: 8.5pt sans-serif; color: #444 }}
div {{ height: 296mm; position: relative; break-after: page; overflow: hidden }}
@page wide {{ size: A4 landscape; margin: 0 }}
div.wide {{ page: wide; height: 209mm }}
p {{ position: absolute; bottom: 8mm; left: 20mm; right: 20mm; margin: 0; display: flex }}
span {{ flex: 1 }}
</style>{pages}"""


def contents(root, site):
    """[(part, [page, …])] as in _toc.yml, pages by their place in the site; solutions are the last part."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    parts, solutions = [("", [f"{toc['root']}.html"])], []
    for part in toc["parts"]:
        pages = [page for chapter in part["chapters"] for page in files(chapter)]
        parts.append((part["caption"], [page for page in pages if "/solutions/" not in page]))
        solutions += [page for page in pages if "/solutions/" in page]
    parts.append(("Solutions", solutions))
    for page in (page for _, pages in parts for page in pages):
        if not (site / page).is_file():
            raise FileNotFoundError(f"{site / page}: expected a built page; make book builds it")
    return parts


def files(entry):
    return [f"{entry['file']}.html", *(page for below in entry.get("sections", ()) for page in files(below))]


def title_of(file):
    """The title of a built page, without the name of the book."""
    words = unescape(re.search(r"<title>(.*?)</title>", file.read_text(encoding="utf-8"), re.DOTALL)[1])
    return " ".join(words.split()).removesuffix(f" — {TITLE}")


def places_led_to(site, pages):
    """{page: the places in it to which any page leads}."""
    found = {page: set() for page in pages}
    for page in pages:
        for href in re.findall(r'href="([^"]+)"', (site / page).read_text(encoding="utf-8")):
            target = address(site, (site / page).as_uri(), href)
            if target and target[1] and target[0] in found:
                found[target[0]].add(target[1])
    return found


def address(site, base, href):
    """(page, place) of the book to which a link leads, or None."""
    file, place = urldefrag(href)
    if file.startswith("file:"):
        path = Path(unquote(file.removeprefix("file://")))
    elif re.match(r"[a-z]+:|//", file):
        return None
    else:
        path = Path(unquote(base.removeprefix("file://"))).parent / unquote(file) if file else Path(base[7:])
    path = Path(os.path.normpath(path))
    return (path.relative_to(site).as_posix(), unquote(place)) if path.is_relative_to(site) else None


def chromium():
    """Where Chromium is; raises FileNotFoundError if it is nowhere."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    raise FileNotFoundError(
        "Chromium prints the pages, and there is none on the PATH: install it, then make pdf"
    )


def printed(jobs):
    """Print pages in one browser: [PDF as bytes]. jobs: [(address or HTML, places, options)]."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        for source, places, options in jobs:
            page = browser.new_page(color_scheme="light", reduced_motion="reduce")
            page.emulate_media(media="print")
            if source.startswith("file:"):
                page.goto(source, wait_until="load")
                page.evaluate("document.fonts.ready.then(() => null)")
                page.evaluate(PREPARE, sorted(places))
            else:
                page.set_content(source)
            found.append(page.pdf(**options))
            page.close()
        browser.close()
    return found


def one(job):
    return printed([job])[0]


def apart(job):
    """Print one page in a process of its own: whoever calls may drive a browser already."""
    with ProcessPoolExecutor(1) as pool:
        return pool.submit(one, job).result()


def destinations(reader):
    """{name of a place: (page, distance from the bottom)} in a printed file."""
    numbers = {page.indirect_reference.idnum: i for i, page in enumerate(reader.pages)}
    found = {}
    for name, place in reader.named_destinations.items():
        found[name.lstrip("/")] = numbers[place.page.idnum], float(place.top or 0)
    return found


def contents_page(parts, titles, first):
    """The cover and the table of contents as HTML; first: {page: its number}, or {} before it is known."""
    rows = []
    for part, pages in parts:
        rows.append(f"<h2>{escape(part)}</h2><ol>" if part else "<ol>")
        for page in pages:
            number = first.get(page, "000")
            rows.append(
                f'<li data-page="{number}"><a href="{OWN}{page}">{escape(titles[page])}</a><span></span></li>'
            )
        rows.append("</ol>")
    return FRONT.format(title=TITLE, version=handgrad.__version__, contents="".join(rows))


def join(site, parts, titles, files, front):
    """(a PdfWriter of all, how many links lead inside, places that were not found)."""
    writer, order = PdfWriter(), [page for _, pages in parts for page in pages]
    readers = {page: PdfReader(io.BytesIO(files[page])) for page in order}
    cover = PdfReader(io.BytesIO(front))
    start, at = {}, len(cover.pages)
    for page in order:
        start[page], at = at, at + len(readers[page].pages)
    writer.append(cover, import_outline=False)
    for page in order:
        writer.append(readers[page], import_outline=False)
    known = {page: destinations(reader) for page, reader in readers.items()}

    number_pages(writer, start, order, titles, len(cover.pages))
    within, missing = 0, []
    bounds = [("", 0), *start.items(), ("", len(writer.pages))]
    for (page, begin), (_, end) in pairwise(bounds):
        for link in (
            link.get_object() for sheet in writer.pages[begin:end] for link in sheet.get("/Annots", ())
        ):
            to_page, to_place = led_to(site, page, link)
            if to_page in start:
                place = known[to_page].get(to_place) if to_place else (0, 0)
                missing += [(to_page, to_place)] if place is None else []
                number, top = place or (0, 0)
                go_to(writer, link, start[to_page] + number, top)
                within += 1
    for part, pages in parts:
        parent = writer.add_outline_item(title=part, page_number=start[pages[0]]) if part else None
        for page in pages:
            writer.add_outline_item(title=titles[page], page_number=start[page], parent=parent)
    writer.add_metadata(
        {"/Title": TITLE, "/Author": f"{TITLE} contributors", "/Subject": handgrad.__version__}
    )
    writer.page_mode = "/UseOutlines"
    return writer, within, missing


def led_to(site, page, link):
    """(page, place) to which a link of a printed page leads, or (None, "") if it leads out of the book."""
    action = link.get("/A", {})
    action = action.get_object() if hasattr(action, "get_object") else action
    uri, name = str(action.get("/URI", "")), link.get("/Dest", action.get("/D"))
    if uri.startswith(OWN):
        return uri.removeprefix(OWN), ""
    if uri:
        return address(site, (site / page).as_uri(), uri) or (None, "")
    return (page, str(name).lstrip("/")) if isinstance(name, str) else (None, "")


def go_to(writer, link, number, top):
    """Make a link lead to a place in the file."""
    view = [NameObject("/XYZ"), NullObject(), FloatObject(top) if top else NullObject(), NullObject()]
    goal = ArrayObject([writer.pages[number].indirect_reference, *view])
    link.pop("/Dest", None)
    link[NameObject("/A")] = DictionaryObject({NameObject("/S"): NameObject("/GoTo"), NameObject("/D"): goal})


def number_pages(writer, start, order, titles, front):
    """Write the title and the number of each page at its foot, but not on the cover and the contents."""
    feet = ["<div></div>"] * front
    for page in order:
        end = min([n for n in start.values() if n > start[page]], default=len(writer.pages))
        for number in range(start[page], end):
            box = writer.pages[number].mediabox
            kind = "wide" if box.width > box.height else "high"
            feet.append(f'<div class="{kind}"><p><span>{escape(titles[page])}</span>{number + 1}</p></div>')
    numbers = apart((NUMBERS.format(pages="".join(feet)), (), SHEET))
    for page, foot in zip(writer.pages, PdfReader(io.BytesIO(numbers)).pages, strict=True):
        page.merge_page(foot)


def make(site, root=ROOT, parts=None):
    """(the PDF as bytes, how many links lead inside, places not found); raises FileNotFoundError."""
    chromium()
    parts = parts or contents(root, site)
    order = [page for _, pages in parts for page in pages]
    titles, places = {page: title_of(site / page) for page in order}, places_led_to(site, order)
    jobs = [((site / page).as_uri(), places[page], PAPER) for page in order]
    with ProcessPoolExecutor(AT_A_TIME) as pool:
        files = dict(zip(order, tqdm(pool.map(one, jobs), total=len(jobs), unit="page")))
    sizes = {page: len(PdfReader(io.BytesIO(file)).pages) for page, file in files.items()}
    front = apart((contents_page(parts, titles, {}), (), SHEET))
    first, at = {}, len(PdfReader(io.BytesIO(front)).pages) + 1
    for page in order:
        first[page], at = at, at + sizes[page]
    front = apart((contents_page(parts, titles, first), (), SHEET))
    writer, within, missing = join(site, parts, titles, files, front)
    out = io.BytesIO()
    for sheet in writer.pages:
        sheet.compress_content_streams()
    writer.compress_identical_objects()
    writer.write(out)
    return packed(out.getvalue()), within, missing


def packed(pdf):
    """The same file with its dictionaries compressed as well, which pypdf cannot write."""
    out = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdf)) as file:
        file.save(out, object_stream_mode=pikepdf.ObjectStreamMode.generate, recompress_flate=True)
    return out.getvalue()


def linked(page, href, pages):
    """The HTML of the first page, with a link to the PDF."""
    link = f'Or take <a href="{href}" download>all of it as one PDF</a>, {pages} pages.'
    shown, places = re.subn(
        r'<span class="as-pdf".*?</span>', f'<span class="as-pdf">{link}</span>', page, flags=re.DOTALL
    )
    if places != 1:
        raise ValueError(f"the first page: expected one place for a link to the PDF, got {places}")
    return shown


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("site", type=Path, nargs="?", default=ROOT / "_build/html")
    parser.add_argument("file", type=Path, nargs="?", help="where it goes, if not into the site")
    parser.add_argument("--only", type=int, metavar="N", help="of chapter N alone")
    given = parser.parse_args(arguments)
    site = given.site.resolve()
    whole = site / "the-transformer-by-hand.pdf"
    file = given.file or (ROOT / f"_build/chapter-{given.only:02d}.pdf" if given.only else whole)
    try:
        parts = contents(ROOT, site)
        if given.only:
            parts = [(part, [p for p in pages if f"/{given.only:02d}_" in p]) for part, pages in parts]
            parts = [(part, pages) for part, pages in parts if pages]
            if not parts:  # without parts it would print the whole book
                raise FileNotFoundError(f"--only: expected the number of a chapter, got {given.only}")
        pdf, within, missing = make(site, parts=parts)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    file.write_bytes(pdf)
    pages = len(PdfReader(io.BytesIO(pdf)).pages)
    print(f"{file}: {pages} pages, {len(pdf) / 1e6:.1f} MB, {within} links inside")
    if file == whole:
        first = site / parts[0][1][0]
        shown = linked(first.read_text(encoding="utf-8"), os.path.relpath(whole, first.parent), pages)
        first.write_text(shown, encoding="utf-8")
    for page, place in missing:
        print(f"no such place: {page}#{place}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
