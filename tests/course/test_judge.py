"""The judge: right answers are accepted, and wrong ones refused with words of their own."""

import dataclasses
import functools
import re
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
import sympy
from sympy import I, Matrix, Symbol, symbols

from handgrad.course import judge
from handgrad.course.judge.attempt import an_axis_is_missing
from handgrad.course.judge.derivation import Derivation
from handgrad.course.judge.draws import (
    SIZES,
    Draw,
    cases,
    mask,
    normal,
    number,
    repeating,
    scales,
    then,
    times,
)
from handgrad.course.judge.function import Exercise
from handgrad.course.judge.observe import name_factor, told_apart
from handgrad.course.judge.search import Idea
from handgrad.course.judge.verdict import Verdict

ROOT = Path(__file__).parents[2]
CHAPTERS = judge.chapters()
EVERY = [exercise for chapter in CHAPTERS.values() for exercise in chapter.values()]
FUNCTIONS = [exercise for exercise in EVERY if isinstance(exercise, Exercise)]
by_name = pytest.mark.parametrize("exercise", EVERY, ids=lambda exercise: exercise.name)


def wrapped(answer):
    """The same answer as another function: the reference itself is refused."""
    return lambda *arguments: answer(*arguments)


def as_answer(exercise, program):
    """A idea's program as a learner would write it; its formulas speak SymPy."""
    if isinstance(exercise, Derivation):
        program.names |= {name: getattr(sympy, name) for name in ("sqrt", "exp", "log")}
    return program.function()


# Every exercise of the book ---------------------------------------------------------------------------------


@by_name
def test_the_answer_is_right(exercise):
    verdict = exercise.judge(wrapped(exercise.answer))
    assert verdict.status == "right", verdict


@by_name
def test_there_are_hints_and_each_idea_is_refused_in_its_own_words(exercise):
    assert len(exercise.hints) >= 2
    assert len({idea.words for idea in exercise.ideas}) == len(exercise.ideas) <= 3
    for idea, program, _ in exercise.search.known:
        verdict = exercise.judge(as_answer(exercise, program))
        assert verdict.status == "wrong" and verdict.diagnosis.startswith(idea.words), (idea.words, verdict)
        assert verdict.where == "" or verdict.where.startswith("In your line"), verdict.where


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.name)
def test_no_case_is_vacuous(exercise):
    """Each case expects finite numbers, not all 0, and is the same every time; the cases differ.

    In one case a result may be 0, as the gradient of a frequency at position 0 alone; all of them only if the
    case has words of its own.
    """
    nonzero = [[np.any(array) for array in run.arrays.values()] for run in exercise.expected]
    assert np.sum(nonzero, axis=0).min() >= len(nonzero) - 1
    assert all(any(n) or case.name in exercise.only for case, n in zip(exercise.cases, nonzero))
    for run in exercise.expected:
        assert all(np.all(np.isfinite(array)) and array.dtype.kind in "fbi" for array in run.arrays.values())
    again = dataclasses.replace(exercise).cases
    for one, other in zip(exercise.cases, again):
        assert all(np.array_equal(a, b) for a, b in zip(one.inputs, other.inputs))
    sizes = [case.sizes for case in exercise.cases]
    assert any(size.get("B", 2) > 1 for size in sizes)  # where there is a batch
    assert all(len({size[letter] for size in sizes}) > 1 for letter in sizes[0])


@by_name
def test_an_open_exercise_is_not_yet(exercise):
    def raises(*arguments):
        raise NotImplementedError("your turn")

    def dots(*arguments): ...

    stubs = [None, ..., raises, lambda *arguments: ...]
    if isinstance(exercise, Exercise):  # a formula that is None is told so
        stubs += [dots, lambda *arguments: arguments[0] * ...]
    for stub in stubs:
        verdict = exercise.judge(stub)
        assert verdict.status == "not yet", (stub, verdict)
        assert verdict.value is exercise.answer
    assert exercise.judge().status == "not yet"
    handed_on = exercise.judge(verdict.value)  # by an untouched exercise; it would be called right
    assert handed_on.status == "not yet" and "reference" in handed_on.diagnosis


