"""How well chapter 18's classifier does, by seed, by the number of its labels, and with a wrong gradient.

    OMP_NUM_THREADS=1 python -m benchmarks.classify    writes benchmarks/results/classify.json

Pre-training and fine-tuning are those of the chapter, from other seeds; the examination is always that of the
chapter. The record is written after each training; those that it holds already are not done again. It holds
the share of held-out names that is right, the last losses, the seconds of the processor, and the day and the
machine.

labels        all training names, or 10 or 50 of every language, drawn by the seed
pre-trained   by masked tokens, on the training names without their labels and on the shared names
from scratch  the same parameters as before pre-training, and the same updates with labels
to all rows   pre-trained, and a wrong backward of the head: all rows receive what belongs to row 0
counting      naive Bayes fitted to the same labels
"""

import argparse
import json
import platform
import time
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np

from handgrad import fast, names, train
from handgrad.chapters.classify import head, masked, trials
from handgrad.mistakes import edited

from .machine import processor

RECORD = Path(__file__).parent / "results" / "classify.json"
EACH = {"200": 10, "1000": 50, "all": None}
TO_ALL_ROWS = edited(
    head.cls_head_backward, 'xp.zeros_like(cache["rest"]) → dx_0[:, None, :] + 0 * cache["rest"]'
)


def pretrained(seed):
    """The parameters before and after pre-training."""
    training, _, unlabelled = names.split()
    start, draw = train.start(trials.CONFIG, seed), masked.drawn_from(masked.pool_of(training, unlabelled))
    end = train.run(start, draw, trials.CONFIG, trials.PRETRAINING, engine=fast.engine, progress=False)
    return start.params, end.params


def drawn(seed, labels):
    """The training names whose labels are known."""
    training, _, _ = names.split()
    return names.few(training, EACH[labels], np.random.default_rng([seed, 2])) if EACH[labels] else training


def fine_tuned(params, seed, labels, **wrong):
    """One fine-tuning and its examination."""
    _, held_out, _ = names.split()
    recipe, config, draw = (
        trials.fine_tuning(labels),
        trials.CONFIG,
        masked.labelled_from(drawn(seed, labels)),
    )
    state, clock = head.begun(params, config, trials.C, [seed, 1]), time.process_time()
    engine = head.fine_tuner(config, recipe, **wrong)
    end = train.run(state, draw, config, recipe, engine=engine, progress=False)
    found = {"seconds": time.process_time() - clock, "loss": float(np.mean(end.losses[-50:]))}
    right = trials.accuracy(trials.scores(end.params, config, held_out), held_out.labels)
    made = f"{date.today()}, {processor()[0]}, Python {platform.python_version()}, NumPy {np.__version__}"
    return found | {"right": right, "made": made}


def counted(seed, labels):
    """Naive Bayes, its settings chosen on the same names, and its examination."""
    _, held_out, _ = names.split()
    bayes, (longest, alpha) = trials.chosen_bayes(drawn(seed, labels))
    right = trials.accuracy(bayes.scores(held_out.texts), held_out.labels)
    return {"right": right, "longest": longest, "alpha": alpha}


def of_seed(seed, done, save):
    """All results of one seed that are not in `done` yet; `save` is called after each."""
    begun = cache(lambda: pretrained(seed))

    def learn(kind, labels, make):
        if f"{kind}, {labels}" not in done:
            done[f"{kind}, {labels}"] = make(seed=seed, labels=labels)
            save()

    for labels in EACH:
        learn("from scratch", labels, lambda **of: fine_tuned(begun()[0], **of))
        learn("pre-trained", labels, lambda **of: fine_tuned(begun()[1], **of))
        learn("counting", labels, counted)
    learn("to all rows", "1000", lambda **of: fine_tuned(begun()[1], **of, head_backward=TO_ALL_ROWS))


def main():
    parser = argparse.ArgumentParser("benchmarks.classify", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}

    def save():
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    for seed in range(options.seeds):
        done = record.setdefault(str(seed), {})
        of_seed(seed, done, save)
        print(seed, {kind: found["right"] for kind, found in done.items()}, flush=True)


if __name__ == "__main__":
    main()
