"""The memory and the threads of the fast step."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from handgrad.fast import memory
from handgrad.fast.memory import Arena, Workspace, shares

KINDS = [np.dtype(np.float64), np.dtype(np.float32)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_arena_hands_out_arrays_of_one_type_that_do_not_overlap(kind, monkeypatch):
    monkeypatch.setattr(memory, "CHUNK", 48)  # two arrays fit into one chunk, and the third does not
    arena, x = Arena(), np.ones(1)
    for _ in range(3):
        arena.reset(kind)
        arrays = [arena.empty(3, 5), arena.empty(7), arena.empty(90), arena.like(x), arena.empty(2, 1, 4)]
        assert [a.shape for a in arrays] == [(3, 5), (7,), (90,), (1,), (2, 1, 4)]
        assert all(a.dtype == kind for a in arrays)
        assert all(np.asarray(a).ctypes.data % 64 == 0 for a in arrays)  # lines of the cache
        for number, array in enumerate(arrays):
            array[...] = number
        assert all(bool((array == number).all()) for number, array in enumerate(arrays))
        assert [len(chunk) for _, chunk in arena.chunks] == [48, 96, 48]
    arena.reset(next(other for other in KINDS if other != kind))
    assert not arena.chunks  # memory of one type does not serve another


def fresh_arena():
    arena = Arena()
    arena.reset(np.dtype(float))
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
        return job, threading.get_ident(), arena, blas_threads(), torch.get_num_threads()

    pool = Workspace(2)
    (one, two), threads, arenas, blas, loops = zip(*pool.map(f, ["a", "b"]))
    assert (one, two) == ("a", "b") and threads[0] == threading.get_ident() != threads[1]
    assert list(arenas) == pool.arenas
    assert blas == ({1}, {1}) and loops == (1, 1)
    assert blas_threads() == before


def in_thread(f, *args):
    """What f returns in a new thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(f, *args).result(timeout=30)


@pytest.fixture
def two_threads():
    """Two threads for products, and for torch's loops in each new thread."""
    (before,), loops = blas_threads(), torch.get_num_threads()
    in_thread(threadpool_limits, 2, "blas")  # threadpoolctl obeys one thread, as long as it lives
    torch.set_num_threads(2)
    yield
    in_thread(threadpool_limits, before, "blas")
    torch.set_num_threads(loops)


def test_workspaces_that_overlap_in_two_threads_restore_what_was_there_before_the_first(two_threads):
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def map_of_first():
        Workspace(2).map(lambda job, arena: (first_is_in.set(), second_is_in.wait(30)), "ab")
        first_is_out.set()
        return torch.get_num_threads()

    def map_of_second():
        def f(job, arena):
            second_is_in.set()
            assert first_is_out.wait(30)
            return blas_threads(), torch.get_num_threads()

        assert first_is_in.wait(30)
        return Workspace(2).map(f, "ab"), torch.get_num_threads()

    with ThreadPoolExecutor(2) as threads:
        started = [threads.submit(f) for f in (map_of_first, map_of_second)]
        loops, (inside, loops_of_second) = (future.result(timeout=30) for future in started)
    assert inside == [({1}, 1), ({1}, 1)]
    assert blas_threads() == {2} and (loops, loops_of_second) == (2, 2)
    assert torch.get_num_threads() == 2 == in_thread(torch.get_num_threads)
    Workspace(2).map(lambda job, arena: None, "ab")
    assert blas_threads() == {2}
    with threadpool_limits(1, "blas"):  # nobody has kept threadpoolctl to itself
        assert blas_threads() == {1}


@pytest.mark.parametrize("failing", ["a", "b", "ab"])
def test_an_error_of_a_worker_reaches_the_caller_and_leaves_two_threads_for_products(two_threads, failing):
    def f(job, arena):
        if job in failing:
            raise FloatingPointError(job)
        return job

    pool = Workspace(2)
    with pytest.raises(FloatingPointError, match=f"^[{failing}]$"):
        pool.map(f, "ab")
    assert pool.map(f, "cd") == ["c", "d"]  # the next step works
    assert blas_threads() == {2} and torch.get_num_threads() == 2


@pytest.mark.parametrize("by", ["the caller", "the other worker", "another thread"])
def test_a_map_inside_of_a_map_is_refused_at_once(by):
    pool = Workspace(2)

    def inner():
        return pool.map(lambda job, arena: job, "cd")

    def outer(job, arena):
        if by == "another thread":
            return in_thread(inner) if job == "a" else None
        return inner() if job == ("a" if by == "the caller" else "b") else None

    started = threading.Thread(target=lambda: errors.append(refusal(pool.map, outer, "ab")), daemon=True)
    errors = []
    started.start()
    started.join(10)
    assert errors == ["workspace: expected one map at a time, got another before its end"]
    assert inner() == ["c", "d"]


