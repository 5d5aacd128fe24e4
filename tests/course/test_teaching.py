"""What is said of the exercises to teachers: something of each, not its title, and not its answer."""

import difflib
import inspect
import re
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from handgrad.course import judge, plan, teaching

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
CHAPTERS = plan.chapters(ROOT)
TASKS = [task for chapter in CHAPTERS for task in chapter.tasks]
BY_NAME = {task.name: task for task in TASKS if task.name}
DECLARED = list(BY_NAME.values())


def flaws(task):
    """What is wrong with the sentence on a task, in words."""
    exercise, asks = judge.find(task.name), task.asks
    if not re.fullmatch(r"[A-Z][^.]{20,98}\.", asks):
        yield "it is no short sentence"
    if re.search(r"[`=$@*_/√²∘]|\(.*\)|\b(axis|keepdims|np)\b", asks):
        yield "it holds code or a formula"
    if alike(asks, task.title) > 0.6:
        yield "it is the title again"
    told = [words for words in exercise.hints if alike(asks, words) > 0.6]
    told += [line for line in inspect.getsource(exercise.answer).splitlines() if alike(asks, line) > 0.6]
    if told:
        yield f"it tells the answer, or a hint: {told[0]}"


def alike(one, other):
    """How much of the words, from 0 to 1, two texts have in common, in the same order."""
    one, other = (re.findall(r"\w+", text.lower()) for text in (one, other))
    return difflib.SequenceMatcher(None, one, other).ratio()


@pytest.mark.parametrize("task", DECLARED, ids=lambda task: task.name)
def test_what_an_exercise_tests_is_said(task):
    assert list(flaws(task)) == []


def test_every_exercise_has_its_own_sentence():
    assert len({task.asks for task in TASKS}) == len(TASKS)


@pytest.mark.parametrize(
    ("name", "asks", "flaw"),
    [
        ("softmax_ds", "Two sentences are one more. That is too many for a table.", "no short sentence"),
        ("softmax_ds", "Very long, " * 10 + "and longer.", "no short sentence"),
        ("softmax_ds", "Backward through softmax, row by row.", "the title again"),
        ("softmax_ds", "The right answer is ds = a ∘ (da - mean) and nothing else.", "code or a formula"),
        ("merge_parts", judge.find("merge_parts").hints[0], "a hint"),
    ],
)
def test_a_sentence_that_will_not_do_is_refused(name, asks, flaw):
    assert flaw in " ".join(flaws(replace(BY_NAME[name], asks=asks)))


# What is read -----------------------------------------------------------------------------------------------


def test_a_task_is_what_its_text_says():
    task = BY_NAME["unigram_floor"]
    assert (task.number, task.stars, task.minutes) == (3, 2, 15)
    assert (task.kind, task.transfer, task.judged) == ("Derive and implement", True, "function")
    assert task.title == "The floor of another smoothing"
    task = BY_NAME["score_variance"]
    assert (task.kind, task.transfer, task.judged) == ("Derivation", False, "formula")


def test_what_no_judge_decides_is_found():
    (task,) = (task for task in TASKS if task.judged == "by hand")
    assert (task.number, task.minutes) == (6, 0)
    told = f"The report decides {len(TASKS) - 1} of the {len(TASKS)} exercises."
    assert teaching.by_hand(CHAPTERS) == f"{told} A person reads “{task.title}” of chapter 16."
    assert teaching.by_hand(CHAPTERS[:2]).endswith("exercises.")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "*Fill one line, 5 minutes.",
            "*Fill one line.",
            "'Backward through softmax': expected ..kind, 15 minutes",
        ),
        ("softmax ★", "softmax", "'Backward through softmax': expected ..kind, 15 minutes... and stars"),
        ("## 1. Backward", "## Backward", "expected the exercises .'softmax_ds', 'score_variance'"),
    ],
)
def test_a_text_that_does_not_say_it_is_refused(tmp_path, old, new, message):
    notebook = nbformat.read(NOTEBOOKS / "solutions/08_attention.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace(old, new)
    nbformat.write(notebook, tmp_path / "08_attention.ipynb")
    with pytest.raises(ValueError, match=message):
        teaching.tasks_of(tmp_path / "08_attention.ipynb")


# The tables -------------------------------------------------------------------------------------------------


def test_the_list_has_a_row_for_each_exercise():
    text = teaching.listing(CHAPTERS)
    assert len(re.findall(r"^\| \d", text, re.MULTILINE)) == len(TASKS)
    assert text.count("{doc}") == len(CHAPTERS) and "any | by hand |" in text
    for line in text.splitlines():
        assert line.count("|") in (0, 6), f"a sign that parts columns stands in a text: {line}"


def test_the_totals_are_sums():
    text = teaching.totals(CHAPTERS, NOTEBOOKS)
    rows = [re.split(r" \| |\xa0·\xa0", line.strip("| ")) for line in text.splitlines()[2:]]
    numbers = [[int(cell) for cell in row[1:]] for row in rows]
    assert len(rows) == len(CHAPTERS) + 1
    assert numbers[-1] == [sum(column) for column in zip(*numbers[:-1])]
    exercises, one, two, three, transfer, minutes, read, quiz, asked = numbers[-1]
    assert exercises == len(TASKS) and one + two + three == len(DECLARED)
    assert minutes == sum(task.minutes for task in TASKS) and transfer < exercises and read and quiz
    folded = sum(path.read_text().count("{admonition} Answer") for path in NOTEBOOKS.glob("*.ipynb"))
    assert asked >= folded > 0


def test_questions_with_folded_answers_are_counted(tmp_path):
    chapter = replace(CHAPTERS[7], minutes=7)
    cells = [":::{admonition} Answer\nNo.\n:::", ":::{admonition} Guess first: why?\nSo.\n:::", "An Answer."]
    notebook = new_notebook(cells=list(map(new_markdown_cell, cells)))
    nbformat.write(notebook, tmp_path / f"{chapter.name}.ipynb")
    (tmp_path / "quizzes").mkdir()
    (tmp_path / "quizzes" / f"{chapter.name}.json").write_text("[1, 2, 3]")
    table = teaching.totals([chapter], tmp_path)
    assert "| 6 | 1 · 4 · 1 | 3 | 105 | 7 | 3 | 2 |" in table.replace("\xa0", " ")
