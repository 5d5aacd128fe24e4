"""What slips of a typesetter showed that the reader let pass: conditions that are not read, empty claims."""

import pytest

from handgrad.page import Page, Unreadable
from handgrad.page.edits import edits


def given(tex, letters):
    return Page(f"$$ {tex} $$ (eq-a)").given(letters=letters)


ROOT = r"\sqrt{\lambda^2} = \lambda \quad\text{for } "


@pytest.mark.parametrize("condition", [r"\lambda > 0", r"\lambda \ge 0", r"0 < \lambda"])
def test_a_condition_says_what_a_letter_is(condition):
    for letters in ("lambda", "lambda > 0"):
        given(ROOT + condition, letters).holds("eq-a")
    given(ROOT + r"0 < \lambda", "lambda").prove("eq-a")


@pytest.mark.parametrize("condition", [r"\lambda < 0", r"\lambda \le 0", r"0 > \lambda", r"\lambda \ge -1"])
def test_a_condition_counts_more_than_the_declaration(condition):
    for check in ("prove", "holds"):
        with pytest.raises(AssertionError):
            getattr(given(ROOT + condition, "lambda > 0"), check)("eq-a")


@pytest.mark.parametrize(
    ("tex", "letters", "said"),
    [
        (r"2x = x + x \quad\text{for } x > 0", "x", "the condition x > 0 makes no difference"),
        (r"\frac{x^2}{x} = x \quad\text{for } x \ne 1", "x", "the condition x ≠ 1 makes no difference"),
        (r"b_y^2 = b_y \quad\text{if } b_y \ne 0", r"b (V) in {0, 1}; y < V", "makes no difference"),
        (r"\ln\frac{1 - x}x = \ln(1 - x) - \ln x \quad\text{for } 0 < x \le 1", "x in (0, 1)", "both sides"),
        (r"x^2 = x \quad\text{for } x > 0,\; x < 0", "x", "no numbers"),
        (r"\frac{V - 1}{V - 1} = 1 \quad\text{for } V > 2", "z (V)", "V > 2 makes no difference"),
    ],
)
def test_a_condition_makes_a_difference_and_can_be_met(tex, letters, said):
    with pytest.raises((AssertionError, Unreadable), match=said):
        given(tex, letters).holds("eq-a")


def test_a_condition_that_is_needed_passes():
    given(r"\frac{x^2}{x} = x \quad\text{for } x \ne 0", "x").prove("eq-a")
    given(r"\frac{b_y}{b_y} = 1 \quad\text{if } b_y \ne 0", r"b (V) in {0, 1}; y < V").holds("eq-a")


@pytest.mark.parametrize("tex", [r"x_j = x_j", r"\sum_j x_j = \sum_j x_j", r"2x_j, \quad x_j + x_j = 2x_j"])
def test_a_claim_says_something(tex):
    for check in ("prove", "holds"):
        with pytest.raises(Unreadable, match="both sides of = are|it claims nothing"):
            getattr(given(tex, "x (D)"), check)("eq-a")


def test_matrices_are_left_out_and_letters_of_indices_exchanged():
    left_out = {e.tex for e in edits(r"\mathbf{A}\mathbf{B}_h^\top = \hat{\mathbf{C}}") if "factor" in e.kind}
    assert left_out == {r" \mathbf{B}_h^\top = \hat{\mathbf{C}}", r"\mathbf{A}  = \hat{\mathbf{C}}"}
    others = {e.tex for e in edits(r"a_{\ell i} = b_i") if e.kind == "another index"}
    assert others == {r"a_{i i} = b_i", r"a_{\ell \ell} = b_i", r"a_{\ell i} = b_\ell"}


@pytest.mark.parametrize(
    ("tex", "letters", "said"),
    [
        (r"x_k = \sum_k x_k", "x (D)", "k is summed over, and free"),
        (
            r"\sum_j y_j\, [b_v \ne 0] = \sum_j y_j \quad\text{if } b_v \ne 0",
            "y (D); b (V)",
            "the index v",
        ),
        (r"\sum_k x_k = D c \quad\text{if } x_j = c \text{ for all } k", "x (D); c", "for all k"),
        (r"x_i + y_e = y_e + x_i \quad\text{whatever } m_e \text{ is}", "x, m (T); y (E)", "index e"),
        (r"2x_2 = x_2 + x_2", "x (2)", "the index 2 on an axis of length 2"),
        (r"2x_{3i} z_i = x_{3i} z_i + x_{3i} z_i", "x (2I); z (I)", "on an axis of length"),
        (r"2x_{2i-1} z_i = 3x_{2i-1} z_i - x_{2i-1} z_i", "x (2I); z (I)", "at -1"),
        (r"e_{va} = e_{av}", "e (V, V); a (T) < V", "the label a with 0 indices"),
    ],
)
def test_an_index_is_read_as_it_stands(tex, letters, said):
    with pytest.raises(Unreadable, match=said):
        given(tex, letters).holds("eq-a")


def test_arrays_have_the_length_that_a_condition_gives():
    tex = r"\sum_f 1 = 4D \quad\text{for } F = 4D"
    given(tex.replace("1", "h_f / h_f"), "x (D); h (F)").holds("eq-a")
    with pytest.raises(AssertionError):
        given(tex.replace("1", "h_f / h_f").replace("F = 4", "F = 5"), "x (D); h (F)").holds("eq-a")


@pytest.mark.parametrize("words", ["for some", "for any", "for no", "for all but one", "for not all"])
def test_a_quantifier_other_than_all_is_refused(words):
    claim = r"\sum_i x_i = 0 \quad\text{if } x_i = 0 \text{ %s } i"
    given(claim % "for all", "x (D)").prove("eq-a")
    for check in ("prove", "holds"):
        with pytest.raises(Unreadable, match="a condition (with|on)"):
            getattr(given(claim % words, "x (D)"), check)("eq-a")


@pytest.mark.parametrize("words", ["if and only if", "if not", "only for", "unless"])
def test_a_condition_that_says_more_or_less_than_if_is_refused(words):
    with pytest.raises(Unreadable):
        given(rf"xy = 0 \quad\text{{{words} }} x = 0", "x; y").prove("eq-a")