def test_an_answer_that_needs_an_open_one_says_which():
    def masked_attention(q, k, v, mask):
        raise NotImplementedError("your turn")

    def sink_gradients(dy, q, k, v, sink):
        return masked_attention(q, k, v, None)

    verdict = judge.sink_gradients(sink_gradients)
    assert verdict.status == "not yet" and "`right_masked_attention`" in verdict.diagnosis


# A small exercise: what is found, and what is only observed -------------------------------------------------


def centre(x, w):
    weighted = w * x
    mean = weighted.mean(axis=-1, keepdims=True)
    return x - mean, weighted.sum(axis=(0, 1))


IDEAS = (
    Idea("The mean is added.", {"x - mean": "x + mean"}),
    Idea("Nothing is weighted.", {"weighted = w * x": "weighted = x"}),
)
SMALL = Exercise(
    centre,
    asks="Centring a batch.",
    outputs=("y", "s"),
    inputs={"x": Draw("B T D", repeating), "w": Draw("D", scales)},
    ideas=IDEAS,
    hints=("one", "two"),
    special={"large": {"x": Draw("B T D", times(1e6, repeating))}},
    only={"large": "It is the size."},
)


def test_a_story_that_does_not_fit_the_answer_is_refused():
    wrong = dataclasses.replace(SMALL, ideas=(Idea("Nothing.", {"y - mean": "y"}),))
    with pytest.raises(ValueError, match="'Nothing.': expected 'y - mean' in the answer centre"):
        wrong.judge(lambda x, w: (x, x.sum((0, 1))))


def returned(x, w, s_too=True):
    weighted = w * x
    return x - weighted.mean(axis=-1, keepdims=True), weighted.sum(axis=(0, 1))


def forgets(x, w):
    returned(x, w)


def in_place(x, w):
    x *= 2
    return returned(x / 2, w)


def helped(x, w):
    return helper(x), w


def helper(x):
    return x / "sigma"


def right_transpose(x, w):
    table = np.ones((3, 5))
    return x @ table.T, w


def leaves(x, w):
    sys.exit("done")


def keeps_by_shape():
    kept = {}
    return lambda x, w: kept.setdefault(x.shape, returned(x, w))


def keeps_a_buffer():
    buffers = {}

    def answer(x, w):
        y, s = returned(x, w)
        buffer = buffers.setdefault(y.shape, np.empty_like(y))
        buffer[...] = y
        return buffer, s

    return answer


AS = "With this mistake the right answer gives what yours does: "
"""Before what is known of an edit of the right answer, and not of the learner's."""
FOUND = [
    (
        lambda x, w: (x + (w * x).mean(-1, keepdims=True), (w * x).sum((0, 1))),
        "^The mean is added. s is right.",
        "^$",
    ),
    (
        lambda x, w: (x - (w * x).mean(-1, keepdims=True), x.sum((0, 1))),
        f"^{AS}One array stands where another should. y is right.",
        "^In `s`: `x` stands where `weighted` should",
    ),
    (
        lambda x, w: (x + (w * x).mean(-1, keepdims=True), x.sum((0, 1))),
        f"^{AS}y: The mean is added. s: A factor is missing.$",
        "^In `weighted`: the factor `w` is missing",
    ),
    (
        lambda x, w: (x - (w * x).sum(-1, keepdims=True), (w * x).sum((0, 1))),
        f"^{AS}A mean stands where a sum should, or the other way round. s is right.$",
        "^In `mean`: a sum stands where a mean should",
    ),
    (
        lambda x, w: (x - (w * x).sum(-1, keepdims=True) / 2, (w * x).sum((0, 1))),
        "^With these two mistakes the right answer gives what yours does: A mean stands where a sum should",
        "^In `mean`: a sum stands where a mean should",
    ),
    (
        lambda x, w: (x - (w * x).mean(-1, keepdims=True), (w * x).sum(0)),
        f"^{AS}A sum or mean runs over the wrong axis. y is right.",
        "axis 0, not over axis",
    ),
    (lambda x, w: returned(x, w)[::-1], "wrong order", ""),
]


def on_y(change):
    return lambda x, w: (change(returned(x, w)[0]), returned(x, w)[1])


