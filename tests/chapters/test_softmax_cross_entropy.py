"""Chapter 02: figures, counts, and the exercises derived again and solved otherwise."""

import numpy as np
import pytest
import torch
from judging import check_answers, solution
from sympy import Rational, diff, exp, log, symbols

from handgrad.chapters.softmax_cross_entropy import counts, figures
from handgrad.chapters.softmax_cross_entropy.twin import torch_train
from handgrad.course import judge
from handgrad.manual import count_pairs
from handgrad.ops import cross_entropy, cross_entropy_backward, softmax

# The figures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [figures.integers, figures.layer])
def test_the_graphs_find_room_for_their_texts(draw):
    assert draw().axes


def test_the_integers_in_the_picture_are_those_of_the_chain_rule():
    u = np.array([6.0, 3.0, 1.0])
    dp = np.array([0.0, -100.0, 0.0])
    direct, through_sum = dp / u.sum(), -(dp * u).sum() / u.sum() ** 2
    texts = {text.get_text() for text in figures.integers().axes[0].texts}
    assert direct.tolist() == [0, -10, 0] and through_sum == 3
    assert {"(0, −10, 0)", "3 to each", "(0, −100, 0)", "(6, 3, 1)/10"} <= texts
    _, cache = cross_entropy(np.log(u)[None], np.array([1]))
    np.testing.assert_allclose(u * (direct + through_sum), cross_entropy_backward(30.0, cache)[0])


# Counting ---------------------------------------------------------------------------------------------------


def text(length=200, V=5):
    return np.random.default_rng(0).choice(V, size=length, p=np.arange(1, V + 1) / (V * (V + 1) / 2))


def test_pairs_are_counted_in_order():
    assert count_pairs([0, 1, 1, 0, 1], 3).tolist() == [[0, 2, 0], [1, 1, 0], [0, 0, 0]]
    with pytest.raises(ValueError, match="tokens: expected integers 0 … 2"):
        count_pairs([0, 3], 3)


def test_no_conditional_has_a_smaller_loss_than_the_counted_one():
    n = count_pairs(text(), 5)
    best, rng = counts.bigram_loss(n), np.random.default_rng(1)
    for _ in range(50):
        nearby, _ = softmax(np.log(counts.conditional(n, 0.01)) + 0.1 * rng.standard_normal((5, 5)))
        assert counts.mean_cost(n, nearby) > best
    assert best < counts.unigram_loss(n) < np.log(5)


def test_the_loss_of_counts_is_the_shipped_loss_of_the_text():
    tokens, z = text(), np.random.default_rng(2).standard_normal((5, 5))
    shipped, _ = cross_entropy(z[tokens[:-1]], tokens[1:])
    np.testing.assert_allclose(counts.mean_cost(count_pairs(tokens, 5), softmax(z)[0]), shipped)


def test_what_never_occurs_costs_nothing_and_what_was_never_counted_everything():
    n = count_pairs([0, 1, 0, 1, 2], 4)
    assert counts.bigram_loss(n) == pytest.approx(2 / 4 * np.log(2))
    assert counts.bigram_loss(n, of=count_pairs([2, 0], 4)) == pytest.approx(np.log(4))
    assert counts.bigram_loss(n, of=count_pairs([0, 2], 4)) == np.inf
    assert counts.bigram_loss(n, 0.5, count_pairs([0, 2], 4)) == pytest.approx(-np.log(0.5 / 4))


def test_leave_one_out_is_what_its_name_says():
    tokens = text(40)
    n, cost = count_pairs(tokens, 5), 0.0
    for c, v in zip(tokens[:-1], tokens[1:], strict=True):
        others = n.copy()
        others[c, v] -= 1
        cost -= np.log(counts.conditional(others, 0.3)[c, v]) / 39
    assert counts.leave_one_out_loss(n, 0.3) == pytest.approx(cost)
    best = counts.best_added(n)
    assert all(counts.leave_one_out_loss(n, best) <= counts.leave_one_out_loss(n, a) for a in counts.ADDED)


def test_torch_descends_on_the_loss_of_the_text():
    n = count_pairs(text(), 5)
    rates = n.sum() / n.sum(axis=1, keepdims=True)
    losses = torch_train(n, rates, 3)
    assert losses[0] == pytest.approx(np.log(5)) and losses[2] < losses[1] < losses[0]
    p = softmax(-(0.2 - counts.conditional(n)))[0]  # after one step at the rate 1 / n_c
    assert losses[1] == pytest.approx(counts.mean_cost(n, p))


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


