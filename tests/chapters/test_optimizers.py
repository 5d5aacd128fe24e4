"""Chapter 15: its exercises, derived again; what it measures with."""

import numpy as np
import pytest
import torch
from judging import check_answers, solution
from sympy import Rational

from handgrad.chapters.optimizers import figures
from handgrad.course import judge

# What the chapter measures with -----------------------------------------------------------------------------


@pytest.mark.parametrize("rate, diverges", [(0.0399, False), (0.0401, True)])
def test_descent_in_the_valley_diverges_beyond_two_over_the_steepest(rate, diverges):
    assert (figures.height(figures.walk("sgd", rate, 2000)[-1]) > 1e3) == diverges


def test_adam_at_a_rate_of_its_own_gets_lower_in_the_valley_than_descent_at_any():
    lowest = min(figures.height(figures.walk("sgd", rate)[-1]) for rate in np.linspace(0.001, 0.06, 60))
    assert lowest > 10 * figures.height(figures.walk("adam", 0.2)[-1])


def test_a_run_that_diverged_is_a_cross_at_the_top():
    (ax,) = figures.sweep({"SGD": {0.1: 3.5, 1.0: 40.0}}, {}, top=5).axes
    (cross,) = [line for line in ax.lines if line.get_marker() == "x"]
    assert cross.get_xydata().tolist() == [[1.0, 5.0]]


# The answers, derived a second time -------------------------------------------------------------------------


def test_nesterov_is_that_of_torch():
    rng = np.random.default_rng(1)
    p, u = rng.standard_normal((2, 3)), np.zeros((2, 3))
    theirs = torch.tensor(p, requires_grad=True)
    optimizer = torch.optim.SGD([theirs], lr=0.2, momentum=0.6, nesterov=True)
    for _ in range(7):
        g = rng.standard_normal((2, 3))
        theirs.grad = torch.tensor(g)
        optimizer.step()
        p, u = solution("nesterov_step")(p, u, g, 0.2, 0.6)
        np.testing.assert_allclose(p, theirs.detach().numpy(), rtol=1e-12)


def test_the_sum_is_that_of_the_rates():
    for w, s, d in [(2, 1, 3), (5, 7, 4), (1, 1, 1)]:
        rates = [Rational(4 * k, w) for k in range(1, w + 1)] + s * [4]
        rates += [4 - Rational(3 * k, d) for k in range(1, d + 1)]
        assert float(sum(rates)) == solution("wsd_sum")(4, 1, w, s, d)


def test_at_every_point_the_floor_is_below_the_peak():
    of_name = [{s.name: x for s, x in p.items()} for p in judge.find("wsd_sum").points]
    assert all(p["floor"] < p["peak"] for p in of_name)


def test_rmsprop_is_that_of_torch():
    p = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.RMSprop([p], lr=0.5, alpha=0.8, eps=1e-300)
    for t in range(1, 9):
        before = p.item()
        p.grad = torch.tensor([-7.0], dtype=torch.float64)
        optimizer.step()
        np.testing.assert_allclose(p.item() - before, float(solution("rmsprop_length")(0.5, 5, t)))


def test_the_penalty_is_that_of_torch():
    p = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.3, momentum=0.6, weight_decay=0.5)
    for _ in range(2):
        p.grad = torch.zeros(1, dtype=torch.float64)
        optimizer.step()
    np.testing.assert_allclose(p.item(), solution("l2_momentum")(2.0, 0.3, 0.6, 0.5))


def by_torch(dp_new, du_new, u, g, eta, beta):
    arrays = [torch.tensor(x, requires_grad=True) for x in (0 * u, u, g, np.float64(eta), np.float64(beta))]
    p, old, gradient, rate, keep = arrays
    new = keep * old + gradient
    loss = (torch.tensor(dp_new) * (p - rate * new)).sum() + (torch.tensor(du_new) * new).sum()
    return tuple(d.numpy() for d in torch.autograd.grad(loss, arrays))


def test_the_backward_is_that_of_autograd_and_however_written():
    check_answers("momentum_backward", [by_torch])
