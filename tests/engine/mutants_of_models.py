"""Wrong models, made from right ones by single edits, and the cases that must refute them.

    python tests/engine/mutants_of_models.py                     every edit of every file below
    python tests/engine/mutants_of_models.py blocks attention    of these files or functions

A mutant is refuted when, in some case, it raises, or the loss or a gradient is not what it should be. What
it should be comes from the readable model as it is, which the twin confirms in other tests.
"""

import ast
import functools
import inspect
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np
import optree
import torch
from cases import CASES, problem, workspace_of
from checked_loops import PLAIN, PROBLEMS
from same_mutants import SAME

from handgrad import blocks, model, optim
from handgrad.fast import memory, sharing, step
from handgrad.fast.update import adamw_in_place
from handgrad.mistakes.mutations import Program, watched

# Cases ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A result, a tree of arrays, that is computed by functions which may be mutants, and what it should be.

    tolerance: of the largest number of each array. compute, truth: without arguments.
    """

    name: str
    compute: Callable
    truth: Callable
    tolerance: float

    @functools.cached_property
    def wanted(self):
        return numbers(self.truth())

    def refutes(self):
        """Whether the result, as it is at this moment, is another than it should be."""
        wanted = self.wanted
        try:
            with warnings.catch_warnings(), limit(10), patch.object(memory, "CHUNK", 2**16):
                warnings.simplefilter("error")  # as in all tests
                got = numbers(self.compute())
        except Exception:  # whatever an edit makes of a program
            return True
        return not same(got, wanted, self.tolerance)


def numbers(result):
    """(structure, arrays) of a tree."""
    leaves, structure = optree.tree_flatten(result)
    return structure, [np.asarray(leaf) for leaf in leaves]


def same(got, wanted, tolerance):
    """Whether structures, shapes and types are equal, and the numbers nearly, as in twin.compare."""
    (structure, ours), (expected, theirs) = got, wanted
    if structure != expected or any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(ours, theirs)):
        return False
    if not all(np.isfinite(a).all() for a in ours):
        return False
    tops = [np.abs(b).max(initial=0) for b in theirs]
    scales = np.repeat(np.maximum(tops, 1e-5 * max(tops)), [b.size for b in theirs])
    got, wanted = (np.concatenate([a.reshape(-1) for a in arrays]) for arrays in (ours, theirs))
    return bool((np.abs(got - wanted) <= tolerance * scales).all())


@contextmanager
def limit(seconds):
    """TimeoutError after so many seconds of work, in whatever thread."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


LIBRARIES = {"numpy": lambda x: x, "torch": lambda x: torch.from_numpy(x.copy())}


class Asked:
    """The problem of a row of the table, after changes. Long ones are cut: every mutant asks again."""

    def __init__(self, case, **changes):
        most = {"B": 4, "T": 40, "S": 20, "N": 2, "V": 20, "F": 20}
        cut = {name: min(case[name], most[name]) for name in most if case[name] is not None}
        self.case = case | cut | changes
        self.params, self.config, self.batch, self.new_draw, self.label_smoothing = problem(self.case)
        if self.case.get("large"):  # numbers whose exponentials are beyond all bounds
            for path, leaf in zip(optree.tree_paths(self.params), optree.tree_leaves(self.params)):
                leaf *= 1000 if path[-1] in ("E", "W_Q", "W_out") else 1
        if self.case.get("strided"):  # arrays with gaps, of 32 bits: such are brought too
            self.batch = {name: with_gaps(array.astype(np.int32)) for name, array in self.batch.items()}
            draw = self.new_draw
            self.new_draw = lambda: (own := draw()) and (lambda shape: with_gaps(own(shape)))
        for leaf in (*optree.tree_leaves(self.params), *self.batch.values()):
            leaf.flags.writeable = False  # nobody writes to what was given
        self.to, self.last = LIBRARIES[self.case["library"]], None

    def arrays(self):
        """params, config, batch, draw_keep: what a step takes, of the library."""
        draw, to = self.new_draw(), self.to
        batch = optree.tree_map(np.copy if self.case["B"] == 1 else to, self.batch)  # both are taken
        return optree.tree_map(to, self.params), self.config, batch, draw and (lambda shape: to(draw(shape)))

    def plain(self):
        """The same of NumPy, in new containers."""
        params, batch = optree.tree_map(lambda leaf: leaf, (self.params, self.batch))
        return params, self.config, batch, self.new_draw()

    def workspace(self):
        """That of the case, with numbers in its memory that are none. The one before lets its threads go."""
        if self.last:
            self.last.threads.shutdown()
        self.last = workspace = workspace_of(self.case)
        for arena in workspace.arenas:
            arena.reset(self.params["embedding"]["E"].dtype)
            chunk = memory.empty((2**16,), arena.dtype)
            chunk[...] = np.nan
            arena.chunks.append((0, chunk))
        return workspace

    def upstream(self, logits):
        return np.random.default_rng(2).standard_normal(tuple(logits.shape))


