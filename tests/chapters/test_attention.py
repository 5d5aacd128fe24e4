"""The exercises of chapter 08: derived again."""

import itertools

import numpy as np
import sympy
import torch
from judging import gradients, solution
from sympy import symbols

from handgrad.chapters.attention import directory
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


test_the_answers_are_the_gradients = gradients(
    ("temperature_gradients", temperature_loss, "q k theta"),
    ("capped_gradients", capped_loss, "q k"),
    ("sink_gradients", sink_loss, "q k v sink"),
)


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
