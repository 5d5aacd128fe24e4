"""The blocks against differences and autograd; and wrong gradients, which are refuted."""

from itertools import product

import numpy as np
import pytest
from parameters import random_params

from handgrad import blocks, check, mistakes, ops
from handgrad.blocks import (
    PLACEMENTS,
    decoder_block,
    decoder_block_backward,
    encoder_block,
    encoder_block_backward,
)
from handgrad.config import Config
from handgrad.ops import causal_mask, padding_mask, rotary_angles

ENCODER = check.Pair(encoder_block, encoder_block_backward)
DECODER = check.Pair(decoder_block, decoder_block_backward)


def recorded_draws(rng, p):
    """A `draw_keep` that draws anew for each call, and gives the same again in a second pass."""
    drawn = {}

    class Replay:
        def __init__(self):
            self.calls = 0

        def __call__(self, shape):
            self.calls += 1
            return drawn.setdefault((self.calls, shape), rng.random(shape) >= p)

    return Replay


B, T, S, D, H, F = 2, 4, 5, 6, 3, 7
BIASED = dict(attention_biases=True)
TOKENS = np.array([[3, 4, 3, 0], [5, 4, 3, 2]])  # 0 is padding
SOURCE = np.array([[1, 2, 1, 3, 0], [2, 2, 3, 0, 0]])
CASES = {
    "padding": (dict(mask=padding_mask(TOKENS, 0)), {}),
    "causal": (dict(mask=causal_mask(T) & padding_mask(TOKENS, 0), activation="gelu"), {}),
    "rotary": (dict(angles=rotary_angles(T, D // H), activation="gelu_tanh"), {}),
    "llama": (
        dict(mask=causal_mask(T), angles=rotary_angles(T, D // H), activation="swiglu"),
        dict(normalization="rms_norm", activation="swiglu", attention_biases=False, H_kv=1),
    ),
}


def inputs_of(kind, rng, **changes):
    """x, the memory of a decoder block, and random parameters of one block."""
    config = Config(kind, V=2, D=D, H=H, F=F, N=1, norm="pre", positions="none", **BIASED | changes)
    (params,) = random_params(config, rng)["encoder" if kind == "encoder" else "decoder"]
    memory = {"memory": rng.standard_normal((B, S, D))} if kind == "encoder-decoder" else {}
    return {"x": rng.standard_normal((B, T, D))} | memory | {"params": params}


PAIRS = {"encoder": ENCODER, "encoder-decoder": DECODER}


def asked(kind, norm, options):
    """The options of a block, and for a decoder those of the memory."""
    memory = {"memory_mask": padding_mask(SOURCE, 0)} if kind == "encoder-decoder" else {}
    return options | {"H": H, "norm": norm} | memory


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("norm", PLACEMENTS)
@pytest.mark.parametrize("kind", PAIRS)
def test_a_block_against_the_witnesses(kind, norm, case):
    rng, (options, changes) = np.random.default_rng(1), CASES[case]
    inputs, options = inputs_of(kind, rng, **changes), asked(kind, norm, options)
    check.differences(PAIRS[kind], rng, inputs, options)
    check.autograd(PAIRS[kind], rng, inputs, options)


@pytest.mark.parametrize("norm", PLACEMENTS)
def test_blocks_with_50_digits(norm):
    rng = np.random.default_rng(3)
    for kind, case in [*product(["encoder"], CASES), ("encoder-decoder", "llama")]:
        options, changes = CASES[case]
        inputs, options = inputs_of(kind, rng, **changes), asked(kind, norm, options)
        assert check.differences(PAIRS[kind], rng, inputs, options, digits=50) < 1e-28, case


@pytest.mark.parametrize("norm", PLACEMENTS)
def test_dropout_at_every_site(norm):
    rng = np.random.default_rng(5)
    replay = recorded_draws(rng, p=0.4)
    inputs = inputs_of("encoder-decoder", rng)

    def forward(x, memory, params):  # every pass replays the same dropout
        return decoder_block(x, memory, params, H, norm=norm, draw_keep=replay(), p=0.4, activation="gelu")

    pair = check.Pair(forward, decoder_block_backward)
    check.differences(pair, rng, inputs)
    dropped, full = forward(**inputs)[0], decoder_block(**inputs, H=H, norm=norm, activation="gelu")[0]
    assert np.abs(dropped - full).max() > 0.1


def test_dropout_sites_are_asked_in_the_order_of_the_data():
    rng = np.random.default_rng(5)
    asked = []

    def draw_keep(shape):
        asked.append(shape)
        return np.ones(shape, dtype=bool)

    inputs = inputs_of("encoder-decoder", rng)
    decoder_block(**inputs, H=H, draw_keep=draw_keep, p=0.1)
    stream = (B, T, D)
    assert asked == [(B, H, T, T), stream, (B, H, T, S), stream, (B, T, F), stream]
    asked.clear()
    decoder_block(**inputs, H=H, draw_keep=draw_keep, p=0.1, sites=("attention",))
    assert asked == [(B, H, T, T), (B, H, T, S)]


WRONG = {
    "residual dropped": (blocks.sublayer_backward, "dy + dh → dh"),
    "memory of attention dropped": (ops.multi_head_backward, "dmemory + dmemory_v → 0 * dmemory"),
    "feed-forward ×1.001": (ops.feed_forward_backward, "return dx → return 1.001 * dx"),
    "norm ×1.001": (ops.layer_norm_backward, "return dx → return 1.001 * dx"),
    "attention ×1.001": (ops.multi_head_backward, "return dx → return 1.001 * dx"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("norm", PLACEMENTS)
def test_the_witnesses_refute_wrong_blocks(norm, wrong):
    rng, options = np.random.default_rng(8), {"H": H, "norm": norm, "mask": causal_mask(T)}
    with mistakes.changed(*WRONG[wrong]):
        for witness in (check.differences, check.autograd):
            with pytest.raises(AssertionError, match=r"^d[\w.]+: relative error"):
                witness(DECODER, rng, inputs_of("encoder-decoder", rng), options)


def test_an_unknown_placement_is_named():
    rng = np.random.default_rng(9)
    with pytest.raises(ValueError, match="norm: expected one of .* got 'middle'"):
        encoder_block(**inputs_of("encoder", rng), H=H, norm="middle")


@pytest.mark.parametrize("sites", [("everywhere",), "attention", ("attention", "Sublayer")])
@pytest.mark.parametrize("kind", PAIRS)
def test_an_unknown_dropout_site_is_named(kind, sites):
    rng = np.random.default_rng(10)
    with pytest.raises(ValueError, match="sites: expected some of .* got .*(everywhere|attention)"):
        PAIRS[kind].forward(**inputs_of(kind, rng), H=H, sites=sites)


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("self_attention", dict(b_Q="bias_Q")),
        ("self_attention", dict(W_O="W_o")),
        ("feed_forward", dict(b_1="b1")),
        ("feed_forward", dict(W_1="W_gate", W_2="W_up")),
        ("feed_forward_norm", dict(beta="bias")),
        ("feed_forward_norm", dict(gamma="weight")),
    ],
)
def test_parameters_of_another_name_are_refused_and_not_left_out(part, names):
    inputs = inputs_of("encoder", np.random.default_rng(11))
    own = inputs["params"][part]
    inputs["params"][part] = {names.get(name, name): array for name, array in own.items()}
    if part == "feed_forward":
        inputs["params"][part].setdefault("W_1", own["W_1"])
    with pytest.raises(ValueError, match=f"params: expected the entries .* got .*'{[*names.values()][0]}'"):
        encoder_block(**inputs, H=H)
