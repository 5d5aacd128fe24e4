"""Chapter 10: its exercises derived again; what it draws."""

import numpy as np
import torch
from judging import gradients, solution

from handgrad.chapters.multi_head import figures
from handgrad.ops import multi_head, multi_head_backward

# The answers, derived a second time by automatic differentiation ------------------------------------------


def test_the_law_of_a_head_holds_for_its_gradients_and_sees_a_lost_transpose():
    rng = np.random.default_rng(3)
    params = {f"W_{name}": rng.standard_normal((6, 6)) for name in "QKVO"}
    x, dy = rng.standard_normal((2, 2, 5, 6))
    _, cache = multi_head(x, x, params, 3)
    grads = multi_head_backward(dy, cache)[2]
    pairs = params["W_Q"], grads["W_Q"], params["W_K"]
    assert (solution("head_gaps")(*pairs, grads["W_K"], 3) < 1e-12).all()
    assert (solution("head_gaps")(*pairs, grads["W_K"].T, 3) > 0.1).all()


def test_the_tokens_that_fit_are_counted_one_by_one():
    free, kept = 10_000, 7  # a token of two layers and three heads of keys of four columns, in bytes
    token = sum(2 for _ in np.ndindex(2, 3, 4, 2))
    texts = [0] * 5
    while sum(texts) + kept < free // token:
        texts[np.argmin(texts)] += 1
    assert int(solution("new_tokens")(free, 2, 6, 3, 4, kept, 5)) == min(texts)


def gate_loss(dy, o, gate, W_O):
    return (dy * ((gate[:, None, None] * o).transpose(1, 2).flatten(-2) @ W_O)).sum()


def latent_loss(dk, dv, x, W_C, W_K, W_V):
    return (dk * (x @ W_C @ W_K) + dv * (x @ W_C @ W_V)).sum()


def shared_loss(dy, q, m):
    m = m[:, None].expand(*q.shape[:2], *m.shape[1:])
    return (dy * torch.nn.functional.scaled_dot_product_attention(q, m, m)).sum()


test_the_answers_are_the_gradients = gradients(
    ("gate_gradients", gate_loss, "o gate W_O"),
    ("latent_gradients", latent_loss, "x W_C W_K W_V"),
    ("shared_gradients", shared_loss, "q m"),
)


# What the chapter draws ---------------------------------------------------------------------------------


def test_the_figure_of_the_cut_numbers_each_entry_where_it_lies():
    shown = [text.get_text() for text in figures.cut(T=2, H=2, K=3).axes[0].texts]
    once_and_cut = "0 1 2 3 4 5 6 7 8 9 10 11 0 1 2 6 7 8 3 4 5 9 10 11"
    assert [text for text in shown if text.isdigit()] == once_and_cut.split()
