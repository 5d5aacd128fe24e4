"""What the benchmark of ideas compares is equal, and what is taken out is really out."""

from unittest.mock import patch

import numpy as np
import optree
import pytest
from checked_loops import PROBLEMS

from benchmarks import ideas, passes
from benchmarks.variants import TINY
from handgrad.fast import memory

BLOCKS = None, 20, 1
REFUSALS = "too narrow", "beside", "outside"
"""What only a compiled loop has to refuse, since it would write beside an array."""


def by_passes(block):
    """{name: loop}, by the names of the problems, as passes."""
    space = vars(passes.of_kind(np.float64, block)).copy()
    for name, (forward, backward) in space.pop("activations").items():
        space |= {f"{name}: active": forward, f"{name}: active_backward": backward}
    return space


@pytest.mark.parametrize("block", BLOCKS)
def test_passes_compute_what_loops_compute(block):
    run = by_passes(block)
    asked = [problem for problem in PROBLEMS if problem.name in run and problem.what not in REFUSALS]
    assert {problem.name for problem in asked} == set(run) - {"number", "scratch", "scale_shift_whole"}
    for problem in asked:
        ours, wanted = problem.solve(run[problem.name], np.float64), problem.wanted()
        for a, b in zip(*map(optree.tree_leaves, (ours, wanted)), strict=True):
            np.testing.assert_allclose(
                a, b, rtol=1e-12, atol=1e-12, err_msg=f"{problem.name}, {problem.what}"
            )


class LoopError(Exception):
    """A loop was called."""


def broken(dtype):
    raise LoopError


@pytest.fixture(scope="module")
def steps():
    return ideas.steps(TINY._replace(T=32, V=16))


def test_all_steps_have_the_same_gradients(steps):
    ideas.check(steps)


def test_a_step_with_another_gradient_is_refused(steps):
    loss, grads = steps["readable"]()
    wrong = {"embedding": {name: 1.001 * table for name, table in grads["embedding"].items()}}
    with pytest.raises(AssertionError, match="wrong, .*relative error"):
        ideas.check({"readable": steps["readable"], "wrong": lambda: (loss, grads | wrong)})


@pytest.mark.parametrize("name", ["with 0", "with 2", "with 3", "with 5"])
def test_loops_run_where_they_are_in_and_only_there(name, steps):
    """Passes are called without them; and where loops are in, no pass is."""
    step, has_loops = steps[name], "loops" in steps[name].ideas
    with patch.object(memory, "of_kind", broken):
        if has_loops:
            with pytest.raises(LoopError):
                step()
        else:
            step()
    called = []

    def noting(*args, f=step.passes.softmax):
        called.append(args)
        return f(*args)

    with (
        patch.object(step.passes, "softmax", noting),
        patch.object(step, "new_workspace", lambda: step.workspace),
    ):
        step()
    assert bool(called) != has_loops


def test_what_is_kept_is_not_computed_again(steps):
    steps["with 3"]()
    steps["with 4"]()
    assert len(steps["with 3"].kept.arrays) == TINY.N and steps["with 3"].kept.used == 0
    assert not steps["with 4"].kept.arrays


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile, of its own
def test_six_ways_through_the_chain():
    record = ideas.chain(1, (16, 32))
    assert record["shape"] == [16, 32]
    for direction, arrays in {"forward": 3, "backward": 4}.items():
        rows = {row["way"]: row for row in record[direction]}
        assert list(rows) == ["passes", "blocks", "loop", *ideas.PEERS]
        assert rows["loop"]["calls"] == 1 and rows["loop"]["bytes"] == arrays * 4 * 16 * 32
        assert rows["passes"]["calls"] > 5 and rows["passes"]["bytes"] > 5 * rows["loop"]["bytes"]
        assert rows["passes"]["memory"] > rows["blocks"]["memory"] == rows["loop"]["memory"]
        assert rows["PyTorch, eager"]["calls"] is rows["PyTorch, eager"]["bytes"] is None
        assert all(row["seconds"] > 0 or "absent" in row for row in rows.values() if row["seconds"])
        assert all(row["seconds"] is not None or row["absent"] for row in rows.values())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_way_that_computes_something_else_is_refused(monkeypatch):
    monkeypatch.setattr(ideas, "BLOCK", 64)
    forward = ideas.Chain.forward

    def wrong(self):
        h, a = forward(self)
        return h, 1.01 * a if self.space.__dict__.get("scratch") is None else a

    monkeypatch.setattr(ideas.Chain, "forward", wrong)
    with pytest.raises(AssertionError, match="loop, forward"):
        ideas.chain(1, (16, 32))


def test_the_shortest_time_leaves_out_what_comes_before():
    waits = {"slow": 2e-3, "quick": 0.0}
    ways = {
        name: (lambda: ideas.time.sleep(3e-3), lambda s=s: ideas.time.sleep(s)) for name, s in waits.items()
    }
    taken = ideas.shortest(ways, 1)
    assert taken["quick"] < 2e-3 <= taken["slow"] < 5e-3
