"""Chapter 14: what it measures with; its exercises, derived again."""

import mpmath
import numpy as np
import pytest
import torch
from judging import check_answers, solution
from sympy import Integer, simplify, symbols

from handgrad import check
from handgrad.chapters.stable_training import deep, figures, halves, house, torch_layer, trials
from handgrad.ops import dropout_backward

# What is measured -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_gradient_of_a_stack_of_layers_is_its_derivative(activation):
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(shape) for shape in ((3, 5), (5, 2))]

    def forward(x):
        levels, caches = deep.stack(x, weights, activation)
        return levels[-1], caches

    pair = check.Pair(forward, lambda dy, caches: deep.stack_backward(dy, caches, activation)[0])
    check.differences(pair, rng, {"x": rng.standard_normal((4, 3))}, {})


def test_the_law_is_a_product():
    forward, backward = deep.law([2, 3, 5], 2)
    np.testing.assert_allclose(forward, 1)
    np.testing.assert_allclose(backward, [5 / 2, 5 / 3, 1])
    forward, backward = deep.law([2, 3, 5], 2, "out")
    np.testing.assert_allclose(forward, [1, 2 / 3, 2 / 5])
    np.testing.assert_allclose(backward, 1)


@pytest.mark.parametrize("v", [0.3, 1, 2.5])
def test_the_share_of_gelu_is_its_integral(v):
    def square(z):
        return (z * mpmath.ncdf(z)) ** 2 * mpmath.npdf(z, 0, mpmath.sqrt(v))

    wanted = mpmath.quad(square, [-mpmath.inf, 0, mpmath.inf]) / v
    np.testing.assert_allclose(deep.gelu_share(v), float(wanted), rtol=1e-9)


def test_rounding_keeps_type_and_signs():
    for kind in (np.float32, np.float64):
        x = np.array([-0.0, 1e-9, -1e-9, 70000, -70000, 1 + 2**-11], kind)
        y = halves.rounded(x)
        assert y.dtype == kind
        np.testing.assert_array_equal(y, [0, 0, 0, np.inf, -np.inf, 1])
        assert np.signbit(y).tolist() == np.signbit(x).tolist()


def test_rounding_ends_in_infinity():
    np.testing.assert_array_equal(halves.rounded(np.array([1e30, -1e30])), [np.inf, -np.inf])


def test_the_scale_is_that_of_torch():
    finite = [True, True, False, True, True, True, False, False, True]
    state, ours = (8.0, 0), []
    for fate in finite:
        state = halves.next_scale(*state, fate, interval=2)
        ours.append(state[0])
    assert ours == torch_layer.scales(finite, 8.0, 2)


def test_the_gradients_of_pairs_are_those_of_autograd():
    share, q = trials.pairs()
    params = trials.initial(3, N=2, dtype=np.float64)
    _, grads = trials.gradients(params, share, q)
    for ours, theirs in zip(trials.leaves(grads), torch_layer.pair_gradients(params, share, q), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-13)


def test_an_infinite_step_is_left_out():
    share, q = trials.pairs()
    params = trials.initial(0)
    curve, _, scales = trials.train(
        params, share, q, 4, half=halves.rounded, scale=2.0**18, dynamic=True, interval=50
    )
    assert scales == [2.0**18, 2.0**17, 2.0**17, 2.0**17]
    assert curve[0] == curve[1] > curve[2]


def test_clipping_is_that_of_torch_and_bfloat16_too():
    arrays = [np.array([[3.0, 4.0]]), np.array([12.0])]
    shorter, length = torch_layer.clipped(arrays, 6.5)
    assert length == 13
    np.testing.assert_allclose(shorter[0], [[1.5, 2]], rtol=1e-6)
    assert torch_layer.bfloat16(np.float32([1 + 2**-9])) == 1


def test_the_bad_batch_leaves_no_trace_if_clipped():
    np.testing.assert_allclose(house.moves(1.0, at=20, steps=40), 1, rtol=1e-5)
    assert house.moves(np.inf, at=20, steps=40)[25] < 0.95


def test_masks_drawn_anew_are_right_on_average_only():
    rng, dy = np.random.default_rng(0), np.array([1.0, -2.0])
    np.testing.assert_allclose(house.average_dx(dropout_backward, dy, 0.3, rng), dy, rtol=0.05)


# The figures ------------------------------------------------------------------------------------------------


def test_the_figures_find_room():
    assert figures.graph().axes
    shown = figures.by_hand([2, -4], [True, False], [4, 0], [2, 0], [1, 1]).axes[0].texts
    assert [text.get_text() for text in shown].count("× 2") == 1
    words = figures.histogram_words([np.array([2.0**-26, 1.0]), np.array([1.0])])
    assert words(0).startswith("Scale 2 to the power 0: 50.0% of the logits and 0.0%")
    assert "some overflow" in words(16) and "none overflows" in words(15)


# 1 ----------------------------------------------------------------------------------------------------------


def test_the_variance_is_that_of_a_leaky_layer():
    a, rng = 0.3, np.random.default_rng(0)
    x = rng.standard_normal(40)
    z = x @ rng.normal(0, float(solution("leaky_variance")(a, 40)) ** 0.5, (40, 200_000))
    np.testing.assert_allclose(np.mean(np.where(z > 0, z, a * z) ** 2), np.mean(x**2), rtol=0.02)


def test_the_variance_however_written():
    a, D = symbols("a D", positive=True)
    assert simplify(solution("leaky_variance")(a, D) - 2 / (D + D * a**2)) == 0
    answers = [lambda a, D: 2 / D / (1 + a**2), lambda a, D: 1 / (D / Integer(2) + D * a**2 / 2)]
    check_answers("leaky_variance", answers)


# 2 ----------------------------------------------------------------------------------------------------------


def by_torch(dW, db, counts, s, R):
    parameters = [torch.nn.Parameter(torch.zeros(d.shape[1:], dtype=torch.float64)) for d in (dW, db)]
    for parameter, parts in zip(parameters, (dW, db), strict=True):
        parameter.grad = torch.tensor(np.average(parts, axis=0, weights=counts) / s)
    length = torch.sqrt(sum((parameter.grad**2).sum() for parameter in parameters))
    factor = torch.clamp(R / length, max=1.0)
    return tuple((factor * parameter.grad).numpy() for parameter in parameters)


def test_the_end_of_a_step_otherwise():
    check_answers("unscaled_and_clipped", [by_torch])


# 3 ----------------------------------------------------------------------------------------------------------


def renormalised_by_torch(dy, a, v, keep):
    a, v = torch.tensor(a, requires_grad=True), torch.tensor(v, requires_grad=True)
    kept = a * torch.tensor(keep)
    (kept / kept.sum(dim=-1, keepdim=True) @ v).backward(torch.tensor(dy))
    return a.grad.numpy(), v.grad.numpy()


def test_renormalised_dropout_otherwise():
    check_answers("renormalised_backward", [renormalised_by_torch])
