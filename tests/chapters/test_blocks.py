"""Chapter 12: its exercises derived again; its blocks and its task."""

from collections import Counter
from functools import partial
from itertools import product

import numpy as np
import optree
import pytest
import torch
from judging import check_gradients, solution
from sympy import diff, symbols
from torch.utils.flop_counter import FlopCounterMode

from handgrad import blocks, check
from handgrad.chapters.blocks import draws, proofs, walkers
from handgrad.config import Config, init
from handgrad.ops import cross_entropy, cross_entropy_backward

# The answers, derived a second time -------------------------------------------------------------------------


def rms(x, gamma):
    return gamma * torch.nn.functional.rms_norm(x, x.shape[-1:], eps=0.0)


def parallel_loss(dy, da, df, x, gamma):
    h = rms(x, gamma)
    return (dy * x).sum() + (da * h).sum() + (df * h).sum(), (x, gamma)


def twice_loss(dy, x, W):
    u = x + torch.tanh(x @ W)
    return (dy * (u + torch.tanh(u @ W))).sum(), (x, W)


def sandwich_loss(dy, x, W, b, gamma_in, gamma_out):
    return (dy * (x + rms(rms(x, gamma_in) @ W + b, gamma_out))).sum(), (x, W)


LOSSES = {
    "parallel_gradients": parallel_loss,
    "same_block_twice": twice_loss,
    "sandwich_gradients": sandwich_loss,
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_answers_are_the_gradients(name):
    check_gradients(name, LOSSES[name])


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


@pytest.mark.parametrize("place", blocks.PLACEMENTS)
def test_each_placement_has_its_own_zeros(place):
    zeros = {"post": [1, 0, 0], "pre": [0, 0, 1], "output": [1, 1, 0]}
    for seed in range(3):
        assert [z < 1e-12 for z in draws.zeros(place, seed).values()] == [bool(z) for z in zeros[place]]


def test_the_model_of_the_task_has_the_gradients_of_autograd():
    rng = np.random.default_rng(1)
    bits, before = rng.integers(2, size=(4, walkers.T)), rng.integers(walkers.V + 1, size=(4, walkers.T))
    letters, params = rng.integers(walkers.V, size=(4, walkers.T)), walkers.initial(1)
    leaves = optree.tree_map(lambda p: torch.tensor(p, requires_grad=True), params)
    numbers = map(torch.tensor, (bits, before))
    z, _ = walkers.forward(leaves, *numbers, mask=torch.tensor(walkers.CAUSAL))
    torch.nn.functional.cross_entropy(z.flatten(0, 1), torch.tensor(letters).flatten()).backward()
    z, caches = walkers.forward(params, bits, before)
    grads = walkers.backward(cross_entropy_backward(1.0, cross_entropy(z, letters)[1]), caches)
    assert walkers.distance(grads, optree.tree_map(lambda p: p.grad.numpy(), leaves)) < 1e-12


@pytest.mark.parametrize("V, T", [(2, 4), (3, 5)])
def test_the_levels_of_the_task_are_those_of_counting(V, T):
    """Every line there is: the entropy of a letter, given what is in view, in the mean over the letters."""
    counts = [Counter() for _ in range(6)]  # of views, and of views with the letter, for each of three
    for bits in product(range(2), repeat=T):
        for line in product(range(V), repeat=2):
            for t in range(2, T):
                line += ((line[t - 2] + bits[t]) % V,)
            for t, letter in enumerate(line):
                views = (t, bits, line[:t]), (t, line[:t]), (t, bits, line[max(t - 1, 0) : t])
                for view, seen, both in zip(views, counts[::2], counts[1::2], strict=True):
                    seen[view] += 1
                    both[view, letter] += 1
    lines = V**2 * 2**T
    found = [
        -sum(n * np.log(n / seen[view]) for (view, _), n in both.items()) / lines / T
        for seen, both in zip(counts[::2], counts[1::2], strict=True)
    ]
    least = 2 / T * np.log(V)
    np.testing.assert_allclose(found, [least, least + (T - 2) / T * np.log(2), np.log(V)])


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_a_block_costs_what_the_card_says(kind):
    T, S, D, F = 5, 8, 12, 20
    wanted = 8 * T * D**2 + 4 * T**2 * D + 4 * T * D * F
    wanted += (4 * T * D**2 + 4 * S * D**2 + 4 * T * S * D) * (kind == "decoder")
    leaves = optree.tree_map(
        lambda p: torch.tensor(p, requires_grad=True), draws.parameters(kind, 0, D=D, F=F)
    )
    x, memory = (torch.randn(1, n, D, dtype=torch.float64, requires_grad=True) for n in (T, S))
    with FlopCounterMode(display=False) as forward:
        block = blocks.encoder_block if kind == "encoder" else partial(blocks.decoder_block, x)
        y, _ = block(x if kind == "encoder" else memory, leaves, 2)
    with FlopCounterMode(display=False) as backward:
        y.sum().backward()
    assert (forward.get_total_flops(), backward.get_total_flops()) == (wanted, 2 * wanted)
