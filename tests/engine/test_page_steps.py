"""Recurrences over steps and sums from 1 to t, proved by induction from what is printed."""

import pytest

from handgrad.page import Unreadable
from handgrad.page.checks import Page

UPDATES = r"""
$$ \begin{aligned}
\text{plain} && p_t &= p_{t-1} - \eta\, g_t \\
\text{moving} && u_t &= \beta\, u_{t-1} + g_t
\end{aligned} $$ (eq-updates)
with $u_0 = 0$.
"""
LETTERS = "t steps; g, p, u (steps); p_0; beta in (0, 1); eta > 0"


def moving(claim):
    page = Page(UPDATES + f"$$ {claim} $$ (eq-claim)")
    return page.given("u_0", "eq-updates", lines="moving", letters=LETTERS)


@pytest.mark.parametrize(
    "claim",
    [
        r"u_t = \sum_{i=1}^{t} \beta^{t-i}\, g_i",
        r"\sum_{i=1}^{t} \beta^{t-i} = \frac{1 - \beta^t}{1 - \beta}",
        r"u_t = \frac{1 - \beta^t}{1 - \beta} \quad\text{for all } g_i = 1",
        r"u_1 = g_1",
        r"\frac{\partial u_t}{\partial g_t} = 1",
    ],
)
def test_true_claims_about_steps_are_proved_and_hold(claim):
    given = moving(claim)
    given.prove("eq-claim")
    given.holds("eq-claim")


@pytest.mark.parametrize(
    "claim",
    [
        r"u_t = \sum_{i=1}^{t} \beta^{t+i}\, g_i",
        r"u_t = \sum_{i=2}^{t} \beta^{t-i}\, g_i",
        r"\sum_{i=1}^{t} \beta^{t-i} = \frac{1 - \beta^{t+1}}{1 - \beta}",
        r"\sum_{i=1}^{t} \beta^{ti} = \frac{1 - \beta^t}{1 - \beta}",
        r"\frac{\partial u_t}{\partial g_t} = \beta",
    ],
)
def test_false_claims_about_steps_are_refused(claim):
    with pytest.raises((AssertionError, ValueError)):
        moving(claim).prove("eq-claim")


def test_a_line_must_have_the_name_that_is_asked_for():
    page = Page(UPDATES)
    with pytest.raises(Unreadable, match="no line"):
        page.given("u_0", "eq-updates", lines="heavy", letters=LETTERS)


def test_a_sequence_without_a_beginning_is_refused():
    page = Page(UPDATES + "$$ u_1 = g_1 $$ (eq-claim)")
    with pytest.raises(Unreadable, match="u_0"):
        page.given("eq-updates", lines="moving", letters=LETTERS).prove("eq-claim")


def test_a_power_is_no_index_of_another_letter():
    page = Page(r"$$ \beta_1^2/\beta_2 = \beta_1 \beta_1/\beta_2 $$ (eq-claim)")
    page.given(letters="beta_1, beta_2 > 0").prove("eq-claim")
