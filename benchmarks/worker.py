"""What happens inside the process of one variant. One process does one thing after another, and alone."""

import ctypes
import gc
import math
import os
import re
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
KEPT = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(2**32))  # bytes: mallopt(3)
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")  # Linux

step = None  # the one of this process


def start(setting):
    """A process of its own in this setting: the libraries read it from the environment as they are loaded."""
    changes = dict.fromkeys(THREADS, str(setting.threads)) | (KEPT if setting.kept else {})
    before = os.environ.copy()
    os.environ.update(changes)
    try:
        worker = ProcessPoolExecutor(1, get_context("spawn"))
        worker.submit(os.getpid).result()
    finally:
        for name in changes:
            del os.environ[name]
        os.environ.update(before)
    return worker


def prepare(build, size, workers, device, updates):
    """Build the step, and run it: the losses before each of so many updates. What was here before is gone."""
    global step
    step = None
    gc.collect()
    step = build(size, workers, device)
    return [step.run() for _ in range(updates)]


def take():
    """One step: the seconds that it took, and those of its parts where they are known.

    The step before it is not timed: it finds the cache full of what another process left there, as no step of
    a training does but the first. Without a loss it is products only, and the parts tell which of two ways to
    multiply counts.

    Raises FloatingPointError if the loss is no longer a finite number.
    """
    step.run()
    begin = time.perf_counter()
    loss = step.run()
    seconds = time.perf_counter() - begin if loss is not None else sum(step.parts.values())
    if loss is not None and not math.isfinite(loss):
        raise FloatingPointError(f"loss: expected a finite number, got {loss}")
    return seconds, dict(step.parts)


def extra_memory(device, steps=2):
    """Bytes at the peak of a step beside the parameters, moments and batch: gradients, caches, scratch.

    Before, all that is not these is given back, to the operating system too. On the CPU it is the largest
    resident size of the process less that before: None where the system (not Linux) does not tell.
    """
    step.release()
    gc.collect()
    if device == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    elif not CLEAR.exists():
        return None
    else:
        getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)  # glibc
        before = resident("VmRSS")
        CLEAR.write_text("5")  # the peak is now the present size: proc(5)
    for _ in range(steps):
        step.run()
    return (torch.cuda.max_memory_allocated() if device == "cuda" else resident("VmHWM")) - before


def resident(name):
    """A line of /proc/self/status, in bytes."""
    return 1024 * int(re.search(rf"^{name}:\s+(\d+) kB$", STATUS.read_text(), re.M)[1])
