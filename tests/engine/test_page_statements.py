"""What the reader makes of words before a statement, and of steps and cases."""

import pytest

from handgrad.page.checks import Page
from handgrad.page.tree import Unreadable


def test_a_word_that_only_begins_like_a_condition_is_none():
    page = Page(
        r"$$ \text{forward:}\quad & 2\,TDF = TDF + TDF, \\ "
        r"\text{backward:}\quad & 2\,TDF + 2\,TDF = 4\,TDF $$ (eq-a)"
    )
    costs = page.given(letters="T; D; F")
    costs.prove("eq-a")
    assert costs.number("eq-a", part=0, T=2, D=3, F=5) == 60
    assert costs.number("eq-a", part=1, T=2, D=3, F=5) == 120
    with pytest.raises(AssertionError):
        Page(page.text.replace("4", "5")).given(letters="T; D; F").prove("eq-a")
    for words in ("within:", "not", "it is false that"):
        with pytest.raises(Unreadable, match=f"words that the reader does not know: '{words}'"):
            Page(page.text.replace("forward:", words)).given(letters="T; D; F").prove("eq-a")


def test_a_letter_in_the_text_is_no_definition_of_it():
    page = Page(r"With $n_t = 2 x_t$ and then $n_t$. $$ \sum_t n_t = 2 \sum_t x_t $$ (eq-a)")
    page.given("n_t", letters="x (T)").prove("eq-a")
    with pytest.raises(Unreadable):
        Page("As $n_t$. $$ n_t = 1 $$ (eq-a)").given("n_t", letters="x (T)")


STEPS = r"""$\mathrm{relu}(x) = \max(x, 0)$, $k(x) = x\,[x > 0]$, $c(x) = x + 3\,x^3$
$$ \mathrm{relu}'(x) = [x > 0] \quad\text{for } x \ne 0 $$ (eq-slope)
$$ \frac{\mathrm{relu}(x) - \mathrm{relu}(-x)}{2x} = \frac12 \quad\text{for every } x \ne 0 $$ (eq-half)
$$ k(x) = \mathrm{relu}(x), k'(x) = \mathrm{relu}'(x) \quad\text{for } x \ne 0 $$ (eq-both)
$$ \mathrm{relu}(x) = x \quad\text{for } x > 0 $$ (eq-case)
$$ c(-x) = -c(x) $$ (eq-odd)
$$ \mathrm{relu}'(x) = [x < 0] \quad\text{for } x \ne 0 $$ (eq-turned)
$$ \mathrm{relu}(x) = x $$ (eq-no-case)
$$ \mathrm{relu}(x) = x \quad\text{for } x \ne 0 $$ (eq-one-case)
$$ \mathrm{relu}(x) = [x > 1] \quad\text{for } x \ne 0 $$ (eq-other)
$$ \sum_t [z_t > 0] = \sum_t 1 $$ (eq-entries)
"""


def steps():
    named = (r"\mathrm{relu}(x)", "k(x)", "c(x)")
    return Page(STEPS).given(*named, letters="x; z (T)")


@pytest.mark.parametrize("label", ["slope", "half", "both", "case", "odd"])
def test_steps_and_cases_are_proved_and_computed(label):
    steps().prove("eq-" + label)
    steps().holds("eq-" + label)


@pytest.mark.parametrize("label", ["turned", "no-case", "one-case", "other", "entries"])
def test_what_is_wrong_about_them_is_refused(label):
    with pytest.raises(AssertionError, match="not equal"):
        steps().prove("eq-" + label)
    if label != "one-case":  # which is right where x > 0
        with pytest.raises(AssertionError):
            steps().holds("eq-" + label)


def test_a_matrix_of_numbers_is_read():
    page = Page(
        r"$$ \mathbf{W} = \begin{pmatrix} 1 & -2 \\ 0 & 3 \end{pmatrix} $$ (eq-w) $$ w_{0,1} = -2 $$ (eq-a)"
    )
    page.given("eq-w").prove("eq-a")
    with pytest.raises(AssertionError):
        Page(page.text.replace("1 & -2", "1 & 2")).given("eq-w").prove("eq-a")


def test_an_example_of_an_unknown_function_refutes_and_never_proves():
    page = Page(
        r"""$y_t = \phi(x_t)$ $$ \mathrm{d}x_t = \mathrm{d}y_t\, \phi'(x_t) $$ (eq-a)
        $$ \mathrm{d}x_t = \mathrm{d}y_t\, \phi(x_t) $$ (eq-b)
        $$ \phi(0) = 0 $$ (eq-c)"""
    )
    bend = page.given("y_t", letters="x (T); phi function")
    bend.prove("eq-a")
    with pytest.raises(AssertionError, match="not equal"):
        bend.prove("eq-b")
    with pytest.raises(AssertionError, match="one example"):
        bend.prove("eq-c")
