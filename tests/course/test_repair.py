"""A learner's own lines are repaired, or their values compared, and what is said of them is true."""

import ast
import re

import numpy as np
import pytest
import score

from handgrad.course import judge
from handgrad.course.judge import draws, values
from handgrad.course.judge.explain import Explain
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


def given(answer, search):
    """What an answer gives in each case."""
    return [search._results(answer, case) for case in search.cases]


def repaired(code, search):
    """The repair of the function of this name that the search is for."""
    answer = score.answer(code, search.answer.__name__)
    return repair(answer, search, given(answer, search))


def finding(code, search):
    """What one change says of it, or else two; None if there is nothing to mend."""
    own = repaired(code, search)
    with np.errstate(all="ignore"):
        return own and (own.one() or own.two())


def judged(code, name="softmax_ds"):
    return judge.find(name).judge(score.answer(code, name))


def search_of_one(function, outputs, cases):
    """A search whose answer takes the first argument of these cases."""
    cases = [draws.Case(case.name, case.sizes, case.inputs[:1]) for case in cases]
    return Search(function, (), cases, outputs, {"np": np})


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
    assert re.search(kind, found.kind) and "With this your function is right in all cases." in found.where
    assert finding(done(code, found.where), search) is None
    assert judged(done(code, found.where)).status == "right"
    capsys.readouterr()
    judged(code)
    assert capsys.readouterr().out.count("learner") == len(search.cases)  # of a thousand trials none is heard


def test_two_mistakes_are_repaired_together(search):
    wrong = RIGHT.replace("da - inner", "da + inner").replace("return a *", "return 2 * a *")
    found = finding(wrong, search)
    assert found.kind.startswith("Two things are wrong.")
    assert found.where.endswith("With these your function is right in all cases.")


def test_what_is_right_what_may_never_end_and_what_has_no_source_is_not_repaired(search):
    assert finding(RIGHT, search) is None
    assert finding("def softmax_ds(da, a):\n    while False: pass\n    return a * da", search) is None
    assert repair(min, search, search.right) is None


def test_a_repair_of_one_result_does_not_touch_the_other(search):
    """Two results, each with its own mistake, and one that is right."""

    def three(x):
        return x + 1, 2 * x, x**2

    wrong = "def three(x):\n    one = x - 1\n    two = 3 * x\n    return one, two, x**2\n"
    found = finding(wrong, search_of_one(three, ("one", "two", "three"), search.cases))
    assert "`one = x - 1`" in found.where and "`two = 3 * x`" in found.where


def test_a_sum_over_repeated_places_is_repaired(search):
    def counted(x):
        table = np.zeros(3)
        np.add.at(table, np.zeros(4, int), x.ravel()[:4])
        return table

    wrong = """def counted(x):
    table = np.zeros(3)
    table[np.zeros(4, int)] += x.ravel()[:4]
    return table
"""
    found = finding(wrong, search_of_one(counted, ("table",), search.cases[1:]))
    assert "np.add.at" in found.kind and "`np.add.at(table, np.zeros(4, int), x.ravel()[:4])`" in found.where


LOOPED = """def softmax_ds(da, a):
    ds = np.empty_like(a)
    for row in range(len(a)):
        inner = np.zeros(a.shape[1])
        for j in range(a.shape[2]):
            inner += da[row, :, j] * a[row, :, j]
        ds[row] = a[row] * (da[row] - inner[:, None])
    return ds
"""


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [
        ("inner += da", "inner = da", "inner = da[row, :, j] * a[row, :, j]"),
        ("a.shape[2])", "a.shape[2] - 1)", "for j in range(a.shape[2] - 1):"),
        ("inner[:, None]", "inner[:, None][::-1]", "ds[row] = a[row] * (da[row] - inner[:, None][::-1])"),
    ],
)
def test_a_loop_is_mended_in_its_line(right, wrong, line, search):
    assert finding(LOOPED, search) is None and LOOPED.count(right) == 1
    found = finding(LOOPED.replace(right, wrong), search)
    assert f"In your line `{line}`: " in found.where, found


