"""What chapter 19 counts: multiply-adds, numbers that are loaded, and bytes that are held at a time."""

import tracemalloc

import numpy as np


class Counted(np.ndarray):
    """Notes the multiply-adds of products and the numbers of their second factor, but for outer products.

    What is computed from such an array is one too.
    """

    multiply_adds = loaded = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        arrays = [np.asarray(x) for x in inputs]
        if out is not None:
            options["out"] = tuple(map(np.asarray, out))
        y = np.asarray(getattr(ufunc, method)(*arrays, **options))
        if ufunc is np.matmul and arrays[0].shape[-1] > 1:
            Counted.multiply_adds += y.size * arrays[0].shape[-1]
            Counted.loaded += arrays[1].size
        return y.view(Counted)

    def __array_function__(self, function, types, inputs, options):
        y = super().__array_function__(function, types, inputs, options)
        return y.view(Counted) if isinstance(y, np.ndarray) else y


def count(forward, backward, T=64, S=48, K=8, E=5, **options):
    """Of one head: the multiply-adds of both ways, and the numbers of keys and values loaded forward."""
    shapes = (T, K), (S, K), (S, E), (T, E)
    q, k, v, dy = (np.ones(shape).view(Counted) for shape in shapes)
    Counted.multiply_adds = Counted.loaded = 0
    _, cache = forward(q, k, v, **options)
    loaded = Counted.loaded
    backward(dy, cache)
    return Counted.multiply_adds, loaded


def traced(step, arrays):
    """The most bytes that NumPy holds at a time during step(*arrays)."""
    tracemalloc.start()
    try:
        step(*arrays)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
