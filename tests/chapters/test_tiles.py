"""The exercises of chapter 19: derived again."""

import numpy as np
import torch
from judging import solution

from handgrad.ops import flash_attention

# The answers, derived a second time -------------------------------------------------------------------------


def state_of(u, v):
    """m, z, o of the scores u (B, T, S) and the values v (B, S, E), all at once."""
    m = u.max(axis=-1)
    e = np.exp(u - m[..., None])
    return m, e.sum(axis=-1), e @ v


def test_two_halves_are_the_whole():
    rng = np.random.default_rng(0)
    u, v = rng.normal(0, 3, (2, 4, 9)), rng.normal(size=(2, 9, 5))
    for cut in (1, 4, 8):
        halves = state_of(u[..., :cut], v[:, :cut]), state_of(u[..., cut:], v[:, cut:])
        for mine, whole in zip(solution("merge_parts")(*halves[0], *halves[1]), state_of(u, v)):
            np.testing.assert_allclose(mine, whole, rtol=1e-12)


def test_tiles_with_a_used_log_sum_add_up_to_the_derivative():
    """Of ⟨dy, y⟩ + ⟨dl, l⟩, by autograd; the keys in tiles of 2, 1 and 3."""
    rng = np.random.default_rng(1)
    q, k, v, dy = (torch.tensor(rng.normal(size=(2, n, 3)), requires_grad=True) for n in (4, 6, 6, 4))
    dl, u = torch.tensor(rng.normal(size=(2, 4))), q @ k.mT / 3**0.5
    y, log_sum = u.softmax(-1) @ v, u.logsumexp(-1)
    wanted = torch.autograd.grad((dy * y).sum() + (dl * log_sum).sum(), (q, k, v))
    dy, dl, q, k, v, y, log_sum = (x.detach().numpy() for x in (dy, dl, q, k, v, y, log_sum))
    parts = [
        solution("tile_gradients")(dy, dl, q, k[:, j], v[:, j], y, log_sum)
        for j in (slice(0, 2), slice(2, 3), slice(3, 6))
    ]
    dq, dk, dv = zip(*parts, strict=True)
    for mine, theirs in zip((sum(dq), np.hstack(dk), np.hstack(dv)), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-13)


def test_the_longest_text_fills_the_room():
    """By the sizes of the arrays themselves."""
    T, H, H_kv, K = 30, 6, 2, 5
    q, y, log_sum = np.ones((H, T, K)), np.ones((H, T, K)), np.ones((H, T))
    k, v = np.ones((2, H_kv, T, K))
    room = sum(array.size for array in (q, k, v, y, log_sum))
    assert solution("longest_text")(room, H, H_kv, K) == T


def test_the_sums_are_one_and_zero_where_the_program_is_right_and_only_there():
    """D by automatic differentiation: the average gradient of the weights."""
    rng = np.random.default_rng(2)
    q, k, v, dy = (torch.tensor(rng.normal(size=(2, n, 3))) for n in (4, 6, 6, 4))
    u = q @ k.mT / 3**0.5
    a = torch.softmax(u, dim=-1).requires_grad_()
    (da,) = torch.autograd.grad((dy * (a @ v)).sum(), a)
    D, log_sum = (a * da).sum(-1).detach().numpy(), torch.logsumexp(u, dim=-1).numpy()
    arrays = [x.numpy() for x in (q, k, v, dy)]
    ones, zeros = solution("row_sums")(*arrays, log_sum, D)
    np.testing.assert_allclose(ones, 1, rtol=1e-13)
    np.testing.assert_allclose(zeros, 0, atol=1e-13)
    ones, zeros = solution("row_sums")(*arrays, log_sum + np.log(2), D + 1)
    np.testing.assert_allclose(ones, 1 / 2, rtol=1e-13)
    np.testing.assert_allclose(zeros, -1 / 2, rtol=1e-12)


def test_rows_of_zeros_are_taken_out():
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=(2, n, 3)) for n in (4, 6, 6))
    padded = [np.concatenate([x, np.zeros((2, 5, 3))], axis=1) for x in (k, v)]
    y, cache = flash_attention(q, *padded, block=4)
    whole, kept = flash_attention(q, k, v)
    y_right, l_right = solution("without_padding")(y, cache["log_sum"], 5)
    np.testing.assert_allclose(y_right, whole, rtol=1e-12)
    np.testing.assert_allclose(l_right, kept["log_sum"], rtol=1e-12)
