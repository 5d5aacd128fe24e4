"""Memory and time of one attention, forward and backward, by its length: plain, in tiles, and PyTorch's own.

    OMP_NUM_THREADS=1 python -m benchmarks.memory       writes benchmarks/results/memory.json

bytes     the most that is held at one time beside q, k, v and dy: outputs, gradients, caches, scratch. NumPy
          reports its arrays to tracemalloc, PyTorch its tensors to its profiler.
resident  by how much the largest size of the process grew meanwhile: what the operating system saw. It knows
          nothing of arrays, and is coarse: to be compared with bytes where those are many.
seconds   the shortest of several runs without any of these witnesses.

One head of width K = 64, one sequence, T = S, float32, one thread, with and without a causal mask. Each
measurement has a process of its own.
"""

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile

from handgrad.chapters.tiles.counting import traced
from handgrad.ops import (
    attention,
    attention_backward,
    causal_mask,
    flash_attention,
    flash_attention_backward,
)

from .machine import processor

RESULTS = Path(__file__).parent / "results" / "memory.json"
LENGTHS = [256, 512, 1024, 2048, 4096, 8192]
K = 64


def inputs(T):
    """q, k, v and dy, each (1, 1, T, K)."""
    return np.random.default_rng(0).standard_normal((4, 1, 1, T, K), dtype=np.float32)


def plain(q, k, v, dy, causal):
    """Forward and back with all weights at once."""
    y, cache = attention(q, k, v, causal_mask(q.shape[-2]) if causal else None)
    return y, *attention_backward(dy, cache)


def tiles(q, k, v, dy, causal):
    """Forward and back a tile at a time."""
    y, cache = flash_attention(q, k, v, causal=causal)
    return y, *flash_attention_backward(dy, cache)


def pytorch(q, k, v, dy, causal):
    """PyTorch's attention and its automatic differentiation."""
    y = scaled_dot_product_attention(q, k, v, is_causal=causal)
    return y, *torch.autograd.grad(y, (q, k, v), dy)


WAYS = {"plain": plain, "tiles": tiles, "PyTorch": pytorch}


def profiled(step, tensors):
    """The most bytes that PyTorch held during step(*tensors), from the trace of its profiler."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step(*tensors)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    changes = [(e["ts"], e["args"]["Bytes"]) for e in events if e["name"] == "[memory]"]
    return int(np.cumsum([change for _, change in sorted(changes)]).max())


def seconds(step, arrays, least=5, enough=3.0):
    """The shortest of at least `least` runs, which together take at least `enough` seconds."""
    times = []
    while len(times) < least or sum(times) < enough:
        start = time.perf_counter()
        step(*arrays)
        times.append(time.perf_counter() - start)
    return min(times)


def largest_size():
    """The largest size of this process so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def measure(way, T, causal):
    """One row of the results. To be called in a fresh process: a largest size never shrinks."""
    torch.set_num_threads(1)
    step, arrays, held = partial(WAYS[way], causal=causal), inputs(T), traced
    if way == "PyTorch":
        held, arrays = profiled, [torch.tensor(x, requires_grad=n < 3) for n, x in enumerate(arrays)]
    before = largest_size()
    step(*arrays)
    resident = largest_size() - before
    row = {
        "way": way,
        "T": T,
        "causal": causal,
        "seconds": seconds(step, arrays),
        "bytes": held(step, arrays),
    }
    return row | {"resident": resident}


def main():
    parser = argparse.ArgumentParser(
        "benchmarks.memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, metavar="T")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE")
    arguments = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("expected OMP_NUM_THREADS=1 in the environment, so that all have one thread")
    rows = []
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        for T, causal, way in product(
            arguments.lengths, [False, True], WAYS
        ):  # what is compared stands close
            rows.append(processes.submit(measure, way, T, causal).result())
            print(json.dumps(rows[-1]), flush=True)
    versions = {"python": platform.python_version(), "numpy": np.__version__, "torch": torch.__version__}
    about = {"processor": processor()[0], "threads": 1, **versions, "dtype": "float32", "H": 1, "K": K}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(row) for row in rows)  # a row of the table is a line of the file
    arguments.output.write_text(f'{{\n "about": {json.dumps(about)},\n "rows": [\n{lines}\n ]\n}}\n')


if __name__ == "__main__":
    main()
