"""The fast step against the readable model, which is the truth: equal losses, gradients and errors."""

from dataclasses import replace
from itertools import product

import numpy as np
import optree
import pytest
from parameters import random_params

from handgrad import fused, model, optim
from handgrad.config import CHOICES, Config, bert_base, gpt2_small, vaswani_base

TINY = dict(V=23, D=16, H=2, F=24, N=2)
SITES = ("embedding", "attention", "hidden", "sublayer")


def plain(kind, norm, **changes):
    return Config(kind, **TINY | dict(norm=norm, pad=0) | changes)


CONFIGS = {f"{kind}, {norm}": plain(kind, norm) for kind, norm in product(CHOICES["kind"], CHOICES["norm"])}
CONFIGS |= {
    "Vaswani": vaswani_base(**TINY, pad=0),
    "GPT-2": gpt2_small(**TINY, T_max=90),
    "GPT-2, padded": gpt2_small(**TINY, T_max=90, pad=0),
    "BERT": bert_base(**TINY, T_max=90),
    "source table of its own": plain("encoder-decoder", "pre", shared=False, final_norm=True, head_bias=True),
    "three tables": plain("encoder-decoder", "post", shared=False, tied=False, head_bias=True),
    "one table, another head": plain("encoder-decoder", "output", tied=False, scale_embedding=True),
    "learned positions": plain("encoder-decoder", "pre", positions="learned", T_max=90, embedding_norm=True),
    "gelu": plain("encoder", "post", activation="gelu", final_norm=True),
    "transformed head": plain("decoder", "pre", head_transform=True, tied=False, activation="gelu_tanh"),
    "no biases": plain("decoder", "output", attention_biases=False, feed_forward_biases=False),
}


def random_batch(config, rng, B=4, T=7, S=6):
    """Tokens that repeat, padding before and after, and some targets that do not count."""

    def rows(length):
        tokens = rng.integers(1, 9, (B, length))  # fewer than positions: some repeat
        if config.pad is not None:
            for b in range(1, B):
                tokens[b, length - b % length :] = config.pad
            tokens[0, 0] = config.pad  # a causal query that sees nothing
        return tokens

    if config.kind == "encoder-decoder":
        batch = {"source": rows(S), "target_in": rows(T), "target_out": rows(T)}
    else:
        batch = {"tokens": rows(T), "target_out": rows(T)}
    if config.pad is None:
        batch["target_out"][0, -1] = -100
    if config.segments:
        batch["segments"] = rng.integers(0, config.segments, batch["tokens"].shape)
    return batch


def masks(seed, p):
    rng = np.random.default_rng(seed)
    return lambda shape: rng.random(shape) >= p


