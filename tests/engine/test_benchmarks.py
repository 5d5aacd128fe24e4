"""The benchmark of training steps: what it compares is equal, what it says follows from its times."""

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import optree
import pytest

from benchmarks import ideas, machine, race, report, variants
from benchmarks.variants import ALONE, EAGER, EAGER_HALVES, HAND, STAGES, TINY, VARIANTS, Variant
from handgrad import optim
from handgrad.chapters.speed import figures
from handgrad.fast import step as fast_step
from handgrad.fast import torch_product, update
from handgrad.fast.loops import of_kind

ROOT = Path(__file__).parents[2]


COMPILED = "PyTorch, compiled"
LEFT_OUT = COMPILED, "PyTorch, nn.Transformer", "NumPy, readable"
"""Of the quick run: the compiler takes longest, and each of the others a process more."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What a quick run writes."""
    folder = tmp_path_factory.mktemp("results")
    command = [sys.executable, "-m", "benchmarks", "--quick", "--folder", folder, "--without", *LEFT_OUT]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture(scope="module")
def record(folder):
    return json.loads((folder / "speed.json").read_text(encoding="utf-8"))


@pytest.fixture
def processes():
    processes = race.Processes()
    yield processes
    processes.close()


IN_MACHINE = {"processor", "caches", "vectors", "cores", "NumPy", "PyTorch", "numba", "system", "Python"}


def test_every_variant_took_part(record):
    tiny = record["sizes"]["tiny"]
    assert set(tiny["variants"]) == set(VARIANTS) - set(LEFT_OUT)
    assert tiny["absent"] == {}
    assert set(tiny["stages"]) == set(variants.STAGED)
    assert set(tiny["alone"]) == {HAND, f"{HAND}, torch's product", EAGER}
    assert set(tiny["products"]) == {"numpy", "torch"} and min(tiny["products"].values()) > 0
    assert all(set(part["times"]) == race.GROWING.keys() for part in record["growth"].values())
    assert IN_MACHINE | {"load before"} <= set(record["machine"])


def test_ratios_and_shares_follow_from_the_times(record):
    tiny = record["sizes"]["tiny"]
    rows, limits = tiny["variants"], tiny["limits"]
    for row in [*rows.values(), *limits.values(), *tiny["stages"].values()]:
        assert len(row["times"]) == 3 and min(row["times"]) > 0
        assert row["median"] == np.median(row["times"])
        assert row["low"] <= row["median"] <= row["high"]
    eager = min(rows[EAGER], rows[EAGER_HALVES], key=lambda row: row["median"])
    for row in rows.values():
        rounds = np.divide(eager["times"], row["times"])
        assert rounds.min() <= row["ratio_low"] <= row["ratio"] <= row["ratio_high"] <= rounds.max()
        assert row["ratio"] == pytest.approx(np.median(rounds))
        assert row["tokens_per_second"] * row["median"] == pytest.approx(TINY.B * TINY.T)
        assert row["of_limit"] * row["median"] == pytest.approx(limits[row["limit"]]["median"])
    for row in tiny["stages"].values():
        products = sum(limits[row["limit"]]["parts"].values())
        assert products + sum(row["lost"].values()) == pytest.approx(sum(row["parts"].values()))


@pytest.fixture
def products(monkeypatch):
    """What numpy.matmul multiplies from now on: (the number of multiply-adds, where the result begins)."""
    noted, matmul = [], np.matmul

    def noting(x, y, out):
        noted.append((x.size * y.shape[-1], out.ctypes.data))
        return matmul(x, y, out=out)

    monkeypatch.setattr(np, "matmul", noting)
    return noted


def test_the_products_of_the_limit_are_those_that_are_counted(products):
    """Attention comes twice: for all pairs, and in blocks, here of one query."""
    variants.limit("numpy", TINY, 1, "cpu", queries=1).run()
    pairs = 3 * TINY.B * TINY.N * 2 * TINY.D * TINY.T * (TINY.T + 1) // 2
    wanted = race.operations(TINY)
    assert 2 * (sum(count for count, _ in products) - pairs) == wanted["flops"]
    assert wanted["flops_causal"] == wanted["flops"] - 2 * pairs * (TINY.T - 1) / (TINY.T + 1)


