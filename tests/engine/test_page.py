"""The reader of printed formulas: what it proves, what it refutes, and what it refuses to guess."""

import pytest

from handgrad.page import Page, Unreadable, read
from handgrad.page.edits import edits
from handgrad.symbolic import NotProved

SOFTMAX = r"""
The weights are
$$
p_j = \frac{e^{z_j}}{\sum_k e^{z_k}} .
$$ (eq-softmax)
and their gradient
$$
\mathrm{d}z_i = p_i \Big( \mathrm{d}p_i - \sum_j p_j\, \mathrm{d}p_j \Big),
\quad\text{that is}\quad
\mathrm{d}\mathbf{z}
= \mathbf{p} \circ (\mathrm{d}\mathbf{p} - \langle \mathbf{p}, \mathrm{d}\mathbf{p} \rangle) .
$$ (eq-dz)
"""


def page(*formulas, text=""):
    """A page whose equations are called eq-0, eq-1, …"""
    return Page(text + "".join(f"\n$$\n{tex}\n$$ (eq-{n})\n" for n, tex in enumerate(formulas)))


def softmax(text=SOFTMAX):
    return Page(text).given("eq-softmax", letters="z (V)")


def test_a_printed_gradient_is_proved_and_computed():
    softmax().prove("eq-dz")
    softmax().holds("eq-dz")


@pytest.mark.parametrize(
    "edit", edits(Page(SOFTMAX).tex("eq-dz")), ids=lambda edit: f"{edit.kind} {edit.start}"
)
def test_each_damage_of_a_printed_gradient_is_refused(edit):
    damaged = SOFTMAX.replace(Page(SOFTMAX).tex("eq-dz"), edit.tex)
    for check in (softmax(damaged).prove, softmax(damaged).holds):
        with pytest.raises((AssertionError, Unreadable)):
            check("eq-dz")


def test_a_refutation_names_the_equation_and_numbers():
    wrong = softmax(SOFTMAX.replace(r"- \sum_j p_j", r"+ \sum_j p_j"))
    with pytest.raises(AssertionError, match=r"(?s)eq-dz: not equal.*V = \d.*left  = .*right = "):
        wrong.prove("eq-dz")
    with pytest.raises(AssertionError, match=r"eq-dz: not equal at V = \d, i = \d: left = .*, right = "):
        wrong.holds("eq-dz")