def differences(grads, wanted):
    """The relative error of each gradient, by its path; a gradient that should be 0 is compared with 1."""
    paths = optree.tree_paths(wanted)
    assert optree.tree_paths(grads) == paths
    errors = {}
    for path, got, want in zip(paths, optree.tree_leaves(grads), optree.tree_leaves(wanted), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype, path
        # db_K is 0 by symmetry, up to rounding
        zero = path[-1] == "b_K"
        errors[path] = np.abs(got - want).max() / (1 if zero else np.abs(want).max())
    return errors


def compare(got, wanted, tolerance):
    (loss, grads), (wanted_loss, wanted_grads) = got, wanted
    assert loss.dtype == wanted_loss.dtype
    assert abs(loss - wanted_loss) <= tolerance * abs(wanted_loss)
    for path, error in differences(grads, wanted_grads).items():
        assert error <= tolerance, f"{path}: relative error {error:.1e}, more than {tolerance}"


def problem(name, seed=0, **sizes):
    config, rng = CONFIGS[name], np.random.default_rng(seed)
    return random_params(config, rng), config, random_batch(config, rng, **sizes)


@pytest.mark.parametrize("name", CONFIGS)
def test_loss_and_every_gradient_are_those_of_the_model(name):
    params, config, batch = problem(name)
    wanted = model.loss_and_gradients(params, config, batch, label_smoothing=0.1)
    compare(fused.loss_and_gradients(params, config, batch, label_smoothing=0.1), wanted, 1e-12)


@pytest.mark.parametrize("name", CONFIGS)
def test_with_more_than_one_block_of_everything(name, monkeypatch):
    """Lengths that blocks do not divide: the last blocks are short."""
    monkeypatch.setattr(fused, "QUERIES", 8)
    monkeypatch.setattr(fused, "BLOCK", 100)
    params, config, batch = problem(name, B=5, T=27, S=18)
    wanted = model.loss_and_gradients(params, config, batch)
    compare(fused.loss_and_gradients(params, config, batch), wanted, 1e-12)


@pytest.mark.parametrize("name", CONFIGS)
def test_under_the_same_dropout_masks(name, monkeypatch):
    monkeypatch.setattr(fused, "QUERIES", 4)
    params, config, batch = problem(name)
    config = replace(config, p=0.3, dropout_sites=SITES)
    wanted = model.loss_and_gradients(params, config, batch, masks(1, 0.3), 0.1)
    compare(fused.loss_and_gradients(params, config, batch, masks(1, 0.3), 0.1), wanted, 1e-12)
    assert abs(wanted[0] - model.loss_and_gradients(params, config, batch, None, 0.1)[0]) > 1e-3


@pytest.mark.parametrize("site", SITES)
def test_masks_are_asked_for_as_the_model_asks(site):
    params, config, batch = problem("encoder-decoder, pre")
    config = replace(config, p=0.3, dropout_sites=(site,))
    asked = {model: [], fused: []}
    for step, shapes_asked in asked.items():

        def keep(shape, shapes_asked=shapes_asked):
            shapes_asked.append(shape)
            return np.ones(shape, bool)

        step.loss_and_gradients(params, config, batch, keep)
    assert asked[model] == asked[fused] and asked[fused]


@pytest.mark.parametrize("name", CONFIGS)
def test_float32_is_as_exact_as_the_model_in_float32(name):
    """To 1e-5; where the readable lines lose more than that by cancellation, to four times what they lose."""
    params, config, batch = problem(name, T=40, S=36)
    single = optree.tree_map(lambda leaf: leaf.astype(np.float32), params)
    exact = optree.tree_map(lambda leaf: leaf.astype(np.float64), single)
    wanted_loss, wanted = model.loss_and_gradients(exact, config, batch, None, 0.1)

    def worst(step):
        loss, grads = step.loss_and_gradients(single, config, batch, None, 0.1)
        assert {loss.dtype} | {leaf.dtype for leaf in optree.tree_leaves(grads)} == {np.dtype(np.float32)}
        assert abs(loss - wanted_loss) <= 1e-5 * wanted_loss
        return max(differences(optree.tree_map(lambda leaf: leaf.astype(np.float64), grads), wanted).values())

    assert worst(fused) <= max(1e-5, 4 * worst(model))


@pytest.mark.parametrize("name", ["Vaswani", "GPT-2", "BERT"])
def test_fifty_steps_of_adamw_coincide(name):
    (ours, config, _), rng = problem(name), np.random.default_rng(1)
    theirs, workspace = ours, fused.Workspace()
    our_state, their_state = optim.adamw_init(ours), optim.adamw_init(theirs)
    for step in range(50):
        batch, keep = random_batch(config, rng), masks(step, config.p)
        loss, grads = fused.loss_and_gradients(ours, config, batch, keep, 0.1, workspace)
        wanted_loss, wanted = model.loss_and_gradients(theirs, config, batch, masks(step, config.p), 0.1)
        assert abs(loss - wanted_loss) <= 1e-10 * wanted_loss, step
        for tree in (grads, wanted):  # db_K is 0, up to rounding; Adam would divide rounding by rounding
            for path, leaf in zip(optree.tree_paths(tree), optree.tree_leaves(tree), strict=True):
                if path[-1] == "b_K":
                    assert np.abs(leaf).max() < 1e-13
                    leaf[...] = 0
        ours, our_state = optim.adamw(ours, grads, our_state, 3e-3, weight_decay=0.1)
        theirs, their_state = optim.adamw(theirs, wanted, their_state, 3e-3, weight_decay=0.1)
    assert max(differences(ours, theirs).values()) <= 1e-8  # fifty steps multiply the rounding


def test_a_source_that_is_all_padding():
    params, config, batch = problem("Vaswani")
    batch["source"][1] = config.pad
    wanted = model.loss_and_gradients(params, config, batch)
    compare(fused.loss_and_gradients(params, config, batch), wanted, 1e-12)


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_the_number_of_workers_does_not_matter(workers):
    params, config, batch = problem("GPT-2, padded", B=5)
    wanted = model.loss_and_gradients(params, config, batch)
    workspace = fused.Workspace(workers)
    compare(fused.loss_and_gradients(params, config, batch, workspace=workspace), wanted, 1e-12)
    with pytest.raises(ValueError, match="workers: expected at least 1, got 0"):
        fused.Workspace(0)


@pytest.mark.parametrize("name", ["Vaswani", "GPT-2", "BERT"])
def test_nothing_of_one_step_reaches_the_next(name):
    """Gradients stay as they were returned; arguments stay as they were given; old memory is never read."""
    params, config, batch = problem(name)
    config = replace(config, p=0.2, dropout_sites=SITES)
    before = optree.tree_map(np.copy, params), {key: array.copy() for key, array in batch.items()}
    workspace = fused.Workspace()
    loss, grads = fused.loss_and_gradients(params, config, batch, masks(0, 0.2), 0.1, workspace)
    kept = optree.tree_map(np.copy, grads)
    for arena in workspace.arenas:  # the second step gets the memory that the first one asked for
        arena.reset()
        arena.memory[...] = 255  # no number, in float64
    again_loss, again = fused.loss_and_gradients(params, config, batch, masks(0, 0.2), 0.1, workspace)
    assert loss == again_loss and all(arena.memory.size >= arena.most > 0 for arena in workspace.arenas)
    assert optree.tree_all(optree.tree_map(np.array_equal, kept, grads))
    assert optree.tree_all(optree.tree_map(np.array_equal, kept, again))
    assert optree.tree_all(optree.tree_map(np.array_equal, before[0], params))
    assert all(np.array_equal(before[1][key], batch[key]) for key in batch)
    apart = [*optree.tree_leaves(grads), *optree.tree_leaves(again), *optree.tree_leaves(params)]
    apart += [arena.memory for arena in workspace.arenas]
    for i, one in enumerate(apart):
        assert not any(np.shares_memory(one, other) for other in apart[:i])
    other = {key: np.roll(array, 1, axis=1)[:3, :4] for key, array in batch.items()}  # smaller, other numbers
    wanted = model.loss_and_gradients(params, config, other, masks(2, 0.2))
    compare(fused.loss_and_gradients(params, config, other, masks(2, 0.2), 0.0, workspace), wanted, 1e-12)
    assert optree.tree_all(optree.tree_map(np.array_equal, kept, again))


# Wrong gradients: each replaces one piece, and the comparison above must refute it.


def scaled(factor, index=0):
    """The result of a backward, or one of its results, is multiplied."""

    def mutate(f):
        def wrong(*args, **kwargs):
            result = f(*args, **kwargs)
            if not isinstance(result, tuple):
                return factor * result
            return (*result[:index], factor * result[index], *result[index + 1 :])

        return wrong

    return mutate


def scaled_entry(name, factor=1.001):
    """One gradient among those of the parameters."""

    def mutate(f):
        def wrong(*args, **kwargs):
            dx, dparams = f(*args, **kwargs)
            return dx, {key: factor * d if key == name else d for key, d in dparams.items()}

        return wrong

    return mutate


def gamma_outside(f):
    """γ multiplies dx of LayerNorm instead of dy."""

    def wrong(dy, cache, arena):
        dx, _ = f(dy.copy(), cache | {"gamma": np.ones_like(cache["gamma"])}, arena)
        _, dparams = f(dy, cache, arena)
        dy[...] = cache["gamma"] * dx
        return dy, dparams

    return wrong


def no_row_sum(f):
    """dS = A ∘ dA: the softmax forgets that its rows sum to 1."""
    return lambda do, cache, *rest: f(do, cache | {"o": 0 * cache["o"]}, *rest)


def values_first_block_only(f):
    """What earlier blocks of queries give to the keys and values is lost."""
    return lambda do, cache, *rest: f(do, cache | {"parts": cache["parts"][-1:]}, *rest)


def last_wins(f):
    """A repeated token keeps one of its gradients: `=` in place of `+=`."""

    def wrong(index, values, rows):
        total = np.zeros((rows, values.shape[-1]), values.dtype)
        total[index.reshape(-1)] = values.reshape(-1, values.shape[-1])
        return total

    return wrong


def smoothing_forgotten(f):
    return lambda z, targets, weights, label_smoothing: f(z, targets, weights, 0.0)


def slope_of_relu(f):
    def wrong(x, slope, scratch):
        f(x, slope, scratch)
        np.greater(x, 0, out=slope)

    return wrong


def scale_forgotten(f):
    return lambda dy, x, cache, out: f(dy, x, cache | {"scales": np.ones_like(cache["scales"])}, out)


def memory_overwritten(f):
    """Each block overwrites what the later ones gave to the memory."""

    def wrong(dy, h, memory, dmemory, cache, arena):
        if dmemory is not None:
            dmemory[...] = 0
        return f(dy, h, memory, dmemory, cache, arena)

    return wrong


WRONG = {
    "γ outside the sums": ("normalize_backward", gamma_outside),
    "dγ a thousandth too large": ("normalize_backward", scaled_entry("gamma")),
    "dβ of the other sign": ("normalize_backward", scaled_entry("beta", -1)),
    "no row sum in the softmax": ("attention_backward", no_row_sum),
    "one block of queries only": ("attention_backward", values_first_block_only),
    "dW_Q without 1/√K": ("project_backward", scale_forgotten),
    "dW_V a thousandth too large": ("project_backward", scaled_entry("W_V")),
    "dW a thousandth too large": ("linear_backward", scaled(1.001, 1)),
    "db lost": ("linear_backward", lambda f: lambda *args: (*f(*args)[:2], np.zeros(args[2].shape[1]))),
    "a repeated token is overwritten": ("scatter_add", last_wins),
    "label smoothing forgotten": ("cross_entropy", smoothing_forgotten),
    "the slope of another activation": ("gelu_tanh", slope_of_relu),
    "dx of the feed-forward layer lost": ("feed_forward_backward", scaled(0)),
    "dx of attention twice": ("multi_head_backward", scaled(2)),
    "memory overwritten": ("multi_head_backward", memory_overwritten),
}


@pytest.mark.parametrize("norm", CHOICES["norm"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_gradients_are_refuted(name, norm, monkeypatch):
    monkeypatch.setattr(fused, "QUERIES", 4)
    config, rng = plain("encoder-decoder", norm, activation="gelu_tanh"), np.random.default_rng(0)
    params, batch = random_params(config, rng), random_batch(config, rng)
    wanted = model.loss_and_gradients(params, config, batch, label_smoothing=0.1)
    compare(fused.loss_and_gradients(params, config, batch, label_smoothing=0.1), wanted, 1e-11)
    piece, mutate = WRONG[name]
    wrong = mutate(getattr(fused, piece))
    monkeypatch.setattr(fused, piece, wrong)
    if piece in fused.ACTIVATIONS:
        monkeypatch.setitem(fused.ACTIVATIONS, piece, wrong)
    with pytest.raises(AssertionError):
        compare(fused.loss_and_gradients(params, config, batch, label_smoothing=0.1), wanted, 1e-5)


def test_bad_input_is_refused_as_the_model_refuses_it():
    params, config, batch = problem("decoder, pre")
    tokens, targets = batch["tokens"], batch["target_out"]
    cases = [
        ({"target_out": targets}, {}),
        ({"tokens": tokens}, {}),
        ({"tokens": tokens.astype(float), "target_out": targets}, {}),
        ({"tokens": tokens + config.V, "target_out": targets}, {}),
        ({"tokens": tokens, "target_out": targets[:, 1:]}, {}),
        ({"tokens": tokens[:0], "target_out": targets[:0]}, {}),
        ({"tokens": tokens, "target_out": targets + config.V}, {}),
        ({"tokens": tokens, "target_out": 0 * targets + config.pad}, {}),
        (batch, {"label_smoothing": 1.5}),
        (batch, {"keep": lambda shape: np.ones(shape[1:], bool)}),
    ]
    config = replace(config, p=0.1)
    for bad, options in cases:
        with pytest.raises((TypeError, ValueError)) as wanted:
            model.loss_and_gradients(params, config, bad, **options)
        with pytest.raises(type(wanted.value)) as got:
            fused.loss_and_gradients(params, config, bad, **options)
        assert str(got.value) == str(wanted.value)


@pytest.mark.parametrize(
    "changes",
    [{"H_kv": 1}, {"activation": "swiglu"}, {"normalization": "rms_norm"}, {"positions": "rotary"}],
)
def test_what_is_left_to_the_model_is_refused_by_name(changes):
    params, config, batch = problem("decoder, pre")
    (field,) = changes
    with pytest.raises(NotImplementedError, match=f"{field}: expected"):
        fused.loss_and_gradients(params, replace(config, **changes), batch)
