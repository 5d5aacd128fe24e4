"""Chapter 02: figures, counts, and the exercises derived again, solved otherwise, answered wrongly."""

import numpy as np
import pytest
import torch
from judging import check_answers
from sympy import Rational, diff, exp, log, symbols

from handgrad.chapters.softmax_cross_entropy import counts, exercises, faults, figures
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


def test_every_fault_is_one():
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((3, 4, 5)), rng.integers(5, size=(3, 4))
    y[1, 2:], y[2, 1:] = -100, -100
    _, cache = cross_entropy(z, y, label_smoothing=0.2)
    dz = cross_entropy_backward(1.0, cache)
    np.testing.assert_allclose(faults.right(cache), dz, atol=1e-15)
    for name, fault in faults.FAULTS.items():
        assert np.abs(fault(cache) - dz).max() > 0.1 * np.abs(dz).max(), name


# The answers, derived a second time -------------------------------------------------------------------------


def test_the_z_loss():
    z = symbols("z_0:3", real=True)
    U = sum(map(exp, z))
    loss = -log(exp(z[1]) / U) + Rational(1, 7) * log(U) ** 2
    at = dict(zip(z, (Rational(1, 3), Rational(-1, 2), Rational(1, 5)), strict=True))
    for j in range(3):
        mine = exercises.z_loss_slope(exp(z[j]) / U, log(U), Rational(1, 7), int(j == 1))
        assert abs((diff(loss, z[j]) - mine).subs(at).evalf(30)) < 1e-25


def leaf(x):
    return torch.tensor(x, requires_grad=True)


def test_the_weighted_mean_is_that_of_torch():
    for case in exercises.WEIGHTED_DZ.cases:
        z, targets, w = case.inputs
        logits = leaf(z)
        flat = logits.reshape(-1, z.shape[-1]), torch.tensor(targets).reshape(-1)
        torch.nn.functional.cross_entropy(*flat, weight=torch.tensor(w)).backward()
        np.testing.assert_allclose(exercises.weighted_dz(z, targets, w), logits.grad, atol=1e-14)


def test_the_focal_loss_and_the_teacher_against_autograd():
    for case in exercises.FOCAL_DZ.cases:
        z, targets, gamma = case.inputs
        logits = leaf(z)
        r = logits.softmax(-1).gather(-1, torch.tensor(targets)[..., None])
        (-((1 - r) ** gamma) * r.log()).mean().backward()
        np.testing.assert_allclose(exercises.focal_dz(z, targets, gamma), logits.grad, atol=1e-12)
    for case in exercises.DISTILL_DZ.cases:
        z, teacher, tau = case.inputs
        logits, wanted = leaf(z), torch.tensor(teacher / tau).log_softmax(-1)
        rows = (logits / tau).log_softmax(-1).reshape(-1, z.shape[-1])
        divergence = torch.nn.functional.kl_div(
            rows, wanted.reshape(rows.shape), reduction="batchmean", log_target=True
        )
        (tau**2 * divergence).backward()
        np.testing.assert_allclose(exercises.distill_dz(z, teacher, tau), logits.grad, atol=1e-12)


def test_the_pairs_against_autograd():
    for case in exercises.PAIR_GRADIENTS.cases:
        u, v, tau = case.inputs
        leaves, right = [leaf(u), leaf(v)], torch.arange(len(u))
        s = leaves[0] @ leaves[1].T / tau
        both = [torch.nn.functional.cross_entropy(x, right) for x in (s, s.T)]
        (sum(both) / 2).backward()
        for mine, theirs in zip(exercises.pair_gradients(u, v, tau), leaves, strict=True):
            np.testing.assert_allclose(mine, theirs.grad, atol=1e-12)


def test_the_cases_hold_padding_at_the_start_between_and_at_the_end():
    padded = [case.inputs[1] == -100 for case in exercises.WEIGHTED_DZ.cases]
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


# Wrong answers ----------------------------------------------------------------------------------------------


