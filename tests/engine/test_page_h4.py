"""What the reader makes of expectations, variances and covariances."""

import pytest

from handgrad.page import Page
from handgrad.page.algebras import Unprovable
from handgrad.page.tree import Unreadable

LETTERS = r"x (T, D); W (D, K) noise 1/D; q (K) noise 1; p in (0, 1); b (D) noise p (1-p) around 1-p"


def given(claim):
    definition = r"$$ k_{jc} = \sum_l x_{jl} w_{lc} $$ (eq-k)"
    return Page(f"{definition} $$ {claim} $$ (eq-a)").given("eq-k", letters=LETTERS)


TRUE = [
    r"\mathbb{E}[w_{lc} w_{md}] = \frac{\delta_{lm}\delta_{cd}}{D}",
    r"\mathbb{E}[k_{jc} k_{rd}] = \delta_{cd}\, \frac{\mathbf{x}_j\cdot\mathbf{x}_r}{D}",
    r"\mathrm{Var}(\mathbf{q}\cdot\mathbf{k}_j)"
    r" = \sum_c \sum_d \mathbb{E}[q_c q_d]\, \mathbb{E}[k_{jc} k_{jd}]"
    r" - \Big( \sum_c \mathbb{E}[q_c]\, \mathbb{E}[k_{jc}] \Big)^2 = \frac{K}{D} \|\mathbf{x}_j\|^2",
    r"\mathrm{Cov}(k_{jc}, k_{rd}) = \delta_{cd} \frac{\mathbf{x}_j\cdot\mathbf{x}_r}{D}",
    r"\mathbb{E}\Big[\frac{b_i x_{ti}}{1 - p}\Big] = x_{ti}",
    r"\mathrm{Var}\Big(\sum_i b_i x_{ti}\Big) = p (1-p) \sum_i x_{ti}^2",
    r"\mathbb{E}[b_i]^2 = (1-p)^2",
]


@pytest.mark.parametrize("claim", TRUE)
def test_a_true_expectation_is_proved_and_computed(claim):
    given(claim).prove("eq-a")
    given(claim).holds("eq-a", draws=1)


@pytest.mark.parametrize(
    "claim",
    [
        r"\mathbb{E}[w_{lc} w_{md}] = \frac{\delta_{lm}}{D}",
        r"\mathbb{E}[k_{jc} k_{rd}] = 0",
        r"\mathrm{Var}(\mathbf{q}\cdot\mathbf{k}_j) = \frac{D}{K} \|\mathbf{x}_j\|^2",
        r"\mathrm{Var}(b_i) = 0",
        r"\mathbb{E}[b_i^2] = p^2",
    ],
)
def test_a_false_expectation_is_refuted(claim):
    for check in (given(claim).prove, given(claim).holds):
        with pytest.raises(AssertionError):
            check("eq-a")


@pytest.mark.parametrize(
    "claim",
    [
        r"\mathbb{E}[x_{ti}] = x_{ti}",  # nothing is drawn
        r"\mathbb{E}[q_c^4] = 3",  # more than squares: the law does not say
        r"\mathbb{E}[e^{q_c}] = 1",
        r"\mathbb{E}[q_c^2 q_d^2] = 1",
        r"\mathbb{E} q_c = 0",
        r"\mathrm{Cov}(q_c) = 1",
        r"\frac{\partial}{\partial x_{ti}} \mathbb{E}[x_{ti} b_i] = 1 - p",
    ],
)
def test_what_the_law_does_not_say_is_refused(claim):
    with pytest.raises((Unreadable, Unprovable)):
        given(claim).prove("eq-a")


def test_numbers_refuse_more_than_squares():
    with pytest.raises(Unreadable, match="more than squares"):
        given(r"\mathbb{E}[q_c^3] = 0").holds("eq-a")


def test_a_law_has_declared_letters_only():
    with pytest.raises(Unreadable, match="law"):
        Page(r"$$ a = b $$ (eq-a)").given(letters="z (D) noise v")


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
        page.holds("eq-a", draws=1)
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
