"""What this book adds to Jupyter Book: a site that needs no other host, and pages that hold their promises.

- Scripts and styles of other hosts are dropped.
- Every picture has words for readers who cannot see it. One without them is a warning, and a warning stops
  the build.
- A chapter links its notebook, its exercises, its solutions, the chapters it needs and those that need it; at
  its end it can be marked as read. Previous and next lead from chapter to chapter. A page of solutions does
  not show the marks between which an answer is cut out.
- Each page describes itself to search engines.
- Buttons that open a notebook elsewhere appear only when [project.urls] of pyproject.toml says where.
"""

import os
import re
import tomllib
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import nbformat
from docutils import nodes
from nbclient.output_widget import OutputWidget
from sphinx.util import logging

from handgrad.course import plan

logger = logging.getLogger(__name__)
ROOT = Path(__file__).parents[2]

MARK = re.compile(r"\s*# (BEGIN|END) SOLUTION")
NOTEBOOK = re.compile(r"notebooks/(exercises/|solutions/)?(\d\d_\w+)")


def only_our_assets(app, config):
    """Forget thebe, which Jupyter Book loads even when told not to, and the assets of other hosts."""
    for listeners in app.events.listeners.values():
        listeners[:] = [x for x in listeners if x.handler.__module__ != "sphinx_thebe"]
    for files in (app.registry.css_files, app.registry.js_files):
        files[:] = [x for x in files if "thebe" not in str(x[0]) and not str(x[0]).startswith("http")]


def launch_buttons(app, config):
    """Lead to the repository that pyproject.toml names: the theme would lead to somebody else's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if address := project.get("urls", {}).get("Repository"):
        config.html_theme_options.update(buttons(address))


def buttons(address):
    """What the theme is told, for the repository at an address."""
    used = dict.fromkeys(("use_repository_button", "use_issues_button", "use_edit_page_button"), True)
    where = {"repository_url": address, "repository_branch": "main"}
    return {**used, **where, "launch_buttons": {"colab_url": "https://colab.research.google.com"}}


class Pictures(HTMLParser):
    """The pictures of a page that have no words, by their address."""

    def __init__(self, page):
        super().__init__()
        self.wordless = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag != "img":
            return
        attributes = dict(attributes)
        words = (attributes.get("alt") or "").strip()
        is_path = re.fullmatch(r"\S*/\S*|\S+\.(svg|png|jpe?g|gif|webp)", words)
        if not words or is_path:
            self.wordless.append(attributes.get("src", "")[:80])


def references_are_no_list(app, pagename, templatename, context, doctree):
    """Docutils calls the references a list but their entries no items, which is worse than no list."""
    if "body" in context:
        context["body"] = context["body"].replace(
            'role="list" class="citation-list"', 'class="citation-list"'
        )


def words_for_pictures(app, pagename, templatename, context, doctree):
    for source in Pictures(context.get("body", "")).wordless:
        logger.warning("the picture %s has no alt text", source, location=pagename, type="house")


def links_of_chapter(app, pagename, templatename, context, doctree):
    """Below the title of a notebook, where its companions are."""
    notebook = NOTEBOOK.fullmatch(pagename)
    if not notebook or "body" not in context:
        return
    kind, name = notebook.groups()
    pages = {
        "Chapter": f"notebooks/{name}",
        "Exercises": f"notebooks/exercises/{name}",
        "Solutions": f"notebooks/solutions/{name}",
    }
    links = [
        f'<a href="{escape(context["pathto"](page))}">{title}</a>'
        for title, page in pages.items()
        if page != pagename and page in app.env.found_docs
    ]
    file = f"_sources/{pagename}.ipynb"
    links.insert(0, f'<a href="{escape(context["pathto"](file, resource=True))}" download>This notebook</a>')
    links += neighbours(app, pagename, context)
    items = "".join(f"<li>{link}</li>" for link in links)
    navigation = f'<nav class="companions" aria-label="Notebook, exercises, solutions"><ul>{items}</ul></nav>'
    context["body"] = context["body"].replace("</h1>", "</h1>\n" + navigation, 1)


def neighbours(app, pagename, context):
    """Links from a chapter to those that it needs, and to those that need it."""
    chapters = {chapter.page: chapter for chapter in app.chapters}
    if pagename not in chapters:
        return []
    own = chapters[pagename]
    leads_to = [chapter.number for chapter in app.chapters if own.number in chapter.needs]
    found = []
    for words, numbers in (("Needs", own.needs), ("Leads to", leads_to)):
        links = [
            f'<a href="{escape(context["pathto"](c.page))}" title="{escape(c.title)}" '
            f'aria-label="{words} chapter {c.number}, {escape(c.title)}">{c.number}</a>'
            for c in app.chapters
            if c.number in numbers
        ]
        found += [f"{words} {', '.join(links)}"] if links else []
    return found


def way_through(app, pagename, templatename, context, doctree):
    """Previous and next lead from chapter to chapter; exercises and solutions hang beside theirs."""
    notebook = NOTEBOOK.fullmatch(pagename)
    pages = [chapter.page for chapter in app.chapters]
    if not notebook or f"notebooks/{notebook[2]}" not in pages:
        return
    place, kind = pages.index(f"notebooks/{notebook[2]}"), notebook[1]
    own = [pages[place], f"notebooks/exercises/{notebook[2]}", f"notebooks/solutions/{notebook[2]}"]
    after = pages[place + 1] if place + 1 < len(pages) else None
    before, behind = {
        None: (pages[place - 1] if place else None, after),
        "exercises/": (own[0], own[2]),
        "solutions/": (own[1], after),
    }[kind]
    for side, page in (("prev", before), ("next", behind)):
        if page is None and kind is None:
            continue  # the first chapter and the last lead where the contents say
        title = page and app.env.titles[page].astext()
        context[side] = page and {"link": context["pathto"](page), "title": escape(title)}


def mark_as_read(app, pagename, templatename, context, doctree):
    """At the end of a chapter, a box that says it was read; progress.js shows it, and remembers."""
    if "body" in context and pagename in {chapter.page for chapter in app.chapters}:
        box = f'<label><input type="checkbox" data-page="{pagename}"> I have read this chapter</label>'
        context["body"] += f'<p class="read-mark" hidden>{box}</p>'


def read_plan(app):
    """The chapters, for the pages that lead to them; pages that are built alone have none."""
    whole = Path(app.srcdir, "notebooks", "solutions").is_dir()
    app.chapters = plan.chapters(app.srcdir) if whole else []


def progress(app, pagename, templatename, context, doctree):
    """The script that remembers what was read, where there is something to remember."""
    if re.search(r'class="(read-mark|done|your-progress)"|chapter-graph', context.get("body", "")):
        app.add_js_file("progress.js")


def without_marks(app, page, source):
    """Take the marks of an answer's first and last line out of the cells of solutions."""
    if page.startswith("notebooks/solutions/"):
        notebook = nbformat.reads(source[0], as_version=4)
        for cell in notebook.cells:
            lines = [line for line in cell.source.splitlines() if not MARK.match(line)]
            cell.source = "\n".join(lines) if cell.cell_type == "code" else cell.source
        source[0] = nbformat.writes(notebook)


