"""Every edit of the backward of a model, and of the fast step, is refuted by a case, or changes nothing.

Of blocks, model and loops every edit is judged here; of the fast step, which has thousands, each fortieth and
those that earlier cases let pass. All of them are judged by `python tests/engine/mutants_of_models.py`.
"""

from dataclasses import replace

import pytest
import torch
from mutants_of_models import FAST, TARGETS, judged, suspects, unused
from same_mutants import SAME

from handgrad.fast import step

torch.set_num_threads(1)  # the models here are tiny


def unexplained(counts):
    """The edits that passed and of which nobody says why they change nothing."""
    return {count.name: count.survivors for count in counts if count.survivors}


@pytest.mark.parametrize("module", ["blocks", "model", "loops"])
def test_every_edit_of_a_readable_backward_and_of_a_loop_is_refuted(module):
    counts = [judged(one) for one in suspects(*TARGETS[module])]
    assert unexplained(counts) == {} and [part for count in counts for part in unused(count)] == []
    assert sum(count.refuted for count in counts) > 700


# Edits that passed until they had a case: huge scores, a batch without segments, a bad one for `forward`, ...
ONCE = {
    "sharing.keeps_of": ["keeps[-1][1], shape, 'Booleans')`: 0 stands where 1 should"],
    "sharing.next_keep_of": ["`whole` is left out, around"],
    "sharing.weighted_targets": ["`whole` is left out, around `targets * counted`"],
    "step.embed": ["`segments is None` is not asked: it is always False"],
    "step.embed_backward": ["dtables['E_segment'])`: the mean is taken away from `dx`"],
    "step.multi_head_backward": ["the line `arena.idle.used = starts[1]` is left out"],
    "step.forward": [
        "the line `check_batch(config, batch)` is left out",
        "the line `workspace = workspace or Workspace()` is left out",
        "the line `workspace.reset(params['embedding']['E'].dtype)` is left out",
        "the line `check_kind('params', params['embedding']['E'])` is left out",
    ],
    "step.backward": ["`workspace.uses -= 1` stands where `workspace.uses += 1` should"],
    "step.loss_and_gradients": ["`workspace` is not asked, of `workspace or Workspace()`"],
}


@pytest.mark.slow
def test_each_fortieth_edit_of_the_fast_step_is_refuted_and_each_that_once_was_not():
    functions = [f for name in ("sharing", "memory", "step") for f in TARGETS[name][0]]
    made = {one.name: one for one in suspects(functions, FAST)}
    counts = [judged(one, one.edits[::40]) for one in made.values()]
    assert unexplained(counts) == {}
    assert sum(count.refuted for count in counts) > 320
    for name, parts in ONCE.items():
        for part in parts:
            edits = [edit for edit in made[name].edits if part in edit.place]
            assert edits and judged(made[name], edits).refuted == len(edits), f"{name}: {part}"


def test_every_function_that_is_said_to_have_such_edits_is_judged():
    names = {f"{module}.{f.__name__}" for module, (functions, _) in TARGETS.items() for f in functions}
    assert set(SAME) <= names and set(ONCE) <= names


def test_without_a_case_that_calls_it_no_edit_is_refuted():
    """The judge itself: what no case refutes is not counted as refuted."""
    (one,) = suspects([step.inside_backward], FAST[:5])
    count = judged(replace(one, callers=[]))
    assert count.refuted == 0 and count.made == len(count.survivors) > 50
