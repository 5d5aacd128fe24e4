"""Make the folder lab/, where JupyterLab shows the notebooks as the pages of the book show them.

    python tools/lab.py            write what is missing or out of date in lab/, and say so
    python tools/lab.py FOLDER     the same in another folder

The notebooks are written in MyST, of which JupyterLab knows only the Markdown. Here the rest becomes Markdown
and HTML that it shows: equations carry their numbers, references and citations are links, boxes are boxes,
answers are folded. MyST that this program does not know is refused, so that none slips through.

The judge keeps its verdicts there, in handgrad-progress.jsonl; progress.ipynb shows them.

What is in lab/ belongs to the learner. The metadata of each notebook hold a digest of its cells; if it no
longer fits them, somebody has written there, and the file is kept.
"""

import argparse
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from textwrap import indent

import exercises
import nbformat
import yaml
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser
from pybtex.database import BibliographyData, parse_file
from pybtex.richtext import Text

from handgrad.course.evidence import MARKS as SIGNS
from handgrad.course.evidence import displayed, equations
from handgrad.course.judge.record import FILE

ROOT = Path(__file__).parents[1]
NOTEBOOK = re.compile(r"notebooks/(exercises/|solutions/)?(\d\d)_\w+")
MARKS = (exercises.BEGIN, exercises.END)
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
FILES = {".json", ".png", ".svg"}  # what notebooks read and show

# What the parser may find, and JupyterLab shows as it stands. All else is turned into such, or refused.
SHOWN = set(
    "paragraph_open heading_open blockquote_open bullet_list_open ordered_list_open list_item_open "
    "table_open thead_open tbody_open tr_open fence code_block html_block hr math_block inline "
    "text softbreak hardbreak em_open em_close strong_open strong_close link_open link_close "
    "image code_inline html_inline math_inline math_inline_double myst_role".split()
)
DROPPED = {"myst_target", "myst_line_comment", "myst_block_break"}
OWN_LINE = ("$$", ":::", "```", "~~~", "(", "%", "+++")  # what a block that is replaced begins with

# The colour of a box, by its directive.
BLUE, ORANGE, RED = "25, 118, 210", "245, 124, 0", "211, 47, 47"
BOXES = dict.fromkeys(["admonition", "dropdown", "note", "tip", "hint", "seealso"], BLUE)
BOXES |= dict.fromkeys(["warning", "caution", "attention", "important"], ORANGE)
BOXES |= dict.fromkeys(["danger", "error"], RED)
STYLE = (
    "border-left: 4px solid rgb({colour}); border-radius: 4px; padding: 8px 16px; margin: 16px 0; "
    "background-color: rgba({colour}, 0.08)"
)

SPAN = re.compile(
    r"\\."  # a sign that means itself
    r"|(?:\{(?P<role>[\w:+.-]+)\})?(?P<ticks>`+)(?P<content>.+?)(?<!`)(?P=ticks)(?!`)"
    r"|(?<!!)\[(?P<words>[^\]]+)\]\((?P<path>[^)\s]+\.md)\)",
    re.DOTALL,
)
ELSEWHERE = re.compile(r"[a-z]+:")
WITH_WORDS = re.compile(r"(.+?)\s*<([^<>]+)>", re.DOTALL)  # words <label>


class UnknownMyST(ValueError):
    """MyST that this program cannot show; the message says what, and `copy_of` where."""


@dataclass(frozen=True)
class Book:
    """What references lead to. A page has the name of its file without the ending: notebooks/08_attention."""

    titles: dict = field(default_factory=dict)  # page: title, with its number
    equations: dict = field(default_factory=dict)  # label: (page, cell, number)
    signs: dict = field(default_factory=dict)  # label: the sign of its evidence, in a chapter
    sections: dict = field(default_factory=dict)  # label: (page, cell, title, or None without a heading)
    works: BibliographyData = field(default_factory=BibliographyData)


# ------------------------------------------------------------------------------------------------------------
# Reading the book