OBSERVED = [
    (forgets, r"returns None.*return"),
    (in_place, r"changes its argument `x` in place"),
    (lambda x, w: (x / "sigma", w), r"TypeError"),
    (helped, r"TypeError: .*\(in `helper`: `return x / \"sigma\"`\)"),
    (lambda x, w: (x @ x.T, w), r"ValueError.*`\.mT` transposes the last two"),
    (right_transpose, r"^(?!.*\.mT).*matmul"),  # it has no batch
    (leaves, r'It raises SystemExit: done \(in `leaves`: `sys.exit\("done"\)`\).*ends Python'),
    (keeps_by_shape(), r"from one call to the next"),
    (keeps_a_buffer(), r"from one call to the next"),
    (lambda x, w: (x - x.sum(-1) - x.max(-1), w), r"ValueError.*`keepdims=True`"),
    (on_y(lambda y: y.astype(np.float32)), r"result is float32"),
    (on_y(lambda y: y.astype(np.float32).astype(float)), r"agrees to about \d digits only"),
    (on_y(lambda y: y + 1e-6), r"agrees to about \d digits only"),  # and not "exactly 1 times"
    (on_y(lambda y: y[:0]), r"has shape \(0, 1, 4\), expected \(1, 1, 4\)"),
    (on_y(lambda y: np.array([])), r"has shape \(0,\), expected \(1, 1, 4\)"),
    (on_y(lambda y: y[:, None]), r"has shape \(1, 1, 1, 4\), expected \(1, 1, 4\).*axis of length 1"),
    (on_y(lambda y: y.reshape(len(y), -1)), r"has shape .*The numbers are right: axes are merged"),
    (on_y(lambda y: y[0]), r"has shape \(1, 4\), expected \(1, 1, 4\), in the case “one sequence”\. s is"),
    (on_y(lambda y: 0 * y), r"0 everywhere, and"),
    (on_y(lambda y: 1e-17 * y), r"0 everywhere, up to rounding"),
    (on_y(lambda y: 1.0000001 * y), r"exactly 1.0000001 times"),
    (on_y(lambda y: 7 * y * y.shape[-1]), r"not by a mistake known here"),
    (on_y(lambda y: np.full_like(y, np.nan)), r"contains NaN"),
    (on_y(lambda y: y + 1j), r"real numbers.*complex128"),
    (on_y(lambda y: "y"), r"array of real numbers.*`str`"),
    (on_y(lambda y: y * Symbol("D")), r"array of real numbers.*holds an? `.*is one of your names a symbol"),
    (on_y(lambda y: {"y": y}), r"array of real numbers.*`dict`"),
    (on_y(lambda y: (y,)), r"^y stands in a tuple of one: is there a comma behind it\?$"),
    (on_y(lambda y: y * np.arange(1, y.shape[-1] + 1)), r"not by a mistake known here.*index \(0, 0, \d\)"),
    (on_y(lambda y: y if len(y) < 4 else y + 7), r"Wrong only in “few positions”"),
    (on_y(lambda y: y if len(y) > 3 else y + 7), r"Right only in “few positions”"),
    (on_y(lambda y: y if abs(y).max() < 1e3 else 1.001 * y), r"Wrong only in “large”. It is the size."),
    (
        lambda x, w: (x + np.sin(7 * x), x.sum((0, 1)) + 1),
        r"^Your result does not depend on `w`, and it should.",
    ),
    (lambda x: x, r"called as `centre\(x, w\)`; your function does not take 2 arguments"),
    (np.ones(3), r"Expected a function, got a `ndarray`"),
    (on_y(lambda y: y if len(y) < 4 else y @ y), r"Wrong only in.*ValueError"),
    (lambda x, w: x, r"Expected 2 values, \(y, s\), got a `ndarray`"),
    (on_y(lambda y: np.stack([y / 3, 2 * y / 3])), r"has shape \(2, 1, 1, 4\).*Summed over the axes"),
]


def test_an_exception_is_an_outcome_of_its_own():
    verdict = SMALL.judge(helped)
    assert verdict.status == "wrong" and repr(verdict).startswith("✗ centre: raises an error")
    assert "Raises an error</strong>" in verdict._repr_html_()
    assert "Wrong</strong>" in SMALL.judge(forgets)._repr_html_()


def stub(x, w, times):
    raise NotImplementedError("your turn")


@pytest.mark.parametrize("answer", [functools.partial(stub, times=2), lambda x, w: (x, ...)])
def test_an_answer_without_a_name_or_with_one_open_value_is_not_yet(answer):
    assert SMALL.judge(answer).status == "not yet"


