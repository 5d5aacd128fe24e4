"""Chapter 07: its exercises derived again and solved otherwise; its task."""

import numpy as np
import pytest
import torch
from judging import check_answers, solution

from handgrad import ops
from handgrad.chapters.positions import figures, shift
from handgrad.course import judge
from handgrad.ops.positions import rotary_backward

# The answers, derived a second time by automatic differentiation of the forward -----------------------------


def grid_loss(dy, rows, columns):
    return (dy * (rows[:, None] + columns)).sum()


def half_split_loss(dy, x, angles):
    """As in much code: x cos + rotate_half(x) sin."""
    J = angles.shape[-1]
    first, second, rest = x.tensor_split([J, 2 * J], -1)
    twice = torch.cat([angles, angles], -1)
    turned = x[..., : 2 * J] * twice.cos() + torch.cat([-second, first], -1) * twice.sin()
    return (dy * torch.cat([turned, rest], -1)).sum()


def slope_loss(ds, q, k, slope):
    t, s = torch.arange(ds.shape[-2]), torch.arange(ds.shape[-1])
    penalty = slope[:, None, None] * (t[:, None] - s).abs()
    return (ds * (q @ k.mT / q.shape[-1] ** 0.5 - penalty)).sum()


def table_loss(ds, table, reach):
    t, s = torch.arange(ds.shape[-2]), torch.arange(ds.shape[-1])
    return (ds * table[:, (s - t[:, None]).clamp(-reach, reach) + reach]).sum()


def frequency_loss(dy, x, omega):
    return (dy * shift.torch_turned(x, torch.arange(x.shape[1])[:, None] * omega)).sum()


def tensors(*arrays):
    return [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in arrays]


def agree(mine, loss, wanted):
    for gradient, dx in zip(mine, torch.autograd.grad(loss, wanted), strict=True):
        np.testing.assert_allclose(gradient, dx, rtol=1e-10, atol=1e-12)


def test_grid_gradients_by_autograd():
    for case in judge.find("grid_gradients").cases:
        (dy,) = case.inputs
        rows, columns = tensors(*(np.zeros((n, dy.shape[-1])) for n in dy.shape[1:3]))
        loss = grid_loss(torch.tensor(dy), rows, columns)
        agree(solution("grid_gradients")(dy), loss, [rows, columns])


def half_split_by_permutation(dy, angles):
    order = np.arange(2 * angles.shape[-1]).reshape(2, -1).T.ravel()
    dx = dy.copy()
    cache = {"shape": dx[..., order].shape, "cos": np.cos(angles), "sin": np.sin(angles)}
    dx[..., order] = rotary_backward(dy[..., order], cache)
    return dx


def test_half_split_by_autograd_and_by_permutation():
    for case in judge.find("half_split_dx").cases:
        dy, angles = case.inputs
        (x,) = tensors(np.ones(dy.shape))
        agree(
            [solution("half_split_dx")(dy, angles)],
            half_split_loss(*map(torch.tensor, (dy,)), x, torch.tensor(angles)),
            [x],
        )
        by_permutation = half_split_by_permutation(dy, angles)
        np.testing.assert_allclose(solution("half_split_dx")(dy, angles), by_permutation, rtol=1e-12)


def test_slope_gradients_by_autograd():
    for case in judge.find("slope_gradients").cases:
        ds, q, k = case.inputs
        inputs = tensors(q, k, np.full(ds.shape[1], 0.3))
        agree(solution("slope_gradients")(ds, q, k), slope_loss(torch.tensor(ds), *inputs), inputs)


def test_distance_table_by_autograd():
    for case in judge.find("distance_table").cases:
        ds, reach = case.inputs
        (table,) = tensors(np.zeros((ds.shape[1], 2 * reach + 1)))
        agree(
            [solution("distance_table")(ds, reach)],
            table_loss(torch.tensor(ds), table, reach),
            [table],
        )


