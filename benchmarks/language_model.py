"""How many bits a character costs chapter 17's model, by seed; how its recipe was chosen; and counts.

    OMP_NUM_THREADS=1 python -m benchmarks.language_model recipe
    OMP_NUM_THREADS=1 python -m benchmarks.language_model 17 1 2
    OMP_NUM_THREADS=1 python -m benchmarks.language_model sizes 64 128

write benchmarks/results/language_model.json. The first trains each of CANDIDATES on the first nine tenths of
the training text and measures it on the last. The second trains RECIPE on the whole training text, from each
seed, and measures it on text that had no part in any choice. The third does so at other widths, and writes a
sample on the way.

A training takes a minute or two; the record is written after each. The counts are the same for all seeds.
"""

import json
import platform
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from benchmarks import machine
from handgrad import accounting, decode, fast, manual, model, train
from handgrad.chapters.language_model import ngrams, trials

RECORD = Path(__file__).parent / "results" / "language_model.json"
RECIPE = train.Recipe(steps=1600, batch_size=8, peak=0.006, warmup=100, label_smoothing=0, weight_decay=0.3)
CANDIDATES = [
    RECIPE,
    *(replace(RECIPE, weight_decay=decay) for decay in (0.0, 0.1, 1.0)),
    *(replace(RECIPE, peak=peak) for peak in (0.003, 0.012)),
    *(replace(RECIPE, batch_size=B, steps=12_800 // B) for B in (16, 4)),  # as many windows in all
]
"""One thing changed at a time."""
UPDATES = [0, 100, 200, 400, 800, 1600]
"""After how many a model of another size is measured."""


def training(recipe, tokens, seed):
    """One training on tokens: its state and its seconds."""
    config = trials.gpt()
    begin, cpu = time.perf_counter(), time.process_time()
    start, draw = train.start(config, seed), trials.drawing(tokens)
    trained = train.run(start, draw, config, recipe, engine=fast.engine, progress=False)
    return trained, {"wall": time.perf_counter() - begin, "cpu": time.process_time() - cpu}


def bits(params, tokens, stride):
    """What a character of tokens costs."""
    nats, _ = trials.by_place(params, trials.gpt(), tokens, stride)
    return float(nats.mean() / np.log(2))


def candidate(recipe, tokens, seed=0):
    """A recipe, tried inside the training text: what it costs, and whether it is too sure of itself."""
    cut = int(0.9 * len(tokens))
    trained, seconds = training(recipe, tokens[:cut], seed)
    found = {name: asdict(recipe)[name] for name in ("weight_decay", "peak", "batch_size", "steps")}
    found |= {"last tenth, stride 64": bits(trained.params, tokens[cut:], 64)}
    return found | {"slope by temperature, training": slope(trained.params, tokens), "seconds": seconds}


def trial(tokens, examined, seed):
    """One training: bits per character of the last updates and of the examined text, slopes and seconds."""
    trained, seconds = training(RECIPE, tokens, seed)
    found = {"last updates": float(np.mean(trained.losses[-100:]) / np.log(2))}
    for stride in (128, 64):
        found[f"examined, stride {stride}"] = bits(trained.params, examined, stride)
    for title, text in {"training": tokens, "examined": examined}.items():
        found[f"slope by temperature, {title}"] = slope(trained.params, text)
    return found | {"seconds": seconds}


def size(tokens, examined, D):
    """One training at width D, with a rate that falls with the width; bits and samples after some updates."""
    config, recipe = trials.gpt(D=D, F=4 * D), replace(RECIPE, peak=RECIPE.peak * 128 / D)
    state, draw, begin = train.start(config, 17), trials.drawing(tokens), time.process_time()
    found = {"parameters": accounting.count(config), "after": {}}
    found |= {"date": time.strftime("%Y-%m-%d"), "machine": machine.machine()}
    for update in UPDATES:
        state = train.run(state, draw, config, recipe, update, engine=fast.engine, progress=False)
        nats, _ = trials.by_place(state.params, config, examined, 128)
        choose = decode.sampler(np.random.default_rng(1))
        text = trials.continued(state.params, config, "The ", 120, choose)
        found["after"][update] = {"examined, stride 128": float(nats.mean() / np.log(2)), "sample": text}
    nats, _ = trials.by_place(state.params, config, examined, 64)
    found |= {"examined, stride 64": float(nats.mean() / np.log(2))}
    return found | {"cpu seconds": time.process_time() - begin}


def slope(params, text):
    """The derivative of the loss by the temperature at 1, over the first 12,000 characters of a text."""
    batch = trials.windows(text, range(0, 12_000, 128))
    z, _ = model.forward(params, trials.gpt(), batch)
    return float(trials.by_temperature(z, batch["target_out"]))


def write(record):
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


def main(which):
    tokens, held_out = manual.split(once=True)
    examined = held_out[trials.SPENT :]
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if which[:1] == ["sizes"]:
        for D in which[1:]:
            record.setdefault("sizes", {})[D] = size(tokens, examined, int(D))
            write(record)
        return
    record |= {"python": platform.python_version(), "machine": machine.machine()}
    record |= {"characters": [len(tokens), len(examined)]}
    if which == ["recipe"]:
        record["candidates"] = []
        for recipe in CANDIDATES:
            record["candidates"].append(candidate(recipe, tokens))
            write(record)
        return
    p = ngrams.baseline(tokens, examined, order=trials.ORDER)[:, 1:]
    record |= {"orders": (-np.log2(p).mean(axis=1)).tolist(), "seeds": {}}
    for seed in which:
        record["seeds"][seed] = trial(tokens, examined, int(seed))
        write(record)


if __name__ == "__main__":
    main(sys.argv[1:])
