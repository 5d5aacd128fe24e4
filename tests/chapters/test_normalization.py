"""The exercises of chapter 05: derived again."""

import numpy as np
from judging import gradients, solution
from sympy import Rational, S, diff, simplify, sqrt, symbols
from torch.nn import functional

from handgrad.chapters.normalization import figures
from handgrad.course import judge
from handgrad.ops.normalization import layer_norm, layer_norm_backward

# The figures ------------------------------------------------------------------------------------------------


def test_the_integers_in_the_picture_are_those_of_the_shipped_lines():
    token, arriving = np.array([1.0, 7.0, 9.0, 15.0]), np.array([500.0, 0, 0, 0])
    y, cache = layer_norm(token, np.ones(4), np.zeros(4), 0.0)
    texts = [text.get_text() for text in figures.three_paths().axes[0].texts]
    direct, mean = arriving / 5, -np.full(4, 25)
    variance = 14 * 2 * (token - 8) / 4
    np.testing.assert_allclose(direct + mean + variance, layer_norm_backward(arriving, cache)[0])
    assert {"−25 to each", "−100", "14", "(−49, −7, 7, 49)", "(100, 0, 0, 0)", "(−7, −1, 1, 7)/5"} <= set(
        texts
    )
    assert variance.tolist() == [-49, -7, 7, 49] and (5 * y).round(9).tolist() == [-7, -1, 1, 7]


# The answers that are no shipped line, derived a second time ------------------------------------------------


def test_two_features():
    x_0, x_1, epsilon = symbols("x_0 x_1 epsilon", positive=True)
    mu = (x_0 + x_1) / 2
    output = (x_0 - mu) / sqrt(((x_0 - mu) ** 2 + (x_1 - mu) ** 2) / 2 + epsilon)
    mine = solution("two_features")((x_0 - x_1) / 2, epsilon)
    point = {x_0: Rational(3, 2), x_1: Rational(1, 3), epsilon: Rational(1, 7)}
    assert simplify((diff(output, x_0) - mine).subs(point)) == 0
    assert solution("two_features")(S(0), S(1)) == Rational(1, 2)


def test_the_gradient_from_the_output_is_the_shipped_one():
    rng = np.random.default_rng(0)
    dy, x = rng.normal(size=(2, 2, 3, 5))
    gamma, beta = rng.normal(size=(2, 5))
    y, cache = layer_norm(x, gamma, beta, 0.3)
    mine = solution("layer_norm_dx")(dy, y, gamma, beta, cache["inverse_std"])
    np.testing.assert_allclose(mine, layer_norm_backward(dy, cache)[0], rtol=1e-9, atol=1e-12)


def batch_norm_loss(dy, x, gamma, eps):
    y = functional.batch_norm(x.flatten(0, 1), None, None, gamma, training=True, eps=eps.item())
    return (dy.flatten(0, 1) * y).sum()


def qk_norm_loss(ds, q, k, g):
    return (ds * g * (functional.normalize(q, dim=-1) @ functional.normalize(k, dim=-1).mT)).sum()


test_the_answers_are_the_gradients = gradients(
    ("batch_norm_dx", batch_norm_loss, "x"),
    ("qk_norm_backward", qk_norm_loss, "q k g"),
)


def test_the_cases_hold_what_the_book_promises():
    """Repeated tokens, more than one sequence, γ that is not 1, an ε that is felt, features far from 0."""
    cases = {case.name: case.inputs for case in judge.find("batch_norm_dx").cases}
    _, x, gamma, eps = cases["a batch"]
    assert len(x) > 1 and np.array_equal(x[:, 0], x[:, -1]) and np.all(gamma != 1) and eps > 0.01
    assert abs(cases["features far from zero"][1].mean()) > 30
    assert all(np.abs(case.inputs[2]).min() >= 0.5 for case in judge.find("layer_norm_dx").cases)
