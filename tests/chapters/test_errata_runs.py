"""The runs of chapter 21 measure what they say: each is derived a second time, in another way."""

import re
from pathlib import Path

import nbformat
import numpy as np
import pytest

from handgrad.chapters.attention import directory
from handgrad.chapters.errata import checks, counts, depth, figures, formulas, losses, masks
from handgrad.ops import softmax

NOTEBOOK = Path(__file__).parents[2] / "notebooks/21_errata.ipynb"


def test_every_erratum_and_every_convention_can_be_linked():
    text = "\n".join(cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells)
    found = re.findall(r"^\(errata-([ea]\d+)\)=$", text, re.MULTILINE)
    wanted = [f"e{n}" for n in range(1, 25)] + [f"a{n}" for n in range(1, 18)]
    assert sorted(found) == sorted(wanted)


def test_the_fourth_path_of_text_C_is_that_of_autograd():
    """The block of its step 4, built a second time: without the connection the gradient lacks dz̄."""
    import torch

    rng = np.random.default_rng(11)
    A, B, C = torch.tensor(rng.standard_normal((3, 4, 4)))
    X, W_1, W_2 = (torch.tensor(rng.standard_normal(shape)) for shape in ((4, 5), (6, 4), (4, 6)))
    gamma, beta, dY = (torch.tensor(rng.standard_normal(shape)) for shape in (4, 4, (4, 5)))
    X.requires_grad_(True)
    Z = C @ X @ torch.softmax((A @ X).T @ (B @ X) / 2, dim=0)
    skip = X.clone()
    z_bar = skip + torch.nn.functional.layer_norm(Z.T, (4,), gamma, beta).T
    loss = (dY * (z_bar + W_2 @ torch.relu(W_1 @ z_bar))).sum()
    whole, by_skip = torch.autograd.grad(loss, (X, skip))
    three, four = formulas.fourth_path()
    assert three == pytest.approx(float(by_skip.norm() / whole.norm()), rel=1e-6) and four < 1e-8


def test_off_is_a_relative_length_and_infinite_for_another_shape():
    assert formulas.off([3.0, 0.0], [3.0, 4.0]) == pytest.approx(0.8)
    assert formulas.off([-3.0, -4.0], [3.0, 4.0]) == pytest.approx(2)
    assert formulas.off(np.ones(3), np.ones((3, 1))) == np.inf


def test_printed_jacobian_sums_to_what_the_chapter_says():
    a = softmax(np.random.default_rng(3).standard_normal((3, 4)))[0]
    sums = formulas.jacobian(formulas.printed, a).sum(axis=1)  # (T, T, S)
    np.testing.assert_allclose(sums, np.eye(3)[:, :, None] - a[:, None], atol=1e-15)
    np.testing.assert_allclose(formulas.jacobian(formulas.corrected, a).sum(axis=1), 0, atol=1e-15)


def test_the_picture_that_moves_shows_the_errors_of_the_table():
    shown = [formulas.off(*pair) for pair in formulas.answers().values()][1:]
    wanted = [line[0] for line in checks.columns.printed_and_right(4, 5, 6).values()]
    np.testing.assert_allclose(shown, wanted, rtol=1e-6)


@pytest.mark.parametrize("loss", ["mean square", "projection"])
@pytest.mark.parametrize("norm", [True, False])
def test_six_blocks_have_the_gradients_of_autograd(loss, norm):
    import torch

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
    data = losses.rows(rng, P, 20_000)
    pairs = np.stack([data[:, :-1].ravel(), data[:, 1:].ravel()])
    pairs = pairs[:, (pairs != losses.PAD).all(axis=0)]
    assert -np.log(P[pairs[0], pairs[1]]).mean() == pytest.approx(losses.entropy(P), abs=0.02)


def test_padding_stands_at_the_end_only_and_every_row_has_targets():
    data = losses.rows(np.random.default_rng(1), losses.chain(np.random.default_rng(0)), 200)
    is_pad = data == losses.PAD
    assert (np.diff(is_pad.astype(int), axis=1) >= 0).all()
    assert (~is_pad[:, 1:]).sum(axis=1).min() >= losses.LENGTH // 4


