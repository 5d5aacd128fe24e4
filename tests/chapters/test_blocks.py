"""Chapter 12: its exercises derived again; its blocks and its task."""

import numpy as np
import pytest
import torch
from judging import check_gradients, solution
from sympy import diff, symbols

from handgrad import blocks, check, mistakes
from handgrad.chapters.blocks import figures, flows, proofs, torch_layer, walkers
from handgrad.course.figures import subplots

# The answers, derived a second time -------------------------------------------------------------------------


def rms(x, gamma):
    return gamma * torch.nn.functional.rms_norm(x, x.shape[-1:], eps=0.0)


def merged_loss(dy, dasks, dread):
    """A loss whose attention is linear and has these gradients."""
    S = dread.shape[1] - dy.shape[1]
    x = torch.zeros(dy.shape, dtype=dy.dtype, requires_grad=True)
    memory = torch.zeros((len(dy), S, dy.shape[2]), dtype=dy.dtype, requires_grad=True)
    loss = (dy * x).sum() + (dasks * x).sum() + (dread * torch.cat([memory, x], 1)).sum()
    return loss, (x, memory)


def parallel_loss(dy, da, df, x, gamma):
    h = rms(x, gamma)
    return (dy * x).sum() + (da * h).sum() + (df * h).sum(), (x, gamma)


def twice_loss(dy, x, W):
    u = x + torch.tanh(x @ W)
    return (dy * (u + torch.tanh(u @ W))).sum(), (x, W)


def sandwich_loss(dy, x, W, b, gamma_in, gamma_out):
    return (dy * (x + rms(rms(x, gamma_in) @ W + b, gamma_out))).sum(), (x, W)


LOSSES = {
    "merged_gradients": merged_loss,
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
def test_blocks_are_those_of_torch_and_of_the_twin(place):
    for seed in range(2):
        assert torch_layer.decoders_differ(place, seed, twin=True) < 1e-11
        assert torch_layer.encoders_differ(place, seed, twin=True) < 1e-11
        if place != "output":
            assert torch_layer.decoders_differ(place, seed) < 1e-11
            assert torch_layer.encoders_differ(place, seed) < 1e-11


@pytest.mark.parametrize("place", blocks.PLACEMENTS)
def test_the_edges_end_in_the_shipped_gradients(place):
    for name, array in flows.shipped(place, seed=5).items():
        np.testing.assert_allclose(flows.edges(place, seed=5)[1][name], array, rtol=1e-10)


def test_each_placement_has_its_own_zeros():
    zeros = {"post": [1, 0, 0], "pre": [0, 0, 1], "output": [1, 1, 0]}
    for place, wanted in zeros.items():
        both = flows.gradients(place, seed=6)
        found = [measure(*both, place) < 1e-12 for measure in (flows.columns, flows.radial, flows.tie)]
        assert found == [bool(zero) for zero in wanted]


@pytest.mark.parametrize("place", blocks.PLACEMENTS)
def test_behind_rms_norm_length_does_not_count_and_the_mean_does(place):
    x, memory, dy, mask, memory_mask = flows.inputs(0)
    params = flows.draw("decoder", 0)
    params |= {name: {"gamma": p["gamma"]} for name, p in params.items() if name.endswith("_norm")}
    how = dict(norm=place, mask=mask, memory_mask=memory_mask, activation="gelu", eps=0.0)
    grads = blocks.decoder_block_backward(dy, blocks.decoder_block(x, memory, params, 2, **how)[1])[2]
    assert flows.columns(params, grads) > 0.1
    assert (flows.radial(params, grads) < 1e-12) == (place == "output")


def test_what_the_connections_leave_is_what_comes_down_without_the_branches():
    branchless = mistakes.edited(blocks.decoder_block_backward, "dy + dh → dy", at=blocks.sublayer_backward)
    for place in blocks.PLACEMENTS:
        assert flows.errors(blocks.decoder_block_backward, place, 3) == [0] * 5
        _, cache, dy = flows.decoder(place, seed=3)
        alone, *_ = branchless(dy, cache)
        left = flows.size(alone) / flows.size(dy)
        np.testing.assert_allclose(flows.along(place, [3])[0], [left], rtol=1e-12)


def test_the_levels_of_the_task_are_those_of_counting():
    for V, T in ((2, 4), (3, 5), (4, 4)):
        for view, level in walkers.bounds(V, T).items():
            np.testing.assert_allclose(walkers.counted(walkers.VIEWS[view], V, T), level, rtol=1e-12)


def test_the_model_of_the_task_has_the_gradients_of_autograd():
    for place in blocks.PLACEMENTS:
        assert max(torch_layer.walkers_differ(place, seed=1)) < 1e-10


def test_the_figures_draw_what_they_are_given():
    found = {place: flows.edges(place, seed=3)[0] for place in blocks.PLACEMENTS}
    for step in (0, 5, 9):
        _, axes = subplots(1, 3)
        figures.flow(axes, found, step)
        numbers = [t.get_text() for t in axes[1].texts if t.get_text().replace(".", "").isdigit()]
        assert len(numbers) == [1, 9, 14][[0, 5, 9].index(step)], (step, numbers)
        assert figures.described(found, step)


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_a_block_costs_what_the_card_says(kind):
    T, S, D, F = 5, 8, 12, 20
    wanted = 8 * T * D**2 + 4 * T**2 * D + 4 * T * D * F
    if kind == "decoder":
        wanted += 4 * T * D**2 + 4 * S * D**2 + 4 * T * S * D
    assert torch_layer.flops(kind, T, S, D, F) == (wanted, 2 * wanted)