def test_each_block_multiplies_arrays_of_its_own(products):
    """Else those of the second block would still be in the cache."""
    variants.limit("numpy", TINY._replace(N=3), 1, "cpu", queries=TINY.T).run()
    attention = 2 * 3 * 4  # the scores and their gradient share an array, outputs and dq another
    linear = 3 * 3 * (4 + 2) + 3
    assert len({start for _, start in products}) == attention + linear


def losses(build, size=TINY):
    step = build(size, 1, "cpu")
    return [step.run() for _ in range(race.UPDATES + 1)]


@pytest.mark.parametrize("name", LEFT_OUT[1:])
def test_what_the_quick_run_leaves_out_has_the_losses_of_the_reference(name):
    reference = losses(partial(variants.readable, dtype=np.float64))
    race.check(name, losses(VARIANTS[name].build), reference)


@pytest.mark.parametrize("product", [np.matmul, torch_product])
@pytest.mark.parametrize("factor", [0, -1, 2])
def test_a_wrong_gradient_is_refused(product, factor, monkeypatch):
    """Of each parameter but b_K, on which nothing depends."""
    reference, right = losses(partial(variants.readable, dtype=np.float64)), fast_step.loss_and_gradients
    build = partial(variants.by_hand, product=product)
    race.check("right", losses(build), reference)
    for path in optree.tree_paths(variants.problem(TINY)[0]):

        def wrong(*args, path=path, **kwargs):
            loss, grads = right(*args, **kwargs)
            gradient = grads
            for step in path:
                gradient = gradient[step]
            gradient *= factor
            return loss, grads

        monkeypatch.setattr(fast_step, "loss_and_gradients", wrong)
        if path[-1] == "b_K":
            race.check("b_K", losses(build), reference)
        else:
            with pytest.raises(race.WrongLossError, match="W_Q: expected the losses"):
                race.check("W_Q", losses(build), reference)


def test_two_threads_of_eager_have_the_losses_of_the_reference_and_with_wrong_weights_not(monkeypatch):
    uneven = TINY._replace(B=3)
    reference, rows = losses(partial(variants.readable, dtype=np.float64), uneven), variants.halves(3)
    race.check(EAGER_HALVES, losses(variants.eager_halves, uneven), reference)
    for weights in ((0.5, 0.5), (1, 1), (2 / 3, 1 / 3), (1 / 3, 0)):
        wrong = [(own, weight) for (own, _), weight in zip(rows, weights)]
        monkeypatch.setattr(variants, "halves", lambda B, wrong=wrong: wrong)
        with pytest.raises(race.WrongLossError, match="expected the losses"):
            race.check(EAGER_HALVES, losses(variants.eager_halves, uneven), reference)
    with pytest.raises(variants.AbsentError, match="one sequence"):
        variants.eager_halves(TINY._replace(B=1), 2, "cpu")


def halved(size, workers, device):
    """A variant that takes steps of half the length."""
    step = variants.readable(size, workers, device)
    optim.adamw = partial(lambda f, p, g, s, rate, **kwargs: f(p, g, s, rate / 2, **kwargs), optim.adamw)
    return step


def test_a_variant_that_computes_something_else_is_not_timed(processes, monkeypatch):
    monkeypatch.setitem(VARIANTS, "halved", Variant(halved, "numpy", (ALONE,)))
    monkeypatch.setattr(processes, "rounds", lambda *args: pytest.fail("timed"))
    with pytest.raises(race.WrongLossError, match="halved, 1 × 1: expected the losses"):
        race.race(processes, TINY, "cpu", ["halved"], 1, 0, 1)


def modules(size, workers, device):
    """Not a variant: a step whose loss says whether torch is there."""
    return variants.Step(lambda: float("torch" in sys.modules))


def test_a_process_of_numpy_has_no_torch(processes, monkeypatch):
    monkeypatch.setitem(VARIANTS, "modules", Variant(modules, "numpy", (ALONE,)))
    assert set(processes.prepare(("modules", ALONE), TINY, "cpu")) == {0.0}


