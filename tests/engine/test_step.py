"""The fast step against the readable model, which is the truth: equal losses, gradients and errors."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np
import optree
import pytest
import torch
from parameters import random_batch, random_params

from handgrad import model, optim
from handgrad.config import CHOICES, Config, bert_base, gpt2_small, llama_like, vaswani_base
from handgrad.fast import step as fast_step
from handgrad.fast import torch_product
from handgrad.fast.loops import of_kind
from handgrad.fast.memory import Arena, Workspace

TINY = dict(V=23, D=16, H=2, F=24, N=2)
SITES = ("embedding", "attention", "hidden", "sublayer")
BATCH = dict(B=4, T=7, S=6, blind=True)


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
    "LLaMA": llama_like(**TINY | dict(H=4, H_kv=2), pad=0),
    "rotary": plain("encoder", "pre", positions="rotary", activation="silu"),
    "shared keys": plain("encoder-decoder", "post", H_kv=1, normalization="rms_norm", activation="swiglu"),
}


def fast(params, config, batch, draw_keep=None, label_smoothing=0.0, workspace=None):
    """The step under test."""
    return fast_step.loss_and_gradients(params, config, batch, draw_keep, label_smoothing, workspace)


def draws(seed, p):
    """A `draw_keep` that draws the same again when it is made again."""
    rng = np.random.default_rng(seed)
    return lambda shape: rng.random(shape) >= p


def sites_of(config):
    """A gated layer has no dropout inside."""
    return tuple(site for site in SITES if not (config.gated and site == "hidden"))


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
    close(grads, wanted_grads, tolerance)


def close(grads, wanted, tolerance):
    for path, error in differences(grads, wanted).items():
        assert error <= tolerance, f"{path}: relative error {error:.1e}, more than {tolerance}"


def problem(name, seed=0, **sizes):
    config, rng = CONFIGS[name], np.random.default_rng(seed)
    return random_params(config, rng), config, random_batch(config, rng, **BATCH | sizes)


@pytest.mark.parametrize("name", CONFIGS)
def test_loss_and_every_gradient_are_those_of_the_model(name):
    params, config, batch = problem(name)
    wanted = model.loss_and_gradients(params, config, batch, label_smoothing=0.1)
    compare(fast(params, config, batch, label_smoothing=0.1), wanted, 1e-12)


@pytest.mark.parametrize("name", CONFIGS)
def test_forward_and_backward_are_those_of_the_model(name):
    """Whatever the upstream gradient: here it is random, and not the loss's."""
    params, config, batch = problem(name)
    logits, cache = model.forward(params, config, batch)
    dlogits = np.random.default_rng(2).normal(size=logits.shape)
    wanted = model.backward(dlogits, cache)
    got, cache = fast_step.forward(params, config, batch)
    kept = got.copy()
    assert kept.shape == logits.shape
    assert np.abs(kept - logits).max() <= 1e-12 * np.abs(logits).max()
    upstream = dlogits.copy()
    close(fast_step.backward(upstream, cache), wanted, 1e-12)
    assert np.array_equal(kept, got) and np.array_equal(dlogits, upstream)
    with pytest.raises(RuntimeError, match="cache: expected that of the workspace's last step"):
        fast_step.backward(upstream, cache)  # it was used up


def test_gradients_are_written_where_they_are_wanted():
    params, config, batch = problem("BERT")
    out = optree.tree_map(lambda leaf: np.full_like(leaf, np.nan), params)
    loss, grads = fast_step.loss_and_gradients(params, config, batch, out=out)
    assert all(a is b for a, b in zip(optree.tree_leaves(grads), optree.tree_leaves(out), strict=True))
    compare((loss, out), model.loss_and_gradients(params, config, batch), 1e-12)
    logits, cache = fast_step.forward(params, config, batch)
    dlogits = np.random.default_rng(2).normal(size=logits.shape)
    assert fast_step.backward(dlogits, cache, out) is out
    close(out, model.backward(dlogits, model.forward(params, config, batch)[1]), 1e-12)


