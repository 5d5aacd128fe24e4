"""What each idea of the fast step brings by itself, and what a call, a byte and an operation cost.

    OMP_NUM_THREADS=1 python -m benchmarks.ideas        writes benchmarks/results/ideas.json, in some minutes

ideas    the training step of chapter 19 without its update, by the readable lines and by `handgrad.fast`:
         with one idea taken out, and on a stair from none of the six to all. In each round all of them run,
         in an order drawn anew; what counts is the ratio of two times of a round, its median and quartiles.
calls    single calls of NumPy, small and large: how many calls, bytes and operations they have, and the
         shortest of their times, which is nearest to what they take on an idle machine.
tiles    attention forward and backward of one head, plain and in tiles: calls, bytes and operations counted,
         and the shortest of their times.

The machine need not be idle, since a slow moment hits all of a round. Everything runs on one thread, but for
the two workers.
"""

import argparse
import json
import os
import random
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import optree

from handgrad import model
from handgrad.config import gpt2_small, init
from handgrad.course.ledger import relative_errors
from handgrad.fast import Workspace, kernels
from handgrad.fast import step as fast_step
from handgrad.ops import attention, attention_backward, flash_attention, flash_attention_backward

from .__main__ import machine
from .report import quartiles
from .variants import Size, limit

RESULTS = Path(__file__).parent / "results" / "ideas.json"
SIZE = Size(D=128, N=2, H=4, T=128, B=16, V=256, F=512)
TOLERANCE = 2e-5  # of a gradient: sums of float32 in another order were apart by 2e-6
ENDLESS = 2**62  # numbers in a block: more than any array has

# The six ideas, each with what takes it out -----------------------------------------------------------------


def three_products(x, params, names, scale, arena):
    """fast.step.project, but for one product each."""
    widths = [params[f"W_{name}"].shape[1] for name in names]
    ends = np.cumsum(widths)
    columns = {name: slice(int(end - width), int(end)) for name, width, end in zip(names, widths, ends)}
    y, of_names = arena.empty(len(x), int(ends[-1])), {"params": params, "columns": columns, "scale": scale}
    for name, at in columns.items():
        with arena.scratch():
            W, b = fast_step.joined(of_names | {"columns": {name: slice(0, at.stop - at.start)}}, arena)
            y[:, at] = kernels.linear(x, W, b, arena.empty(len(x), at.stop - at.start))
    return y, of_names


def three_products_backward(dy, x, of_names, dparams, arena):
    """fast.step.project_backward, but for one product each."""
    dx = arena.like(x)
    dx[...] = 0
    for name, at in of_names["columns"].items():
        own = of_names | {"columns": {name: slice(0, at.stop - at.start)}}
        with arena.scratch():
            part = arena.empty(len(x), at.stop - at.start)
            part[...] = dy[:, at]
            dx += ONE_BACKWARD(part, x, own, dparams, arena)
    return dx


ONE_BACKWARD = fast_step.project_backward
AGAIN = fast_step.active_again


class Kept:
    """Activations that the forward keeps, with their slopes in the place of h, so that nothing is redone.

    They lie in memory of their own, which every step uses again: what is measured is the recomputation.
    """

    def __init__(self):
        self.arrays, self.used = [], 0

    def forward(self, h, b, activation, keep, p, arena):
        if b is not None:
            h += b
        if self.used == len(self.arrays):
            self.arrays.append(np.empty_like(h))
        a, self.used = self.arrays[self.used], self.used + 1
        with arena.scratch():
            a[...] = AGAIN(h, activation, keep, p, arena)
        return a

    def backward(self, h, activation, keep, p, arena):
        self.used -= 1
        return self.arrays[self.used]

    @contextmanager
    def __call__(self):
        self.used = 0
        with (
            patch.object(fast_step, "active", self.forward),
            patch.object(fast_step, "active_again", self.backward),
        ):
            yield


@contextmanager
def without_one_product():
    with (
        patch.object(fast_step, "project", three_products),
        patch.object(fast_step, "project_backward", three_products_backward),
    ):
        yield


@contextmanager
def without_causal_blocks():
    """One block of all queries: the bound of their number is taken away."""
    with patch.object(fast_step, "max", lambda *_: ENDLESS, create=True):
        yield


IDEAS = ("one product", "nothing hidden", "fusion", "recomputation", "workspace", "two workers")


