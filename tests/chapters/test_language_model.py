"""Chapter 17: what belongs to it and to nobody else."""

import numpy as np
import pytest
import torch
from judging import gradients, solution
from scipy.special import log_softmax, softmax
from torch.nn.functional import cross_entropy

from handgrad import manual, model
from handgrad.chapters.language_model import ngrams, trials
from handgrad.config import init
from handgrad.ops import attention


@pytest.fixture
def rng():
    return np.random.default_rng(17)


TEXT = "abracadabra, a cadabra; abra " * 40


@pytest.mark.parametrize("asked", ["abrx", "abracadabra, ax abracadabra, a cad"])
def test_shares_are_what_the_text_counts(asked):
    """To 14 characters, where an integer has no room for them as digits."""
    counts = ngrams.counted(manual.encode(TEXT), 14)
    for n, (f, seen) in enumerate(ngrams.shares(counts, manual.encode(asked)), 1):
        assert not seen[: n - 1].any() and not f[: n - 1].any()
        for place in range(n - 1, len(asked)):
            context = asked[place - n + 1 : place]
            times = sum(TEXT[i:].startswith(context) for i in range(len(TEXT) - n + 1))
            whole = sum(TEXT[i:].startswith(context + asked[place]) for i in range(len(TEXT)))
            assert seen[place] == times and f[place] == pytest.approx(whole / max(times, 1))
    if len(asked) > 14:
        assert (seen[13:] > 0).any() and (seen[13:] == 0).any()


def test_a_mixture_is_a_distribution_and_its_weights_are_the_best():
    train, held_out = manual.encode(TEXT[:900]), manual.encode(TEXT[900:])
    counts, weights = ngrams.counted(train, 3), ngrams.fit(train, 3)
    for context in ("ab", "zq", "a "):
        p = [
            ngrams.probabilities(counts, weights, manual.encode(context + c))[:, -1]
            for c in manual.CHARACTERS
        ]
        np.testing.assert_allclose(np.sum(p, axis=0), 1)
    f, p = np.array([0.9, 0.1, 0.5, 0.0]), np.array([0.2, 0.3, 0.1, 0.2])
    best = ngrams.best_share(f, p)
    cost = [np.log(share * f + (1 - share) * p).mean() for share in (best - 0.01, best, best + 0.01)]
    assert cost[1] == max(cost)
    with pytest.raises(ValueError, match="order: expected 1 to 260, the length of the text, got 261"):
        ngrams.counted(held_out, 261)


@pytest.mark.parametrize("stride", [1, 5, 8])
def test_every_character_is_counted_once(stride, rng):
    """Beside the cost of each, asked at the end of the first window of 8 that holds it."""
    config = trials.gpt(D=16, H=2, F=16, N=1, V=12)
    params, tokens = init(config, rng), rng.integers(0, 12, 30)
    nats = trials.by_place(params, config, tokens, stride, T=8)
    assert nats.shape == (29,)
    for place in range(29):
        begin = min(start for start in (*range(0, 21, stride), 21) if place < start + 8)
        assert place < 8 or begin == 21 or place + 1 - begin > 8 - stride
        z, _ = model.forward(params, config, {"tokens": tokens[None, begin : place + 1]})
        assert nats[place] == pytest.approx(-log_softmax(z[0, -1])[tokens[place + 1]])


def test_the_checks_pass_as_the_lines_are():
    assert max(check() for check in trials.CHECKS.values()) < 0.05
    assert trials.differences() < 1e-6 and trials.leak() == 0 and trials.piecewise() < 1e-12


def test_the_slope_by_temperature_is_a_derivative(rng):
    z, y = 3 * rng.normal(size=(4, 5, 7)), rng.integers(0, 7, (4, 5))
    loss = [trials.nats_of(z / tau, y).mean() for tau in (1 - 1e-5, 1 + 1e-5)]
    assert trials.by_temperature(z, y) == pytest.approx((loss[1] - loss[0]) / 2e-5, rel=1e-6)


# Exercises --------------------------------------------------------------------------------------------------


def unlikelihood_loss(z, unwanted):
    """-ln(1 - p) of what is unwanted, as what all characters share, and the others alone."""
    others = z.scatter(-1, unwanted[..., None], -torch.inf)
    return (z.logsumexp(-1) - others.logsumexp(-1)).mean()


def min_p_loss(z, targets, share):
    p = z.softmax(-1)
    cut = p < share * p.amax(-1, keepdim=True)
    log_p = z.masked_fill(cut, -torch.inf).log_softmax(-1).gather(-1, targets[..., None])
    counted = log_p[log_p.isfinite()]
    return -counted.sum() / max(len(counted), 1)


def fading_loss(E, w, y, alpha):
    h, costs = 0, []
    for t in range(w.shape[1]):
        h = alpha * h + E[w[:, t]]
        costs.append(cross_entropy(h @ E.T, y[:, t]))
    return torch.stack(costs).mean()


test_the_answers_are_the_gradients = gradients(
    ("unlikelihood_dz", unlikelihood_loss, "z"),
    ("min_p_dz", min_p_loss, "z"),
    ("fading_memory_gradient", fading_loss, "E"),
)


@pytest.mark.parametrize("certain", [35, 40, 800])
def test_a_nearly_certain_character_is_pushed_with_all_digits(certain):
    """z = (certain, 0, 1): the gradient is 1 for it, and for the others minus their softmax without it."""
    dz = solution("unlikelihood_dz")(np.array([[[certain, 0.0, 1.0]]]), np.array([[0]]))
    np.testing.assert_allclose(dz[0, 0], [1, *-softmax([0, 1])], rtol=1e-14)


def test_a_ring_is_attention_over_the_last_places(rng):
    """A text read through the ring, beside attention with a window in its mask."""
    T, S = 9, 4
    q, k, v = rng.normal(size=(3, 2, 3, T, 5))
    place = np.arange(T)
    near = (place[:, None] - place >= 0) & (place[:, None] - place < S)
    wanted, _ = attention(q, k, v, mask=near)
    k_ring, v_ring = np.full((2, 2, 3, S, 5), 99.0)
    for t in range(T):
        y, k_ring, v_ring = solution("ring_step")(q[:, :, t], k[:, :, t], v[:, :, t], k_ring, v_ring, t)
        np.testing.assert_allclose(y, wanted[:, :, t])
