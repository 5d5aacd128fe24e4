"""The models against their twins, differences and themselves; and wrong gradients, which are refuted."""

import functools
import operator
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import optree
import pytest
import torch
from parameters import random_batch, random_params

from handgrad import blocks, check, fast, model, optim
from handgrad import twin as twins
from handgrad.config import CHOICES, Config, bert_base, gpt2_small, init, llama_like, vaswani_base
from handgrad.model import backward, decode, encode, forward, loss_and_gradients

torch.set_num_threads(1)  # the models here are tiny

TINY = dict(V=11, D=8, H=2, F=12, N=2)
SITES = ("embedding", "attention", "hidden", "sublayer")


def plain(kind, norm, **changes):
    return Config(kind, **TINY | dict(norm=norm, pad=0) | changes)


BIASES = dict(attention_biases=True, head_bias=True)
CONFIGS = {f"{kind}, {norm}": plain(kind, norm) for kind, norm in product(CHOICES["kind"], CHOICES["norm"])}
CONFIGS |= {
    "Vaswani": vaswani_base(**TINY, pad=0),
    "GPT-2": gpt2_small(**TINY, T_max=9),
    "BERT": bert_base(**TINY, T_max=9),
    "Llama": llama_like(**TINY | dict(H=4), H_kv=2),
    "one head of keys": llama_like(**TINY | dict(H=4), H_kv=1, pad=0, norm="output"),
    "source table of its own": plain("encoder-decoder", "pre", shared=False, final_norm=True, **BIASES),
    "three tables": plain("encoder-decoder", "post", shared=False, tied=False, **BIASES),
    "one table, another head": plain("encoder-decoder", "post", tied=False, scale_embedding=True),
    "learned positions": plain("encoder-decoder", "pre", positions="learned", T_max=9, embedding_norm=True),
    "rotary": plain("encoder-decoder", "pre", positions="rotary", H_kv=1, activation="silu"),
    "GELU in the gate": plain("encoder-decoder", "pre", activation="geglu", attention_biases=False),
    "no positions": plain("encoder-decoder", "pre", D=9, H=3, positions="none"),
    "rms_norm": plain("encoder", "post", normalization="rms_norm", activation="gelu", final_norm=True),
    "transformed head": plain("decoder", "pre", head_transform=True, tied=False, activation="gelu_tanh"),
    "no biases": plain("decoder", "output", attention_biases=False, feed_forward_biases=False),
}


def size(tree):
    """How many numbers the tree holds."""
    return sum(leaf.size for leaf in optree.tree_leaves(tree))


def draws(seed, p):
    """A `draw_keep` that draws the same again when it is made again."""
    rng = np.random.default_rng(seed)
    return lambda shape: rng.random(shape) >= p


def both(config, seed=0, p=None, label_smoothing=0.1):
    """Loss and gradients by hand and by the twin, from the same parameters, batch and dropout."""
    rng = np.random.default_rng(seed)
    params, batch = random_params(config, rng), random_batch(config, rng)

    def draw_keep():
        return None if p is None else draws(seed, p)

    by_hand = loss_and_gradients(params, config, batch, draw_keep(), label_smoothing)
    twin = twins.load(twins.Twin(config), params)
    return by_hand, twins.loss_and_gradients(twin, batch, draw_keep(), label_smoothing)


@pytest.mark.parametrize("name", CONFIGS)
def test_loss_and_every_gradient_agree_with_the_twin(name):
    (loss, grads), (wanted_loss, wanted) = both(CONFIGS[name])
    assert abs(loss - wanted_loss) <= 1e-12 * abs(wanted_loss)
    twins.compare(grads, wanted, tolerance=1e-10)


@pytest.mark.parametrize("name", CONFIGS)
def test_they_agree_under_the_same_dropout(name):
    sites = tuple(site for site in SITES if not (CONFIGS[name].gated and site == "hidden"))
    config = replace(CONFIGS[name], p=0.3, dropout_sites=sites)
    (loss, grads), (wanted_loss, wanted) = both(config, p=0.3)
    assert abs(loss - wanted_loss) <= 1e-12 * abs(wanted_loss)
    twins.compare(grads, wanted, tolerance=1e-10)
    (undropped, _), _ = both(config)
    assert abs(loss - undropped) > 1e-3


@pytest.mark.parametrize("name", ["Vaswani", "GPT-2", "BERT", "Llama"])
def test_twenty_steps_of_adamw_agree_with_torch(name):
    config, rng = CONFIGS[name], np.random.default_rng(1)
    params = random_params(config, rng)
    twin = twins.load(twins.Twin(config), params)
    torch_adamw = torch.optim.AdamW(twin.parameters(), lr=3e-3, weight_decay=0.1)
    state = optim.adamw_init(params)
    for step in range(20):
        batch = random_batch(config, rng)
        loss, grads = loss_and_gradients(params, config, batch, draws(step, config.p), label_smoothing=0.1)
        wanted_loss, wanted = twins.loss_and_gradients(twin, batch, draws(step, config.p), 0.1)
        # db_K is 0, up to rounding; Adam divides rounding by rounding, so both sides are given the exact 0
        clear_zeros(grads, config)
        clear_zeros_of_torch(twin)
        assert abs(loss - wanted_loss) <= 1e-12 * wanted_loss, step
        params, state = optim.adamw(params, grads, state, 3e-3, weight_decay=0.1)
        torch_adamw.step()
    for path, got, want in zip(
        optree.tree_paths(params),
        optree.tree_leaves(params),
        optree.tree_leaves(twins.dump(twin)),
        strict=True,
    ):
        assert np.abs(got - want).max() <= 1e-12 * np.abs(want).max(), path


