"""The measurements of memory count what is there, and those on record are complete."""

import json

import numpy as np
import pytest

from benchmarks import memory

torch = pytest.importorskip("torch")
MILLION = 1_000_000


def in_numpy():
    first, second = np.ones(MILLION), np.ones(MILLION)
    del first
    return second, np.ones(2 * MILLION)


def in_torch():
    first, second = (torch.ones(MILLION, dtype=torch.float64) for _ in range(2))
    del first
    return second, torch.ones(2 * MILLION, dtype=torch.float64)


@pytest.mark.parametrize("held, step", [(memory.traced, in_numpy), (memory.profiled, in_torch)])
def test_the_most_that_is_held_is_three_million_numbers(held, step):
    """Two arrays at first, then one of them and a larger one: the sum over all would be four."""
    assert held(step, ()) == pytest.approx(3 * 8 * MILLION, rel=1e-3)


@pytest.mark.parametrize("causal", [False, True])
def test_all_ways_compute_the_same(causal):
    arrays = memory.inputs(64)
    wanted = memory.plain(*arrays, causal=causal)
    tensors = [torch.tensor(x, requires_grad=n < 3) for n, x in enumerate(arrays)]
    for got in (memory.tiles(*arrays, causal=causal), memory.pytorch(*tensors, causal=causal)):
        for ours, theirs in zip(got, wanted, strict=True):
            ours = np.asarray(ours.detach() if isinstance(ours, torch.Tensor) else ours)
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)  # float32, sums of 64 terms


def test_the_record_has_every_measurement():
    rows = json.loads(memory.RESULTS.read_text())["rows"]
    cases = {(way, T, causal) for way in memory.WAYS for T in memory.LENGTHS for causal in (False, True)}
    assert {(row["way"], row["T"], row["causal"]) for row in rows} == cases
    assert len(rows) == len(cases) and all(row["seconds"] > 0 and row["bytes"] > 0 for row in rows)