def weighted(total=lambda weight, counted: weight.sum(), axis=-1, row=True, padding=0.0):
    """The weighted mean as a learner writes it, with one thing wrong."""

    def dz(z, targets, w):
        counted = targets != -100
        y = np.where(counted, targets, 0)
        gap = soft(z, axis) - np.eye(len(w))[y]
        weight = np.where(counted, w[y], padding * w[y])
        return (weight[..., None] if row else counted[..., None] * w) * gap / total(weight, counted)

    return dz


def without_maximum(total):
    def dz(z, targets, w):
        counted = targets != -100
        y = np.where(counted, targets, 0)
        e, weight = np.exp(z), w[y] * counted
        gap = e / e.sum(axis=-1, keepdims=True) - np.eye(len(w))[y]
        return weight[..., None] * gap / total(weight, counted)

    return dz


def until_padding(z, targets, w):
    dz, total = np.zeros(z.shape), 0.0
    for b, t in np.ndindex(*targets.shape):
        if -100 in targets[b, : t + 1]:
            continue  # the inner loop has ended with `break`
        y = targets[b, t]
        dz[b, t] = w[y] * (soft(z[b, t]) - np.eye(len(w))[y])
        total += w[y]
    return dz / total


def only_the_first(z, targets, w):
    whole, dz = weighted()(z, targets, w), np.zeros(z.shape)
    for b, n in enumerate((targets != -100).sum(axis=1)):
        dz[b, :n] = whole[b, :n]
    return dz


def zero_is_padding(z, targets, w):
    return weighted_by_loops(z, np.where(targets > 0, targets, -100), w)


def shared(shares):
    """p - q, times a wrong number for each position that is not padding."""

    def dz(z, targets, w):
        counted = targets != -100
        y = np.where(counted, targets, 0)
        gap = (soft(z) - np.eye(len(w))[y]) * counted[..., None]
        return shares(w[y] * counted, z, targets, w)[..., None] * gap

    return dz


def by_the_weights_so_far(weight, z, targets, w):
    return weight / np.cumsum(weight).reshape(weight.shape)


def by_the_most_probable(weight, z, targets, w):
    mine = w[z.argmax(-1)]
    return mine / mine[targets != -100].sum()


def zero_for_nan(z, targets, w):
    e, y = np.exp(z), np.where(targets == -100, 0, targets)
    weight = w[y] * (targets != -100)
    gap = np.nan_to_num(e / e.sum(-1, keepdims=True)) - np.eye(len(w))[y]
    return gap * weight[..., None] / weight.sum()


def normalised(by):
    return lambda z, targets, w: weighted(lambda weight, counted: counted.sum())(z, targets, w / by(w))


def padding_keeps_p(weigh, total):
    def dz(z, targets, w):
        counted = targets != -100
        y = np.where(counted, targets, 0)
        q = np.eye(len(w))[y] * counted[..., None]
        weight = weigh(w[y], counted)
        return weight[..., None] * (soft(z) - q) / total(weight, counted)

    return dz


def focal(power=lambda gamma: gamma - 1, sign=1, through=1, logarithm=np.log, of=None):
    def dz(z, targets, gamma):
        prob, one_hot = soft(z), np.eye(z.shape[-1])[targets]
        r = of(prob) if of else (prob * one_hot).sum(-1, keepdims=True)
        slope = sign * gamma * (1 - r) ** power(gamma) * logarithm(r) - (1 - r) ** gamma / r
        return slope * r**through * (one_hot - prob) / targets.size

    return dz


def focal_easy(z, targets, gamma):
    prob, one_hot = soft(z), np.eye(z.shape[-1])[targets]
    r = (prob * one_hot).sum(-1, keepdims=True)
    slope = -gamma * r ** (gamma - 1) * np.log(r) - r ** (gamma - 1)
    return slope * r * (one_hot - prob) / targets.size