def test_gradient_of_the_table_is_that_of_differences():
    rng = np.random.default_rng(2)
    data = losses.rows(rng, losses.chain(rng), 5)
    table, way = rng.standard_normal((2, 9, 9))
    _, dtable = losses.gradient(table, data, losses.PAD)
    ends = [losses.gradient(table + step * way, data, losses.PAD)[0] for step in (1e-5, -1e-5)]
    assert (dtable * way).sum() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_the_head_learns_as_autograd_does():
    rng = np.random.default_rng(4)
    sizes = dict(letters=(26, 16), digits=(10, 16), W_Q=(16, 16), W_K=(16, 16), W_O=(16, 10))
    params = {name: rng.standard_normal(size) / (4 if name[0] == "W" else 1) for name, size in sizes.items()}
    wanted = directory.torch_train(params, rng, steps=20)
    np.testing.assert_allclose(checks.look_up(checks.right, 4, steps=20, B=64), wanted, rtol=1e-9)


def test_wrong_norm_has_its_own_right_gradient():
    x = np.random.default_rng(0).standard_normal((4, 3))
    for axis in (-1, -2):
        gap = checks.own_gradient(
            lambda x, axis=axis: checks.normalised(x, axis),
            lambda dy, cache, axis=axis: checks.normalised_backward(dy, cache, axis),
            x,
        )
        assert gap < 1e-6


def test_levels_are_passed_or_not():
    assert checks.above([0.5, 2.0], 1.0) == 1 and checks.above([0.5, 0.9], 1.0) == 0
    assert checks.below([0.5, 0.25], 1.0) == 0.5 and checks.below([0.5, 1.5], 1.0) == 0
    assert checks.finds(np.inf) and not checks.finds(0.0) and not checks.finds(None)
    assert checks.refused(np.ones, (2,)) == 0


def test_counts_are_those_of_torch():
    import torch

    layers = torch.nn.TransformerEncoderLayer(512, 8), torch.nn.TransformerDecoderLayer(512, 8)
    assert counts.stacks() == 6 * sum(p.numel() for layer in layers for p in layer.parameters())
    layer = torch.nn.TransformerEncoderLayer(64, 2)
    assert layer.linear1.out_features == 2048


def test_masks_before_the_softmax_leak_nothing_from_several_seeds():
    for seed in range(5):
        late, first = (masks.to_the_future(pair, seed=seed) for pair in (masks.LAST, masks.FIRST))
        assert first == 0 < 0.01 < late
        assert masks.to_later_inputs("decoder", seed=seed) == 0 < masks.to_later_inputs("encoder", seed=seed)


def test_connections_alone_leave_what_the_backward_of_the_skips_leaves():
    """The differences of `frozen`, a second time: by the stack's backward without its branches."""
    stacks = depth.stacks
    for norm, place in ((True, "post"), (False, "none")):
        x, dy, rng = stacks.inputs(0, (1, 3, 8))
        layers = stacks.draw(["feed-forward"] * 6, rng, 8, 16)
        _, caches = stacks.stack(x, layers, place)
        alone = stacks.stack_backward(dy, caches, branch=False)[0][0]
        assert depth.frozen(6, norm) == pytest.approx(formulas.off(dy, alone), rel=1e-5, abs=1e-8)


def test_the_cost_grows_with_the_square_of_the_width():
    """Fixed length, F = 4D: twice the width costs nearly four times as much, where n²D would say twice."""
    costs = [counts.products(20, D, 4, 4 * D)[0] for D in (16, 32, 64, 128)]
    assert costs == [74_240, 271_360, 1_034_240, 4_034_560]
    assert all(3.6 < after / before < 4 for before, after in zip(costs, costs[1:]))


def test_figures_are_drawn():
    figures.integers()
    figures.graph()
    figures.verdicts([("A", "wrong"), ("B", "ambiguous"), ("B", "incomplete")])
    figures.depth({10: 0.1, 100: 1e-12}, {10: 1.0, 100: 1.0})
    found = {"E1": {"shapes": 0.0, "count": 0.4}, "E2": {"shapes": np.inf}, "E3": {}}
    texts = [text.get_text() for text in figures.matrix(found, ("shapes", "count"), 1e-3).axes[0].texts]
    assert texts == ["passes", "0.4", "∞"]
