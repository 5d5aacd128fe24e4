"""Chapter 15: its exercises, derived again; what it measures with."""

import numpy as np
import pytest
import torch
from judging import check_answers, solution
from sympy import Rational

from handgrad import optim
from handgrad.chapters.optimizers import (
    chains,
    figures,
    torch_layer,
    trials,
    valley,
)
from handgrad.course import judge

# What the chapter measures with -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [11, 12])
def test_every_optimizer_is_that_of_torch(seed):
    assert max(torch_layer.race(seed, steps=20).values()) < 1e-12


def test_the_gradient_of_the_rate_is_that_of_torch():
    rate = torch.tensor(0.07, dtype=torch.float64, requires_grad=True)
    H, p = torch.tensor(valley.H), torch.tensor(valley.START)
    for _ in range(9):
        p = p - rate * H @ p
    (0.5 * p @ H @ p).backward()
    places = valley.walk(optim.sgd, optim.sgd_init, 0.07, 9)
    np.testing.assert_allclose(valley.rate_gradient(places, 0.07), rate.grad.item(), rtol=1e-12)


def test_growth_is_the_larger_root():
    for beta, eta_h in [(0.0, 0.3), (0.5, 0.7), (0.9, 3.9)]:
        expected = valley.larger_root(beta, [eta_h])[0]
        np.testing.assert_allclose(valley.growth(beta, eta_h / 5, 5.0), expected, rtol=0.02)


def test_the_weights_of_a_mean_add_up():
    plain, corrected = trials.weighted(6, 0.8)
    np.testing.assert_allclose([plain.sum(), corrected.sum()], [1 - 0.8**6, 1])
    assert (np.diff(plain) > 0).all()


def test_decoupled_decay_is_a_power():
    means = trials.decayed(True, 1.0, steps=3, rate=1e-9, lam=1e8)  # steps of Adam are negligible
    np.testing.assert_allclose(means, 0.9 ** np.arange(4), rtol=1e-6)


def test_adam_goes_to_the_wrong_end_and_descent_to_the_right_one():
    assert trials.circled("adam", beta_1=0.0, beta_2=0.1) == 1 and trials.circled("sgd") < -0.9


def test_the_pairs_of_every_language_are_probabilities():
    np.testing.assert_allclose(chains.PAIRS.sum(axis=(1, 2)), 1)
    counted = chains.counted(np.random.default_rng(0), 40_000)
    np.testing.assert_allclose(counted, chains.PAIRS, atol=0.01)


def test_training_without_a_gradient_goes_nowhere():
    assert not chains.trained("adam", 0.1, lambda Z, share: 0 * share, updates=3).any()


@pytest.mark.parametrize("draw", [figures.integers, figures.graph])
def test_the_graphs_of_a_step_find_room(draw):
    assert draw().axes


def test_the_integers_of_the_step_are_right():
    H, p = np.array([[2, 1], [1, 1]]), np.array([1, 0])
    g = H @ p
    dp = H @ (p - g)
    shown = " ".join(text.get_text() for text in figures.integers().axes[0].texts).replace("−", "-")
    for vector in (p, g, p - g, dp, -dp, H @ -dp):
        assert f"({vector[0]}, {vector[1]})" in shown


def test_each_moving_picture_has_words_of_its_own():
    assert len({figures.rate_words(rate) for rate in (0.02, 0.16)}) == 2
    assert len({figures.beta_words(beta) for beta in (0.0, 0.9)}) == 2
    assert len({figures.eps_words(eps) for eps in figures.EPSILONS}) == len(figures.EPSILONS)


# Exercise 1: Nesterov ---------------------------------------------------------------------------------------


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


# Exercise 2: the sum of a schedule --------------------------------------------------------------------------


def test_the_sum_is_that_of_the_rates():
    for w, s, d in [(2, 1, 3), (5, 7, 4), (1, 1, 1)]:
        rates = [Rational(4 * k, w) for k in range(1, w + 1)] + s * [4]
        rates += [4 - Rational(3 * k, d) for k in range(1, d + 1)]
        assert float(sum(rates)) == solution("wsd_sum")(4, 1, w, s, d)


def test_at_every_point_the_floor_is_below_the_peak():
    of_name = [{s.name: x for s, x in p.items()} for p in judge.find("wsd_sum").points]
    assert all(p["floor"] < p["peak"] for p in of_name)


# Exercise 3: RMSProp ----------------------------------------------------------------------------------------


def test_rmsprop_is_that_of_torch():
    p = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.RMSprop([p], lr=0.5, alpha=0.8, eps=1e-300)
    for t in range(1, 9):
        before = p.item()
        p.grad = torch.tensor([-7.0], dtype=torch.float64)
        optimizer.step()
        np.testing.assert_allclose(p.item() - before, float(solution("rmsprop_length")(0.5, 5, t)))


# Exercise 4: a penalty under momentum -----------------------------------------------------------------------


def test_the_penalty_is_that_of_torch():
    p = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.3, momentum=0.6, weight_decay=0.5)
    for _ in range(2):
        p.grad = torch.zeros(1, dtype=torch.float64)
        optimizer.step()
    np.testing.assert_allclose(p.item(), solution("l2_momentum")(2.0, 0.3, 0.6, 0.5))


# Exercise 5: backward through a step ------------------------------------------------------------------------


def by_torch(dp_new, du_new, u, g, eta, beta):
    arrays = [torch.tensor(x, requires_grad=True) for x in (0 * u, u, g, np.float64(eta), np.float64(beta))]
    p, old, gradient, rate, keep = arrays
    new = keep * old + gradient
    loss = (torch.tensor(dp_new) * (p - rate * new)).sum() + (torch.tensor(du_new) * new).sum()
    return tuple(d.numpy() for d in torch.autograd.grad(loss, arrays))


def test_the_backward_is_that_of_autograd_and_however_written():

    check_answers("momentum_backward", [by_torch])