class Step:
    """The fast step with some of the ideas, ready to run again and again. workers: with "two workers"."""

    def __init__(self, ideas, params, config, batch):
        self.ideas, self.arguments = set(ideas), (params, config, batch)
        self.grads = optree.tree_map(np.empty_like, params)
        self.kept, self.workspace = Kept(), self.new_workspace()

    def new_workspace(self):
        block = 2**17 if "fusion" in self.ideas else ENDLESS
        queries = 64 if "nothing hidden" in self.ideas else self.arguments[1].T_max
        workers = 2 if "two workers" in self.ideas else 1
        return Workspace(workers, block=block, queries=queries)

    def __call__(self):
        if "workspace" not in self.ideas:
            self.workspace = self.new_workspace()
        with ExitStack() as stack:
            if "one product" not in self.ideas:
                stack.enter_context(without_one_product())
            if "nothing hidden" not in self.ideas:
                stack.enter_context(without_causal_blocks())
            if "recomputation" not in self.ideas:
                stack.enter_context(self.kept())
            return fast_step.loss_and_gradients(*self.arguments, workspace=self.workspace, out=self.grads)

    def bytes(self):
        """The most of the workspace that was in use at a time, and what is kept beside it."""
        used = sum(max(end for _, end in arena.placed.values()) for arena in self.workspace.arenas)
        return 4 * used + sum(array.nbytes for array in self.kept.arrays)


def steps(size=SIZE):
    """{name: step}: readable, the stair {"with 0".."with 6"}, and the whole without each idea."""
    config = gpt2_small(D=size.D, N=size.N, H=size.H, T_max=size.T, V=size.V, F=size.F, p=0.0)
    params = init(config, np.random.default_rng(19), np.float32)
    tokens = np.random.default_rng(19).integers(size.V, size=(size.B, size.T + 1))
    problem = params, config, {"tokens": tokens[:, :-1], "target_out": tokens[:, 1:]}
    found = {"readable": partial(model.loss_and_gradients, *problem)}
    for n in range(len(IDEAS) + 1):
        found[f"with {n}"] = Step(IDEAS[:n], *problem)
    for idea in IDEAS[:-1]:  # with one worker: the measure of the others
        found[f"without {idea}"] = Step(set(IDEAS[:-1]) - {idea}, *problem)
    return found


def check(found):
    """Raise AssertionError unless all steps give the same loss and gradients, to float32."""
    loss, grads = found["readable"]()
    for name, step in found.items():
        own, others = step()
        assert abs(own - loss) < 1e-5 * loss, name
        for place, error in relative_errors(others, grads).items():
            assert error < TOLERANCE, f"{name}, {place}: relative error {error:.1e}"


def ratio(times, base):
    """Quartiles of times over base, of the same rounds."""
    return {name: round(value, 4) for name, value in quartiles(np.divide(times, base)).items()}


def ideas(rounds):
    """The record of the six ideas."""
    found = steps()
    check(found)
    taken = in_turn(found, rounds)
    stair = [{"idea": "readable", **ratio(taken["readable"], taken["readable"])}]
    stair += [
        {"idea": "in place" if n == 0 else IDEAS[n - 1], **ratio(taken[f"with {n}"], taken["readable"])}
        for n in range(len(IDEAS) + 1)
    ]
    whole, size = f"with {len(IDEAS) - 1}", {}
    alone = {idea: ratio(taken[f"without {idea}"], taken[whole]) for idea in IDEAS[:-1]}
    alone["two workers"] = ratio(taken[whole], taken[f"with {len(IDEAS)}"])
    for name in (whole, "without recomputation", "without fusion", f"with {len(IDEAS)}"):
        size[name] = found[name].bytes()
    products = limit("numpy", SIZE, 1, "cpu")  # the definition of the race: see `variants`
    alone_in_rounds, bound = [], {name: [] for name in ("readable", whole)}
    for _ in range(rounds):
        products.run()
        alone_in_rounds.append(sum(products.parts.values()))
        for name, own in in_turn({name: found[name] for name in bound}, 1).items():
            bound[name] += own
    return {
        "size": SIZE._asdict(),
        "stair": stair,
        "alone": alone,
        "bytes": size,
        "over the limit": {n: ratio(bound[n], alone_in_rounds) for n in ("readable", whole)},
    }


# Single calls -----------------------------------------------------------------------------------------------