# Values of the right answer ---------------------------------------------------------------------------------


def squashed(x, w, T):
    inner = x @ w
    height = np.tanh(inner)
    slope = 1 - height**2
    return height, slope * x.sum(axis=-1)


@pytest.fixture(scope="module")
def squashing():
    draw = {"x": draws.Draw("B T D", draws.normal), "w": draws.Draw("D", draws.normal)}
    draw |= {"T": draws.Draw("T", lambda rng, shape: shape[0])}
    return Search(squashed, (), draws.cases(draw, {}, 3), ("height", "rate"), {"np": np})


WRONG_VALUE = """def squashed(x, w, T):
    u = np.einsum("btd,d->bt", x, w)
    t = np.tanh(u)
    return t, (np.abs(u) < 1) * x.sum(-1)
"""


def test_one_wrong_value_is_found_by_the_right_one(squashing):
    found = repaired(WRONG_VALUE, squashing).value()
    assert found.kind == "A value is wrong, or what it is made of; what comes after it is right."
    assert found.where.startswith(
        "In your line `return (t, (np.abs(u) < 1) * x.sum(-1))`: `np.abs(u) < 1` has a wrong value."
    )
    assert repaired(WRONG_VALUE.replace("x.sum(-1)", "x.mean(-1)"), squashing).value() is None


def test_a_value_that_is_right_is_never_said_to_be_wrong():
    """Projected twice is projected once: another value in the place of `du` would make this right."""
    wrong = """def qk_norm_backward(ds, q, k, g):
    nq, nk = (np.sqrt((x**2).sum(-1, keepdims=True)) for x in (q, k))
    u, w = q / nq, k / nk
    du = g * np.einsum("bts,bsk->btk", ds, w)
    dw = g * np.einsum("bts,btk->bsk", ds, u)
    dq = (du - q * (du * u).mean(-1, keepdims=True)) / nq
    dk = (dw - w * (dw * w).sum(-1, keepdims=True)) / nk
    return dq, dk, np.einsum("bts,btk,bsk->", ds, u, w)
"""
    verdict = judged(wrong, "qk_norm_backward")
    assert "In your line `dq = " in verdict.where and "`du = " not in verdict.where, verdict.where


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        ("-(1 - t) * x.sum(-1)", "Once this is mended, `rate` is the right answer with the opposite sign."),
        ("(1 - t**3) * x.mean(-1)", "Once this is mended, `rate` is 1/D times the right answer."),
    ],
)
def test_a_change_may_leave_a_factor(rate, said, squashing):
    code = WRONG_VALUE.replace("(np.abs(u) < 1) * x.sum(-1)", rate)
    found = repaired(code, squashing)
    with np.errstate(all="ignore"):
        assert found.one() is None
        told = found.but_a_factor()
    assert (
        re.match("Two things are wrong. A (factor is missing|power or a root is wrong).", told.kind)
        and said in told.kind
    )
    assert told.where.startswith("In your line `return (t, ")


def test_variables_that_are_right_are_known_by_their_numbers(squashing):
    program = repaired(WRONG_VALUE, squashing).program
    assert values.right_variables(program, squashing) == {"u": "inner", "t": "height"}
    assert [ast.unparse(line)[0] for line in values.right_lines(program, ["u", "t"])] == ["u", "t"]


