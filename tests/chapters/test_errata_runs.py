"""The runs of chapter 21 measure what they say: each is derived a second time, in another way."""

import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from torch.nn import functional

from handgrad.chapters.attention import directory
from handgrad.chapters.errata import depth, formulas, losses, masks, training
from handgrad.chapters.residuals import stacks
from handgrad.mistakes import edited
from handgrad.ops import attention, attention_backward, cross_entropy

CELLS = nbformat.read(Path(__file__).parents[2] / "notebooks/21_errata.ipynb", as_version=4).cells


def test_every_erratum_and_every_convention_can_be_linked():
    text = "\n".join(cell.source for cell in CELLS)
    found = re.findall(r"^\(errata-([ea]\d+)\)=$", text, re.MULTILINE)
    wanted = [f"e{n}" for n in range(1, 25)] + [f"a{n}" for n in range(1, 18)]
    assert sorted(found) == sorted(wanted)


def test_off_is_a_relative_length_and_infinite_for_another_shape():
    assert formulas.off([3.0, 0.0], [3.0, 4.0]) == pytest.approx(0.8)
    assert formulas.off([-3.0, -4.0], [3.0, 4.0]) == pytest.approx(2)
    assert formulas.off(np.ones(3), np.ones((3, 1))) == np.inf


def test_the_formulas_of_a_head_are_wrong_as_printed_and_right_as_corrected():
    """From several draws; a factor that is counted twice leaves the direction alone."""
    for seed in (6, 7):
        found = formulas.answers(K=3, D=4, T=5, seed=seed)
        for printed, corrected, wanted in found.values():
            assert formulas.off(printed, wanted) > 0.1 and formulas.off(corrected, wanted) < 1e-8
        printed, corrected, _ = found["E3: dW_K"]
        np.testing.assert_allclose(printed, corrected / 3**0.5)


def test_the_edit_of_the_first_erratum_is_its_printed_jacobian():
    """∂a_ts/∂u_nr = a_ts (δ_tn − a_tr), contracted with the gradient of the weights; its sum is not 0."""
    faults = next(cell.source for cell in CELLS if cell.id == "more-faults")
    exec(faults, found := {})
    q, k, v, dy = np.random.default_rng(4).standard_normal((4, 3, 3))
    _, cache = attention(q, k, v)
    a, own = cache["a"], np.eye(3)
    printed = np.einsum("ij,im->ijm", a, own)[..., None] - np.einsum("ij,in->ijn", a, a)[:, :, None]
    np.testing.assert_allclose(printed.sum(axis=1), own[..., None] - a[:, None], atol=1e-15)
    dscores = np.einsum("ij,ijmn->mn", dy @ v.T, printed)
    dq, _, _ = edited(attention_backward, *found["more_faults"]["E1"])(dy, cache)
    np.testing.assert_allclose(dq, cache["scale"] * dscores @ k, rtol=1e-12)


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


def test_entropy_is_the_loss_of_the_rule_on_a_long_text():
    rng = np.random.default_rng(5)
    counted = losses.pairs(losses.rows(rng, 20_000))[:-1, :-1]
    assert losses.mean(losses.RULE, counted) == pytest.approx(losses.ENTROPY, abs=0.01)
    np.testing.assert_allclose(losses.model(1e5 * counted), counted / counted.sum(axis=1, keepdims=True))


def test_padding_stands_at_the_end_only_and_every_row_has_targets():
    data = losses.rows(np.random.default_rng(1), 200)
    is_pad = data == losses.PAD
    assert (np.diff(is_pad.astype(int), axis=1) >= 0).all()
    assert (~is_pad[:, 1:]).sum(axis=1).min() >= losses.T // 4


def test_the_loss_of_pairs_is_the_shipped_one():
    rng = np.random.default_rng(2)
    data, P = losses.rows(rng, 5), rng.dirichlet(np.ones(9), 9)
    for padding, ignored in ((False, losses.PAD), (True, -100)):
        wanted, _ = cross_entropy(np.log(P)[data[:, :-1]], data[:, 1:], ignored)
        assert losses.mean(P, losses.pairs(data, padding)) == pytest.approx(wanted)


def test_three_wrong_reports_lie_below_the_entropy():
    for seed in range(3):
        right, by_rows, padded, seen = losses.reports(seed).values()
        assert right == pytest.approx(1, abs=0.03) and by_rows == pytest.approx(1 / 16, abs=0.005)
        assert padded == pytest.approx(5 / 6, abs=0.01) and 0.65 < seen < 0.8


def test_the_head_has_the_gradients_of_autograd():
    params, page = training.start(np.random.default_rng(4)), directory.page(np.random.default_rng(5))
    leaves = letters, digits, W_Q, W_K, W_O = [torch.tensor(x, requires_grad=True) for x in params]
    asked, listed, of_page, answers = (
        torch.tensor(page[name]) for name in ("asked", "letters", "digits", "answers")
    )
    q, k, v = letters[asked] @ W_Q, letters[listed] @ W_K, digits[of_page]
    y = functional.scaled_dot_product_attention(q, k, v)
    wanted = functional.cross_entropy((y @ W_O).flatten(0, 1), answers.flatten())
    wanted.backward()
    loss, grads = training.loss_and_gradients(params, page, attention_backward)
    assert loss == pytest.approx(wanted.item(), rel=1e-12)
    for dx, leaf in zip(grads, leaves, strict=True):
        np.testing.assert_allclose(dx, leaf.grad, atol=1e-12)


def test_gradients_return_through_post_norm_as_the_claim_on_it_says():
    """A11: 1.3, 1.0 and 0.4 of a gradient, medians of five draws."""
    for depth_of_stack, share in ((12, 1.3), (24, 1.0), (48, 0.4)):
        runs = [stacks.measure(["feed-forward"] * depth_of_stack, "post", seed) for seed in range(5)]
        sizes = stacks.size([gradients for _, gradients, _ in runs])
        assert np.median(sizes[:, 0] / sizes[:, -1]) == pytest.approx(share, abs=0.05)


def test_a_norm_behind_attention_only_lets_the_stream_grow_by_powers_of_ten():
    """E21, blocks at initialisation."""
    stream, _, rng = stacks.inputs(0)
    sizes = []
    for kind, params in stacks.draw(["attention", "feed-forward"] * 48, rng):
        added, _ = stacks.function(kind, params)(stream)
        stream = stream + (stacks.norm(added)[0] if kind == "attention" else added)
        sizes.append(stacks.size(stream))
    assert sizes[11] > 10 and sizes[47] > 1e3 and sizes[95] > 1e7


def test_a_mask_behind_the_softmax_leaks_and_one_in_front_does_not():
    """The last key is changed, which no earlier query may see."""
    for seed in range(5):
        q, k, v = np.random.default_rng(seed).standard_normal((3, 6, 4))
        changed = np.vstack([k[:-1], -k[-1:]])
        for (forward, _), leaks in ((masks.FIRST, False), (masks.LAST, True)):
            before, after = (forward(q, keys, v, np.tri(6, dtype=bool))[0] for keys in (k, changed))
            assert (before[:-1] != after[:-1]).any() == leaks
