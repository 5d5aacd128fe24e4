"""Letters that the running text defines, and arrays whose values are given by name."""

import numpy as np
import pytest

from handgrad.page import Page, Unreadable

WEIGHTS = r"With $p_j = x_j / \sum_r x_r$ every $p_j$ is a share. $$ \sum_j p_j = 1 $$ (eq-one)"
MEAN = r"$$ L = \frac1T \sum_i \ell_i $$ (eq-mean)"


def test_a_letter_alone_in_the_text_defines_nothing():
    Page(WEIGHTS).given("p_j", letters="x (T) > 0").prove("eq-one")
    with pytest.raises(Unreadable, match="found none"):
        Page(WEIGHTS).given("x_j", letters="x (T) > 0")


def test_the_values_of_an_array_are_given_by_its_name():
    for letters in ("", "ell (T)"):
        assert Page(MEAN).given(letters=letters).number("eq-mean", T=4, ell=np.arange(4.0)) == 1.5


def test_small_and_capital_letters_without_serifs_are_two():
    text = r"Let $\mathsf{c} = \mathsf{C}\mathsf{C}^\top$. $$ \mathsf{c}^\top = \mathsf{c} $$ (eq-c)"
    Page(text).given(r"\mathsf{c}", letters=r"\mathsf{C} (K, D)").prove("eq-c")
    wrong = text.replace(r"= \mathsf{c} $$", r"= \mathsf{c}\mathsf{c} $$")
    with pytest.raises(AssertionError):
        Page(wrong).given(r"\mathsf{c}", letters=r"\mathsf{C} (K, D)").prove("eq-c")


def test_a_function_with_an_index_is_no_definition():
    text = r"$$ \mathrm{split}(\mathbf{Z})_{htc} = z_{t,\, hK + c} $$ (eq-split)"
    with pytest.raises(Unreadable, match="expected a letter or a function"):
        Page(text).given("eq-split", letters="Z (T, HK)")