def test_frequency_gradients_by_autograd():
    for case in judge.find("frequency_gradients").cases:
        dy, *rest = case.inputs
        inputs = tensors(*rest)
        agree(
            solution("frequency_gradients")(dy, *rest),
            frequency_loss(torch.tensor(dy), *inputs),
            inputs,
        )


def test_the_cases_hold_what_the_exercises_promise():
    """More queries than keys and fewer, distances beyond the reach on both sides, widths above one pair."""
    shapes = [case.inputs[0].shape[-2:] for case in judge.find("distance_table").cases]
    assert any(T > S + 2 for T, S in shapes) and any(S > T + 2 for T, S in shapes)
    assert {case.inputs[1] for case in judge.find("distance_table").cases} == {1, 2, 3}
    for dy, angles in (case.inputs for case in judge.find("half_split_dx").cases):
        assert 1 < angles.shape[-1] < dy.shape[-1] / 2


# Right answers, written otherwise ---------------------------------------------------------------------------


def grid_by_loops(dy):
    rows, columns = np.zeros((dy.shape[1], dy.shape[3])), np.zeros((dy.shape[2], dy.shape[3]))
    for b, s, t in np.ndindex(*dy.shape[:3]):
        rows[s] += dy[b, s, t]
        columns[t] += dy[b, s, t]
    return rows, columns


def half_split_by_complex(dy, angles):
    first, second, rest = np.split(dy, [angles.shape[-1], 2 * angles.shape[-1]], -1)
    turned = (first + 1j * second) * np.exp(-1j * angles)
    return np.concatenate([turned.real, turned.imag, rest], -1)


def half_split_by_wide_arrays(dy, angles):
    wide = np.concatenate([angles, angles, np.zeros((len(angles), dy.shape[-1] - 2 * angles.shape[-1]))], -1)
    first, second, rest = np.split(dy, [angles.shape[-1], 2 * angles.shape[-1]], -1)
    return dy * np.cos(wide) + np.concatenate([second, -first, rest], -1) * np.sin(wide)


def slope_by_einsum(ds, q, k):
    t, s = np.indices(ds.shape[-2:])
    du = ds / k.shape[-1] ** 0.5
    dslope = np.einsum("bhts,ts->h", ds, -1.0 * abs(s - t))
    return np.einsum("bhts,bhsk->bhtk", du, k), np.einsum("bhts,bhtk->bhsk", du, q), dslope


def slope_by_loops(ds, q, k):
    dq, dk, dslope = np.zeros_like(q), np.zeros_like(k), np.zeros(ds.shape[1])
    for b, h, t, s in np.ndindex(*ds.shape):
        g = ds[b, h, t, s]
        dq[b, h, t] += g * k[b, h, s] / np.sqrt(q.shape[-1])
        dk[b, h, s] += g * q[b, h, t] / np.sqrt(q.shape[-1])
        dslope[h] -= g * abs(t - s)
    return dq, dk, dslope


def table_by_loops(ds, reach):
    table = np.zeros((ds.shape[1], 2 * reach + 1))
    for b, h, t, s in np.ndindex(*ds.shape):
        table[h, max(-reach, min(reach, s - t)) + reach] += ds[b, h, t, s]
    return table


def table_by_add_at(ds, reach):
    t, s = np.indices(ds.shape[-2:])
    table = np.zeros((ds.shape[1], 2 * reach + 1))
    for row, mine in zip(table, ds.sum(0), strict=True):
        np.add.at(row, np.clip(s - t, -reach, reach) + reach, mine)
    return table


def frequency_by_complex(dy, x, omega):
    t = np.arange(x.shape[1])[:, None]
    turn = np.exp(1j * t * omega)
    z, dz = x[..., ::2] + 1j * x[..., 1::2], dy[..., ::2] + 1j * dy[..., 1::2]
    back = dz * turn.conj()
    domega = (np.conj(1j * t * z * turn) * dz).real.sum((0, 1))
    return np.stack([back.real, back.imag], -1).reshape(x.shape), domega