def test_an_upstream_gradient_that_is_none_of_the_logits_is_refused():
    params, config, batch = problem("BERT", B=3)
    logits, cache = fast_step.forward(params, config, batch)
    for bad in (np.concatenate([logits, logits]), logits[:1], logits[0], logits[..., :1], logits.reshape(-1)):
        with pytest.raises(ValueError, match=r"dlogits: expected shape \(3, 7, 23\), got "):
            fast_step.backward(bad, cache)
    kinds = [logits.astype(np.float32), logits.astype(int), torch.from_numpy(logits), logits.tolist(), None]
    for bad in kinds:
        with pytest.raises(TypeError, match="dlogits: expected ndarray of float64, got "):
            fast_step.backward(bad, cache)
    wanted = model.backward(logits, model.forward(params, config, batch)[1])
    close(fast_step.backward(logits, cache), wanted, 1e-12)  # the cache was not used up


def changed(tree, path, leaf):
    """A copy of the tree with another leaf there, or without it if it is None."""
    first, *rest = path
    tree = list(tree) if isinstance(tree, list) else dict(tree)
    if rest:
        tree[first] = changed(tree[first], rest, leaf)
    elif leaf is None:
        del tree[first]
    else:
        tree[first] = leaf
    return tree


def test_arrays_that_cannot_receive_the_gradients_are_refused_before_anything_is_written():
    params, config, batch = problem("BERT")
    given = optree.tree_map(np.copy, params)
    out = optree.tree_map(lambda leaf: np.full_like(leaf, 7), params)
    gamma = ("encoder", 0, "feed_forward_norm", "gamma")
    fixed, row = np.zeros(16), np.zeros(16)
    fixed.flags.writeable = False
    bad = [
        ({}, ValueError, "out: expected the keys of params"),
        (changed(out, gamma, None), ValueError, "out: expected the keys of params, .*'gamma'"),
        (changed(out, ("extra",), row), ValueError, "out: expected the keys of params, .*extra"),
        (
            changed(out, gamma, row[:, None]),
            ValueError,
            r"out at .*'gamma'.*: expected shape \(16,\), got \(16, 1",
        ),
        (
            changed(out, gamma, row.astype(np.float32)),
            TypeError,
            "out at .*'gamma'.*: .*float64, .* of float32",
        ),
        (
            changed(out, gamma, torch.zeros(16)),
            TypeError,
            "out at .*'gamma'.*: expected ndarray .*got Tensor",
        ),
        (changed(out, gamma, 0.0), TypeError, "out at .*'gamma'.*: expected ndarray .*got float"),
        (changed(out, gamma, fixed), ValueError, "out: expected arrays that can be written to"),
        (
            changed(out, gamma, out["embedding"]["E"][0]),
            ValueError,
            "out: expected arrays with memory of their",
        ),
        (
            changed(out, gamma, params["embedding"]["E"][0]),
            ValueError,
            "out: expected arrays with memory of the",
        ),
        (params, ValueError, "out: expected arrays with memory of their own"),
    ]
    logits, cache = fast_step.forward(params, config, batch)
    workspace = Workspace()
    fast_step.loss_and_gradients(
        params, config, batch, out=optree.tree_map(np.copy, out), workspace=workspace
    )
    for tree, kind, message in bad:
        with pytest.raises(kind, match=message):
            fast_step.loss_and_gradients(params, config, batch, out=tree, workspace=workspace)
        with pytest.raises(kind, match=message):
            fast_step.backward(logits, cache, tree)
    assert optree.tree_all(optree.tree_map(np.array_equal, params, given))
    assert optree.tree_all(optree.tree_map(lambda leaf: bool((leaf == 7).all()), out))
    fast_step.backward(logits, cache, out)  # the cache was not used up


def test_arrays_that_received_gradients_are_looked_at_again_beside_other_parameters():
    """Or under other keys; and the workspace keeps none of them."""
    params, config, batch = problem("BERT")
    workspace, out = Workspace(), optree.tree_map(np.copy, params)
    for _ in range(2):
        fast_step.loss_and_gradients(params, config, batch, workspace=workspace, out=out)
    other = optree.tree_map(np.copy, params)
    other["embedding"]["E"] = out["embedding"]["E"]
    with pytest.raises(ValueError, match="out: expected arrays with memory of their own"):
        fast_step.loss_and_gradients(other, config, batch, workspace=workspace, out=out)
    renamed = {f"{name}s" if name == "head" else name: part for name, part in out.items()}
    with pytest.raises(ValueError, match="out: expected the keys of params, .*head"):
        fast_step.loss_and_gradients(params, config, batch, workspace=workspace, out=renamed)
    del out, other, renamed
    gc.collect()
    assert len(workspace.received) == 2 * len(optree.tree_leaves(params))
    assert sum(known() is None for known in workspace.received) == len(optree.tree_leaves(params))