def test_the_tolerance_is_felt_from_both_sides():
    assert SMALL.judge(on_y(lambda y: y * (1 + 1e-12))).status == "right"
    assert SMALL.judge(on_y(lambda y: y * (1 + 1e-7))).status == "wrong"


def test_central_differences_are_no_gradient():
    def softmax_ds(da, a):
        z, h, ds = np.log(a), 1e-5, np.zeros_like(a)
        for place in np.ndindex(a.shape):
            step = np.zeros_like(a)
            step[place] = h
            up, down = (np.exp(z + s) / np.exp(z + s).sum(-1, keepdims=True) for s in (step, -step))
            ds[place] = (da * (up - down)).sum() / (2 * h)
        return ds

    exercise = dataclasses.replace(judge.find("softmax_ds"), inputs=POSITIVE)
    verdict = exercise.judge(softmax_ds)
    assert verdict.status == "wrong" and "by differences" in verdict.diagnosis


POSITIVE = {
    "da": Draw("B T S", normal),
    "a": Draw("B T S", then(normal, lambda z: np.exp(z) / np.exp(z).sum(-1)[..., None])),
}


@pytest.mark.parametrize(
    "factors, said",
    [
        ([3, 3], "three times the right answer"),
        ([3, 4], "K times the right answer"),
        ([-1, -1], "the right answer with the opposite sign"),
        ([3, 5], None),
        ([1 + 1e-9, 1], None),
        ([1.0000001] * 2, "1.0000001 times the right answer"),
        ([2.0000001] * 2, "2.0000001 times the right answer"),
        ([5 + 1e-13] * 2, "5 times the right answer"),
    ],
)
def test_a_factor_is_named_only_if_it_is_sure_and_with_all_its_digits(factors, said):
    assert name_factor(factors, [{"K": 3}, {"K": 4}]) == said


def test_two_numbers_that_differ_read_differently():
    assert told_apart(-1.4924, -1.4924 - 1e-9) == ("-1.4924", "-1.492400001")
    assert told_apart(-0.0, 0.25) == ("0", "0.25")
    assert told_apart(2.0, 2.0) == ("2", "2")


def test_the_draws_are_what_their_names_say():
    rng, sizes = np.random.default_rng(0), SIZES["a batch"]
    x = Draw("B T D", repeating)(rng, sizes)
    assert x.shape == (3, 4, 5) and np.array_equal(x[:, 0], x[:, -1])
    assert Draw("B H*K", normal)(rng, sizes).shape == (3, 6) and np.all(Draw("D", scales)(rng, sizes) != 1)
    seen = Draw("B T S", mask)(rng, sizes)
    assert seen.dtype == bool and seen[..., :2].all() and not seen[0, 0, 2:].any() and seen[1:, :, 2:].any()
    twos = {"twos": {"x": Draw("B D", then(normal, lambda x: 0 * x + 2))}}
    drawn, others = (
        cases({"x": Draw("B D", normal), "n": Draw("", number(3))}, twos, seed) for seed in (7, 8)
    )
    assert not np.array_equal(drawn[0].inputs[0], others[0].inputs[0])
    assert [case.name for case in drawn] == [*SIZES, "twos"]
    assert all(set(case.sizes) == {"B", "D"} and case.inputs[1] == 3 for case in drawn)
    assert np.all(drawn[-1].inputs[0] == 2)


# A small derivation -----------------------------------------------------------------------------------------


def slope(x, a, D):
    return 3 * a * x**2 / D


CURVE = Derivation(
    slope,
    asks="The slope of a cubic.",
    domains={"x": "real", "a": "positive", "D": "count"},
    ideas=(Idea("This is the function, not its slope.", {"3 * a * x**2": "a * x**3"}),),
    hints=("one", "two"),
)
x, a, D = symbols("x a D")


@pytest.mark.parametrize(
    "answer",
    [
        lambda x, a, D: a * x * x * 3 / D,
        3 * a * x**2 / D,
        sympy.Derivative(a * x**3 / D, x),
        3.0 * a * x**2 / D,
    ],
)
def test_an_equal_formula_is_accepted(answer):
    verdict = CURVE.judge(answer)
    assert verdict.status == "right", verdict
    assert verdict.value(1, 2, 3) == 2


