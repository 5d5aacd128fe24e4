"""Chapter 04: its figures; its exercises derived again and solved otherwise."""

import numpy as np
import pytest
import torch
from judging import check_answers, solution
from sympy import Rational, S, diff, exp, solve, symbols, tanh

from handgrad.chapters.feed_forward import figures
from handgrad.course import judge
from handgrad.ops import feed_forward, feed_forward_backward

# The figures ------------------------------------------------------------------------------------------------


def written(graph):
    return {text.get_text() for text in graph.axes[0].texts}


def row(values):
    return "(" + ", ".join(f"{n + 0.0:g}" for n in np.ravel(values)).replace("-", "−") + ")"


def test_the_integers_in_the_picture_are_those_of_the_shipped_lines():
    params = {"W_1": np.array([[1.0, -1, 0], [1, 1, -1]]), "b_1": np.array([0.0, 1, 0])}
    params |= {"W_2": np.array([[1.0, 0], [2, -1], [4, 5]]), "b_2": np.array([1.0, 1])}
    y, cache = feed_forward(np.array([[1.0, 2.0]]), params)
    dx, _ = feed_forward_backward(np.array([[1.0, -1.0]]), cache)
    expected = {row(values) for values in (cache["active"]["x"], cache["second"]["x"], y, dx)}
    assert expected == {"(3, 2, −2)", "(3, 2, 0)", "(8, −1)", "(−2, 4)"}
    assert expected <= written(figures.integers())


def test_the_integers_of_the_gated_layer():
    def leaf(rows):
        return torch.tensor(rows, dtype=torch.float64, requires_grad=True)

    x, W_gate, W_up = leaf([[1, 2]]), leaf([[1, 1], [1, -1]]), leaf([[2, 1], [0, 1]])
    g, u = x @ W_gate, x @ W_up
    a = torch.relu(g)
    p = a * u
    y = p @ leaf([[1, -1], [2, 5]])
    (y[0, 0] - y[0, 1]).backward(inputs=[x, W_gate, W_up, g, u, a, p])
    shares = [g.grad @ W_gate.mT, u.grad @ W_up.mT]
    assert row(sum(shares).detach()) == row(x.grad) == "(16, 4)"
    values = [*(v.detach() for v in (x, g, a, u, p, y, *shares)), *(v.grad for v in (g, u, a, p))]
    assert {row(v) for v in values} | {"(1, −1)"} <= written(figures.gated())


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


def _against_autograd(exercise, forward):
    for case in exercise.cases:
        dy, *inputs = case.inputs
        leaves = [torch.tensor(array, requires_grad=True) for array in inputs]
        forward(*leaves).backward(torch.tensor(dy))
        for mine, leaf in zip(exercise.answer(dy, *inputs), leaves, strict=True):
            np.testing.assert_allclose(mine, leaf.grad, rtol=1e-9, atol=1e-12)


def test_prelu_and_the_squared_relu_and_the_experts_against_autograd():
    def prelu(x, alpha):
        return torch.clamp(x, min=0) + alpha * torch.clamp(x, max=0)

    def squared(x, W_1, W_2):
        return torch.relu(x @ W_1) ** 2 @ W_2

    def experts(x, W_a, W_b, w):
        g = torch.sigmoid(x @ w)[..., None]
        return g * (x @ W_a) + (1 - g) * (x @ W_b)

    _against_autograd(judge.find("prelu_backward"), prelu)
    _against_autograd(judge.find("squared_relu_backward"), squared)
    _against_autograd(judge.find("two_experts_backward"), experts)


def test_no_case_stands_at_the_kink():
    for case in judge.find("prelu_backward").cases:
        _, x, alpha = case.inputs
        assert np.abs(x).min() > 1e-4 and (x < 0).any() and (np.abs(alpha) > 1e-3).all()
    for case in judge.find("squared_relu_backward").cases:
        _, x, W_1, _ = case.inputs
        assert np.abs(x @ W_1).min() > 1e-6