def words_of_figures(app, page, source):
    """What a figure says stands in the metadata of its cell, as in mystmd: put it where MyST-NB looks."""
    if not app.env.doc2path(page).endswith(".ipynb"):
        return
    notebook = nbformat.reads(source[0], as_version=4)
    for cell in notebook.cells:
        for part, name in (("image", "alt"), ("figure", "caption")):
            if name in cell.metadata:
                cell.metadata.setdefault("mystnb", {})[part] = {name: cell.metadata[name]}
    source[0] = nbformat.writes(notebook)


def description(app, pagename, templatename, context, doctree):
    """The first paragraph, for search engines, unless the page has its own."""
    if doctree is None or 'name="description"' in context.get("metatags", ""):
        return
    for paragraph in doctree.findall(nodes.paragraph):
        words = " ".join(paragraph.astext().split())
        if len(words) > 60 and "$" not in words and "\\" not in words:
            break
    else:
        words = f"{context.get('title', '')}. {app.config.html_title}"
    if len(words) > 160:
        words = words[:157].rsplit(" ", 1)[0] + "…"
    context["metatags"] = (
        context.get("metatags", "") + f'<meta name="description" content="{escape(words)}">\n'
    )


def names_for_toggles(app, pagename, templatename, context, doctree):
    """In the sidebar, the theme's buttons that unfold a chapter have no name; give each its chapter's."""
    tree = context.get("generate_toctree_html")
    if tree is None:
        return

    def named_tree(*arguments, **options):
        soup = tree(*arguments, **options)
        for summary in soup.find_all("summary"):
            chapter = summary.find_parent("li").find("a").get_text(strip=True)
            summary["aria-label"] = f"Pages below {chapter}"
        return soup

    context["generate_toctree_html"] = named_tree


def no_idle_files(app, page, template, context, doctree):
    """Pages load what they use: buttons that copy where there is code, cards and folds where some are."""
    body, idle = context.get("body", ""), ["design-tabs.js"]
    if "highlight" not in body:
        idle += ["clipboard.min.js", "copybutton.js", "copybutton_funcs.js"]
    if "toggle" not in body and "dropdown" not in body:
        idle += ["togglebutton.js"]
    if "sd-" not in body:
        idle += ["sphinx-design.min.css"]
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context[kind] if not str(file.filename).endswith(tuple(idle))]


def setup(app):
    # Read by handgrad.course.interactive: the pages have no Python behind them.
    os.environ["HANDGRAD_STATIC"] = "1"
    # nbclient, issue 312: a cell that fills an Output widget may wait for its own message for ever. The build
    # does not need the message.
    OutputWidget.send = lambda self, *args, **kwargs: None
    app.connect("config-inited", only_our_assets)
    app.connect("config-inited", launch_buttons)
    app.connect("builder-inited", read_plan)
    app.connect("source-read", without_marks)
    app.connect("source-read", words_of_figures)
    changes = (
        references_are_no_list,
        words_for_pictures,
        links_of_chapter,
        way_through,
        mark_as_read,
        progress,
        description,
        no_idle_files,
    )
    for change in changes:
        app.connect("html-page-context", change)
    app.connect("html-page-context", names_for_toggles, priority=900)  # after the theme has made the tree
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
