"""The processes of the variants, and what is measured with them, one step of each in turn."""

import random
import time
from collections import defaultdict

import numpy as np
from tqdm import tqdm

from handgrad import accounting

from . import report, worker
from .variants import (
    ALONE,
    EAGER,
    EAGER_HALVES,
    HAND,
    HELPERS,
    KEPT_ALONE,
    REFERENCE,
    STAGED,
    THREADS,
    VARIANTS,
    AbsentError,
    Setting,
    config_of,
)

UPDATES = 3
TOLERANCE = 1e-6
"""Of the losses, relative to the first: sixteen roundings of float32. A loss is a difference of logits, whose
rounding does not shrink with it. That of one token errs by more, but the mean is taken over all."""
TRIES, NEAR = 2, 1.25  # rounds in which the settings are compared; what comes so near the fastest takes part
PAUSE = 0.03  # seconds, in which the threads of the last process fall asleep: they wait busily for a while
GROWING = {HAND: (HAND, f"{HAND}, 2 workers"), EAGER: (EAGER, EAGER_HALVES)}
"""Whose steps are compared as the size grows, and the variants of each: at each size the fastest counts."""
LONE = {(name, setting) for name in (*STAGED.values(), EAGER) for setting in (ALONE, KEPT_ALONE)}
"""What is published with one worker and one thread, however fast it is otherwise."""


class WrongLossError(ValueError):
    """A variant computes something else."""


def check(name, losses, reference):
    """Raise WrongLossError, which names the variant, unless the losses are those of the reference."""
    if not np.allclose(losses, reference, rtol=0, atol=TOLERANCE * reference[0]):
        raise WrongLossError(f"{name}: expected the losses {reference}, got {losses}")


class Processes(dict):
    """(name, setting) -> the process of a variant, started when it is first asked for."""

    def __missing__(self, key):
        self[key] = worker.start(key[1])
        return self[key]

    def ask(self, key, task, **given):
        """The answer of a process. No other works meanwhile."""
        return self[key].submit(task, **given).result()

    def prepare(self, key, size, device):
        """Build a variant and run it: the losses before and after each update."""
        build = (VARIANTS | HELPERS)[key[0]].build
        given = {"build": build, "size": size, "workers": key[1].workers, "device": device}
        return self.ask(key, worker.prepare, **given, updates=UPDATES + 1)

    def prepare_checked(self, keys, size, device):
        """The keys that are ready, their losses checked, and {name: why} of those that cannot run here."""
        reference = self.prepare((REFERENCE, THREADS), size, "cpu")
        ready, absent = [], {}
        for key in tqdm(keys, f"checking, D {size.D}, T {size.T}", leave=False):
            try:
                check(", ".join(map(str, key)), self.prepare(key, size, device), reference)
                ready.append(key)
            except AbsentError as error:
                absent[key[0]] = str(error)
        return ready, absent

    def rounds(self, keys, least, seconds=0):
        """At least so many rounds and seconds, each in another order: {key: [(seconds, parts), ...]}."""
        taken, order, end = defaultdict(list), random.Random(0), time.monotonic() + seconds
        while least > 0 or time.monotonic() < end:
            least -= 1
            for key in order.sample(keys, len(keys)):
                time.sleep(PAUSE)
                taken[key].append(self.ask(key, worker.take))
        return {key: taken[key] for key in keys}

    def close(self):
        """End them all."""
        for process in self.values():
            process.shutdown()


