"""The model and the fast step in cases of every kind, and wrong backwards that only some kind shows."""

import functools
import inspect
import random
import sys
from dataclasses import fields

import numpy as np
import optree
import pytest
import torch
from cases import CASES, FURTHER, INITIAL, ONE, TABLE, WAVES, config_of, problem, workspace_of

from handgrad import model, ops
from handgrad import twin as twins
from handgrad.config import Config
from handgrad.fast import step as fast_step
from handgrad.mistakes.mutations import Program
from handgrad.ops import GATED

torch.set_num_threads(1)  # the models here are tiny

# The table

EFFECT = {
    "S": lambda case: case["kind"] == "encoder-decoder",
    "shared": lambda case: case["kind"] == "encoder-decoder",
    "T_max": lambda case: case["positions"] == "learned",
    "rotary_base": lambda case: case["positions"] == "rotary",
    "feed_forward_biases": lambda case: case["activation"] not in GATED,
    "dropout_sites": lambda case: case["p"] > 0,
    "blind": lambda case: case["pad"] is not None,
    "told": lambda case: case["segments"] > 0,
}
"""Where a choice has an effect, if it has not everywhere."""


def any_case(draw):
    """A random case, or None if `Config` refuses it, or if all heads have their own keys by another name."""
    case = {
        name: draw.choice([value for value in values if value is not None or name not in EFFECT])
        for name, values in TABLE.items()
    }
    case |= {name: None for name, felt in EFFECT.items() if not felt(case)}
    try:
        config_of(case)
    except ValueError:
        return None
    return None if case["H_kv"] == case["H"] else case


def together(cases):
    """How many cases hold two choices: a matrix over all choices of the table."""
    choices = [(name, value) for name, values in TABLE.items() for value in values]
    held = np.array([[case[name] == value for name, value in choices] for case in cases], dtype=float)
    return held.T @ held


def test_every_field_of_config_is_drawn():
    names = {field.name for field in fields(Config)}
    assert names - set(TABLE) == INITIAL
    assert all(len(set(values)) == len(values) > 1 for values in TABLE.values())


def test_every_two_choices_that_may_stand_together_do_in_some_case():
    """They may if they do in any of many random cases; how those are made has nothing of how CASES are."""
    draw = random.Random(0)
    possible = together([case for case in (any_case(draw) for _ in range(40_000)) if case])
    assert np.array_equal(possible > 0, together(CASES.values()) > 0)


def test_without_any_one_case_two_choices_would_never_meet():
    for name in CASES:
        others = together([case for other, case in CASES.items() if other != name])
        assert not np.array_equal(others > 0, together(CASES.values()) > 0), name


# The gradients

NARROW = {
    "1,100 positions, turned": ONE | {"T": 300},
    "1,100 positions, waves": ONE | WAVES | {"T": 300},
    "an odd length": FURTHER["an odd length"] | {"T": 38},
    "faint rows": FURTHER["faint rows"] | {"eps": 1e-5},
    "padding at the left": FURTHER["padding at the left"] | {"blind": False},
}
"""Beside each of FURTHER a draw as they were before, which takes its fault for right."""
ALL = CASES | FURTHER

TOLERANCE = {"float64": 1e-12, "float32": 5e-5}
"""Of the largest entry of a gradient: 1e-16, or 6e-8, after thousands of additions. Besides there may be ten
roundings of the largest entry of all, since what is 0 by symmetry is a difference of such; and eight times
what torch's own float32 loses of this gradient, since where dA hardly differs from its mean all lose more."""


def case_of(name):
    return ALL[name] if name in ALL else NARROW[name.removesuffix(", narrow")]


@functools.cache
def oracle(name):
    """Loss and gradients of a case by the twin in float64, and what it loses in the precision of the case."""
    params, config, batch, new_draw, smoothing = problem(case_of(name))
    twin = twins.load(twins.Twin(config), params)
    loss, grads = twins.loss_and_gradients(twin, batch, new_draw(), smoothing)
    if case_of(name)["precision"] == "float32":
        twin.float()
    again = twins.loss_and_gradients(twin, batch, new_draw(), smoothing)[1]
    return loss, grads, optree.tree_map(lambda a, b: np.abs(a - b).max(), again, grads)


def by_the_fast_step(name):
    """On arrays of NumPy in every case."""
    params, config, batch, new_draw, smoothing = problem(case_of(name))
    workspace = workspace_of(case_of(name))
    return fast_step.loss_and_gradients(params, config, batch, new_draw(), smoothing, workspace)


