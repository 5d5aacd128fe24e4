"""What an index of a printed formula runs over: even and odd ones, shifted ones, those within limits."""

import pytest

from handgrad.page import Page, Unreadable
from handgrad.page.algebras import Unprovable


def test_a_sum_over_delta_runs_over_what_its_letter_does():
    page = Page(
        r"$$ \sum_c \sum_d x_c x_d \delta_{cd} - \sum_c x_c^2 + \sum_c \sum_d \delta_{cd}^2 = D $$ (eq-a)"
    )
    page.given(letters="x (D)").prove("eq-a")
    with pytest.raises(AssertionError):
        Page(page.text.replace("= D", "= D^2")).given(letters="x (D)").prove("eq-a")
    for unknown in (r"\sum_c \delta_{cc} = D", r"\sum_c x_c + \sum_c y_c + \sum_c \delta_{cc} = 1"):
        with pytest.raises(Unreadable, match="runs over"):
            Page(f"$$ {unknown} $$ (eq-a)").given(letters="x (D); y (K)").prove("eq-a")


ROTARY = r"""$$ y_{t,2i} = x_{t,2i} \cos\theta_{ti} - x_{t,2i+1} \sin\theta_{ti}, \\
y_{t,2i+1} = x_{t,2i} \sin\theta_{ti} + x_{t,2i+1} \cos\theta_{ti} $$ (eq-y)
$$ p_{t,2i} = \sin(t \omega_i), \qquad p_{t,2i+1} = \cos(t \omega_i) $$ (eq-p)"""
COLUMNS = "D = 2I; x, y (T, 2I); theta (T, I); p (T, 2I); omega (I); b"
BY_PARITY = [
    (r"\mathrm{d}x_{t,2i} = \mathrm{d}y_{t,2i} \cos\theta_{ti} + \mathrm{d}y_{t,2i+1} \sin\theta_{ti}", True),
    (
        r"\mathrm{d}x_{t,2i} = \mathrm{d}y_{t,2i} \cos\theta_{ti} - \mathrm{d}y_{t,2i+1} \sin\theta_{ti}",
        False,
    ),
    (r"\|\mathbf{y}_t\|^2 = \|\mathbf{x}_t\|^2", True),
    (r"\sum_j y_{tj}^2 = \sum_i x_{t,2i}^2", False),
]


@pytest.mark.parametrize("claim, holds", BY_PARITY)
def test_a_definition_by_even_and_odd_columns(claim, holds):
    page = Page(f"{ROTARY} $$ {claim} $$ (eq-a)").given("eq-y", letters=COLUMNS)
    if holds:
        page.prove("eq-a")
        page.holds("eq-a", draws=2)
    else:
        with pytest.raises(AssertionError):
            page.prove("eq-a")


@pytest.mark.parametrize(
    "claim, true",
    [
        (r"p_{t+b,2i} = \cos(b \omega_i) p_{t,2i} + \sin(b \omega_i) p_{t,2i+1}", True),
        (r"p_{t+b,2i} = \cos(b \omega_i) p_{t,2i} - \sin(b \omega_i) p_{t,2i+1}", False),
        (r"\langle \mathbf{p}_t, \mathbf{p}_{t+b} \rangle = \sum_i \cos(b \omega_i)", True),
        (r"\|\mathbf{p}_t\|^2 = D", False),
    ],
)
def test_a_position_may_be_shifted(claim, true):
    page = Page(f"{ROTARY} $$ {claim} $$ (eq-a)").given("eq-p", letters=COLUMNS)
    if true:
        page.prove("eq-a")
    else:
        with pytest.raises(AssertionError):
            page.prove("eq-a")


def test_an_array_has_no_shifted_positions():
    with pytest.raises(Unprovable, match="the index t"):
        Page(r"$$ x_{t+b} = x_t $$ (eq-a)").given(letters="x (T); b").prove("eq-a")


def test_half_of_a_definition_is_none():
    page = Page(r"$$ y_{2i} = x_i $$ (eq-y) $$ y_{2i+1} = 0 $$ (eq-a)")
    with pytest.raises(Unreadable, match="no definition"):
        page.given("eq-y", letters="x (I); y (2I)").prove("eq-a")


def test_cases_of_even_and_odd():
    claim = r"p_{tj} = \begin{cases} \sin(t / 9^{j/D}) & j \text{ even}, \\"
    claim += r" \cos(t / 9^{(j-1)/D}) & j \text{ odd}. \end{cases}"
    text = ROTARY.replace("$$ p_", r"$$ \omega_i = 9^{-2i/D}, \\ p_")
    Page(f"{text} $$ {claim} $$ (eq-a)").given("eq-p", letters=COLUMNS).prove("eq-a")
    with pytest.raises(AssertionError):
        wrong = claim.replace("(j-1)", "j")
        Page(f"{text} $$ {wrong} $$ (eq-a)").given("eq-p", letters=COLUMNS).prove("eq-a")


def test_a_term_outside_the_limits_is_left_out():
    page = Page(r"$$ s = \sum_{t=2}^{T-1} \ln(t - 1) $$ (eq-a)")
    assert abs(page.given(letters="s; x (T)").number("eq-a", T=5) - 1.791759) < 1e-6  # ln 2 + ln 3


def test_what_follows_is_no_definition():
    page = Page(r"$$ y_t = \cos t $$ (eq-y) $$ c = 2\pi, \quad\text{so that}\quad y_{t+c} = y_t $$ (eq-c)")
    page.given("eq-y", "eq-c", letters="y (T)").prove("eq-c")
    with pytest.raises(AssertionError):
        Page(page.text.replace("2", "3")).given("eq-y", "eq-c", letters="y (T)").prove("eq-c")


def test_a_sum_that_goes_beyond_its_axis_is_refused():
    text = "$h_t = \\sum_{s=0}^{t} a_{ts} x_s$ $$ h_t = \\sum_{s=0}^{%s} a_{ts} x_s $$ (eq-h)"
    letters = "a (T, T); x (T)"
    Page(text % "t").given("h_t = \\sum_{s=0}^{t} a_{ts} x_s", letters=letters).holds("eq-h")
    with pytest.raises((Unreadable, AssertionError)):
        Page(text % "t + 1").given("h_t = \\sum_{s=0}^{t} a_{ts} x_s", letters=letters).holds("eq-h")
    later = "$$ \\sum_{t=s}^{%s} a_{ts} = \\sum_{t} [t \\ge s] a_{ts} $$ (eq-later)"
    Page(later % "T - 1").given(letters="a (T, T)").holds("eq-later")
    with pytest.raises(Unreadable, match="goes up to"):
        Page(later % "T + 1").given(letters="a (T, T)").holds("eq-later")