FORMULAS = [
    (lambda x, a, D: a * x**3 / D, "^This is the function, not its slope.$", "^$"),
    (lambda x, a, D: a * x**2 / D, f"{AS}A factor is missing.", "the factor `3` is missing"),
    (3 * a * x / D, f"{AS}A power or a root is wrong.", "has the power 1, not 2"),
    (
        3 * a * x**2,
        f"^It does not depend on `D`, and it should. {AS}A div",
        "the division by `D` is missing",
    ),
    (3 * a * x**2 * D, f"{AS}Something is multiplied where it should be divided", "`D` multiplies"),
    (
        2 * x * a / D,
        "With these two mistakes the right answer gives",
        "2 stands where 3 should.* the power 1",
    ),
    (7.5 * a * x**2 / D, "exactly 2.5 times", "^$"),
    (2 * (x - Symbol("y")) / Symbol("n"), r"contains `n` and `y`.*in `x`, `a` and `D`", "^$"),
    (sympy.sin(x), r"does not depend on `D` and `a`", "^$"),
    (x / (D - D), r"no real value|no number", "^$"),
    (x * I, r"no real value", "^$"),
    (sympy.Integer(0), r"It is 0", "^$"),
    (sympy.Function("f")(x), r"no number as its value.*f\(", "^$"),
    ("3*a*x**2/D", r"got text: leave out the quotes", "^$"),
    (Matrix([x]), r"Expected one formula", "^$"),
    (np.ones(2), r"Expected one formula.*`ndarray`", "^$"),
    (sympy.Eq(x, a), r"Expected one formula", "^$"),
    (lambda x, a, D: np.sqrt(x), r"TypeError.*use `sqrt`, `exp`, `log` of SymPy", "^$"),
    (lambda x, a, D: sum(range(D)), r"TypeError.*It takes no symbols.*no `range`", "^$"),
    (lambda x, a, D: None, r"returns None", "^$"),
    (lambda x, a, D: sys.exit(), r"SystemExit", "^$"),
    (lambda x: x, r"TypeError.*takes 1 positional argument", "^$"),
    (sympy.exp(a * x) + D, r"not by a mistake known here", "^$"),
]


REFUSED = [(SMALL, *row) for row in FOUND] + [(SMALL, *row, "") for row in OBSERVED]
REFUSED += [(CURVE, *row) for row in FORMULAS]


@pytest.mark.parametrize("exercise, answer, kind, where", REFUSED, ids=range(len(REFUSED)))
def test_a_mistake_is_found_or_described_and_its_place_told_on_request(exercise, answer, kind, where):
    verdict = exercise.judge(answer)
    assert verdict.status == "wrong"
    assert re.search(kind, verdict.diagnosis), verdict.diagnosis
    assert re.search(where, verdict.where), verdict.where
    assert verdict.where == "" or verdict.where not in verdict.diagnosis
    assert verdict.value is exercise.answer


def test_a_delta_tells_where_a_formula_is_right():
    def off_diagonal(delta, x):
        return delta * x + x**2

    entry = Derivation(off_diagonal, {"delta": "delta", "x": "real"}, ideas=(), hints=(), asks="A delta.")
    assert "right where delta = 0" in entry.judge(lambda delta, x: delta * 9 * x**7 + x**2).diagnosis


# What the learner sees --------------------------------------------------------------------------------------


def test_the_verdict_in_html():
    wrong = SMALL.judge(FOUND[3][0])._repr_html_()
    assert wrong.startswith("<div") and "✗" in wrong and "Wrong" in wrong
    assert "Where is it?</summary>" in wrong and wrong.index("<details") < wrong.index("In <code")
    assert "Hint 1 of 2" in wrong and '<th scope="col"' in wrong and '<th scope="row"' in wrong
    right = SMALL.judge(returned)._repr_html_()
    assert "✓" in right and "Right" in right and "Hint" not in right and "Where" not in right
    assert "Not yet" in SMALL.judge()._repr_html_()


def test_the_html_is_escaped():
    assert "IndexError" in SMALL.judge(lambda x, w: [][0])._repr_html_()
    assert "<b>" not in Verdict("x", "wrong", "<b> `a<b`", None)._repr_html_()
    assert ">a&lt;b</code>" in Verdict("x", "wrong", "<b> `a<b`", None)._repr_html_()


