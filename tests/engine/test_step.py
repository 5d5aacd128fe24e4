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
from parameters import changed, draws, models, random_batch, random_params, sites_of

from handgrad import model
from handgrad.config import CHOICES
from handgrad.fast import step as fast_step
from handgrad.fast import torch_product
from handgrad.fast.memory import Arena, Workspace

CONFIGS = models(T_max=90, V=23, D=16, H=2, F=24, N=2)
BATCH = dict(B=4, T=7, S=6, blind=True)


def fast(params, config, batch, draw_keep=None, label_smoothing=0.0, workspace=None):
    """The step under test."""
    return fast_step.loss_and_gradients(params, config, batch, draw_keep, label_smoothing, workspace)


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


def test_arrays_that_cannot_receive_the_gradients_are_refused_before_anything_is_written():
    params, config, batch = problem("BERT")
    given = optree.tree_map(np.copy, params)
    out = optree.tree_map(lambda leaf: np.full_like(leaf, 7), params)
    gamma, row = ("encoder", 0, "feed_forward_norm", "gamma"), np.zeros(16)
    fixed = row.copy()
    fixed.flags.writeable = False
    bad = {
        "out: expected the keys of params": [{}, changed(out, gamma, None), changed(out, ("extra",), row)],
        r"out at .*'gamma'.*: expected shape \(16,\), got \(16, 1": [changed(out, gamma, row[:, None])],
        r"out at .*'gamma'.*: expected ndarray of float64, got (float|ndarray of float32|Tensor)": [
            changed(out, gamma, leaf) for leaf in (row.astype(np.float32), torch.zeros(16), 0.0)
        ],
        "out: expected arrays that can be written to": [changed(out, gamma, fixed)],
        "out: expected arrays with memory of their own": [
            params,
            *(changed(out, gamma, tree["embedding"]["E"][0]) for tree in (out, params)),
        ],
    }
    logits, cache = fast_step.forward(params, config, batch)
    workspace = Workspace()
    received = optree.tree_map(np.copy, out)
    fast_step.loss_and_gradients(params, config, batch, out=received, workspace=workspace)
    for message, trees in bad.items():
        for tree in trees:
            with pytest.raises((TypeError, ValueError), match=message):
                fast_step.loss_and_gradients(params, config, batch, out=tree, workspace=workspace)
            with pytest.raises((TypeError, ValueError), match=message):
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


def test_torchs_product_keeps_the_settings_of_torch():
    params, config, batch = problem("encoder-decoder, pre")
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
        product(sizes, ["Llama", "Vaswani", "BERT", "one table, another head"])
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
    config = replace(config, p=0.2, dropout_sites=sites_of(config))
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
