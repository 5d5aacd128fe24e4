"""Chapter 10: its exercises derived again; what it draws and measures."""

import numpy as np
import pytest
import torch
from judging import solution

from handgrad import ops
from handgrad.chapters.multi_head import columns, figures, look_back, turning
from handgrad.course import judge

# The answers, derived a second time by automatic differentiation ------------------------------------------


def fused_loss(dq, dk, dv, fused):
    q, k, v = (z.unflatten(-1, (dq.shape[1], -1)).transpose(1, 2) for z in fused.chunk(3, -1))
    return (dq * q + dk * k + dv * v).sum()


def test_the_fused_gradient():
    for case in judge.find("fused_gradient").cases:
        parts = [torch.tensor(x) for x in case.inputs]
        B, H, T, K = parts[0].shape
        fused = torch.zeros(B, T, 3 * H * K, dtype=torch.float64, requires_grad=True)
        (wanted,) = torch.autograd.grad(fused_loss(*parts, fused), fused)
        np.testing.assert_array_equal(solution("fused_gradient")(*case.inputs), wanted)


def gate_loss(dy, o, gate, W_O):
    return (dy * ((gate[:, None, None] * o).transpose(1, 2).flatten(-2) @ W_O)).sum()


def mixed_loss(ds, u, P):
    return (ds * torch.tensordot(u, P, dims=([1], [1])).permute(0, 3, 1, 2)).sum()


def latent_loss(dk, dv, x, W_C, W_K, W_V):
    return (dk * (x @ W_C @ W_K) + dv * (x @ W_C @ W_V)).sum()


def shared_loss(dy, q, m):
    m = m[:, None].expand(*q.shape[:2], *m.shape[1:])
    return (dy * torch.nn.functional.scaled_dot_product_attention(q, m, m)).sum()


@pytest.mark.parametrize(
    "exercise, loss, upstream",
    [
        (judge.find("gate_gradients"), gate_loss, 1),
        (judge.find("mixed_gradients"), mixed_loss, 1),
        (judge.find("latent_gradients"), latent_loss, 2),
        (judge.find("shared_gradients"), shared_loss, 1),
    ],
    ids=["gates", "mixed", "latent", "shared"],
)
def test_what_the_chapter_does_not_show_by_autograd(exercise, loss, upstream):
    for case in exercise.cases:
        arrived, given = [
            [torch.tensor(x) for x in part] for part in (case.inputs[:upstream], case.inputs[upstream:])
        ]
        for x in given:
            x.requires_grad_()
        wanted = torch.autograd.grad(loss(*arrived, *given), given)
        for gradient, dx in zip(exercise.answer(*case.inputs), wanted, strict=True):
            np.testing.assert_allclose(gradient, dx, rtol=1e-10, atol=1e-11)


# What the chapter draws and measures ----------------------------------------------------------------------


def test_the_wanted_bits_are_those_of_the_tokens_before():
    c = look_back.bits(np.random.default_rng(1), B=3)
    answer = look_back.wanted(c)
    assert c.shape == (3, 12, 4) and answer.shape == (3, 8, 16)
    for t in range(8):
        for n in range(1, 5):
            np.testing.assert_array_equal(answer[:, t, 4 * n - 4 : 4 * n], c[:, t + 4 - n])


def test_the_table_keeps_the_bits_apart():
    np.testing.assert_allclose(look_back.TABLE @ look_back.TABLE.T, np.eye(4), atol=1e-12)


def test_heads_that_begin_alike_are_copies():
    params = look_back.alike(look_back.initial(np.random.default_rng(2)), 4)
    for name, x in params.items():
        if name != "b_O":
            axis = 0 if name == "W_O" else -1
            assert np.ptp(np.stack(np.split(x, 4, axis)), axis=0).max() == 0


def test_the_torch_loss_is_ours():
    params = look_back.initial(np.random.default_rng(3))
    c = look_back.bits(np.random.default_rng(4))
    x = 2 * c @ look_back.TABLE
    y, _ = ops.multi_head(x, x, params, 2, mask=ops.causal_mask(12), angles=look_back.turns(8))
    ours = np.mean((y[:, 4:] - look_back.wanted(c)) ** 2)
    theirs = look_back.torch_loss({name: torch.tensor(p) for name, p in params.items()}, c, 2)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_the_printed_formulas_are_wrong_and_the_corrected_right():
    found = columns.printed_and_right(K=3, D=4, T=5, seed=7)
    assert all(printed > 0.1 and right < 1e-8 for printed, _, right in found.values())
    np.testing.assert_allclose(found["dA, from the right dQ"][:2], (1 - 3**-0.5, 1), rtol=1e-6)


def test_the_turned_head_moves_the_others_only_through_dy():
    a, ds, dy = turning.answers(0)
    b, other, _ = turning.answers(90, dy)
    np.testing.assert_array_equal(a[1:], b[1:])
    np.testing.assert_array_equal(ds[1:], other[1:])
    assert abs(turning.answers(90)[1][1:] - ds[1:]).max() > 0.01


def test_the_figures_draw_what_they_are_given():
    shown = [text.get_text() for text in figures.cut(T=2, H=2, K=3).axes[0].texts]
    assert [text for text in shown if text.isdigit()] == [str(n) for n in range(12)] + [
        *"012678",
        "3",
        "4",
        "5",
        "9",
        "10",
        "11",
    ]
    texts = {text.get_text() for text in figures.integers().axes[0].texts}
    assert {"(−3, 3)", "(3, −3)", "(5, −2)", "(2, 1)"} <= texts
    maps = figures.looks({"H = 2": np.eye(2, 3)})
    np.testing.assert_array_equal(maps.axes[0].images[0].get_array(), np.eye(2, 3))


def test_the_balanced_lines_have_exact_moments():
    c = look_back.balanced(np.random.default_rng(6)).reshape(64, 48)
    assert set(np.unique(c)) == {-1, 1} and not c.sum(axis=0).any()
    np.testing.assert_array_equal(c.T @ c, 64 * np.eye(48))


@pytest.mark.parametrize("H", [1, 2, 4])
def test_heads_made_by_hand_copy_one_token_each(H):
    c = look_back.bits(np.random.default_rng(7))
    x = 2 * c @ look_back.TABLE
    params = look_back.by_hand(H, 10)
    y, cache = ops.multi_head(x, x, params, H, mask=ops.causal_mask(12), angles=look_back.turns(16 // H))
    np.testing.assert_allclose(y[:, 4:, : 4 * H], look_back.wanted(c)[..., : 4 * H], atol=1e-10)
    assert not y[..., 4 * H :].any()
    for h in range(H):
        assert np.diagonal(cache["attended"]["a"][:, h], -h - 1, 1, 2).min() > 0.99


def test_refitting_finds_the_best_last_matrix():
    rng = np.random.default_rng(8)
    o, W, b = rng.standard_normal((5, 3, 4)), rng.standard_normal((4, 2)), rng.standard_normal(2)
    best = look_back.refitted({"W_O": None, "W_Q": 1}, o, o @ W + b)
    np.testing.assert_allclose(best["W_O"], W, rtol=1e-10)
    np.testing.assert_allclose(best["b_O"], b, rtol=1e-10)
    assert best["W_Q"] == 1
