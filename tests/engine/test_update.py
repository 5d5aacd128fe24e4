"""The engine that trains in place: whose arrays it works on, and what it refuses."""

import dataclasses
import functools

import numpy as np
import optree
import pytest
from parameters import random_batch

from handgrad import fast, model, train
from handgrad.config import gpt2_small
from handgrad.fast import update

CONFIG = gpt2_small(V=13, D=8, H=2, F=12, N=2, T_max=7, p=0.0, pad=0)
RECIPE = train.Recipe(steps=20, batch_size=4, peak=1e-2, warmup=4, weight_decay=0.02)


def draw(rng, size):
    return random_batch(CONFIG, rng, B=size, T=7)


def batch_of(seed):
    return draw(np.random.default_rng(seed), RECIPE.batch_size)


def leaves(state):
    return optree.tree_leaves((state.params, state.moments))


def start(seed=0):
    return train.start(CONFIG, seed, np.float64)


def test_a_state_other_than_the_last_one_is_refused():
    """The engine would go on from its own arrays, and not look at those of the state."""
    first = start()
    advance = fast.engine(first, CONFIG, RECIPE)
    second = advance(first, batch_of(1), None)
    third = advance(second, batch_of(2), None)
    kept = [np.copy(leaf) for leaf in leaves(third)]
    copied = dataclasses.replace(third, params=optree.tree_map(np.copy, third.params))
    for state in (first, second, start(1), copied):
        message = f"state: expected the last of this engine, after update 2, got .* update {state.step}"
        with pytest.raises(ValueError, match=message):
            advance(state, batch_of(3), None)
    assert all(map(np.array_equal, leaves(third), kept))
    renamed = dataclasses.replace(third, rng=np.random.default_rng(9))  # the same arrays
    wanted = train.update(renamed, batch_of(3), CONFIG, RECIPE)
    fourth = advance(renamed, batch_of(3), None)
    assert fourth.rng is renamed.rng and len(fourth.losses) == 3
    np.testing.assert_allclose(fourth.losses, wanted.losses, rtol=1e-12)


def test_an_update_that_was_broken_off_is_not_taken_for_a_whole_one(monkeypatch):
    state = start()
    advance = fast.engine(state, CONFIG, RECIPE)
    state = advance(state, batch_of(1), None)

    def interrupted(*arrays):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(update.of_kind(np.float64), "adamw", interrupted)
        advance(state, batch_of(2), None)
    with pytest.raises(RuntimeError, match="state: expected all of update 2, but it was broken off half way"):
        advance(state, batch_of(2), None)


def test_an_update_that_was_refused_can_be_taken_again():
    """Neither a wrong batch nor a gradient that is not finite changes a number."""
    answers = []

    def gradients(*args, **options):
        loss, grads = model.loss_and_gradients(*args, **options)
        return loss, optree.tree_map(lambda g: g * answers.pop(), grads) if answers else grads

    state, seen = start(), batch_of(1)
    advance = fast.engine(state, CONFIG, RECIPE, gradients=gradients)
    with pytest.raises(ValueError, match="tokens"):
        advance(state, {"target_out": seen["target_out"]}, None)
    answers += [np.nan] * len(optree.tree_leaves(state.params))
    with pytest.raises(FloatingPointError, match="grads: expected finite numbers"):
        advance(state, seen, None)
    once = advance(state, seen, None)
    wanted = train.update(state, seen, CONFIG, RECIPE)
    assert once.step == 1
    for ours, theirs in zip(optree.tree_leaves(once.params), optree.tree_leaves(wanted.params), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_checkpoints_on_the_way_hold_what_the_training_had_reached(tmp_path, monkeypatch):
    """Although every state shares its arrays with the later ones."""
    save, reached = train.save, []

    def keep(path, state, config, recipe):
        save(path, state, config, recipe)
        reached.append(train.load(path, config, recipe))

    run = functools.partial(
        train.run, start(), draw, CONFIG, RECIPE, progress=False, engine=fast.engine, until=9
    )
    with monkeypatch.context() as patched:
        patched.setattr(train, "save", keep)
        whole = run(checkpoint=tmp_path / "c.npz", every=4)
    assert [state.step for state in reached] == [4, 8, 9]
    for state in reached:
        alone = run(until=state.step)
        assert all(map(np.array_equal, leaves(state), leaves(alone))) and state.losses == alone.losses
        resumed = train.run(state, draw, CONFIG, RECIPE, progress=False, engine=fast.engine, until=9)
        assert all(map(np.array_equal, leaves(resumed), leaves(whole)))
