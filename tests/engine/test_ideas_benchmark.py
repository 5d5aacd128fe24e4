"""What the benchmark of ideas compares is equal, and what is taken out is really out."""

from unittest.mock import patch

import numpy as np
import pytest

from benchmarks import ideas, passes
from benchmarks.variants import TINY
from handgrad.fast import loops, memory

ACTIVATIONS = "relu", "gelu", "gelu_tanh", "silu"
BLOCKS = None, 20, 1


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def both(block):
    return loops.of_kind(np.float64), passes.of_kind(np.float64, block)


def compare(block, call, arrays):
    """call(space, arrays) of copies of the arrays, by the loop and by passes: results and arrays agree."""
    found = []
    for space in both(block):
        own = {name: None if x is None else x.copy() for name, x in arrays.items()}
        found.append((call(space, own), own))
    (loop, ours), (several, theirs) = found
    if loop is not None:
        assert several == pytest.approx(loop, rel=1e-12)
    for name in filter(lambda name: ours.get(name) is not None, arrays):
        np.testing.assert_allclose(theirs[name], ours[name], rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("dropped", [False, True])
def test_activations_of_passes_are_those_of_loops(name, block, gated, dropped, rng):
    h, a, da, up = rng.standard_normal((4, 7, 5))
    arrays = {"h": h, "up": up if gated else None, "keep": rng.random((7, 5)) < 0.5 if dropped else None}

    def forward(space, x):
        space.activations[name][0](x["h"], x["a"], x["b"], x["up"], x["keep"], 2.0)

    def backward(space, x):
        space.activations[name][1](x["h"], x["da"], x["up"], x["keep"], 2.0)

    compare(block, forward, arrays | {"a": a, "b": rng.standard_normal(5)})
    compare(block, backward, arrays | {"da": da})


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_norms_of_passes_are_those_of_loops(block, centred, add, rng):
    x, y, x_hat, dx = rng.standard_normal((4, 7, 5))
    gamma, beta, dgamma, dbeta = rng.standard_normal((4, 5))
    own = {"x": x, "y": y, "x_hat": x_hat, "inverse_std": 1 + rng.random(7), "gamma": gamma, "dgamma": dgamma}
    own |= {"beta": beta if centred else None, "dbeta": dbeta if centred else None, "dx": dx}

    def norm(space, x):
        space.normalize(x["x"], x["gamma"], x["beta"], x["x_hat"], x["inverse_std"], x["y"], 1e-5)

    def backward(space, x):
        known = x["x_hat"], x["inverse_std"], x["gamma"], x["dgamma"], x["dbeta"]
        space.normalize_backward(x["y"], *known, x["dx"], add)

    compare(block, norm, own)
    compare(block, backward, own)
    compare(block, lambda space, x: space.scale_shift(x["x_hat"], x["gamma"], x["beta"], x["y"]), own)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("before", [-1, 0, 2])
@pytest.mark.parametrize("padded", [False, True])
def test_softmax_of_passes_is_that_of_loops(block, before, padded, rng):
    s, da = rng.standard_normal((2, 2, 3, 4, 6))
    hidden = np.zeros((2, 6), bool)
    hidden[1, :5] = True  # and with them all that the first queries see
    own = {"s": s, "hidden": hidden if padded else None}
    compare(block, lambda space, x: space.softmax(x["s"], x["hidden"], before, 0.7), own)
    rows = {"da": da.reshape(-1, 6), "a": s.reshape(-1, 6)}
    compare(block, lambda space, x: space.softmax_backward(x["da"], x["a"], 0.7), rows)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_rest_of_passes_is_that_of_loops(block, smoothing, rng):
    x, y, out = rng.standard_normal((3, 6, 5))
    weights = rng.random(6) * (np.arange(6) != 2)
    own = {"z": x, "targets": rng.integers(5, size=6), "weights": weights}
    compare(block, lambda s, x: s.cross_entropy(x["z"], x["targets"], x["weights"], smoothing), own)
    for first in (None, x):
        for keep in (None, rng.random((6, 5)) < 0.5):
            own = {"x": first, "y": y, "keep": keep, "out": out}
            compare(block, lambda s, x: s.dropped_sum(x["x"], x["y"], x["keep"], x["out"], 2.0), own)
    own = {"index": rng.integers(3, size=6), "values": x, "table": rng.standard_normal((3, 5))}
    compare(block, lambda s, x: s.scatter_add(x["index"], x["values"], x["table"]), own)


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


@pytest.mark.parametrize("name", ["with 0", "with 2", "without loops", "with 3", "without recomputation"])
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


def test_blocks_are_cut_without_loops_only(steps):
    assert "blocks" not in ideas.ALONE
    assert {"loops", "recomputation"} < set(ideas.ALONE) < set(ideas.IDEAS)
    assert steps["without loops"].ideas == set(ideas.IDEAS) - {"loops", "two workers"}


def test_what_is_kept_is_not_computed_again(steps):
    step = steps["without recomputation"]
    step()
    assert len(step.kept.arrays) == TINY.N and step.kept.used == 0
    assert not steps["with 5"].kept.arrays


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
