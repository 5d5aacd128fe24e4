"""Pages include what is made from the book: each file stands on a page, and is written if it changed."""

import re
from pathlib import Path

from book._ext import generated
from handgrad.course import plan

ROOT = Path(__file__).parents[2]
TEXTS = generated.texts()


def test_every_file_stands_on_a_page_and_no_page_asks_for_another():
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*.md")]
    asked = re.findall(r"^```\{include\} _generated/(\S+)\.md\n```$", "\n".join(pages), re.MULTILINE)
    assert set(asked) == set(TEXTS)


def test_every_exercise_has_its_row_and_every_chapter_its_card():
    chapters = plan.chapters(ROOT)
    tasks = [task for chapter in chapters for task in chapter.tasks]
    rows = re.findall(r"^\| \d+\. .+? \| (.+?) \|", TEXTS["exercises"], re.MULTILINE)
    assert rows == [task.asks for task in tasks]
    assert f"of the {len(tasks)} exercises" in TEXTS["exercises_by_hand"]
    cards = re.findall(r"^- \*\*\{doc\}`(.+?) </(.+?)>`\*\*", TEXTS["chapter_map"], re.MULTILINE)
    assert cards == [(f"{chapter.number}. {chapter.title}", chapter.page) for chapter in chapters]


def test_no_text_holds_what_differs_from_run_to_run():
    assert not re.search(r" at 0x", "".join(TEXTS.values()))


def test_no_comment_of_a_line_is_lost():
    assert "# x is used three times" in TEXTS["architecture"]


def test_a_file_is_written_when_its_text_changed_and_only_for_a_whole_book(tmp_path, monkeypatch):
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    (tmp_path / "book").mkdir()
    generated.write()
    assert not (tmp_path / "book/_generated").exists()
    (tmp_path / "notebooks/solutions").mkdir(parents=True)
    written = []
    for texts in ({"a": "one", "b": "two"}, {"a": "one", "b": "three"}):
        monkeypatch.setattr(generated, "texts", lambda texts=texts: texts)
        generated.write()
        files = sorted((tmp_path / "book/_generated").iterdir())
        assert {file.stem: file.read_text() for file in files} == texts
        written.append([file.stat().st_mtime_ns for file in files])
    (a, b), (same, later) = written
    assert a == same and b < later
