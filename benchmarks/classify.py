"""How well chapter 18's classifier does, by seed, by the number of its labels, and with a part left out.

    OMP_NUM_THREADS=1 python -m benchmarks.classify        writes benchmarks/results/classify.json

Pre-training and fine-tuning are those of the chapter, from other seeds; the examination is always that of the
chapter. The record is written after each training; those that it holds already are not done again. It holds
the share of held-out names that is right, the last losses, and the seconds of the processor.

labels        all training names, or 10 or 50 of every language, drawn by the seed
pre-trained   by masked tokens, on the training names without their labels and on the shared names
from scratch  the same parameters as before pre-training, and the same updates with labels
asked all     pre-training that asks every character, hidden or not
frozen        fine-tuning with a wrong backward of the head: the encoder receives 0
to all rows   another: every row of the encoder receives what belongs to row 0
Bayes         naive Bayes fitted to the same labels
together      ln p of the model and of Bayes added, as `trials.together` says
too sure      by how much the mean confidence of "pre-trained, all" exceeds the share that is right
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from handgrad import fast, names, optim, train
from handgrad.chapters.classify import head, masked, trials

RECORD = Path(__file__).parent / "results" / "classify.json"
EACH = {"200": 10, "1000": 50, "all": None}
WRONG = {"frozen": head.no_dx, "to all rows": head.dx_to_all}


def pretrained(seed, ask_all=False):
    """The parameters before and after pre-training, and what it took."""
    training, _, unlabelled = names.split()
    start, clock = train.start(trials.CONFIG, seed), time.process_time()
    draw = masked.drawn_from(masked.pool_of(training, unlabelled), ask_all=ask_all)
    end = train.run(start, draw, trials.CONFIG, trials.PRETRAINING, engine=fast.engine, progress=False)
    found = {"loss": float(np.mean(end.losses[-100:])), "seconds": time.process_time() - clock}
    return start.params, end.params, found


def fine_tuned(params, seed, labels, **wrong):
    """One fine-tuning and its examination; the scores are returned too."""
    training, held_out, _ = names.split()
    rng, recipe = np.random.default_rng([seed, 1]), trials.fine_tuning(labels)
    labelled = (
        names.few(training, EACH[labels], np.random.default_rng([seed, 2])) if EACH[labels] else training
    )
    begin = head.start(params, trials.CONFIG, trials.C, rng)
    state, clock = train.State(begin, optim.adamw_init(begin), rng), time.process_time()
    engine = head.fine_tuner(trials.CONFIG, recipe, **wrong)
    end = train.run(
        state, masked.labelled_from(labelled), trials.CONFIG, recipe, engine=engine, progress=False
    )
    found = {"seconds": time.process_time() - clock, "loss": float(np.mean(end.losses[-50:]))}
    z = trials.scores(end.params, trials.CONFIG, held_out)
    return found | {"right": trials.accuracy(z, held_out.labels)}, z, labelled


def write(record):
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def of_seed(seed, done, save):
    """All trainings of one seed that are not in `done` yet."""
    _, held_out, _ = names.split()
    start, trained, found = pretrained(seed)
    done["pre-training"] = found
    save()
    for labels in EACH:
        for name, params in {"pre-trained": trained, "from scratch": start}.items():
            done[f"{name}, {labels}"], z, labelled = fine_tuned(params, seed, labels)
            if name == "pre-trained":
                bayes, how = trials.chosen_bayes(labelled)
                of_bayes = bayes.scores(held_out.texts)
                done[f"Bayes, {labels}"] = {
                    "right": trials.accuracy(of_bayes, held_out.labels),
                    "longest": how[0],
                    "alpha": how[1],
                }
                both = trials.together(z, of_bayes, how[0])
                done[f"together, {labels}"] = {"right": trials.accuracy(both, held_out.labels)}
                if labels == "all":
                    done["confusion"] = trials.confusion(z, held_out.labels).tolist()
                    done["too sure"] = trials.overconfidence(z, held_out.labels)
            save()
    for name, backward in WRONG.items():
        done[f"{name}, 1000"], *_ = fine_tuned(trained, seed, "1000", head_backward=backward)
        save()
    _, asked_all, found = pretrained(seed, ask_all=True)
    done["asked all"] = found
    done["asked all, 1000"], *_ = fine_tuned(asked_all, seed, "1000")
    save()


def main():
    parser = argparse.ArgumentParser("benchmarks.classify", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    for seed in range(options.seeds):
        if "asked all, 1000" not in record.get(str(seed), {}):
            done = record.setdefault(str(seed), {})
            of_seed(seed, done, lambda: write(record))
            print(
                seed,
                {name: found.get("right") for name, found in done.items() if isinstance(found, dict)},
                flush=True,
            )


if __name__ == "__main__":
    main()
