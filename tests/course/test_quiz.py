"""A quiz shows each answer with its reply, the right one in no fixed place; a faulty file is refused."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from handgrad.course.quiz import quiz, shuffled

ROOT = Path(__file__).parents[2]
QUIZZES = sorted((ROOT / "notebooks/quizzes").glob("*.json"))
ANSWERS = [
    {"answer": "a < b", "correct": True, "feedback": "Right: $a$."},
    {"answer": "b", "correct": False, "feedback": "No."},
    {"answer": "c", "correct": False, "feedback": "Nor this."},
]


def written(folder, **changes):
    """A file with one question, changed."""
    path = folder / "squares.json"
    path.write_text(json.dumps([{"question": "Which?", "answers": ANSWERS} | changes]))
    return path


def test_an_answer_opens_by_itself_and_replies(tmp_path):
    html = quiz(written(tmp_path))._repr_html_()
    assert html.count('<details name="squares-1"') == 3 and html.count('role="status"') == 3
    assert re.search(
        r'class="right"[^>]*>\n<summary[^>]*>a &lt; b</summary>\n<p role="status">✓ Right: \$a\$', html
    )
    assert html.count("✗") == 2 and "<script" not in html and "http" not in html


def test_the_text_of_a_quiz_does_not_tell_the_answer(tmp_path):
    text = repr(quiz(written(tmp_path)))
    question, *answers = text.splitlines()
    assert question == "1. Which?" and sorted(answers) == ["   - a < b", "   - b", "   - c"]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"answers": ANSWERS[:2]}, "at least three different answers"),
        ({"answers": [*ANSWERS, ANSWERS[1]]}, "at least three different answers"),
        ({"answers": [*ANSWERS, ANSWERS[0] | {"answer": "d"}]}, "one correct answer"),
        ({"answers": [a | {"correct": False} for a in ANSWERS]}, "one correct answer"),
        ({"answers": [a | {"feedback": " "} for a in ANSWERS]}, "feedback to every answer"),
    ],
)
def test_a_faulty_question_is_refused(tmp_path, changes, words):
    with pytest.raises(ValueError, match=f"squares.json: 'Which\\?': expected {words}"):
        quiz(written(tmp_path, **changes))


def test_the_right_answer_stands_in_every_place():
    """Over the quizzes of the book: no place holds it in more than half of the questions."""
    questions = [question for path in QUIZZES for question in json.loads(path.read_text(encoding="utf-8"))]
    places = [[answer["correct"] for answer in shuffled(question)].index(True) for question in questions]
    assert len(questions) > 10 and max(Counter(places).values()) <= len(questions) / 2