def book_parser():
    """The parser of the book, with its extensions."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    extensions = set(config["parse"]["myst_enable_extensions"])
    return create_md_parser(MdParserConfig(enable_extensions=extensions), RendererHTML)


PARSER = book_parser()


def pages(root):
    """The Markdown of every page: {page: {id of its cell: text}}."""
    found = {f"book/{path.stem}": {"": path.read_text(encoding="utf-8")} for path in root.glob("book/*.md")}
    for path in sources(root):
        cells = nbformat.read(path, as_version=4).cells
        found[page_of(path, root)] = {cell.id: cell.source for cell in cells if cell.cell_type == "markdown"}
    return found


def sources(root):
    """The notebooks of the book: no copies that keep somebody's answers, none that JupyterLab keeps."""
    found = (root / "notebooks").rglob("[0-9][0-9]_*.ipynb")
    return sorted(p for p in found if not (p.name.endswith(exercises.MINE) or p.parent.name.startswith(".")))


def page_of(path, root):
    return path.relative_to(root).with_suffix("").as_posix()


def read(root):
    """The `Book` in a folder: its titles, the numbers of its equations, its sections, its literature."""
    book = Book(works=parse_file(root / "book/references.bib", "bibtex"))
    for page, cells in pages(root).items():
        labels = [(label, cell) for cell, text in cells.items() for label, _ in displayed(text) if label]
        for place, (label, cell) in enumerate(labels, 1):
            book.equations[label] = (page, cell, number(page, place))
        found = [(cell, *heading) for cell, text in cells.items() for heading in headings(text)]
        for cell, level, label, title in found:
            title = numbered(page, title) if level == "h1" else title
            if level == "h1":
                book.titles.setdefault(page, title)
            if label:
                book.sections[label] = (page, cell, title)
        for cell, text in cells.items():
            for label in targets(text):
                book.sections.setdefault(label, (page, cell, None))
    for path in (root / "notebooks").glob("[0-9][0-9]_*.ipynb"):
        of_page = equations(nbformat.read(path, as_version=4))
        book.signs.update({e.label: f"{SIGNS[e.kind]} " for e in of_page if e.kind})
    return book


def headings(text):
    """The headings of a text: (level, label or None, title)."""
    tokens, found, label = PARSER.parse(text), [], None
    for token, following in pairwise(tokens):
        if token.type == "heading_open":
            found.append((token.tag, label, "".join(span.content for span in following.children)))
        label = token.content if token.type == "myst_target" else None
    return found


def targets(text):
    """All labels of a text that stand before a heading, a paragraph, a table or a box."""
    return [token.content for token in PARSER.parse(text) if token.type == "myst_target"]


def number(page, place):
    """The number of an equation or figure, by its place on its page: 8.3 is the third of chapter 8."""
    match = NOTEBOOK.fullmatch(page)
    return f"{int(match[2])}.{place}" if match and not match[1] else str(place)


def numbered(page, title):
    """The title of a page as the book shows it: 8. Attention; Exercises 8: attention."""
    match = NOTEBOOK.fullmatch(page)
    if not match:
        return title
    kind, chapter = match[1], int(match[2])
    if kind is None:
        return f"{chapter}. {title}"
    return re.sub(r"^Exercises\b", f"{kind.strip('/').capitalize()} {chapter}", title)


# ------------------------------------------------------------------------------------------------------------
# Roles


def link(words, page, cell, here, book):
    """A link to a cell, from the page `here`; in words alone if the page is no notebook."""
    if not page.startswith("notebooks/"):
        title = f"*{book.titles[page]}*"
        return words if words == title else f"{words} ({title})"
    path = os.path.relpath(page, os.path.dirname(here)) + ".ipynb"
    return f"[{words}]({path}#cell-id={cell})" if cell else f"[{words}]({path})"


def known(table, key, kind):
    if key not in table:
        raise UnknownMyST(f"there is no {kind} {key!r}")
    return table[key]


def eq(content, here, book):
    page, cell, its_number = known(book.equations, content, "equation")
    return link(f"({its_number})", page, cell, here, book)


