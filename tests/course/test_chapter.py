"""A new chapter is whole at once and keeps every rule; what cannot be made, or is not sound, is refused."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import chapter
import nbformat
import pytest
import yaml
from nbclient import NotebookClient

from handgrad.course import rules

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
FOLDERS = ("book", "notebooks", "src", "tests", "tools")
FILES = ("CONTRIBUTING.md", "_config.yml", "_toc.yml", "pyproject.toml")


@pytest.fixture
def copy(tmp_path):
    """A copy of the repository that may be changed."""
    for folder in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".ipynb_checkpoints")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for file in FILES:
        shutil.copy(ROOT / file, tmp_path)
    return tmp_path


@pytest.fixture
def planned(copy, monkeypatch):
    """A copy whose plan has one chapter more: one is still to be written."""
    trial = {"number": 22, "topic": "trial", "title": "Trial", "about": "one more", "needs": [8]}
    plan = copy / "book/chapters.yml"
    parts = yaml.safe_load(plan.read_text(encoding="utf-8"))
    parts[-1]["chapters"].append(trial)
    plan.write_text(yaml.safe_dump(parts, allow_unicode=True, sort_keys=False), encoding="utf-8")
    monkeypatch.setitem(chapter.PLAN[parts[-1]["part"]], 22, "trial")
    monkeypatch.setitem(chapter.TOPICS, 22, "trial")
    monkeypatch.setitem(chapter.TITLES, 22, "Trial")
    return copy


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(folder, *command):
    """Run Python in a copy, with the package of the copy."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True
    )


def quoted(notebook):
    """The outputs of the cells whose text the prose quotes."""
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code" and rules.is_quoted(cell)]


# A new chapter ----------------------------------------------------------------------------------------------


def test_a_new_chapter_is_whole_keeps_the_rules_and_runs(planned, monkeypatch):
    before = contents(planned)
    made = run(planned, "tools/chapter.py", "new", "22", "trial")
    assert made.returncode == 0, made.stderr
    assert "`make chapter N=22` runs the rules" in made.stdout
    notebooks = [planned / path for path in chapter.notebooks(planned, "22_trial")]
    assert len(notebooks) == 3
    drafted = [path for path in set(contents(planned)) - set(before) if path.suffix in (".py", ".ipynb")]
    assert not any("§" in path.read_text(encoding="utf-8") for path in drafted)
    for command in (["check"], ["format", "--check"]):
        formed = run(planned, "-m", "ruff", *command, *drafted)
        assert formed.returncode == 0, formed.stdout
    assert [complaint for path in notebooks for complaint in rules.complaints(path)] == []
    checked = run(planned, "tools/exercises.py", "--check")
    assert checked.returncode == 0, checked.stdout
    monkeypatch.setenv("PYTHONPATH", str(planned / "src"))
    for path in notebooks:
        folder = {"metadata": {"path": str(path.parent)}}
        stored, again = (nbformat.read(path, as_version=4) for _ in range(2))
        NotebookClient(again, timeout=60, kernel_name="python3", resources=folder).execute()
        assert quoted(again) == quoted(stored)
    assert any(quoted(nbformat.read(path, as_version=4)) for path in notebooks)
    tested = run(planned, "-m", "pytest", "-q", "tests/chapters/test_trial.py", "tests/course/test_pages.py")
    assert tested.returncode == 0, tested.stdout
    assert len(chapter.unwritten(planned, "22_trial")) == 4


def test_the_chapters_stand_in_the_order_of_their_numbers():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    toc["parts"] = [part for part in toc["parts"] if part["caption"] not in chapter.PLAN]
    toc = yaml.safe_dump(toc)
    for number in (13, 9, 21, 1, 12, 8, 16, 5, 20):
        toc = chapter.in_the_contents(toc, f"{number:02}_{chapter.TOPICS[number]}")
    parts = {part["caption"]: part["chapters"] for part in yaml.safe_load(toc)["parts"]}
    assert list(parts) == ["Before you begin", *chapter.PLAN, "Make it yours", "Look it up"]
    names = [[entry["file"].split("/")[1][:2] for entry in parts[part]] for part in chapter.PLAN]
    assert names == [["01", "05"], ["08", "09"], ["12", "13"], ["16", "20", "21"]]
    assert parts["Attention"][1]["sections"] == [
        {"file": "notebooks/exercises/09_masks"},
        {"file": "notebooks/solutions/09_masks"},
    ]


def test_the_plan_is_what_the_chapters_say():
    """Numbers count from 1, and titles and parts are those of the book."""
    planned = [entry for part in chapter.CONTENTS for entry in part["chapters"]]
    assert [entry["number"] for entry in planned] == list(range(1, len(planned) + 1))
    for name in CHAPTERS:
        assert chapter.TOPICS[int(name[:2])] == name[3:]
        notebook = nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4)
        assert notebook.cells[0].source.splitlines()[0] == f"# {chapter.TITLES[int(name[:2])]}"
    for part in yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]:
        files = [entry["file"].removeprefix("notebooks/") for entry in part["chapters"]]
        planned = [f"{number:02}_{topic}" for number, topic in chapter.PLAN.get(part["caption"], {}).items()]
        assert [file for file in files if file[:2].isdigit()] == [file for file in planned if file in files]


