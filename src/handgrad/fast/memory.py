"""Memory that a training step uses again and again, and the threads among which the work is shared out."""

import functools
import math
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from threading import Lock

import numpy as np
from threadpoolctl import ThreadpoolController

from ..algebra import check_integer
from .loops import of_kind

CHUNK = 2**25  # numbers that an arena asks for at once, or more. A system gives memory when it is written to
LINE = 64  # bytes of a line of the cache: an array that begins elsewhere needs two lines for each load of 64


def empty(shape, dtype):
    """An array whose numbers are still to be written. It begins at a line of the cache."""
    size, line = math.prod(shape), LINE // dtype.itemsize
    memory = np.empty(size + line, dtype)
    start = -memory.ctypes.data % LINE // dtype.itemsize
    return memory[start : start + size].reshape(shape)


def check_apart(name, written, read=()):
    """Raise ValueError unless each of `written` can be written to, in memory that no other array touches."""
    if not all(x.flags.writeable for x in written):
        raise ValueError(f"{name}: expected arrays that can be written to, got one to be read only")
    bounds = np.lib.array_utils.byte_bounds
    spans = [(*bounds(x), True) for x in written] + [(*bounds(x), False) for x in read]
    end = end_of_written = 0
    for start, stop, is_written in sorted(spans):
        if start < (end if is_written else end_of_written):
            raise ValueError(f"{name}: expected arrays with memory of their own, got two that overlap")
        end, end_of_written = max(end, stop), max(end_of_written, stop if is_written else 0)


def torch_product(x, y, out):
    """What numpy.matmul does to two matrices, by PyTorch's `mm` on the same memory, in one thread."""
    import torch

    with torch.inference_mode():
        torch.mm(*map(torch.from_numpy, (x, y)), out=torch.from_numpy(out))
    return out


class Arena:
    """Memory that is handed out in order and given back in the opposite order, up to where `used` says.

    It grows by chunks as it is asked, and keeps them. `loops`: those for its type of arrays. `matmul`: what
    multiplies two matrices. `first`: these are the first sequences of a step, and the gradients of the
    matrices are written where later ones are added. `idle`: the arena of a worker without sequences of its
    own, which works in a thread of `threads`; or None.
    """

    def __init__(self, matmul=np.matmul, threads=None):
        self.matmul, self.threads, self.idle, self.dtype = matmul, threads, None, None
        self.chunks, self.used, self.placed = [], 0, {}

    def reset(self, dtype):
        """Take everything back. From here on the arrays are of this type."""
        if self.dtype != dtype:
            self.chunks, self.placed = [], {}
        if len(self.placed) > 10000:  # steps of many shapes
            self.placed = {}
        self.dtype, self.loops, self.used, self.first = dtype, of_kind(dtype), 0, True

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
        self.chunks.append((begin, empty((max(CHUNK, whole),), self.dtype)))
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

    def copy(self, x):
        """The numbers of x, to be written over."""
        copy = self.like(x)
        copy[...] = x
        return copy

    def halves(self, n):
        """Slices of n things: one, or two if a worker is idle."""
        return shares(n, 1 if self.idle is None else 2)

    def each(self, jobs, f):
        """[f(job, arena) for each of at most two jobs]: the second by the idle worker, at the same time."""
        if len(jobs) == 1:
            return [f(jobs[0], self)]
        other = self.threads.submit(_beside, f, jobs[1], self.idle)
        try:
            own = f(jobs[0], self)
        finally:
            wait([other])  # its memory is in use until then
        return [own, other.result()]

    def product(self, x, y, out):
        """x (n, m), y (m, l) -> out (n, l). Rows of it are shared with the idle worker."""
        if self.idle is None:
            return self.matmul(x, y, out=out)
        self.each(self.halves(len(out)), lambda rows, _: self.matmul(x[rows], y, out=out[rows]))
        return out


class _Scratch:
    """A class, and not a generator: it is entered hundreds of times in a step."""

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

    workers: how many threads share the sequences of a batch, or the work on the only one. queries: the most
    queries in a block of attention; at_once: numbers in an activation (n, F) of the sequences that a worker
    takes at once; kept: the most attention weights that a layer keeps, and does not compute again. product:
    numpy.matmul, or `torch_product`, for matrices: which is faster depends on the processor. Nothing that a
    step returns lies in a workspace.

    Raises TypeError unless the numbers are integers and product can be called, ValueError unless they are at
    least 1.
    """

    def __init__(self, workers=2, queries=128, at_once=2**19, kept=2**22, product=np.matmul):
        for name, value in {"workers": workers, "queries": queries, "at_once": at_once, "kept": kept}.items():
            check_integer(name, value, least=1)
        if not callable(product):
            raise TypeError(f"product: expected a function such as numpy.matmul, got {product!r}")
        self.threads = ThreadPoolExecutor(max(1, workers - 1))
        self.arenas = [Arena(product, self.threads) for _ in range(workers)]
        self.queries, self.at_once, self.kept = queries, at_once, kept
        self.uses = 0  # how often it was reset
        self.received = []  # references to what received the last gradients, and to the parameters
        self.stepping, self.mapping = Lock(), Lock()

    def one_step(self):
        """`with workspace.one_step():` its memory is this step's. Raises RuntimeError during another step."""
        return _alone(self.stepping, "step")

    def reset(self, dtype):
        """Take all memory back, for arrays of this type."""
        self.uses += 1
        for arena in self.arenas:
            arena.reset(dtype)

    def pieces(self, share, numbers):
        """Slices of a share of the sequences, each of which has so many numbers in an activation."""
        n = share.stop - share.start
        parts = shares(n, -(-n * numbers // self.at_once))
        return [slice(share.start + part.start, share.start + part.stop) for part in parts]

    def map(self, f, jobs):
        """[f(job, arena) for each job], at most as many as workers. The caller does the first.

        With several workers each has one thread for products, and a lone job shares its work with an idle
        one.
        Raises ValueError for another number of jobs, RuntimeError during another map of the workspace.
        """
        if not 1 <= len(jobs) <= len(self.arenas):
            raise ValueError(f"jobs: expected 1 to {len(self.arenas)}, one for a worker, got {len(jobs)}")
        several = len(self.arenas) > 1
        with _alone(self.mapping, "map"), _limit.single_threads() if several else nullcontext():
            self.arenas[0].idle = self.arenas[1] if several and len(jobs) == 1 else None
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
    """f(*args) in a thread of ours."""
    torch = sys.modules.get("torch")
    if torch:
        torch.get_num_threads()  # a new thread takes over the number of others when it first needs one: here
        torch.set_num_threads(1)  # and its own stays: this is our thread
    return f(*args)


class _Limit:
    """One thread for each product: two workers with two threads each would wait for each other.

    NumPy's number is one of the process. The first to come limits it, and the last to leave restores it.
    Torch's, where it is there, is one of each thread, and each restores its own; but a new thread begins with
    what was set last anywhere.
    """

    def __init__(self):
        self.lock, self.users = Lock(), 0

    @contextmanager
    def single_threads(self):
        torch = sys.modules.get("torch")
        with self.lock:
            own = torch and torch.get_num_threads()
            if self.users == 0:
                self.products, self.own = _blas().limit(limits=1), own
            elif own == 1:
                own = self.own or 1  # it is likely ours
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