@pytest.mark.parametrize(
    ("height", "said"),
    [
        ("3 * x @ w", "three times a value that comes up on the way."),
        ("np.tanh(x @ w) - x.mean(-1)", "the right one minus the mean of `x` over axis 2."),
        ("np.tanh(x @ w) * x.sum(-1)", "the right one times the sum of `x` over axis 2."),
        ("np.tanh(x @ w) / x.sum(-1)", "the right one divided by the sum of `x` over axis 2."),
        ("np.tanh(x @ w) + T * x.sum(-1)", "the right one plus T times the sum of `x` over axis 2."),
        ("np.sin(7 * x @ w)", None),
        ("np.tanh(x @ w) + 0.37 * x.sum(-1)", None),
        ("np.zeros(3)", None),
    ],
)
def test_a_wrong_result_is_explained_by_right_values_or_left_alone(height, said, squashing):
    code = f"def squashed(x, w, T):\n    return {height}, (1 - np.tanh(x @ w)**2) * x.sum(-1)"
    found = Explain(squashing, given(score.answer(code, "squashed"), squashing)).all()
    where = "That is `inner` of the right answer." if said and "on the way" in said else ""
    assert found == said or (found.kind, found.where) == (f"Your `height` is {said}", where)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("2.0 * D * right", "Your `ds` is 2 · S times the right one."),
        ("-right * (a > 0.2)", "Your `ds` is 0 where the right one is not 0; elsewhere it is minus"),
        ("right + 5 * (right == 0)", "Your `ds` is not 0 where the right one is 0; elsewhere it is the"),
        ("a * da - 0.3 * a", None),
    ],
)
def test_a_result_is_the_right_one_or_its_entries_with_factors(code, kind, search):
    code = code.replace("D", "a.shape[-1]")
    right = "    right = a * (da - (a * da).sum(-1, keepdims=True))"
    answer = score.answer(f"def softmax_ds(da, a):\n{right}\n    return {code}", "softmax_ds")
    found = Explain(search, given(answer, search)).all()
    assert found == kind or found.kind.startswith(kind)


def test_a_second_change_may_follow_one_that_brings_the_right_values_nearer(search):
    wrong = """def softmax_ds(da, a):
    inner = da.sum(-1, keepdims=True)
    return a * (da + inner)
"""
    own = repaired(wrong, search)
    with np.errstate(all="ignore"):
        assert own.one() is None and own.two() is None
        found = own.further()
    assert found.kind == "Two things are wrong. A factor is missing. A sign is wrong."
    lines = re.findall(r"In your line `(.*?)`: it should be `(.*?)`\.", found.where)
    for old, new in lines:
        assert ast.unparse(ast.parse(wrong)).count(old) == 1
        wrong = ast.unparse(ast.parse(wrong)).replace(old, new)
    assert len(lines) == 2 and judged(wrong).status == "right"


@pytest.mark.parametrize(
    ("code", "harmless"),
    [
        ("np.exp(x - x.max(-1)) @ w.T[..., None]", True),
        ("len(x) * np.einsum('ij->', x.reshape(-1, 3))", True),
        ("seen.append(x)", False),
        ("np.add.at(x, i, y)", False),
        ("np.random.normal()", False),
        ("x.sort()", False),
        ("np.exp(x, out=x)", False),
        ("np.exp(exit())", False),
        ("mine(x)", False),
        ("(x := 3)", False),
    ],
)
def test_an_expression_is_evaluated_again_only_if_nothing_happens_then(code, harmless):
    assert values.is_harmless(ast.parse(code, mode="eval").body) is harmless


def search_over_rows(code):
    """The search of a code whose sums run over axis 1, and should over the last one."""
    right = score.answer(code.replace("(1,", "(-1,"), "softmax_ds")
    return Search(right, (), judge.find("softmax_ds").cases, ("ds",))


def test_every_place_that_changes_is_named():
    wrong = """def softmax_ds(da, a):
    first = (a * da).sum(1, keepdims=True)
    second = a * a.sum(1, keepdims=True)
    return a * da - second * first
"""
    found = finding(wrong, search_over_rows(wrong))
    for line in ("first = (a * da).sum(1, keepdims=True)", "second = a * a.sum(1, keepdims=True)"):
        assert f"In your line `{line}`: " in found.where and f"In your line `{line}`, at" in found.line
    assert done(wrong, found.where).count("(-1, keepdims") == 2, found


def test_the_same_change_twice_in_a_line_is_counted():
    wrong = """def softmax_ds(da, a):
    return a * da - (a * da).sum(1, keepdims=True) * a.sum(1, keepdims=True)
"""
    found = finding(wrong, search_over_rows(wrong))
    assert found.where.startswith("In your line `return ") and "`-1` in place of `1`, 2 times" in found.where


