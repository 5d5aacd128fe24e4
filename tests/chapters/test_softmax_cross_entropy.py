"""Chapter 02: a figure, and the exercises derived again."""

import numpy as np
import torch
from judging import solution
from sympy import Rational, diff, exp, log, symbols

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


def leaf(x):
    return torch.tensor(x, requires_grad=True)


def test_the_perplexity_of_text_among_padding():
    p = np.array([0.5, 0.1, 0.25, 0.9, 0.9])  # three of the text, two pads
    of_all, of_text = np.exp(-np.log(p).mean()), np.exp(-np.log(p[:3]).mean())
    mine = solution("text_perplexity")(symbols("P"), 3, 2, symbols("c"))
    assert abs(mine.subs({"P": of_all, "c": -np.log(0.9)}) - of_text) < 1e-12


def test_the_weighted_mean_is_that_of_torch():
    for case in judge.find("weighted_dz").cases:
        z, targets, w = case.inputs
        logits = leaf(z)
        flat = logits.reshape(-1, z.shape[-1]), torch.tensor(targets).reshape(-1)
        torch.nn.functional.cross_entropy(*flat, weight=torch.tensor(w)).backward()
        np.testing.assert_allclose(solution("weighted_dz")(z, targets, w), logits.grad, atol=1e-14)


def test_the_teacher_against_autograd():
    for case in judge.find("distill_dz").cases:
        z, teacher, tau = case.inputs
        logits, wanted = leaf(z), torch.tensor(teacher / tau).log_softmax(-1)
        rows = (logits / tau).log_softmax(-1).reshape(-1, z.shape[-1])
        divergence = torch.nn.functional.kl_div(
            rows, wanted.reshape(rows.shape), reduction="batchmean", log_target=True
        )
        (tau**2 * divergence).backward()
        np.testing.assert_allclose(solution("distill_dz")(z, teacher, tau), logits.grad, atol=1e-12)


def test_the_pairs_against_autograd():
    for case in judge.find("pair_gradients").cases:
        u, v, tau = case.inputs
        leaves, right = [leaf(u), leaf(v)], torch.arange(len(u))
        s = leaves[0] @ leaves[1].T / tau
        both = [torch.nn.functional.cross_entropy(x, right) for x in (s, s.T)]
        (sum(both) / 2).backward()
        for mine, theirs in zip(solution("pair_gradients")(u, v, tau), leaves, strict=True):
            np.testing.assert_allclose(mine, theirs.grad, atol=1e-12)


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


# Right answers, written otherwise ---------------------------------------------------------------------------


p, log_U, lam, delta = symbols("p log_U lam delta")
