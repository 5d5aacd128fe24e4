"""Chapter 13: its exercises derived again; its models and measures."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from judging import gradients, solution

from handgrad import accounting, blocks
from handgrad.chapters.transformer import measures, whole
from handgrad.config import Config, shapes, vaswani_base

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


test_the_answers_are_the_gradients = gradients(
    ("learned_scale_table", scale_loss, "E scale"),
    ("mixed_memory", mix_loss, "layers w"),
    ("early_exits", exits_loss, "y_0 branches E"),
)


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
    assert whole.beside_the_twin(config, rng) < 1e-10
    shipped = blocks.layer_norm_backward

    def forgetting(dy, cache):
        return shipped(dy, cache | {"gamma": np.ones_like(cache["gamma"])})

    monkeypatch.setattr(blocks, "layer_norm_backward", forgetting)
    with pytest.raises(AssertionError):
        whole.beside_the_twin(config, rng)


# Measures ---------------------------------------------------------------------------------------------------


def test_numbers_kept_follow_the_formula_at_other_sizes():
    for D, F, H, n in ((4, 6, 1, 3), (12, 8, 6, 4), (20, 7, 5, 11)):
        config = Config("encoder", V=3, D=D, H=H, F=F, N=1)
        weights, others = measures.kept(config, n)
        assert (weights, others) == (H * n * n, n * (8 * D + 2 * F + 2))


def test_blocks_have_the_sizes_of_the_formula_at_other_sizes():
    for D, F in ((4, 6), (6, 9), (10, 3), (12, 5)):
        encoder = 4 * D**2 + 4 * D + 2 * D * F + F + D + 4 * D
        config = Config("encoder-decoder", V=3, D=D, H=2, F=F, N=1)
        assert measures.block_sizes(config) == [encoder, encoder + 4 * D**2 + 6 * D]


@pytest.mark.parametrize("config", whole.MODELS)
def test_products_are_those_of_the_formula(config):
    S = 7 if config.kind == "encoder-decoder" else None
    by_formula = sum(accounting.multiply_adds(config, 5, S).values())
    assert measures.products(config, 5, S) == (by_formula, 2 * by_formula)


def test_what_is_shared_decides_the_size():
    for (shared, tied), millions in {(True, True): 63.0, (True, False): 82.0, (False, False): 100.9}.items():
        assert round(accounting.total(vaswani_base(shared=shared, tied=tied)) / 1e6, 1) == millions
    one_block = Config("encoder", V=2, D=512, H=8, F=2048, N=1, attention_biases=False)
    assert accounting.total(one_block) - 2 * 512 == 3_150_336


def test_the_number_of_the_quiz():
    """Parameters fewer with a tied head, waves for learned positions, and more heads."""
    sizes = dict(V=1000, D=64, F=70, N=2)
    own = Config("decoder", **sizes, H=8, tied=False, positions="learned", T_max=100)
    anew = Config("decoder", **sizes, H=16)
    assert accounting.total(own) - accounting.total(anew) == 70_400