def clear_zeros(tree, config, tolerance=1e-14):
    """Write 0 into every db_K that is 0 by symmetry (not if it is turned), after a check that it is."""
    for path, leaf in zip(optree.tree_paths(tree), optree.tree_leaves(tree), strict=True):
        turned = config.positions == "rotary" and path[-2] == "self_attention"
        if path[-1] == "b_K" and not turned:
            assert np.abs(leaf).max() < tolerance, path
            leaf[...] = 0


def clear_zeros_of_torch(twin):
    for name, parameter in twin.named_parameters():
        if name.endswith(".K.bias"):
            assert parameter.grad.abs().max() < 1e-14
            parameter.grad.zero_()


def of_logits(config, batch):
    """The model as a function of its parameters alone, with its backward."""
    return check.Pair(lambda params: forward(params, config, batch), backward)


@pytest.mark.parametrize("name", CONFIGS)
def test_central_differences(name):
    config, rng = CONFIGS[name], np.random.default_rng(2)
    params = {"params": random_params(config, rng)}
    # curvature: differences of a whole model in float64 are good to about six digits
    check.differences(of_logits(config, random_batch(config, rng)), rng, params, tolerance=1e-5)


@pytest.mark.parametrize("name", ["Vaswani", "GPT-2", "BERT", "Llama"])
def test_two_layers_with_50_digits(name):
    config, rng = replace(CONFIGS[name], V=6, D=4, H=2, F=3, T_max=4), np.random.default_rng(3)
    config = replace(config, H_kv=config.H_kv and 1)
    params, batch = {"params": random_params(config, rng)}, random_batch(config, rng, B=2, T=3, S=4)
    check.differences(of_logits(config, batch), rng, params, digits=50, tolerance=1e-28)


@pytest.mark.parametrize("name", ["Vaswani", "GPT-2", "BERT", "Llama"])
def test_autograd_through_our_own_forward(name):
    config, rng = CONFIGS[name], np.random.default_rng(4)
    params, batch = {"params": random_params(config, rng)}, random_batch(config, rng)
    check.autograd(of_logits(config, batch), rng, params, tolerance=1e-10)


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "decoder, post", "decoder, pre", "decoder, output"])
def test_no_position_sees_the_future(name):
    """Exactly: logits keep every bit when later tokens change; later positions receive a gradient of 0."""
    config = replace(CONFIGS[name], positions="learned", T_max=9)
    rng = np.random.default_rng(5)
    params, batch = random_params(config, rng), random_batch(config, rng)
    logits, cache = forward(params, config, batch)
    for t in range(5):
        changed = batch["tokens"].copy()
        changed[:, t + 1 :] = rng.integers(0, config.V, changed[:, t + 1 :].shape)
        again, _ = forward(params, config, {"tokens": changed})
        assert np.array_equal(logits[:, : t + 1], again[:, : t + 1])
        dlogits = np.zeros_like(logits)
        dlogits[:, t] = rng.standard_normal(logits[:, t].shape)
        dP = backward(dlogits, cache)["embedding"]["P"]
        assert np.all(dP[t + 1 :] == 0) and np.all(np.any(dP[: t + 1] != 0, axis=1))


@pytest.mark.parametrize("engine", [model, fast])
def test_without_positions_an_encoder_knows_no_order(engine):
    """Tokens in another order have the same logits in that order; with positions they have not."""
    rng = np.random.default_rng(6)
    for positions, same in (("none", True), ("sinusoidal", False), ("rotary", False)):
        config = plain("encoder", "post", positions=positions)
        params, batch = random_params(config, rng), {"tokens": rng.integers(1, 11, (2, 5))}
        order = np.array([3, 0, 4, 2, 1])
        logits, _ = engine.forward(params, config, batch)
        mixed, _ = engine.forward(params, config, {"tokens": batch["tokens"][:, order]})
        assert np.allclose(mixed, logits[:, order], rtol=0, atol=1e-12) == same


def test_an_encoder_sees_the_future():
    config, rng = plain("encoder", "post", positions="learned", T_max=5), np.random.default_rng(5)
    logits, cache = forward(random_params(config, rng), config, random_batch(config, rng))
    dlogits = np.zeros_like(logits)
    dlogits[:, 0] = 1 + rng.random(logits[:, 0].shape)
    assert np.all(np.any(backward(dlogits, cache)["embedding"]["P"] != 0, axis=1))


@pytest.mark.parametrize("name", [name for name, config in CONFIGS.items() if config.pad is not None])
def test_more_padding_changes_nothing(name):
    config, rng = CONFIGS[name], np.random.default_rng(6)
    params, batch = random_params(config, rng), random_batch(config, rng)
    wider = {key: np.pad(array, ((0, 0), (0, 3)), constant_values=config.pad) for key, array in batch.items()}
    loss, grads = loss_and_gradients(params, config, batch)
    loss_wider, grads_wider = loss_and_gradients(params, config, wider)
    assert abs(loss - loss_wider) <= 1e-13 * loss
    twins.compare(grads_wider, grads)


