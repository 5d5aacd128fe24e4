"""The report on learners' notebooks: it finds what is right and wrong, whatever a notebook does."""

import csv
import json
import shutil
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from handgrad.course import apart, grade, judge
from handgrad.course.grade import Result
from handgrad.course.judge.attempt import YOUR_TURN

ROOT = Path(__file__).parents[2]
SOLVED = ROOT / "notebooks/solutions/08_attention.ipynb"
OPEN = ROOT / "notebooks/exercises/08_attention.ipynb"
NAMES = list(judge.chapters()["attention"])

SOFTMAX = "def softmax_ds(da, a):\n    return a * (da - (a * da).sum(axis=-1, keepdims=True))"
WRONG_SOFTMAX = "def softmax_ds(da, a):\n    return a * da"
VARIANCE = """def score_variance(K, sigma_q, sigma_k, mu_q, mu_k):
    return K * ((sigma_q**2 + mu_q**2) * (sigma_k**2 + mu_k**2) - mu_q**2 * mu_k**2)"""


def hand_in(path, *cells):
    """Write a notebook with these code cells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=[new_markdown_cell("Mine."), *map(new_code_cell, cells)]), path)


def answered(path, **answers):
    """The open notebook with answers in the place of its stubs, written to a file."""
    notebook = nbformat.read(OPEN, as_version=4)
    for cell in notebook.cells:
        name = cell.id.replace("-", "_").removesuffix("_answer")
        if cell.id.endswith("-answer") and name in answers:
            cell.source = answers[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def of(results, learner):
    """{exercise: Result} of one learner."""
    return {r.exercise: r for r in results if r.learner == learner}


def statuses(results, learner):
    return [r.status for r in of(results, learner).values()]


# What is right, wrong and open ------------------------------------------------------------------------------


def test_solved_and_unsolved_notebooks_which_stay_as_they_are(tmp_path):
    for learner, source in (("Åsa Öberg", SOLVED), ("李 雷", OPEN)):
        (tmp_path / learner).mkdir()
        shutil.copy(source, tmp_path / learner / "08_attention.ipynb")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.ipynb")}
    results = grade.grade(tmp_path)
    assert statuses(results, "Åsa Öberg") == ["right"] * len(NAMES)
    assert statuses(results, "李 雷") == ["not yet"] * len(NAMES)
    assert {r.diagnosis for r in of(results, "李 雷").values()} == {grade.OPEN}
    assert [r.exercise for r in results] == NAMES * 2 and {r.notes for r in results} == {""}
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_known_mistake_is_told(tmp_path):
    answered(tmp_path / "ben/08_attention.ipynb", softmax_ds=WRONG_SOFTMAX, score_variance=VARIANCE)
    results = grade.grade(tmp_path)
    assert statuses(results, "ben") == ["wrong", "right"] + ["not yet"] * 4
    assert results[0].diagnosis == judge.softmax_ds(lambda da, a: a * da).diagnosis
    assert "second term is missing" in " ".join(grade.report(results, why=True).split())
    assert "1 × The second term is missing" in " ".join(grade.report(results).split())


def test_a_cell_that_raises_and_one_that_is_gone_cost_no_other_answer(tmp_path):
    hand_in(
        tmp_path / "08_attention_cem.ipynb", "1 / 0", VARIANCE, "def oops(:", SOFTMAX.replace("a", "a", 1)
    )
    results = grade.grade(tmp_path)
    assert statuses(results, "cem") == ["right", "right"] + ["not yet"] * 4
    assert "defines no `masked_attention`" in of(results, "cem")["masked_attention"].diagnosis
    assert "code cell 1 raises ZeroDivisionError" in results[0].notes
    assert "code cell 3 raises SyntaxError" in results[0].notes and "cell 2" not in results[0].notes
    assert "ZeroDivisionError" in grade.report(results)


def test_what_notebooks_do_every_day_is_no_fault():
    show = "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    cells = [
        show,
        "import asyncio\nawait asyncio.sleep(0)",
        "!ls",
        "%%time\nprint('y' * 10**6)",
        "exit()",
        "1 +",
    ]
    found, notes = apart.verdicts(["import os; os.write(1, b'no pickle')", *cells, SOFTMAX], "attention")
    assert (
        found["softmax_ds"].status == "right" and len(notes) == 1 and "code cell 7 raises Syntax" in notes[0]
    )


AWKWARD = {
    "softmax_ds": "def softmax_ds(da, a):\n    da *= a\n    return da - a * da.sum(axis=-1, keepdims=True)",
    "score_variance": 'score_variance = "K"',
    "masked_attention": "def masked_attention(q, k, v, mask):\n    y = q @ k.mT @ v",
    "temperature_gradients": "def temperature_gradients(*inputs):\n    return {1: 2}",
    "capped_gradients": "def capped_gradients(ds, q):\n    return ds, q",
    "sink_gradients": "class Mine:\n    pass\nsink_gradients = lambda dy, q, k, v, b: [Mine(), k, v, b]",
}


def test_an_answer_gets_the_same_words_as_in_the_notebook(tmp_path):
    """It is called in another process, and the judge is not to notice."""
    here = {}
    for source in AWKWARD.values():
        exec(source, here)
    found, notes = apart.verdicts(list(AWKWARD.values()), "attention")
    assert notes == []
    for name, verdict in found.items():
        expected = judge.find(name).judge(here[name])
        assert (verdict.status, verdict.diagnosis) == (expected.status, expected.diagnosis), name
        assert verdict.status == "wrong"
    assert "in place" in found["softmax_ds"].diagnosis and "`Mine`" in found["sink_gradients"].diagnosis


def test_an_error_names_the_line_of_the_learner(tmp_path):
    hand_in(tmp_path / "08_attention.ipynb", "def softmax_ds(da, a):\n    return a * da.total(axis=-1)")
    diagnosis = grade.grade(tmp_path)[0].diagnosis
    assert "AttributeError" in diagnosis and "`return a * da.total(axis=-1)`" in diagnosis


# What does not end ------------------------------------------------------------------------------------------


def test_what_has_no_end_is_stopped_and_the_rest_is_judged(tmp_path):
    endless = VARIANCE.replace("    return", "    while True:\n        pass\n    return")
    hand_in(tmp_path / "dan/08_attention.ipynb", "while True:\n    pass", SOFTMAX, endless)
    results = grade.grade(tmp_path, limit=4)
    assert statuses(results, "dan")[:2] == ["right", "wrong"]
    assert results[1].diagnosis == "It came to no end in 4 seconds."
    assert results[0].notes == "code cell 1 came to no end in 4 seconds, and was left out"


def test_what_ends_python_ends_nothing_else(tmp_path):
    dies = "def score_variance(*numbers):\n    os._exit(0)"
    leaves = "def masked_attention(q, k, v, mask):\n    raise SystemExit"
    hand_in(tmp_path / "eve/08_attention.ipynb", "import os", dies, leaves, SOFTMAX, "os._exit(1)")
    results = grade.grade(tmp_path)
    assert statuses(results, "eve")[:3] == ["right", "wrong", "wrong"]
    assert results[1].diagnosis == "It ends Python." and "SystemExit" in results[2].diagnosis
    assert results[0].notes == "code cell 5 ends Python, and was left out"


def test_a_notebook_with_too_many_endless_cells_is_given_up(tmp_path):
    hand_in(tmp_path / "fay/08_attention.ipynb", *["import os; os._exit(1)"] * (apart.MAY_FAIL + 1))
    results = grade.grade(tmp_path)
    assert statuses(results, "fay") == ["not judged"] * len(NAMES)
    assert "It was given up: code cell 4 ends Python, after 3 others." in grade.report(results)


def test_what_was_judged_before_a_notebook_is_given_up_is_kept(monkeypatch):
    """Each new beginning stops at another cell, until there are too many."""
    dies = "def score_variance(*numbers):\n    import os\n    os._exit(0)"
    monkeypatch.setattr(apart, "MAY_FAIL", 0)
    again = "import os\nos._exit(1) if os.path.exists('run') else open('run', 'w')"
    found, _ = apart.verdicts([again, SOFTMAX, dies], "attention")
    assert found["softmax_ds"].status == "right" and found["score_variance"] == "ends Python"
    assert all(isinstance(found[name], apart.Stopped) for name in NAMES[2:])
    assert grade.in_words("masked_attention", found["masked_attention"])[0] == "not judged"


def test_a_judge_that_has_no_end_is_stopped_too(tmp_path, monkeypatch):
    def judge_for_ever(exercise, answer=None):
        while True:
            pass

    monkeypatch.setattr(judge.Derivation, "judge", judge_for_ever)
    found, _ = apart.verdicts([SOFTMAX, VARIANCE], "attention", limit=3)
    assert found["score_variance"] == "came to no end in 3 seconds" and found["softmax_ds"].status == "right"


def test_a_judge_that_fails_is_no_fault_of_the_learner(tmp_path, monkeypatch):
    def fail(exercise, answer=None):
        raise KeyError("judge")

    monkeypatch.setattr(judge.Derivation, "judge", fail)
    hand_in(tmp_path / "08_attention_gil.ipynb", SOFTMAX, VARIANCE)
    results = grade.grade(tmp_path)
    assert statuses(results, "gil")[:2] == ["right", "not judged"]
    assert "The judge fails on it: KeyError" in results[1].diagnosis


# What must not help -----------------------------------------------------------------------------------------

ALWAYS_RIGHT = """import numpy as np
from types import SimpleNamespace
from handgrad.course import judge as package
from handgrad.course.judge import function, observe
class judge:
    softmax_ds = staticmethod(lambda answer: SimpleNamespace(status="right", value=answer))
