"""Chapter 01: its figures and numbers; its exercises derived again, solved otherwise, answered wrongly."""

import mpmath
import numpy as np
import pytest
import torch
from judging import check_answers
from sympy import Rational, diff, solve, sqrt, symbols

from handgrad.chapters.chain_rule import compare, examples, exercises, faults, figures, softplus, vowels
from handgrad.chapters.chain_rule.slopes import central_difference, complex_step
from handgrad.course import judge
from handgrad.ops.normalization import layer_norm_backward
from handgrad.ops.softmax import softmax, softmax_backward

# The figures and their numbers ------------------------------------------------------------------------------


def test_the_tables_show_the_integers_they_are_given():
    up, down = {"c": [[2, 1]], "u": [[-1, 3], [1, 0]]}, {"dc": [[-6, 16]], "du": [[-2, -12], [2, 0]]}
    texts = [text.get_text() for text in figures.tables(up, down, ["copy"], ["sum"]).axes[0].texts]
    assert {"c", "u", "dc", "du", "copy", "sum", "−12", "16"} <= set(texts)


def test_the_graph_finds_room_for_its_texts():
    assert figures.layer().axes


def test_the_made_up_loss_has_the_slopes_of_its_lines():
    y, h = np.array([11.0, 10.0]), 1e-5
    for k, slope in enumerate(examples.gradient_above(y)):
        e = h * np.eye(2)[k]
        assert abs((examples.above(y + e) - examples.above(y - e)) / (2 * h) - slope) < 1e-9
    points, centre = np.array([[1, 4], [3, 1], [5, 2]]), np.array([2, 1])
    np.testing.assert_array_equal(examples.sliding(points, centre, np.array([1.0])), [[11, 10]])


def test_ones_bring_nothing_back():
    for back in examples.returned(1.0)[1].values():
        assert np.abs(back).max() < 1e-15
    for back in examples.returned(0.0)[1].values():
        assert np.abs(back).max() > 0.1


def test_the_slope_and_the_third_derivative_of_softplus():
    with mpmath.workdps(40):
        f = lambda x: softplus.softplus(x, mpmath)  # noqa: E731
        assert abs(mpmath.diff(f, 1) - softplus.SLOPE) < 1e-25
        assert abs(mpmath.diff(f, 1, 3) - softplus.THIRD) < 1e-12
    assert abs(central_difference(np.sin, 0.3, 1e-5) - np.cos(0.3)) < 1e-9
    assert abs(complex_step(np.sin, 0.3, 1e-100) - np.cos(0.3)) < 1e-15


def test_every_fault_is_one():
    rng = np.random.default_rng(0)
    _, cache = softmax(np.concatenate([rng.normal(size=(2, 120)), np.full((2, 1), 20.0)], axis=1))
    da = rng.normal(size=(2, 121))
    right = softmax_backward(da, cache)
    for fault in (faults.zeros, faults.twice, faults.forgets_in_long_rows, faults.gives_up):
        assert np.abs(fault(da, cache) - right).max() > 1e-3 * np.abs(right).max(), fault
    little = np.abs(faults.a_little_long(da, cache) - right).max() / np.abs(right).max()
    assert abs(little - 1e-9) < 1e-12
    gamma = rng.normal(size=4)
    claimed, measured = compare.of_norm(faults.gamma_last, rng.normal(size=(3, 4)), gamma)
    assert compare.distance(claimed, measured) > 0.01
    assert faults.norm_dx is not layer_norm_backward and compare.LARGE.min() > 3


def test_the_pairs_of_the_gallery_agree_for_the_right_backward():
    rng = np.random.default_rng(0)
    dy, gamma = rng.normal(size=(3, 4)), rng.normal(size=4)
    assert compare.distance(*compare.of_softmax(softmax_backward, dy)) < 1e-8
    assert compare.distance(*compare.of_norm(faults.norm_dx, dy, gamma)) < 1e-8
    assert compare.distance(*compare.of_squares(faults.squares_dx, [1, 2])) < 1e-8


