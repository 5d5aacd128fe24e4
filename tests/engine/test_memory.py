"""The memory and the threads of the fast step."""

import threading

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from handgrad.fast import memory
from handgrad.fast.memory import Arena, Workspace, shares

KINDS = {
    "float64": np.empty(1),
    "float32": np.empty(1, np.float32),
    "torch": torch.empty(1, dtype=torch.float64),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_arena_hands_out_arrays_of_one_kind_that_do_not_overlap(kind, monkeypatch):
    monkeypatch.setattr(memory, "CHUNK", 48)  # two arrays fit into one chunk, and the third does not
    arena, x = Arena(block=100, queries=8), KINDS[kind]
    for _ in range(3):
        arena.reset(x)
        arrays = [arena.empty(3, 5), arena.empty(7), arena.empty(90), arena.like(x), arena.empty(2, 1, 4)]
        assert [tuple(a.shape) for a in arrays] == [(3, 5), (7,), (90,), (1,), (2, 1, 4)]
        assert all(type(a) is type(x) and a.dtype == x.dtype for a in arrays)
        assert all(np.asarray(a).ctypes.data % 64 == 0 for a in arrays)  # lines of the cache
        for number, array in enumerate(arrays):
            array[...] = number
        assert all(bool((array == number).all()) for number, array in enumerate(arrays))
        assert [len(chunk) for _, chunk in arena.chunks] == [48, 96, 48]
    arena.reset(next(other for name, other in KINDS.items() if name != kind))
    assert not arena.chunks  # memory of one kind does not serve another


def fresh_arena():
    arena = Arena(block=100, queries=8)
    arena.reset(np.empty(1))
    return arena


def test_scratch_memory_is_handed_out_again():
    arena = fresh_arena()
    kept = arena.empty(4)
    with arena.scratch():
        scratch = arena.empty(6)
        with arena.scratch():
            inner = arena.empty(3)
        assert np.shares_memory(arena.empty(3), inner)
    again, other = arena.empty(6), arena.empty(6)
    assert np.shares_memory(again, scratch)
    assert not any(np.shares_memory(*pair) for pair in [(again, kept), (again, other), (kept, other)])


def test_scratch_memory_is_taken_back_after_an_error():
    arena = fresh_arena()
    with pytest.raises(FloatingPointError), arena.scratch():
        arena.empty(6)
        raise FloatingPointError
    assert arena.used == 0


def test_only_what_was_handed_out_last_is_given_back():
    arena = fresh_arena()
    start, _, middle = arena.used, arena.empty(4), arena.used
    _, end = arena.empty(6), arena.used
    with pytest.raises(RuntimeError, match=f"end: expected the end of what is in use, {end}, got {middle}"):
        arena.give_back(start, middle)
    assert arena.used == end
    arena.give_back(middle, end)
    assert arena.used == middle
    with pytest.raises(RuntimeError, match=f"end: expected the end of what is in use, {middle}, got {end}"):
        arena.give_back(start, end)
    arena.give_back(start, middle)
    assert arena.used == start


def test_blocks_are_all_rows_once_and_views():
    arena = Arena(block=10, queries=8)
    for n, D in [(7, 3), (1, 3), (9, 20), (6, 5)]:
        x, numbers = np.arange(n * D).reshape(n, D), np.arange(n)
        blocks = arena.blocks(x, numbers, None)
        assert np.array_equal(np.concatenate([rows for rows, _, _ in blocks]), x)
        assert np.concatenate([own for _, own, _ in blocks]).tolist() == list(range(n))
        assert all(np.shares_memory(rows, x) and nothing is None for rows, _, nothing in blocks)
        assert max(len(rows) for rows, _, _ in blocks) <= max(1, 10 // D)


@pytest.mark.parametrize("n, workers", [(5, 2), (1, 4), (12, 3), (7, 7), (6, 1)])
def test_shares_are_all_rows_once_and_as_equal_as_can_be(n, workers):
    rows = shares(n, workers)
    assert [row for share in rows for row in range(n)[share]] == list(range(n))
    sizes = [share.stop - share.start for share in rows]
    assert len(sizes) == min(n, workers) and max(sizes) - min(sizes) <= 1


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_workers_have_their_own_thread_and_memory_and_one_thread_for_products():
    before, barrier = blas_threads(), threading.Barrier(2, timeout=30)

    def f(job, arena):
        barrier.wait()  # both are at work at the same time
        return (
            job,
            threading.get_ident(),
            arena,
            blas_threads(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
        )

    pool = Workspace(2)
    (one, two), threads, arenas, blas, loops, grad = zip(*pool.map(f, ["a", "b"]))
    assert (one, two) == ("a", "b") and threads[0] == threading.get_ident() != threads[1]
    assert list(arenas) == pool.arenas
    assert blas == ({1}, {1}) and loops == (1, 1) and grad == (False, False)
    assert blas_threads() == before and torch.is_grad_enabled()


@pytest.mark.parametrize("failing", ["a", "b"])
def test_an_error_of_a_worker_reaches_the_caller_and_the_next_step_works(failing):
    def f(job, arena):
        if job == failing:
            raise FloatingPointError(job)
        return job

    pool, before = Workspace(2), (blas_threads(), torch.get_num_threads())
    with pytest.raises(FloatingPointError, match=failing):
        pool.map(f, ["a", "b"])
    assert pool.map(f, ["c", "d"]) == ["c", "d"]
    assert (blas_threads(), torch.get_num_threads()) == before