# Right answers, written otherwise ---------------------------------------------------------------------------


def prelu_by_loops(dy, x, alpha):
    dx, dalpha = np.zeros_like(x), np.zeros_like(alpha)
    for b, t, i in np.ndindex(*x.shape):
        dx[b, t, i] = dy[b, t, i] if x[b, t, i] > 0 else alpha[i] * dy[b, t, i]
        dalpha[i] += dy[b, t, i] * x[b, t, i] if x[b, t, i] < 0 else 0.0
    return dx, dalpha


def prelu_by_sign(dy, x, alpha):
    on = (np.sign(x) + 1) / 2
    return dy * (on + (1 - on) * alpha), np.einsum("btd,btd->d", dy, (x - abs(x)) / 2)


def squared_by_shipped_lines(dy, x, W_1, W_2):
    """a = r ∘ r is ReLU with the slope 2r: the shipped ReLU layer, fed with a scaled gradient."""
    rows, arriving = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    h = rows @ W_1
    dh = np.where(h > 0, 2 * h, 0) * (arriving @ W_2.T)
    return (dh @ W_1.T).reshape(x.shape), rows.T @ dh, np.where(h > 0, h, 0).T ** 2 @ arriving


def squared_by_einsum(dy, x, W_1, W_2):
    h = np.einsum("btd,df->btf", x, W_1)
    r = h * (h > 0)
    dh = 2 * r * np.einsum("btj,fj->btf", dy, W_2)
    weights = np.einsum("btd,btf->df", x, dh), np.einsum("btf,btj->fj", r * r, dy)
    return np.einsum("btf,df->btd", dh, W_1), *weights


def experts_by_difference(dy, x, W_a, W_b, w):
    """y = v + g (u - v): the second expert whole, the difference gated."""
    g = ((1 + np.tanh(x @ w / 2)) / 2)[..., None]
    apart = W_a - W_b
    dr = (dy @ apart.T * x).sum(-1, keepdims=True) * g * (1 - g)
    dx = dy @ W_b.T + g * (dy @ apart.T) + dr * w
    of_apart = np.einsum("btd,bte->de", x, g * dy)
    return dx, of_apart, np.einsum("btd,bte->de", x, dy) - of_apart, np.einsum("btd,btk->d", x, dr)


def experts_by_loops(dy, x, W_a, W_b, w):
    dx, dW_a, dW_b, dw = (np.zeros_like(array) for array in (x, W_a, W_b, w))
    for b, t in np.ndindex(*x.shape[:2]):
        row, arriving = x[b, t], dy[b, t]
        g = 1 / (1 + np.exp(-row @ w))
        dr = arriving @ (row @ W_a - row @ W_b) * g * (1 - g)
        dx[b, t] = g * W_a @ arriving + (1 - g) * W_b @ arriving + dr * w
        dW_a += g * np.outer(row, arriving)
        dW_b += (1 - g) * np.outer(row, arriving)
        dw += dr * row
    return dx, dW_a, dW_b, dw


D, F = symbols("D F")
RIGHT = {
    "swish_beta_slope": (
        lambda x, beta: x**2 * exp(beta * x) / (1 + exp(beta * x)) ** 2,
        lambda x, beta: x**2 * (1 - tanh(beta * x / 2) ** 2) / 4,
    ),
    "equal_units": (
        lambda D, F: Rational(2, 3) * F - F / (9 * D + 6),
        lambda D, F: ((2 * D * F + F + D) - D) / (3 * D + 2),
        F * (2 * D + 1) / (3 * D + 2),
    ),
    "prelu_backward": (prelu_by_loops, prelu_by_sign),
    "squared_relu_backward": (squared_by_shipped_lines, squared_by_einsum),
    "two_experts_backward": (experts_by_difference, experts_by_loops),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_accepted_however_written(name):
    check_answers(name, RIGHT[name])


def test_every_exercise_has_been_solved_otherwise():
    assert set(RIGHT) == set(judge.chapters()["feed_forward"])