@pytest.mark.parametrize("B", [1, 4])
def test_with_torchs_product(B):
    """Of the same arrays, and torch keeps its settings."""
    params, config, batch = problem("encoder-decoder, pre", B=B, blind=B > 1)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        got = fast(params, config, batch, workspace=Workspace(product=torch_product))
        assert torch.get_num_threads() == 2 and torch.is_grad_enabled()
    finally:
        torch.set_num_threads(threads)
    compare(got, model.loss_and_gradients(params, config, batch), 1e-12)


@pytest.mark.parametrize("name", ["target_out", "tokens"])
def test_a_batch_of_torch_costs_no_digit(name):
    """A quotient of torch's Booleans is float32: the loss was wrong by 2e-8."""
    params, config, batch = problem("GPT-2")
    given = batch | {name: torch.from_numpy(batch[name])}
    wanted, got = model.loss_and_gradients(params, config, batch), fast(params, config, given)
    assert abs(got[0] / wanted[0] - 1) < 1e-14
    close(got[1], wanted[1], 1e-12)


def test_parameters_with_gaps_are_as_good():
    params, config, batch = problem("GPT-2")
    gaps = optree.tree_map(lambda p: np.repeat(p, 2, axis=-1)[..., ::2], params)
    wanted, got = fast(params, config, batch), fast(gaps, config, batch)
    assert got[0] == wanted[0]
    close(got[1], wanted[1], 1e-15)


def test_parameters_that_are_no_arrays_of_numpy_are_refused():
    params, config, batch = problem("decoder, pre")
    half = optree.tree_map(lambda leaf: leaf.astype(np.float16), params)
    for bad, got in ((optree.tree_map(torch.from_numpy, params), "Tensor of"), (half, "ndarray of float16")):
        with pytest.raises(TypeError, match=f"params: expected arrays of NumPy, of .*, got {got}"):
            fast_step.loss_and_gradients(bad, config, batch)
        with pytest.raises(TypeError, match=f"params: expected arrays of NumPy, of .*, got {got}"):
            fast_step.forward(bad, config, batch)


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_lone_sequence_is_shared_by_heads_and_rows(name, workers, monkeypatch):
    """Each layer's attention, twice, is shared; and nothing is left in the idle worker's memory."""
    params, config, batch = problem(name, B=1, T=27, S=18, blind=False)
    config = replace(config, p=0.3, dropout_sites=sites_of(config))
    workspace, shared, each = Workspace(workers, queries=8), [], Arena.each
    monkeypatch.setattr(Arena, "each", lambda self, jobs, f: shared.append(len(jobs)) or each(self, jobs, f))
    wanted = model.loss_and_gradients(params, config, batch, draws(1, 0.3), 0.1)
    compare(fast(params, config, batch, draws(1, 0.3), 0.1, workspace), wanted, 1e-12)
    assert shared.count(2) >= 2 * config.N or config.H_kv == 1
    assert workspace.arenas[1].used == 0


@pytest.mark.parametrize("kept", [1, 300])
@pytest.mark.parametrize("name", CONFIGS)
def test_with_attention_weights_computed_again(name, kept, monkeypatch):
    """All of them, or those of the later blocks."""
    params, config, batch = problem(name, T=27, S=18)
    config, computed = replace(config, p=0.3, dropout_sites=sites_of(config)), []
    weights = fast_step.weights
    monkeypatch.setattr(fast_step, "weights", lambda *args: computed.append(1) or weights(*args))
    wanted = model.loss_and_gradients(params, config, batch, draws(1, 0.3), 0.1)
    compare(fast(params, config, batch, draws(1, 0.3), 0.1, Workspace(1, queries=8)), wanted, 1e-12)
    once = len(computed)
    workspace = Workspace(1, queries=8, kept=kept)
    compare(fast(params, config, batch, draws(1, 0.3), 0.1, workspace), wanted, 1e-12)
    assert once < len(computed) - once <= 2 * once