def ref(content, here, book):
    words, label = split(content)
    page, cell, title = known(book.sections, label, "section")
    if not (words or title):
        raise UnknownMyST(f"{label!r} stands before no heading, so a reference to it needs words")
    return link(words or title, page, cell, here, book)


def doc(content, here, book):
    words, path = split(content)
    page = path[1:] if path[0] == "/" else beside(here, path)
    title = known(book.titles, page, "page")
    return link(words or (title if page.startswith("notebooks/") else f"*{title}*"), page, "", here, book)


def split(content):
    """Words and label of a reference; no words if it has none of its own."""
    match = WITH_WORDS.fullmatch(content)
    return match.groups() if match else (None, content)


def beside(here, path):
    """A path that the page `here` gives, from the root of the book."""
    return os.path.normpath(os.path.join(os.path.dirname(here), path))


def cite(content, here, book):
    """[Ba et al., 2016], several in the order of the page's references."""
    works = [known(book.works.entries, key.strip(), "work") for key in content.split(",")]
    cited = sorted(reference(f"{authors(work)}, {work.fields['year']}", work) for work in works)
    return rf"\[{', '.join(cited)}\]"


def cite_in_text(content, here, book):
    """Ba et al. [2016]"""
    works = [known(book.works.entries, key.strip(), "work") for key in content.split(",")]
    return ", ".join(rf"{authors(work)} \[{reference(work.fields['year'], work)}\]" for work in works)


def authors(work):
    """The family names, of more than two the first."""
    people = work.persons.get("author") or work.persons["editor"]
    names = [str(Text.from_latex(" ".join(one.prelast_names + one.last_names))) for one in people]
    return f"{names[0]} *et al.*" if len(names) > 2 else " and ".join(names)


def reference(words, work):
    """A link to where the work can be read, if the bibliography says where."""
    places = {"doi": "https://doi.org/", "eprint": "https://arxiv.org/abs/", "url": ""}
    address = next((start + work.fields[key] for key, start in places.items() if key in work.fields), None)
    return f"[{words}]({address})" if address else words


ROLES = {
    "eq": eq,
    "ref": ref,
    "doc": doc,
    "cite": cite,
    "cite:p": cite,
    "cite:t": cite_in_text,
    "term": lambda content, here, book: split(content)[0] or content,
    "math": lambda content, here, book: f"${content}$",
    "kbd": lambda content, here, book: f"<kbd>{content}</kbd>",
}


def prose(text, here, book):
    """A text without blocks, its roles replaced; and the roles, as pairs (name, content)."""
    roles = []

    def shown(match):
        name, path = match["role"], match["path"]
        if name:
            content = " ".join(match["content"].split())
            roles.append((name, content))
            return known(ROLES, name, "way to show the role")(content, here, book)
        return f"*{match['words']}*" if path and "://" not in path else match[0]

    return SPAN.sub(shown, text), roles


def as_read(spans, text, here, book):
    """The text in which the parser found these spans, for JupyterLab. Raises UnknownMyST."""
    for span in spans:
        check_is_shown(span)
        if span.type == "link_open" and not leads_somewhere(span.attrs["href"], here, book):
            raise UnknownMyST(
                f"the link {span.attrs['href']} leads to no notebook, and to no page of the book"
            )
        if span.type == "image" and not is_beside(span.attrs["src"], here):
            raise UnknownMyST(f"the picture {span.attrs['src']} is not in notebooks/, so it cannot be shown")
    changed, roles = prose(text, here, book)
    of_parser = [span for span in spans if span.type == "myst_role"]
    wanted = [(span.meta["name"], " ".join(span.content.split())) for span in of_parser]
    if roles != wanted:
        raise UnknownMyST(f"expected the roles {wanted}, read {roles}")
    return changed


def check_is_shown(token):
    if token.type not in SHOWN:
        raise UnknownMyST(f"tools/lab.py does not know how to show {token.type}: {token.content.strip()!r}")


