"""What each idea of the fast step brings by itself, and what a call, a byte and an operation cost.

    OMP_NUM_THREADS=1 python -m benchmarks.ideas        writes benchmarks/results/ideas.json, in some minutes

ideas    the training step of chapter 20 without its update, by the readable lines and by `handgrad.fast`:
         with one idea taken out, and on a stair from none of the six to all. In each round all of them run,
         in an order drawn anew; what counts is the ratio of two times of a round, its median and quartiles.
calls    single calls of NumPy, small and large: how many calls, bytes and operations they have, and the
         shortest of their times, which is nearest to what they take on an idle machine.
chain    bias and GELU with tanh, forward and backward: as passes of NumPy, as passes over blocks, as one
         compiled loop, by PyTorch as it stands and compiled, and the loop's lines, compiled by PyTorch; the
         shortest of their times.
touch    x * x of a large array, into a fresh array and into one that is there already: the shortest times.
tiles    attention forward and backward of one head, plain and in tiles: calls, bytes and operations counted,
         bytes of large arrays that are made for a result, and the shortest of their times.

It begins on an idle machine only: a slow moment hits all of a round, but the rounds then differ, and the two
workers find no second core. Everything runs on one thread, but for these.
"""

import argparse
import json
import math
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
from handgrad.fast import Workspace, memory
from handgrad.fast import step as fast_step
from handgrad.fast.loops import of_kind
from handgrad.ops import attention, attention_backward, flash_attention, flash_attention_backward

from . import passes
from .machine import IDLE, machine, wait_until_idle
from .report import quartiles
from .variants import Size, limit

RESULTS = Path(__file__).parent / "results" / "ideas.json"
SIZE = Size(D=128, N=2, H=4, T=128, B=16, V=256, F=512)
TOLERANCE = 2e-5  # of a gradient: sums of float32 in another order were apart by 2e-6
ENDLESS = 2**62  # more than there is of anything
BLOCK = 2**17  # numbers that passes take at a time, which stay in the cache
LARGE = (
    2**25
)  # bytes: an array of so many is new memory of the system each time, by the rule of glibc's malloc

# The six ideas, each with what takes it out -----------------------------------------------------------------


