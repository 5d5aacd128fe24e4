"""The model and the fast step in cases of every kind, and wrong backwards that only some kind shows."""

import functools
import random
from dataclasses import fields

import numpy as np
import optree
import pytest
import torch
from cases import CASES, INITIAL, TABLE, config_of, problem, workspace_of

from handgrad import model
from handgrad import twin as twins
from handgrad.config import Config
from handgrad.fast import step as fast_step

torch.set_num_threads(1)  # the models here are tiny

# The table

EFFECT = {
    "S": lambda case: case["kind"] == "encoder-decoder",
    "shared": lambda case: case["kind"] == "encoder-decoder",
    "T_max": lambda case: case["positions"] == "learned",
    "rotary_base": lambda case: case["positions"] == "rotary",
    "feed_forward_biases": lambda case: case["activation"] != "swiglu",
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

TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
"""Of the largest entry of a gradient: 1e-16, or 6e-8, after thousands of additions. Besides there may be ten
roundings of the largest entry of all, since what is 0 by symmetry is a difference of such; and eight times
what torch's own float32 loses of this gradient, since where dA hardly differs from its mean all lose more."""


@functools.cache
def oracle(name):
    """Loss and gradients of a case by the twin in float64, and what it loses in the precision of the case."""
    params, config, batch, new_draw, smoothing = problem(CASES[name])
    twin = twins.load(twins.Twin(config), params)
    loss, grads = twins.loss_and_gradients(twin, batch, new_draw(), smoothing)
    if CASES[name]["precision"] == "float32":
        twin.float()
    again = twins.loss_and_gradients(twin, batch, new_draw(), smoothing)[1]
    return loss, grads, optree.tree_map(lambda a, b: np.abs(a - b).max(), again, grads)


def by_the_model(name):
    params, config, batch, new_draw, smoothing = problem(CASES[name])
    return model.loss_and_gradients(params, config, batch, new_draw(), smoothing)


def by_the_fast_step(name):
    params, config, batch, new_draw, smoothing = problem(CASES[name])
    to, draw_keep = torch.from_numpy if CASES[name]["library"] == "torch" else np.asarray, new_draw()
    loss, grads = fast_step.loss_and_gradients(
        optree.tree_map(to, params),
        config,
        optree.tree_map(to, batch),
        draw_keep and (lambda shape: to(draw_keep(shape))),
        smoothing,
        workspace_of(CASES[name]),
    )
    return np.asarray(loss), optree.tree_map(np.asarray, grads)


def agree(name, loss, grads):
    """Assert that loss and gradients of a case are those of the twin, and of the case's precision."""
    wanted_loss, wanted, lost = oracle(name)
    precision = CASES[name]["precision"]
    tolerance, rounding = TOLERANCE[precision], np.finfo(precision).eps
    assert loss.dtype == precision and abs(loss - wanted_loss) <= tolerance * wanted_loss
    assert optree.tree_structure(grads) == optree.tree_structure(wanted)
    largest = max(np.abs(leaf).max() for leaf in optree.tree_leaves(wanted))
    rows = zip(*map(optree.tree_leaves, (grads, wanted, lost)), strict=True)
    for path, (got, want, by_torch) in zip(optree.tree_paths(wanted), rows):
        assert got.shape == want.shape and got.dtype == precision, path
        allowed = tolerance * np.abs(want).max() + 10 * rounding * largest + 8 * by_torch
        assert np.abs(got - want).max() <= allowed, path  # written so that NaN fails


@pytest.mark.parametrize("engine", [by_the_model, by_the_fast_step])
@pytest.mark.parametrize("name", CASES)
def test_loss_and_every_gradient_are_those_of_the_twin(name, engine):
    agree(name, *engine(name))