HABITS = [  # a wrong line in each of two places, what it should be, what is told
    ("d.sum(-1, keepdims=True)", "d.mean(-1, keepdims=True)", "A mean stands where a sum should"),
    ("d.mean(1, keepdims=True)", "d.mean(-1, keepdims=True)", "A sum or mean runs over the wrong axis."),
    ("d.sum(-1, keepdims=True) / d.shape[1]", "d.sum(-1, keepdims=True) / d.shape[-1]", "A size is wrong"),
    ("d.sum(-1, keepdims=True) / (D - 1)", "d.sum(-1, keepdims=True) / D", "A number is wrong."),
]


@pytest.mark.parametrize("wrong, right, kind", HABITS)
def test_what_somebody_does_at_two_places_is_told_at_both(wrong, right, kind):
    code = """def layer_norm_dx(dy, y, gamma, beta, r):
    hat = (y - beta) / gamma
    d = gamma * dy
    D = len(gamma)
    m = {}
    c = {}
    return r * (d - m - hat * c)
"""
    code = code.format(wrong, wrong.replace("d.", "(d * hat).", 1))
    verdict = judged(code, "layer_norm_dx")
    assert verdict.diagnosis.startswith(kind), verdict
    for line in ("m", "c"):
        assert f"In your line `{line} = " in verdict.line and f"In your line `{line} = " in verdict.where
    mended = done(code, verdict.where)
    assert judged(mended, "layer_norm_dx").status == "right", mended


@pytest.mark.parametrize(
    "code",
    [
        "*n, S = da.shape\n    d = da.reshape(*n, S)\n    return a * (d + (a * d).sum(-1, keepdims=True))",
        "s = np.zeros(a.shape)\n    s[..., 1:] += 0\n    return a * (da + (a * da).sum(-1, keepdims=True))",
        "how = dict(axis=-1, keepdims=True)\n    return a * (da + np.sum(a * da, **how))",
        "f'{da.ndim:.3f}'\n    return np.array([y * (x + [*zip(x, y)][0][0]) for x, y in zip(da, a)])",
    ],
)
def test_stars_slices_options_and_texts_are_no_pieces_of_a_repair(code):
    verdict = judged(f"def softmax_ds(da, a):\n    {code}")
    assert verdict.status == "wrong" and "search for the mistake failed" not in verdict.diagnosis


def test_what_is_printed_has_the_brackets_that_it_needs(search):
    wrong = "def softmax_ds(da, a):\n    mean = (a * da).sum(-1, keepdims=True)\n    return a * da"
    found = finding(wrong, search)
    mended = done(wrong, found.where)
    assert "(da - mean)" in mended or "a * da - " in mended, found
    assert judged(mended).status == "right"


def test_a_search_that_fails_is_said_to_have_failed(monkeypatch):
    def fails(*_):
        raise ZeroDivisionError("of the search")

    monkeypatch.setattr("handgrad.course.judge.function.diagnose", fails)
    said = judged("def softmax_ds(da, a): return a * da").diagnosis
    assert said.endswith("The search for the mistake failed, by ZeroDivisionError: of the search.")


