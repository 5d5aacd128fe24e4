"""Chapter 06: its exercises, derived again; what it measures with."""

from itertools import product

import numpy as np
import pytest
import torch
from judging import gradients, solution, tensor
from sympy import Integer

from handgrad import check
from handgrad.blocks import PLACEMENTS, transform, transform_backward
from handgrad.chapters.residuals import figures, stacks
from handgrad.course import judge

# The stacks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACEMENTS)
@pytest.mark.parametrize("skip", [True, False])
def test_the_gradient_of_a_stack_is_its_derivative(place, skip):
    x, _, rng = stacks.inputs(1, (2, 3, 4))
    layers = stacks.draw(["attention", "feed-forward"], rng, 4, scale=0.7)

    def forward(x):
        streams, caches = stacks.stack(x, layers, place, skip)
        return streams[-1], caches

    pair = check.Pair(forward, lambda dy, caches: stacks.stack_backward(dy, caches, skip)[0][0])
    check.differences(pair, rng, {"x": x}, {}, digits=50)


def test_without_the_skip_the_branch_is_left():
    x, _, rng = stacks.inputs(2, (2, 3, 4))
    ((_, params),) = layers = stacks.draw(["feed-forward"], rng, 4)
    alone = stacks.stack(x, layers, "pre", skip=False)[0][-1]
    np.testing.assert_allclose(alone, transform(stacks.norm(x)[0], params)[0], atol=1e-14)


def test_the_weights_keep_the_mean_square():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 100, 16))
    found = []
    for _ in range(200):
        y, cache = transform(x, stacks.weights("feed-forward", rng, 16))
        back, _ = transform_backward(x, cache)
        found.append((np.mean(y**2), np.mean(back**2)))
    np.testing.assert_allclose(np.mean(found, axis=0), 1, rtol=0.1)


def cosine(u, v):
    return u @ v / np.linalg.norm(u) / np.linalg.norm(v)


def test_hidden_vectors_are_more_alike_than_the_inputs():
    x, _, rng = stacks.inputs(3, (50, 2, 32))
    for common in (0, 1, 3):  # what both inputs of a pair share
        pairs = stacks.norm(x + common * rng.standard_normal((50, 1, 32)))[0]
        hidden = np.maximum(pairs @ rng.standard_normal((50, 32, 2048)), 0)
        gained = [cosine(*h) - cosine(*pair) for h, pair in zip(hidden, pairs, strict=True)]
        assert np.mean(gained) > 3 * np.std(gained) / 50**0.5


def test_the_spread_of_equal_tokens_is_0():
    equal = np.ones((2, 3, 1)) * np.arange(4)
    assert stacks.spread(equal) == 0
    assert stacks.spread(equal * np.array([1, -1, 0])[:, None]) == 1


# The figures ------------------------------------------------------------------------------------------------


def test_the_integers_of_the_chapter_are_right():
    J_0, J_1 = np.array([[0, 2], [1, 0]]), np.array([[1, -1], [0, 1]])
    x, dy = np.array([1, 2]), np.array([1, 2])
    middle = x + J_0 @ x
    back = dy + J_1.T @ dy
    shown = {text.get_text() for text in figures.integers().axes[0].texts}
    drawn = [x, J_0 @ x, middle, J_1 @ middle, middle + J_1 @ middle, dy, J_1.T @ dy, back, J_0.T @ back]
    assert {f"({a}, {b})" for a, b in drawn} <= shown
    paths = [dy, J_0.T @ dy, J_1.T @ dy, J_0.T @ J_1.T @ dy]
    assert [path.tolist() for path in paths] == [[1, 2], [2, 2], [1, 1], [1, 2]]
    assert sum(paths).tolist() == (back + J_0.T @ back).tolist() == [5, 7]


# The answers, derived a second time -------------------------------------------------------------------------


def test_the_share_of_the_skip_by_measurement():
    """Along the skips of LN(a x + f(x)), on wide random tokens."""
    rng, a, u, n = np.random.default_rng(0), 1.5, 0.8, 6
    x, back = rng.standard_normal((2, 50, 2000))
    x, first = stacks.norm(x)[0], np.linalg.norm(back)
    caches = []
    for _ in range(n):
        x, cache = stacks.norm(a * x + u * rng.standard_normal(x.shape))
        caches.append(cache)
    for cache in reversed(caches):
        back = a * stacks.norm_backward(back, cache)
    wanted = float(solution("skip_share")(Integer(3) / 2, Integer(4) / 5, Integer(n)))
    np.testing.assert_allclose(np.linalg.norm(back) / first, wanted, rtol=0.01)


def test_the_living_paths_are_counted_one_by_one():
    """All sets of kept branches of four, and all sets of branches that a path takes."""
    N, p = 4, 0.3
    expected = 0.0
    for kept in product((0, 1), repeat=N):
        weight = np.prod([1 - p if one else p for one in kept])
        paths = product((0, 1), repeat=N)
        expected += weight * sum(all(one <= left for one, left in zip(path, kept)) for path in paths)
    np.testing.assert_allclose(float(solution("living_paths")(N, p)), expected, rtol=1e-12)


def layer_scale_loss(dy, x, W, a):
    return (dy * (x + a * (x @ W))).sum()


def highway_loss(dy, x, f, W):
    g = torch.sigmoid(x @ W)
    return (dy * (g * f + (1 - g) * x)).sum()


test_the_answers_are_the_gradients = gradients(
    ("layer_scale_backward", layer_scale_loss, "x W a"),
    ("highway_backward", highway_loss, "x f W"),
)


def test_reversible_against_autograd():
    (inputs,) = (case.inputs for case in judge.find("reversible_backward").cases if case.name == "a batch")
    du, dv, x, z, A, C = map(tensor, inputs)
    leaves = x.requires_grad_(), z.requires_grad_()
    u = x + torch.tanh(z @ A)
    v = z + torch.tanh(u @ C)
    wanted = *leaves, *torch.autograd.grad((du * u).sum() + (dv * v).sum(), leaves)
    found = solution("reversible_backward")(*(t.detach().numpy() for t in (du, dv, u, v, A, C)))
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs.detach(), rtol=1e-9, atol=1e-11)
