"""The program that makes the student notebooks: what it takes out, and that it never loses an answer."""

import subprocess
import sys
from pathlib import Path

import exercises
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).parents[2]

# What is taken out ------------------------------------------------------------------------------------------

SOLVED = """def f(x):
    \"\"\"x -> 2x.\"\"\"
    # BEGIN SOLUTION
    y = 2 * x
    return y
    # END SOLUTION"""


def test_a_region_in_a_function_becomes_a_stub():
    source = exercises.without_solutions(SOLVED, "here")
    assert source == 'def f(x):\n    """x -> 2x."""\n    raise NotImplementedError("your turn")'


def test_a_region_at_the_margin_becomes_an_open_name():
    source = exercises.without_solutions("a = 1\n# BEGIN SOLUTION\nb = a\nc = b\n# END SOLUTION\nc", "here")
    assert source == "a = 1\nc = ...  # your turn\nc"


@pytest.mark.parametrize(
    "source, message",
    [
        ("# BEGIN SOLUTION\nx = 1", r"here, line 1: '# BEGIN SOLUTION' without '# END"),
        ("x = 1\n# END SOLUTION", r"here, line 2: '# END SOLUTION' without"),
        ("# BEGIN SOLUTION\n# BEGIN SOLUTION\nx = 1\n# END SOLUTION", r"line 2: a second"),
        ("if 1:\n    # BEGIN SOLUTION\n    x = 1\n# END SOLUTION", r"line 4: .* indented differently"),
        ("# BEGIN SOLUTION\n\n# END SOLUTION", r"line 1: the solution region is empty"),
        ("# BEGIN SOLUTION\nprint(1)\n# END SOLUTION", r"line 1: .* must end with `name = answer`"),
    ],
)
def test_markers_that_do_not_fit_are_refused(source, message):
    with pytest.raises(exercises.MarkerError, match=message):
        exercises.without_solutions(source, "here")