@pytest.mark.parametrize("name", CONFIGS)
def test_with_more_than_one_block_of_everything(name):
    """Lengths that blocks do not divide: the last blocks are short. And each sequence by itself."""
    params, config, batch = problem(name, B=5, T=27, S=18)
    wanted = model.loss_and_gradients(params, config, batch)
    compare(fast(params, config, batch, workspace=Workspace(queries=8)), wanted, 1e-12)
    dropping = replace(config, p=0.3, dropout_sites=sites_of(config))
    wanted = model.loss_and_gradients(params, dropping, batch, draws(1, 0.3))
    compare(fast(params, dropping, batch, draws(1, 0.3), workspace=Workspace(at_once=1)), wanted, 1e-12)


@pytest.mark.parametrize("name", CONFIGS)
def test_under_the_same_dropout(name):
    params, config, batch = problem(name)
    config = replace(config, p=0.3, dropout_sites=sites_of(config))
    wanted = model.loss_and_gradients(params, config, batch, draws(1, 0.3), 0.1)
    compare(fast(params, config, batch, draws(1, 0.3), 0.1, Workspace(queries=4)), wanted, 1e-12)
    assert abs(wanted[0] - model.loss_and_gradients(params, config, batch, None, 0.1)[0]) > 1e-3


@pytest.mark.parametrize(
    ("name", "site"),
    [*product(["encoder-decoder, pre"], SITES), *product(["LLaMA"], sites_of(CONFIGS["LLaMA"]))],
)
def test_dropout_is_asked_for_as_the_model_asks(name, site):
    params, config, batch = problem(name)
    config = replace(config, p=0.3, dropout_sites=(site,))
    asked = {model: [], fast_step: []}
    for step, shapes_asked in asked.items():

        def draw_keep(shape, shapes_asked=shapes_asked):
            shapes_asked.append(shape)
            return np.ones(shape, bool)

        step.loss_and_gradients(params, config, batch, draw_keep)
    assert asked[model] == asked[fast_step]
    assert asked[fast_step]


@pytest.mark.parametrize("name", CONFIGS)
def test_float32_is_as_exact_as_the_model_in_float32(name):
    """To 1e-5; where the readable lines lose more than that by cancellation, to twice what they lose.

    One draw of roundings is compared with another, so it is the median over nine problems that counts.
    """
    errors = {fast: [], model.loss_and_gradients: []}
    for seed in range(9):
        params, config, batch = problem(name, seed, T=40, S=36)
        single = optree.tree_map(lambda leaf: leaf.astype(np.float32), params)
        exact = optree.tree_map(lambda leaf: leaf.astype(np.float64), single)
        wanted_loss, wanted = model.loss_and_gradients(exact, config, batch, None, 0.1)
        for step, worst in errors.items():
            loss, grads = step(single, config, batch, None, 0.1)
            assert {loss.dtype} | {leaf.dtype for leaf in optree.tree_leaves(grads)} == {np.dtype(np.float32)}
            assert abs(loss - wanted_loss) <= 1e-5 * wanted_loss
            grads = optree.tree_map(lambda leaf: leaf.astype(np.float64), grads)
            worst.append(max(differences(grads, wanted).values()))
    assert np.median(errors[fast]) <= max(1e-5, 2 * np.median(errors[model.loss_and_gradients]))


@pytest.mark.parametrize("name", ["Vaswani", "GPT-2", "BERT", "LLaMA"])
def test_fifty_steps_of_adamw_coincide(name):
    (ours, config, _), rng = problem(name), np.random.default_rng(1)
    theirs, workspace = ours, Workspace()
    our_state, their_state = optim.adamw_init(ours), optim.adamw_init(theirs)
    for step in range(50):
        batch, draw_keep = random_batch(config, rng, **BATCH), draws(step, config.p)
        loss, grads = fast(ours, config, batch, draw_keep, 0.1, workspace)
        wanted_loss, wanted = model.loss_and_gradients(theirs, config, batch, draws(step, config.p), 0.1)
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
    compare(fast(params, config, batch), wanted, 1e-12)


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_the_number_of_workers_does_not_matter(workers):
    params, config, batch = problem("GPT-2, padded", B=5)
    wanted = model.loss_and_gradients(params, config, batch)
    compare(fast(params, config, batch, workspace=Workspace(workers)), wanted, 1e-12)