def refusal(f, *args):
    """What the RuntimeError says that f raises."""
    with pytest.raises(RuntimeError) as error:
        f(*args)
    return str(error.value)


def test_a_map_inside_of_a_map_of_another_workspace_works(two_threads):
    one, other = Workspace(2), Workspace(2)
    got = one.map(
        lambda job, arena: other.map(lambda inner, arena: job + inner, "cd") if job == "a" else 0, "ab"
    )
    assert got == [["ac", "ad"], 0]
    assert blas_threads() == {2} and torch.get_num_threads() == 2


def test_a_lone_job_shares_its_work_with_the_idle_worker(two_threads):
    """Both halves at the same time, each with an arena and a thread of its own, one thread for products."""
    barrier = threading.Barrier(2, timeout=30)

    def half(part, arena):
        barrier.wait()
        return part, arena, threading.get_ident(), blas_threads()

    def f(job, arena):
        return arena.each(arena.halves(5), half)

    pool = Workspace(3)
    (halves,) = pool.map(f, "a")
    assert [part for part, *_ in halves] == [slice(0, 2), slice(2, 5)]
    assert [arena for _, arena, *_ in halves] == pool.arenas[:2]
    assert len({thread for *_, thread, _ in halves}) == 2 and [blas for *_, blas in halves] == [{1}, {1}]
    assert blas_threads() == {2}
    assert Workspace(1).map(lambda job, arena: arena.halves(5), "a") == [[slice(0, 5)]]
    assert pool.map(lambda job, arena: arena.halves(5), "ab") == [[slice(0, 5)], [slice(0, 5)]]


def test_an_error_of_a_half_reaches_the_caller(two_threads):
    def half(part, arena):
        if part.start:
            raise FloatingPointError

    with pytest.raises(FloatingPointError):
        Workspace(2).map(lambda job, arena: arena.each(arena.halves(2), half), "a")
    assert blas_threads() == {2}


def test_torch_multiplies_the_same_memory():
    x, y, out = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(4, 3).T, np.full((2, 4), np.nan)
    assert memory.torch_product(x, y, out=out) is out and np.array_equal(out, x @ y)


def test_a_product_is_a_function():
    with pytest.raises(TypeError, match="product: expected a function such as numpy.matmul, got 'torch'"):
        Workspace(product="torch")


@pytest.mark.parametrize("jobs", ["", "abc"])
def test_jobs_without_a_worker_are_refused(jobs):
    with pytest.raises(ValueError, match=f"jobs: expected 1 to 2, one for a worker, got {len(jobs)}"):
        Workspace(2).map(lambda job, arena: job, jobs)


@pytest.mark.parametrize("name", ["workers", "queries", "at_once", "kept"])
def test_a_workspace_is_given_integers(name):
    for value in (0, -1):
        with pytest.raises(ValueError, match=f"{name}: expected an integer, 1 ≤ {name}, got {value}"):
            Workspace(**{name: value})
    for value in (1.5, 2.0, True, "2", None, np.float64(2)):
        with pytest.raises(TypeError, match=f"{name}: expected an integer, 1 ≤ {name}, got "):
            Workspace(**{name: value})
    Workspace(**{name: np.int64(2)})


def test_a_workspace_that_is_let_go_leaves_no_thread():
    barrier = threading.Barrier(3, timeout=30)

    def f(job, arena):
        barrier.wait()
        return threading.current_thread()

    _, *threads = Workspace(3).map(f, "abc")
    gc.collect()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads) and len(set(threads)) == 2


SPANS = np.arange(24.0).reshape(4, 6)


def test_arrays_that_overlap_are_refused():
    x = SPANS.copy()
    apart = [x[0], x[2:], x[1, :3]]
    memory.check_apart("out", apart, [x[1, 3:], x[1, 3:], SPANS.copy()])  # what is read may overlap
    bad = [(apart, [x[3:]]), ([x, x], []), ([x[:3], x[2:]], []), ([x.T, x[3]], [])]
    bad += [([x[1]], [x]), ([x], [x[1]])]
    for written, read in bad:
        with pytest.raises(ValueError, match="out: expected arrays with memory of their own, got two that"):
            memory.check_apart("out", written, read)
