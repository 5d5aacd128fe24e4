"""The runs of chapter 21 measure what they say: each is derived a second time, in another way."""

import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from torch.nn import functional

from handgrad.chapters.attention import directory
from handgrad.chapters.errata import checks, counts, depth, figures, formulas, losses, masks
from handgrad.ops import attention, cross_entropy, softmax

NOTEBOOK = Path(__file__).parents[2] / "notebooks/21_errata.ipynb"


def test_every_erratum_and_every_convention_can_be_linked():
    text = "\n".join(cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells)
    found = re.findall(r"^\(errata-([ea]\d+)\)=$", text, re.MULTILINE)
    wanted = [f"e{n}" for n in range(1, 25)] + [f"a{n}" for n in range(1, 18)]
    assert sorted(found) == sorted(wanted)


def test_off_is_a_relative_length_and_infinite_for_another_shape():
    assert formulas.off([3.0, 0.0], [3.0, 4.0]) == pytest.approx(0.8)
    assert formulas.off([-3.0, -4.0], [3.0, 4.0]) == pytest.approx(2)
    assert formulas.off(np.ones(3), np.ones((3, 1))) == np.inf


def test_the_formulas_in_columns_are_wrong_as_printed_and_right_as_corrected():
    """From several draws; a factor that is counted twice leaves the direction alone."""
    for seed in (6, 7):
        found = formulas.answers(K=3, D=4, T=5, seed=seed)
        for printed, corrected, wanted in found.values():
            assert formulas.off(printed, wanted) > 0.1 and formulas.off(corrected, wanted) < 1e-8
        printed, corrected, _ = found["E3: dA"]
        np.testing.assert_allclose(printed, corrected / 3**0.5)


def test_the_jacobian_of_a_row_is_that_of_autograd():
    """The printed one sums to what the chapter says; and contracted with a gradient, it is that of E1."""
    scores = np.random.default_rng(3).standard_normal((3, 4))
    a = softmax(scores)[0]
    printed, corrected = formulas.jacobians(a)
    wanted = torch.autograd.functional.jacobian(lambda u: torch.softmax(u, -1), torch.tensor(scores))
    np.testing.assert_allclose(corrected, wanted.numpy(), atol=1e-15)
    np.testing.assert_allclose(printed.sum(axis=1), np.eye(3)[:, :, None] - a[:, None], atol=1e-15)
    q, k, v, dy = np.random.default_rng(4).standard_normal((4, 3, 3))
    _, cache = attention(q, k, v)
    dscores = np.einsum("ij,ijmn->mn", dy @ v.T, formulas.jacobians(cache["a"])[0])
    np.testing.assert_allclose(checks.SLIPPED(dy, cache)[0], cache["scale"] * dscores @ k, rtol=1e-12)


@pytest.mark.parametrize("loss", ["mean square", "projection"])
@pytest.mark.parametrize("norm", [True, False])
def test_six_blocks_have_the_gradients_of_autograd(loss, norm):
    rng = np.random.default_rng(0)
    x, direction = (torch.tensor(part) for part in rng.standard_normal((2, 10, 16)))
    weights = torch.tensor(rng.uniform(-0.25, 0.25, (6, 2, 16, 16)), requires_grad=True)
    for W_1, W_2 in weights:
        x = x + torch.relu(x @ W_1) @ W_2
        x = torch.nn.functional.layer_norm(x, (16,), eps=1e-2) if norm else x
    (x.square().mean() if loss == "mean square" else (direction * x).sum()).backward()
    wanted = weights.grad[:, 0].norm(dim=(1, 2)).numpy()
    np.testing.assert_allclose(depth.six_blocks(1e-2, loss, norm), wanted, rtol=1e-9)


def test_entropy_is_that_of_a_long_walk():
    rng = np.random.default_rng(5)
    P = losses.chain(rng)
    often = np.full(losses.V, 1 / losses.V)
    for _ in range(2000):
        often = often @ P
    assert losses.entropy(P) == pytest.approx(-(often[:, None] * P * np.log(P)).sum(), rel=1e-6)
    counted = losses.pairs(losses.rows(rng, P, 20_000))[:-1, :-1]
    assert -(counted * np.log(P)).sum() / counted.sum() == pytest.approx(losses.entropy(P), abs=0.02)


