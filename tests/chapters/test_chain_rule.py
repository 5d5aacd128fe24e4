"""Chapter 01: its figures and numbers; its exercises derived again."""

import numpy as np
import torch
from judging import gradients, solution, tensor
from sympy import diff, solve, symbols
from torch.nn.functional import pad

from handgrad.chapters.chain_rule import figures
from handgrad.course import judge

# The figures and their numbers ------------------------------------------------------------------------------


def test_the_graph_shows_the_gradients_of_its_four_steps():
    w, x, q = leaves = [torch.tensor(value, requires_grad=True) for value in (-2.0, 3.0, -5.0)]
    through, straight = x.clone(), x.clone()  # the two uses of x
    loss = (w * through + straight - q) ** 2
    found = torch.autograd.grad(loss, [*leaves, through, straight])
    assert [int(g) for g in found] == [12, -4, -4, -8, 4] and loss == 4
    assert {"12", "−8", "4", "−4", "−6"} <= {text.get_text() for text in figures.stages().axes[0].texts}


# The answers, derived a second time -------------------------------------------------------------------------


def weighted_mean_loss(dy, x, w):
    return (dy * ((w[..., None] * x).sum(1) / w.sum(1, keepdim=True))).sum()


def convolution_loss(dy, x, w):
    T = x.shape[1]
    later = [pad(x[:, : max(T - k, 0)], (0, 0, min(k, T), 0)) for k in range(len(w))]
    return (dy * sum(w_k * x_k for w_k, x_k in zip(w, later))).sum()


test_the_answers_are_the_gradients = gradients(
    ("weighted_mean_backward", weighted_mean_loss, "x w"),
    ("convolution_backward", convolution_loss, "x w"),
)


def test_shared_against_autograd():
    for case in judge.find("shared_backward").cases:
        dy, x, r = map(tensor, case.inputs)
        leaves = x.requires_grad_(), r.requires_grad_(), torch.zeros(dy.shape[1:]).double().requires_grad_()
        wanted = torch.autograd.grad((dy * (r[..., None] * x + leaves[2])).sum(), leaves)
        for mine, theirs in zip(solution("shared_backward")(*case.inputs), wanted, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_the_best_step_is_the_minimum_of_the_bound():
    eta, f, f_2, h = symbols("eta f f_2 h", positive=True)
    (step,) = solve(diff(h / 2 * f_2 + 2 * eta * f / h, h), h)
    assert (step - solution("best_step")(eta, f, f_2)).simplify() == 0


def test_the_blind_direction_passes_and_is_the_nearest():
    rng = np.random.default_rng(0)
    v, wrong, right = rng.normal(size=(3, 2, 3, 4))
    d = solution("blind_direction")(v, wrong, right)
    assert abs(((wrong - right) * d).sum()) < 1e-12
    e = (wrong - right).ravel()
    _, _, rows = np.linalg.svd(e[None])
    plane = rows[1:]  # all directions perpendicular to the error
    np.testing.assert_allclose(plane.T @ (plane @ v.ravel()), d.ravel(), atol=1e-12)
