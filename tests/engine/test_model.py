"""The models against their twins, differences and themselves; and wrong gradients, which are refuted."""

import functools
import operator
from dataclasses import replace

import numpy as np
import optree
import pytest
import torch
from parameters import SITES, changed, draws, models, random_batch, random_params

from handgrad import blocks, check, fast, mistakes, model, ops, optim
from handgrad import twin as twins
from handgrad.config import Config, gpt2_small, init, vaswani_base
from handgrad.model import backward, decode, encode, forward, loss_and_gradients

torch.set_num_threads(1)  # the models here are tiny

TINY = dict(V=11, D=8, H=2, F=12, N=2)
CONFIGS = models(T_max=9, **TINY)


def size(tree):
    """How many numbers the tree holds."""
    return sum(leaf.size for leaf in optree.tree_leaves(tree))


def both(config, seed=0, p=None, label_smoothing=0.1):
    """Loss and gradients by hand and by the twin, from the same parameters, batch and dropout."""
    rng = np.random.default_rng(seed)
    params, batch = random_params(config, rng), random_batch(config, rng)

    def draw_keep():
        return None if p is None else draws(seed, p)

    by_hand = loss_and_gradients(params, config, batch, draw_keep(), label_smoothing)
    twin = twins.load(twins.Twin(config), params)
    return by_hand, twins.loss_and_gradients(twin, batch, draw_keep(), label_smoothing)


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
        config = replace(CONFIGS["encoder, post"], positions=positions)
        params, batch = random_params(config, rng), {"tokens": rng.integers(1, 11, (2, 5))}
        order = np.array([3, 0, 4, 2, 1])
        logits, _ = engine.forward(params, config, batch)
        mixed, _ = engine.forward(params, config, {"tokens": batch["tokens"][:, order]})
        assert np.allclose(mixed, logits[:, order], rtol=0, atol=1e-12) == same


@pytest.mark.parametrize("name", [name for name, config in CONFIGS.items() if config.pad is not None])
def test_more_padding_changes_nothing(name):
    config, rng = CONFIGS[name], np.random.default_rng(6)
    params, batch = random_params(config, rng), random_batch(config, rng)
    wider = {key: np.pad(array, ((0, 0), (0, 3)), constant_values=config.pad) for key, array in batch.items()}
    loss, grads = loss_and_gradients(params, config, batch)
    loss_wider, grads_wider = loss_and_gradients(params, config, wider)
    assert abs(loss - loss_wider) <= 1e-13 * loss
    twins.compare(grads_wider, grads)


@pytest.mark.parametrize("engine", [model, fast])
def test_a_source_that_is_all_padding_gives_finite_gradients(engine):
    config, rng = CONFIGS["Vaswani"], np.random.default_rng(7)
    params, batch = random_params(config, rng), random_batch(config, rng)
    batch["source"][1] = config.pad
    loss, grads = engine.loss_and_gradients(params, config, batch)
    wanted_loss, wanted = twins.loss_and_gradients(twins.load(twins.Twin(config), params), batch)
    assert abs(loss - wanted_loss) <= 1e-12 * wanted_loss
    twins.compare(grads, wanted)


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


# Wrong gradients: each is a change of the shipped source, and every witness must refute it.

