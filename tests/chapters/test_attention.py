"""The exercises of chapter 08: derived again and solved otherwise."""

import itertools

import numpy as np
import pytest
import sympy
import torch
from judging import check_answers, solution
from sympy import symbols

from handgrad.chapters.attention import directory, draws
from handgrad.course import judge

# The answers that are no shipped line, derived a second time ------------------------------------------------


def test_the_variance():
    """By adding over all outcomes of coins of that mean and spread."""
    sigma_q, sigma_k, mu_q, mu_k = symbols("sigma_q sigma_k mu_q mu_k")
    for width in (1, 2):
        outcomes = []
        for signs in itertools.product((1, -1), repeat=2 * width):
            q = [mu_q + sign * sigma_q for sign in signs[:width]]
            k = [mu_k + sign * sigma_k for sign in signs[width:]]
            outcomes.append(sum(a * b for a, b in zip(q, k)))
        mean = sum(outcomes) / len(outcomes)
        variance = sum((outcome - mean) ** 2 for outcome in outcomes) / len(outcomes)
        assert sympy.expand(variance - solution("score_variance")(width, sigma_q, sigma_k, mu_q, mu_k)) == 0


def temperature_loss(ds, q, k, theta):
    return (ds * theta.exp()[:, None, None] * (q @ k.mT)).sum()


def capped_loss(ds, q, k, cap):
    return (ds * cap * torch.tanh(q @ k.mT / q.shape[-1] ** 0.5 / cap)).sum()


def sink_loss(dy, q, k, v, sink):
    """The sink as one more key, by torch's own softmax."""
    s = q @ k.mT / q.shape[-1] ** 0.5
    a = torch.cat([s, sink.expand(*s.shape[:-1], 1)], -1).softmax(-1)[..., :-1]
    return (dy * (a @ v)).sum()


@pytest.mark.parametrize(
    "exercise, loss",
    [
        (judge.find("temperature_gradients"), temperature_loss),
        (judge.find("capped_gradients"), capped_loss),
        (judge.find("sink_gradients"), sink_loss),
    ],
    ids=["temperature", "cap", "sink"],
)
def test_what_the_chapter_does_not_show_by_autograd(exercise, loss):
    for case in exercise.cases:
        upstream, *inputs = (torch.tensor(x, dtype=torch.float64) for x in case.inputs)
        for x in inputs:
            x.requires_grad_()
        mine = exercise.answer(*case.inputs)
        wanted = torch.autograd.grad(loss(upstream, *inputs), inputs[: len(mine)])
        for gradient, dx in zip(mine, wanted, strict=True):
            np.testing.assert_allclose(gradient, dx, rtol=1e-10, atol=1e-12)


def test_the_cases_hold_what_the_book_promises():
    """Repeated keys, masks, a fully masked row, large scores."""
    cases = {case.name: case.inputs for case in judge.find("masked_attention").cases}
    _, k, v, mask = cases["a batch"]
    assert np.array_equal(k[:, 0], k[:, -1]) and np.array_equal(v[:, 0], v[:, -1])
    assert not mask.all() and mask.any(-1).all()
    assert not cases["a query that may attend to nothing"][3].any(-1).all()
    q, k, _, _ = cases["scores of many thousands"]
    assert np.abs(q @ k.mT).max() > 1e5
    assert any((a == 0).any() for _, a in (case.inputs for case in judge.find("softmax_ds").cases))


# What the chapter draws and measures ------------------------------------------------------------------------


def test_a_page_answers_what_it_asks():
    pages = directory.page(np.random.default_rng(1), B=400)
    assert all(len(set(letters)) == 8 for letters in pages["letters"])
    for letters, digits, asked, truth in zip(*(pages[n] for n in ("letters", "digits", "asked", "truth"))):
        beside = dict(zip(letters, digits))
        assert [beside[letter] for letter in asked] == list(truth)
    assert abs(np.mean(pages["truth"] == pages["answers"]) - 0.82) < 4 * np.sqrt(0.82 * 0.18 / 3200)
    p = directory.probabilities(pages["truth"])
    np.testing.assert_allclose(p.sum(-1), 1)
    assert -(p * np.log(p)).sum(-1).mean() < directory.dull_loss(pages) < np.log(10)


def test_two_gradients_are_compared_where_scores_lead():
    right = {name: np.array([3.0, 4.0]) for name in ("letters", "W_Q", "W_K")} | {"W_O": np.array([7.0])}
    turned = {name: np.array([-8.0, 6.0]) for name in right} | {"W_O": np.array([1.0])}
    np.testing.assert_allclose(directory.compared(turned, right), (0, 2), atol=1e-15)


def test_influence_is_the_norm_of_the_jacobian_along_ones():
    m = np.random.default_rng(2).standard_normal((3, 3))
    found = draws.influence(lambda x: m @ x, np.ones((3, 5)))  # output i is Σ_j m_ij x_j
    np.testing.assert_allclose(found, np.abs(m), rtol=1e-6)


def test_tokens_behind_a_layer_norm():
    x = draws.normalised(np.random.default_rng(3).standard_normal((4, 7)))
    np.testing.assert_allclose(x.mean(-1), 0, atol=1e-15)
    np.testing.assert_allclose((x**2).sum(-1), 7)


# Right answers, written otherwise ---------------------------------------------------------------------------


