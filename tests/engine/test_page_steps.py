"""Recurrences over steps and sums from 1 to t, proved by induction from what is printed."""

import pytest

from handgrad.page import Unreadable
from handgrad.page.checks import Page
from handgrad.sums import NotProved

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


def recurrence(forward, claim):
    *definitions, letters = forward
    tex = [*definitions, claim]
    page = Page("".join(f"\n$$ {one} $$ (eq-{n})\n" for n, one in enumerate(tex)))
    return page.given(
        *(f"eq-{n}" for n in range(len(definitions))), letters=letters
    ), f"eq-{len(definitions)}"


LINEAR = (r"h_t = a_t h_{t-1} + b_t x_t", "y_t = c_t h_t", "t steps; a, b, c, x, h, y (steps); h_0")
TANH = (r"h_t = \tanh(a h_{t-1} + x_t)", "y_t = c h_t", "t steps; a, c; x, h, y (steps); h_0")
GATE = (
    r"g_t = \frac{1}{1 + e^{-x_t}}",
    "h_t = g_t h_{t-1} + (1 - g_t) u_t",
    "y_t = h_t",
    "t steps; g, u, x, h, y (steps); h_0",
)
FITTED = (
    r"h_t = a h_{t-1} + x_t",
    r"L = \frac12 \sum_{t=1}^T (h_t - y_t)^2",
    "t steps; x, h, y (steps); a; h_0",
)
LSTM = (
    r"f_t = \frac{1}{1 + e^{-x_t - u h_{t-1}}}",
    r"g_t = \tanh(x_t + w h_{t-1})",
    "c_t = f_t c_{t-1} + g_t",
    r"h_t = \tanh(c_t)",
    "y_t = h_t",
    "t steps; f, g, c, h, x, y (steps); u, w; h_0; c_0",
)
CELL = (
    "c_t = f_t c_{t-1} + u_t h_{t-1}",
    r"h_t = o_t \tanh(c_t)",
    "y_t = h_t",
    "t steps; c, f, u, h, o, y (steps); h_0; c_0",
)
THROUGH_STEPS = [  # what is right, and an edit that makes it wrong
    (LINEAR, r"\mathrm dh_t = c_t\, \mathrm dy_t + a_{t+1}\, \mathrm dh_{t+1}", "a_{t+1}", "a_t"),
    (LINEAR, r"\mathrm dh_t = c_t\, \mathrm dy_t + a_{t+1}\, \mathrm dh_{t+1}", "c_t", "c_{t+1}"),
    (LINEAR, r"\mathrm da_t = h_{t-1}\, \mathrm dh_t", "h_{t-1}", "h_t"),
    (LINEAR, r"\mathrm da_t = h_{t-1}\, \mathrm dh_t", "dh_t", "dy_t"),
    (LINEAR, r"\mathrm dc_t = h_t\, \mathrm dy_t", "= h_t", "= h_{t-1}"),
    (LINEAR, r"\mathrm dh_0 = a_1\, \mathrm dh_1", "dh_1", "dh_2"),
    (LINEAR, r"\mathrm dx_2 = b_2\, \mathrm dh_2", "dh_2", "dh_3"),
    (
        LINEAR,
        r"\mathrm dx_t = b_t (c_t\, \mathrm dy_t + a_{t+1}\, \mathrm dh_{t+1})",
        "a_{t+1}",
        "a_t a_{t+1}",
    ),
    (
        FITTED,
        r"\frac{\partial L}{\partial h_t} = h_t - y_t + a \frac{\partial L}{\partial h_{t+1}}",
        "- y_t",
        "",
    ),
    (FITTED, r"\mathrm da = \sum_{t=1}^T h_{t-1}\, \mathrm dh_t", "h_{t-1}", "h_t"),
    (FITTED, r"\mathrm dx_1 = h_1 - y_1 + a\, (h_2 - y_2) + a^2\, \mathrm dx_3", "a^2", "a^3"),
    (LSTM, r"\mathrm df_t = c_{t-1}\, \mathrm dc_t", "c_{t-1}", "c_t"),
    (LSTM, r"\mathrm dc_t = (1 - h_t^2)\, \mathrm dh_t + f_{t+1}\, \mathrm dc_{t+1}", "f_{t+1}", "f_t"),
    (LSTM, r"\mathrm dw = \sum_t h_{t-1} (1 - g_t^2)\, \mathrm dg_t", "g_t^2", "h_t^2"),
    (TANH, r"\mathrm dx_t = (1 - h_t^2)\, \mathrm dh_t", "h_t^2", "h_t"),
    (TANH, r"\mathrm dh_t = c\, \mathrm dy_t + a\, \mathrm dx_{t+1}", "x_{t+1}", "x_t"),
    (TANH, r"\mathrm da = \sum_t h_{t-1}\, \mathrm dx_t", "h_{t-1}", "h_t"),
    (TANH, r"\mathrm dc = \sum_t h_t\, \mathrm dy_t", "h_t", "2 h_t"),
    (GATE, r"\mathrm dg_t = (h_{t-1} - u_t)\, \mathrm dh_t", "- u_t", ""),
    (GATE, r"\mathrm dx_t = g_t (1 - g_t) (h_{t-1} - u_t)\, \mathrm dh_t", "1 - g_t", "2 - g_t"),
    (CELL, r"\mathrm dh_t = \mathrm dy_t + u_{t+1}\, \mathrm dc_{t+1}", "u_{t+1}", "u_t"),
    (
        CELL,
        r"\mathrm dc_t = f_{t+1}\, \mathrm dc_{t+1} + o_t (1 - \tanh(c_t)^2)\, \mathrm dh_t",
        "f_{t+1}",
        "f_t",
    ),
]


@pytest.mark.parametrize(("forward", "claim", "old", "new"), THROUGH_STEPS)
def test_a_gradient_through_any_number_of_steps(forward, claim, old, new):
    given, label = recurrence(forward, claim)
    given.prove(label)
    given.holds(label)
    assert old in claim
    given, label = recurrence(forward, claim.replace(old, new))
    with pytest.raises(AssertionError) as refuted:
        given.prove(label)
    assert not isinstance(refuted.value, NotProved)
    with pytest.raises((AssertionError, Unreadable)):  # c_{t+1} beyond the last step
        given.holds(label)


@pytest.mark.parametrize(
    ("forward", "claim", "why"),
    [
        (
            (LINEAR[0], LINEAR[2]),
            r"\mathrm da_t = h_{t-1}\, \mathrm dh_t",
            "write it as a letter of its own, y_t = h_t",
        ),
        (
            (LINEAR[0], r"y_t = \sum_{i=1}^t h_i", LINEAR[2]),
            r"\mathrm dx_t = b_t\, \mathrm dh_t",
            "a sum over steps",
        ),
        ((LINEAR[0], "y_t = h_{t+1}", LINEAR[2]), r"\mathrm dh_t = \mathrm dy_t", "h at a later step"),
        (LINEAR, r"\mathrm dx_0 = \mathrm dh_1", "x at step 0, and steps begin at 1"),
        (LINEAR, r"\mathrm dh_{-1} = \mathrm dy_{-1} + a_0\, \mathrm dh_0", "step -1, and steps begin at 1"),
    ],
)
def test_a_gradient_that_no_chain_of_steps_gives_is_refused(forward, claim, why):
    with pytest.raises(Unreadable, match=why):
        given, label = recurrence(forward, claim)
        given.prove(label)
