"""Chapter §number: what belongs to it and to nobody else."""

import numpy as np
from judging import check_answers, solution
from sympy import diff, symbols

from handgrad.chapters.§topic import figures


def test_the_figures_draw_what_they_are_given():
    x, W, dy = np.array([1, 2]), np.array([[3, 0, 1], [0, 1, 1]]), np.array([1, 0, 2])
    shown = [text.get_text() for text in figures.edges(x, W, dy).axes[0].texts]
    assert [text for text in shown if text.startswith("dy")] == ["dy = 1", "dy = 0", "dy = 2"]


def test_the_slope_is_the_derivative():
    x_0, x_1, w_0, w_1 = symbols("x_0 x_1 w_0 w_1")
    loss = (w_0 * x_0 + w_1 * x_1) ** 2 / 2
    assert diff(loss, x_0).equals(solution("§{topic}_slope")(x_0, x_1, w_0, w_1))


def test_right_answers_are_accepted_however_written():
    check_answers("§{topic}_dx", [lambda dy, W: np.einsum("btf,df->btd", dy, W)])