def with_gaps(x):
    """The same numbers, each with a gap behind it."""
    return np.repeat(x, 2, axis=-1)[..., ::2]


def readable(asked):
    return model.loss_and_gradients(*asked.arrays(), asked.label_smoothing)


def readable_of_numpy(asked):
    return model.loss_and_gradients(*asked.plain(), asked.label_smoothing)


def readable_halves(asked):
    logits, cache = model.forward(*asked.plain())
    return logits, model.backward(asked.upstream(logits), cache)


def fast(asked):
    """The fast step, in memory full of what is no number, and with a tree for the gradients."""
    params, *others = asked.plain()
    out = optree.tree_map(lambda p: np.nan * p, params)
    loss, grads = step.loss_and_gradients(params, *others, asked.label_smoothing, asked.workspace(), out)
    assert grads is out and asked.last.uses == 1
    return loss, grads


def fast_of_torch(asked):
    """The fast step, of a batch of PyTorch, and of parameters with gaps."""
    params, config, batch, draw = asked.plain()
    params = optree.tree_map(with_gaps, params)
    batch = {name: torch.from_numpy(array.copy()) for name, array in batch.items()}
    return step.loss_and_gradients(params, config, batch, draw, asked.label_smoothing)


def fast_in_new_memory(asked):
    return step.loss_and_gradients(*asked.plain(), asked.label_smoothing)


USED = "RuntimeError: cache: expected that of the workspace's last step, but it has been used since"