def by_the_model(name):
    """Loss and gradients of a case, computed with arrays of its library, as NumPy arrays."""
    params, config, batch, new_draw, smoothing = problem(case_of(name))
    to, draw = torch.from_numpy if case_of(name)["library"] == "torch" else np.asarray, new_draw()
    draw_keep = draw and (lambda shape: to(draw(shape)))
    params, batch = (optree.tree_map(to, tree) for tree in (params, batch))
    loss, grads = model.loss_and_gradients(params, config, batch, draw_keep, smoothing)
    assert {type(leaf) for leaf in optree.tree_leaves(grads)} == {type(to(np.ones(1)))}
    return np.asarray(loss), optree.tree_map(np.asarray, grads)


def agree(name, loss, grads):
    """Assert that loss and gradients of a case are those of the twin, and of the case's precision."""
    wanted_loss, wanted, lost = oracle(name)
    precision = case_of(name)["precision"]
    tolerance, rounding = TOLERANCE[precision], np.finfo(precision).eps
    assert loss.dtype == precision
    assert abs(loss - wanted_loss) <= tolerance * (1 + wanted_loss)  # a small loss is a difference of logits
    assert optree.tree_structure(grads) == optree.tree_structure(wanted)
    largest = max(np.abs(leaf).max() for leaf in optree.tree_leaves(wanted))
    rows = zip(*map(optree.tree_leaves, (grads, wanted, lost)), strict=True)
    for path, (got, want, by_torch) in zip(optree.tree_paths(wanted), rows):
        assert got.shape == want.shape and got.dtype == precision, path
        allowed = tolerance * np.abs(want).max() + 10 * rounding * largest + 8 * by_torch
        assert np.abs(got - want).max() <= allowed, path  # written so that NaN fails


@pytest.mark.parametrize("engine", [by_the_model, by_the_fast_step])
@pytest.mark.parametrize("name", ALL)
def test_loss_and_every_gradient_are_those_of_the_twin(name, engine):
    agree(name, *engine(name))


# Wrong backwards, each of which is right in most cases: whose draws are all of one kind takes them for right


def edited(function, *changes, **names):
    """The function with other words in its source; names: what these use besides."""
    source = inspect.getsource(function)
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return Program(source, function.__globals__ | names).function()


def memory_of_two_blocks(f):
    """The third block that is asked, and those before it in the stack, give nothing to the memory."""

    def wrong(dy, h, cache, dparams, dmemory, step):
        if dmemory is None:
            return f(dy, h, cache, dparams, dmemory, step)
        step.asked = getattr(step, "asked", 0) + 1
        before = dmemory + 0
        dx = f(dy, h, cache, dparams, dmemory, step)
        if step.asked > 2:
            dmemory[...] = before
        return dx

    return wrong


def as_long_as(angles, S):
    """cos and sin (T, K/2) of a rotary turn for S positions, from the beginning again if S > T."""
    return tuple(array[[t % len(array) for t in range(S)]] for array in angles)


CROSS_TOO = ("else (memory, ())", "else (memory, step.angles)")
KEYS_TURN = ("turn(x, *angles)", "turn(x, *as_long_as(angles, len(x) // step.b))")
CROSS_TOO_BACK = ('if cache["angles"] else', "if step.angles else")
KEYS_TURN_BACK = ('cos, sin = cache["angles"]', "cos, sin = as_long_as(step.angles, len(x) // step.b)")


def row_101_lost(f):
    """Of more than 100 rows, one is missing in db_out: of `model` and of the fast step."""

    def of_model(dlogits, cache):
        dx, dE, grads = f(dlogits, cache)
        rows = dlogits.reshape(-1, dlogits.shape[-1])
        if len(rows) > 100 and "b_out" in grads.get("head", {}):
            grads["head"]["b_out"] = grads["head"]["b_out"] - rows[100]
        return dx, dE, grads

    def of_step(dlogits, cache, params, config, grads, arena):
        lost = dlogits[100] + 0 if len(dlogits) > 100 else 0
        dx = f(dlogits, cache, params, config, grads, arena)
        if config.head_bias:
            grads["head"]["b_out"] -= lost
        return dx

    return of_model if f is model.head_backward else of_step


