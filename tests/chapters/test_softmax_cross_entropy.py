"""Chapter 02: a figure, and the exercises derived again."""

import numpy as np
import torch
from judging import gradients, solution
from sympy import Rational, diff, exp, log, symbols
from torch.nn.functional import cross_entropy as cross_entropy_of_torch
from torch.nn.functional import kl_div

from handgrad.chapters.softmax_cross_entropy import figures
from handgrad.course import judge
from handgrad.ops import cross_entropy, cross_entropy_backward

# The figure -------------------------------------------------------------------------------------------------


def test_the_integers_in_the_picture_are_those_of_the_chain_rule():
    u = np.array([6.0, 3.0, 1.0])
    dp = np.array([0.0, -100.0, 0.0])
    direct, through_sum = dp / u.sum(), -(dp * u).sum() / u.sum() ** 2
    texts = {text.get_text() for text in figures.integers().axes[0].texts}
    assert direct.tolist() == [0, -10, 0] and through_sum == 3
    assert {"(0, −10, 0)", "3 to each", "(0, −100, 0)", "(6, 3, 1)/10"} <= texts
    _, cache = cross_entropy(np.log(u)[None], np.array([1]))
    dz = cross_entropy_backward(30.0, cache)[0]
    np.testing.assert_allclose(u * (direct + through_sum), dz)
    assert dz.round(9).tolist() == [18, -21, 3] and "(18, −21, 3)" in texts


# The answers, derived a second time -------------------------------------------------------------------------


def test_the_z_loss():
    z = symbols("z_0:3", real=True)
    U = sum(map(exp, z))
    loss = -log(exp(z[1]) / U) + Rational(1, 7) * log(U) ** 2
    at = dict(zip(z, (Rational(1, 3), Rational(-1, 2), Rational(1, 5)), strict=True))
    for j in range(3):
        mine = solution("z_loss_slope")(exp(z[j]) / U, log(U), Rational(1, 7), int(j == 1))
        assert abs((diff(loss, z[j]) - mine).subs(at).evalf(30)) < 1e-25


def test_the_perplexity_of_text_among_padding():
    p = np.array([0.5, 0.1, 0.25, 0.9, 0.9])  # three of the text, two pads
    of_all, of_text = np.exp(-np.log(p).mean()), np.exp(-np.log(p[:3]).mean())
    mine = solution("text_perplexity")(symbols("P"), 3, 2, symbols("c"))
    assert abs(mine.subs({"P": of_all, "c": -np.log(0.9)}) - of_text) < 1e-12


def weighted_loss(z, targets, w):
    return cross_entropy_of_torch(z.flatten(0, 1), targets.flatten(), weight=w)


def distill_loss(z, teacher, tau):
    rows, wanted = ((x / tau).log_softmax(-1).flatten(0, 1) for x in (z, teacher))
    return tau**2 * kl_div(rows, wanted, reduction="batchmean", log_target=True)


def pair_loss(u, v, tau):
    s, right = u @ v.T / tau, torch.arange(len(u))
    return (cross_entropy_of_torch(s, right) + cross_entropy_of_torch(s.T, right)) / 2


test_the_answers_are_the_gradients = gradients(
    ("weighted_dz", weighted_loss, "z"),
    ("distill_dz", distill_loss, "z"),
    ("pair_gradients", pair_loss, "u v"),
)


def test_the_cases_hold_padding_at_the_start_between_and_at_the_end():
    padded = [case.inputs[1] == -100 for case in judge.find("weighted_dz").cases]
    assert any(len(set(rows.sum(axis=1))) > 1 for rows in padded)
    assert not any(rows.all(axis=1).any() or rows.all(axis=0).any() for rows in padded)
    kinds = {word for rows in padded for row in rows for word in where_padding_stands(row)}
    assert kinds == {"start", "between", "end"}


def where_padding_stands(row):
    counted = np.flatnonzero(~row)
    for t in np.flatnonzero(row):
        yield "start" if t < counted[0] else "end" if t > counted[-1] else "between"