def leads_somewhere(href, here, book):
    page, ending = os.path.splitext(beside(here, href))
    return bool(ELSEWHERE.match(href)) or (ending in (".md", ".ipynb") and page in book.titles)


def is_beside(source, here):
    return not ELSEWHERE.match(source) and beside(here, source).startswith("notebooks/")


# ------------------------------------------------------------------------------------------------------------
# Blocks


def rendered(text, here, book):
    """MyST, of the page `here`, as Markdown that JupyterLab shows. Raises UnknownMyST."""
    lines, edits = text.split("\n"), []
    tokens = [token for token in PARSER.parse(text) if token.map]
    for (begin, end), here_begun in groupby(tokens, lambda token: token.map):
        old, spans, blocks = "\n".join(lines[begin:end]), [], []
        for token in here_begun:
            spans += token.children or []
            blocks += block_of(token, here, book)
        if spans:
            edits.append((begin, end, as_read(spans, old, here, book)))
        elif blocks and not old.lstrip().startswith(OWN_LINE):
            raise UnknownMyST(f"expected on a line of its own: {lines[begin]!r}")
        elif blocks:
            edits.append((begin, end, indent(blocks[0], old[: len(old) - len(old.lstrip())])))
    for begin, end, new in reversed(edits):
        lines[begin:end] = [new] if new else []
    return "\n".join(lines)


def block_of(token, here, book):
    """What JupyterLab shows in place of a block: [its text], or [] if the block stays. Raises UnknownMyST."""
    if token.type in DROPPED:
        return [""]
    if token.type == "math_block_label":
        return [equation(token.info, token.content, book)]
    if token.type in ("fence", "colon_fence") and token.info.startswith("{"):
        return [directive(token, here, book)]
    check_is_shown(token)
    return []


def equation(label, formula, book):
    """A displayed equation with its sign and number; a comment holds the label by which it is read."""
    *_, its_number = known(book.equations, label, "equation")
    return f"$$\n{formula.strip()}\n\\tag{{{book.signs.get(label, '')}{its_number}}} % {label}\n$$"


def directive(token, here, book):
    """A box, or an equation."""
    name, title = re.match(r"\{([^}]*)\}\s*(.*)", token.info).groups()
    options, body = options_of(token.content)
    if name == "math" and options.keys() == {"label"}:
        return equation(options["label"], body, book)
    kinds = [name, *options.get("class", "").split()]
    unknown = [*(kind for kind in kinds if kind not in BOXES), *(options.keys() - {"class", "open"})]
    if unknown:
        raise UnknownMyST(f"tools/lab.py does not know how to show {unknown[0]!r} in {{{name}}} {title}")
    title, _ = prose(title or name.capitalize(), here, book)
    title = MarkdownIt().renderInline(title)
    style = STYLE.format(colour=next((BOXES[kind] for kind in kinds if BOXES[kind] != BLUE), BLUE))
    body = rendered(body, here, book)
    if "dropdown" not in kinds:
        return f'<div style="{style}">\n<b>{title}</b>\n\n{body}\n\n</div>'
    is_open = " open" if "open" in options else ""
    return f'<details{is_open} style="{style}">\n<summary><b>{title}</b></summary>\n\n{body}\n\n</details>'


def options_of(content):
    """The options of a directive, {name: value}, and its body."""
    head = re.match(r"(:[\w-]+:.*\n)*", content)[0]
    options = re.findall(r"^:([\w-]+):\s*(.*)$", head, re.MULTILINE)
    return dict(options), content[len(head) :].strip("\n")


# ------------------------------------------------------------------------------------------------------------
# Notebooks


