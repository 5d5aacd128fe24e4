"""How many bits a held-out character costs chapter 17's model, by seed, and counts of up to eight characters.

    OMP_NUM_THREADS=1 python -m benchmarks.language_model 17 1 2

writes benchmarks/results/language_model.json.

Each training is that of the chapter from another seed, which takes a minute or two; the record is written
after each. The counts are the same for all seeds.
"""

import json
import platform
import sys
import time
from pathlib import Path

import numpy as np

from handgrad import fast, manual, model, train
from handgrad.chapters.language_model import ngrams, trials

RECORD = Path(__file__).parent / "results" / "language_model.json"
RECIPE = train.Recipe(steps=1600, batch_size=8, peak=0.006, warmup=100, label_smoothing=0, weight_decay=0.3)


def trial(seed):
    """One training: bits per character of the last updates and of the held-out text, and seconds."""
    training, held_out = manual.split(once=True)
    config = trials.gpt()
    begin, cpu = time.perf_counter(), time.process_time()
    start, draw = train.start(config, seed), trials.drawing(training)
    trained = train.run(start, draw, config, RECIPE, engine=fast.engine, progress=False)
    seconds = {"wall": time.perf_counter() - begin, "cpu": time.process_time() - cpu}
    found = {"last updates": float(np.mean(trained.losses[-100:]) / np.log(2))}
    for stride in (128, 64):
        nats, _ = trials.by_place(trained.params, config, held_out, stride)
        found[f"held out, stride {stride}"] = float(nats.mean() / np.log(2))
    for title, text in {"training": training, "held out": held_out}.items():
        found[f"slope by temperature, {title}"] = slope(trained.params, config, text)
    return found | {"seconds": seconds}, trained


def slope(params, config, text):
    """The derivative of the loss by the temperature at 1, over the first 12,000 characters of a text."""
    batch = trials.windows(text, range(0, 12_000, 128))
    z, _ = model.forward(params, config, batch)
    return float(trials.by_temperature(z, batch["target_out"]))


def main(seeds):
    training, held_out = manual.split(once=True)
    p = ngrams.baseline(training, held_out, order=8)[:, 1:]
    record = {"python": platform.python_version(), "characters": [len(training), len(held_out)]}
    record |= {"orders": (-np.log2(p).mean(axis=1)).tolist(), "seeds": {}}
    for seed in seeds:
        record["seeds"][seed], _ = trial(int(seed))
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