@pytest.mark.parametrize(
    ("formula", "letters", "said"),
    [
        ("x_j = c_j", "x (D)", "unknown letter c"),
        ("x_j = x_k", "x (D)", None),
        ("x_j = k", "x (D)", "nothing says what k is"),
        (r"x_j + w_j = 0", "x (D); w (F)", "runs over D in one place, F in another|runs over F"),
        (r"\sum_k 2 = 2D", "x (D)", "nothing says"),
        (r"x_j = (y_j", "x, y (D)", "does not close"),
        (r"x_j = y_j)", "x, y (D)", "do not pair"),
        (r"x_j = 1/2 y_j", "x, y (D)", "reads in two ways"),
        (r"x_j = \ln y_j z_j", "x, y, z (D)", "reads in two ways"),
        (r"x_{jj'} = 1", "x (D)", "too many|indices"),
        (r"\mathbf{x} = 1", "x (D)", "an array on one side, a number on the other"),
        (r"\mathbf{X}\mathbf{W} = \mathbf{0}", "x (T, D); W (F, D)", "runs over|rows"),
        (r"x_j = \foo y_j", "x, y (D)", "has no meaning here"),
        (r"x_j = ", "x (D)", "breaks off at its end"),
        (r"\frac{\partial y_j}{\partial x_k} = 0", "x, y (D)", "does not occur"),
        (r"\mathrm{d}x_j = 0", "x (D)", "no output or loss|a loss in which it does not occur"),
        (r"x_j \approx y_j", "x, y (D)", "≈|relation"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(formula, letters, said):
    given = page(formula).given(letters=letters)
    for check in (given.prove, given.holds):
        with pytest.raises((Unreadable, AssertionError), match=f"eq-0.*({said or ''})"):
            check("eq-0")


@pytest.mark.parametrize(
    ("letters", "said"),
    [
        ("x (D); x (D)", "two declarations of one letter: x"),
        ("x (D", "expected such as"),
        ("x ()y", "expected such as"),
    ],
)
def test_letters_are_refused_where_they_are_none(letters, said):
    with pytest.raises(Unreadable, match=said):
        page("x = 1").given(letters=letters)


def test_two_definitions_of_one_letter_are_refused():
    both = page("y_j = x_j", "y_j = 2 x_j")
    with pytest.raises(Unreadable, match="eq-1: two definitions of one letter, y"):
        both.given("eq-0", "eq-1", letters="x (D)")


def test_a_sum_without_its_index_in_the_summand_counts_its_terms():
    page(r"\sum_j x_k = D x_k").given(letters="x (D)")
    with pytest.raises(Unreadable, match="nothing says"):
        page(r"\sum_j x_k = D x_k").given(letters="x (D)").prove("eq-0")


def test_conditions_give_letters_their_values_and_restrict_the_numbers():
    given = page(r"x_j^2 + \varepsilon = x_j^2 \quad\text{for } \varepsilon = 0").given(
        letters="x (D); epsilon"
    )
    given.prove("eq-0")
    given.holds("eq-0")
    free = page(r"x_j^2 + \varepsilon = x_j^2").given(letters="x (D); epsilon")
    with pytest.raises(AssertionError):
        free.prove("eq-0")
    signs = page(r"|a| = a \quad\text{for } a > 0").given(letters="a")
    signs.holds("eq-0")


def test_signs_that_are_plain_are_proved_and_others_are_not():
    page(r"\sum_j x_j^2 \ge 0").given(letters="x (D)").prove("eq-0")
    with pytest.raises(NotProved):
        page(r"x_j^2 - 2 x_j + 1 \ge 0").given(letters="x (D)").prove("eq-0")
    with pytest.raises(AssertionError, match="not ≥ at"):
        page(r"\sum_j x_j \ge 0").given(letters="x (D)").prove("eq-0")


def test_a_file_that_is_not_there_and_a_label_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="path: expected a notebook"):
        read(tmp_path / "none.ipynb")
    with pytest.raises(KeyError, match="label: expected one of.*eq-dz.*got 'eq-nothing'"):
        softmax().prove("eq-nothing")
    with pytest.raises(ValueError, match="two equations have the label eq-0"):
        Page("$$ x = 1 $$ (eq-0)\n\n$$ x = 2 $$ (eq-0)")


def test_an_equation_is_read_as_the_file_is_now(tmp_path):
    file = tmp_path / "own.md"
    file.write_text(SOFTMAX, encoding="utf-8")
    read(file).given("eq-softmax", letters="z (V)").prove("eq-dz")
    file.write_text(SOFTMAX.replace("- \\sum", "+ \\sum"), encoding="utf-8")
    with pytest.raises(AssertionError):
        read(file).given("eq-softmax", letters="z (V)").prove("eq-dz")


def test_a_number_is_taken_from_the_page():
    cost = page(r"C = 4nD^2 + 2n^2 D").given()
    assert cost.number("eq-0", n=3, D=5) == 4 * 3 * 25 + 2 * 9 * 5


def test_what_was_read_can_be_shown():
    assert softmax().shown("eq-dz").splitlines()[:2] == [
        "dz[i] = p[i]·(dp[i] − Σ_j p[j]·dp[j])",
        "    i below V, j below V",
    ]


def test_a_display_without_a_label_is_passed_over():
    text = "It costs \\$3. $$ a = 2 $$ Then $$ b = 3 $$ (eq-b) and $$\nc = 4\n\\tag{8.1} % eq-c\n$$"
    assert Page(text).equations == {"eq-b": "b = 3", "eq-c": "c = 4"}