def copy_of(notebook, page, book):
    """A new notebook: the page for JupyterLab. Raises UnknownMyST, which names page and cell."""
    notebook = nbformat.from_dict(notebook)
    notebook.cells = with_captions(notebook.cells, page)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            try:
                source = rendered(cell.source, page, book)
            except UnknownMyST as error:
                raise UnknownMyST(f"{page}.ipynb, cell {cell.id}: {error}") from None
            cell.source = re.sub(r"^# .*", lambda title: f"# {book.titles[page]}", source, count=1)
        elif cell.cell_type == "code":
            lines = [line for line in cell.source.split("\n") if line.strip() not in MARKS]
            cell.update(source="\n".join(lines), outputs=[], execution_count=None)
            if {"hide-input", "remove-input"} & set(cell.metadata.get("tags", [])):
                cell.metadata["jupyter"] = {"source_hidden": True}
    return digested(notebook)


def with_captions(cells, page):
    """The cells, and behind each that shows a figure one with its number and caption."""
    found, place = [], 0
    for cell in cells:
        found.append(cell)
        if "caption" in cell.metadata:
            place += 1
            text = f"*Figure {number(page, place)}.* {cell.metadata['caption']}"
            found.append(nbformat.v4.new_markdown_cell(text, id=f"{cell.id}-caption"))
    return found


def copies(root, folder):
    """What shall be in the learner's folder: {path: notebook}. Raises UnknownMyST."""
    book, wanted = read(root), {}
    for path in sources(root):
        notebook = copy_of(nbformat.read(path, as_version=4), page_of(path, root), book)
        wanted[folder / path.relative_to(root / "notebooks")] = notebook
    return wanted


def of_progress():
    """A notebook that shows which exercises are solved."""
    words = (
        "# Your progress\n\nThe exercises that the judge has found right (✓), wrong (✗), or still open (○)."
    )
    code = "from handgrad.course import progress\n\nprogress.show()"
    cells = [
        nbformat.v4.new_markdown_cell(words, id="progress"),
        nbformat.v4.new_code_cell(code, id="show-progress"),
    ]
    return digested(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL}))


def as_it_is(path):
    """A notebook that holds no MyST."""
    return digested(nbformat.read(path, as_version=4))


def digested(notebook):
    """The notebook, with the digest by which it is known that nobody has written in it."""
    notebook.metadata.setdefault("handgrad", nbformat.NotebookNode())["generated"] = exercises.digest(
        notebook
    )
    return notebook


def write(wanted):
    """Write the notebooks, {path: notebook}, save those that are up to date or in which somebody has written.

    Returns the paths of those made, of those renewed, and of those kept because somebody has written in them.
    """
    made, renewed, kept = [], [], []
    for path, notebook in wanted.items():
        if not path.exists():
            made.append(path)
        elif exercises.is_answered(path):
            kept.append(path)
        elif nbformat.read(path, as_version=4).metadata.handgrad != notebook.metadata.handgrad:
            renewed.append(path)
    for path in made + renewed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(exercises.text(wanted[path]), encoding="utf-8")
    return made, renewed, kept


def copy_files(root, folder):
    """Copy what the notebooks read and show: quizzes and pictures."""
    for path in (root / "notebooks").rglob("*.*"):
        copy = folder / path.relative_to(root / "notebooks")
        if path.suffix in FILES and not (copy.exists() and copy.read_bytes() == path.read_bytes()):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def report(made, renewed, kept):
    """What was done, in lines for the learner."""
    lines = [f"made: {len(made)} notebooks"] if made else []
    lines += [f"renewed, since the book has changed: {path}" for path in renewed]
    lines += [f"kept, since you have written in it: {path}" for path in kept]
    if kept:
        lines.append("For a fresh copy of one that was kept, give yours another name, and run this again.")
    return lines


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "lab", help="folder to write")
    folder = parser.parse_args(arguments).folder
    try:
        wanted = copies(ROOT, folder)
    except UnknownMyST as error:
        print(error, file=sys.stderr)
        return 1
    wanted[folder / "progress.ipynb"] = of_progress()
    wanted[folder / "own_layer.ipynb"] = as_it_is(ROOT / "notebooks" / "own_layer.ipynb")
    print("\n".join(report(*write(wanted))) or f"{folder}: {len(wanted)} notebooks, all up to date")
    copy_files(ROOT, folder)
    (folder / FILE).touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