@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        ("d.max(-1)", "d.mean(-1)", "A sum, a mean, a maximum or a minimum stands where another of them"),
        ("range(len(d))", "range(1, len(d))", "A number is wrong."),
        ("d[n, n:]", "d[n, :n]", "A slice begins or ends at the wrong place."),
        ("top[n] * e[n]", "top[0] * e[n]", "A number stands as index where that of the loop should."),
        ("min(len(d), 9)", "max(len(d), 9)", "A function is missing, or another one should stand there."),
        ("v.T", "v.reshape(v.shape[::-1])", "`reshape` keeps the order of the numbers; a transpose changes"),
        ("x / len(seen)", "x / len(ids)", "One array stands where another should."),
        (
            "y = y + d[n]\n        out.append(y)",
            "out.append(y)\n        y = y + d[n]",
            "Two lines stand in the wrong order.",
        ),
    ],
)
def test_a_change_is_undone_in_the_learners_line(right, wrong, kind):
    code = """def many(d):
    e, v, top, y, out, rows = d[0], d[:2], d.max(-1), d[0], [], []
    ids = np.arange(len(d))
    seen = ids[ids > 0]
    for n in range(len(d)):
        y = y + d[n]
        out.append(y)
        rows.append(d[n, n:].sum() + top[n] * e[n])
    x = np.repeat(v, 2) * min(len(d), 9)
    return np.array(out), np.array(rows), x / len(seen), v.T + 0
"""
    code = code if right in code else code.replace("d.max(-1), d[0]", f"{right}, d[0]")
    rng = np.random.default_rng(0)
    cases = [draws.Case(str(n), {}, (rng.normal(size=(n, 7)),)) for n in (5, 4, 6)]
    search = Search(score.answer(code, "many"), (), cases, ("out", "rows", "x", "turned"), {"np": np})
    found = repaired(code.replace(right, wrong), search).one()
    assert kind in found.kind, found
    assert found.where.endswith("With this your function is right in all cases."), found


def test_a_value_may_be_a_number_or_of_each_round_of_a_loop(search):
    def mean(x):
        total = np.abs(x).sum()
        row = x.max(axis=(1, 2))
        return x / total * row[:, None, None]

    search = search_of_one(mean, ("y",), search.cases)
    for wrong, place in (("row[b]", "x[b].sum() ** 3"), ("total", "np.sum(x ** 4)")):
        code = """def mean(x):
    y = np.zeros(x.shape)
    row = x.max(axis=(1, 2))
    total = np.abs(x).sum()
    for b in range(len(x)):
        y[b] = x[b] / (total) * (row[b])
    return y
""".replace(f"({wrong})", f"({place})")
        found = repaired(code, search).value()
        assert "has a wrong value. With the right value there" in found.where
        assert place in found.line, found


def test_a_line_that_makes_a_wrong_result_of_right_values_is_named(squashing):
    code = WRONG_VALUE.replace("return t, (np.abs(u) < 1) * x.sum(-1)", "r = np.sin(t) ** 3\n    return t, r")
    found = repaired(code, squashing).line()
    assert found.where == "In your line `r = np.sin(t) ** 3`: `t` is right, and its result is not."
    twice = code.replace("t = np", "also = np.tanh(u)\n    t = np").replace("sin(t)", "sin(t + also)")
    assert repaired(twice, squashing).line() is None  # one of the two may have another task
    assert repaired(code.replace("np.einsum", "2 * np.einsum"), squashing).line() is None


def test_a_change_that_mends_a_part_is_told_and_said_to_be_a_part(search):
    wrong = """def softmax_ds(da, a):
    first = np.sin(np.floor(9 * da).sum(-1, keepdims=True))
    return np.concatenate([first, (a * (da + (a * da).sum(-1, keepdims=True)))[..., 1:]], axis=-1)
"""
    own = repaired(wrong, search)
    with np.errstate(all="ignore"):
        assert own.one() is None and own.further() is None
        found = own.nearly()
        assert "though not all" in found.kind and "in place of `da + (a * da)" in found.where, found
        own = repaired(wrong.replace("da +", "np.cos(da) *"), search)
        assert own.one() is None and own.nearly() is None


def test_a_result_that_is_wrong_at_one_end_of_an_axis_is_said_to_be_so():
    code = """def softmax_ds(da, a):
    ds = a * (da - (a * da).sum(-1, keepdims=True))
    ds[..., AT] = np.sin(da[..., AT]) ** 3
    return ds
"""
    for at in ("0", "-1"):
        assert f"ds is wrong in axis 2, at {at} only." in judged(code.replace("AT", at)).diagnosis
    assert " only." not in judged(code.replace("AT", ":2")).diagnosis