def focal_by(through):
    """The right derivative by r = p_y, through a wrong derivative of the softmax."""

    def dz(z, targets, gamma):
        prob, one_hot = soft(z), np.eye(z.shape[-1])[targets]
        r = (prob * one_hot).sum(-1, keepdims=True)
        slope = gamma * (1 - r) ** (gamma - 1) * np.log(r) - (1 - r) ** gamma / r
        return slope * through(prob, one_hot, r) / targets.size

    return dz


def focal_times(number):
    """p - q times a wrong number for each position."""

    def dz(z, targets, gamma):
        prob, one_hot = soft(z), np.eye(z.shape[-1])[targets]
        r = (prob * one_hot).sum(-1, keepdims=True)
        return number(r, gamma) * (prob - one_hot) / targets.size

    return dz


def largest(prob):
    return prob.max(-1, keepdims=True)


def distilled(power, student=1, m=lambda z: z[..., 0].size):
    return lambda z, teacher, tau: tau**power * (soft(z / tau**student) - soft(teacher / tau)) / m(z)


def preferred(teacher):
    return np.eye(teacher.shape[-1])[teacher.argmax(-1)]


def distilled_by(gap):
    return lambda z, teacher, tau: gap(z, teacher, tau) / z[..., 0].size


def terms(z, teacher, tau):
    q = soft(teacher / tau)
    return tau**2 * q * np.log(q / soft(z / tau))


def by_the_teacher(z, teacher, tau):
    q = soft(teacher / tau)
    logarithm = np.log(q / soft(z / tau))
    return tau * q * (logarithm - (q * logarithm).sum(-1, keepdims=True))


def through_sum_alone(z, teacher, tau):
    prob = soft(z / tau)
    dp = -(tau**2) * soft(teacher / tau) / prob
    return prob * (dp - dp.sum(-1, keepdims=True)) / tau


def paired(rows=0.5, columns=0.5, mean=True, over=1):
    def backward(u, v, tau):
        s, one = u @ v.T / tau, np.eye(len(u))
        ds = (rows * (soft(s, 1) - one) + columns * (soft(s, 0) - one)) / (len(u) if mean else 1)
        return ds @ v / tau**over, ds.T @ u / tau**over

    return backward


def paired_apart(of_u, of_v):
    """du and dv from some of the two softmaxes only."""

    def backward(u, v, tau):
        s = u @ v.T / tau
        parts = {axis: (soft(s, axis) - np.eye(len(u))) / (2 * len(u) * tau) for axis in (0, 1)}
        return sum(parts[axis] for axis in of_u) @ v, sum(parts[axis] for axis in of_v).T @ u

    return backward


def right_ds(u, v, tau):
    s = u @ v.T / tau
    return (soft(s, 0) + soft(s, 1) - 2 * np.eye(len(u))) / (2 * len(u) * tau)


def last(before, now):
    return now


def paired_by_turns(into_u, into_v, wanted=lambda i, j: True):
    """A loop over all scores that puts each gradient to those before."""

    def backward(u, v, tau):
        ds, du, dv = right_ds(u, v, tau), np.zeros_like(u), np.zeros_like(v)
        for i, j in np.ndindex(*ds.shape):
            if wanted(i, j):
                du[i] = into_u(du[i], ds[i, j] * v[j])
                dv[j] = into_v(dv[j], ds[i, j] * u[i])
        return du, dv

    return backward


def paired_by_sums(u, v, tau):
    ds = right_ds(u, v, tau)
    return ds.sum(1)[:, None] * v, ds.sum(0)[:, None] * u


def one_over(e, axis):
    """What makes of p - q the derivative by p, -q/p."""
    one = np.eye(len(e))
    return one - one / (e / e.sum(axis, keepdims=True))


def paired_by(softmaxes):
    def backward(u, v, tau):
        s, one = u @ v.T / tau, np.eye(len(u))
        rows, columns = softmaxes(np.exp(s))
        ds = (rows + columns - 2 * one) / 2 / len(u)
        return ds @ v / tau, ds.T @ u / tau

    return backward


def branch_if_equal(p, log_U, lam, delta):
    return (p - 1 if delta == 1 else p) + 2 * lam * log_U * p