class Kept:
    """Activations that the forward keeps: a in the place of h, and the slope φ' in memory of its own.

    The backward then multiplies, and computes nothing again. Every step uses the memory again: what is
    measured is the recomputation.
    """

    def __init__(self):
        self.arrays, self.used = [], 0

    def forward(self, h, b, up, keep, activation, p, arena):
        """fast.step.active, without a gate."""
        if self.used == len(self.arrays):
            self.arrays.append(np.empty_like(h))
        slope, self.used = self.arrays[self.used], self.used + 1
        _, both = arena.loops.activations[activation]
        few = max(1, BLOCK // h.shape[1])
        for rows in (slice(start, start + few) for start in range(0, len(h), few)):
            h[rows] += b
            slope[rows] = 1
            both(h[rows], slope[rows], None, None, 1.0)
        return h

    def backward(self, da, h, up, keep, activation, p, arena):
        """fast.step.active_backward: h is a since the forward."""
        self.used -= 1
        da *= self.arrays[self.used]

    @contextmanager
    def __call__(self):
        self.used = 0
        with (
            patch.object(fast_step, "active", self.forward),
            patch.object(fast_step, "active_backward", self.backward),
        ):
            yield


@contextmanager
def without_causal_blocks():
    """One block of all queries: the bound of their number is taken away."""
    with patch.object(fast_step, "max", lambda *_: ENDLESS, create=True):
        yield


IDEAS = ("nothing hidden", "blocks", "loops", "recomputation", "workspace", "two workers")
ALONE = ("nothing hidden", "loops", "recomputation", "workspace")
"""Those that are taken out of the whole, with one worker. Loops leave nothing for blocks to do."""


class Step:
    """The fast step with some of the ideas, ready to run again and again. workers: with "two workers"."""

    def __init__(self, ideas, params, config, batch):
        self.ideas, self.arguments = set(ideas), (params, config, batch)
        self.grads = optree.tree_map(np.empty_like, params)
        self.kept, self.workspace = Kept(), self.new_workspace()

    def new_workspace(self):
        """Memory, and that of the passes. Without "workspace" a worker takes all its sequences at once."""
        self.passes = passes.of_kind(np.float32, BLOCK if "blocks" in self.ideas else None)
        queries = 128 if "nothing hidden" in self.ideas else self.arguments[1].T_max
        workers = 2 if "two workers" in self.ideas else 1
        at_once = {} if "workspace" in self.ideas else {"at_once": ENDLESS}
        return Workspace(workers, queries=queries, **at_once)

    def __call__(self):
        if "workspace" not in self.ideas:
            self.workspace = self.new_workspace()
        with ExitStack() as stack:
            if "nothing hidden" not in self.ideas:
                stack.enter_context(without_causal_blocks())
            if "loops" not in self.ideas:
                stack.enter_context(patch.object(memory, "of_kind", lambda _: self.passes))
            if "recomputation" not in self.ideas:
                stack.enter_context(self.kept())
            return fast_step.loss_and_gradients(*self.arguments, workspace=self.workspace, out=self.grads)

    def bytes(self):
        """The most of the workspace that was in use at a time, and what is kept beside it."""
        used = sum(max(end for _, end in arena.placed.values()) for arena in self.workspace.arenas)
        beside = [*self.kept.arrays, *self.passes.scratch.values()]
        return 4 * used + sum(array.nbytes for array in beside)


def steps(size=SIZE):
    """{name: step}: readable, the stair {"with 0".."with 6"}, and the whole without each idea."""
    config = gpt2_small(D=size.D, N=size.N, H=size.H, T_max=size.T, V=size.V, F=size.F, p=0.0)
    params = init(config, np.random.default_rng(19), np.float32)
    tokens = np.random.default_rng(19).integers(size.V, size=(size.B, size.T + 1))
    problem = params, config, {"tokens": tokens[:, :-1], "target_out": tokens[:, 1:]}
    found = {"readable": partial(model.loss_and_gradients, *problem)}
    for n in range(len(IDEAS) + 1):
        found[f"with {n}"] = Step(IDEAS[:n], *problem)
    for idea in ALONE:  # with one worker: the measure of the others
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
    alone = {idea: ratio(taken[f"without {idea}"], taken[whole]) for idea in ALONE}
    alone["two workers"] = ratio(taken[whole], taken[f"with {len(IDEAS)}"])
    for name in (whole, "without recomputation", "without loops", f"with {len(IDEAS)}"):
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
    """Notes calls of NumPy on arrays, the bytes that they read and write, and their operations.

    fresh: the bytes of large results for which no array was given.
    """

    calls = moved = operations = fresh = 0

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
        Counted.fresh += result.nbytes if not out and result.nbytes >= LARGE else 0
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
            Counted.fresh += result.nbytes if result.nbytes >= LARGE else 0
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
    """Calls, bytes, operations and bytes of fresh arrays of one way through attention, forward and back."""
    Counted.calls = Counted.moved = Counted.operations = Counted.fresh = 0
    through(way, *(x.view(Counted) for x in arrays))
    names = {"calls": "calls", "bytes": "moved", "operations": "operations", "fresh": "fresh"}
    return {name: getattr(Counted, own) for name, own in names.items()}


def touch(rounds, n=2**24):
    """The record of a large result: its bytes, and seconds with a fresh array for it and with one at hand."""
    x, y = np.ones((2, n), np.float32)
    ways = {"fresh": lambda: x * x, "at hand": partial(np.multiply, x, x, out=y)}
    return {"bytes": y.nbytes} | {way: min(times) for way, times in in_turn(ways, rounds).items()}


def tiles(rounds, lengths=(256, 1024, 2048, 4096), K=64):
    """The record of attention."""
    rows = []
    for T in lengths:
        q, k, v, dy = np.random.default_rng(0).standard_normal((4, T, K), dtype=np.float32)
        taken = in_turn({way: partial(through, way, q, k, v, dy) for way in WAYS}, max(3, rounds // 4))
        for way, times in taken.items():
            rows.append({"way": way, "T": T, **counted(way, q, k, v, dy), "seconds": min(times)})
    return rows


# One chain, six ways ----------------------------------------------------------------------------------------

CHAIN = (2048, 512)
PEERS = ("PyTorch, eager", "PyTorch, compiled", "PyTorch, our lines")


class Chain:
    """h ← h + b and a ← φ(h), and its gradient: dh = da ∘ φ'(h), and a once more. φ is GELU with tanh.

    way: "passes", "blocks" or "loop". What is in place must not be applied twice to the same numbers, or they
    would leave the range of a model: h and da are copied into place before, which is not timed.
    """

    def __init__(self, way, shape, rng):
        self.h, self.da = rng.standard_normal((2, *shape), dtype=np.float32)
        self.b, self.a = rng.standard_normal(shape[1], dtype=np.float32), np.empty_like(self.h)
        self.space = of_kind(np.float32)
        if way != "loop":
            self.space = passes.of_kind(np.float32, BLOCK if way == "blocks" else None)
        self.at, self.dat = self.h.copy(), self.da.copy()

    def ready(self):
        np.copyto(self.at, self.h)
        np.copyto(self.dat, self.da)

    def forward(self):
        self.space.activations["gelu_tanh"][0](self.at, self.a, self.b, None, None, 1.0)
        return self.at, self.a

    def backward(self):
        self.space.activations["gelu_tanh"][1](self.at, self.dat, None, None, 1.0)
        return self.at, self.dat


class PeerChain:
    """The same by PyTorch, into memory that is there already: its own GELU, as it stands or by torch.compile.

    "PyTorch, our lines" is what the loop says, with exp in place of tanh, by torch.compile.
    """

    def __init__(self, way, shape, rng):
        import torch
        from torch.nn.functional import gelu

        torch.set_num_threads(1)
        own, slope = torch.ops.aten.gelu, torch.ops.aten.gelu_backward
        tanh = {"approximate": "tanh"}
        linear, cubic = math.sqrt(2 / math.pi), math.sqrt(2 / math.pi) * 0.044715

        def forward(h, b, a):
            own.out(h.add_(b), **tanh, out=a)

        def backward(h, da, a):
            own.out(h, **tanh, out=a)
            slope.grad_input(da, h, **tanh, grad_input=da)

        def forward_to_compile(h, b, a):
            a.copy_(gelu(h.add_(b), **tanh))

        def backward_to_compile(h, da, a):
            a.copy_(gelu(h, **tanh))
            da.copy_(slope(da, h, **tanh))

        def gate(x):
            return 1 / (1 + torch.exp(-2 * x * (linear + cubic * x * x)))

        def our_forward(h, b, a):
            x = h.add_(b)
            a.copy_(x * gate(x))

        def our_backward(h, da, a):
            g = gate(h)
            a.copy_(h * g)
            da.mul_(g * (1 + h * (1 - g) * 2 * (linear + 3 * cubic * h * h)))

        self.ways = {
            "PyTorch, eager": (forward, backward),
            "PyTorch, compiled": (forward_to_compile, backward_to_compile),
            "PyTorch, our lines": (our_forward, our_backward),
        }[way]
        if way != "PyTorch, eager":
            self.ways = [torch.compile(f, dynamic=False) for f in self.ways]
        self.h, self.da = map(torch.from_numpy, rng.standard_normal((2, *shape), dtype=np.float32))
        self.b = torch.from_numpy(rng.standard_normal(shape[1], dtype=np.float32))
        self.at, self.dat, self.a = self.h.clone(), self.da.clone(), torch.empty_like(self.h)

    def ready(self):
        self.at.copy_(self.h)
        self.dat.copy_(self.da)

    def forward(self):
        self.ways[0](self.at, self.b, self.a)
        return self.at, self.a

    def backward(self):
        self.ways[1](self.at, self.dat, self.a)
        return self.a, self.dat


def chain_costs(way, direction, shape):
    """Calls, bytes through them, and bytes of the arrays that must be read or written at least once.

    A loop of the forward reads h and writes h and a; one of the backward reads and writes h and da. Passes
    over whole arrays write and read those between them as well; blocks keep those in the cache.
    """
    least = (3 if direction == "forward" else 4) * 4 * math.prod(shape)
    if way.startswith("PyTorch"):
        return {"calls": None, "bytes": None, "memory": least}
    if way == "loop":
        return {"calls": 1, "bytes": least, "memory": least}
    chain = Chain(way, shape, np.random.default_rng(0))
    for name in ("at", "dat", "a"):
        setattr(chain, name, getattr(chain, name).view(Counted))
    Counted.calls = Counted.moved = Counted.operations = 0
    getattr(chain, direction)()
    between = sum(x.nbytes for x in chain.space.scratch.values()) if way == "passes" else 0
    return {"calls": Counted.calls, "bytes": Counted.moved, "memory": least + 2 * between}


def chain(rounds, shape=CHAIN):
    """The record of the chain. Raises AssertionError unless all ways compute the same."""
    import torch

    built = {way: Chain(way, shape, np.random.default_rng(1)) for way in ("passes", "blocks", "loop")}
    built |= {way: PeerChain(way, shape, np.random.default_rng(1)) for way in PEERS}
    absent = {}
    record = {"shape": list(shape), "load": round(os.getloadavg()[0], 2)}
    for direction in ("forward", "backward"):
        results = {}
        for way, own in built.items():
            own.ready()
            try:
                results[way] = [np.asarray(x).copy() for x in getattr(own, direction)()]
            except torch._dynamo.exc.BackendCompilerFailed as error:
                absent[way] = str(error).strip().splitlines()[0]
        for way, found in results.items():
            for ours, wanted in zip(found, results["passes"], strict=True):
                np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-5, err_msg=f"{way}, {direction}")
        taken = shortest({way: (built[way].ready, getattr(built[way], direction)) for way in results}, rounds)
        record[direction] = []
        for way in built:
            row = {"way": way, **chain_costs(way, direction, shape), "seconds": taken.get(way)}
            record[direction].append(row | ({"absent": absent[way]} if way in absent else {}))
    return record


def shortest(ways, rounds, often=5):
    """{way: the shortest time}. ways: {way: (what comes before and is not timed, what is timed)}."""
    least, order = dict.fromkeys(ways, math.inf), random.Random(0)
    for _ in range(rounds * often):
        for way in order.sample(list(ways), len(ways)):
            before, run = ways[way]
            before()
            start = time.perf_counter()
            run()
            least[way] = min(least[way], time.perf_counter() - start)
    return least


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
    parser.add_argument("--patience", type=float, default=300, help="seconds to wait for an idle machine")
    parser.add_argument("--busy", action="store_true", help="begin on a busy machine: to see that it works")
    options = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("expected OMP_NUM_THREADS=1 in the environment, so that a step without workers has one")
    load = wait_until_idle(0 if options.busy else options.patience)
    if load > IDLE and not options.busy:
        parser.error(
            f"expected a load of at most {IDLE}, got {load:.2f}: the ideas differ by less than that shifts"
        )
    rounds = options.rounds
    record = {"machine": machine() | {"load before": round(load, 2), "rounds": options.rounds}}
    record["ideas"] = ideas(rounds)
    single = calls(np.random.default_rng(0))
    taken = in_turn({name: f for name, (f, *_) in single.items()}, rounds, at_least=2e-3)
    record["calls"] = [
        {"name": name, "calls": n, "bytes": moved, "operations": done, "seconds": min(taken[name])}
        for name, (_, n, moved, done) in single.items()
    ]
    record["touch"] = touch(rounds)
    record["tiles"] = tiles(rounds)
    record["chain"] = chain(rounds)  # last: it loads torch
    record["machine"]["load after"] = round(os.getloadavg()[0], 2)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