def calls(rng):
    """{name: (function, calls, bytes, operations)} of single NumPy calls in float32."""
    found = {}
    for power in range(4, 25, 2):
        n = 2**power
        x, y = rng.standard_normal(n, dtype=np.float32), np.empty(n, np.float32)
        found[f"multiply {n}"] = partial(np.multiply, x, 2, out=y), 1, 8 * n, n
    for n in (8, 16, 32, 64, 128, 256, 512, 1024):
        x, y, z = rng.standard_normal((3, n, n), dtype=np.float32)
        found[f"product {n}"] = partial(np.matmul, x, y, out=z), 1, 12 * n**2, 2 * n**3
    for n in (64, 256, 1024, 4096):
        x, y = rng.standard_normal((n, n), dtype=np.float32), rng.standard_normal(n, dtype=np.float32)
        found[f"matrix times vector {n}"] = partial(np.matmul, x, y), 1, 4 * n * n + 8 * n, 2 * n**2
    return found


class Counted(np.ndarray):
    """Notes calls of NumPy on arrays, the bytes that they read and write, and their operations."""

    calls = moved = operations = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        given = [np.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs]  # a scalar stays weak
        arrays = [np.asarray(x) for x in inputs]
        out = () if out is None else out
        result = getattr(ufunc, method)(
            *given, **options, **({"out": tuple(map(np.asarray, out))} if out else {})
        )
        result = np.asarray(result)
        Counted.calls += 1
        Counted.moved += sum(x.nbytes for x in arrays) + result.nbytes
        product = ufunc is np.matmul
        inner = 2 * arrays[0].shape[-1] * result.size if product else max(x.size for x in [*arrays, result])
        Counted.operations += inner
        return result.view(Counted)

    def __array_function__(self, function, types, inputs, options):
        """np.where and np.concat are no ufuncs: without this they would go uncounted, and drop the type."""
        result = super().__array_function__(function, types, inputs, options)
        if function in (np.where, np.concat):
            result = np.asarray(result)
            read = [np.asarray(x) for x in (inputs if function is np.where else inputs[0])]
            Counted.calls += 1
            Counted.moved += sum(x.nbytes for x in read) + result.nbytes
            Counted.operations += result.size
            return result.view(Counted)
        return result


WAYS = {
    "plain": (attention, attention_backward),
    "tiles": (flash_attention, flash_attention_backward),
}


def through(way, q, k, v, dy, **options):
    forward, backward = WAYS[way]
    return backward(dy, forward(q, k, v, **options)[1])


def counted(way, *arrays):
    """Calls, bytes and operations of one way through attention, forward and back."""
    Counted.calls = Counted.moved = Counted.operations = 0
    through(way, *(x.view(Counted) for x in arrays))
    return {"calls": Counted.calls, "bytes": Counted.moved, "operations": Counted.operations}


def tiles(rounds, lengths=(256, 1024, 2048, 4096), K=64):
    """The record of attention."""
    rows = []
    for T in lengths:
        q, k, v, dy = np.random.default_rng(0).standard_normal((4, T, K), dtype=np.float32)
        taken = in_turn({way: partial(through, way, q, k, v, dy) for way in WAYS}, max(3, rounds // 4))
        for way, times in taken.items():
            rows.append({"way": way, "T": T, **counted(way, q, k, v, dy), "seconds": min(times)})
    return rows


# Taking turns -----------------------------------------------------------------------------------------------


def in_turn(functions, rounds, at_least=0.0):
    """{name: seconds of each round}: in a round each runs once, after a run that is not timed.

    What takes less than at_least seconds runs so often in a round that it takes that long.
    """
    taken, order, often = {name: [] for name in functions}, random.Random(0), {}
    for name, f in functions.items():
        f()
        start = time.perf_counter()
        f()
        often[name] = max(1, int(at_least / (time.perf_counter() - start)))
    for _ in range(rounds):
        for name in order.sample(list(functions), len(functions)):
            f, n = functions[name], often[name]
            f()
            start = time.perf_counter()
            for _ in range(n):
                f()
            taken[name].append((time.perf_counter() - start) / n)
    return taken


def main():
    parser = argparse.ArgumentParser(
        "benchmarks.ideas", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE")
    options = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("expected OMP_NUM_THREADS=1 in the environment, so that a step without workers has one")
    rounds, record = options.rounds, {"machine": machine() | {"rounds": options.rounds}}
    record["ideas"] = ideas(rounds)
    single = calls(np.random.default_rng(0))
    taken = in_turn({name: f for name, (f, *_) in single.items()}, rounds, at_least=2e-3)
    record["calls"] = [
        {"name": name, "calls": n, "bytes": moved, "operations": done, "seconds": min(taken[name])}
        for name, (_, n, moved, done) in single.items()
    ]
    record["tiles"] = tiles(rounds)
    record["machine"]["load after"] = round(os.getloadavg()[0], 2)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