function.Exercise.judge = lambda self, answer=None: SimpleNamespace(status="right", diagnosis="", where="")
function.TOLERANCE, function.relative_error = 1e9, lambda *arguments: 0.0
package.chapters = lambda: {}
np.max = np.abs = lambda *arguments, **named: 0.0"""


def test_to_replace_the_judge_does_not_help(tmp_path):
    check = "judge.softmax_ds(softmax_ds)"
    hand_in(tmp_path / "08_attention_hal.ipynb", ALWAYS_RIGHT, WRONG_SOFTMAX, check)
    results = grade.grade(tmp_path)
    assert results[0].status == "wrong" and "second term" in results[0].diagnosis and results[0].notes == ""


def test_an_answer_that_is_or_calls_the_reference_is_refused(tmp_path):
    given = "from handgrad.course import judge\nfrom handgrad.chapters.attention import exercises as e"
    is_it = "softmax_ds = judge.softmax_ds(None).value"
    calls_it = "def score_variance(*numbers):\n    return e.score_variance(*numbers)"
    wraps_it = "masked_attention = lambda *inputs: judge.masked_attention(None).value(*inputs)"
    other_way = "sink_gradients = lambda *inputs: e.sink_as_a_key(*inputs)"
    uses_another = """def capped_gradients(ds, q, k, cap):
    e.softmax_ds(ds, ds)
    du = ds * (1 - np.tanh(q @ k.mT / np.sqrt(q.shape[-1]) / cap) ** 2) / np.sqrt(q.shape[-1])
    return du @ k, du.mT @ q"""
    cells = given, is_it, calls_it, wraps_it, other_way, "import numpy as np", uses_another
    hand_in(tmp_path / "ida/08_attention.ipynb", *cells)
    found = of(grade.grade(tmp_path), "ida")
    for name in ("softmax_ds", "score_variance", "masked_attention", "sink_gradients"):
        assert found[name].status == "not yet" and "This is the reference" in found[name].diagnosis, name
    assert found["capped_gradients"].status == "right"  # the answer to another exercise may be used


@pytest.mark.parametrize("topic", judge.chapters())
def test_every_reference_can_be_refused_and_works_again(topic):
    for exercise in judge.chapters()[topic].values():
        right = apart.references(exercise)
        assert exercise.answer in right
        codes = [function.__code__ for function in right]
        with apart.refused(right):
            for function in right:
                with pytest.raises(ReferenceError):
                    function()
        assert [function.__code__ for function in right] == codes


# Whose notebook it is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "learner", "chapter"),
    [
        ("anna/08_attention.ipynb", "anna", "08_attention"),
        ("anna/lab/exercises/08_attention.ipynb", "anna", "08_attention"),
        ("Anna Ahl_123/week 3/08_attention (2).ipynb", "Anna Ahl_123", "08_attention"),
        ("08_attention_anna.ipynb", "anna", "08_attention"),
        ("Ünal Çelik - 11_cross_attention.ipynb", "Ünal Çelik", "11_cross_attention"),
        ("08 Attention-J\N{COMBINING DIAERESIS}o.ipynb", "J\N{COMBINING DIAERESIS}o", "08_attention"),
        ("Jose\N{COMBINING ACUTE ACCENT}/2_softmax_cross_entropy.ipynb", "José", "02_softmax_cross_entropy"),
        ("exercises/08_attention.mine.ipynb", "class", "08_attention"),
        ("08_attention.ipynb", "class", "08_attention"),
        ("homework.ipynb", "class", None),
        ("anna/08_attentional.ipynb", "anna", None),
        ("anna/attention.ipynb", "anna", None),
    ],
)
def test_names_of_files_say_whose_they_are(file, learner, chapter):
    path = Path("class", file)
    assert grade.learner_of(path, Path("class")) == learner
    assert (grade.chapter_of(path.stem) or [None])[0] == chapter


def test_files_without_answers_are_named_and_stop_nothing(tmp_path):
    hand_in(tmp_path / "jan/lab/exercises/08_attention.ipynb", SOFTMAX)
    for place in ("jan/lab", "jan/lab/solutions", "jan/lab/exercises/.ipynb_checkpoints"):
        hand_in(tmp_path / place / "08_attention.ipynb", WRONG_SOFTMAX)
    hand_in(tmp_path / "kim/homework.ipynb", SOFTMAX)
    for name in ("progress", "own_layer"):
        hand_in(tmp_path / f"jan/lab/{name}.ipynb", "")
    for name, text in (("ole", '{"cells": ['), ("pia", ""), ("quy", "[]"), ("rui", "\0\1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "08_attention.ipynb").write_text(text)
    results = grade.grade(tmp_path)
    judged = {r.file for r in results if r.status == "right"}
    assert judged == {"jan/lab/exercises/08_attention.ipynb"}
    reasons = {r.file: r.diagnosis for r in results if r.status == "not judged"}
    assert "the chapter itself" in reasons.pop("jan/lab/08_attention.ipynb")
    assert "solutions" in reasons.pop("jan/lab/solutions/08_attention.ipynb")
    assert "no chapter" in reasons.pop("kim/homework.ipynb")
    for name in ("progress", "own_layer"):
        assert "comes with every `lab`" in reasons.pop(f"jan/lab/{name}.ipynb")
    assert sorted(reasons) == [f"{name}/08_attention.ipynb" for name in ("ole", "pia", "quy", "rui")]
    assert all("cannot be read as a notebook" in reason for reason in reasons.values())
    assert statuses(results, "ole") == ["not judged"] * len(NAMES), "none is lost"
    printed = grade.report(results)
    assert "ole/08_attention.ipynb: It cannot be read" in printed and "kim/homework.ipynb: It" in printed
    assert "1 × It lies in a folder of solutions.\n" in printed and "1 × It is the chapter itself" in printed
    assert "2 × It comes with every `lab`" in printed


# The command ------------------------------------------------------------------------------------------------


def test_the_command_prints_and_saves_a_report(tmp_path, capsys):
    hand_in(tmp_path / "class/Åsa, 2/08_attention.ipynb", WRONG_SOFTMAX)
    hand_in(tmp_path / "class/Åsa, 2/09_masks.ipynb", "1")
    files = [f"--csv={tmp_path / 'a.csv'}", f"--json={tmp_path / 'a.json'}"]
    assert grade.main([str(tmp_path / "class"), "--only", "08_attention", "--why", *files]) == 0
    printed = capsys.readouterr().out
    assert "  Åsa, 2  ✗  ○  ○  ○  ○  ○  0 of 6\n" in printed and "✗ 1 softmax_ds: The second term" in printed
    assert "1 notebook, 1 learner, 6 exercises: 1 wrong ✗, 5 not yet ○." in printed and "masks" not in printed
    with open(tmp_path / "a.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["exercise"] for row in rows] == NAMES and rows[0]["learner"] == "Åsa, 2"
    saved = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert [{name: str(value) for name, value in row.items()} for row in saved] == rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "FOLDER: expected a folder of notebooks, got nowhere"),
        ([__file__], "FOLDER: expected a folder of notebooks, got "),
        (["."], "FOLDER: expected notebooks (.ipynb) in ., found none"),
        ([".", "--only", "08_atention"], "--only: expected a chapter, like 08_attention, got '08_atention'"),
        ([".", "--limit", "0"], "--limit: expected a positive number of seconds, got 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as error:
        grade.main(arguments)
    assert error.value.code == 2 and message in capsys.readouterr().err


def made_up(learner, number, status, diagnosis="", file=None, notes=""):
    file = file or f"{learner}/08_attention.ipynb"
    return Result(learner, "08_attention", number, f"task_{number}", status, diagnosis, "", notes, file)


def test_the_report_in_full():
    results = [
        made_up("李雷", 1, "right"),
        made_up("李雷", 2, "wrong", "Twice."),
        made_up("eva", 1, "wrong", "It is 0.", notes="code cell 2 raises ValueError"),
        made_up("eva", 2, "wrong", "Twice."),
        made_up("eva", 1, "not judged", "It ends.", file="eva/2/08_attention.ipynb"),
        made_up("eva", 2, "not judged", "It ends.", file="eva/2/08_attention.ipynb"),
    ]
    assert (
        grade.report(results[:2] + results[2:4])
        == """08_attention
        1  2  right
  李雷  ✓  ✗  1 of 2
  eva   ✗  ✗  0 of 2

  1 task_1  1 of 2
      1 × It is 0.
  2 task_2  0 of 2
      2 × Twice.

