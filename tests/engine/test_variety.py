"""The model and the fast step in cases of every kind, and wrong backwards that only some kind shows."""

import random
from dataclasses import fields

import numpy as np
from cases import CASES, INITIAL, TABLE, config_of

from handgrad.config import Config


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