def test_a_source_that_is_all_padding_gives_finite_gradients():
    config, rng = CONFIGS["Vaswani"], np.random.default_rng(7)
    params, batch = random_params(config, rng), random_batch(config, rng)
    batch["source"][1] = config.pad
    loss, grads = loss_and_gradients(params, config, batch)
    wanted_loss, wanted = twins.loss_and_gradients(twins.load(twins.Twin(config), params), batch)
    assert abs(loss - wanted_loss) <= 1e-12 * wanted_loss
    twins.compare(grads, wanted)


def test_encode_and_decode_are_the_two_halves_of_forward():
    config, rng = CONFIGS["Vaswani"], np.random.default_rng(8)
    params, batch = random_params(config, rng), random_batch(config, rng)
    memory, _ = encode(params, config, batch["source"])
    seen = (batch["source"] != config.pad)[:, None, None, :]
    x, _ = decode(params, config, batch["target_in"], memory, seen)
    assert np.array_equal(model.head(x, params, config)[0], forward(params, config, batch)[0])


def kept(params, config, batch):
    """The floating types of the logits and of everything in the cache."""
    leaves = optree.tree_leaves(forward(params, config, batch, draws(0, 0.1)))
    arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray | np.generic)]
    return {str(leaf.dtype) for leaf in arrays if leaf.dtype.kind == "f"}


@pytest.mark.parametrize("name", CONFIGS)
def test_float32_stays_float32(name):
    config, rng = replace(CONFIGS[name], p=0.1), np.random.default_rng(9)
    params, batch = random_params(config, rng, np.float32), random_batch(config, rng)
    assert kept(params, config, batch) == {"float32"}
    assert kept(params, replace(config, eps=np.float64(1e-5)), batch) == {"float32"}
    leaking = replace(config)
    object.__setattr__(leaking, "eps", np.float64(1e-5))  # past the door
    assert "float64" in kept(params, leaking, batch)  # a leak is seen
    loss, grads = loss_and_gradients(params, config, batch, draws(0, 0.1), label_smoothing=0.1)
    assert loss.dtype == np.float32
    assert {leaf.dtype for leaf in optree.tree_leaves(grads)} == {np.dtype(np.float32)}
    exact = optree.tree_map(lambda leaf: leaf.astype(np.float64), params)
    _, wanted = loss_and_gradients(exact, config, batch, draws(0, 0.1), 0.1)
    clear_zeros(grads, config, 1e-5)
    clear_zeros(wanted, config)
    twins.compare(grads, wanted, tolerance=1e-3)


@pytest.mark.parametrize("name", CONFIGS)
def test_float32_loses_no_more_than_torch_does(name):
    """In some gradients 1e-4: those that reach W_Q and W_K through dS = A ∘ (dA - rowsum(A ∘ dA)), where dA
    hardly differs from its mean. The numbers cancel in PyTorch's float32 as well, so that it is the measure.
    """
    config, lost = CONFIGS[name], {"ours": 1e-5, "torch": 1e-5}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        params, batch = random_params(config, rng, np.float32), random_batch(config, rng)
        exact = optree.tree_map(lambda leaf: leaf.astype(np.float64), params)
        _, wanted = loss_and_gradients(exact, config, batch, label_smoothing=0.1)
        twin = twins.load(twins.Twin(config), exact).float()
        twin.loss(batch, label_smoothing=0.1).backward()
        _, ours = loss_and_gradients(params, config, batch, label_smoothing=0.1)
        for whose, grads in (("ours", ours), ("torch", twins.gradients(twin))):
            for path, want in zip(optree.tree_paths(wanted), optree.tree_leaves(wanted), strict=True):
                got = functools.reduce(operator.getitem, path, grads)
                error = 0 if path[-1] == "b_K" else np.abs(got - want).max() / np.abs(want).max()
                lost[whose] = max(lost[whose], error)
    assert lost["ours"] <= 4 * lost["torch"]


def test_init_draws_what_it_says():
    rng = np.random.default_rng(10)
    config = vaswani_base(V=300, D=64, H=4, F=256, N=2)
    params = init(config, rng, dtype=np.float32)
    assert {leaf.dtype for leaf in optree.tree_leaves(params)} == {np.dtype(np.float32)}
    W = params["decoder"][1]["feed_forward"]["W_1"]
    assert abs(W.var() / (2 / (64 + 256)) - 1) < 0.05 and np.abs(W).max() <= np.sqrt(6 / 320)
    assert abs(params["embedding"]["E"].var() * 64 - 1) < 0.05
    assert np.all(params["encoder"][0]["feed_forward"]["b_1"] == 0)
    assert np.all(params["encoder"][0]["feed_forward_norm"]["gamma"] == 1)
    gpt = init(gpt2_small(V=300, D=64, H=4, F=256, N=8, T_max=32), rng)
    block = gpt["decoder"][3]
    assert abs(block["feed_forward"]["W_1"].std() / 0.02 - 1) < 0.05
    assert abs(block["feed_forward"]["W_2"].std() / (0.02 / 4) - 1) < 0.05  # 16 sub-layers
    assert abs(block["self_attention"]["W_O"].std() / (0.02 / 4) - 1) < 0.05
    assert abs(gpt["embedding"]["P"].std() / 0.02 - 1) < 0.1
    again = init(config, np.random.default_rng(10), dtype=np.float32)
    assert optree.tree_all(optree.tree_map(np.array_equal, params, again))


