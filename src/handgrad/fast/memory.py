"""Memory that a training step uses again and again, and the threads among which it is shared out."""

import functools
import math
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from threading import Lock

import numpy as np
from threadpoolctl import ThreadpoolController

from ..algebra import check_integer, kind
from .kernels import empty

CHUNK = 2**25  # numbers that an arena asks for at once, or more. A system gives memory when it is written to


class Arena:
    """Memory that is handed out in order and given back in the opposite order, up to where `used` says.

    It grows by chunks as it is asked, and keeps them. `block` numbers at a time go through a chain of
    element-wise steps, and `queries` at a time through attention. `first`: these are the first sequences of a
    step, and the gradients of the matrices are written where later ones are added.
    """

    def __init__(self, block, queries):
        self.block, self.queries = block, queries
        self.kind, self.chunks, self.used, self.placed = np.empty(0), [], 0, {}

    def reset(self, x):
        """Take everything back. From here on the arrays are of x's library, type and device."""
        if kind(self.kind) != kind(x):
            self.chunks, self.placed = [], {}
        if len(self.placed) > 10000:  # steps of many shapes
            self.placed = {}
        self.kind, self.used, self.first = empty((0,), x), 0, True

    def empty(self, *shape):
        """An array whose numbers are still to be written. One step asks for the same arrays as the last."""
        key = self.used, shape
        if key not in self.placed:
            self.placed[key] = self._place(math.prod(shape), shape)
        array, self.used = self.placed[key]
        return array

    def _place(self, size, shape):
        """An array in the first chunk with room for it behind what is used, and where it ends.

        It begins at a line of the cache, as every chunk does, and ends where another may begin.
        """
        whole = -(-size // 16) * 16
        for begin, chunk in self.chunks:
            start = max(self.used - begin, 0)
            if start + whole <= len(chunk):
                return chunk[start : start + size].reshape(shape), begin + start + whole
        begin = sum(len(chunk) for _, chunk in self.chunks)
        self.chunks.append((begin, empty((max(CHUNK, whole),), self.kind)))
        return self._place(size, shape)

    def scratch(self):
        """What is handed out inside `with arena.scratch():` is taken back at its end."""
        return _Scratch(self)

    def give_back(self, start, end):
        """Take back what was handed out from start to end.

        Raises RuntimeError unless it is what was handed out last.
        """
        if self.used != end:
            raise RuntimeError(f"end: expected the end of what is in use, {self.used}, got {end}")
        self.used = start

    def like(self, x):
        """An array of the shape of x."""
        return self.empty(*x.shape)

    def zeros_like(self, x):
        """Zeros of the shape of x."""
        zeros = self.like(x)
        zeros[...] = 0
        return zeros

    def copy(self, x):
        """The numbers of x, to be written over."""
        copy = self.like(x)
        copy[...] = x
        return copy

    def blocks(self, x, *others):
        """The rows of x (n, D), about `block` numbers at a time, and the same rows of the others."""
        (n, D), arrays = x.shape, (x, *others)
        step = max(1, self.block // D)
        if step >= n:
            return [arrays]
        rows = [slice(start, start + step) for start in range(0, n, step)]
        return [tuple(None if array is None else array[part] for array in arrays) for part in rows]


class _Scratch:
    """A class, and not a generator: loops over blocks enter it thousands of times in a step."""

    __slots__ = ("arena", "used")

    def __init__(self, arena):
        self.arena = arena

    def __enter__(self):
        self.used = self.arena.used

    def __exit__(self, *error):
        self.arena.used = self.used


def shares(n, workers):
    """Slices of n rows, as equal as can be, one for each worker, or one for each row if there are fewer."""
    workers = min(n, workers)
    return [slice(n * i // workers, n * (i + 1) // workers) for i in range(workers)]


class Workspace:
    """The memory and the threads of a training step, for one step at a time.

    workers: how many threads share the sequences of a batch; one is right for a GPU. block: numbers in a
    block of an element-wise chain; queries: the most queries in a block of attention; at_once: numbers in an
    activation (n, F) of the sequences that a worker takes at once. Nothing that a step returns lies in it.

    Raises TypeError unless all four are integers, ValueError unless they are at least 1.
    """

    def __init__(self, workers=2, block=2**17, queries=64, at_once=2**20):
        given = {"workers": workers, "block": block, "queries": queries, "at_once": at_once}
        for name, value in given.items():
            check_integer(name, value, least=1)
        self.arenas = [Arena(block, queries) for _ in range(workers)]
        self.threads = ThreadPoolExecutor(max(1, workers - 1))
        self.at_once = at_once
        self.uses = 0  # how often it was reset
        self.received = []  # references to what received the last gradients, and to the parameters
        self.stepping, self.mapping = Lock(), Lock()

    def one_step(self):
        """`with workspace.one_step():` its memory is this step's. Raises RuntimeError during another step."""
        return _alone(self.stepping, "step")

    def reset(self, x):
        """Take all memory back, for arrays of the kind of x."""
        self.uses += 1
        for arena in self.arenas:
            arena.reset(x)

    def pieces(self, share, numbers):
        """Slices of a share of the sequences, each of which has so many numbers in an activation."""
        n = share.stop - share.start
        parts = shares(n, -(-n * numbers // self.at_once))
        return [slice(share.start + part.start, share.start + part.stop) for part in parts]

    def map(self, f, jobs):
        """[f(job, arena) for each job], at most as many as workers. The caller does the first.

        With several jobs, each has one thread for products and for torch's loops. None has autograd.
        Raises ValueError for another number of jobs, RuntimeError during another map of the workspace.
        """
        if not 1 <= len(jobs) <= len(self.arenas):
            raise ValueError(f"jobs: expected 1 to {len(self.arenas)}, one for a worker, got {len(jobs)}")
        single = _limit.single_threads() if len(jobs) > 1 else nullcontext()
        with _alone(self.mapping, "map"), single, _no_autograd():
            others = [self.threads.submit(_beside, f, *pair) for pair in zip(jobs[1:], self.arenas[1:])]
            try:
                first = f(jobs[0], self.arenas[0])
            finally:
                wait(others)  # their memory is in use until then
            return [first, *(other.result() for other in others)]


@contextmanager
def _alone(lock, what):
    if not lock.acquire(blocking=False):
        raise RuntimeError(f"workspace: expected one {what} at a time, got another before its end")
    try:
        yield
    finally:
        lock.release()


def _beside(f, *args):
    torch = sys.modules.get("torch")
    if torch:
        torch.get_num_threads()  # a new thread takes over the number of others when it first needs one: here
        torch.set_num_threads(1)  # and its own stays: this is our thread
    with _no_autograd():
        return f(*args)


def _no_autograd():
    """Torch keeps nothing for autograd in this thread."""
    return sys.modules["torch"].inference_mode() if "torch" in sys.modules else nullcontext()


class _Limit:
    """One thread for NumPy's products: two workers with two threads each would wait for each other.

    The number is one of the process. The first to come limits it, and the last to leave restores it. Torch's
    is one of each thread, and each restores its own; but a new thread begins with what was set last anywhere.
    """

    def __init__(self):
        self.lock, self.users = Lock(), 0

    @contextmanager
    def single_threads(self):
        torch = sys.modules.get("torch")
        with self.lock:
            own = torch and torch.get_num_threads()
            if self.users == 0:
                self.products, self.loops = _blas().limit(limits=1), own
            elif own == 1:
                own = self.loops or 1  # it is likely ours
            self.users += 1
        try:
            if torch:
                torch.set_num_threads(1)
            yield
        finally:
            with self.lock:
                self.users -= 1
                with _blas().limit(limits=1) if self.users else self.products:
                    pass  # its end restores the number, and threadpoolctl obeys other threads again
                if torch:
                    torch.set_num_threads(own)


_limit = _Limit()


@functools.cache
def _blas():
    return ThreadpoolController().select(user_api="blas")
