"""How many bits a character costs chapter 17's model, by seed; how its recipe was chosen; what it writes.

    OMP_NUM_THREADS=1 python -m benchmarks.language_model recipe
    OMP_NUM_THREADS=1 python -m benchmarks.language_model 17 1 2
    OMP_NUM_THREADS=1 python -m benchmarks.language_model samples
    OMP_NUM_THREADS=1 python -m benchmarks.language_model narrow

write benchmarks/results/language_model.json. The first trains each of CANDIDATES on the first nine tenths of
the training text and measures it on the last. The second trains RECIPE on the whole training text, from each
seed, and measures it on text that had no part in any choice. The third stops on the way, and writes.
The fourth tries the rate of width 32, as the first does.

A training takes a minute or two; the record is written after each.
"""

import json
import platform
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from benchmarks import machine
from handgrad import decode, fast, manual, model, train
from handgrad.chapters.language_model import trials

RECORD = Path(__file__).parent / "results" / "language_model.json"
RECIPE = train.Recipe(steps=1600, batch_size=8, peak=0.006, warmup=100, label_smoothing=0, weight_decay=0.3)
CANDIDATES = [
    RECIPE,
    *(replace(RECIPE, weight_decay=decay) for decay in (0.0, 0.1, 1.0)),
    *(replace(RECIPE, peak=peak) for peak in (0.003, 0.012)),
    *(replace(RECIPE, batch_size=B, steps=12_800 // B) for B in (16, 4)),  # as many windows in all
]
"""One thing changed at a time."""
WIDE, NARROW = trials.gpt(), trials.gpt(D=32, F=128)
"""The recorded model, and the one that the chapter trains."""
UPDATES = [0, 200, 1600]
"""After how many a model is stopped, and writes."""


def drawing(tokens):
    """The function (rng, B) -> batch that `train.run` asks: windows from anywhere in tokens (L,)."""
    return lambda rng, B: trials.windows(tokens, rng.integers(0, len(tokens) - trials.T, B))


def training(recipe, tokens, seed, config=WIDE):
    """One training on tokens: its state and its seconds."""
    begin, cpu = time.perf_counter(), time.process_time()
    start = train.start(config, seed)
    trained = train.run(start, drawing(tokens), config, recipe, engine=fast.engine, progress=False)
    return trained, {"wall": time.perf_counter() - begin, "cpu": time.process_time() - cpu}


def bits(params, tokens, stride, config=WIDE):
    """What a character of tokens costs."""
    return float(trials.by_place(params, config, tokens, stride).mean() / np.log(2))


def candidate(recipe, tokens, seed=0, config=WIDE):
    """A recipe, tried inside the training text: what a character costs."""
    cut = int(0.9 * len(tokens))
    trained, seconds = training(recipe, tokens[:cut], seed, config)
    found = {name: asdict(recipe)[name] for name in ("weight_decay", "peak", "batch_size", "steps")}
    found |= {"last tenth, stride 64": bits(trained.params, tokens[cut:], 64, config)}
    return found | {"seconds": seconds}


def trial(tokens, examined, seed):
    """One training: bits per character of the last updates and of the examined text, slopes and seconds."""
    trained, seconds = training(RECIPE, tokens, seed)
    found = {"last updates": float(np.mean(trained.losses[-100:]) / np.log(2))}
    for stride in (128, 64):
        found[f"examined, stride {stride}"] = bits(trained.params, examined, stride)
    for title, text in {"training": tokens, "examined": examined}.items():
        found[f"slope by temperature, {title}"] = slope(trained.params, text)
    return found | {"seconds": seconds}


def samples(tokens, examined, seed=17):
    """One training, stopped after some updates: what it writes, and what a character of text costs it."""
    after, state = {}, train.start(WIDE, seed)
    for update in UPDATES:
        state = train.run(state, drawing(tokens), WIDE, RECIPE, update, engine=fast.engine, progress=False)
        choose = decode.sampler(np.random.default_rng(1))
        text = trials.continued(state.params, WIDE, "The ", 120, choose)
        after[update] = {"examined, stride 128": bits(state.params, examined, 128), "sample": text}
    return {"date": time.strftime("%Y-%m-%d"), "machine": machine.machine(), "after": after}


def slope(params, text):
    """The derivative of the loss by the temperature at 1, over the first 12,000 characters of a text."""
    batch = trials.windows(text, range(0, 12_000, 128))
    z, _ = model.forward(params, WIDE, batch)
    return float(trials.by_temperature(z, batch["target_out"]))


def write(record):
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


def main(which):
    tokens, held_out = manual.split(once=True)
    examined = held_out[trials.SPENT :]
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if which == ["samples"]:
        return write(record | {"samples": samples(tokens, examined)})
    if which == ["narrow"]:
        rates = [replace(RECIPE, peak=peak) for peak in (0.006, 0.012, 0.024)]
        tried = [candidate(recipe, tokens, config=NARROW) for recipe in rates]
        return write(record | {"narrow": {"machine": machine.machine(), "candidates": tried}})
    record |= {"python": platform.python_version(), "machine": machine.machine()}
    record |= {"characters": [len(tokens), len(examined)]}
    if which == ["recipe"]:
        record["candidates"] = []
        for recipe in CANDIDATES:
            record["candidates"].append(candidate(recipe, tokens))
            write(record)
        return
    record["seeds"] = {}
    for seed in which:
        record["seeds"][seed] = trial(tokens, examined, int(seed))
        write(record)


if __name__ == "__main__":
    main(sys.argv[1:])