multi_head = sys.modules["handgrad.ops.multi_head"]
attention = sys.modules["handgrad.ops.attention"]

WRONG = {
    "model: the memory's gradient of two blocks": lambda: {
        (model, "decode_backward"): edited(
            model.decode_backward,
            (
                "dmemory_n if dmemory is None else dmemory + dmemory_n",
                'dmemory_n if dmemory is None else dmemory + (n >= len(cache["blocks"]) - 2) * dmemory_n',
            ),
        )
    },
    "fast step: the memory's gradient of two blocks": lambda: {
        (fast_step, "multi_head_backward"): memory_of_two_blocks(fast_step.multi_head_backward)
    },
    "model: the final norm of three blocks is passed over": lambda: {
        (model, "encode_backward"): edited(
            model.encode_backward,
            (
                'dx, grads["encoder_norm"] = normalize_backward(dx, cache["normed"])',
                'over, (dx, grads["encoder_norm"]) = dx, normalize_backward(dx, cache["normed"])\n'
                '        dx = over if len(cache["blocks"]) > 2 else dx',
            ),
        )
    },
    "fast step: the final norm of three blocks is passed over": lambda: {
        (fast_step, "stack_backward"): edited(
            fast_step.stack_backward,
            (
                'normalize_backward(dx, cache["normed"], grads[f"{name}_norm"], arena)',
                "over = dx + 0\n"
                '        normalize_backward(dx, cache["normed"], grads[f"{name}_norm"], arena)\n'
                '        if name == "encoder" and len(cache["blocks"]) > 2: dx[...] = over',
            ),
        )
    },
    "model: dE of the segments is scaled too": lambda: {
        (model, "embed_backward"): edited(
            model.embed_backward,
            (
                'embedding_backward(dx, cache["segmented"])',
                'cache["looked_up"]["scale"] * embedding_backward(dx, cache["segmented"])',
            ),
        )
    },
    "fast step: dE of the segments is scaled too": lambda: {
        (fast_step, "embed_backward"): edited(
            fast_step.embed_backward,
            (
                'scatter_add(cache["segments"], dx,',
                'scatter_add(cache["segments"], dx * math.sqrt(config.D) ** config.scale_embedding,',
            ),
        )
    },
    "fast step: rotary positions turn the gradient of cross-attention": lambda: {
        (fast_step, "multi_head_backward"): edited(
            fast_step.multi_head_backward, CROSS_TOO_BACK, KEYS_TURN_BACK, as_long_as=as_long_as
        )
    },
    "fast step: rotary positions turn cross-attention, both ways": lambda: {
        (fast_step, "multi_head"): edited(fast_step.multi_head, CROSS_TOO, KEYS_TURN, as_long_as=as_long_as),
        (fast_step, "multi_head_backward"): edited(
            fast_step.multi_head_backward, CROSS_TOO_BACK, KEYS_TURN_BACK, as_long_as=as_long_as
        ),
    },
    "model: dS is halved where there is no mask": lambda: {
        (multi_head, "attention"): edited(
            attention.attention, ('"kept": kept}', '"kept": kept, "bare": mask is None}')
        ),
        (multi_head, "attention_backward"): edited(
            attention.attention_backward,
            (
                'softmax_backward(da, cache["normalised"])',
                'softmax_backward(da, cache["normalised"]) / (1 + cache["bare"])',
            ),
        ),
    },
    "fast step: dS is halved where there is no mask": lambda: {
        (fast_step, "attention"): edited(
            fast_step.attention,
            ('"start": start}', '"start": start, "bare": hidden is None and not causal}'),
        ),
        (fast_step, "attention_backward"): edited(
            fast_step.attention_backward,
            (
                "first = rows.stop",
                'ds *= 0.5 if cache["bare"] else 1\n            first = rows.stop',
            ),
        ),
    },
    "model: db_out lacks a row": lambda: {(model, "head_backward"): row_101_lost(model.head_backward)},
    "fast step: db_out lacks a row": lambda: {
        (fast_step, "head_backward"): row_101_lost(fast_step.head_backward)
    },
    "model: the row sum of the softmax has 64 keys": lambda: {
        (attention, "softmax_backward"): edited(
            attention.softmax_backward, ("xp.sum(a * da,", "xp.sum((a * da)[..., :64],")
        )
    },
    "fast step: the row sum of the softmax has 64 keys": lambda: {
        (fast_step, "attention_backward"): edited(
            fast_step.attention_backward,
            (
                "arena.loops.softmax_backward(ds.reshape(-1, end), a.reshape(-1, end),",
                "ds -= (ds * a)[..., :64].sum(-1, keepdims=True)\n            ds *= a\n            ds *= (",
            ),
        )
    },
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_in_few_cases_is_refuted_by_one_of_the_table(what, monkeypatch):
    engine = by_the_model if what.startswith("model") else by_the_fast_step
    for (module, name), function in WRONG[what]().items():
        monkeypatch.setattr(module, name, function)
    with pytest.raises(AssertionError):
        for name in CASES:
            agree(name, *engine(name))


# The same for draws that stand beside the table: right in its narrow form, refuted in its wide one


def steeper(f):
    """A norm whose ε is at least 1e-7 in float32."""

    def wrong(x, params, eps=1e-5, *more, **named):
        return f(x, params, max(eps, 1e-7) if str(x.dtype) == "float32" else eps, *more, **named)

    return wrong


def again_after_1024(f):
    return edited(f, ("np.arange(T)", "(np.arange(T) % 1024)"))


def seen_at_the_left(f):
    """Of padding at the left only the first token is hidden."""

    def wrong(tokens, pad):
        seen = f(tokens, pad)
        left = np.cumsum(seen, axis=-1) == 0
        left[..., 0] = False
        return seen | left

    return wrong


def hidden_less(tokens, pad):
    left = np.cumsum(tokens != pad, axis=-1) == 0
    left[..., 0] = False
    return (tokens == pad) & ~left


FURTHER_WRONG = {
    ("1,100 positions, turned", by_the_model): lambda: {
        (model, "rotary_angles"): again_after_1024(model.rotary_angles)
    },
    ("1,100 positions, turned", by_the_fast_step): lambda: {
        (fast_step, "rotary_angles"): again_after_1024(fast_step.rotary_angles)
    },
    ("1,100 positions, waves", by_the_model): lambda: {
        (model, "sinusoidal"): lambda T, D: np.resize(ops.sinusoidal(min(T, 1024), D), (T, D))
    },
    ("1,100 positions, waves", by_the_fast_step): lambda: {
        (fast_step, "sinusoidal"): lambda T, D: np.resize(ops.sinusoidal(min(T, 1024), D), (T, D))
    },
    ("an odd length", by_the_model): lambda: {
        (attention, "softmax_backward"): edited(
            attention.softmax_backward,
            ("xp.sum(a * da,", "xp.sum((a * da)[..., : a.shape[-1] // 2 * 2 if a.shape[-1] > 16 else None],"),
        )
    },
    ("an odd length", by_the_fast_step): lambda: {
        (fast_step, "embed_backward"): edited(
            fast_step.embed_backward,
            (
                'dtables["P"][:T] += dx.reshape(-1, T, config.D).sum(axis=0)',
                'dtables["P"][: T // 2 * 2] += dx.reshape(-1, T, config.D).sum(axis=0)[: T // 2 * 2]',
            ),
        )
    },
    ("faint rows", by_the_model): lambda: {(model, "normalize"): steeper(model.normalize)},
    ("faint rows", by_the_fast_step): lambda: {(fast_step, "normalize"): steeper(fast_step.normalize)},
    ("padding at the left", by_the_model): lambda: {
        (model, "padding_mask"): seen_at_the_left(model.padding_mask)
    },
    ("padding at the left", by_the_fast_step): lambda: {
        (fast_step, "stack"): edited(
            fast_step.stack,
            ("hidden = tokens == config.pad", "hidden = hidden_less(tokens, config.pad)"),
            hidden_less=hidden_less,
        )
    },
}


def test_each_further_case_has_a_fault_in_either_engine():
    assert {name for name, _ in FURTHER_WRONG} == set(FURTHER) == set(NARROW)
    assert len(FURTHER_WRONG) == 2 * len(FURTHER)


@pytest.mark.parametrize(("name", "engine"), FURTHER_WRONG)
def test_what_is_wrong_in_a_further_case_is_refuted_there_and_not_in_a_narrow_one(name, engine, monkeypatch):
    for (module, function), wrong in FURTHER_WRONG[name, engine]().items():
        monkeypatch.setattr(module, function, wrong)
    narrow = f"{name}, narrow"
    agree(narrow, *engine(narrow))
    with pytest.raises(AssertionError):
        agree(name, *engine(name))
