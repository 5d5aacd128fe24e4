"""Parameters, multiply-adds and bytes: by formula, by counting, and against published totals."""

from dataclasses import replace

import numpy as np
import optree
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from handgrad import accounting
from handgrad import twin as twins
from handgrad.accounting import PUBLISHED, count, multiply_adds, parameters, total
from handgrad.config import bert_base, gpt2_small, init, llama_like, vaswani_base
from handgrad.model import forward

TOTALS = {
    "Transformer base": 63_045_632,
    "Transformer big": 214_171_648,
    "GPT-1": 116_534_784,
    "GPT-2 small": 124_439_808,
    "GPT-2 medium": 354_823_168,
    "GPT-2 large": 774_030_080,
    "GPT-2 XL": 1_557_611_200,
    "GPT-3 Small": 125_226_240,
    "GPT-3 Medium": 355_871_744,
    "GPT-3 Large": 760_300_032,
    "GPT-3 XL": 1_315_723_264,
    "GPT-3 2.7B": 2_651_553_280,
    "GPT-3 6.7B": 6_658_404_352,
    "GPT-3 13B": 12_853_386_240,
    "GPT-3": 174_604_259_328,
    "BERT base": 109_482_240,
    "BERT large": 335_141_888,
    "LLaMA 7B": 6_738_415_616,
}
TINY = dict(V=11, D=8, H=4, F=12, N=2)
VARIANTS = [
    vaswani_base(**TINY),
    vaswani_base(**TINY, shared=False, tied=False, head_bias=True, attention_biases=True),
    vaswani_base(**TINY, positions="learned", T_max=7, embedding_norm=True, final_norm=True, tied=False),
    gpt2_small(**TINY, T_max=9),
    bert_base(**TINY, T_max=9),
    llama_like(**TINY, H_kv=2),
    llama_like(**TINY, H_kv=1, norm="output", attention_biases=True),
    llama_like(**TINY, activation="geglu"),
    gpt2_small(**TINY, T_max=9, feed_forward_biases=False, head_transform=True),
]


@pytest.mark.parametrize("config", VARIANTS)
def test_formula_is_counting_is_what_init_draws(config):
    drawn = sum(leaf.size for leaf in optree.tree_leaves(init(config, np.random.default_rng(0))))
    in_torch = sum(parameter.numel() for parameter in twins.Twin(config).parameters())
    assert total(config) == count(config) == drawn == in_torch


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.name)
def test_published_totals(model):
    assert model.total == TOTALS[model.name]
    assert count(model.config) + model.extra == TOTALS[model.name]
    # what the papers print is rounded, or was corrected later
    assert abs(model.total / model.printed - 1) < 0.07
    assert set(TOTALS) == {model.name for model in PUBLISHED}


def test_the_assumptions_decide_the_total():
    """V = 50 000, base widths; with and without biases, with one, two or three tables."""
    base = vaswani_base(V=50000)
    all_biases = replace(base, attention_biases=True)
    none = replace(base, feed_forward_biases=False)
    assert total(all_biases) == 69_738_496 and total(none) == 69_670_912
    assert total(replace(none, tied=False)) == 95_270_912
    assert total(replace(all_biases, tied=False, head_bias=True)) == 95_388_496
    assert total(replace(all_biases, tied=False, shared=False, head_bias=True)) == 120_988_496
    stacks = {name: size for name, size in parameters(all_biases).items() if name != "token embeddings"}
    with torch.device("meta"):
        torch_stacks = nn.Transformer(512, 8, 6, 6, 2048, batch_first=True)
    in_torch = sum(parameter.numel() for parameter in torch_stacks.parameters())
    assert sum(stacks.values()) == 44_138_496 == in_torch - 2 * 2 * 512  # torch adds two final norms
    assert total(none) - 50000 * 512 == 44_070_912
    assert total(vaswani_base(V=37000, attention_biases=True)) == 63_082_496
    with_head = bert_base()
    assert total(replace(with_head, head_transform=False, head_bias=False)) == 108_891_648
    assert total(with_head) == 108_891_648 + 768 * 769 + 2 * 768 + 30522
    assert parameters(gpt2_small(D=12288, H=96, F=49152, N=96, T_max=2048))["positions"] == 25_165_824


@pytest.mark.parametrize("config", VARIANTS)
def test_multiply_adds_are_what_torch_counts(config):
    """torch's counter sees every product of matrices of the twin, forward and backward."""
    B, T, S = 3, 5, 7
    rng = np.random.default_rng(1)
    tokens = rng.integers(1, config.V, (B, T))
    batch = {"tokens": tokens, "target_in": tokens, "target_out": tokens}
    batch["source"] = rng.integers(1, config.V, (B, S))
    # the sites include "attention", so that the twin writes its products out
    twin = twins.Twin(replace(config, p=0.1, dropout_sites=("attention",)))
    with FlopCounterMode(display=False) as counter:
        loss = twin.loss(batch, draw_keep=lambda shape: np.ones(shape, dtype=bool))
    assert counter.get_total_flops() == 2 * B * sum(multiply_adds(config, T, S).values())
    with FlopCounterMode(display=False) as backward_counter:
        loss.backward()
    both = counter.get_total_flops() + backward_counter.get_total_flops()
    assert both == B * accounting.training_flops(config, T, S)


def test_where_the_square_takes_over():
    for config in (vaswani_base(kind="encoder"), gpt2_small(), llama_like(H_kv=8)):
        T = accounting.crossover(config)
        for length, larger in ((T - 1, False), (T, False), (T + 1, True)):
            cost = multiply_adds(config, length)
            assert (cost["scores and sums"] > cost["projections"] + cost["feed-forward"]) == larger
    assert accounting.crossover(vaswani_base()) == 2 * 512 + 2048 == 3072

    def share(config, T):
        cost = multiply_adds(config, T)
        return cost["scores and sums"] / (sum(cost.values()) - cost["head"])

    gpt3 = gpt2_small(D=12288, H=96, F=49152, N=96)
    assert round(share(vaswani_base(kind="encoder"), 512), 4) == 0.1429
    assert round(share(gpt2_small(), 1024), 4) == 0.1818 and round(share(gpt3, 2048), 3) == 0.027


def test_an_encoder_and_a_decoder_need_the_length_of_the_source():
    with pytest.raises(ValueError, match="S: expected the length of the source, got None"):
        multiply_adds(vaswani_base(), 5)


def test_the_cache_grows_with_the_square_of_the_length_as_the_formula_says():
    config = gpt2_small(V=11, D=8, H=4, F=16, N=2, T_max=64)
    params, rng = init(config, np.random.default_rng(0)), np.random.default_rng(1)

    def held(T):
        _, cache = forward(params, config, {"tokens": rng.integers(0, 11, (1, T))})
        return accounting.cache_bytes(cache)

    # the second difference of a quadratic is twice its leading coefficient; weights are float64, held once
    second = held(48) - 2 * held(32) + held(16)
    assert second == config.N * config.H * 8 * (48**2 - 2 * 32**2 + 16**2)