def test_the_verdict_in_text():
    text = repr(SMALL.judge(FOUND[3][0]))
    assert text.startswith(f"✗ centre: wrong\n  {AS}A mean stands where a sum should")
    assert 'judge.hint("centre")' in text and "print(verdict.where)" in text
    assert "a sum stands where a mean should" not in text  # only on request
    assert repr(SMALL.judge(returned)).startswith("✓ centre: right")


def test_the_judge_lists_the_exercises_and_helps_with_names():
    assert dir(judge) == sorted([*(exercise.name for exercise in EVERY), "hint"])
    assert "layer_norm_dx" in judge.layer_norm_dx.__doc__
    with pytest.raises(
        AttributeError, match="no exercise called 'layernorm_dx'. Did you mean .*layer_norm_dx"
    ):
        judge.layernorm_dx  # noqa: B018
    with pytest.raises(AttributeError, match="There are .*softmax_ds"):
        judge.hint("zzz")
    assert not hasattr(judge, "_repr_html_")


def test_hints_come_one_by_one():
    first = judge.hint("softmax_ds")
    assert repr(first).startswith("Hint 1 of 3 for softmax_ds: ") and "Hint 2" not in repr(first)
    assert 'judge.hint("softmax_ds", 2)' in repr(first) and "next" not in repr(judge.hint("softmax_ds", 3))
    html = first._repr_html_()
    assert html.count("<details") == 3 and " open" not in html  # each inside the one before
    with pytest.raises(ValueError, match="number: expected 1 to 3, got 4"):
        judge.hint("softmax_ds", 4)


# The notebooks ----------------------------------------------------------------------------------------------

SOLUTIONS = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))


def of_chapter(path):
    return CHAPTERS[path.stem.partition("_")[2]]


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_the_unsolved_notebook_runs_to_its_end_again_and_again(path, tmp_path, monkeypatch):
    """The checks run a second time, after the cells that hand the reference on, call nothing right."""
    unsolved = path.parents[1] / "exercises" / path.name
    monkeypatch.chdir(tmp_path)
    cells, names = nbformat.read(unsolved, as_version=4).cells, {"__name__": "__main__"}
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    checks = [source for source in code if "judge." in source]
    assert len(checks) == len(of_chapter(path))
    for source in code + checks:
        exec(source, names)
        if source in checks:
            assert names["verdict"].status == "not yet" and source.endswith("\nverdict"), source


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_every_exercise_is_stated_and_asserted(path):
    notebook = nbformat.read(path, as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    for exercise in of_chapter(path).values():
        name = exercise.name.replace("_", "-")
        statement = cells[name].source
        assert re.search(r"^## \d+\. .* ★{1,3}$", statement, re.MULTILINE)
        assert re.search(r"\d+ minutes", statement) and "**Example.**" in statement
        assert re.search(r"\]\(\.\./\d\d_\w+\.ipynb\)", statement), "links to the chapter it belongs to"
        assert f"**Signature:** `{exercise.name}(" in statement
        assert cells[f"{name}-assert"].source == 'assert verdict.status == "right"'
        assert cells[f"{name}-assert"].metadata.tags == ["solution"]
        bound = re.search(rf"^{exercise.name} = ", "\n".join(c.source for c in notebook.cells), re.MULTILINE)
        assert not bound, f"the learner's name {exercise.name} is bound to something else"


@pytest.mark.parametrize(
    "a, b, missing",
    [((2, 3, 4), (2, 3), True), ((5,), (5, 3), True), ((5, 4), (3,), False), ((2, 4, 5), (4, 4), False)],
)
def test_keepdims_is_advised_only_where_an_axis_is_missing(a, b, missing):
    with pytest.raises(ValueError) as error:
        np.ones(a) + np.ones(b)
    assert an_axis_is_missing(str(error.value)) is missing


def sums_and_means(x):
    total = x.sum(axis=-1)
    mean = x.mean(axis=-1)
    return total, mean


PAIR = Exercise(
    sums_and_means,
    asks="Two ways to add up.",
    outputs=("total", "mean"),
    inputs={"x": Draw("B T D", repeating)},
    ideas=(),
    hints=("one",),
)


def of_a_square(x):
    dx = 2 * x
    return dx


GRADIENTS = [
    dataclasses.replace(PAIR, outputs=("dtotal", "dmean")),
    dataclasses.replace(PAIR, answer=of_a_square, outputs=("dx",)),
]


@pytest.mark.parametrize("loss", [np.sum, lambda x: float(x.sum()), lambda x: np.array(x.sum())])
def test_one_number_in_the_place_of_gradients_is_said_to_be_what_a_loss_is(loss):
    text = "A loss is one number; a gradient has the shape"
    assert all(text in exercise.judge(loss).diagnosis for exercise in GRADIENTS)
    assert text not in PAIR.judge(loss).diagnosis, "total and mean are no gradients"
    assert not any(text in exercise.judge(np.cumsum).diagnosis for exercise in GRADIENTS)


def test_one_result_alone_is_not_said_to_stand_in_anothers_place():
    assert "order" in PAIR.judge(lambda x: (x.mean(-1), x.sum(-1))).diagnosis
    assert "order" not in PAIR.judge(lambda x: (x.mean(-1), 7 * x.max(-1))).diagnosis


# What an answer does besides giving numbers -----------------------------------------------------------------


def test_the_learners_own_interrupt_passes():
    def interrupted(*arguments):
        raise KeyboardInterrupt

    for exercise in (SMALL, CURVE):
        with pytest.raises(KeyboardInterrupt):
            exercise.judge(interrupted)


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.name)
def test_the_second_question_has_other_numbers_and_other_results(exercise):
    (first, other), expected = exercise.twice
    pairs = list(zip(first.inputs, other.inputs))
    assert all(np.shape(a) == np.shape(b) for a, b in pairs)
    assert not all(np.array_equal(a, b) for a, b in pairs)
    arrays = [list(run.arrays.values()) for run in expected]
    assert all(np.isfinite(array).all() for array in sum(arrays, []))
    assert not all(np.array_equal(a, b) for a, b in zip(*arrays))


