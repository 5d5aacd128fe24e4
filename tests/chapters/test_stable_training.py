"""Chapter 14: what it measures with; its exercises, derived again."""

import numpy as np
import pytest
import torch
from judging import check_answers, gradients, solution

from handgrad.chapters.stable_training import halves, torch_layer

# What is measured -------------------------------------------------------------------------------------------


def beside(numbers):
    """The numbers of a format, every middle between neighbours, and what lies directly beside each middle."""
    numbers = np.unique(numbers[np.isfinite(numbers)])
    half = numbers.dtype.type(0.5)
    middles = half * numbers[1:] + half * numbers[:-1]
    ends = [np.nextafter(middles, middles.dtype.type(end)) for end in (np.inf, -np.inf)]
    return np.concatenate([numbers, middles, *ends])


def test_every_number_is_rounded_as_numpy_and_torch_do():
    """Between two neighbours rounding changes at one place, the middle."""
    bits = np.arange(2**16)
    places = beside(bits.astype(np.uint16).view(np.float16).astype(np.float64))
    np.testing.assert_array_equal(halves.rounded(places, 10, -14), places.astype(np.float16))
    places = beside((bits << 16).astype(np.uint32).view(np.float32))
    np.testing.assert_array_equal(halves.rounded(places.astype(np.float64)), torch_layer.bfloat16(places))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rounding_keeps_type_and_signs(kind):
    x = np.array([-0.0, 1e-9, -1e-9, 1 + 2**-11], kind)
    y = halves.rounded(x, 10, -14)
    assert y.dtype == kind
    np.testing.assert_array_equal(y, [0, 0, 0, 1])
    assert np.signbit(y).tolist() == np.signbit(x).tolist()


# The answers, derived a second time -------------------------------------------------------------------------


def test_the_variance_is_that_of_a_leaky_layer():
    a, rng = 0.3, np.random.default_rng(0)
    x = rng.standard_normal(40)
    z = x @ rng.normal(0, float(solution("leaky_variance")(a, 40)) ** 0.5, (40, 200_000))
    np.testing.assert_allclose(np.mean(np.where(z > 0, z, a * z) ** 2), np.mean(x**2), rtol=0.02)


def test_the_variance_however_written():
    check_answers("leaky_variance", [lambda a, D: 2 / D / (1 + a**2), lambda a, D: 2 / (D + D * a**2)])


def by_torch(dW, db, counts, s, R):
    parameters = [torch.nn.Parameter(torch.zeros(d.shape[1:], dtype=torch.float64)) for d in (dW, db)]
    for parameter, parts in zip(parameters, (dW, db), strict=True):
        parameter.grad = torch.tensor(np.average(parts, axis=0, weights=counts) / s)
    length = torch.sqrt(sum((parameter.grad**2).sum() for parameter in parameters))
    factor = torch.clamp(R / length, max=1.0)
    return tuple((factor * parameter.grad).numpy() for parameter in parameters)


def test_the_end_of_a_step_otherwise():
    check_answers("unscaled_and_clipped", [by_torch])


def renormalised_loss(dy, a, v, keep):
    return (dy * (a * keep / (a * keep).sum(-1, keepdim=True) @ v)).sum()


test_renormalised_dropout_otherwise = gradients(("renormalised_backward", renormalised_loss, "a v"))
