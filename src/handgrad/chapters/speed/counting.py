"""What chapter 20 counts: where a step was busy, products, what is held at a time, statements."""

import ast
import importlib
import inspect
import tracemalloc
from pathlib import Path

import numpy as np

STAGES = {
    "linear layers": "linear feed_forward",
    "attention": "attention softmax multi_head heads",
    "activation": "activations",
    "norms": "normalization",
    "head and loss": "embedding cross_entropy",
    "the rest": "",
}
"""Modules of `ops` by stage; all others are the rest."""


def by_stage(functions):
    """Seconds of each stage: functions {(file, line, name): (.., .., own seconds, ..)}, as in pstats."""
    stage_of = {module: stage for stage, modules in STAGES.items() for module in modules.split()}
    seconds = dict.fromkeys(STAGES, 0.0)
    for (file, _, _), (_, _, own, _, _) in functions.items():
        seconds[stage_of.get(Path(file).stem, "the rest")] += own
    return seconds


class Counted(np.ndarray):
    """Notes the multiply-adds of products and the numbers of their second factor, but for outer products."""

    multiply_adds = loaded = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        arrays = [np.asarray(x) for x in inputs]
        if ufunc is np.matmul and arrays[0].shape[-1] > 1:
            Counted.multiply_adds += arrays[0].size * arrays[1].shape[-1]
            Counted.loaded += arrays[1].size
        return np.asarray(getattr(ufunc, method)(*arrays, **options)).view(Counted)


def count(forward, backward, T=64, S=48, K=8, E=5, **options):
    """Of one head: multiply-adds forward and backward, and the numbers of keys and values loaded forward."""
    shapes = (T, K), (S, K), (S, E), (T, E)
    q, k, v, dy = (np.ones(shape).view(Counted) for shape in shapes)
    Counted.multiply_adds = Counted.loaded = 0
    _, cache = forward(q, k, v, **options)
    there, loaded = Counted.multiply_adds, Counted.loaded
    backward(dy, cache)
    return {"forward": there, "backward": Counted.multiply_adds - there, "loaded": loaded}


def held(forward, backward, T, K=64):
    """The most bytes that NumPy holds at a time while one head goes forward and back, beside its inputs."""
    q, k, v, dy = np.ones((4, T, K), np.float32)
    tracemalloc.start()
    try:
        _, cache = forward(q, k, v)
        backward(dy, cache)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def statements(*modules):
    """How many lines of the modules a statement begins on, without docstrings."""
    count = 0
    for module in modules:
        nodes = ast.walk(ast.parse(inspect.getsource(module)))
        lines = {n.lineno for n in nodes if isinstance(n, ast.stmt) and not is_text(n)}
        count += len(lines)
    return count


def is_text(statement):
    """Whether a statement is a text alone, such as a docstring."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def used_ops():
    """The modules of `ops` that the steps of the models use."""
    names = "linear embedding positions normalization attention softmax multi_head heads feed_forward"
    names += " activations masks dropout cross_entropy"
    return [importlib.import_module(f"handgrad.ops.{name}") for name in names.split()]