# What is said must be so ------------------------------------------------------------------------------------


def rotated(x, angle):
    cos, sin = np.cos(angle), np.sin(angle)
    return cos * x - sin


def rotated_wrongly(x, angle):
    return np.sin(angle) * x - np.cos(angle)


def two_rotated(x, angle):
    cos, sin = np.cos(angle), np.sin(angle)
    return cos * x, sin * x


ROTATED = Exercise(
    rotated,
    asks="A turn.",
    outputs=("y",),
    inputs={"x": Draw("B T D", repeating), "angle": Draw("B T D", normal)},
    ideas=(),
    hints=("one",),
)


def test_only_results_are_said_to_be_in_the_wrong_order():
    verdict = ROTATED.judge(rotated_wrongly)
    assert verdict.status == "wrong" and "results" not in verdict.diagnosis + verdict.where, verdict
    assert verdict.where.startswith("In `cos, sin`: they are in the wrong order.")
    two = dataclasses.replace(ROTATED, answer=two_rotated, outputs=("y", "z"))
    verdict = two.judge(lambda x, angle: two_rotated(x, angle)[::-1])
    assert verdict.diagnosis == f"{AS}The results are in the wrong order."


def test_what_is_too_near_for_the_search_is_not_explained_by_an_edit_that_changes_nothing():
    exercise = judge.find("skip_share")
    near = exercise.reference + sympy.Rational(1, 10**13)
    verdict = exercise.judge(near)
    assert verdict.status == "wrong" and verdict.where == ""
    assert re.fullmatch(r"It agrees to about \d+ digits only. Is a number in it rounded\?", verdict.diagnosis)


def test_a_formula_that_is_wrong_at_one_alone_is_refused():
    exercise = judge.find("score_variance")
    K = next(s for s in exercise.symbols if exercise.domains[s.name] == "count")
    wrong = sympy.Piecewise((exercise.reference + 1, sympy.Eq(K, 1)), (exercise.reference, True))
    verdict = exercise.judge(wrong)
    assert verdict.status == "wrong" and f"but not where {K} is 1" in verdict.diagnosis
    removable = exercise.reference * (K - 1) / sympy.Add(K, -1, evaluate=False)
    assert exercise.judge(removable).status == "right"


def test_a_count_of_one_is_asked_for_wherever_there_is_a_count():
    derivations = [e for e in EVERY if isinstance(e, Derivation) and "count" in e.domains.values()]
    assert derivations and all(e.ends for e in derivations), [e.name for e in derivations if not e.ends]