def softmax_by_matrix(da, a):
    jacobian = a[..., :, None] * np.eye(a.shape[-1]) - a[..., :, None] * a[..., None, :]
    return np.einsum("btij,btj->bti", jacobian, da)


def softmax_expanded(da, a):
    return a * da - a * np.einsum("bts,bts->bt", a, da)[..., np.newaxis]


def attention_by_rows(q, k, v, mask):
    y, a = np.zeros((*q.shape[:2], v.shape[-1])), np.zeros(mask.shape)
    for b, t in np.ndindex(*mask.shape[:2]):
        seen = np.flatnonzero(mask[b, t])
        if seen.size:
            s = k[b, seen] @ q[b, t] / np.sqrt(q.shape[-1])
            e = np.exp(s - s.max())
            a[b, t, seen] = e / e.sum()
            y[b, t] = a[b, t] @ v[b]
    return y, a


def attention_with_where(q, k, v, mask):
    s = np.einsum("btk,bsk->bts", q, k) * q.shape[-1] ** -0.5
    top = np.max(s, axis=-1, keepdims=True, where=mask, initial=-1e300)
    e = np.exp(np.minimum(s - top, 0)) * mask
    total = e.sum(-1, keepdims=True)
    a = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    return np.einsum("bts,bse->bte", a, v), a


def temperature_by_einsum(ds, q, k, theta):
    tau, du = np.exp(theta), np.einsum("bhts,h->bhts", ds, np.exp(theta))
    dtau = np.einsum("bhts,bhtk,bhsk->h", ds, q, k)
    return np.einsum("bhts,bhsk->bhtk", du, k), np.einsum("bhts,bhtk->bhsk", du, q), tau * dtau


def temperature_by_loops(ds, q, k, theta):
    dq, dk, dtheta = np.zeros_like(q), np.zeros_like(k), np.zeros_like(theta)
    for b, h, t, s in np.ndindex(*ds.shape):
        g = ds[b, h, t, s] * np.exp(theta[h])
        dq[b, h, t] += g * k[b, h, s]
        dk[b, h, s] += g * q[b, h, t]
        dtheta[h] += g * q[b, h, t] @ k[b, h, s]
    return dq, dk, dtheta


def capped_by_the_score(ds, q, k, cap):
    root = q.shape[-1] ** 0.5
    s = cap * np.tanh(np.einsum("btk,bsk->bts", q, k) / root / cap)
    du = ds * (1 - (s / cap) ** 2) / root
    return du @ k, np.swapaxes(du, 1, 2) @ q


def capped_by_exponentials(ds, q, k, cap):
    u = q @ k.mT / np.sqrt(q.shape[-1])
    du = ds / np.cosh(u / cap) ** 2
    return np.einsum("bts,bsk->btk", du, k) / np.sqrt(k.shape[-1]), du.mT @ q / np.sqrt(k.shape[-1])


def sink_by_one_more_key(dy, q, k, v, sink):
    """The book's softmax step on S + 1 scores."""
    s = q @ k.mT / np.sqrt(q.shape[-1])
    s = np.concatenate([s, np.full((*s.shape[:-1], 1), sink)], axis=-1)
    a = np.exp(s - s.max(-1, keepdims=True))
    a = a / a.sum(-1, keepdims=True)
    da = np.concatenate([dy @ v.mT, np.zeros((*s.shape[:-1], 1))], axis=-1)
    ds = softmax_by_matrix(da, a)
    true = ds[..., :-1] / np.sqrt(q.shape[-1])
    return true @ k, true.mT @ q, a[..., :-1].mT @ dy, ds[..., -1].sum()


def sink_by_rows(dy, q, k, v, sink):
    grads, dsink = [np.zeros_like(x) for x in (q, k, v)], 0.0
    for b, t in np.ndindex(*q.shape[:2]):
        e = np.exp(k[b] @ q[b, t] / q.shape[-1] ** 0.5)
        a = e / (e.sum() + np.exp(sink))
        y = a @ v[b]
        ds = a * ((v[b] - y) @ dy[b, t])
        grads[0][b, t] += ds @ k[b] / q.shape[-1] ** 0.5
        grads[1][b] += np.outer(ds, q[b, t]) / q.shape[-1] ** 0.5
        grads[2][b] += np.outer(a, dy[b, t])
        dsink -= (1 - a.sum()) * (y @ dy[b, t])
    return (*grads, dsink)


K, sigma_q, sigma_k, mu_q, mu_k = symbols("K sigma_q sigma_k mu_q mu_k")
RIGHT = {
    "softmax_ds": (softmax_by_matrix, softmax_expanded),
    "score_variance": (
        lambda K, a, b, m, n: K * ((a**2 + m**2) * (b**2 + n**2) - m**2 * n**2),
        K * (sigma_q * sigma_k) ** 2 + K * ((sigma_q * mu_k) ** 2 + (sigma_k * mu_q) ** 2),
    ),
    "masked_attention": (attention_by_rows, attention_with_where),
    "temperature_gradients": (temperature_by_einsum, temperature_by_loops),
    "capped_gradients": (capped_by_the_score, capped_by_exponentials),
    "sink_gradients": (sink_by_one_more_key, sink_by_rows),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_accepted_however_written(name):
    check_answers(name, RIGHT[name])


def test_every_exercise_has_been_solved_otherwise():
    assert set(RIGHT) == set(judge.chapters()["attention"])