def test_the_vowels():
    x, q = vowels.vowels()
    assert x.shape == (854, 4) and set(np.unique(x)) == {0, 1} and q.sum() == 262
    text = vowels.characters()
    t = 5
    assert q[t] == (text[t + 2] in "aeiou")
    assert x[t].tolist() == [
        text[t + 1] in "aeiou",
        not text[t + 1].isalpha(),
        text[t] in "aeiou",
        not text[t].isalpha(),
    ]
    share = q.mean()
    alone = vowels.entropy_given(np.zeros((854, 1)), q)
    assert abs(alone + share * np.log(share) + (1 - share) * np.log(1 - share)) < 1e-12


# The answers, derived a second time -------------------------------------------------------------------------


def grads(y, dy, *leaves):
    return torch.autograd.grad(y, leaves, torch.tensor(dy))


def test_shared_and_weighted_against_autograd():
    rng = np.random.default_rng(0)
    dy, x = rng.normal(size=(2, 2, 3, 5))
    r, p = rng.normal(size=(2, 3)), rng.normal(size=(3, 5))
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, r, p)]
    theirs = grads(leaves[1][..., None] * leaves[0] + leaves[2], dy, *leaves)
    for mine, wanted in zip(exercises.shared_backward(dy, x, r), theirs, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-12)
    w, dy = rng.uniform(0.5, 2, (2, 3)), rng.normal(size=(2, 5))
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, w)]
    mean = (leaves[1][..., None] * leaves[0]).sum(1) / leaves[1].sum(1, keepdim=True)
    for mine, wanted in zip(
        exercises.weighted_mean_backward(dy, x, w), grads(mean, dy, *leaves), strict=True
    ):
        np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-12)


def test_the_best_step_is_the_minimum_of_the_bound():
    eta, f, f_2, h = symbols("eta f f_2 h", positive=True)
    (step,) = solve(diff(h / 2 * f_2 + 2 * eta * f / h, h), h)
    assert (step - exercises.best_step(eta, f, f_2)).simplify() == 0


def test_the_blind_direction_passes_and_is_the_nearest():
    rng = np.random.default_rng(0)
    v, wrong, right = rng.normal(size=(3, 2, 3, 4))
    d = exercises.blind_direction(v, wrong, right)
    assert abs(((wrong - right) * d).sum()) < 1e-12
    e = (wrong - right).ravel()
    _, _, rows = np.linalg.svd(e[None])
    plane = rows[1:]  # all directions perpendicular to the error
    np.testing.assert_allclose(plane.T @ (plane @ v.ravel()), d.ravel(), atol=1e-12)


@pytest.mark.parametrize("T, K", [(5, 3), (2, 4)])
def test_the_convolution_against_autograd(T, K):
    rng = np.random.default_rng(0)
    dy, x = rng.normal(size=(2, 2, T, 3))
    w = rng.normal(size=K)
    leaf, kernel = (torch.tensor(a, requires_grad=True) for a in (x, w))
    y = sum(
        kernel[k] * torch.cat([torch.zeros(2, k, 3, dtype=leaf.dtype), leaf[:, : T - k]], 1)
        for k in range(min(K, T))
    )
    for mine, wanted in zip(
        exercises.convolution_backward(dy, x, w), grads(y, dy, leaf, kernel), strict=True
    ):
        np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-12)


# Right answers, written otherwise ---------------------------------------------------------------------------


def shared_by_loops(dy, x, r):
    dx, dr, dp = np.zeros_like(x), np.zeros_like(r), np.zeros(x.shape[1:])
    for b, t, d in np.ndindex(*x.shape):
        dx[b, t, d] = dy[b, t, d] * r[b, t]
        dr[b, t] += dy[b, t, d] * x[b, t, d]
        dp[t, d] += dy[b, t, d]
    return dx, dr, dp


def shared_by_einsum(dy, x, r):
    return np.einsum("btd,bt->btd", dy, r), np.einsum("btd,btd->bt", dy, x), np.einsum("btd->td", dy)


def weighted_by_shares(dy, x, w):
    total = w.sum(1, keepdims=True)
    a = w / total
    da = np.einsum("bd,bsd->bs", dy, x)
    return np.einsum("bs,bd->bsd", a, dy), (da - (a * da).sum(1, keepdims=True)) / total


def weighted_by_quotient(dy, x, w):
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for b, s in np.ndindex(*w.shape):
        total, above = w[b].sum(), w[b] @ x[b]
        dx[b, s] = w[b, s] / total * dy[b]
        dw[b, s] = dy[b] @ (x[b, s] * total - above) / total**2
    return dx, dw


