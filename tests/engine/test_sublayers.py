"""The blocks against differences, autograd and PyTorch's layers; and wrong gradients, which are refuted."""

import numpy as np
import optree
import pytest
import torch
from torch import nn

from handgrad import blocks, check
from handgrad.blocks import (
    PLACEMENTS,
    decoder_block,
    decoder_block_backward,
    encoder_block,
    encoder_block_backward,
)
from handgrad.ops import causal_mask, padding_mask, rotary_angles

ENCODER = check.Pair(encoder_block, encoder_block_backward)
DECODER = check.Pair(decoder_block, decoder_block_backward)


def parameters(rng, D, F, cross=False, normalization="layer_norm", gated=False, biases=True, D_kv=None):
    """Random parameters of one block: γ away from 1, β and biases away from 0."""

    def matrix(*shape):
        return rng.standard_normal(shape) / np.sqrt(shape[0])

    def norm():
        gamma = {"gamma": 1 + 0.5 * rng.standard_normal(D)}
        return gamma | ({"beta": rng.standard_normal(D)} if normalization == "layer_norm" else {})

    def attention():
        widths = {"Q": D, "K": D_kv or D, "V": D_kv or D, "O": D}
        params = {f"W_{name}": matrix(D, width) for name, width in widths.items()}
        if biases:
            params |= {f"b_{name}": rng.standard_normal(width) for name, width in widths.items()}
        return params

    if gated:
        feed_forward = {"W_gate": matrix(D, F), "W_up": matrix(D, F), "W_down": matrix(F, D)}
    else:
        feed_forward = {"W_1": matrix(D, F), "W_2": matrix(F, D)}
        if biases:
            feed_forward |= {"b_1": rng.standard_normal(F), "b_2": rng.standard_normal(D)}
    params = {"self_attention": attention(), "self_attention_norm": norm()}
    if cross:
        params |= {"cross_attention": attention(), "cross_attention_norm": norm()}
    return params | {"feed_forward": feed_forward, "feed_forward_norm": norm()}


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
TOKENS = np.array([[3, 4, 3, 0], [5, 4, 3, 2]])  # 0 is padding
SOURCE = np.array([[1, 2, 1, 3, 0], [2, 2, 3, 0, 0]])
CASES = {
    "padding": (dict(mask=padding_mask(TOKENS, 0)), {}),
    "causal": (dict(mask=causal_mask(T) & padding_mask(TOKENS, 0), activation="gelu"), {}),
    "rotary": (dict(angles=rotary_angles(T, D // H), activation="gelu_tanh"), {}),
    "llama": (
        dict(mask=causal_mask(T), angles=rotary_angles(T, D // H), activation="swiglu"),
        dict(normalization="rms_norm", gated=True, biases=False, D_kv=D // H),
    ),
}


def encoder_inputs(rng, **kinds):
    return {"x": rng.standard_normal((B, T, D)), "params": parameters(rng, D, F, **kinds)}


def decoder_inputs(rng, **kinds):
    memory = rng.standard_normal((B, S, D))
    return {
        "x": rng.standard_normal((B, T, D)),
        "memory": memory,
        "params": parameters(rng, D, F, cross=True, **kinds),
    }


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("norm", PLACEMENTS)
def test_encoder_block_against_the_witnesses(norm, case):
    rng = np.random.default_rng(1)
    options, kinds = CASES[case]
    inputs, options = encoder_inputs(rng, **kinds), options | {"H": H, "norm": norm}
    check.differences(ENCODER, rng, inputs, options)
    check.autograd(ENCODER, rng, inputs, options)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("norm", PLACEMENTS)
def test_decoder_block_against_the_witnesses(norm, case):
    rng = np.random.default_rng(2)
    options, kinds = CASES[case]
    inputs = decoder_inputs(rng, **kinds)
    options = options | {"H": H, "norm": norm, "memory_mask": padding_mask(SOURCE, 0)}
    check.differences(DECODER, rng, inputs, options)
    check.autograd(DECODER, rng, inputs, options)


@pytest.mark.parametrize("norm", PLACEMENTS)
def test_blocks_with_50_digits(norm):
    rng = np.random.default_rng(3)
    for case, (options, kinds) in CASES.items():
        inputs, options = encoder_inputs(rng, **kinds), options | {"H": H, "norm": norm}
        assert check.differences(ENCODER, rng, inputs, options, digits=50) < 1e-28, case
    options = options | {"memory_mask": padding_mask(SOURCE, 0)}
    assert check.differences(DECODER, rng, decoder_inputs(rng, **kinds), options, digits=50) < 1e-28


@pytest.mark.parametrize("norm", PLACEMENTS)
def test_dropout_at_every_site(norm):
    rng = np.random.default_rng(4)
    replay = recorded_draws(rng, p=0.4)
    inputs = decoder_inputs(rng)

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

    inputs = decoder_inputs(rng)
    decoder_block(**inputs, H=H, draw_keep=draw_keep, p=0.1)
    stream = (B, T, D)
    assert asked == [(B, H, T, T), stream, (B, H, T, S), stream, (B, T, F), stream]
    asked.clear()
    decoder_block(**inputs, H=H, draw_keep=draw_keep, p=0.1, sites=("attention",))
    assert asked == [(B, H, T, T), (B, H, T, S)]


def copy_attention(layer, params):
    """Our attention parameters into nn.MultiheadAttention."""
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.tensor(np.concatenate([params[f"W_{n}"].T for n in "QKV"])))
        layer.in_proj_bias.copy_(torch.tensor(np.concatenate([params[f"b_{n}"] for n in "QKV"])))
        layer.out_proj.weight.copy_(torch.tensor(params["W_O"].T))
        layer.out_proj.bias.copy_(torch.tensor(params["b_O"]))


def copy_rest(layer, params, norms):
    """Our feed-forward and norm parameters into an nn.Transformer…Layer; norms: name -> its norm."""
    with torch.no_grad():
        for linear, n in ((layer.linear1, 1), (layer.linear2, 2)):
            linear.weight.copy_(torch.tensor(params["feed_forward"][f"W_{n}"].T))
            linear.bias.copy_(torch.tensor(params["feed_forward"][f"b_{n}"]))
        for name, norm in norms.items():
            norm.weight.copy_(torch.tensor(params[name]["gamma"]))
            norm.bias.copy_(torch.tensor(params[name]["beta"]))


def attention_gradients(layer):
    dW, db = layer.in_proj_weight.grad.chunk(3), layer.in_proj_bias.grad.chunk(3)
    grads = {f"W_{n}": dW[i].T for i, n in enumerate("QKV")} | {f"b_{n}": db[i] for i, n in enumerate("QKV")}
    return grads | {"W_O": layer.out_proj.weight.grad.T, "b_O": layer.out_proj.bias.grad}


def other_gradients(layer, norms):
    grads = {"feed_forward": {}}
    for linear, n in ((layer.linear1, 1), (layer.linear2, 2)):
        grads["feed_forward"] |= {f"W_{n}": linear.weight.grad.T, f"b_{n}": linear.bias.grad}
    for name, norm in norms.items():
        grads[name] = {"gamma": norm.weight.grad, "beta": norm.bias.grad}
    return grads


def assert_equal(got, wanted, tolerance=1e-12):
    """Every leaf within the tolerance of the largest entry (db_K, which is 0, is rounding noise)."""
    assert optree.tree_structure(got) == optree.tree_structure(wanted)
    largest = max(float(np.abs(np.asarray(leaf)).max()) for leaf in optree.tree_leaves(wanted))
    for path, a, b in zip(
        optree.tree_paths(wanted), optree.tree_leaves(got), optree.tree_leaves(wanted), strict=True
    ):
        a, b = np.asarray(a), np.asarray(b)
        assert np.abs(a - b).max() <= tolerance * max(np.abs(b).max(), 1e-3 * largest), path


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_block_is_the_layer_of_torch(norm, activation):
    rng = np.random.default_rng(6)
    inputs = encoder_inputs(rng)
    x, params = inputs["x"], inputs["params"]
    layer = nn.TransformerEncoderLayer(
        D, H, F, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
    ).double()
    norms = {"self_attention_norm": layer.norm1, "feed_forward_norm": layer.norm2}
    copy_attention(layer.self_attn, params["self_attention"])
    copy_rest(layer, params, norms)

    x_torch, dy = torch.tensor(x, requires_grad=True), rng.standard_normal(x.shape)
    y_torch = layer(x_torch, src_key_padding_mask=torch.tensor(TOKENS == 0))
    y_torch.backward(torch.tensor(dy))
    y, cache = encoder_block(x, params, H, norm, padding_mask(TOKENS, 0), activation)
    dx, grads = encoder_block_backward(dy, cache)
    wanted = other_gradients(layer, norms)
    wanted["self_attention"] = attention_gradients(layer.self_attn)
    assert_equal(y, y_torch.detach())
    assert_equal(dx, x_torch.grad)
    assert_equal(grads, wanted)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoder_block_is_the_layer_of_torch(norm):
    rng = np.random.default_rng(7)
    inputs = decoder_inputs(rng)
    x, memory, params = inputs["x"], inputs["memory"], inputs["params"]
    layer = nn.TransformerDecoderLayer(
        D, H, F, dropout=0.0, batch_first=True, norm_first=norm == "pre"
    ).double()
    names = ("self_attention_norm", "cross_attention_norm", "feed_forward_norm")
    norms = dict(zip(names, (layer.norm1, layer.norm2, layer.norm3), strict=True))
    copy_attention(layer.self_attn, params["self_attention"])
    copy_attention(layer.multihead_attn, params["cross_attention"])
    copy_rest(layer, params, norms)

    x_torch, memory_torch = torch.tensor(x, requires_grad=True), torch.tensor(memory, requires_grad=True)
    dy = rng.standard_normal(x.shape)
    y_torch = layer(
        x_torch,
        memory_torch,
        tgt_mask=torch.tensor(~causal_mask(T)),
        memory_key_padding_mask=torch.tensor(SOURCE == 0),
    )
    y_torch.backward(torch.tensor(dy))
    y, cache = decoder_block(x, memory, params, H, norm, causal_mask(T), padding_mask(SOURCE, 0))
    dx, dmemory, grads = decoder_block_backward(dy, cache)
    wanted = other_gradients(layer, norms)
    wanted["self_attention"] = attention_gradients(layer.self_attn)
    wanted["cross_attention"] = attention_gradients(layer.multihead_attn)
    assert_equal(y, y_torch.detach())
    assert_equal([dx, dmemory], [x_torch.grad, memory_torch.grad])
    assert_equal(grads, wanted)


def without_residual(backward):
    def wrong(dy, cache, f_backward):
        dx, *others = backward(dy, cache, f_backward)
        around = blocks.normalize_backward(dy, cache["post"])[0] if "post" in cache else dy
        return dx - around, *others

    return wrong


def without_memory(backward):
    def wrong(dy, cache):
        dx, dmemory, dparams = backward(dy, cache)
        return dx, 0 * dmemory, dparams

    return wrong


def slightly(backward):
    def wrong(dy, cache):
        dx, *others = backward(dy, cache)
        return (1.001 * dx, *others)

    return wrong


WRONG = {
    "residual dropped": ("sublayer_backward", without_residual),
    "memory of attention dropped": ("multi_head_backward", without_memory),
    "feed-forward ×1.001": ("feed_forward_backward", slightly),
    "norm ×1.001": ("layer_norm_backward", slightly),
    "attention ×1.001": ("multi_head_backward", slightly),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("norm", PLACEMENTS)
def test_the_witnesses_refute_wrong_blocks(monkeypatch, norm, wrong):
    rng = np.random.default_rng(8)
    name, mutate = WRONG[wrong]
    monkeypatch.setattr(blocks, name, mutate(getattr(blocks, name)))
    options = {"H": H, "norm": norm, "mask": causal_mask(T)}
    for witness in (check.differences, check.autograd):
        with pytest.raises(AssertionError, match=r"^d[\w.]+: relative error"):
            witness(DECODER, rng, decoder_inputs(rng), options)


def test_an_unknown_placement_is_named():
    rng = np.random.default_rng(9)
    with pytest.raises(ValueError, match="norm: expected one of .* got 'middle'"):
        encoder_block(**encoder_inputs(rng), H=H, norm="middle")


@pytest.mark.parametrize("sites", [("everywhere",), "attention", ("attention", "Sublayer")])
@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_an_unknown_dropout_site_is_named(name, sites):
    rng = np.random.default_rng(10)
    block, inputs = (encoder_block, encoder_inputs) if name == "encoder" else (decoder_block, decoder_inputs)
    with pytest.raises(ValueError, match="sites: expected some of .* got .*(everywhere|attention)"):
        block(**inputs(rng), H=H, sites=sites)


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
    inputs = encoder_inputs(np.random.default_rng(11))
    own = inputs["params"][part]
    inputs["params"][part] = {names.get(name, name): array for name, array in own.items()}
    if part == "feed_forward":
        inputs["params"][part].setdefault("W_1", own["W_1"])
    with pytest.raises(ValueError, match=f"params: expected the entries .* got .*'{[*names.values()][0]}'"):
        encoder_block(**inputs, H=H)