def test_one_workspace_serves_any_kind_of_array():
    params, config, batch = problem("decoder, pre")
    single = optree.tree_map(lambda leaf: leaf.astype(np.float32), params)
    workspace = Workspace()
    for given in (single, params, single):
        used = fast_step.loss_and_gradients(given, config, batch, workspace=workspace)
        loss, grads = fast_step.loss_and_gradients(given, config, batch, workspace=Workspace())
        assert loss.dtype == given["embedding"]["E"].dtype and used[0] == loss
        assert optree.tree_all(optree.tree_map(np.array_equal, used[1], grads))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_workspace_in_use_is_refused_to_a_second_thread(workers):
    """Two steps would share its memory. The first goes on, and afterwards the second may have it."""
    waiting, go = threading.Event(), threading.Event()

    class Slow(Workspace):
        def map(self, f, jobs):
            waiting.set()
            assert go.wait(30)
            return super().map(f, jobs)

    params, config, batch = problem("Vaswani")
    workspace, wanted = Slow(workers), model.loss_and_gradients(params, config, batch)
    logits, cache = fast_step.forward(params, config, batch)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(fast_step.loss_and_gradients, params, config, batch, workspace=workspace)
        assert waiting.wait(30)
        try:
            for step in (fast_step.loss_and_gradients, fast_step.forward):
                with pytest.raises(RuntimeError, match="workspace: expected one step at a time, got another"):
                    step(params, config, batch, workspace=workspace)
            with pytest.raises(RuntimeError, match="workspace: expected one step at a time, got another"):
                fast_step.backward(logits, cache | {"workspace": workspace})
        finally:
            go.set()
        compare(first.result(timeout=30), wanted, 1e-12)
    compare(fast_step.loss_and_gradients(params, config, batch, workspace=workspace), wanted, 1e-12)


def test_a_forward_in_one_thread_and_its_backward_in_another():
    params, config, batch = problem("encoder-decoder, pre")
    logits, cache = model.forward(params, config, batch)
    dlogits = np.random.default_rng(2).normal(size=logits.shape)
    wanted = model.backward(dlogits, cache)
    with ThreadPoolExecutor(1) as thread:
        _, cache = thread.submit(fast_step.forward, params, config, batch).result(timeout=30)
    close(fast_step.backward(dlogits, cache), wanted, 1e-12)


def test_a_backward_after_another_forward_is_refused():
    params, config, batch = problem("GPT-2")
    workspace = Workspace()
    logits, first = fast_step.forward(params, config, batch, workspace=workspace)
    again, second = fast_step.forward(params, config, batch, workspace=workspace)
    with pytest.raises(RuntimeError, match="cache: expected that of the workspace's last step"):
        fast_step.backward(logits, first)
    wanted = model.backward(logits, model.forward(params, config, batch)[1])
    close(fast_step.backward(again, second), wanted, 1e-12)  # the refusal took nothing away from it


def test_one_workspace_serves_one_model_after_another():
    """In both precisions, batches of one sequence among them, with more workers than sequences."""
    workspace, sizes = Workspace(3), [dict(B=1, T=5, S=9), BATCH, dict(B=2, T=9, S=5)]
    for number, (size, name) in enumerate(
        product(sizes, ["LLaMA", "Vaswani", "BERT", "one table, another head"])
    ):
        params, config, batch = problem(name, seed=number, **size | {"blind": False})
        wanted = model.loss_and_gradients(params, config, batch)
        compare(fast(params, config, batch, workspace=workspace), wanted, 1e-12)
        single = optree.tree_map(lambda leaf: leaf.astype(np.float32), params)
        loss, grads = fast(single, config, batch, workspace=workspace)
        alone = fast(single, config, batch, workspace=Workspace(3))
        assert loss == alone[0] and optree.tree_all(optree.tree_map(np.array_equal, grads, alone[1]))


