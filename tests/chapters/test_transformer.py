"""Chapter 13: its exercises derived again; its tasks and measures."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from judging import check_gradients, solution

from handgrad import accounting, blocks, model, twin
from handgrad.chapters.residuals import stacks
from handgrad.chapters.transformer import (
    calculator,
    chain,
    figures,
    measures,
    reach,
    torch_layer,
    whole,
)
from handgrad.config import Config, init, shapes, vaswani_base

# The answers, derived a second time -------------------------------------------------------------------------


def scale_loss(dz, y, dy_0, dx_0, target, source, E, scale):
    """What arrives is held constant; the table and the scale move."""
    head = (dz * scale * (y @ E.mT)).sum()
    return head + (dy_0 * scale * E[target]).sum() + (dx_0 * scale * E[source]).sum()


def mix_loss(dmemory, layers, w):
    return (dmemory * (torch.softmax(w, 0)[:, None, None, None] * layers).sum(0)).sum()


def exits_loss(dz, y_0, branches, E, c):
    streams = y_0 + torch.cumsum(branches, 0)
    return (c[:, None, None, None] * dz * (streams @ E.mT)).sum()


@pytest.mark.parametrize(
    "name, loss, by",
    [
        ("learned_scale_table", scale_loss, (6, 7)),
        ("mixed_memory", mix_loss, (1, 2)),
        ("early_exits", exits_loss, (1, 2, 3)),
    ],
)
def test_the_answers_are_the_gradients(name, loss, by):
    check_gradients(name, lambda *inputs: (loss(*inputs), [inputs[i] for i in by]))


def test_the_crossover_is_where_the_products_of_a_real_block_balance():
    """n targets and n sources, H_kv = 1 of 4 heads: counted by running it, with a layer of three matrices."""
    D, H, F = 8, 4, 12
    config = Config("encoder-decoder", V=3, D=D, H=H, H_kv=1, F=F, N=1, activation="swiglu")
    n_star = solution("decoder_crossover")(D, D // H, F)
    assert n_star == 19

    def of_decoder(n):
        """Multiply-adds of the decoder block: of the model, less those of its encoder and its head."""
        encoder = replace(config, kind="encoder")
        return measures.products(config, n, n)[0] - measures.products(encoder, n)[0]

    # an² + bn through two lengths: both parts are equal at b/a
    f_1, f_2 = of_decoder(5) / 5, of_decoder(11) / 11
    a = (f_2 - f_1) / 6
    assert n_star == (f_1 - 5 * a) / a


def test_the_looped_parameters_are_those_of_real_arrays():
    V, E, M, D, F = 11, 3, 5, 8, 7
    config = Config("encoder", V=V, D=D, H=2, F=F, N=1, normalization="rms_norm")
    block = sum(np.prod(shape) for part in shapes(config)["encoder"][0].values() for shape in part.values())
    others = [(V, E), (M, E), (E, D), (D,), (D, E), (E,), (V,)]
    count = block + sum(np.prod(shape) for shape in others)
    assert solution("looped_parameters")(V, E, M, D, F, 9) == count


# The whole model --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", whole.MODELS)
def test_a_backward_that_forgets_gamma_is_caught_by_every_model(config, monkeypatch):
    rng = np.random.default_rng(3)
    assert torch_layer.beside_the_twin(config, rng) < 1e-10
    by_gradient, by_difference = whole.slopes(config, rng)
    assert by_difference == pytest.approx(by_gradient, rel=1e-5)
    shipped = blocks.layer_norm_backward

    def forgetting(dy, cache):
        return shipped(dy, cache | {"gamma": np.ones_like(cache["gamma"])})

    monkeypatch.setattr(blocks, "layer_norm_backward", forgetting)
    with pytest.raises(AssertionError):
        torch_layer.beside_the_twin(config, rng)
    by_gradient, by_difference = whole.slopes(config, rng)
    assert by_difference != pytest.approx(by_gradient, rel=1e-3)


def test_depth_does_not_change_who_is_felt():
    for N in (1, 2, 4):
        found = reach.of_families(N)
        past = np.tril(np.ones((reach.PLACES, reach.PLACES), bool))
        np.testing.assert_array_equal(found["decoder"]["embedding"] != 0, past)
        assert (found["encoder"]["embedding"] != 0).all()
        of_source = found["encoder-decoder"]["source_embedding"]
        np.testing.assert_array_equal(of_source != 0, np.broadcast_to(reach.SOURCE != 0, of_source.shape))


def test_the_leak_test_needs_no_lucky_parameters():
    for seed in range(5):
        row = chain.rows(chain.walks(np.random.default_rng(seed), 1))
        for title, make in chain.SHIFTS.items():
            config = reach.without_padding(chain.config(chain.family(title)))
            leaks = reach.own_token_read(init(config, np.random.default_rng(seed)), config, make, row)
            good = reach.steps_ahead(make, row.shape[1]) == {1} and not leaks.size
            assert good == (title == "right")


def test_a_transformer_of_pytorch_has_our_gradients_at_other_sizes():
    rng = np.random.default_rng(1)
    stacks, config = torch_layer.own(V=7, D=12, H=4, F=5, N=3, seed=4)
    params, batch = torch_layer.ours(stacks, config, rng), whole.batch(config, rng, B=3, S=4, T=6)
    loss, grads = torch_layer.loss_and_gradients(stacks, params, batch)
    mine, own = model.loss_and_gradients(params, config, batch)
    assert abs(loss - mine) < 1e-11 and twin.compare(own, grads) < 1e-9


def test_the_path_past_a_sub_layer_has_the_factor_1_in_pre_norm_only():
    """Problem 3: in the notes' post-norm the connections alone lose √2 at each of twelve sub-layers."""
    x, dy, rng = stacks.inputs(0)
    _, caches = stacks.stack(x, stacks.draw(["feed-forward"] * 12, rng), "pre")
    assert (stacks.stack_backward(dy, caches, branch=False)[0][0] == dy).all()
    back = [np.divide(*stacks.skip_alone(12, seed)) for seed in range(10)]
    assert 1.35 < np.median(back) ** (-1 / 12) < 2**0.5  # at width 32 a little less is lost
    for place, bypassed in (("pre", x), ("post", stacks.norm(x)[0])):
        assert (stacks.sublayer(x, lambda h: (0 * h, None), place)[0] == bypassed).all()


