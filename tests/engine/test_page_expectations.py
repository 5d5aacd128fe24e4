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
    given(claim).holds("eq-a", draws=2)


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
