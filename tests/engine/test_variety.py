"""The model and the fast step in cases of every kind, and wrong backwards that only some kind shows."""

import functools
import random
from contextlib import ExitStack
from dataclasses import fields

import numpy as np
import optree
import pytest
import torch
from cases import CASES, FURTHER, INITIAL, ONE, TABLE, WAVES, config_of, problem, workspace_of

from handgrad import blocks, mistakes, model, ops
from handgrad import twin as twins
from handgrad.config import Config
from handgrad.fast import step as fast_step
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

NORMED, NORM_OF = 'normalize_backward(dx, cache["normed"]', 'grads[f"{name}_norm"], arena)'
LOOP = 'reversed(list({}zip(cache["blocks"], grads[name]){}))'
AGAIN = "(np.resize(x_, (len(x) // step.b, x_.shape[1])) for x_ in {})"  # from the beginning again if S > T
TURNED_TOO = (
    fast_step.multi_head,
    "else (memory, ()) → else (memory, step.angles)",
    f"turn(x, *angles) → turn(x, *{AGAIN.format('angles')})",
)
TURNED_BACK_TOO = (
    fast_step.multi_head_backward,
    'if cache["angles"] else → if step.angles else',
    f'cos, sin = cache["angles"] → cos, sin = {AGAIN.format("step.angles")}',
)
BARE = "hidden is None and not causal"
WRONG = {  # (what, engine): pairs of a function and changes of its source
    ("the memory's gradient of two blocks", by_the_model): [
        (model.decode_backward, 'dmemory + dmemory_n → dmemory + (n >= len(cache["blocks"]) - 2) * dmemory_n')
    ],
    ("the memory's gradient of two blocks", by_the_fast_step): [
        (
            fast_step.stack_backward,
            f"for block, of_block in {LOOP.format('', '')}: → "
            f"for n, (block, of_block) in {LOOP.format('enumerate(', ')')}:\n"
            "    before = None if step.dmemory is None else step.dmemory + 0",
            "dx = sublayer_backward(dx, of_part, of_block, step) → "
            "dx = sublayer_backward(dx, of_part, of_block, step)\n"
            'if before is not None and n < len(cache["blocks"]) - 2: step.dmemory[...] = before',
        )
    ],
    ("the final norm of three blocks is passed over", by_the_model): [
        (
            model.encode_backward,
            f'dx, grads["encoder_norm"] = {NORMED}) → over, (dx, grads["encoder_norm"]) = dx, {NORMED})\n'
            'dx = over if len(cache["blocks"]) > 2 else dx',
        )
    ],
    ("the final norm of three blocks is passed over", by_the_fast_step): [
        (
            fast_step.stack_backward,
            f"{NORMED}, {NORM_OF} → over = dx + 0\n{NORMED}, {NORM_OF}\n"
            'if name == "encoder" and len(cache["blocks"]) > 2: dx[...] = over',
        )
    ],
    ("dE of the segments is scaled too", by_the_model): [
        (model.embed_backward, '"E_segment"] = → "E_segment"] = cache["looked_up"]["scale"] *')
    ],
    ("dE of the segments is scaled too", by_the_fast_step): [
        (
            fast_step.embed_backward,
            'cache["segments"], dx → cache["segments"], dx * math.sqrt(config.D) ** config.scale_embedding',
        )
    ],
    ("rotary positions turn the gradient of cross-attention", by_the_fast_step): [TURNED_BACK_TOO],
    ("rotary positions turn cross-attention, both ways", by_the_fast_step): [TURNED_TOO, TURNED_BACK_TOO],
    ("dS is halved where there is no mask", by_the_model): [
        (ops.attention, '"kept": kept} → "kept": kept, "bare": mask is None}'),
        (ops.attention_backward, 'cache["normalised"]) → cache["normalised"]) / (1 + cache["bare"])'),
    ],
    ("dS is halved where there is no mask", by_the_fast_step): [
        (fast_step.attention, f'"start": start}} → "start": start, "bare": {BARE}}}'),
        (
            fast_step.attention_backward,
            'first = rows.stop → ds *= 0.5 if cache["bare"] else 1\nfirst = rows.stop',
        ),
    ],
    ("db_out lacks a row", by_the_model): [
        (
            model.head_backward,
            'grads["head"] = → rows = dlogits.reshape((-1, dlogits.shape[-1]))\n'
            'if own["b_out"] is not None and len(rows) > 100: own["b_out"] = own["b_out"] - rows[100]\n'
            'grads["head"] =',
        )
    ],
    ("db_out lacks a row", by_the_fast_step): [
        (
            fast_step.head_backward,
            "arena.give_back → if config.head_bias and len(dlogits) > 100:\n"
            '    grads["head"]["b_out"] -= dlogits[100]\narena.give_back',
        )
    ],
    ("the row sum of the softmax has 64 keys", by_the_model): [
        (ops.softmax_backward, "xp.sum(a * da, → xp.sum((a * da)[..., :64],")
    ],
    ("the row sum of the softmax has 64 keys", by_the_fast_step): [
        (
            fast_step.attention_backward,
            "arena.loops.softmax_backward(ds.reshape(-1, end), a.reshape(-1, end), → "
            "ds -= (ds * a)[..., :64].sum(-1, keepdims=True)\nds *= a\nds *= (",
        )
    ],
}