# Tasks and measures -----------------------------------------------------------------------------------------


def test_the_levels_are_entropies_at_other_lengths(monkeypatch):
    for length in (5, 7):
        monkeypatch.setattr(chain, "LENGTH", length)
        for name, level in chain.levels().items():
            np.testing.assert_allclose(chain.enumerated()[name], level, rtol=1e-9)


def test_batches_ask_what_they_say():
    rng = np.random.default_rng(0)
    masked = chain.batch("encoder", rng, 50)
    asked = masked["target_out"] != chain.PAD
    assert asked.any() and not asked[:, 0::2].any()
    np.testing.assert_array_equal(masked["tokens"] == chain.MARK, asked)
    both = chain.batch("encoder-decoder", rng, 50)
    steps = (both["target_out"] - both["source"][:, :-1]) % chain.RING
    assert set(steps.ravel()) <= set(chain.STEPS)
    np.testing.assert_array_equal(both["target_in"][:, 1:], both["target_out"][:, :-1])


def test_numbers_kept_follow_the_formula_at_other_sizes():
    for D, F, H, n in ((4, 6, 1, 3), (12, 8, 6, 4), (20, 7, 5, 11)):
        config = Config("encoder", V=3, D=D, H=H, F=F, N=1)
        weights, others = measures.kept(config, n)
        assert (weights, others) == (H * n * n, n * (8 * D + 2 * F + 2))


def test_the_traces_are_those_of_the_texts():
    base = vaswani_base(V=5, N=1)
    steps = dict(measures.trace_encoder(base, 10))
    assert steps["weights A"] == (8, 10, 10) and steps["feed-forward, hidden"] == (10, 2048)
    crossed = dict(measures.trace_cross(base, 7, 15))
    assert (crossed["Q"], crossed["K"], crossed["weights A"]) == ((7, 512), (15, 512), (8, 7, 15))


def test_the_calculator_answers_and_refuses():
    assert "by counting: 63,045,632" in calculator.answer("vaswani_base")
    assert calculator.read("gpt2_small, D=1024 H=16 norm=post").norm == "post"
    for text in ("", "gpt5", "gpt2_small D", "gpt2_small width=3", "gpt2_small D=7"):
        with pytest.raises(ValueError):
            calculator.answer(text)
    for bits, millions in zip(calculator.SETTINGS.values(), (63.0, 82.0, 100.9, 101.0), strict=True):
        number = accounting.total(calculator.switched([bit == "1" for bit in bits]))
        assert round(number / 1e6, 1) == millions


def test_the_number_of_the_quiz():
    """Parameters fewer with one table for three, waves for two tables of positions, and more heads."""
    sizes = dict(V=1000, D=64, F=70, N=2)
    own = Config("encoder-decoder", **sizes, H=8, shared=False, tied=False, positions="learned", T_max=100)
    anew = Config("encoder-decoder", **sizes, H=16)
    assert accounting.total(own) - accounting.total(anew) == 140_800


def test_the_figures_draw_what_they_are_given():
    for figure in (figures.families(), figures.integers(), figures.graph()):
        assert figure.axes[0].texts
    shown = figures.shares([48, 96], [0.1, 0.2], [0.3, 0.4], 384).axes[0].lines
    np.testing.assert_allclose(shown[1].get_ydata(), [0.3, 0.4])
