"""The learner's notebooks in JupyterLab: they read as the pages do, ask no other host, and answer.

JupyterLab runs in a folder of its own, with settings of its own, so nothing of the user's is touched. Where
no browser is installed these tests are skipped, unless HANDGRAD_SITE is set.
"""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import lab
import nbformat
import pytest
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from test_site import CHROMIUM, PAGES, REQUIRED, SITE, WIDE

CHAPTER, EXERCISE = "16_translate", "exercises/08_attention"
PATIENCE = 120_000  # milliseconds, for a busy machine
SLIDER = """from handgrad.course.interactive import frames
frames(lambda ax, k: ax.plot([0, k]), [1, 2, 3], "slope", "a straight line")"""
WRONG = "def softmax_ds(da, a):\n    return a * da"
RIGHT = "def softmax_ds(da, a):\n    return a * (da - (a * da).sum(axis=-1, keepdims=True))"
IN_VIEW = (
    "cell => { const {top, bottom} = cell.getBoundingClientRect(); return bottom > 0 && top < innerHeight }"
)
NOT_UNDERSTOOD = "mjx-merror, [data-mjx-error], mjx-mtext[style*='red']"
"""Formulas that JupyterLab's MathJax could not read, and commands it did not know: these it prints in red."""
RAW = re.compile(r":::|\{[\w:]+\}`|\(eq-|\$|\]\(|\\[a-zA-Z]{2,}")

pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(not REQUIRED and not CHROMIUM, reason="no Chromium is installed"),
]


# The same text as the pages ---------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def book():
    return lab.read(lab.ROOT)


@pytest.mark.skipif(not REQUIRED and not PAGES, reason="the book is not built: make book")
@pytest.mark.parametrize("page", [lab.page_of(path, lab.ROOT) for path in lab.sources(lab.ROOT)])
def test_titles_numbers_and_references_are_those_of_the_page(page, book):
    article = BeautifulSoup((SITE / f"{page}.html").read_text(encoding="utf-8"), "html.parser").article
    notebook = lab.copy_of(nbformat.read(lab.ROOT / f"{page}.ipynb", as_version=4), page, book)
    text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    copy = BeautifulSoup(MarkdownIt().render(text), "html.parser")

    assert words(copy.h1) == words(article.h1).removesuffix("#")
    formulas = article.select("div.math[id]")
    numbers = [re.match(r"(\W*)\(([\d.]+)\)", words(f.select_one(".eqno"))).groups() for f in formulas]
    tags = re.findall(r"\\tag\{(?:([^\w{}]+) )?([\d.]+)\}", text)
    assert tags == [(sign.strip(), number) for sign, number in numbers]  # the sign of the evidence, too
    for citation in article.select(".bibtex-citation"):
        assert words(citation.extract()) in words(copy)
    references = [words(link) for link in article.select("a.reference.internal:not([href*='book/'])")]
    assert [words(link) for link in copy.select("a[href*='.ipynb']")] == references


def words(tree):
    return " ".join(tree.get_text().split())


# JupyterLab -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    home = tmp_path_factory.mktemp("jupyter")
    folder = home / "lab"
    lab.write(lab.copies(lab.ROOT, folder))
    lab.copy_files(lab.ROOT, folder)
    quiz = f'from handgrad.course.quiz import quiz\nquiz("quizzes/{CHAPTER}.json")'
    cells = [new_markdown_cell("# What moves"), new_code_cell(SLIDER), new_code_cell(quiz)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(new_notebook(cells=cells, metadata=kernel), folder / "moves.ipynb")

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    own = {name: str(home / name) for name in names}
    flags = [f"--LabApp.app_settings_dir={lab.ROOT}/tools/lab_settings", f"--ServerApp.port={port}"]
    flags += ["--IdentityProvider.token=", "--no-browser", "--allow-root"]
    command = [sys.executable, "-m", "jupyterlab", *flags, folder]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env={**os.environ, **own}, stdout=log, stderr=log)
    try:
        yield answering(f"http://127.0.0.1:{port}", home / "log")
    finally:
        server.terminate()
        server.wait()


def answering(address, log):
    for _ in range(PATIENCE // 200):
        try:
            urllib.request.urlopen(f"{address}/api").close()
            return address
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"JupyterLab did not start:\n{log.read_text()}")