@pytest.mark.parametrize("step", [fast_step.forward, fast_step.loss_and_gradients])
def test_after_an_error_inside_of_a_step_the_workspace_serves_the_next(step, monkeypatch):
    params, config, batch = problem("decoder, pre")
    workspace, wanted = Workspace(), model.loss_and_gradients(params, config, batch)
    with monkeypatch.context() as patched, pytest.raises(FloatingPointError):
        patched.setattr(fast_step, "head", lambda *args: 1 / np.float64(0))
        with np.errstate(divide="raise"):
            step(params, config, batch, workspace=workspace)
    compare(fast_step.loss_and_gradients(params, config, batch, workspace=workspace), wanted, 1e-12)


@pytest.mark.parametrize("name", ["Vaswani", "GPT-2", "BERT"])
def test_nothing_of_one_step_reaches_the_next(name):
    """Gradients stay as they were returned; arguments stay as they were given; old memory is never read."""
    params, config, batch = problem(name)
    config = replace(config, p=0.2, dropout_sites=SITES)
    before = optree.tree_map(np.copy, params), {key: array.copy() for key, array in batch.items()}
    workspace = Workspace()
    loss, grads = fast_step.loss_and_gradients(params, config, batch, draws(0, 0.2), 0.1, workspace)
    kept = optree.tree_map(np.copy, grads)
    memory = [chunk for arena in workspace.arenas for _, chunk in arena.chunks]
    for chunk in memory:
        chunk[...] = np.nan
    again_loss, again = fast_step.loss_and_gradients(params, config, batch, draws(0, 0.2), 0.1, workspace)
    assert loss == again_loss and all(arena.chunks for arena in workspace.arenas)
    assert sum(len(arena.chunks) for arena in workspace.arenas) == len(memory)  # no step asks for more
    assert optree.tree_all(optree.tree_map(np.array_equal, kept, grads))
    assert optree.tree_all(optree.tree_map(np.array_equal, kept, again))
    assert optree.tree_all(optree.tree_map(np.array_equal, before[0], params))
    assert all(np.array_equal(before[1][key], batch[key]) for key in batch)
    apart = [*optree.tree_leaves(grads), *optree.tree_leaves(again), *optree.tree_leaves(params)]
    apart += memory
    for i, one in enumerate(apart):
        assert not any(np.shares_memory(one, other) for other in apart[:i])
    other = {key: np.roll(array, 1, axis=1)[:3, :4] for key, array in batch.items()}  # smaller, other numbers
    wanted = model.loss_and_gradients(params, config, other, draws(2, 0.2))
    compare(fast_step.loss_and_gradients(params, config, other, draws(2, 0.2), 0.0, workspace), wanted, 1e-12)
    assert optree.tree_all(optree.tree_map(np.array_equal, kept, again))


def numbers_in_use(name, workspace, between=lambda arena: None):
    """The most numbers that an arena had in use in a forward and a backward, and those in use after each."""
    params, config, batch = problem(name, T=32, S=32)
    logits, cache = fast_step.forward(params, config, batch, workspace=workspace)
    (arena,) = workspace.arenas
    after_forward = arena.used
    between(arena)
    fast_step.backward(logits, cache)
    return max(end for _, end in arena.placed.values()), after_forward, arena.used


@pytest.mark.parametrize("name", CONFIGS)
def test_the_backward_gives_back_what_the_forward_was_handed(name):
    """All of it, but the gradient of the memory, which both stacks share."""
    _, _, left = numbers_in_use(name, Workspace(1))
    sources = CONFIGS[name].kind == "encoder-decoder" and 4 * 32  # sequences of 32 tokens
    assert left == sources * CONFIGS[name].D


@pytest.mark.parametrize("kind", CHOICES["kind"])
def test_a_pre_norm_backward_takes_its_scratch_from_what_it_gives_back(kind):
    """In the end there is room below for all of it; without the giving back, it would lie on top."""
    most, after_forward, _ = numbers_in_use(f"{kind}, pre", Workspace(1))
    post_most, post_after_forward, _ = numbers_in_use(f"{kind}, post", Workspace(1))
    assert most - after_forward < post_most - post_after_forward


@pytest.mark.parametrize("name", ["encoder-decoder, pre", "decoder, post", "BERT"])
def test_what_was_handed_out_since_is_not_given_back(name):
    with pytest.raises(RuntimeError, match="end: expected the end of what is in use"):
        numbers_in_use(name, Workspace(1), between=lambda arena: arena.empty(1))