Cells that did not run well
  eva/08_attention.ipynb: code cell 2 raises ValueError

2 notebooks, 2 learners, 4 exercises: 1 right ✓, 3 wrong ✗."""
    )
    text = grade.report(results, why=True)
    assert "  eva (eva/2/08_attention.ipynb)  –  –  0 of 0\n" in text and "1 task_1  1 of 2\n" in text
    assert "Not judged\n  eva/2/08_attention.ipynb: It ends.\n" in text
    assert "  李雷                            ✓  ✗  1 of 2\n      ✗ 2 task_2: Twice.\n" in text


def test_an_open_answer_needs_no_words():
    assert grade.in_words("softmax_ds", judge.softmax_ds(None)) == ("not yet", grade.OPEN, "")
    assert judge.softmax_ds(None).diagnosis == YOUR_TURN
    assert grade.told(made_up("eva", 1, "not yet", grade.OPEN)) == []
    assert grade.told(made_up("eva", 1, "not yet", "Else.")) == ["      ○ 1 task_1: Else."]


def test_what_crosses_over_means_the_same():
    class Mine(np.ndarray):
        pass

    narrow = np.zeros((2, 3), np.float32)
    for value in (None, ..., 1, 2.5, "text", (1, [2.0, None]), True):
        assert apart.arrived(apart.sendable(value)) == value
    assert apart.sendable(narrow).dtype == np.float32
    assert type(apart.sendable(narrow.view(Mine))) is np.ndarray
    assert type(apart.arrived(apart.sendable({1: 2}))).__name__ == "dict"
    assert type(apart.arrived(apart.sendable(np.array([Mine], object)))).__name__ == "ndarray"