def race(processes, size, device, names, least, seconds, tries=TRIES):
    """The record of one size: the settings tried, then the fast ones timed beside the products alone.

    Of each variant the fastest setting of the second part counts.
    """
    cpu = device == "cpu"
    settings = {name: VARIANTS[name].settings if cpu else (ALONE,) for name in names}
    keys = [(name, setting) for name in names for setting in settings[name][: None if tries > 1 else 1]]
    keys, absent = processes.prepare_checked(keys, size, device)
    tried = {key: report.summary(taken) for key, taken in processes.rounds(keys, tries).items()}
    for key in keys:
        tried[key]["memory"] = processes.ask(key, worker.extra_memory, device=device)
    least_of = {name: min(row["median"] for (n, _), row in tried.items() if n == name) for name, _ in keys}
    near = [key for key in keys if tried[key]["median"] <= NEAR * least_of[key[0]] or (cpu and key in LONE)]

    for key in set(keys) - set(near):  # their memory is needed
        processes.pop(key).shutdown()
    stages = [(stage, ALONE) for stage, name in STAGED.items() if cpu and name in least_of]
    limits = {key: limit_of(key, size) for key in near + stages}
    products = {library: (f"products, {library}", ALONE) for library in ("numpy", "torch") if cpu}
    bounds = sorted({*limits.values(), *products.values()})
    for key in [*bounds, *stages]:
        processes.prepare(key, size, device)
    taken = processes.rounds([*near, *stages, *bounds], least, seconds)

    def row(key):
        return {"setting": str(key[1]), "limit": ", ".join(map(str, limits[key]))} | report.summary(
            taken[key]
        )

    def best(name):
        rows = [row(key) | {"memory": tried[key]["memory"]} for key in near if key[0] == name]
        return min(rows, key=lambda row: row["median"])

    record = operations(size) | {"device": device, "size": size._asdict(), "absent": absent}
    record["settings"] = [{"variant": name, "setting": str(s)} | tried[name, s] for name, s in tried]
    record["variants"] = {name: best(name) for name in least_of}
    record["stages"] = {key[0]: row(key) for key in stages}
    record["limits"] = {", ".join(map(str, key)): report.summary(taken[key]) for key in bounds}
    record["products"] = {library: report.summary(taken[key])["median"] for library, key in products.items()}
    lone = [key for key in near if cpu and key in LONE]
    record["alone"] = report.alone({name: [row(key) for key in lone if key[0] == name] for name, _ in lone})
    return report.judge(record)


def limit_of(key, size):
    """The (name, setting) of the products that bound a variant: with as many workers as have a sequence to
    take, and with one thread for each of several, as in `fast`."""
    workers = min(key[1].workers, size.B)
    library = (VARIANTS | HELPERS)[key[0]].library
    return f"products, {library}", Setting(workers, 1 if workers > 1 else key[1].threads)


def operations(size):
    """Tokens and floating-point operations of a step: with all pairs of query and key, and the causal."""
    config, T = config_of(size), size.T
    pairs = 3 * 2 * size.B * accounting.multiply_adds(config, T)["scores and sums"]
    flops = size.B * accounting.training_flops(config, T)
    return {"tokens": size.B * T, "flops": flops, "flops_causal": flops - pairs * (T - 1) / (2 * T)}


def growth(processes, letter, sizes, least, most=None):
    """Median times of a step while one letter of the size grows, and the powers that fit them.

    At each size all settings of GROWING's variants are tried (or the first `most` of each), and the fastest
    counts.
    """
    record = {"values": [getattr(size, letter) for size in sizes]}
    record |= {"times": defaultdict(list), "settings": defaultdict(list)}
    record["flops"] = [operations(size)["flops_causal"] for size in sizes]
    for size in sizes:
        members = {
            name: [(variant, setting) for variant in names for setting in VARIANTS[variant].settings[:most]]
            for name, names in GROWING.items()
        }
        keys, _ = processes.prepare_checked([key for own in members.values() for key in own], size, "cpu")
        taken = processes.rounds(keys, least)
        medians = {key: report.summary(taken[key])["median"] for key in keys}
        for name, own in members.items():
            best = min((key for key in own if key in medians), key=medians.get)
            record["times"][name].append(medians[best])
            record["settings"][name].append(str(best[1]))
    amounts = record["times"] | {"operations": record["flops"]}
    record["exponents"] = {name: report.exponent(record["values"], a) for name, a in amounts.items()}
    return record
