"""How fast a training step is: ours and PyTorch's, one step of each in turn.

Each variant lives in a process of its own, and one works at a time. Its losses over the first updates must
be those of `model` in float64, or nothing is timed. Every setting of a variant is tried for a few rounds,
and the fast ones take part in the race. On a machine with CUDA PyTorch races on it too. Writes NAME.json to
the folder, and NAME.md, which is made from it.

Nothing begins while the machine has something else to do: the load average of the last minute must come down,
or the patience must end. Later the load is that of the race itself.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import torch

from . import report
from .machine import machine, wait_until_idle
from .race import Processes, growth, race
from .variants import EAGER, EAGER_HALVES, SIZES, TINY, VARIANTS, Size

ON_CUDA = [name for name in VARIANTS if name.startswith("PyTorch") and name != EAGER_HALVES]
OTHERS = "benchmarks.ideas", "benchmarks.memory"  # what else `--all` runs, each with one thread


def growing(quick):
    """The sizes whose cost is compared: one block; 4 sequences of each length, 1024 tokens of each width."""
    if quick:
        return {
            "T": [TINY._replace(T=T) for T in (8, 16)],
            "D": [TINY._replace(D=D, F=2 * D) for D in (16, 32)],
        }
    long = [Size(D=256, N=1, H=4, T=T, B=4, V=1000, F=1024) for T in (64, 128, 256, 512, 1024)]
    wide = [Size(D=D, N=1, H=D // 64, T=128, B=8, V=1000, F=4 * D) for D in (64, 128, 256, 512, 768)]
    return {"T": long, "D": wide}


def write(record, folder, name):
    """Write name.json and name.md."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1, ensure_ascii=False)
    text = re.sub(r"\[[^\[\]{}]*\]", lambda row: " ".join(row[0].split()), text)  # a row of numbers is a line
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(report.markdown(record), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser("benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=10, help="at least so many of each race")
    parser.add_argument("--seconds", type=float, default=60, help="at least so long each race")
    parser.add_argument(
        "--without", nargs="*", choices=set(VARIANTS) - {EAGER}, default=[], help="variants to leave out"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, few rounds: to see that it works")
    parser.add_argument("--name", default="speed", help="of the results")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--patience", type=float, default=300, help="seconds to wait for an idle machine")
    parser.add_argument("--all", action="store_true", help="then write ideas.json and memory.json as well")
    options = parser.parse_args()
    sizes = {name: SIZES[name] for name in options.sizes}
    limits = {"least": options.rounds, "seconds": options.seconds}
    if options.quick:
        sizes, limits = {"tiny": TINY}, {"least": 3, "seconds": 0, "tries": 1}
    names = [name for name in VARIANTS if name not in options.without]
    load = wait_until_idle(0 if options.quick else options.patience, say=lambda line: print(line, flush=True))
    record = {"machine": machine() | {"load before": round(load, 2)}, "sizes": {}, "growth": {}}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exception, so that the processes end as well
    with closing(Processes()) as processes:
        for name, size in sizes.items():
            record["sizes"][name] = race(processes, size, "cpu", names, **limits)
            print(report.section(name, record["sizes"][name]), flush=True)
            write(record, options.folder, options.name)
            if torch.cuda.is_available():
                on_cuda = [name for name in names if name in ON_CUDA]
                record["sizes"][f"{name}, CUDA"] = race(processes, size, "cuda", on_cuda, **limits)
        for letter, steps in growing(options.quick).items():
            record["growth"][letter] = growth(
                processes, letter, steps, max(3, limits["least"] // 3), 1 if options.quick else None
            )
    write(record, options.folder, options.name)
    print(report.markdown(record))
    for name in OTHERS if options.all else ():
        one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-m", name], env=one_thread, check=True)


if __name__ == "__main__":
    main()
