"""What a page shows was run by nbval, and is run again when something changes that it used."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import nbformat.v4 as nb
import pytest

from book._ext import execution
from handgrad.course import runs

ROOT = Path(__file__).parents[2]
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
    monkeypatch.setattr(runs, "PACKAGE", tmp_path / "handgrad")
    return tmp_path


def key(package, *sources):
    return runs.key(notebook(*sources), package / "08_attention.ipynb")


@pytest.mark.parametrize(
    "code, file, used",
    [
        (CODE, "handgrad/ops/softmax.py", True),
        (CODE, "handgrad/chapters/attention/figures.py", True),
        (CODE, "handgrad/chapters/attention/claims.yml", True),
        (CODE, "quiz.json", True),
        (CODE, "handgrad/chapters/masks/figures.py", False),
        (CODE + "\nfrom handgrad.chapters.masks import figures", "handgrad/chapters/masks/figures.py", True),
        (CODE, "records/times.json", False),
        ("read('records')", "records/times.json", True),  # a folder that the code names
        ("read('records')", "records/__pycache__/conftest.pyc", False),  # a run beside it compiles that
    ],
)
def test_the_key_changes_with_what_a_notebook_uses(package, code, file, used):
    before = key(package, code)
    (package / file).parent.mkdir(exist_ok=True)
    (package / file).write_text("x = 2\n")
    assert (key(package, code) != before) == used


@pytest.mark.parametrize(
    "cell, change, counts",
    [
        (0, {"source": "Other words."}, False),
        (1, {"source": CODE + "\n1"}, True),
        (1, {"metadata": {"tags": ["hide-input"]}}, False),
        (1, {"metadata": {"tags": ["skip-execution"]}}, True),
        (1, {"outputs": [nb.new_output("stream", text="9")]}, True),  # it is quoted
    ],
)
def test_the_key_changes_with_code_its_tags_and_quoted_outputs(package, cell, change, counts):
    other = notebook(CODE)
    other.cells[cell].update(nbformat.from_dict(change))
    assert (runs.key(other, package / "08_attention.ipynb") != key(package, CODE)) == counts


def test_the_key_changes_with_another_cell_and_what_is_installed(package, monkeypatch):
    before = key(package, CODE)
    assert key(package, CODE, "1") != before
    monkeypatch.setattr(runs, "_libraries", lambda: ["numpy==0"])
    assert key(package, CODE) != before


def test_the_libraries_are_those_that_are_installed_wherever_this_process_looks(tmp_path, monkeypatch):
    before = runs._libraries.__wrapped__()
    (tmp_path / "vendored-1.0.dist-info").mkdir()
    (tmp_path / "vendored-1.0.dist-info/METADATA").write_text("Name: vendored\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert runs._libraries.__wrapped__() == before and any(line.startswith("numpy==") for line in before)


def test_a_copy_of_the_book_elsewhere_keeps_its_runs(package, monkeypatch, tmp_path_factory):
    before, elsewhere = key(package, CODE, "read('records')"), tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(package, elsewhere, dirs_exist_ok=True)
    monkeypatch.setattr(runs, "PACKAGE", elsewhere / "handgrad")
    assert key(elsewhere, CODE, "read('records')") == before


# nbval ------------------------------------------------------------------------------------------------------


def quoting(source, text):
    """A notebook whose second cell stores `text` as what it printed."""
    stored = notebook("x = 9.0", source)
    stored.cells[2].outputs = [nb.new_output("stream", name="stdout", text=text)]
    stored.cells[2].execution_count = 2
    return stored


WARNS = "import warnings\nwarnings.warn('rounded')"
BOOKS = {
    "right": quoting("print(x)", "9.0\n"),
    "changed": quoting("print(x)", "9.1\n"),
    "silent": quoting("pass", "9.0\n"),
    "warns": notebook("x = 9.0", WARNS),
    "raises": notebook("x = 9.0", "1 / 0", "x"),
    "hides": notebook("x = 9.0", "x;", "x"),
    "answers.mine": notebook("1 / 0"),
}


def repository(folder, books):
    """A repository of notebooks and nothing else."""
    (folder / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks/conftest.py", folder / "notebooks")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name, book in books.items():
        nbformat.write(book, folder / f"notebooks/{name}.ipynb")
    return folder


def validate(root, *options):
    """What pytest prints of the notebooks in a repository."""
    command = [sys.executable, "-m", "pytest", *runs.NBVAL, "notebooks", *options]
    return subprocess.run(command, cwd=root, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def validated(tmp_path_factory):
    """A repository in which nbval ran all notebooks, and what pytest printed."""
    root = repository(tmp_path_factory.mktemp("validated"), BOOKS)
    return root, validate(root, "-rA", "--color=no")


def test_a_cell_fails_that_raises_or_warns_or_prints_something_else_than_what_is_quoted(validated):
    root, log = validated
    failed = re.findall(r"^FAILED notebooks/(\w+)\.ipynb::Cell (\d+)", log, re.MULTILINE)
    assert sorted(failed) == [("changed", "1"), ("raises", "1"), ("silent", "1"), ("warns", "1")]
    assert "The cell warns" in log and "UserWarning: rounded" in log
    assert "Cell outputs differ" in log and "9.1" in log and "ZeroDivisionError" in log
    assert "answers" not in log


def test_a_run_is_kept_when_every_cell_has_passed(validated):
    root, _ = validated
    assert {path.stem for path in root.rglob("_build/executed/**/*")} == {"notebooks", "right", "hides"}
    run = runs.kept(root, root / "notebooks/hides.ipynb")
    assert [[dict(output.data) for output in cell.outputs] for cell in run.cells[1:]] == [
        [],
        [],  # as in Jupyter, the semicolon hides the value
        [{"text/plain": "9.0"}],
    ]
    assert [cell.execution_count for cell in run.cells[1:]] == [1, 2, 3]
    assert run.metadata["run"]["seconds"] > 0


def test_only_what_has_changed_runs_again(validated, capfd):
    root, _ = validated
    path = root / "notebooks/right.ipynb"
    assert runs.bring(root, [path]) == 0
    assert capfd.readouterr().out == f"{runs.SAME}: notebooks/right\n"
    changed = nbformat.read(path, as_version=4)
    changed.cells[0].source = "Other words."
    changed.cells.insert(1, nb.new_markdown_cell("More of them."))
    nbformat.write(changed, path)
    assert runs.bring(root, [path]) == 0 and "is kept" in capfd.readouterr().out
    changed.cells[3].outputs[0].text = "9.1\n"
    nbformat.write(changed, path)
    assert runs.bring(root, [path]) == 1 and "Cell outputs differ" in capfd.readouterr().out
    assert runs.kept(root, path) is None


def test_a_run_that_is_not_whole_is_not_kept(tmp_path):
    root = repository(tmp_path, {"right": BOOKS["right"]})
    assert "1 passed" in validate(root, "-k", "Cell and 0")
    assert not (root / "_build").exists()


def test_those_that_take_longest_come_first(tmp_path):
    books = {name: notebook("1", "2") for name in ("a", "b", "c")}
    books["b"].metadata["handgrad"] = {"budget": 60}
    books["c"].metadata["handgrad"] = {"budget": 240}
    root = repository(tmp_path, books)
    assert re.findall(r"(\w)\.ipynb::Cell 0", validate(root, "--collect-only", "-q")) == ["c", "b", "a"]


# The pages --------------------------------------------------------------------------------------------------

PAGE = "book/ledger.md"


@pytest.fixture
def page(package):
    """The file of a page in Markdown, in a repository."""
    (package / "book").mkdir()
    (package / PAGE).write_text("words")
    return package / PAGE


def test_the_cells_of_a_page_run_and_the_run_is_kept(package, page, monkeypatch):
    book = notebook("print(3)")
    assert execution.bring(package, {page: book}, 60) == {}
    run = runs.kept(package, page, book)
    assert [output.text for output in run.cells[1].outputs] == ["3\n"]
    monkeypatch.setattr(execution, "NotebookClient", None)
    assert execution.bring(package, {page: notebook("print(3)")}, 60) == {}
    with pytest.raises(TypeError):
        execution.bring(package, {page: notebook("print(4)")}, 60)


def test_the_cells_of_a_page_that_fail_are_reported_and_not_kept(package, page):
    errors = execution.bring(package, {page: notebook("print(1); 1 / 0")}, 60)
    assert "ZeroDivisionError" in str(errors[page])
    assert runs.kept(package, page, notebook("print(1); 1 / 0")) is None


def test_a_page_is_read_again_when_its_notebook_would_give_something_else(package, page, monkeypatch):
    """A page whose file is the same: if a file that it reads changed, or if no run was kept; not else."""
    code = 'open("../quiz.json").read()'
    app, env = SimpleNamespace(srcdir=package), SimpleNamespace(found_docs={"book/ledger", "book/notation"})
    monkeypatch.setattr(
        execution,
        "notebooks_among",
        lambda app, env, pages: {page: notebook(code)} if "book/ledger" in pages else {},
    )

    def again(changed=()):
        return execution.runs_again(app, env, set(), set(changed), set())

    assert again() == ["book/ledger"]
    execution.bring(package, {page: notebook(code)}, 60)
    assert again() == []
    (package / "quiz.json").write_text("[2]")
    assert again() == ["book/ledger"] and again(changed=["book/ledger"]) == []
