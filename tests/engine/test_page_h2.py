"""What the reader makes of words before a statement, and of primes, steps and cases."""

import pytest

from handgrad.page.checks import Page
from handgrad.page.tree import Unreadable


def test_a_word_that_only_begins_like_a_condition_is_none():
    page = Page(
        r"$$ \text{forward:}\quad & 2\,TDF, \\ \text{within:}\quad & 2\,TDF + 2\,TDF = 4\,TDF $$ (eq-a)"
    )
    costs = page.given(letters="T; D; F")
    costs.prove("eq-a")
    assert costs.number("eq-a", part=0, T=2, D=3, F=5) == 60
    assert costs.number("eq-a", part=1, T=2, D=3, F=5) == 120
    with pytest.raises(AssertionError):
        Page(page.text.replace("4", "5")).given(letters="T; D; F").prove("eq-a")


def test_a_letter_in_the_text_is_no_definition_of_it():
    page = Page(r"With $n_t = 2 x_t$ and then $n_t$. $$ \sum_t n_t = 2 \sum_t x_t $$ (eq-a)")
    page.given("n_t", letters="x (T)").prove("eq-a")
    with pytest.raises(Unreadable):
        Page("As $n_t$. $$ n_t = 1 $$ (eq-a)").given("n_t", letters="x (T)")