def test_weights_travel_both_ways():
    for config in CONFIGS.values():
        params = random_params(config, np.random.default_rng(11))
        twin = twins.load(twins.Twin(config), params)
        assert optree.tree_all(optree.tree_map(np.array_equal, twins.dump(twin), params))
        assert sum(p.numel() for p in twin.parameters()) == size(params)
    with pytest.raises(ValueError, match=r'params: expected \["decoder"\].*, which is missing'):
        twins.load(twins.Twin(CONFIGS["GPT-2"]), params)
    wider = random_params(replace(CONFIGS["GPT-2"], V=12), np.random.default_rng(11))
    with pytest.raises(
        ValueError, match=r'params\["embedding"\]\["E"\]: expected shape \(11, 8\), got \(12, 8\)'
    ):
        twins.load(twins.Twin(CONFIGS["GPT-2"]), wider)


# Wrong gradients: each replaces one function of the backward, and every witness must refute it.


def first_zero(backward):
    """The first gradient that `backward` returns is lost."""

    def wrong(dy, cache):
        first, *others = backward(dy, cache)
        return (0 * first, *others)

    return wrong


def second_zero(backward):
    def wrong(dy, cache):
        first, second, *others = backward(dy, cache)
        return (first, 0 * second, *others)

    return wrong


def all_zero(backward):
    return lambda dy, cache: 0 * backward(dy, cache)


def every_other_zero(first):
    """Of two lookups in one table, target and then source on the way back, one is lost."""

    def mutate(backward):
        calls = []

        def wrong(dy, cache):
            calls.append(None)
            return backward(dy, cache) * (len(calls) % 2 != first)

        return wrong

    return mutate


def slightly(backward):
    return lambda dy, cache: 1.001 * backward(dy, cache)


def second_slightly(backward):
    def wrong(dy, cache):
        first, second, *others = backward(dy, cache)
        return (first, 1.001 * second, *others)

    return wrong


def second_of_one_layer_zero(backward):
    """Only the first block that is asked, the last of the stack, forgets its second gradient."""
    calls = []

    def wrong(dy, cache):
        first, second, *others = backward(dy, cache)
        calls.append(None)
        return (first, 0 * second if len(calls) % TINY["N"] == 1 else second, *others)

    return wrong


def no_residual(backward):
    def wrong(dy, cache, f_backward):
        dx, *others = backward(dy, cache, f_backward)
        around = blocks.normalize_backward(dy, cache["post"])[0] if "post" in cache else dy
        return (dx - around, *others)

    return wrong


def no_second_use(backward):
    def wrong(dy, cache):
        dx, dmemory, dparams = blocks.multi_head_backward(dy, cache)
        return dx, dparams

    return wrong


def gamma_outside(backward):
    """dx of LayerNorm as if γ multiplied the result instead of dy."""

    def wrong(dy, cache):
        dx, dgamma, dbeta = backward(dy, cache | {"gamma": 1.0})
        return cache["gamma"] * dx, dgamma, dbeta

    return wrong


def transposed_output(backward):
    def wrong(dy, cache):
        dx, dmemory, dparams = backward(dy, cache)
        return dx, dmemory, dparams | {"W_O": dparams["W_O"].T}

    return wrong