@pytest.mark.parametrize(
    "number, topic, message",
    [
        ("0", "masks", "number: expected 1 to 21, got '0'"),
        ("22", "masks", "number: expected 1 to 21, got '22'"),
        ("nine", "masks", "number: expected 1 to 21, got 'nine'"),
        ("09", "mask", "topic: chapter 09 is planned as masks, got 'mask'"),
        ("10", "masks", "topic: chapter 10 is planned as multi_head, got 'masks'"),
        ("08", "attention", "chapter 08: .*notebooks/08_attention.ipynb.* is there already; nothing was"),
    ],
)
def test_what_is_not_planned_or_is_there_is_refused(number, topic, message, capsys):
    with pytest.raises((ValueError, FileExistsError), match=message):
        chapter.drafts(ROOT, number, topic)
    assert chapter.main(["new", number, topic]) == 2
    assert re.match(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    "place, words",
    [
        ("notebooks/22_other.ipynb", "x"),
        ("notebooks/quizzes/22_trial.json", "x"),
        ("src/handgrad/chapters/trial/figures.py", "x"),
        ("tests/chapters/test_trial.py", "x"),
        ("_toc.yml", (ROOT / "_toc.yml").read_text().replace("notebooks/20_speed", "notebooks/22_trial")),
    ],
)
def test_nothing_is_written_where_anything_is_there(place, words, planned):
    (planned / place).parent.mkdir(parents=True, exist_ok=True)
    (planned / place).write_text(words, encoding="utf-8")
    before = contents(planned)
    with pytest.raises(FileExistsError, match="^chapter 22: .* there.*; nothing was written"):
        chapter.new(planned, "22", "trial")
    assert contents(planned) == before


# The steps --------------------------------------------------------------------------------------------------


def test_the_steps_in_contributing_are_made_from_the_list(tmp_path, capsys):
    assert chapter.checklist(ROOT, check=True) == 0
    page = tmp_path / "CONTRIBUTING.md"
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    page.write_text(text.replace("3. Keep cells short", "3. Keep cells long"), encoding="utf-8")
    assert chapter.checklist(tmp_path, check=True) == 1
    assert "the steps are out of date" in capsys.readouterr().err
    assert chapter.checklist(tmp_path, check=False) == 0
    assert page.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "text", ["", chapter.BEGIN, chapter.END + chapter.BEGIN, 2 * chapter.BEGIN + chapter.END]
)
def test_a_page_without_the_marks_is_refused(text):
    with pytest.raises(ValueError, match="each once, in this order"):
        chapter.with_steps(text)


# The check of one chapter -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["99", "", "8a"])
def test_the_check_of_no_chapter_lists_those_that_exist(number, capsys):
    assert chapter.main(["check", number]) == 2
    assert re.search(rf"one of .*05_normalization, .*08_.*; got '{number}'", capsys.readouterr().err)


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_build_executes_one_chapter_alone(name):
    """What myst-nb leaves out, by its own way of matching, is every page but those of the chapter."""
    patterns = chapter.settings(ROOT, name)["execute"]["exclude_patterns"]
    pages = [*(ROOT / "notebooks").rglob("[0-9][0-9]_*.ipynb"), *(ROOT / "book").glob("*.md")]
    executed = {page for page in pages if not any(PurePosixPath(page).match(pattern) for pattern in patterns)}
    assert executed == {ROOT / path for path in chapter.notebooks(ROOT, name)}


def test_a_part_that_fails_or_is_still_to_be_written_fails_the_check(copy, monkeypatch, capsys):
    parts = {"good": "print('nothing to say')", "bad": "import sys; print('this is why'); sys.exit(3)"}
    commands = {part: [sys.executable, "-c", code] for part, code in parts.items()}
    monkeypatch.setattr(chapter, "commands", lambda root, name: commands)
    assert chapter.check(copy, "08") == 1
    printed = capsys.readouterr().out
    assert "──── bad ────\nthis is why" in printed and "nothing to say" not in printed
    assert re.search(r"good +ok +0 s\n", printed) and re.search(r"together +FAILED", printed)
    del commands["bad"]
    assert chapter.check(copy, "08") == 0
    path = copy / "notebooks/quizzes/08_attention.json"
    path.write_text(path.read_text(encoding="utf-8").replace("Right.", "✎ Right.", 1), encoding="utf-8")
    assert chapter.check(copy, "08") == 1
    assert "notebooks/quizzes/08_attention.json, 1 times: ✎ Right." in capsys.readouterr().out


@pytest.mark.parametrize("name", CHAPTERS)
def test_nothing_in_the_book_is_still_to_be_written(name):
    assert chapter.unwritten(ROOT, name) == []


def test_the_parts_of_a_chapter(copy):
    for folder in ("exercises", "solutions"):
        (copy / "notebooks" / folder / "20_speed.ipynb").unlink()
    with_exercises, without = (chapter.commands(copy, name) for name in ("08_attention", "20_speed"))
    for commands in (with_exercises, without):  # the pages show the runs of the notebooks
        assert list(commands)[0] == "notebooks" and list(commands)[-1] == "pages"
    assert [len(parts["rules"]) for parts in (with_exercises, without)] == [3 + 3, 3 + 1]
    assert Path(with_exercises["pages"][0]).exists() and {"-W", "-n"} <= set(with_exercises["pages"])