def branch_if_true(p, log_U, lam, delta):
    return (p - 1 if delta else p) + 2 * lam * log_U * p


def masked_total(weight, counted):
    return weight[counted].sum()


WRONG = [
    ("z_loss_slope", branch_if_equal, "other tokens alone. `delta` is a symbol", "^$"),
    ("z_loss_slope", branch_if_true, "right token alone. `delta` is a symbol", "^$"),
    ("z_loss_slope", p - delta + 2 * lam * log_U, "inner derivative", ""),
    ("z_loss_slope", p - delta + lam * log_U * p, "2 of the square", ""),
    ("z_loss_slope", p - delta + 2 * lam * p / log_U, "divided", "`log_U` divides"),
    ("z_loss_slope", p - delta + 2 * lam * log_U * exp(-log_U), "not 1/U", ""),
    ("z_loss_slope", p - delta + 2 * lam * log_U * p * exp(log_U), "is the derivative of U", "^$"),
    ("z_loss_slope", -log(p) + lam * log_U**2, "This is the loss", "^$"),
    ("z_loss_slope", p + delta + 2 * lam * log_U * p, "A sign is wrong", "`delta`"),
    ("z_loss_slope", p - 1 + delta + 2 * lam * log_U * p, "turned round", ""),
    ("z_loss_slope", (p - 1) * delta + 2 * lam * log_U * p, "factor too many", "`delta`"),
    ("weighted_dz", weighted(lambda weight, counted: counted.sum()), "number m of targets", ""),
    ("weighted_dz", weighted(lambda weight, counted: counted.size), "number of all positions", ""),
    (
        "weighted_dz",
        weighted(lambda weight, counted: weight.sum() / counted.sum()),
        "mean of the weights",
        "",
    ),
    ("weighted_dz", weighted(lambda weight, counted: len(weight)), "number of sequences", ""),
    ("weighted_dz", weighted(lambda weight, counted: counted.sum(), row=False), "stand at the columns", ""),
    ("weighted_dz", weighted(row=False), "stand at the columns", ""),
    ("weighted_dz", weighted(axis=1), "runs along the positions", ""),
    ("weighted_dz", weighted(padding=1.0), "Padding gets a gradient", ""),
    ("weighted_dz", without_maximum(masked_total), "^The exponentials overflow where", "^$"),
    (
        "weighted_dz",
        without_maximum(lambda weight, counted: counted.sum()),
        "number m of targets.*Besides, the exponentials overflow",
        "^$",
    ),
    ("weighted_dz", shared(lambda weight, z, y, w: weight / weight.sum(0)), "same position of all", ""),
    ("weighted_dz", shared(by_the_weights_so_far), "inside the loop", ""),
    ("weighted_dz", shared(lambda weight, z, y, w: np.ones(y.shape)), "divided by itself", ""),
    ("weighted_dz", shared(by_the_most_probable), "most probable token", ""),
    (
        "weighted_dz",
        shared(lambda weight, z, y, w: weight / w[y % len(w)].sum()),
        "padding enters the mean",
        "",
    ),
    ("weighted_dz", lambda z, y, w: weighted()(w * z, y, w), "weights multiply the logits", ""),
    ("weighted_dz", lambda z, y, w: weighted()(np.clip(z, -500, 500), y, w), "^Wrong only in.*its own l", ""),
    ("weighted_dz", zero_for_nan, "^Wrong only in “logits near 1000”.*its own largest", "^$"),
    ("weighted_dz", until_padding, "follows the first padding.*`continue`", "^$"),
    ("weighted_dz", only_the_first, "taken to stand at the end", "^$"),
    ("weighted_dz", zero_is_padding, "Token 0 is taken for padding", ""),
    ("weighted_dz", normalised(np.sum), "over the vocabulary, and then the number", ""),
    ("weighted_dz", normalised(np.mean), "to the mean 1, and then the number", ""),
    ("weighted_dz", padding_keeps_p(lambda w, c: w, masked_total), "but p is not", ""),
    ("weighted_dz", padding_keeps_p(lambda w, c: np.where(c, w, 1), masked_total), "but p is not", ""),
    ("weighted_dz", padding_keeps_p(lambda w, c: w, lambda w, c: w.sum()), "p and the weight are not", ""),
    ("focal_dz", focal(of=largest), "^r is taken as the largest", "^$"),
    ("focal_dz", focal(sign=0, of=largest), "largest probability, and .* constant", "^$"),
    ("focal_dz", focal_times(lambda r, g: g * (1 - r) ** (g - 1)), "times that of the logarithm", ""),
    ("focal_dz", focal_times(lambda r, g: -g * (1 - r) ** (g - 1)), "times that of the logarithm", ""),
    ("focal_dz", focal_times(lambda r, g: g * r * (1 - r) ** (g - 1)), "logits alone", ""),
    ("focal_dz", focal_times(lambda r, g: g * (1 - r) ** (g - 1) * np.log(r)), "without its factor r", ""),
    ("focal_dz", focal(logarithm=lambda r: np.log(1 - r)), "stands where ln r should", ""),
    ("focal_dz", focal(lambda gamma: gamma), "exponent has not gone down", ""),
    ("focal_dz", focal(lambda gamma: gamma - 2), "A number is wrong", "of_factor"),
    ("focal_dz", focal(sign=-1), "sign of the path through the factor", ""),
    ("focal_dz", focal(sign=0), "treated as a constant", ""),
    ("focal_dz", focal(through=0), "lacks its factor p_y", ""),
    ("focal_dz", focal(through=2), "once too often|factor too many", "`r`"),
    ("focal_dz", focal(logarithm=np.log2), "base 2", ""),
    ("focal_dz", focal_easy, "stands with p_y", "^$"),
    ("focal_dz", focal_by(lambda p, one_hot, r: r * one_hot), "sum is missing", "^$"),
    ("focal_dz", focal_by(lambda p, one_hot, r: p * (one_hot - 1)), "In the sum p is missing", "^$"),
    ("focal_dz", focal_by(lambda p, one, r: p * (one - 1 / p.shape[-1])), "plain mean of dp", "^$"),
    ("focal_dz", focal_times(lambda r, g: (g + 1) * (1 - r) ** g), "comes from", "^$"),
    ("focal_dz", focal_by(lambda p, one_hot, r: p * one_hot - r), "is not multiplied by p", "^$"),
    ("focal_dz", focal_by(lambda p, one_hot, r: r * (1 - p)), "1 stands where δ should", "^$"),
    ("focal_dz", focal_by(lambda p, one_hot, r: r * np.where(one_hot, 1 - p, p)), "the other tokens: ", "^$"),
    ("distill_dz", distilled_by(terms), "terms of the loss", "^$"),
    ("distill_dz", distilled_by(lambda z, y, t: -(t**2) * soft(y / t) / soft(z / t)), "derivative by p,", ""),
    ("distill_dz", distilled_by(lambda z, y, t: -soft(y / t) / soft(z / t)), "by p, .* no τ is in front", ""),
    ("distill_dz", distilled_by(lambda z, y, t: t * (1 - soft(y / t) / soft(z / t))), "This is dp - Σ", ""),
    ("distill_dz", distilled_by(through_sum_alone), "In the sum p is missing", "^$"),
    ("distill_dz", distilled_by(by_the_teacher), "by the teacher's logits", "^$"),
    ("distill_dz", distilled_by(lambda z, y, t: t * (soft(z / t) - y / t)), "logits over τ stand", "^$"),
    (
        "distill_dz",
        distilled_by(lambda z, y, t: t * (soft(z / t, None) - soft(y / t, None))),
        "whole array",
        "",
    ),
    ("distill_dz", distilled(0, m=np.size), "all B · T · V entries, and no τ", "^$"),
    ("distill_dz", distilled(2), "1/τ is missing", ""),
    ("distill_dz", distilled(0), "No τ is left", ""),
    ("distill_dz", distilled(-1), "τ² in front of the loss is missing", ""),
    ("distill_dz", distilled(-2), "Divided by τ²", ""),
    ("distill_dz", distilled(1, student=0), "student has no temperature", ""),
    ("distill_dz", distilled(1, m=len), "over the sequences only", ""),
    ("distill_dz", distilled(2, m=lambda z: 1), "1/τ is missing, and so is the mean", ""),
    ("distill_dz", distilled_by(lambda z, y, tau: soft(z) - soft(y)), "not used at all, or it stands", ""),
    ("distill_dz", distilled_by(lambda z, y, tau: soft(z) - preferred(y)), "row, and there is no", ""),
    ("distill_dz", distilled_by(lambda z, y, tau: tau * (soft(z / tau) - 1)), "1 stands where q should", ""),
    ("pair_gradients", paired_apart([1], [0, 1]), "^Only the rows reach du.*dv is right", "^$"),
    ("pair_gradients", paired_apart([0], [0, 1]), "^Only the columns reach du.*dv is right", "^$"),
    ("pair_gradients", paired_apart([0, 1], [1]), "^Only the rows reach dv.*du is right", "^$"),
    ("pair_gradients", paired_apart([0, 1], [0]), "^Only the columns reach dv.*du is right", "^$"),
    ("pair_gradients", paired_apart([0], [1]), "Only the columns reach du.*Only the rows reach dv", "^$"),
    ("weighted_dz", lambda z, y, w: cross_entropy(z, y)[0], "A loss is one number", ""),
    ("distill_dz", lambda z, y, tau: terms(z, y, tau).sum() / z[..., 0].size, "A loss is one number", ""),
    ("pair_gradients", lambda u, v, tau: cross_entropy(u @ v.T, np.arange(len(u)))[0], "A loss is one", ""),
    ("pair_gradients", paired(1, 0), "Only the rows", ""),
    ("pair_gradients", paired(0, 0.5), "Only the columns, and halved", ""),
    ("pair_gradients", paired(1, 1), "here they are added", ""),
    ("pair_gradients", paired(1, 1, mean=False), "Both the ½ and the 1/S", ""),
    ("pair_gradients", paired(mean=False), "1/S of the means", ""),
    ("pair_gradients", paired_by(lambda e: (e / e.sum(1), e / e.sum(0))), "rows lack `keepdims", "^$"),
    (
        "pair_gradients",
        paired_by(lambda e: (e / e.sum(1)[:, None], e / e.sum(0)[:, None])),
        "sums of the columns divide the rows",
        "",
    ),
    ("pair_gradients", paired_by(lambda e: (e / e.sum(1), e / e.sum(0)[:, None])), "Both sums divide", ""),
    ("pair_gradients", paired(1, 0.5), "½ reaches only the columns", "^$"),
    ("pair_gradients", paired(0.5, 1), "½ reaches only the rows", "^$"),
    ("pair_gradients", paired_by_turns(np.add, np.add, lambda i, j: i != j), "The pairs are left out", "^$"),
    ("pair_gradients", paired_by_turns(last, last), "^du, dv: The last one wins", "^$"),
    ("pair_gradients", paired_by_turns(np.add, last), "^The last one wins.*du is right", "^$"),
    ("pair_gradients", paired_by_turns(last, np.add), "^The last one wins.*dv is right", "^$"),
    ("pair_gradients", lambda u, v, t: (t * right_ds(u, v, t), t * right_ds(u, v, t).T), "back to u", "^$"),
    ("pair_gradients", paired_by_sums, "ds is summed first", "^$"),
    ("pair_gradients", paired_by(lambda e: (one_over(e, 1), one_over(e, 0))), "by the probabilities", "^$"),
    ("pair_gradients", paired(over=0), "τ is missing from du and dv", ""),
    ("pair_gradients", paired(over=0.5), "power or a root", "`tau`"),
]


@pytest.mark.parametrize("name, answer, kind, where", WRONG, ids=range(len(WRONG)))
def test_a_mistake_is_told_rightly(name, answer, kind, where):
    check_answers(name, [answer], wrong=(kind, where))