def solved():
    return new_notebook(
        cells=[
            new_markdown_cell("Double it.", id="task"),
            new_code_cell(SOLVED, id="answer", execution_count=3),
            new_code_cell("assert f(1) == 2", id="assert", metadata={"tags": ["solution"]}),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )


def test_the_student_copy():
    notebook = exercises.student(solved(), "x.ipynb")
    assert [cell.id for cell in notebook.cells] == ["task", "answer"]
    assert "NotImplementedError" in notebook.cells[1].source and "2 * x" not in notebook.cells[1].source
    assert (
        notebook.cells[1].execution_count is None
        and notebook.metadata.kernelspec == solved().metadata.kernelspec
    )
    assert exercises.text(notebook) == exercises.text(exercises.student(solved(), "x.ipynb"))


def test_a_notebook_with_nothing_to_solve_is_refused():
    with pytest.raises(exercises.MarkerError, match="x.ipynb: no solution region"):
        exercises.student(new_notebook(cells=[new_code_cell("1")]), "x.ipynb")
    with pytest.raises(exercises.MarkerError, match="outside a code cell"):
        exercises.student(new_notebook(cells=[new_markdown_cell("# BEGIN SOLUTION")]), "x.ipynb")


# What is written --------------------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path):
    """Two solutions, their student notebooks, and how to run the program on them."""
    for name in ("00_double", "01_halve"):
        (tmp_path / "solutions").mkdir(exist_ok=True)
        nbformat.write(solved(), tmp_path / "solutions" / f"{name}.ipynb")
    folders = [f"--{name}={tmp_path / name}" for name in ("solutions", "exercises")]

    def run(*arguments):
        return exercises.main([*folders, *arguments])

    assert run("--check") == 1  # missing
    assert run() == 0 and run("--check") == 0
    return tmp_path, run


def edit(path, change):
    notebook = nbformat.read(path, as_version=4)
    change(notebook)
    nbformat.write(notebook, path)


def answer(notebook):
    notebook.cells[1].source = "def f(x):\n    return x + x"


def run_it(notebook):
    """What Jupyter leaves behind when somebody runs a notebook and saves it."""
    notebook.cells[-1].update(execution_count=1, outputs=[new_output("stream", name="stdout", text="hello")])
    notebook.cells[-1].metadata["execution"] = {"iopub.execute_input": "2026"}
    notebook.metadata["language_info"] = {"name": "python", "version": "3.12"}


def reword(notebook):
    notebook.cells[0].source = "Double it, please."


@pytest.mark.parametrize("change", [lambda notebook: None, run_it], ids=["unchanged", "run"])
def test_a_notebook_without_answers_is_written(course, capsys, change):
    folder, run = course
    edit(folder / "exercises/00_double.ipynb", change)
    edit(folder / "solutions/00_double.ipynb", reword)
    assert run("--check") == 1
    assert "00_double.ipynb: out of date" in (printed := capsys.readouterr().out)
    assert '+    "Double it, please."' in printed and "you have written" not in printed
    assert run() == 0 and run("--check") == 0
    notebook = nbformat.read(folder / "exercises/00_double.ipynb", as_version=4)
    assert notebook.cells[0].source == "Double it, please." and notebook.cells[1].outputs == []


def add_a_cell(notebook):
    notebook.cells.append(new_code_cell("f(2)", id="mine"))


def remove_a_cell(notebook):
    del notebook.cells[0]


def forget_the_digest(notebook):
    del notebook.metadata["handgrad"]


@pytest.mark.parametrize("change", [answer, add_a_cell, remove_a_cell, reword, forget_the_digest])
def test_answers_are_kept_byte_for_byte(course, capsys, change):
    folder, run = course
    path = folder / "exercises/00_double.ipynb"
    edit(path, change)
    edit(path, run_it)
    edit(folder / "solutions/01_halve.ipynb", reword)
    before = path.read_bytes()
    assert run() == 1
    message = capsys.readouterr().err
    assert (
        message.startswith(f"{path}: you have written here") and "make exercises FORCE=00_double" in message
    )
    assert path.read_bytes() == before
    other = nbformat.read(folder / "exercises/01_halve.ipynb", as_version=4)
    assert other.cells[0].source == "Double it, please."
    assert run("--check") == 1
    printed = capsys.readouterr().out
    assert "you have written here" in printed and "is not broken" in printed and "out of date" not in printed


@pytest.mark.parametrize("text", ["", "{}", "[]", "<<<<<<< HEAD"])
def test_what_is_no_notebook_is_kept(course, text):
    folder, run = course
    path = folder / "exercises/00_double.ipynb"
    path.write_text(text)
    assert run() == 1 and path.read_text() == text


def test_force_keeps_a_copy_of_the_answers(course, capsys):
    folder, run = course
    path, copy = (folder / "exercises" / f"00_double{end}" for end in (".ipynb", ".mine.ipynb"))
    empty = path.read_bytes()
    edit(path, answer)
    edit(folder / "exercises/01_halve.ipynb", answer)
    answered = path.read_bytes()
    assert run("--force", "00_double") == 1  # the other one holds answers, too
    printed = capsys.readouterr()
    assert f"{path}: the answers are kept in {copy}" in printed.out and "01_halve" in printed.err
    assert path.read_bytes() == empty and copy.read_bytes() == answered
    edit(path, answer)
    assert run("--force", "00_double") == 1
    assert f"{copy}: holds answers kept before" in capsys.readouterr().err
    assert path.read_bytes() == copy.read_bytes() == answered
    assert run("--force", "00_double", "--force", "01_halve.ipynb") == 1
    assert not (folder / "exercises/01_halve.mine.ipynb").exists()
    copy.unlink()
    assert run("--force", "00_double", "--force", "01_halve.ipynb") == 0
    assert run("--check") == 0  # copies are nobody's business


def test_force_of_a_notebook_without_answers_makes_no_copy(course):
    folder, run = course
    assert run("--force", "00_double") == 0
    assert not list((folder / "exercises").glob("*.mine.ipynb"))


def test_force_of_no_exercise_is_refused(course, capsys):
    _, run = course
    with pytest.raises(SystemExit):
        run("--force", "02_third")
    assert "--force: expected one of 00_double, 01_halve, got 02_third" in capsys.readouterr().err


def test_a_student_notebook_without_solutions_is_named(course, capsys):
    folder, run = course
    (folder / "solutions/01_halve.ipynb").unlink()
    assert run("--check") == 1 and "01_halve.ipynb: has no solution" in capsys.readouterr().out


def test_markers_that_do_not_fit_end_the_program(course, capsys):
    folder, run = course
    broken = new_notebook(cells=[new_code_cell("# END SOLUTION")])
    nbformat.write(broken, folder / "solutions/00_double.ipynb")
    assert run() == 1 and "without '# BEGIN" in capsys.readouterr().err


def test_the_student_notebooks_are_up_to_date(capsys):
    assert exercises.main(["--check"]) == 0, capsys.readouterr().out


# Without PyTorch --------------------------------------------------------------------------------------------

NO_TORCH = """
import contextlib, io, json, sys
from pathlib import Path

class NoTorch:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoTorch)
for path in sorted(Path().glob("*.ipynb")):
    names, printed = {}, io.StringIO()
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(printed):
                exec(compile("".join(cell["source"]), f"{path.stem}, {cell['id']}", "exec"), names)
    if "no PyTorch here: left out" in printed.getvalue():
        print(path.stem)
"""


def test_student_notebooks_run_without_pytorch():
    """It is a witness in four of them; the base package does not bring it along."""
    command = [sys.executable, "-c", NO_TORCH]
    run = subprocess.run(command, cwd=ROOT / "notebooks/exercises", capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    with_torch = [
        path.stem
        for path in sorted((ROOT / "notebooks/exercises").glob("*.ipynb"))
        if "import torch" in path.read_text(encoding="utf-8")
    ]
    assert run.stdout.split() == with_torch != []
