"""Pages of chapters 12, 13 and 20: letters in both cases, and formulas that are printed as wrong."""

import pytest

from handgrad.page import Page, Unreadable

HEAD = Page(
    r"""$\mathsf{c} = \mathsf{Q}^\top\mathsf{K}/\sqrt K$ and $\mathsf{V} = \mathsf{C}\mathsf{X}$; in print is
$\mathrm{d}\mathsf{Q} = \mathsf{K}\,\mathrm{d}\mathsf{c}/\sqrt K$, and
$\mathrm{d}\mathsf{K} = \mathsf{Q}\,\mathrm{d}\mathsf{c}/\sqrt K$.

$$ \mathrm{d}\mathsf{Q} = \mathsf{K}\,\mathrm{d}\mathsf{c}^\top/\sqrt K $$ (eq-a)

$$ \mathrm{d}\mathsf{C} = \mathrm{d}\mathsf{V}\,\mathsf{X}^\top $$ (eq-b)
"""
)
SCORES = r"\mathsf{c} = \mathsf{Q}^\top\mathsf{K}/\sqrt K"
VALUES = r"\mathsf{V} = \mathsf{C}\mathsf{X}"


def test_a_capital_and_its_small_letter_are_two_letters_if_both_are_declared():
    letters = r"\mathsf{C} (K, D); \mathsf{X} (D, T); \mathsf{Q}, \mathsf{K} (K, T)"
    head = HEAD.given(SCORES, VALUES, letters=letters + r"; \mathsf{c} (T, T)", output=r"\mathsf{V}")
    head.prove("eq-b")


def test_a_wrong_formula_of_the_text_is_refused_and_a_right_one_is_not():
    head = HEAD.given(SCORES, letters=r"\mathsf{Q}, \mathsf{K} (K, T)")
    head.prove("eq-a")
    head.refuses(r"\mathrm{d}\mathsf{Q} = \mathsf{K}\,\mathrm{d}\mathsf{c}/\sqrt K")
    with pytest.raises(AssertionError, match="it is right"):
        head.refuses(r"\mathrm{d}\mathsf{K} = \mathsf{Q}\,\mathrm{d}\mathsf{c}/\sqrt K")
    with pytest.raises(Unreadable, match="expected one formula"):
        head.refuses(r"\mathrm{d}\mathsf{K} = 0")
