"""Chapter 12: its exercises derived again; its blocks and its task."""

from collections import Counter
from itertools import product

import numpy as np
import optree
import pytest
import torch
from judging import gradients, solution
from sympy import diff, symbols
from torch.utils.flop_counter import FlopCounterMode

from handgrad import blocks, check
from handgrad.chapters.blocks import draws, proofs
from handgrad.config import Config, init

# The answers, derived a second time -------------------------------------------------------------------------


def rms(x, gamma):
    return gamma * torch.nn.functional.rms_norm(x, x.shape[-1:], eps=0.0)


def parallel_loss(dy, da, df, x, gamma):
    h = rms(x, gamma)
    return (dy * x).sum() + (da * h).sum() + (df * h).sum()


def twice_loss(dy, x, W):
    u = x + torch.tanh(x @ W)
    return (dy * (u + torch.tanh(u @ W))).sum()


def sandwich_loss(dy, x, W, b, gamma_in, gamma_out):
    return (dy * (x + rms(rms(x, gamma_in) @ W + b, gamma_out))).sum()


test_the_answers_are_the_gradients = gradients(
    ("parallel_gradients", parallel_loss, "x gamma"),
    ("same_block_twice", twice_loss, "x W"),
    ("sandwich_gradients", sandwich_loss, "x W"),
)


def test_the_slope_is_the_derivative():
    x, a, b, c = symbols("x a b c")
    u = x + a * x**2 / 2
    v = u + b * u**3
    assert (diff(v + c * v**2 / 2, x) - solution("macaron_slope")(x, a, b, c)).expand() == 0


@pytest.mark.parametrize("N", [1, 2, 3])
def test_the_reach_of_the_memory_is_that_of_shipped_blocks(N):
    """Derivatives by the memory of a random stack, whose blocks have the two masks."""
    rng = np.random.default_rng(N)
    mask, memory_mask = np.tri(4, dtype=bool), rng.random((4, 5)) < 0.3
    mask[2, 1] = False
    config = Config("encoder-decoder", 9, D=8, H=2, F=12, N=N, norm="pre")
    stack = init(config, rng, np.float64)["decoder"]
    x, memory = rng.standard_normal((1, 4, 8)), rng.standard_normal((1, 5, 8))

    def last(memory):
        y = x
        for params in stack:
            y, _ = blocks.decoder_block(y, memory, params, 2, "pre", mask, memory_mask)
        return y

    moved = np.abs(check.measured(last, memory)).max(axis=(0, 2, 3, 5)) > 1e-9  # (T, S)
    np.testing.assert_array_equal(solution("memory_reach")(mask, memory_mask, N), moved)


# What the chapter says --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", blocks.PLACEMENTS)
def test_the_shipped_sublayer_is_proved_and_a_wrong_one_refuted(place):
    assert check.prove(proofs.around_linear(place)) == 21

    def without_the_connection(dy, cache):
        dx, *others = proofs.backward(dy, cache)
        return dx - dy, *others

    with pytest.raises(AssertionError, match="dx"):
        check.prove(proofs.around_linear(place, without_the_connection))


@pytest.mark.parametrize("V, T", [(2, 5), (3, 4), (7, 8)])
def test_the_levels_of_the_task_are_those_of_counting(V, T):
    """All lines: the entropy of a digit given those before it, and given the last one, on average."""
    seen, both = Counter(), Counter()
    for line in product(range(V), repeat=2):
        while len(line) < T:
            line += ((line[-2] + line[-1]) % V,)
        for t, digit in enumerate(line):
            for view in (("all", t, line[:t]), ("own", t, line[max(t - 1, 0) : t])):
                seen[view] += 1
                both[view, digit] += 1
    found = {"all": 0.0, "own": 0.0}
    for (view, _), n in both.items():
        found[view[0]] -= n * np.log(n / seen[view]) / V**2 / T
    np.testing.assert_allclose([found["all"], found["own"]], [2 / T * np.log(V), np.log(V)])


def test_a_block_costs_what_the_chapter_says():
    T, D, F = 5, 12, 20
    leaves = optree.tree_map(
        lambda p: torch.tensor(p, requires_grad=True), draws.parameters("encoder", 0, D=D, F=F)
    )
    x = torch.randn(1, T, D, dtype=torch.float64, requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        y, _ = blocks.encoder_block(x, leaves, 2)
    with FlopCounterMode(display=False) as backward:
        y.sum().backward()
    wanted = 8 * T * D**2 + 4 * T**2 * D + 4 * T * D * F
    assert (forward.get_total_flops(), backward.get_total_flops()) == (wanted, 2 * wanted)
