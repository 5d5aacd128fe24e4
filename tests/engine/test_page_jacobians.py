"""Functions of which nothing is known but how their Jacobians are called; sums that vanish term by term."""

import pytest
from sympy import Rational

from handgrad.page import Page, Unreadable
from handgrad.sums import arrays, equal, sizes, total

HALF = Rational(1, 2)
LAYER = r"""
$$ \mathbf{y} = \mathbf{x} + g(\mathbf{x}, \mathbf{m}) $$ (eq-layer)

$$ \mathrm{d}\mathbf{x} = \mathrm{d}\mathbf{y} + \mathbf{A}^\top \mathrm{d}\mathbf{y},
\qquad \mathrm{d}\mathbf{m} = \mathbf{C}^\top \mathrm{d}\mathbf{y} $$ (eq-back)
"""
LETTERS = "x (D); m (S); C (D, S); g (D) function by A, C"


def layer(text=LAYER, letters=LETTERS):
    return Page(text).given("eq-layer", letters=letters, columns=True)


def test_a_function_of_two_vectors_has_two_jacobians():
    layer().prove("eq-back")
    layer().holds("eq-back")


@pytest.mark.parametrize("old, new", [(r"\mathbf{A}^", r"\mathbf{A}"), (r"\mathbf{C}^\top", "2")])
def test_a_wrong_backward_of_it_is_refused(old, new):
    wrong = LAYER.replace(old, new).replace(r"\mathbf{A}\top", r"\mathbf{A}")
    with pytest.raises((AssertionError, Unreadable)):
        layer(wrong).prove("eq-back")


def test_both_uses_of_one_vector_add():
    text = LAYER.replace(r"\mathbf{m})", r"\mathbf{x})").replace(
        r"\mathrm{d}\mathbf{y},",
        r"\mathrm{d}\mathbf{y} + \mathbf{C}^\top \mathrm{d}\mathbf{y} $$ (eq-both) $$",
    )
    letters = "x (D); g (D) function by A, C"
    layer(text, letters).prove("eq-both")


@pytest.mark.parametrize(
    "letters, words",
    [
        ("x (D); m (S); C (S, D); g (D) function by A, C", "not as a Jacobian of g"),
        ("x (D); m (S); g (D) function by A, A", "two declarations|two Jacobians"),
        ("x (D); m (S); g (D) function by A", "expected 1 arguments"),
        ("x (D); m (S); g (D) function by A, C", "the argument of g"),
    ],
)
def test_a_jacobian_that_does_not_fit_is_refused(letters, words):
    with pytest.raises(Unreadable, match=words):
        layer(letters=letters)


def test_a_sum_of_zeros_is_zero():
    T, D = sizes("T D")
    o, g = arrays("o g")

    def along(t, sign):  # ⟨d/do (o/|o|), o⟩ of token t, or not
        square = total(lambda k: o[t, k] ** 2, D)
        one = total(lambda k: g[t, k] * o[t, k], D) / square**HALF
        return one - sign * total(lambda k: g[t, k] * o[t, k], D) * square / square ** (3 * HALF)

    assert equal(total(lambda t: along(t, 1), T), 0)
    assert not equal(total(lambda t: along(t, -1), T), 0)


def test_zeros_in_the_sum_over_the_other_index_only_are_no_zeros():
    T, D = sizes("T D")
    o = arrays("o")
    assert not equal(total(lambda t: total(lambda k: o[t, k] - o[k, t], D), T), 0)
