"""A learner's own lines are repaired, and what is said of them is true."""

import ast
import re

import numpy as np
import pytest
import score

from handgrad.course import judge
from handgrad.course.judge.repair import repair
from handgrad.course.judge.search import Search

RIGHT = """def softmax_ds(da, a):
    print("a learner looks at something")
    inner = np.einsum("...j,...j->...", da, a)
    return a * (da - inner[..., None])
"""
WRONG = [  # what stands there instead; the kind of mistake that is told
    ("a * (da -", "a * (da +", "A sign is wrong."),
    ("a * (da - inner[..., None])", "a * da - inner[..., None]", "A factor is missing.|Brackets"),
    ("return a * (da", "return (da", "A factor is missing."),
    ("...j,...j->...", "...j,...k->...", "The letters of an einsum are wrong."),
    ("da, a)\n    return", "a, a)\n    return", "One array stands where another should."),
    ("inner[..., None])", "2 * inner[..., None])", "There is a factor too many."),
]


def finding(code, search):
    """What repair says of a wrong softmax_ds."""
    answer = score.answer(code, "softmax_ds")
    return repair(answer, search, [search._results(answer, case) for case in search.cases])


@pytest.fixture(scope="module")
def search():
    return judge.find("softmax_ds").search


def done(code, where):
    """The code with the changes that are told."""
    code = ast.unparse(ast.parse(code))
    for line, pairs in re.findall(r"In your line `(.*?)`: (.*?)\.(?= In your| With)", where):
        new, old = re.match(r"`(.*)` in place of `(.*)`", pairs).groups()
        assert code.count(line) == 1 and old in line
        code = code.replace(line, line.replace(old, new, 1))
    return code


@pytest.mark.parametrize("right, wrong, kind", WRONG)
def test_what_is_told_repairs_the_learners_line(right, wrong, kind, search, capsys):
    assert RIGHT.count(right) == 1
    code = RIGHT.replace(right, wrong)
    found = finding(code, search)
    assert capsys.readouterr().out.count("learner") == len(search.cases)  # of a thousand trials none is heard
    assert re.search(kind, found.kind) and "With this your function is right in all cases." in found.where
    assert finding(done(code, found.where), search) is None
    assert (
        judge.find("softmax_ds").judge(score.answer(done(code, found.where), "softmax_ds")).status == "right"
    )


def test_two_mistakes_are_repaired_together(search):
    wrong = RIGHT.replace("da - inner", "da + inner").replace("return a *", "return 2 * a *")
    found = finding(wrong, search)
    assert found.kind.startswith("Two things.") and found.where.endswith(
        "With these your function is right in all cases."
    )


def test_what_is_right_what_may_never_end_and_what_has_no_source_is_not_repaired(search):
    assert finding(RIGHT, search) is None
    assert (
        finding("def softmax_ds(da, a):\n    while False:\n        pass\n    return a * da", search) is None
    )
    assert repair(min, search, search.right) is None


def test_a_repair_of_one_result_does_not_touch_the_other():
    """Two results, each with its own mistake, and one that is right."""

    def three(x):
        return x + 1, 2 * x, x**2

    cases = judge.find("softmax_ds").cases
    cases = [type(case)(case.name, case.sizes, case.inputs[:1]) for case in cases]
    search = Search((three,), (), cases, ("one", "two", "three"))
    wrong = "def three(x):\n    one = x - 1\n    two = 3 * x\n    return one, two, x**2\n"
    answer = score.answer(wrong, "three")
    found = repair(answer, search, [search._results(answer, case) for case in cases])
    assert "`one = x - 1`" in found.where and "`two = 3 * x`" in found.where


def test_a_sum_over_repeated_places_is_repaired():
    def counted(x):
        table = np.zeros(3)
        np.add.at(table, np.zeros(4, int), x.ravel()[:4])
        return table

    cases = [type(c)(c.name, c.sizes, c.inputs[:1]) for c in judge.find("softmax_ds").cases[1:]]
    search = Search((counted,), (), cases, ("table",), {"np": np})
    wrong = """def counted(x):
    table = np.zeros(3)
    table[np.zeros(4, int)] += x.ravel()[:4]
    return table
"""
    answer = score.answer(wrong, "counted")
    found = repair(answer, search, [search._results(answer, case) for case in cases])
    assert "np.add.at" in found.kind and "`np.add.at(table, np.zeros(4, int), x.ravel()[:4])`" in found.where


def test_a_place_of_slices_is_no_stumbling_block(search):
    code = RIGHT.replace(
        "    return a", "    moved = np.zeros(a.shape)\n    moved[..., 1:] += 0\n    return a"
    )
    found = finding(code.replace("(da - inner", "(da + inner"), search)
    assert found.kind == "A sign is wrong."