def frequency_before_the_turn(dy, x, omega):
    """The angle between a pair and its gradient is the same before and after the turn."""
    angles = np.arange(x.shape[1])[:, None] * omega
    dx = ops.rotary_backward(dy, ops.rotary(x, angles)[1])
    cross = dx[..., 1::2] * x[..., ::2] - dx[..., ::2] * x[..., 1::2]
    return dx, np.einsum("btk,t->k", cross, np.arange(x.shape[1]))


RIGHT = {
    "grid_gradients": (grid_by_loops, lambda dy: (dy.sum(0).sum(1), dy.sum(0).sum(0))),
    "half_split_dx": (half_split_by_complex, half_split_by_wide_arrays),
    "slope_gradients": (slope_by_einsum, slope_by_loops),
    "distance_table": (table_by_loops, table_by_add_at),
    "frequency_gradients": (frequency_by_complex, frequency_before_the_turn),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_accepted_however_written(name):
    check_answers(name, RIGHT[name])


def test_every_exercise_has_been_solved_otherwise():
    assert set(RIGHT) == set(judge.chapters()["positions"])


# What the chapter draws and measures ------------------------------------------------------------------------


def test_a_line_holds_different_tokens():
    lines = shift.lines(np.random.default_rng(1), B=50, T=9)
    assert lines.shape == (50, 9) and all(len(set(line)) == 9 for line in lines)
    with pytest.raises(ValueError, match="at most 32"):
        shift.lines(np.random.default_rng(1), T=33)


def test_the_least_loss_of_one_who_sees_all_is_0_and_of_one_who_sees_nothing_is_largest():
    assert shift.least(4, lambda order, t: order[:t]) == 0
    np.testing.assert_allclose(shift.least(4, lambda order, t: 0), np.log(4))


def test_clipped_scores_are_rotary_scores_within_the_reach():
    q, k = np.random.default_rng(3).standard_normal((2, 2, 9, 6))
    angles = ops.rotary_angles(9, 6)
    free = ops.rotary(q, angles)[0] @ ops.rotary(k, angles)[0].mT / np.sqrt(6)
    np.testing.assert_allclose(shift.clipped_scores(q, k, 8), free, rtol=1e-10, atol=1e-12)
    clipped, near = shift.clipped_scores(q, k, 3), abs(np.subtract.outer(*[np.arange(9)] * 2)) <= 3
    np.testing.assert_allclose(clipped[:, near], free[:, near], rtol=1e-10, atol=1e-12)
    assert abs(clipped - free)[:, ~near].min() > 1e-6
    far = ops.rotary(k[:, 8:], 3 * ops.rotary_angles(2, 6)[1:])[0]  # the last key, as if 3 places after
    np.testing.assert_allclose(clipped[:, 0, 8], (q[:, 0] * far[:, 0]).sum(-1) / np.sqrt(6), rtol=1e-10)


def test_the_turn_in_complex_numbers_is_ours():
    x, angles = np.random.default_rng(2).standard_normal((2, 5, 6)), ops.rotary_angles(5, 6)
    theirs = shift.torch_turned(torch.tensor(x), torch.tensor(angles))
    np.testing.assert_allclose(theirs, ops.rotary(x, angles)[0], rtol=1e-12, atol=1e-14)


def test_the_figures_draw_what_they_are_given():
    losses = {"waves": np.ones((2, 3)), "rotary": np.zeros((2, 3))}
    fig = figures.lengths((10, 12, 16), losses, np.log([9, 11, 15]))
    assert [line.get_ydata().tolist() for line in fig.axes[0].lines][:2] == [[1, 1, 1], [0, 0, 0]]
    texts = {text.get_text() for text in figures.integers().axes[0].texts}
    assert {"−5", "10", "7", "−1"} <= texts
