"""Chapter 07: its exercises derived again; and the table counted from 1."""

import numpy as np
import torch
from judging import gradients, solution, tensor

from handgrad import ops
from handgrad.course import judge
from handgrad.ops.positions import rotary, rotary_angles

# The answers, derived a second time by automatic differentiation of the forward -----------------------------


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


def frequency_loss(dy, x, omega):
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))  # (B, T, K/2)
    angles = torch.arange(x.shape[1])[:, None] * omega
    return (dy * torch.view_as_real(pairs * torch.exp(1j * angles)).flatten(-2)).sum()


test_frequency_gradients_by_autograd = gradients(("frequency_gradients", frequency_loss, "x omega"))


def agree(mine, loss, leaves):
    for gradient, dx in zip(mine, torch.autograd.grad(loss, leaves), strict=True):
        np.testing.assert_allclose(gradient, dx, rtol=1e-10, atol=1e-12)


def leaf(array):
    return tensor(array).requires_grad_()


def test_turn_operations_by_counting():
    for N, H, K, T in ((1, 1, 2, 2), (2, 3, 4, 5)):
        turned = [(t, s) for t in range(T) for s in range(t + 1)] + [(t, "query") for t in range(T)]
        assert solution("turn_operations")(N, H, K, T) == N * H * len(turned) * K // 2 * 6


def test_half_split_by_autograd():
    for case in judge.find("half_split_dx").cases:
        dy, angles = case.inputs
        x = leaf(np.ones(dy.shape))
        agree([solution("half_split_dx")(dy, angles)], half_split_loss(tensor(dy), x, tensor(angles)), [x])


def test_slope_gradients_by_autograd():
    for case in judge.find("slope_gradients").cases:
        ds, q, k = case.inputs
        leaves = leaf(q), leaf(k), leaf(np.full(ds.shape[1], 0.3))
        agree(solution("slope_gradients")(ds, q, k), slope_loss(tensor(ds), *leaves), leaves)


def test_relative_gaps_tell_rotary_from_a_layer_that_turns_the_keys_alone():
    rng, angles = np.random.default_rng(3), rotary_angles(5, 6)
    q, k = (np.broadcast_to(rng.standard_normal((2, 3, 1, 6)), (2, 3, 5, 6)) for _ in range(2))
    turned = rotary(k, angles)[0].mT
    assert (solution("relative_gaps")(rotary(q, angles)[0] @ turned) < 1e-12).all()
    assert (solution("relative_gaps")(q @ turned) > 0.01).all()


def test_the_cases_hold_what_the_exercises_promise():
    """More queries than keys and fewer, widths above one pair."""
    shapes = [case.inputs[0].shape[-2:] for case in judge.find("relative_gaps").cases]
    assert any(T > S for T, S in shapes) and any(S > T for T, S in shapes)
    for dy, angles in (case.inputs for case in judge.find("half_split_dx").cases):
        assert 1 < angles.shape[-1] < dy.shape[-1] / 2


# What the chapter says --------------------------------------------------------------------------------------


def test_the_table_with_positions_and_columns_counted_from_1_is_the_same():
    t, j = np.indices((50, 8)) + 1
    angle = (t - 1) / 10000 ** ((j - 2 + j % 2) / 8)
    counted = np.where(j % 2, np.sin(angle), np.cos(angle))
    np.testing.assert_allclose(counted, ops.sinusoidal(50, 8), atol=1e-12)