def test_the_weighted_mean_is_that_of_torch():
    for case in judge.find("weighted_dz").cases:
        z, targets, w = case.inputs
        logits = leaf(z)
        flat = logits.reshape(-1, z.shape[-1]), torch.tensor(targets).reshape(-1)
        torch.nn.functional.cross_entropy(*flat, weight=torch.tensor(w)).backward()
        np.testing.assert_allclose(solution("weighted_dz")(z, targets, w), logits.grad, atol=1e-14)


def test_the_focal_loss_and_the_teacher_against_autograd():
    for case in judge.find("focal_dz").cases:
        z, targets, gamma = case.inputs
        logits = leaf(z)
        r = logits.softmax(-1).gather(-1, torch.tensor(targets)[..., None])
        (-((1 - r) ** gamma) * r.log()).mean().backward()
        np.testing.assert_allclose(solution("focal_dz")(z, targets, gamma), logits.grad, atol=1e-12)
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


def soft(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def weighted_by_loops(z, targets, w):
    dz, total = np.zeros_like(z), 0.0
    for place in np.ndindex(*targets.shape):
        if targets[place] != -100:
            gap = soft(z[place])
            gap[targets[place]] -= 1
            dz[place] = w[targets[place]] * gap
            total += w[targets[place]]
    return dz / total


def weighted_by_shipped_lines(z, targets, w):
    _, cache = cross_entropy(z, targets)
    share = np.append(w, 0.0)[np.where(targets == -100, -1, targets)]
    return cross_entropy_backward(1.0, cache) * cache["m"] * share[..., None] / share.sum()


def focal_as_a_factor(z, targets, gamma):
    p = soft(z)
    r = np.take_along_axis(p, targets[..., None], -1)
    factor = (1 - r) ** gamma - gamma * r * (1 - r) ** (gamma - 1) * np.log(r)
    p -= np.arange(z.shape[-1]) == targets[..., None]
    return factor * p / (z.shape[0] * z.shape[1])


def focal_through_softmax(z, targets, gamma):
    p = soft(z)
    one_hot = targets[..., None] == np.arange(z.shape[-1])
    slope = gamma * (1 - p) ** (gamma - 1) * np.log(p) - (1 - p) ** gamma / p
    dp = np.where(one_hot, slope, 0) / targets.size
    return p * (dp - (p * dp).sum(-1, keepdims=True))


def distill_by_loops(z, teacher, tau):
    dz, (B, T, _) = np.zeros_like(z), z.shape
    for b in range(B):
        for t in range(T):
            dz[b, t] = (soft(z[b, t] / tau) - soft(teacher[b, t] / tau)) * tau**2 / (tau * B * T)
    return dz


def distill_through_softmax(z, teacher, tau):
    p, q = soft(z / tau), soft(teacher / tau)
    dp = -(tau**2) * q / p / (z.shape[0] * z.shape[1])
    return p * (dp - (p * dp).sum(-1, keepdims=True)) / tau


def pairs_by_shipped_lines(u, v, tau):
    s, y = u @ v.T / tau, np.arange(len(u))
    over_rows, over_columns = (cross_entropy_backward(0.5, cross_entropy(x, y)[1]) for x in (s, s.T))
    ds = over_rows + over_columns.T
    return np.einsum("ij,jk->ik", ds, v) / tau, np.einsum("ij,ik->jk", ds, u) / tau


def pairs_by_halves(u, v, tau):
    s, one = np.einsum("ik,jk->ij", u, v) / tau, np.identity(len(u))
    rows, columns = soft(s, 1) - one, soft(s.T, 1) - one
    n = 2 * tau * len(u)
    return [(rows @ v + columns.T @ v) / n, (rows.T @ u + columns @ u) / n]


p, log_U, lam, delta = symbols("p log_U lam delta")
RIGHT = {
    "z_loss_slope": (
        lambda p, log_U, lam, delta: p * (1 + 2 * lam * log_U) - delta,
        p - delta + lam * diff(log_U**2, log_U) * p,
    ),
    "weighted_dz": (weighted_by_loops, weighted_by_shipped_lines),
    "focal_dz": (focal_as_a_factor, focal_through_softmax),
    "distill_dz": (distill_by_loops, distill_through_softmax),
    "pair_gradients": (pairs_by_shipped_lines, pairs_by_halves),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_accepted_however_written(name):
    check_answers(name, RIGHT[name])


def test_every_exercise_has_been_solved_otherwise():
    assert set(RIGHT) == set(judge.chapters()["softmax_cross_entropy"])
