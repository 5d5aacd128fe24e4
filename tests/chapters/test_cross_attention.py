"""Chapter 11: its exercises derived again; a stack of shipped blocks."""

import numpy as np
import pytest
import torch
from judging import gradients, solution

from handgrad.blocks import decoder_block, decoder_block_backward
from handgrad.config import Config, init
from handgrad.ops import attention, attention_backward, causal_mask

# The answers, derived a second time by automatic differentiation of the forward -----------------------------


def gate_loss(dy, c, alpha):
    return (dy * (torch.tanh(alpha)[None, :, None, None] * c).sum(1)).sum()


def coverage_loss(s, wish):
    return ((torch.softmax(s, -1).sum(1) - wish) ** 2).sum() / 2


def latent_loss(dy, latents, k, v, real):
    s = torch.einsum("tk,bsk->bts", latents, k) / k.shape[-1] ** 0.5
    s = s.masked_fill(~real[:, None], -torch.inf)
    return (dy * (torch.softmax(s, -1) @ v)).sum()


test_the_answers_are_the_gradients = gradients(
    ("gated_gradients", gate_loss, "c alpha"),
    ("latent_queries", latent_loss, "latents k v"),
)


def test_the_coverage_is_differentiated_by_scores():
    rng = np.random.default_rng(0)
    s, wish = torch.tensor(rng.normal(size=(3, 4, 6)), requires_grad=True), rng.normal(size=(3, 6))
    (found,) = torch.autograd.grad(coverage_loss(s, torch.tensor(wish)), s)
    a = torch.softmax(s, -1).detach().numpy()
    np.testing.assert_allclose(solution("coverage_ds")(a, wish), found, rtol=1e-9, atol=1e-12)


def test_the_loss_known_in_advance_is_that_of_counting():
    for S, w in [(5, 0), (5, 2), (5, 4), (8, 3), (8, 7)]:
        hidden = sum(abs(S - 1 - 2 * t) > w for t in range(S))
        wanted = hidden / S * np.log(7)
        np.testing.assert_allclose(float(solution("reversed_loss")(V=7, S=S, w=w)), wanted, rtol=1e-12)


def test_the_two_laws_hold_for_shipped_gradients_and_notice_padding_that_is_heard():
    rng = np.random.default_rng(1)
    q, k, v, dy = (rng.standard_normal((3, n, 4)) for n in (5, 6, 6, 5))
    _, cache = attention(q, k, v)
    _, dk, dv = attention_backward(dy, cache)
    assert (solution("law_gaps")(dk, dv, dy) < 1e-12).all()
    wrong = solution("law_gaps")(dk[:, :5], dv[:, :5], dy)  # a source that was heard, and is left out
    assert (wrong > 0.01).all()


# The chapter ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre", "output"])
def test_what_shipped_blocks_return_adds_up_to_the_memorys_gradient(norm):
    rng = np.random.default_rng(0)
    config = Config("encoder-decoder", 9, D=32, H=4, F=64, N=3, norm=norm)
    blocks = init(config, rng, np.float64)["decoder"]
    x, dy = rng.standard_normal((2, 2, 7, 32))
    memory, way = rng.standard_normal((2, 2, 9, 32))

    def stack(memory):
        y, caches = x, []
        for block in blocks:
            y, cache = decoder_block(y, memory, block, 4, norm, mask=causal_mask(7), activation="gelu")
            caches.append(cache)
        return y, caches

    parts, above = [], dy
    for cache in reversed(stack(memory)[1]):
        above, dmemory, _ = decoder_block_backward(above, cache)
        parts.append(dmemory)
    ends = [np.sum(dy * stack(memory + step * way)[0]) for step in (1e-5, -1e-5)]
    slope = (ends[0] - ends[1]) / 2e-5
    np.testing.assert_allclose(np.sum(sum(parts) * way), slope, rtol=1e-7)
    assert abs(np.sum(parts[0] * way) / slope - 1) > 1e-3  # the last block alone is not enough