# Wrong gradients: each replaces one piece, and the comparison above must refute it.


def result_times(factor):
    """What a backward returns is multiplied."""
    return lambda f: lambda *args, **kwargs: factor * f(*args, **kwargs)


def entry_times(name, factor=1.001):
    """What a backward adds to one gradient is multiplied."""

    def mutate(f):
        def wrong(*args, **named):
            trees = [tree for tree in (*args, *named.values()) if isinstance(tree, dict)]
            trees = [tree for tree in trees if isinstance(tree.get(name), np.ndarray)]
            trees = [tree for tree in trees if "x_hat" not in tree]  # not a cache
            for tree in trees:
                tree[name][...] = 0  # what is written first needs no zeros; here it is given once
            result = f(*args, **named)
            for tree in trees:
                tree[name] *= factor
            return result

        return wrong

    return mutate


def gamma_outside(f):
    """γ multiplies dx of the norm instead of dy."""

    def wrong(dy, x_hat, inverse_std, gamma, dgamma, dbeta, dx, add):
        own, unused = dy.copy(), [None if d is None else d.copy() for d in (dgamma, dbeta)]
        f(own, x_hat, inverse_std, np.ones_like(gamma), *unused, own, False)
        f(dy.copy(), x_hat, inverse_std, gamma, dgamma, dbeta, dy.copy(), False)
        dx[...] = gamma * own + (dx if add else 0)

    return wrong


def no_mean(f):
    """The mean is taken to be a constant."""

    def wrong(dy, x_hat, inverse_std, gamma, dgamma, dbeta, dx, add):
        f(dy.copy(), x_hat, inverse_std, gamma, dgamma, dbeta, dy.copy(), False)
        f(dy, x_hat, inverse_std, gamma, np.zeros_like(gamma), None, dx, add)

    return wrong


def no_variance(f):
    """The variance is taken to be a constant."""

    def wrong(dy, x_hat, inverse_std, gamma, dgamma, dbeta, dx, add):
        f(dy.copy(), x_hat, inverse_std, gamma, dgamma, dbeta, dy.copy(), False)
        f(dy, 0 * x_hat, inverse_std, gamma, np.zeros_like(gamma), np.zeros_like(gamma), dx, add)

    return wrong


def no_row_sum(f):
    """dS = A ∘ dA: the softmax forgets that its rows sum to 1."""

    def wrong(da, a, scale):
        da *= scale * a

    return wrong


def last_block_only(f):
    """What earlier blocks of queries give to the keys and values is lost."""

    def wrong(dy, cache, *others):
        cache["q"][...] = 0
        f(dy, cache | {"parts": cache["parts"][-1:]}, *others)

    return wrong


def last_wins(f):
    """A repeated token keeps one of its gradients: `=` in place of `+=`."""

    def wrong(index, values, table):
        table[index] = values

    return wrong


def smoothing_forgotten(f):
    return lambda z, targets, weights, smoothing: f(z, targets, weights, 0.0)


def slope_of_relu(pair):
    """φ' is 1 where x > 0."""

    def wrong(h, da, up, keep, scale):
        slope = h > 0
        pair[1](h, da.copy(), up, keep, scale)
        da *= slope

    return pair[0], wrong


def scale_forgotten(f):
    return lambda da, a, scale: f(da, a, 1.0)


def memory_overwritten(f):
    """Each block overwrites what the later ones gave to the memory."""

    def wrong(dy, h, cache, dparams, dmemory, step):
        if dmemory is not None:
            dmemory[...] = 0
        return f(dy, h, cache, dparams, dmemory, step)

    return wrong


def same_turn(f):
    """Rotary positions: the gradient is turned as the input was, not back."""
    return lambda x, cos, sin: f(x, cos, abs(sin))


def linear_with(dW_factor=1.0, db_factor=1.0):
    def mutate(f):
        def wrong(dy, x, dW, db, arena):
            own = np.zeros_like(dW), None if db is None else np.zeros_like(db)
            f(dy, x, *own, arena)
            dW[...] = dW_factor * own[0]  # nothing is there yet: it may be any numbers
            if db is not None:
                db += db_factor * own[1]

        return wrong

    return mutate


