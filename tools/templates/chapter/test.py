"""Chapter §number: what belongs to it and to nobody else."""

import numpy as np
import pytest
from sympy import diff

from handgrad.chapters.§topic import exercises, figures


def test_the_figures_draw_what_they_are_given():
    x, W, dy = np.array([1, 2]), np.array([[3, 0, 1], [0, 1, 1]]), np.array([1, 0, 2])
    shown = [text.get_text() for text in figures.edges(x, W, dy).axes[0].texts]
    assert [text for text in shown if text.startswith("dy")] == ["dy = 1", "dy = 0", "dy = 2"]
    (ax,) = figures.curve([4, 2, 1], {"best": 1}).axes
    assert list(ax.lines[0].get_ydata()) == [4, 2, 1]


def test_the_slope_is_the_derivative():
    assert diff(exercises.OUTPUT**2 / 2, exercises.x_0).equals(exercises.SLOPE.reference)


def test_the_gradient_is_the_derivative():
    dy, W = exercises.dy_and_weights(np.random.default_rng(0), 2, 3, 4, 5)
    np.testing.assert_allclose(exercises.dx(dy, W), np.einsum("btf,df->btd", dy, W), rtol=1e-12)


@pytest.mark.parametrize("wrong", exercises.DX.wrong, ids=lambda wrong: wrong.__name__)
def test_a_wrong_gradient_is_refused(wrong):
    assert exercises.DX.judge(wrong).status == "wrong"
