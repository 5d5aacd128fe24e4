"""What each idea of the fast step brings by itself, and one chain of its steps in six ways.

    OMP_NUM_THREADS=1 python -m benchmarks.ideas        writes benchmarks/results/ideas.json, in some minutes

ideas    the training step of chapter 20 without its update, by the readable lines and by `handgrad.fast`:
         on a stair from none of the six ideas to all. In each round all of them run, in an order drawn anew;
         what counts is the ratio of two times of a round, its median and quartiles.
chain    bias and GELU with tanh, forward and backward: as passes of NumPy, as passes over blocks, as one
         compiled loop, by PyTorch as it stands and compiled, and the loop's lines, compiled by PyTorch; the
         shortest of their times, which is nearest to what they take on an idle machine.

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

from . import passes
from .machine import IDLE, machine, wait_until_idle
from .report import quartiles
from .variants import Size, limit

RESULTS = Path(__file__).parent / "results" / "ideas.json"
SIZE = Size(D=128, N=2, H=4, T=128, B=16, V=256, F=512)
TOLERANCE = 2e-5  # of a gradient: sums of float32 in another order were apart by 2e-6
ENDLESS = 2**62  # more than there is of anything
BLOCK = 2**17  # numbers that passes take at a time, which stay in the cache

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


def steps(size=SIZE):
    """{name: step}: readable, and the stair {"with 0".."with 6"}."""
    config = gpt2_small(D=size.D, N=size.N, H=size.H, T_max=size.T, V=size.V, F=size.F, p=0.0)
    params = init(config, np.random.default_rng(19), np.float32)
    tokens = np.random.default_rng(19).integers(size.V, size=(size.B, size.T + 1))
    problem = params, config, {"tokens": tokens[:, :-1], "target_out": tokens[:, 1:]}
    found = {"readable": partial(model.loss_and_gradients, *problem)}
    for n in range(len(IDEAS) + 1):
        found[f"with {n}"] = Step(IDEAS[:n], *problem)
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
    whole = f"with {len(IDEAS) - 1}"  # on one core
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
        "over the limit": {n: ratio(bound[n], alone_in_rounds) for n in ("readable", whole)},
    }


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


class Counted(np.ndarray):
    """Notes calls of NumPy's element-wise functions on arrays, and the bytes that they read and write."""

    calls = moved = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        given = [np.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs]  # a scalar stays weak
        if out is not None:
            options["out"] = tuple(map(np.asarray, out))
        result = np.asarray(getattr(ufunc, method)(*given, **options))
        Counted.calls += 1
        Counted.moved += sum(np.asarray(x).nbytes for x in inputs) + result.nbytes
        return result.view(Counted)


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
    Counted.calls = Counted.moved = 0
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


def in_turn(functions, rounds):
    """{name: seconds of each round}: in a round each runs once, after a run that is not timed."""
    taken, order = {name: [] for name in functions}, random.Random(0)
    for _ in range(rounds):
        for name in order.sample(list(functions), len(functions)):
            functions[name]()
            start = time.perf_counter()
            functions[name]()
            taken[name].append(time.perf_counter() - start)
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
    record["chain"] = chain(rounds)  # last: it loads torch
    record["machine"]["load after"] = round(os.getloadavg()[0], 2)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