def test_without_a_compiler_the_compiled_variant_is_absent(processes, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    ready, absent = processes.prepare_checked([(COMPILED, ALONE)], TINY, "cpu")
    assert ready == [] and "compiler" in absent[COMPILED]


def test_a_loss_that_is_no_number_ends_the_race(processes, monkeypatch):
    monkeypatch.setitem(VARIANTS, "lost", Variant(lost, "numpy", (ALONE,)))
    processes.prepare(("lost", ALONE), TINY, "cpu")
    with pytest.raises(FloatingPointError, match="loss: expected a finite number, got nan"):
        processes.rounds([("lost", ALONE)], 1)


def lost(size, workers, device):
    return variants.Step(lambda: float("nan"))


def test_extra_memory_is_what_a_step_takes(processes, monkeypatch):
    monkeypatch.setitem(VARIANTS, "hungry", Variant(hungry, "numpy", (ALONE,)))
    processes.prepare(("hungry", ALONE), TINY, "cpu")
    extra = processes.ask(("hungry", ALONE), race.worker.extra_memory, device="cpu")
    assert extra is None or extra == pytest.approx(MEBIBYTES * 2**20, rel=0.05)


MEBIBYTES = 64


def hungry(size, workers, device):
    """64 MiB for each step, beside 32 that it always holds."""
    held = np.ones(MEBIBYTES // 2 * 2**17)
    return variants.Step(lambda: float(np.ones(MEBIBYTES * 2**17)[0] + held[0]))


def test_the_clocks_of_one_size_do_not_stop_those_of_the_next(processes):
    key = (f"stages of {HAND}", ALONE)
    for size in (TINY, TINY._replace(T=8)):
        processes.prepare(key, size, "cpu")
        seconds, parts = processes.ask(key, race.worker.take)
        assert set(parts) == {*STAGES, "the rest"} and min(parts.values()) > 0
        assert sum(parts.values()) == pytest.approx(seconds, rel=0.1)


def test_the_processes_end_with_the_program(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "--quick", "--folder", tmp_path]
    with open(tmp_path / "progress", "wb") as progress:
        run = subprocess.Popen(command, cwd=ROOT, stdout=progress, stderr=progress, start_new_session=True)
    while run.poll() is None and "checking" not in (tmp_path / "progress").read_text():
        time.sleep(0.1)
    run.terminate()
    assert run.wait(60) == 1
    with pytest.raises(ProcessLookupError):
        for _ in range(50):
            os.killpg(run.pid, 0)  # signal 0 only asks whether somebody is there
            time.sleep(0.1)


def test_every_stage_is_a_function():
    spaces = vars(fast_step) | vars(of_kind(np.dtype(np.float32))) | vars(update)
    assert [name for functions in STAGES.values() for name in functions if name not in spaces] == []


def test_a_bar_is_met_or_not():
    def met(ratio, alone=1.2, of_limit=0.9, memory=70, products=None):
        ours = {"median": 1.0, "ratio": ratio, "of_limit": of_limit, "memory": memory}
        slower = {"median": 2.0, "ratio": 9.0, "of_limit": 1.0, "memory": 0}
        part = {
            "variants": {HAND: slower, f"{HAND}, 2 workers": ours, EAGER: {"median": 1.1}},
            "alone": {HAND: {"median": 1.0, "ratio": alone}, EAGER: {"median": 0.5, "ratio": 1.0}},
            "products": products or {"numpy": 2.0, "torch": 1.0},
            "settings": [{"variant": EAGER, "memory": 100}, {"variant": EAGER_HALVES, "memory": 120}],
        }
        return [got for *_, got in report.met({"sizes": {"S": part}})]

    assert met(1.21) == [True] * 4
    assert met(1.19) == [False, True, True, True]
    assert met(1.21, products={"numpy": 1.0, "torch": 2.0}) == [False, True, True, True]
    assert met(1.3, alone=1.05) == [True, False, True, True]
    assert met(1.3, of_limit=0.79) == [True, True, False, True]
    assert met(1.3, memory=90) == [True, True, True, False]  # below 0.8 · 120, but not below 0.8 · 100
    assert met(1.3, memory=None) == [True] * 3


def test_the_fastest_setting_of_each_stands_alone():
    rows = {
        HAND: [{"setting": "1 × 1", **report.summary([(t, {}) for t in (1.0, 2.0, 4.0)])}],
        EAGER: [
            {"setting": "1 × 1", **report.summary([(t, {}) for t in (9.0, 9.0, 9.0)])},
            {"setting": "1 × 1, kept", **report.summary([(t, {}) for t in (3.0, 3.0, 3.0)])},
        ],
    }
    alone = report.alone(rows)
    assert alone[EAGER]["setting"] == "1 × 1, kept" and alone[EAGER]["ratio"] == 1
    assert alone[HAND]["ratio"] == 1.5  # the median of 3, 1.5 and 0.75
    assert report.alone({HAND: rows[HAND]}) == {}


def test_the_interval_of_a_median():
    """Of many numbers it is that of the theory: 1.96 √(π/2) σ/√n to each side. Of equal ones: a point."""
    values = np.random.default_rng(1).standard_normal(4000)
    low, high = report.interval(values)
    assert low < np.median(values) < high
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(np.pi / 2 / 4000), rel=0.2)
    assert report.interval([2.0] * 9) == (2, 2)
    assert report.interval([1, 2, 3]) == report.interval([1, 2, 3]) == (1, 3)


def test_a_race_waits_for_an_idle_machine_until_its_patience_ends():
    loads, slept, said = iter([1.0, 0.5, 0.2, 9.0]), [], []
    told = {"load": lambda: (next(loads), 0, 0), "sleep": slept.append, "say": said.append}
    assert machine.wait_until_idle(300, **told) == 0.2
    assert slept == [10, 10] and "load 1.00" in said[0] and len(said) == 2
    busy = told | {"load": lambda: (2.0, 0, 0)}
    assert machine.wait_until_idle(25, **busy) == 2.0 and slept[2:] == [10, 10, 5]
    assert machine.wait_until_idle(0, **busy) == 2.0 and len(slept) == 5


def test_ideas_are_not_measured_on_a_busy_machine(monkeypatch, capsys):
    monkeypatch.setattr(ideas, "wait_until_idle", lambda patience: 2.23)
    monkeypatch.setattr(sys, "argv", ["benchmarks.ideas", "--patience", "0"])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with pytest.raises(SystemExit):
        ideas.main()
    assert "expected a load of at most 0.3, got 2.23" in capsys.readouterr().err


MKL = "- Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 2024\nBLAS_INFO=mkl"


def test_the_machine_is_described(tmp_path, monkeypatch):
    """Its caches, the processor with its widest vectors, and who multiplies for torch."""
    sizes = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K")]
    for number, values in enumerate(sizes):
        (tmp_path / f"index{number}").mkdir()
        for name, value in zip(("level", "type", "size"), values, strict=True):
            (tmp_path / f"index{number}" / name).write_text(value + "\n")
    assert machine.caches(tmp_path) == "L1d 48K, L1i 32K, L2 2048K"
    assert machine.caches(tmp_path / "nowhere") == "unknown"
    for flags in ("sse4_2 avx avx2 avx512f", "sse4_2 avx2", "sse4_2"):
        info = f"processor\t: 0\nmodel name\t: A Good One\nflags\t\t: fpu {flags} ht\n"
        assert machine.processor(info) == ("A Good One", flags.split()[-1])
    for name, vectors in {"aarch64": "neon", "riscv64": "unknown"}.items():
        monkeypatch.setattr(machine.platform, "machine", lambda name=name: name)
        assert machine.processor("processor: 0\n")[1] == vectors
    built = {MKL: "MKL 2024.2", "OpenBLAS 0.3.30 BLAS_INFO=open": "OpenBLAS 0.3.30", "": "unknown"}
    built["- Build settings: BLAS_INFO=open, X=1"] = "OpenBLAS"
    assert {text: machine.blas_of_torch(text) for text in built} == built


def test_a_power_is_found_again():
    sizes = np.array([64, 128, 512])
    assert report.exponent(sizes, 3e-4 * sizes**1.5) == pytest.approx(1.5)


def test_the_table_holds_every_row(folder, record):
    text = (folder / "speed.md").read_text()
    assert text == report.markdown(record)
    for name, row in record["sizes"]["tiny"]["variants"].items():
        assert f"| {name} | {row['setting']} | {1e3 * row['median']:.1f} |" in text


def test_the_recorded_table_is_made_from_the_record():
    recorded = ROOT / "benchmarks" / "results" / "speed.json"
    text = recorded.with_suffix(".md").read_text(encoding="utf-8")
    assert text == report.markdown(json.loads(recorded.read_text(encoding="utf-8")))


def test_figures_draw_the_record(record):
    names = list(record["sizes"]["tiny"]["variants"])
    ax = figures.race(record["sizes"]).axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    ratios = [row["ratio"] for row in record["sizes"]["tiny"]["variants"].values()]
    assert [line.get_xdata()[0] for line in ax.lines[2::2]] == ratios