MEMORY = "dmemory_n if dmemory is None else dmemory + dmemory_n"
TARGET, SOURCE = 'grads["embedding"]["E"] += grads["source_embedding"]', '+= grads["source_embedding"]'
WRONG = {
    "tied table: the head overwrites the lookup": ("Vaswani", model.backward, '"E"] += dE → "E"] = dE'),
    "tied table: the lookup overwrites the head": ("Vaswani", model.backward, '"E"] += dE → "E"] += 0 * dE'),
    "shared table: the target is lost": ("Vaswani", model.backward, f"{TARGET} → {TARGET.replace('+', '')}"),
    "shared table: the source is lost": (
        "Vaswani",
        model.backward,
        f"{SOURCE} → {SOURCE.replace('+=', '+= 0 *')}",
    ),
    "positions ×1.001": (
        "BERT",
        model.embed_backward,
        'if cache["segmented"]: → dtables["P"] *= 1.001\nif cache["segmented"]:',
    ),
    "dE of the head ×1.001": ("GPT-2", ops.tied_head_backward, "return dz @ E, → return dz @ E, 1.001 *"),
    "lookup ×1.001": ("BERT", ops.embedding_backward, 'cache["scale"] * → 1.001 * cache["scale"] *'),
    "memory of one layer missing": ("Vaswani", model.decode_backward, "dmemory + dmemory_n → dmemory"),
    "memory of every layer missing": ("Vaswani", model.decode_backward, f"{MEMORY} → 0 * dmemory_n"),
    "memory ×1.001": ("Vaswani", model.decode_backward, "dmemory + → dmemory + 1.001 *"),
    "residual dropped": ("GPT-2", blocks.sublayer_backward, "dy + dh → dh"),
    "residual dropped, post": ("BERT", blocks.sublayer_backward, "dy + dh → dh"),
    "keys and values forgotten": ("GPT-2", blocks.self_attend_backward, "dx + dmemory → dx"),
    "gradient stops at the block": ("GPT-2", blocks.encoder_block_backward, "return dx → return 0 * dx"),
    "γ outside the sums": (
        "Vaswani",
        ops.layer_norm_backward,
        'cache["gamma"] * dy → dy',
        '"inverse_std"] → "inverse_std"] * cache["gamma"]',
    ),
    "dW_O transposed": ("Vaswani", ops.multi_head_backward, '"W_O": dW_O → "W_O": dW_O.T'),
    "one copy of a head of keys": (
        "Llama",
        ops.repeat_heads_backward,
        "xp.sum(xp.reshape(dy, (B, HG // G, G, S, K)), axis=2) → dy[:, ::G]",
    ),
    "loss ×1.001": ("GPT-2", ops.cross_entropy_backward, "dz = dloss → dz = 1.001 * dloss"),
    "dropout forgotten": ("Vaswani", ops.dropout_backward, 'dy if cache["keep"] is None → dy if True'),
    "embedding dropout forgotten": (
        "GPT-2",
        model.embed_backward,
        'dropout_backward(dx, cache["dropped"]) → dx',
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_every_witness_refutes_wrong_gradients(wrong):
    """Differences and autograd have no dropout, and no loss."""
    name, function, *changes = WRONG[wrong]
    config, rng = CONFIGS[name], np.random.default_rng(2)
    params, pair = {"params": random_params(config, rng)}, of_logits(config, random_batch(config, rng))
    said = r"^d[\w.]+: (relative error|expected shape)"
    (_, right), (_, wanted) = both(config, p=config.p)
    twins.compare(right, wanted)
    with mistakes.changed(function, *changes):
        (_, grads), _ = both(config, p=config.p)
        with pytest.raises(AssertionError, match=said):
            twins.compare(grads, wanted)
        if "dropout" not in wrong and "loss" not in wrong:
            for witness, tolerance in ((check.differences, 1e-5), (check.autograd, 1e-10)):
                with pytest.raises(AssertionError, match=said):
                    witness(pair, rng, params, tolerance=tolerance)


def test_the_comparison_names_the_wrong_leaf():
    (_, grads), (_, wanted) = both(CONFIGS["Vaswani"])
    for path in optree.tree_paths(grads):
        for factor in (0, -1, 2, 1.001, np.nan):
            factors = optree.tree_map_with_path(
                lambda p, g, path=path, f=factor: f if p == path else 1, grads
            )
            spoiled = optree.tree_map(np.multiply, grads, factors)
            with pytest.raises(AssertionError, match="d" + ".".join(map(str, path)) + ":"):
                twins.compare(spoiled, wanted)
        with pytest.raises(AssertionError, match="gradients: expected the tree"):
            twins.compare({name: part for name, part in grads.items() if name != path[0]}, wanted)


# Bad input.

NOT_COUNTS = dict(V=0), dict(N=1.5), dict(N=True), dict(H=0)
UNKNOWN = [
    dict(dropout_sites=sites) for sites in ("sublayer", ["sublayer"], (["sublayer"],), ("everywhere",))
]
GATED = [dict(activation=activation, dropout_sites=("hidden",)) for activation in ("swiglu", "geglu")]
BAD_CONFIGS = {
    "[DHVN]: expected (a multiple of|a positive|an even)": [dict(H=3), dict(D=9, H=3), *NOT_COUNTS],
    "D: expected a multiple of 2 H = 16 for rotary": [dict(positions="rotary", H=8)],
    "kind: expected one of": [dict(kind="decoder-encoder")],
    "norm: expected one of": [dict(norm="middle")],
    "activation: expected one of": [dict(activation="tanh")],
    "T_max: expected the number": [dict(positions="learned"), dict(T_max=2.5), dict(T_max=0)],
    "H_kv: expected None or a divisor of H = 2": [dict(H_kv=3), dict(H_kv=1.0), dict(H_kv=True)],
    "rotary_base: expected a positive number": [dict(rotary_base=base) for base in (0, -10.0, np.inf, "1")],
    "eps: expected a number that is not negative": [dict(eps=eps) for eps in (-1e-5, np.inf, np.nan, True)],
    "segments: expected": [dict(segments=1.5), dict(segments=-1), dict(segments=2, kind="decoder")],
    r"p: expected a probability in \[0, 1\)": [dict(p=p) for p in (np.nan, "0.1", 1.0)],
    "pad: expected None or a token below V = 11": [dict(pad=pad) for pad in (0.5, True, -1, 11)],
    "dropout_sites: expected": [*UNKNOWN, *GATED],
    "std: expected None or a positive number": [dict(std=std) for std in (np.inf, np.nan, -1.0)],
    "tied: expected True or False": [dict(tied="no")],
    "head_bias: expected True or False": [dict(head_bias=1)],
    "head_transform: expected False": [dict(activation="geglu", head_transform=True)],
}


@pytest.mark.parametrize("message", BAD_CONFIGS)
def test_a_config_that_does_not_fit_is_refused(message):
    for changes in BAD_CONFIGS[message]:
        with pytest.raises(ValueError, match=f"^{message}.* got"):
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


BAD_BATCHES = [
    ("GPT-2", "tokens", TOKENS + 5, "ids from 0 to 10, got ids from 6 to 11"),
    ("GPT-2", "tokens", TOKENS - 2, "ids from 0 to 10, got ids from -1 to 4"),
    ("GPT-2", "tokens", TOKENS * 1.0, "integers, got float64"),
    ("GPT-2", "tokens", TOKENS > 2, "integers, got bool"),
    ("GPT-2", "tokens", TOKENS.tolist(), "an array of integers, got list"),
    ("GPT-2", "tokens", TOKENS[0], r"a shape \(B, T\) .* got \(3,\)"),
    ("GPT-2", "tokens", TOKENS[:0], r"a shape \(B, T\) .* got \(0, 3\)"),
    ("GPT-2", "tokens", np.ones((2, 10), int), "at most T_max = 9 positions, got 10"),
    ("GPT-2", "target_out", [1, 2], "an array of integers, got list"),
    ("GPT-2", "target_out", TOKENS[:, :2], r"shape \(2, 3\), got \(2, 2\)"),
    ("BERT", "segments", None, "an array of integers, got NoneType"),
    ("BERT", "segments", TOKENS, "ids from 0 to 1, got ids from 1 to 6"),
    ("BERT", "segments", TOKENS[:1] % 2, r"shape \(2, 3\), got \(1, 3\)"),
    ("Vaswani", "source", TOKENS[0], r"a shape \(B, T\) .* got \(3,\)"),
    ("Vaswani", "source", TOKENS[:, :0], r"a shape \(B, T\) .* got \(2, 0\)"),
    ("Vaswani", "target_in", TOKENS[:1], r"shape \(2, 3\), got \(1, 3\)"),
]


@pytest.mark.parametrize(("name", "entry", "value", "expected"), BAD_BATCHES)
@pytest.mark.parametrize("engine", [model, fast])
def test_a_batch_that_does_not_fit_is_refused(engine, name, entry, value, expected):
    config = CONFIGS[name]
    params, batch = random_params(config, np.random.default_rng(0)), batch_for(config)
    engine.loss_and_gradients(params, config, batch)
    with pytest.raises((TypeError, ValueError), match=rf'^batch\["{entry}"\]: expected {expected}'):
        engine.loss_and_gradients(params, config, batch | {entry: value})


@pytest.mark.parametrize("engine", [model, fast])
def test_other_bad_input_is_refused(engine):
    config = CONFIGS["Vaswani"]
    params, batch = random_params(config, np.random.default_rng(0)), batch_for(config)
    of_decoder = random_params(CONFIGS["GPT-2"], np.random.default_rng(0)), CONFIGS["GPT-2"], TOKENS
    memory, _ = encode(params, config, TOKENS)
    hidden = np.ones((2, 1, 1, 4), dtype=bool)

    def loss(smoothing=0.0, **changes):
        return engine.loss_and_gradients(params, config, batch | changes, None, smoothing)

    def dropped(make):
        return engine.loss_and_gradients(params, config, batch, make)

    for call, message in (
        (
            lambda: engine.forward(params, config, {"tokens": TOKENS}),
            "batch: expected the entries .*source.* got",
        ),
        (lambda: engine.forward(params, config, [TOKENS, TOKENS]), "batch: expected a dictionary, got list"),
        (
            lambda: engine.loss_and_gradients(params, config, {"source": TOKENS, "target_in": TOKENS}),
            'batch: expected the entry "target_out", got',
        ),
        (lambda: loss(target_out=0 * TOKENS), "targets: expected at least one target to count, all are 0"),
        (lambda: loss(target_out=TOKENS + 5), "targets: expected ids from 0 to V - 1 = 10"),
        (lambda: loss(np.float32(1.5)), "label_smoothing: expected a number.*, got 1.5"),
        (lambda: loss(np.ones(2)), r"label_smoothing: expected a number.*, got shape \(2,\)"),
        (lambda: decode(params, config, TOKENS, memory, hidden), "mask: expected a shape that broadcasts to"),
        (lambda: dropped(lambda s: np.ones(s[1:], bool)), r"keep: expected shape \(2, 3, 8\), got \(3, 8\)"),
        (lambda: dropped(lambda s: np.ones(s, np.uint8)), "keep: expected Booleans, got uint8"),
        (lambda: dropped(lambda s: [True]), "keep: expected an array of Booleans, got list"),
        (lambda: encode(params, config, TOKENS[0]), "tokens: expected"),
        (lambda: encode(params, config, TOKENS.tolist()), "tokens: expected"),
        (lambda: encode(params, config, TOKENS, segments=TOKENS), "segments: expected none"),
        (lambda: encode(params, config, TOKENS, segments=TOKENS[:1]), r"segments: expected shape \(2, 3\)"),
        (lambda: decode(params, config, TOKENS), "memory: expected the encoder's output, got none"),
        (lambda: decode(*of_decoder, memory), "memory: expected none, got one"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


UNREAD = {
    "GPT-2": ["attention_mask", "segments", "source"],
    "BERT": ["segment", "token_type_ids"],
    "Vaswani": ["tokens", "segments", 0],
}


@pytest.mark.parametrize(("name", "entry"), [(name, entry) for name, own in UNREAD.items() for entry in own])
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
