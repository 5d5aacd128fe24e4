"""The wrong answers of the hold-out are wrong, and right once repaired; see tools/score.py.

Repaired, they are five or more right answers an exercise that other people have written: all are accepted.
"""

import json

import pytest
import score

from handgrad.course import judge
from handgrad.course.judge import formulas
from handgrad.course.judge.attempt import attempt
from handgrad.course.judge.function import TOLERANCE
from handgrad.course.judge.observe import relative_error

FILES = sorted(score.HOLDOUT.glob("*.json"))


def is_right(exercise, function):
    """Whether the function gives what the exercise asks for; nothing is searched for."""
    if isinstance(exercise, judge.Derivation):
        return formulas.equal(exercise._read(function), exercise.reference, exercise.points)
    given = [attempt(function, case.inputs, exercise.outputs) for case in exercise.cases]
    pairs = list(zip(given, exercise.expected))
    return max(relative_error(g, e, n) for g, e in pairs for n in exercise.outputs) <= TOLERANCE


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_entry_is_wrong_and_its_repair_is_right(file):
    found = json.loads(file.read_text(encoding="utf-8"))
    for name in judge.chapters()[file.stem[3:]]:
        assert sum(e["exercise"] == name for e in found) >= 5
    for entry in found:
        assert set(entry) == score.KEYS and entry["kind"] in ("slip", "idea", "two", "raises"), entry
        exercise = judge.find(entry["exercise"])
        assert not is_right(exercise, score.answer(entry["code"], exercise.name)), entry["about"]
        verdict = exercise.judge(score.answer(score.repaired(entry), exercise.name))
        assert verdict.status == "right" and callable(verdict.value), (entry["about"], verdict)


def test_the_score_counts_what_a_verdict_says():
    entry = {
        "exercise": "softmax_ds",
        "code": "def softmax_ds(da, a):\n    return a * da",
        "repair": [["a * da", "a * (da - (a * da).sum(axis=-1, keepdims=True))"]],
        "say": ["sum|second term|mean"],
    }
    assert score.told(entry)[0] and not score.told(entry | {"say": ["transpos"]})[0]
    assert score.faulty(entry) == {"return a * da"}
    with pytest.raises(ValueError, match="once in the code, found it 2 times"):
        score.repaired(entry | {"repair": [["da", "db"]]} | {"code": "da da"})