class Notebook:
    """A notebook opened in JupyterLab, and what went wrong meanwhile."""

    def __init__(self, browser, address, name):
        self.foreign, self.errors = [], []
        self.context = browser.new_context(viewport=WIDE, reduced_motion="reduce")
        self.context.set_default_timeout(PATIENCE)
        self.context.route(lambda url: not url.startswith((address, "data:", "blob:")), self.refuse)
        self.page = self.context.new_page()
        self.page.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(f"{address}/lab/workspaces/{Path(name).name}/tree/{name}.ipynb")
        self.page.wait_for_selector(".jp-NotebookPanel h1")
        self.page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]")

    def refuse(self, route):
        self.foreign.append(route.request.url)
        route.abort()

    def run(self, cell, source=None):
        """Run a cell, with this source if one is given, and return its output."""
        editor = cell.locator(".cm-content")
        editor.click()
        if source is not None:
            self.page.keyboard.press("Control+A")
            self.page.keyboard.insert_text(source)
        self.page.keyboard.press("Control+Enter")
        return cell.locator(".jp-OutputArea-output").last

    def cell(self, text):
        return self.page.locator(".jp-CodeCell", has_text=text).first

    def close(self):
        self.context.close()
        assert self.foreign == []
        assert self.errors == []


def test_a_chapter_reads_as_its_page(browser, address):
    chapter = Notebook(browser, address, CHAPTER)
    page, cells = chapter.page, nbformat.read(lab.ROOT / f"notebooks/{CHAPTER}.ipynb", as_version=4).cells
    count = len(lab.with_captions(cells, ""))
    page.wait_for_function(f"document.querySelectorAll('.jp-Cell').length == {count}")
    captions = page.locator(".jp-RenderedMarkdown em", has_text=re.compile(r"^Figure \d+\.\d+\.$"))
    assert captions.count() == count - len(cells) > 0
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    displayed = text.count("$$ (eq-")
    assert displayed > 0
    page.wait_for_function(
        f"document.querySelectorAll('.jp-MarkdownCell mjx-container[display=true]').length == {displayed}"
    )
    assert page.locator(NOT_UNDERSTOOD).count() == 0
    texts = page.locator(".jp-MarkdownCell .jp-RenderedMarkdown").all_inner_texts()
    assert [text for text in texts if RAW.search(text)] == []

    answers = page.locator(".jp-RenderedMarkdown details")
    assert answers.count() == text.count(":class: dropdown") + text.count("{dropdown}") > 0
    answers.last.scroll_into_view_if_needed()
    assert not answers.last.locator("p").first.is_visible()
    answers.last.locator("summary").click()
    assert answers.last.locator("p").first.is_visible()

    link = page.get_by_role("link", name=re.compile(r"^\(16\.\d+\)$")).last
    place = int(link.inner_text()[len("(16.") : -1]) - 1
    equation = page.locator(".jp-MarkdownCell mjx-container[display=true]").nth(place)
    assert not equation.evaluate(IN_VIEW)
    link.click()
    page.wait_for_function(IN_VIEW, arg=equation.element_handle())
    assert page.locator(".Toastify__toast").count() == 0, "JupyterLab asks something"
    chapter.close()


def test_a_slider_moves_and_a_quiz_replies(browser, address):
    moves = Notebook(browser, address, "moves")
    slider = moves.run(moves.cell("frames"))
    picture = slider.locator("img:not([hidden])")
    picture.wait_for()
    assert picture.get_attribute("alt") == "a straight line; slope 1"
    slider.get_by_role("slider").press("ArrowRight")
    slider.locator("img[alt='a straight line; slope 2']").wait_for()

    quiz = moves.run(moves.cell("quizzes"))
    question = quiz.locator(".question").first
    for kind, sign in (("wrong", "✗"), ("right", "✓")):
        answer = question.locator(f"details.{kind}").first
        answer.locator("summary").press("Enter")  # the keyboard is the element's, not the notebook's
        reply = answer.get_by_role("status")
        reply.wait_for()
        assert reply.inner_text().startswith(sign)
    moves.close()


def test_an_exercise_is_judged(browser, address):
    exercise = Notebook(browser, address, EXERCISE)
    page = exercise.page
    cells = nbformat.read(lab.ROOT / f"notebooks/{EXERCISE}.ipynb", as_version=4).cells
    count = len(lab.with_captions(cells, ""))
    page.wait_for_function(f"document.querySelectorAll('.jp-Cell').length == {count}")
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    check, answer = exercise.cell("judge.softmax_ds("), exercise.cell("def softmax_ds(")
    for source, verdict in ((None, "not yet"), (WRONG, "wrong"), (RIGHT, "right")):
        if source:
            exercise.run(answer, source)
            exercise.run(check)
        check.locator(".jp-OutputArea-output", has_text=verdict).wait_for()
    assert page.locator("[data-mime-type='application/vnd.jupyter.stderr']").count() == 0
    exercise.close()