def test_padding_stands_at_the_end_only_and_every_row_has_targets():
    data = losses.rows(np.random.default_rng(1), losses.chain(np.random.default_rng(0)), 200)
    is_pad = data == losses.PAD
    assert (np.diff(is_pad.astype(int), axis=1) >= 0).all()
    assert (~is_pad[:, 1:]).sum(axis=1).min() >= losses.LENGTH // 4


def test_the_loss_of_pairs_is_the_shipped_one_and_its_gradient_that_of_differences():
    rng = np.random.default_rng(2)
    data = losses.rows(rng, losses.chain(rng), 5)
    table, way = rng.standard_normal((2, 9, 9))
    counted = losses.pairs(data)
    loss, dtable = losses.gradient(table, counted)
    assert loss == pytest.approx(cross_entropy(table[data[:, :-1]], data[:, 1:], losses.PAD)[0])
    ends = [losses.gradient(table + step * way, counted)[0] for step in (1e-5, -1e-5)]
    assert (dtable * way).sum() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_the_head_has_the_gradients_of_autograd():
    params, page = checks.start(np.random.default_rng(4)), directory.page(np.random.default_rng(5))
    leaves = {name: torch.tensor(x, requires_grad=True) for name, x in params.items()}
    asked, letters, digits, answers = (
        torch.tensor(page[n]) for n in ("asked", "letters", "digits", "answers")
    )
    q, k = functional.embedding(asked, leaves["letters"]), functional.embedding(letters, leaves["letters"])
    v = functional.embedding(digits, leaves["digits"])
    y = functional.scaled_dot_product_attention(q @ leaves["W_Q"], k @ leaves["W_K"], v)
    wanted = functional.cross_entropy((y @ leaves["W_O"]).flatten(0, 1), answers.flatten())
    wanted.backward()
    loss, grads = checks.gradients(params, page)
    assert loss == pytest.approx(wanted.item(), rel=1e-12)
    for name, leaf in leaves.items():
        np.testing.assert_allclose(grads[name], leaf.grad, atol=1e-12)


def test_wrong_norm_has_its_own_right_gradient():
    assert max(checks.own_of_norm(axis) for axis in (-1, -2)) < 1e-6


def test_levels_are_passed_or_not():
    assert checks.above([0.5, 2.0], 1.0) == 1 and checks.above([0.5, 0.9], 1.0) == 0
    assert checks.below([0.5, 0.25], 1.0) == 0.5 and checks.below([0.5, 1.5], 1.0) == 0
    assert checks.finds(np.inf) and not checks.finds(0.0)
    assert checks.refused(np.ones, (2,)) == 0


def test_counts_are_those_of_torch():
    layers = torch.nn.TransformerEncoderLayer(512, 8), torch.nn.TransformerDecoderLayer(512, 8)
    assert counts.stacks() == 6 * sum(p.numel() for layer in layers for p in layer.parameters())
    layer = torch.nn.TransformerEncoderLayer(64, 2)
    assert layer.linear1.out_features == 2048


def test_masks_before_the_softmax_leak_nothing_from_several_seeds():
    for seed in range(5):
        late, first = (masks.to_the_future(pair, seed=seed) for pair in (masks.LAST, masks.FIRST))
        assert first == 0 < 0.01 < late
        assert masks.to_later_inputs("decoder", seed=seed) == 0 < masks.to_later_inputs("encoder", seed=seed)


def test_the_cost_grows_with_the_square_of_the_width():
    """Fixed length, F = 4D: twice the width costs nearly four times as much, where n²D would say twice."""
    costs = [counts.products(20, D, 4, 4 * D) for D in (16, 32, 64, 128)]
    assert costs == [74_240, 271_360, 1_034_240, 4_034_560]
    assert all(3.6 < after / before < 4 for before, after in zip(costs, costs[1:]))


def test_figures_are_drawn():
    figures.integers()
    found = {"E1": {"shapes": (0.0, 0.0), "count": (0.4, 0.0)}, "E2": {"shapes": (np.inf, 0.0)}, "E3": {}}
    texts = [text.get_text() for text in figures.matrix(found, ("shapes", "count"), 1e-3).axes[0].texts]
    assert texts == ["passes", "0.4", "∞"]
