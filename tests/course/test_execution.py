"""What a page shows was run with what is there now: a run is kept until something changes that it used."""

import shutil
import threading
from types import SimpleNamespace

import nbformat.v4 as nb
import pytest

from book._ext import execution

CODE = 'from handgrad.ops import softmax\nopen("quiz.json").read()'


def notebook(*sources):
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [nb.new_markdown_cell("Words."), *map(nb.new_code_cell, sources)]
    return nb.new_notebook(cells=cells, metadata=kernel)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package and a folder of notebooks with a quiz."""
    files = ["__init__.py", "ops/softmax.py", "chapters/attention/figures.py", "chapters/masks/figures.py"]
    files += ["chapters/attention/claims.yml"]
    for file in files:
        (tmp_path / "handgrad" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "handgrad" / file).write_text("x = 1\n")
    (tmp_path / "records").mkdir()
    (tmp_path / "records/times.json").write_text("[1]")
    (tmp_path / "quiz.json").write_text("[]")
    monkeypatch.setattr(execution, "PACKAGE", tmp_path / "handgrad")
    return tmp_path


def key(package, *sources):
    return execution.key(notebook(*sources), package / "08_attention.ipynb")


USED = ["ops/softmax.py", "chapters/attention/figures.py", "chapters/attention/claims.yml"]


@pytest.mark.parametrize("file", [*(f"handgrad/{file}" for file in USED), "quiz.json"])
def test_the_key_changes_with_what_a_notebook_uses(package, file):
    before = key(package, CODE)
    (package / file).write_text("x = 2\n")
    assert key(package, CODE) != before


def test_the_key_changes_with_a_file_in_a_folder_that_the_code_names(package):
    before, other = key(package, "read('records')"), key(package, CODE)
    (package / "records/times.json").write_text("[2]")
    assert key(package, "read('records')") != before and key(package, CODE) == other


def test_the_key_changes_with_code_its_tags_and_what_is_installed(package, monkeypatch):
    before = key(package, CODE)
    assert key(package, CODE + "\n1") != before and key(package, CODE, "1") != before
    tagged = notebook(CODE)
    tagged.cells[1].metadata["tags"] = ["skip-execution"]
    assert execution.key(tagged, package / "08_attention.ipynb") != before
    monkeypatch.setattr(execution, "_libraries", lambda: ["numpy==0"])
    assert key(package, CODE) != before


def test_another_chapter_or_other_words_do_not_change_the_key(package):
    before = key(package, CODE)
    (package / "handgrad/chapters/masks/figures.py").write_text("x = 2\n")
    assert key(package, CODE) == before
    assert key(package, CODE + "\nfrom handgrad.chapters.masks import figures") != before
    other = notebook(CODE)
    other.cells[0].source = "Other words."
    other.cells[1].metadata["tags"] = ["hide-input"]
    assert execution.key(other, package / "08_attention.ipynb") == before


def gave(package, source):
    """What a page is given: the text of the last output, and the error."""
    runs = execution.Runs(package / "kept")
    path = package / "08_attention.ipynb"
    runs.start(notebook(source), path, "notebooks/08_attention", timeout=60, allow_errors=False)
    done, seconds, error = runs.started[path].result()
    runs.pool.shutdown()
    assert seconds > 0
    return [output.text for output in done.cells[-1].outputs if "text" in output], error


def test_only_the_thread_that_reads_the_pages_parses_code(package, monkeypatch):
    parse, threads = execution.ast.parse, []

    def noted(source):
        threads.append(threading.get_ident())
        return parse(source)

    with monkeypatch.context() as patched:
        patched.setattr(execution.ast, "parse", noted)
        gave(package, "print(3)")
    assert set(threads) == {threading.get_ident()}


def test_a_run_is_kept(package, monkeypatch):
    first = gave(package, "print(3)")
    monkeypatch.setattr(execution, "NotebookClient", None)
    assert gave(package, "print(3)") == first
    with pytest.raises(TypeError):
        gave(package, "print(4)")


def test_a_run_that_fails_is_reported_and_not_kept(package):
    texts, error = gave(package, "print(1); 1 / 0")
    assert texts == ["1\n"] and "ZeroDivisionError" in str(error)
    assert not list((package / "kept").rglob("*"))


def test_a_page_is_read_again_when_its_notebook_would_give_something_else(package, monkeypatch):
    """A page whose file is the same: if a file that it reads changed, or if no run was kept; not else."""
    page, path = "notebooks/08_attention", package / "08_attention.ipynb"
    app, env = SimpleNamespace(srcdir=package / "kept"), SimpleNamespace(found_docs={page, "book/notation"})
    monkeypatch.setattr(
        execution, "notebooks_among", lambda app, env, pages: [(page, path, notebook(CODE))] * (page in pages)
    )

    def again(changed=()):
        return execution.runs_again(app, env, set(), set(changed), set())

    assert again() == [page]
    gave(package, CODE)
    assert again() == []
    (package / "quiz.json").write_text("[2]")
    assert again() == [page] and again(changed=[page]) == []


def test_a_copy_of_the_book_elsewhere_keeps_its_runs(package, monkeypatch, tmp_path_factory):
    before, elsewhere = key(package, CODE, "read('records')"), tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(package, elsewhere, dirs_exist_ok=True)
    monkeypatch.setattr(execution, "PACKAGE", elsewhere / "handgrad")
    assert key(elsewhere, CODE, "read('records')") == before
