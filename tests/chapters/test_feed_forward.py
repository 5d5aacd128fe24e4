"""Chapter 04: its figures; its exercises derived again."""

import numpy as np
import torch
from judging import gradients, solution
from sympy import S, diff, exp, solve, symbols

from handgrad.chapters.feed_forward import figures
from handgrad.course import judge
from handgrad.ops import feed_forward, feed_forward_backward

# The figures ------------------------------------------------------------------------------------------------


def row(values):
    return "(" + ", ".join(f"{n + 0.0:g}" for n in np.ravel(values)).replace("-", "−") + ")"


def test_the_integers_in_the_picture_are_those_of_the_shipped_lines():
    params = {"W_1": np.array([[1.0, -1, 0], [1, 1, -1]]), "b_1": np.array([0.0, 1, 0])}
    params |= {"W_2": np.array([[1.0, 0], [2, -1], [4, 5]]), "b_2": np.array([1.0, 1])}
    y, cache = feed_forward(np.array([[1.0, 2.0]]), params)
    dx, _ = feed_forward_backward(np.array([[1.0, -1.0]]), cache)
    expected = {row(values) for values in (cache["active"]["x"], cache["second"]["x"], y, dx)}
    assert expected == {"(3, 2, −2)", "(3, 2, 0)", "(8, −1)", "(−2, 4)"}
    assert expected <= {text.get_text() for text in figures.integers().axes[0].texts}


# The answers derived a second time --------------------------------------------------------------------------


def test_the_formulas():
    x, beta = symbols("x beta", real=True)
    mine = diff(x / (1 + exp(-beta * x)), beta) - solution("swish_beta_slope")(x, beta)
    assert all(
        abs(mine.subs({x: a, beta: b}).evalf(30)) < 1e-25 for a, b in ((S(2), S(-1)), (S(-3), S(2) / 3))
    )
    D, F, units = symbols("D F units", positive=True)
    plain, gated = 2 * D * F + F + D, 3 * D * units + 2 * units + D
    assert (solve(plain - gated, units)[0] - solution("equal_units")(D, F)).simplify() == 0


def prelu_loss(dy, x, alpha):
    return (dy * (torch.clamp(x, min=0) + alpha * torch.clamp(x, max=0))).sum()


def squared_loss(dy, x, W_1, W_2):
    return (dy * (torch.relu(x @ W_1) ** 2 @ W_2)).sum()


def experts_loss(dy, x, W_a, W_b, w):
    g = torch.sigmoid(x @ w)[..., None]
    return (dy * (g * (x @ W_a) + (1 - g) * (x @ W_b))).sum()


test_the_answers_are_the_gradients = gradients(
    ("prelu_backward", prelu_loss, "x alpha"),
    ("squared_relu_backward", squared_loss, "x W_1 W_2"),
    ("two_experts_backward", experts_loss, "x W_a W_b w"),
)


def test_no_case_stands_at_the_kink():
    for case in judge.find("prelu_backward").cases:
        _, x, alpha = case.inputs
        assert np.abs(x).min() > 1e-4 and (x < 0).any() and (np.abs(alpha) > 1e-3).all()
    for case in judge.find("squared_relu_backward").cases:
        _, x, W_1, _ = case.inputs
        assert np.abs(x @ W_1).min() > 1e-6