def blind_by_unit(v, wrong, right):
    n = (right - wrong) / np.linalg.norm(right - wrong)
    return v - np.vdot(n, v) * n


def blind_by_least_squares(v, wrong, right):
    e = (wrong - right).reshape(-1, 1)
    return v - (e @ np.linalg.lstsq(e, v.ravel())[0]).reshape(v.shape)


def convolution_by_slices(dy, x, w):
    dx, dw, T = np.zeros_like(x), np.zeros_like(w), x.shape[1]
    for k in range(min(len(w), T)):
        dx[:, : T - k] += w[k] * dy[:, k:]
        dw[k] = np.vdot(dy[:, k:], x[:, : T - k])
    return dx, dw


def convolution_by_entries(dy, x, w):
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for b, t, d in np.ndindex(*x.shape):
        for k in range(len(w)):
            if t - k >= 0:
                dx[b, t - k, d] += w[k] * dy[b, t, d]
                dw[k] += x[b, t - k, d] * dy[b, t, d]
    return dx, dw


eta, f, f_2 = symbols("eta f f_2")
RIGHT = {
    "shared_backward": (shared_by_loops, shared_by_einsum),
    "best_step": (
        lambda eta, f, f_2: (4 * eta * f / f_2) ** Rational(1, 2),
        2 * sqrt(eta) * sqrt(f) / sqrt(f_2),
    ),
    "weighted_mean_backward": (weighted_by_shares, weighted_by_quotient),
    "blind_direction": (blind_by_unit, blind_by_least_squares),
    "convolution_backward": (convolution_by_slices, convolution_by_entries),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_accepted_however_written(name):
    check_answers(name, RIGHT[name])


def test_every_exercise_has_been_solved_otherwise():
    assert set(RIGHT) == set(judge.chapters()["chain_rule"])


# Wrong answers that are on no list --------------------------------------------------------------------------


def shared(
    dx=lambda dy, x, r: r[..., None] * dy,
    dr=lambda dy, x, r: (dy * x).sum(-1),
    dp=lambda dy, x, r: dy.sum(0),
):
    """The three gradients as a learner writes them, with one thing wrong."""
    return lambda dy, x, r: (dx(dy, x, r), dr(dy, x, r), dp(dy, x, r))


def weighted(dx=None, dw=None):
    def backward(dy, x, w):
        W = w.sum(1, keepdims=True)
        a, g = (w / W)[..., None], dy[:, None]
        y = (a * x).sum(1, keepdims=True)
        return (
            a * g if dx is None else dx(W, a, y, g, x),
            ((x - y) * g).sum(-1) / W if dw is None else dw(W, a, y, g, x),
        )

    return backward


def blind(error=lambda w, r: w - r, share=lambda v, e: (v * e).sum() / (e * e).sum(), take=1):
    return lambda v, wrong, right: v - take * share(v, error(wrong, right)) * error(wrong, right)


def convolution(dx=None, dw=None):
    def backward(dy, x, w):
        right = convolution_by_slices(dy, x, w)
        return right[0] if dx is None else dx(dy, x, w), right[1] if dw is None else dw(dy, x, w)

    return backward


def overwritten(dy, x, w):
    dx, T = np.zeros_like(x), x.shape[1]
    for k in range(min(len(w), T)):
        dx[:, : T - k] = w[k] * dy[:, k:]
    return dx


def ring(dy, x, w):
    return sum(w[k] * np.roll(dy, -k, axis=1) for k in range(len(w)))


def later(dy, x, w):
    T = x.shape[1]
    return np.array([(dy[:, : T - k] * x[:, k:]).sum() if k < T else 0.0 for k in range(len(w))])


def lost_end(dy, x, w):
    dx, T = np.zeros_like(x), x.shape[1]
    for k in range(min(len(w), T)):
        dx[:, : T - k - 1] += w[k] * dy[:, k : T - 1]
    return dx


def full_only(dy, x, w):
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for t in range(len(w) - 1, x.shape[1]):
        for k in range(len(w)):
            dx[:, t - k] += w[k] * dy[:, t]
            dw[k] += (dy[:, t] * x[:, t - k]).sum()
    return dx, dw


def short(dy, x, w):
    dx, dw = convolution_by_slices(dy, x, w[:-1])
    return dx, np.append(dw, 0)


def mirrored(dy, x, w):
    dx = [w[k] * np.pad(dy, ((0, 0), (k, 0), (0, 0)))[:, : x.shape[1]] for k in range(len(w))]
    return sum(dx), later(dy, x, w)


def replaced(dy, x, w):
    for k in range(min(len(w), x.shape[1])):
        dx = np.zeros_like(x)
        dx[:, : x.shape[1] - k] = w[k] * dy[:, k:]
    return dx


def without_end(dy, x, w):
    dx = np.zeros_like(x)
    for s in range(x.shape[1] - len(w) + 1):
        for k in range(len(w)):
            dx[:, s] += w[k] * dy[:, s + k]
    return dx


def one_late(dy, x, w):
    return convolution_by_slices(dy, x, np.append(w, 0))[1][1:]


def still(dy, x, w):
    T = x.shape[1]
    return np.array([(dy[:, : T - k] * x[:, : T - k]).sum() if k < T else 0.0 for k in range(len(w))])


def at_the_end(dy, x, w):
    T = x.shape[1]
    return np.array([(dy[:, -1] * x[:, T - 1 - k]).sum() if k < T else 0.0 for k in range(len(w))])


def by_sequence(dy, x, w):
    return np.stack([convolution_by_slices(dy[b : b + 1], x[b : b + 1], w)[1] for b in range(len(x))], 1)


def minus_k(dy, x, w):
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for k in range(len(w)):
        dx[:, :-k] += w[k] * dy[:, k:]
        dw[k] = (dy[:, k:] * x[:, :-k]).sum()
    return dx, dw


def minus_k_dx(dy, x, w):
    dx = np.zeros_like(x)
    for k in range(len(w)):
        dx[:, :-k] += w[k] * dy[:, k:]
    return dx


def minus_k_dw(dy, x, w):
    return np.array([(dy[:, k:] * x[:, :-k]).sum() for k in range(len(w))])


def only(joined):
    """Loops over outputs t and lags k, in which only some of the pairs are joined."""

    def backward(dy, x, w):
        dx, dw, T = np.zeros_like(x), np.zeros_like(w), x.shape[1]
        for t in range(T):
            for k in range(min(len(w), t + 1)):
                if joined(t, k, T):
                    dx[:, t - k] += w[k] * dy[:, t]
                    dw[k] += (dy[:, t] * x[:, t - k]).sum()
        return dx, dw

    return backward


def solved(eta, f, f_2):
    h = symbols("h", positive=True)
    return solve(diff(h / 2 * f_2 + 2 * eta * f / h, h), h)


LEFT_OUT = {
    "he first token is left out": only(lambda t, k, T: t - k > 0),
    "he last token is left out": only(lambda t, k, T: t - k < T - 1),
    "he first output is missing": only(lambda t, k, T: t > 0),
    "he last output is missing": only(lambda t, k, T: t < T - 1),
    "he lag T - 1 is left out": only(lambda t, k, T: k < T - 1),
}


@pytest.mark.parametrize("words", LEFT_OUT)
def test_what_a_convolution_leaves_out_is_told(words):
    wrong = LEFT_OUT[words]
    check_answers("convolution_backward", [wrong], wrong=(f"^T{words}", ""))
    check_answers("convolution_backward", [convolution(dx=lambda *a: wrong(*a)[0])], (f"In dx t{words}", ""))
    check_answers("convolution_backward", [convolution(dw=lambda *a: wrong(*a)[1])], (f"In dw t{words}", ""))


def minus_k_still(dy, x, w):
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for k in range(len(w)):
        dx[:, :-k] += w[k] * dy[:, :-k]
        dw[k] = (dy[:, :-k] * x[:, :-k]).sum()
    return dx, dw


UNLISTED = [
    ("shared_backward", shared(dr=lambda dy, x, r: (dy * x).sum(1)), "wrong axis", "`dr`|axis -2"),
    ("shared_backward", shared(dp=lambda dy, x, r: (r[..., None] * dy).sum(0)), "dp has the factor r", ""),
    ("shared_backward", shared(dr=lambda dy, x, r: r * (dy * x).sum(-1)), "dr has the factor r as well", ""),
    ("shared_backward", shared(dr=lambda dy, x, r: r * dy.sum(-1)), "dr has the factor r, which", ""),
    ("shared_backward", shared(dr=lambda dy, x, r: x.sum(-1)), "dr lacks the factor dy", ""),
    ("shared_backward", shared(dr=lambda dy, x, r: x), "dr lacks the factor dy, and the sum", ""),
    ("shared_backward", shared(dr=lambda dy, x, r: r * x.sum(-1)), "dr lacks the factor dy, and has", ""),
    ("shared_backward", shared(dr=lambda dy, x, r: x.sum(-1, keepdims=True)), "dr lacks the factor dy: ", ""),
    ("shared_backward", shared(dr=lambda dy, x, r: x.mean(-1)), "dr lacks the factor dy, and is a mean", ""),
    ("shared_backward", shared(dr=lambda dy, x, r: x[..., 0]), "dr lacks the factor dy, and comes", ""),
    ("shared_backward", shared(dr=lambda dy, x, r: dy[..., 0] * x[..., 0]), "first feature alone", ""),
    ("shared_backward", shared(dr=lambda dy, x, r: np.full(r.shape, np.vdot(dy, x))), "for all tokens", ""),
    ("shared_backward", shared(dx=lambda dy, x, r: x * dy), "dx has the factor x", ""),
    ("shared_backward", shared(dx=lambda dy, x, r: r[..., None] + 0 * x), "derivative of y by x", ""),
    ("shared_backward", shared(dx=lambda dy, x, r: np.einsum("btd,bt->td", dy, r)), "over the sequences", ""),
    ("shared_backward", shared(dx=lambda dy, x, r: np.einsum("btd,bt->bt", dy, r)), "over the features", ""),
    ("shared_backward", shared(dp=lambda dy, x, r: dy[-1]), "last sequence alone", ""),
    ("shared_backward", shared(dp=lambda dy, x, r: np.full(dy.shape[1:], len(dy))), "counts the seq", ""),
    ("shared_backward", shared(dp=lambda dy, x, r: dy.sum((0, 2))), "over the features as well", ""),
    ("shared_backward", shared(dr=lambda dy, x, r: dy.sum(-1) * x.sum(-1)), "product of two sums", "`dr`"),
    ("shared_backward", shared(dx=lambda dy, x, r: r[..., None] * dy * x), "a factor too many", "`x`"),
    ("shared_backward", shared(dx=lambda dy, x, r: dy / r[..., None]), "multiplied where", "`dx`"),
    ("shared_backward", lambda dy, x, r: (r[..., None] * dy, dy.sum(0), (dy * x).sum(-1)), "wrong order", ""),
    ("best_step", lambda eta, f, f_2: 2 * sqrt(eta * f), "does not depend on `f_2`", ""),
    ("best_step", lambda eta, f, f_2: 4 * sqrt(eta * f / f_2), "a factor too many", "`2`"),
    ("best_step", lambda eta, f, f_2: sqrt(eta * f * f_2), "multiplies where it should divide", ""),
    ("best_step", lambda eta, f, f_2: -2 * sqrt(eta * f / f_2), "negative root", ""),
    ("best_step", lambda eta, f, f_2: solved(eta, f, f_2)[0], "negative root", ""),
    ("best_step", lambda eta, f, f_2: (6 * eta * f / f_2) ** Rational(1, 3), "h to the power 1[^:]*$", "^$"),
    ("best_step", lambda eta, f, f_2: (2 * eta * f / f_2) ** Rational(1, 3), "stands h² where h", "^$"),
    ("weighted_mean_backward", weighted(dw=lambda W, a, y, g, x: (g * (x - y)).sum(1) / W), "axis", "`dw`"),
    (
        "weighted_mean_backward",
        weighted(dx=lambda W, a, y, g, x: a * g / x.shape[1]),
        "a factor too many",
        "`dx`",
    ),
    (
        "weighted_mean_backward",
        weighted(dw=lambda W, a, y, g, x: (g * x).sum(-1) * (1 - a[..., 0]) / W),
        "only the token's own share",
        "",
    ),
    ("blind_direction", lambda v, wrong, right: v - (wrong - right), "error itself is taken away", ""),
    ("blind_direction", blind(share=lambda v, e: (v * e).sum() / (v * v).sum()), "length of v", ""),
    ("blind_direction", blind(share=lambda v, e: (v * e).mean() / (e * e).sum()), "mean stands", "direction"),
    ("blind_direction", blind(share=lambda v, e: v * e / (e * e).sum()), "A sum or mean is missing", ""),
    ("blind_direction", lambda v, wrong, right: v, "v as it was given", ""),
    ("blind_direction", lambda v, wrong, right: wrong - right, "This is the error", ""),
    ("blind_direction", lambda v, wrong, right: 0 * v, "0 everywhere", ""),
    ("convolution_backward", convolution(dx=overwritten), "overwrites", ""),
    ("convolution_backward", convolution(dx=ring), "closed to a ring", ""),
    ("convolution_backward", convolution(dw=later), "k steps later", ""),
    (
        "convolution_backward",
        convolution(dx=lambda *a: -convolution_by_slices(*a)[0]),
        "sign of a whole line",
        "",
    ),
    ("convolution_backward", convolution(dw=lambda dy, x, w: np.full(len(w), (dy * x).sum())), "same", ""),
    ("convolution_backward", convolution(dw=lambda dy, x, w: (dy * x).sum()), "dw is one number", ""),
    ("convolution_backward", convolution(dx=lost_end), "the last output is missing", ""),
    ("convolution_backward", convolution(dx=lambda *a: full_only(*a)[0]), "In dx only outputs from K", ""),
    ("convolution_backward", convolution(dw=lambda *a: full_only(*a)[1]), "In dw only outputs from K", ""),
    ("convolution_backward", full_only, "^Only outputs from K", ""),
    ("convolution_backward", convolution(dx=lambda *a: short(*a)[0]), "In dx the last lag", ""),
    ("convolution_backward", convolution(dw=lambda *a: short(*a)[1]), "In dw the last lag", ""),
    (
        "convolution_backward",
        convolution(dw=lambda dy, x, w: convolution_by_slices(dy, x, w)[1] * (np.arange(len(w)) > 0)),
        "In dw the present is left out",
        "",
    ),
    ("convolution_backward", convolution(dw=one_late), "In dw the lags begin at 1", ""),
    ("convolution_backward", minus_k_still, "(?s)In dx nothing .* is empty.*In dw nothing .* is empty", ""),
    ("convolution_backward", minus_k, r"^For k = 0 the slice .* is empty", ""),
    ("convolution_backward", convolution(dx=minus_k_dx), "^In dx, for k = 0 the slice", ""),
    ("convolution_backward", convolution(dw=minus_k_dw), "^In dw, for k = 0 the slice", ""),
    (
        "convolution_backward",
        convolution(dx=lambda dy, x, w: w[: x.shape[1]].sum() * dy),
        "In dx nothing is shifted",
        "",
    ),
    ("convolution_backward", mirrored, "both mirrored in time", ""),
    ("convolution_backward", convolution(dx=replaced), "In dx only the last lag is there", ""),
    ("convolution_backward", convolution(dx=without_end), "In dx the last positions are missing", ""),
    (
        "convolution_backward",
        convolution(dw=lambda dy, x, w: convolution_by_slices(dy, x, w)[1] / dy[..., 0].size),
        "number of tokens",
        "",
    ),
    ("convolution_backward", convolution(dw=still), "with t from k on", ""),
    ("convolution_backward", convolution(dw=at_the_end), "last position alone", ""),
    (
        "convolution_backward",
        convolution(dw=lambda dy, x, w: convolution_by_slices(dy[..., :1], x[..., :1], w)[1]),
        "first feature alone",
        "",
    ),
    ("convolution_backward", convolution(dw=by_sequence), "an axis for the sequences", ""),
    (
        "convolution_backward",
        convolution(dx=lambda dy, x, w: np.flip(convolution_by_slices(dy, x, w)[0], 1)),
        "turned round in time",
        "",
    ),
]


@pytest.mark.parametrize("name, answer, kind, where", UNLISTED, ids=range(len(UNLISTED)))
def test_a_mistake_on_no_list_is_found(name, answer, kind, where):
    check_answers(name, [answer], wrong=(kind, where))