WRONG = {
    "γ outside the sums": ("normalize_backward", gamma_outside),
    "dγ a thousandth too large": ("step.normalize_backward", entry_times("gamma")),
    "dβ of the other sign": ("step.normalize_backward", entry_times("beta", -1)),
    "the mean a constant": ("normalize_backward", no_mean),
    "the variance a constant": ("normalize_backward", no_variance),
    "no row sum in the softmax": ("softmax_backward", no_row_sum),
    "one block of queries only": ("attention_backward", last_block_only),
    "dS without 1/√K": ("softmax_backward", scale_forgotten),
    "dW_V a thousandth too large": ("multi_head_backward", entry_times("W_V")),
    "dW a thousandth too large": ("linear_backward", linear_with(dW_factor=1.001)),
    "db lost": ("linear_backward", linear_with(db_factor=0)),
    "a repeated token is overwritten": ("scatter_add", last_wins),
    "label smoothing forgotten": ("cross_entropy", smoothing_forgotten),
    "the slope of another activation": ("gelu_tanh", slope_of_relu),
    "dx of the feed-forward layer lost": ("feed_forward_backward", result_times(0)),
    "dx of attention twice": ("multi_head_backward", result_times(2)),
    "memory overwritten": ("multi_head_backward", memory_overwritten),
}
WRONG_TOO = {
    "turned twice instead of back": ("turn", same_turn),
    "γ of RMSNorm outside the sums": ("normalize_backward", gamma_outside),
    "dW_gate a thousandth too large": ("feed_forward_backward", entry_times("W_gate")),
    "dW_up a thousandth too large": ("feed_forward_backward", entry_times("W_up")),
    "dW_K a thousandth too large": ("multi_head_backward", entry_times("W_K")),
}


def refuted(config, piece, mutate, monkeypatch):
    """Assert that the right gradients pass, and that with one piece mutated they do not."""
    rng, workspace = np.random.default_rng(0), Workspace(queries=4)
    params, batch = random_params(config, rng), random_batch(config, rng, **BATCH)
    wanted = model.loss_and_gradients(params, config, batch, label_smoothing=0.1)
    compare(fast_step.loss_and_gradients(params, config, batch, None, 0.1, workspace), wanted, 1e-11)
    loops = of_kind(np.float64)
    if piece in loops.activations:
        monkeypatch.setitem(loops.activations, piece, mutate(loops.activations[piece]))
    else:
        owner = fast_step if piece.startswith("step.") or not hasattr(loops, piece) else loops
        piece = piece.removeprefix("step.")
        monkeypatch.setattr(owner, piece, mutate(getattr(owner, piece)))
    with pytest.raises(AssertionError):
        compare(fast_step.loss_and_gradients(params, config, batch, None, 0.1, workspace), wanted, 1e-5)


@pytest.mark.parametrize("norm", CHOICES["norm"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_gradients_are_refuted(name, norm, monkeypatch):
    refuted(plain("encoder-decoder", norm, activation="gelu_tanh"), *WRONG[name], monkeypatch)


@pytest.mark.parametrize("name", WRONG_TOO)
def test_wrong_gradients_of_the_newer_parts_are_refuted(name, monkeypatch):
    refuted(CONFIGS["LLaMA"], *WRONG_TOO[name], monkeypatch)


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
        (batch, {"label_smoothing": np.float32(1.5)}),
        (batch, {"label_smoothing": np.ones(2)}),
        (batch, {"draw_keep": lambda shape: np.ones(shape[1:], bool)}),
        (batch, {"draw_keep": lambda shape: 255 * np.ones(shape, np.uint8)}),
        (batch, {"draw_keep": lambda shape: np.ones(shape)}),
        (batch, {"draw_keep": lambda shape: [True]}),
        (batch | {"segment": tokens}, {}),
        (batch | {"tokens": tokens.tolist()}, {}),
        (batch | {"target_out": targets / 1}, {}),
    ]
    config = replace(config, p=0.1)
    for bad, options in cases:
        with pytest.raises((TypeError, ValueError)) as wanted:
            model.loss_and_gradients(params, config, bad, **options)
        with pytest.raises(type(wanted.value)) as got:
            fast_step.loss_and_gradients(params, config, bad, **options)
        assert str(got.value) == str(wanted.value)