def halves(asked):
    """The fast forward and backward, for a random upstream gradient. What they return is the caller's."""
    workspace = asked.workspace()
    logits, cache = step.forward(*asked.plain(), workspace)
    kept, upstream = logits.copy(), asked.upstream(logits)
    grads = step.backward(upstream, cache)
    if len(workspace.arenas) == 1:  # all that was handed out was given back, but the gradient of the memory
        memory = asked.batch["source"].size * asked.config.D if "source" in asked.batch else 0
        assert workspace.arenas[0].used == -(-memory // 16) * 16
    assert asked.case["B"] > 1 or all(arena.used == 0 for arena in workspace.arenas[1:])
    assert np.array_equal(kept, logits)
    assert message(lambda: step.backward(upstream, cache)) == USED
    step.forward(*asked.plain(), workspace)
    assert message(lambda: step.backward(upstream, cache)) == USED
    return logits, grads


def halves_in_new_memory(asked):
    logits, cache = step.forward(*asked.plain())
    return logits, step.backward(asked.upstream(logits), cache)


def two_updates(update):
    """p, m and v after two updates, which are functions of p, a gradient and the moments."""
    p, *gradients = np.random.default_rng(0).standard_normal((3, 50))
    moments = {"step": 0, "m": np.zeros(50), "v": np.zeros(50)}
    for g in gradients:
        p, moments = update(p, g, moments)
    return {"p": p, "m": moments["m"], "v": moments["v"]}


def fast_update(p, g, moments):
    adamw_in_place(p, g, moments, rate=0.1, eps=1e-3, weight_decay=0.3)
    return p, moments


def readable_update(p, g, moments):
    return optim.adamw(p, g, moments, rate=0.1, eps=1e-3, weight_decay=0.3)


def lines_of_memory():
    """Where what `empty` gives begins in a line of the cache, and its size."""
    arrays = [memory.empty((size,), np.dtype(kind)) for size in range(1, 40) for kind in ("f4", "f8")]
    return np.array([(array.ctypes.data % 64.0, array.size) for array in arrays])


def first_lines():
    return np.array([(0, size) for size in range(1, 40) for _ in ("f4", "f8")], np.float64)


def message(f):
    """What f raises, in words."""
    try:
        f()
    except (TypeError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


def refusals(asked, gradients, forward):
    """What is said of bad batches: a tree with the words as its keys."""
    (params, config, batch, draw), drawn = asked.plain(), []
    tokens, targets = batch["tokens"], batch["target_out"]

    def wrong_keep(shape):
        drawn.append(shape)
        return draw(shape if len(drawn) % 2 else shape[1:])

    bad = [
        ({"target_out": targets}, {}),
        ({"tokens": tokens}, {}),
        ({"tokens": tokens + config.V, "target_out": targets}, {}),
        ({"tokens": tokens, "target_out": targets + config.V}, {}),
        ({"tokens": tokens, "target_out": 0 * targets - 100}, {}),
        (batch, {"label_smoothing": 1.5}),
        (batch, {"draw_keep": wrong_keep}),
    ]
    said = [message(functools.partial(gradients, params, config, given, **more)) for given, more in bad]
    said += [message(functools.partial(forward, params, config, given)) for given, _ in bad[:3]]
    return {f"{number}: {words}": np.ones(1) for number, words in enumerate(said)}


def doors(asked):
    """What is said where the fast step's own arguments do not fit: the first words, as keys of a tree."""
    params, config, batch, _ = asked.plain()
    out, workspace = optree.tree_map(lambda p: 0 * p, params), asked.workspace()
    half = optree.tree_map(lambda p: p.astype(np.float16), params)

    def gradients(params=params, out=out):
        return step.loss_and_gradients(params, config, batch, None, 0.0, workspace, out)

    def forward(params=params):
        return step.forward(params, config, batch, None, workspace)

    _, cache = gradients(), forward()[1]
    upstream = np.ones((*batch["tokens"].shape, config.V))
    given = [
        lambda: gradients(out=out | {"head": {}}),
        lambda: gradients(out=params),
        lambda: gradients(out={f"{key} ": part for key, part in out.items()}),
        lambda: gradients(out=replaced(out, 0, params)),
        lambda: gradients(params=replaced(params, -1, out)),
        lambda: gradients(params=params | {"head": {}}),
        lambda: forward(params=params | {"head": {}}),
        lambda: step.backward(upstream[:1], cache),
        lambda: step.backward(upstream, cache, out=params),
        lambda: gradients(params=half),
        lambda: forward(params=half),
    ]
    said = [message(f) for f in given]
    with workspace.one_step():
        said += [message(f) for f in (gradients, forward, lambda: step.backward(upstream, cache, out=out))]
    assert step.backward(upstream, cache, out=out) is out
    return {f"{number}: {words.rpartition(': expected')[0]}": np.ones(1) for number, words in enumerate(said)}


def replaced(tree, number, other):
    """The tree, with one leaf of another."""
    leaves, structure = optree.tree_flatten(tree)
    leaves[number] = optree.tree_leaves(other)[number]
    return optree.tree_unflatten(structure, leaves)


def wanted_of_doors():
    names = [*["out"] * 5, "params", "params", "dlogits", "out", "params", "params", *["workspace"] * 3]
    kinds = [*["ValueError"] * 9, *["TypeError"] * 2, *["RuntimeError"] * 3]
    said = enumerate(zip(kinds, names))
    return {f"{number}: {kind}: {name}": np.ones(1) for number, (kind, name) in said}


DECODER = next(case for case in CASES.values() if case["kind"] == "decoder")
DECODER = DECODER | {"B": 3, "pad": None, "blind": None}
DECODER = DECODER | {"p": 0.3, "dropout_sites": ("embedding", "attention", "sublayer")}


def cases_of(solve, truth, chosen=lambda number, case: True, tolerance=1e-10, **changes):
    """Cases of the rows of the table that are chosen."""
    made = []
    for number, (name, case) in enumerate(CASES.items()):
        if chosen(number, case):
            asked = functools.cache(lambda case=case: Asked(case, **changes))
            compute, wanted = (lambda f=f, asked=asked: f(asked()) for f in (solve, truth))
            made.append(Case(f"{name}: {solve.__name__}", compute, wanted, tolerance))
    return made


def every(n, first):
    """Chooses each n-th row of the table."""
    return lambda number, case: number % n == first


def single(number, case):
    return case["precision"] == "float32" and number % 4 == 0


def cases_of_pieces():
    """The update, lines of memory, and what is refused."""
    asked = Asked(DECODER)
    pieces = {
        "update": (lambda: two_updates(fast_update), lambda: two_updates(readable_update)),
        "refusals": (
            lambda: refusals(asked, step.loss_and_gradients, step.forward),
            lambda: refusals(asked, model.loss_and_gradients, model.forward),
        ),
        "doors": (lambda: doors(asked), wanted_of_doors),
        "lines of memory": (lines_of_memory, first_lines),
        "a batch of torch, and gaps": (lambda: fast_of_torch(asked), lambda: readable_of_numpy(asked)),
    }
    return [Case(name, *functions, 1e-12) for name, functions in pieces.items()]


def cases_of_loops():
    """Every loop as plain Python. Of infinite numbers it takes differences before it looks at them."""

    def solve(problem):
        with np.errstate(invalid="ignore", over="ignore"):
            return problem.solve(PLAIN[problem.name], np.float64)

    return [
        Case(
            f"{problem.name}, {problem.what}",
            functools.partial(solve, problem),
            problem.wanted,
            problem.tolerance,
        )
        for problem in PROBLEMS
    ]


TOGETHER = {"B": 4, "workers": 1, "at_once": 2**20}
"""More sequences at once than queries in a block."""
READABLE = [
    *cases_of(readable, readable_of_numpy, precision="float64"),
    *cases_of(readable_halves, readable_halves, every(4, 0), precision="float64"),
    *cases_of(readable, readable_of_numpy, single, tolerance=1e-2),
]
FAST = [
    *cases_of(fast, readable_of_numpy, precision="float64"),
    *cases_of(fast, readable_of_numpy, single, tolerance=1e-2),
    *cases_of(fast, readable_of_numpy, every(8, 3), precision="float64", queries=2, T=7, **TOGETHER),
    *cases_of(fast, readable_of_numpy, every(6, 5), tolerance=1e-7, precision="float64", large=True),
    *cases_of(fast_in_new_memory, readable_of_numpy, every(8, 1), precision="float64"),
    *cases_of(fast, readable_of_numpy, every(8, 7), precision="float64", strided=True),
    *cases_of(halves, readable_halves, every(4, 0), precision="float64"),
    *cases_of(halves, readable_halves, every(4, 2), precision="float64", workers=1),
    *cases_of(halves, readable_halves, every(8, 5), precision="float64", workers=2, B=1),
    *cases_of(halves_in_new_memory, readable_halves, every(16, 1), precision="float64"),
    *cases_of_pieces(),
]


# Mutants ----------------------------------------------------------------------------------------------------


@dataclass
class Count:
    """What became of the mutants of a function."""

    name: str
    made: int = 0
    refuted: int = 0
    killers: dict = field(default_factory=dict)  # the name of a case -> how many mutants it refuted
    same: dict = field(default_factory=dict)  # the place of an edit that changes nothing -> why
    survivors: list = field(default_factory=list)  # the places of those of which nobody knows why


def bindings(function):
    """Everywhere in the package where a function is bound: pairs (dictionary, key)."""
    found = []
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "handgrad":
            found += [(vars(module), key) for key, value in vars(module).items() if value is function]
    return found + [(PLAIN, key) for key, value in PLAIN.items() if value is function]


@contextmanager
def in_place_of(function, other):
    """Wherever the package says `function`, it is `other`."""
    places = [(table, key, table[key]) for table, key in bindings(function)]
    for table, key, _ in places:
        table[key] = other
    try:
        yield
    finally:
        for table, key, value in places:
            table[key] = value


@dataclass
class Suspect:
    """A function, its edits, and the cases that call it, the quick ones first."""

    function: Callable
    program: Program
    edits: list
    callers: list

    @property
    def name(self):
        return f"{self.program.names['__name__'].rpartition('.')[2]}.{self.program.tree.name}"


def suspects(functions, cases):
    """A Suspect for every function, from what the cases make of it. The right ones are refuted by none."""
    made = {inspect.unwrap(f): Suspect(f, program_of(inspect.unwrap(f)), [], []) for f in functions}
    seconds, situations, known = {}, set(), set()
    for case in cases:
        begin = time.perf_counter()
        with watched(*made) as calls:
            assert not case.refutes(), f"{case.name}: the right one is refuted"
        seconds[case] = time.perf_counter() - begin
        for function, found in calls:
            one = made[function]
            if one.callers[-1:] != [case]:
                one.callers.append(case)
            situation = function, *((name, type(x), getattr(x, "ndim", 0)) for name, x in found.items())
            if situation not in situations:
                situations.add(situation)
                for edit in one.program.edits_of(found):
                    key = tuple(
                        (id(old), ast.unparse(ast.fix_missing_locations(new))) for old, new in edit.changes
                    )
                    if key not in known:
                        known.add(key)
                        one.edits.append(edit)
    for one in made.values():
        one.callers.sort(key=seconds.get)
    return list(made.values())


def program_of(function):
    """Its Program, with what it sees around it."""
    return Program(function, inspect.getclosurevars(function).nonlocals, lines=True)


def judged(one, edits=None):
    """What the cases make of the mutants of a function, all of them or those of some edits: a Count.

    What passes is told from the right one, and from what passed before, by its text.
    """
    count, order, passed = Count(one.name), list(one.callers), {one.program.source()}
    for edit in one.edits if edits is None else edits:
        count.made += 1
        try:
            other = one.program.function(edit)
        except SyntaxError:  # it is no program
            count.refuted += 1
            continue
        with in_place_of(one.function, other):
            killer = next((case for case in order if case.refutes()), None)
        if killer is None:
            reason, text = reason_of(one.name, edit.place), one.program.source(edit)
            if text in passed:
                count.made -= 1
            elif reason:
                count.same[edit.place] = reason
            else:
                count.survivors.append(edit.place)
            passed.add(text)
        else:
            count.refuted += 1
            count.killers[killer.name] = count.killers.get(killer.name, 0) + 1
            order.remove(killer)
            order.insert(0, killer)
    for case in order:
        if case.name in count.killers and case.refutes():
            raise RuntimeError(f"{case.name}: after the mutants of {one.name} it refutes the right one too")
    return count


def reason_of(name, place):
    """Why that edit of the function of that name changes nothing, or None."""
    return next((why for part, why in SAME.get(name, {}).items() if part in place), None)


def functions(module, fits=lambda name: True):
    """The functions that a module writes itself."""
    own = [f for f in vars(module).values() if inspect.isfunction(inspect.unwrap(f))]
    return [f for f in dict.fromkeys(own) if f.__module__ == module.__name__ and fits(f.__name__)]


def goes_back(name):
    return name.endswith("backward") or name == "loss_and_gradients"


def goes_on(name):
    """What only looks at arguments, and says what is wrong with them, has tests of its own."""
    return not name.startswith("check_") and name not in ("described", "kind", "span")


SAME_CODE = ("relu: active", "gelu: active", "gelu_tanh: active")
LOOPS = [f for name, f in PLAIN.items() if not name.startswith(SAME_CODE)]
"""The loops; of those that all activations share, that of SiLU."""
TARGETS = {
    "blocks": (functions(blocks, goes_back), READABLE),
    "model": (functions(model, goes_back), READABLE),
    "sharing": (functions(sharing, goes_on), FAST),
    "memory": ([memory.empty, memory.shares], FAST),
    "step": (functions(step), FAST),
    "loops": (LOOPS, cases_of_loops()),
}


def main(names):
    """Judge, and print what became of the mutants: of each function, and of each file."""
    for module, (made, cases) in TARGETS.items():
        asked = [f for f in made if not names or {module, f"{module}.{f.__name__}"} & set(names)]
        begin, counts = time.process_time(), []
        for one in suspects(asked, cases) if asked else ():
            counts.append(judged(one))
            report(counts[-1])
            for place in counts[-1].survivors:
                print(f"    survives: {place}", flush=True)
            for part in unused(counts[-1]):
                print(f"    no such mutant survives: {part}", flush=True)
        if counts:
            report(total(module, counts), f", {time.process_time() - begin:.0f} s")


def unused(count):
    """The parts of places in the table that explain no mutant of the function."""
    return [part for part in SAME.get(count.name, {}) if not any(part in place for place in count.same)]


def total(name, counts):
    """One Count of several."""
    made, refuted = sum(c.made for c in counts), sum(c.refuted for c in counts)
    same = {f"{c.name}: {place}": reason for c in counts for place, reason in c.same.items()}
    return Count(name, made, refuted, {}, same, [place for c in counts for place in c.survivors])


def report(count, more=""):
    same = count.made - count.refuted - len(count.survivors)
    print(f"{count.name}: {count.made} mutants, {count.refuted} refuted, {same} the same{more}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