def first_copy_only(backward):
    def wrong(dy, cache):
        B, HG, S, K = dy.shape
        return dy.reshape(B, HG // cache["G"], cache["G"], S, K)[:, :, 0]

    return wrong


def dropout_forgotten(backward):
    """On the way back nothing is dropped."""
    return lambda dy, cache: dy


multi_head_module = sys.modules["handgrad.ops.multi_head"]
WRONG = {
    "tied table: the head overwrites the lookup": ("Vaswani", model, "embedding_backward", all_zero),
    "tied table: the lookup overwrites the head": ("Vaswani", model, "tied_head_backward", second_zero),
    "shared table: the target is lost": ("Vaswani", model, "embedding_backward", every_other_zero(1)),
    "shared table: the source is lost": ("Vaswani", model, "embedding_backward", every_other_zero(0)),
    "positions ×1.001": ("BERT", model, "add_positions_backward", second_slightly),
    "dE of the head ×1.001": ("GPT-2", model, "tied_head_backward", second_slightly),
    "lookup ×1.001": ("BERT", model, "embedding_backward", slightly),
    "memory of one layer missing": ("Vaswani", model, "decoder_block_backward", second_of_one_layer_zero),
    "memory of every layer missing": ("Vaswani", model, "decoder_block_backward", second_zero),
    "memory ×1.001": ("Vaswani", model, "decoder_block_backward", second_slightly),
    "residual dropped": ("GPT-2", blocks, "sublayer_backward", no_residual),
    "residual dropped, post": ("BERT", blocks, "sublayer_backward", no_residual),
    "keys and values forgotten": ("GPT-2", blocks, "self_attend_backward", no_second_use),
    "gradient stops at the block": ("GPT-2", model, "encoder_block_backward", first_zero),
    "γ outside the sums": ("Vaswani", blocks, "layer_norm_backward", gamma_outside),
    "dW_O transposed": ("Vaswani", blocks, "multi_head_backward", transposed_output),
    "one copy of a head of keys": ("Llama", multi_head_module, "repeat_heads_backward", first_copy_only),
    "loss ×1.001": ("GPT-2", model, "cross_entropy_backward", slightly),
    "dropout forgotten": ("Vaswani", blocks, "dropout_backward", dropout_forgotten),
    "embedding dropout forgotten": ("GPT-2", model, "dropout_backward", dropout_forgotten),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_twin_refutes_wrong_gradients(monkeypatch, wrong):
    name, module, function, mutate = WRONG[wrong]
    (_, right), (_, wanted) = both(CONFIGS[name], p=CONFIGS[name].p)
    twins.compare(right, wanted)
    monkeypatch.setattr(module, function, mutate(getattr(module, function)))
    (_, grads), _ = both(CONFIGS[name], p=CONFIGS[name].p)
    with pytest.raises(AssertionError, match=r"^d[\w.]+: (relative error|expected shape)"):
        twins.compare(grads, wanted)


@pytest.mark.parametrize(
    "wrong", [wrong for wrong in WRONG if "dropout" not in wrong and "loss" not in wrong]
)
def test_differences_and_autograd_refute_wrong_gradients(monkeypatch, wrong):
    name, module, function, mutate = WRONG[wrong]
    config, rng = CONFIGS[name], np.random.default_rng(2)
    params, pair = {"params": random_params(config, rng)}, of_logits(config, random_batch(config, rng))
    monkeypatch.setattr(module, function, mutate(getattr(module, function)))
    for witness, tolerance in ((check.differences, 1e-5), (check.autograd, 1e-10)):
        with pytest.raises(AssertionError, match=r"^d[\w.]+: (relative error|expected shape)"):
            witness(pair, rng, params, tolerance=tolerance)


@pytest.mark.parametrize("path", optree.tree_paths(init(CONFIGS["Vaswani"], np.random.default_rng(0))))
def test_the_comparison_names_the_wrong_leaf(path):
    (_, grads), (_, wanted) = both(CONFIGS["Vaswani"])
    for factor in (0, -1, 2, 1.001, np.nan):
        factors = optree.tree_map_with_path(lambda p, g, f=factor: f if p == path else 1, grads)
        spoiled = optree.tree_map(np.multiply, grads, factors)
        with pytest.raises(AssertionError, match="d" + ".".join(map(str, path)) + ":"):
            twins.compare(spoiled, wanted)
    with pytest.raises(AssertionError, match="gradients: expected the tree"):
        twins.compare({name: part for name, part in grads.items() if name != path[0]}, wanted)


# Bad input.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(H=3), "D: expected a multiple of H = 3, got 8"),
        (dict(kind="decoder-encoder"), "kind: expected one of .* got 'decoder-encoder'"),
        (dict(norm="middle"), "norm: expected one of .* got 'middle'"),
        (dict(activation="tanh"), "activation: expected one of .* got 'tanh'"),
        (dict(positions="learned"), "T_max: expected the number of learned positions, got None"),
        (dict(positions="rotary", H=8), "D: expected a multiple of 2 H = 16 for rotary, got 8"),
        (dict(D=9, H=3), "D: expected an even number for sinusoidal positions, got 9"),
        (dict(H_kv=3), "H_kv: expected None or a divisor of H = 2, got 3"),
        (dict(V=0), "V: expected a positive integer, got 0"),
        (dict(N=1.5), "N: expected a positive integer, got 1.5"),
        (dict(N=True), "N: expected a positive integer, got True"),
        (dict(H=0), "H: expected a positive integer, got 0"),
        (dict(H_kv=1.0), "H_kv: expected None or a divisor of H = 2, got 1.0"),
        (dict(H_kv=True), "H_kv: expected None or a divisor of H = 2, got True"),
        (dict(T_max=2.5), "T_max: expected the number of learned positions, got 2.5"),
        (dict(T_max=0), "T_max: expected the number of learned positions, got 0"),
        (dict(positions="rotary", rotary_base=0), "rotary_base: expected a positive number, got 0"),
        (dict(rotary_base=-10.0), "rotary_base: expected a positive number, got -10.0"),
        (dict(rotary_base=np.inf), "rotary_base: expected a positive number, got inf"),
        (dict(rotary_base="1"), "rotary_base: expected a positive number, got '1'"),
        (dict(eps=-1e-5), "eps: expected a number that is not negative, got -1e-05"),
        (dict(eps=np.inf), "eps: expected a number that is not negative, got inf"),
        (dict(eps=np.nan), "eps: expected a number that is not negative, got nan"),
        (dict(eps=True), "eps: expected a number that is not negative, got True"),
        (dict(segments=1.5), "segments: expected an integer that is not negative, got 1.5"),
        (dict(segments=-1), "segments: expected an integer that is not negative, got -1"),
        (dict(p=np.nan), r"p: expected a probability in \[0, 1\), got nan"),
        (dict(p="0.1"), r"p: expected a probability in \[0, 1\), got '0.1'"),
        (dict(pad=0.5), "pad: expected None or a token below V = 11, got 0.5"),
        (dict(pad=True), "pad: expected None or a token below V = 11, got True"),
        (dict(pad=-1), "pad: expected None or a token below V = 11, got -1"),
        (dict(dropout_sites="sublayer"), "dropout_sites: expected a part of .* got 'sublayer'"),
        (dict(dropout_sites=["sublayer"]), "dropout_sites: expected a part of .* got"),
        (dict(dropout_sites=(["sublayer"],)), "dropout_sites: expected a part of .* got"),
        (dict(std=np.inf), "std: expected None or a positive number, got inf"),
        (dict(std=np.nan), "std: expected None or a positive number, got nan"),
        (dict(tied="no"), "tied: expected True or False, got 'no'"),
        (dict(head_bias=1), "head_bias: expected True or False, got 1"),
        (dict(p=1.0), r"p: expected a probability in \[0, 1\), got 1.0"),
        (dict(pad=11), "pad: expected None or a token below V = 11, got 11"),
        (dict(dropout_sites=("everywhere",)), "dropout_sites: expected a part of .* got"),
        (dict(activation="swiglu", dropout_sites=("hidden",)), "dropout_sites: expected no"),
        (dict(activation="geglu", dropout_sites=("hidden",)), "dropout_sites: expected no"),
        (dict(activation="geglu", head_transform=True), "head_transform: expected False"),
        (dict(segments=2, kind="decoder"), "segments: expected 0"),
        (dict(std=-1.0), "std: expected None or a positive number, got -1.0"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Config(**TINY | {"kind": "encoder"} | changes)


def test_numbers_of_numpy_become_pythons_own():
    given = dict(V=np.int64(11), D=np.uint8(8), eps=np.float32(0.5), p=np.float64(0.1), tied=np.bool_(False))
    config = Config(**TINY | {"kind": np.str_("encoder")} | given)
    assert {type(value) for value in vars(config).values()} == {str, int, float, bool, tuple, type(None)}
    assert config == Config(**TINY | dict(kind="encoder", eps=0.5, p=0.1, tied=False))


TOKENS = np.array([[1, 2, 3], [4, 5, 6]])
BATCH = {"source": TOKENS, "target_in": TOKENS, "tokens": TOKENS, "target_out": TOKENS}


def batch_for(config):
    """The entries of BATCH that the model reads."""
    inputs = ("source", "target_in") if config.kind == "encoder-decoder" else ("tokens",)
    return {name: BATCH[name] for name in (*inputs, "target_out")}


@pytest.mark.parametrize(
    ("name", "changes", "error", "message"),
    [
        ("GPT-2", dict(tokens=TOKENS + 5), ValueError, "expected ids from 0 to 10, got ids from 6 to 11"),
        ("GPT-2", dict(tokens=TOKENS - 2), ValueError, "expected ids from 0 to 10, got ids from -1 to 4"),
        ("GPT-2", dict(tokens=TOKENS * 1.0), TypeError, "expected integers, got float64"),
        ("GPT-2", dict(tokens=TOKENS > 2), TypeError, "expected integers, got bool"),
        ("GPT-2", dict(tokens=TOKENS.tolist()), TypeError, "expected an array of integers, got list"),
        ("GPT-2", dict(target_out=[1, 2]), TypeError, "expected an array of integers, got list"),
        ("BERT", dict(segments=None), TypeError, "expected an array of integers, got NoneType"),
        ("Vaswani", dict(source=TOKENS[0]), ValueError, r"expected a shape \(B, T\) .* got \(3,\)"),
        ("GPT-2", dict(tokens=TOKENS[0]), ValueError, r"expected a shape \(B, T\) .* got \(3,\)"),
        ("GPT-2", dict(tokens=TOKENS[:0]), ValueError, r"expected a shape \(B, T\) .* got \(0, 3\)"),
        (
            "GPT-2",
            dict(tokens=np.ones((2, 10), int)),
            ValueError,
            "expected at most T_max = 9 positions, got 10",
        ),
        ("GPT-2", dict(target_out=TOKENS[:, :2]), ValueError, r"expected shape \(2, 3\), got \(2, 2\)"),
        ("BERT", dict(segments=TOKENS), ValueError, "expected ids from 0 to 1, got ids from 1 to 6"),
        ("BERT", dict(segments=TOKENS[:1] % 2), ValueError, r"expected shape \(2, 3\), got \(1, 3\)"),
        ("Vaswani", dict(source=TOKENS[:1]), ValueError, r"expected shape \(1, 3\), got \(2, 3\)"),
        ("Vaswani", dict(source=TOKENS[:, :0]), ValueError, r"expected a shape \(B, T\) .* got \(2, 0\)"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(name, changes, error, message):
    config = CONFIGS[name]
    params = random_params(config, np.random.default_rng(0))
    batch = batch_for(config)
    loss_and_gradients(params, config, batch)
    entry = next(iter(changes))
    if entry == "source" and changes[entry].shape == (1, 3):
        entry = "target_in"  # its rows are compared with those of the source
    with pytest.raises(error, match=rf'^batch\["{entry}"\]: {message}'):
        loss_and_gradients(params, config, batch | changes)


def test_other_bad_batches_are_refused():
    config = CONFIGS["Vaswani"]
    params = random_params(config, np.random.default_rng(0))
    batch = {"source": TOKENS, "target_in": TOKENS, "target_out": 0 * TOKENS}
    with pytest.raises(ValueError, match="batch: expected the entries .*source.* got"):
        forward(params, config, {"tokens": TOKENS})
    with pytest.raises(ValueError, match='batch: expected the entry "target_out", got'):
        loss_and_gradients(params, config, {"source": TOKENS, "target_in": TOKENS})
    with pytest.raises(ValueError, match="targets: expected at least one target to count, all are 0"):
        loss_and_gradients(params, config, batch)
    with pytest.raises(ValueError, match="targets: expected ids from 0 to V - 1 = 10"):
        loss_and_gradients(params, config, batch | {"target_out": TOKENS + 5})
    memory, _ = encode(params, config, TOKENS)
    with pytest.raises(ValueError, match="mask: expected a shape that broadcasts to"):
        decode(params, config, TOKENS, memory, np.ones((2, 1, 1, 4), dtype=bool))
    with pytest.raises(ValueError, match=r"keep: expected shape \(2, 3, 8\), got \(3, 8\)"):
        forward(params, config, batch, draw_keep=lambda shape: np.ones(shape[1:], dtype=bool))
    with pytest.raises(TypeError, match="keep: expected Booleans, got uint8"):
        forward(params, config, batch, draw_keep=lambda shape: np.ones(shape, np.uint8))
    for source, error in ((TOKENS[0], ValueError), (TOKENS.tolist(), TypeError)):
        with pytest.raises(error, match="tokens: expected"):
            encode(params, config, source)
    for segments, error in ((TOKENS, "none"), (TOKENS[:1], r"shape \(2, 3\)")):
        with pytest.raises(ValueError, match=f"segments: expected {error}"):
            encode(params, config, TOKENS, segments=segments)
    with pytest.raises(TypeError, match="batch: expected a dictionary, got list"):
        forward(params, config, [TOKENS, TOKENS])
    with pytest.raises(ValueError, match="memory: expected the encoder's output, got none"):
        decode(params, config, TOKENS)
    config = CONFIGS["GPT-2"]
    with pytest.raises(ValueError, match="memory: expected none, got one"):
        decode(random_params(config, np.random.default_rng(0)), config, TOKENS, memory)


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("GPT-2", "attention_mask"),
        ("GPT-2", "segments"),
        ("GPT-2", "source"),
        ("BERT", "segment"),
        ("BERT", "token_type_ids"),
        ("Vaswani", "tokens"),
        ("Vaswani", "segments"),
        ("Vaswani", 0),
    ],
)
@pytest.mark.parametrize("engine", [model, fast])
def test_an_entry_that_the_model_does_not_read_is_refused(engine, name, entry):
    config = CONFIGS[name]
    params, batch = random_params(config, np.random.default_rng(0)), batch_for(config)
    for function in (engine.forward, engine.loss_and_gradients):
        function(params, config, batch)
        with pytest.raises(ValueError, match=f"batch: expected the entries .* got .*{entry}"):
            function(params, config, batch | {entry: 0 * TOKENS})


IN_LIBRARIES = [(model, np.asarray), (model, torch.tensor), (fast, np.asarray)]
"""The model computes with arrays of any library, the fast step with those of NumPy."""
IDS = ["model, numpy", "model, torch", "fast"]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "uint64"])
@pytest.mark.parametrize(("engine", "library"), IN_LIBRARIES, ids=IDS)
def test_tokens_of_any_integer_type_are_read(engine, library, dtype):
    config = CONFIGS["BERT"]
    params = random_params(config, np.random.default_rng(0))
    batch = batch_for(config) | {"segments": TOKENS % 2}
    wanted, _ = loss_and_gradients(params, config, batch)
    narrow = {name: array.astype(dtype) for name, array in batch.items()}
    loss, _ = engine.loss_and_gradients(optree.tree_map(library, params), config, narrow)
    assert abs(float(loss) - wanted) <= 1e-12 * wanted


def test_the_order_of_bytes_does_not_matter_to_the_model():
    """The fast step says that it takes the processor's own."""
    config = CONFIGS["GPT-2"]
    params, batch = random_params(config, np.random.default_rng(0)), batch_for(config)
    wanted, _ = loss_and_gradients(params, config, batch)
    params, batch = optree.tree_map(lambda x: x.astype(x.dtype.newbyteorder()), (params, batch))
    loss, _ = loss_and_gradients(params, config, batch)
    assert abs(loss - wanted) <= 1e-12 * wanted
    with pytest.raises(TypeError, match="params: expected arrays of NumPy, of .*, got ndarray of >f8"):
        fast.loss_and_gradients(params, config, batch)


@pytest.mark.parametrize(("engine", "of_params"), IN_LIBRARIES, ids=IDS)
@pytest.mark.parametrize("of_keep", [np.asarray, torch.tensor], ids=["numpy", "torch"])
def test_dropout_drawn_by_one_library_acts_on_arrays_of_the_other(engine, of_keep, of_params):
    config, rng = replace(CONFIGS["Vaswani"], p=0.3, dropout_sites=SITES), np.random.default_rng(12)
    params, batch = random_params(config, rng), random_batch(config, rng)
    wanted_loss, wanted = loss_and_gradients(params, config, batch, draws(1, config.p))
    drawn, params = draws(1, config.p), optree.tree_map(of_params, params)
    loss, grads = engine.loss_and_gradients(params, config, batch, lambda shape: of_keep(drawn(shape)))
    assert abs(float(loss) - wanted_loss) <= 1e-12 * wanted_loss
    twins.compare(optree.tree_map(np.asarray, grads), wanted)


def changed(tree, path, value):
    """The tree with another value at the path; without that leaf if it is None."""
    if not path:
        return value
    tree = tree.copy()
    if len(path) == 1 and value is None:
        del tree[path[0]]
    else:
        tree[path[0]] = changed(tree[path[0]] if len(path) > 1 else None, path[1:], value)
    return tree


ATTENTION = ("decoder", 1, "self_attention")
UNFIT = [
    ("GPT-2", ("head",), {"W_out": np.ones((8, 11))}, r'expected nothing at \["head"\]\["W_out"\]'),
    ("GPT-2", (*ATTENTION, "b_q"), np.ones(8), r'expected nothing at \["decoder"\]\[1\].*\["b_q"\]'),
    ("GPT-2", ("decoder",), [], r'expected \["decoder"\]\[0\]\["feed_forward"\].* which is missing'),
    ("GPT-2", ("decoder", 1), None, r'expected \["decoder"\]\[1\]\["feed_forward"\].* which is missing'),
    ("GPT-2", ("decoder", 1, "feed_forward_norm", "beta"), None, r'\["beta"\], which is missing'),
    ("GPT-2", (*ATTENTION, "b_O"), None, r'\["b_O"\], which is missing'),
    ("GPT-2", ("embedding", "P"), None, r'\["embedding"\]\["P"\], which is missing'),
    ("GPT-2", (*ATTENTION, "b_Q"), np.ones(1), r'\["b_Q"\]: expected shape \(8,\), got \(1,\)'),
    ("GPT-2", (*ATTENTION, "W_Q"), np.ones((8, 10)), r'\["W_Q"\]: expected shape \(8, 8\), got \(8, 10\)'),
    ("GPT-2", ("embedding", "E"), np.ones((12, 8)), r'\["E"\]: expected shape \(11, 8\), got \(12, 8\)'),
    ("GPT-2", ("embedding", "P"), np.ones((9, 1)), r'\["P"\]: expected shape \(9, 8\), got \(9, 1\)'),
    ("BERT", ("embedding", "E_segment"), np.ones((3, 8)), r"expected shape \(2, 8\), got \(3, 8\)"),
    ("Llama", (*ATTENTION, "W_K"), np.ones((8, 8)), r"expected shape \(8, 4\), got \(8, 8\)"),
    ("Llama", ("decoder", 0, "feed_forward", "W_up"), np.ones((8, 1)), r"\(8, 12\), got \(8, 1\)"),
    ("GPT-2", (*ATTENTION, "b_Q"), 0.0, r'\["b_Q"\]: expected an array, got float'),
    ("GPT-2", (*ATTENTION, "b_Q"), [0.0] * 8, r'expected .*\["b_Q"\], which is missing'),
    ("GPT-2", (*ATTENTION, "b_Q"), np.ones(8, np.float32), "of one type, got .'float32', 'float64'"),
    ("GPT-2", (*ATTENTION, "b_Q"), torch.ones(8, dtype=torch.float64), "of one type, got"),
    ("GPT-2", (), {}, r'expected \["decoder"\]\[0\].* which is missing'),
    ("GPT-2", (), None, r'expected \["decoder"\]\[0\].* which is missing'),
]


@pytest.mark.parametrize(("name", "path", "value", "message"), UNFIT)
@pytest.mark.parametrize("engine", [model, fast])
def test_parameters_that_are_not_those_of_the_config_are_refused(engine, name, path, value, message):
    config = CONFIGS[name]
    params, batch = random_params(config, np.random.default_rng(0)), batch_for(config)
    engine.loss_and_gradients(params, config, batch)
    unfit = changed(params, path, value)
    for function in (engine.forward, engine.loss_and_gradients):
        with pytest.raises((TypeError, ValueError), match=f"^params.*{message}"):
            function(unfit, config, batch)


@pytest.mark.parametrize("dtype", [int, bool, complex, "U1"])
def test_parameters_that_are_no_floating_numbers_are_refused(dtype):
    config = CONFIGS["GPT-2"]
    params = optree.tree_map(lambda p: p.astype(dtype), random_params(config, np.random.default_rng(0)))
    with pytest.raises(TypeError, match="^params: expected floating numbers or symbols of one type, got"):
        forward(params, config, batch_for(config))


def test_a_tuple_of_blocks_is_refused_since_the_gradients_are_a_list():
    config = CONFIGS["GPT-2"]
    params = random_params(config, np.random.default_rng(0))
    with pytest.raises(ValueError, match="^params: expected the tree PyTreeSpec.* got PyTreeSpec"):
        forward(params | {"decoder": tuple(params["decoder"])}, config, batch_for(config))


def test_the_gradients_are_not_written_to_another_tree():
    config = CONFIGS["GPT-2"]
    params = random_params(config, np.random.default_rng(0))
    for out, path in (
        (params | {"more": np.ones(2)}, "more"),
        (changed(params, ("decoder", 1), None), "decoder"),
    ):
        with pytest.raises(ValueError, match=f"^out: expected .*{path}"):
            fast.loss_and_gradients(params, config, batch_for(config), out=out)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("engine", "library"), IN_LIBRARIES, ids=IDS)
def test_a_word_can_be_forbidden_by_a_bias_of_minus_infinity(engine, library, smoothing):
    """It is no target, but padding, the word 0, is also what stands where a target does not count."""
    config, rng = CONFIGS["BERT"], np.random.default_rng(0)
    params, batch = random_params(config, rng), random_batch(config, rng)
    params["head"]["b_out"][config.pad] = -np.inf
    twin = twins.load(twins.Twin(config), params)
    wanted_loss, wanted = twins.loss_and_gradients(twin, batch, label_smoothing=smoothing)
    own = optree.tree_map(library, params)
    loss, grads = engine.loss_and_gradients(own, config, batch, label_smoothing=smoothing)
    assert float(loss) == pytest.approx(wanted_loss, rel=1e-12) and np.isinf(wanted_loss) == (smoothing > 0)
    twins.compare(optree.tree_map(np.asarray, grads), wanted)