def refuted(name, engine, wrong):
    """Whether a case refutes what is wrong; what it should be is computed before."""
    oracle(name)
    with ExitStack() as stack:
        for function, *changes in wrong:
            stack.enter_context(mistakes.changed(function, *changes))
        try:
            agree(name, *engine(name))
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize(("what", "engine"), WRONG)
def test_what_is_wrong_in_few_cases_is_refuted_by_one_of_the_table(what, engine):
    assert any(refuted(name, engine, WRONG[what, engine]) for name in CASES)


# The same for draws that stand beside the table: right in its narrow form, refuted in its wide one

AGAIN_AFTER_1024 = [(ops.rotary_angles, "np.arange(T) → (np.arange(T) % 1024)")]
EVEN = "(a * da)[..., : a.shape[-1] // 2 * 2 if a.shape[-1] > 16 else None]"
STEEPER = 'max(eps, 1e-7) if str(x.dtype) == "float32" else eps'
OF_POSITIONS = '"P"][{0}] += dx.reshape(-1, T, config.D).sum(axis=0)'
FURTHER_WRONG = {
    ("1,100 positions, turned", by_the_model): AGAIN_AFTER_1024,
    ("1,100 positions, turned", by_the_fast_step): AGAIN_AFTER_1024,
    ("1,100 positions, waves", by_the_model): AGAIN_AFTER_1024,
    ("1,100 positions, waves", by_the_fast_step): AGAIN_AFTER_1024,
    ("an odd length", by_the_model): [(ops.softmax_backward, f"xp.sum(a * da, → xp.sum({EVEN},")],
    ("an odd length", by_the_fast_step): [
        (
            fast_step.embed_backward,
            f"{OF_POSITIONS.format(':T')} → {OF_POSITIONS.format(': T // 2 * 2')}[: T // 2 * 2]",
        )
    ],
    ("faint rows", by_the_model): [(blocks.normalize, f'params["beta"], eps → params["beta"], {STEEPER}')],
    ("faint rows", by_the_fast_step): [(fast_step.normalize, f"out, eps) → out, {STEEPER})")],
    ("padding at the left", by_the_model): [  # of it only the first token is hidden
        (
            ops.padding_mask,
            "return (np.asarray(tokens) != pad) → seen = np.asarray(tokens) != pad\n"
            "return (seen | (seen.cumsum(-1) == 0) & (np.arange(seen.shape[1]) > 0))",
        )
    ],
    ("padding at the left", by_the_fast_step): [
        (
            fast_step.stack,
            "hidden = tokens == config.pad → hidden = tokens == config.pad\n"
            "hidden = hidden & ((np.cumsum(~hidden, axis=-1) > 0) | (np.arange(hidden.shape[1]) == 0))",
        )
    ],
}


def test_each_further_case_has_a_fault_in_either_engine():
    assert {name for name, _ in FURTHER_WRONG} == set(FURTHER) == set(NARROW)
    assert len(FURTHER_WRONG) == 2 * len(FURTHER)


@pytest.mark.parametrize(("name", "engine"), FURTHER_WRONG)
def test_what_is_wrong_in_a_further_case_is_refuted_there_and_not_in_a_narrow_one(name, engine):
    wrong = FURTHER_WRONG[name, engine]
    assert refuted(name, engine, wrong) and not refuted(f"{name}, narrow", engine, wrong)
