"""How well chapter 18's classifier does, by seed, by the number of its labels, and with a part left out.

    OMP_NUM_THREADS=1 python -m benchmarks.classify            writes benchmarks/results/classify.json
    OMP_NUM_THREADS=1 python -m benchmarks.classify --search   writes benchmarks/results/classify_search.json

Pre-training and fine-tuning are those of the chapter, from other seeds; the examination is always that of the
chapter. The record is written after each training; those that it holds already are not done again. It holds
the share of held-out names that is right, and which they are, the last losses, the seconds of the processor,
and the day and the machine.

labels        all training names, or 10 or 50 of every language, drawn by the seed
pre-trained   by masked tokens, on the training names without their labels and on the shared names
from scratch  the same parameters as before pre-training, and the same updates with labels
asked all     pre-training that asks every character, hidden or not
frozen        fine-tuning with a wrong backward of the head: the encoder receives 0
to all rows   another: every row of the encoder receives what belongs to row 0
Bayes         naive Bayes fitted to the same labels
together      ln p of the model and of Bayes added, as `trials.together` says
longer        "pre-trained, all" with 3200 updates in place of 800, without dropout and with p = 0.1;
              "together, ..." with Bayes for each of the two
too sure      by how much the mean confidence of "pre-trained, all" exceeds the share that is right

The search sees no held-out name. Every fifth thing of the training is set aside; 1600 updates are judged on
the names of these things, first with four probabilities of dropout, then the best with two other rates.
The winner is trained on all training names from seed 0, and examined once.
"""

import argparse
import json
import platform
import time
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np

from handgrad import fast, names, optim, train
from handgrad.chapters.classify import head, masked, trials
from handgrad.mistakes import edited

from .machine import processor

RECORD = Path(__file__).parent / "results" / "classify.json"
SEARCH = RECORD.with_name("classify_search.json")
EACH = {"200": 10, "1000": 50, "all": None}
WRONG = {
    "frozen": edited(head.cls_head_backward, "[dx_0[:, None, :] → [0 * dx_0[:, None, :]"),
    "to all rows": edited(
        head.cls_head_backward, 'xp.zeros_like(cache["rest"]) → dx_0[:, None, :] + 0 * cache["rest"]'
    ),
}
LONGER = {"longer": dict(steps=3200), "longer with dropout": dict(steps=3200, p=0.1)}


def pretrained(seed, ask_all=False, parts=None):
    """The parameters before and after pre-training, and what it took. parts: other names than all."""
    training, unlabelled = parts or names.split()[::2]
    start, clock = train.start(trials.CONFIG, seed), time.process_time()
    draw = masked.drawn_from(masked.pool_of(training, unlabelled), ask_all=ask_all)
    end = train.run(start, draw, trials.CONFIG, trials.PRETRAINING, engine=fast.engine, progress=False)
    found = {"loss": float(np.mean(end.losses[-100:])), "seconds": time.process_time() - clock}
    return start.params, end.params, found


def fine_tuned(params, seed, labels, steps=None, p=0.0, **wrong):
    """One fine-tuning and its examination; the scores are returned too. p: of dropout."""
    training, held_out, _ = names.split()
    rng, recipe, config = np.random.default_rng([seed, 1]), trials.fine_tuning(labels), trials.CONFIG
    recipe, config = replace(recipe, steps=steps or recipe.steps), replace(config, p=p)
    labelled = (
        names.few(training, EACH[labels], np.random.default_rng([seed, 2])) if EACH[labels] else training
    )
    begin = head.start(params, config, trials.C, rng)
    state, clock = train.State(begin, optim.adamw_init(begin), rng), time.process_time()
    engine = head.fine_tuner(config, recipe, **wrong)
    end = train.run(state, masked.labelled_from(labelled), config, recipe, engine=engine, progress=False)
    found = {"seconds": time.process_time() - clock, "loss": float(np.mean(end.losses[-50:]))}
    z = trials.scores(end.params, config, held_out)
    made = f"{date.today()}, {processor()[0]}, Python {platform.python_version()}, NumPy {np.__version__}"
    return found | examined(z) | {"made": made}, z, labelled


def examined(z):
    """The share of held-out names that is right, and which these are."""
    _, held_out, _ = names.split()
    right = z.argmax(axis=1) == held_out.labels
    return {"right": float(right.mean()), "which": trials.packed(right)}


def write(record):
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def set_aside(every=5):
    """The training names as `names.split` would part them: to learn from, to judge on, and those shared."""
    training, _, unlabelled = names.split()
    meant = [names.found()[text][1] for text in training.texts]
    things = set(sorted(set().union(*meant))[every - 1 :: every])
    rest = [n for n, of in enumerate(meant) if not of & things]
    judged = [n for n, of in enumerate(meant) if of <= things]
    shared = [n for n, text in enumerate(unlabelled.texts) if not names.found()[text][1] & things]
    return training.take(rest), training.take(judged), unlabelled.take(shared)


def search(seeds):
    """Choose dropout and rate on names that are set aside, then train and examine the winner."""
    rest, judged, shared = set_aside()
    done = json.loads(SEARCH.read_text(encoding="utf-8")) if SEARCH.exists() else {"tried": []}
    _, held_out, _ = names.split()
    begun = cache(lambda: pretrained(100, parts=(rest, shared))[1])
    made = f"{date.today()}, {processor()[0]}, Python {platform.python_version()}, NumPy {np.__version__}"

    def save():
        SEARCH.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")

    def learn(params, seed, labelled, p, peak, of):
        config = replace(trials.CONFIG, p=p)
        recipe = replace(trials.fine_tuning("all"), steps=1600, peak=peak)
        rng, clock = np.random.default_rng([seed, 1]), time.process_time()
        begin = head.start(params, config, trials.C, rng)
        state, draw = train.State(begin, optim.adamw_init(begin), rng), masked.labelled_from(labelled)
        engine = head.fine_tuner(config, recipe)
        end = train.run(state, draw, config, recipe, engine=engine, progress=False)
        z = trials.scores(end.params, config, of)
        found = {"p": p, "peak": peak, "seconds": time.process_time() - clock}
        return z, found | {"loss": float(np.mean(end.losses[-50:])), "made": made}

    def trial(p, peak):
        if not any((one["p"], one["peak"]) == (p, peak) for one in done["tried"]):
            z, found = learn(begun(), 100, rest, p, peak, judged)
            share = float(np.mean(z.argmax(axis=1) == judged.labels))
            done["tried"].append(found | {"right": share, "names": len(judged)})
            save()
            print(done["tried"][-1], flush=True)

    def best():
        one = max(done["tried"], key=lambda one: one["right"])
        return one["p"], one["peak"]

    for p in (0.0, 0.1, 0.2, 0.3):
        trial(p, 0.002)
    for peak in (0.001, 0.004):
        trial(max(done["tried"][:4], key=lambda one: one["right"])["p"], peak)
    for seed in range(seeds):
        if str(seed) not in done:
            z, found = learn(pretrained(seed)[1], seed, names.split()[0], *best(), held_out)
            confusion = trials.confusion(z, held_out.labels).tolist()
            done[str(seed)] = found | examined(z) | {"confusion": confusion}
            save()
            print(seed, done[str(seed)]["right"], flush=True)


def of_seed(seed, done, save):
    """All trainings of one seed that are not in `done` yet; `save` is called after each."""
    _, held_out, _ = names.split()
    begun = cache(lambda ask_all: pretrained(seed, ask_all))

    def learn(kind, labels, ask_all=False, **how):
        """One fine-tuning, unless it is done. Returns the scores and the labelled names, or None."""
        if f"{kind}, {labels}" in done:
            return None
        start, trained, done["asked all" if ask_all else "pre-training"] = begun(ask_all)
        params = start if kind == "from scratch" else trained
        done[f"{kind}, {labels}"], z, labelled = fine_tuned(params, seed, labels, **how)
        save()
        return z, labelled

    def join(kind, labels, z, labelled):
        """Bayes beside these scores, and both together."""
        bayes, (longest, alpha) = trials.chosen_bayes(labelled)
        of_bayes = bayes.scores(held_out.texts)
        done[f"Bayes, {labels}"] = examined(of_bayes) | {"longest": longest, "alpha": alpha}
        done[f"{kind}, {labels}"] = examined(trials.together(z, of_bayes, longest))
        save()

    for labels in EACH:
        if found := learn("pre-trained", labels):
            join("together", labels, *found)
            if labels == "all":
                done["confusion"] = trials.confusion(found[0], held_out.labels).tolist()
                done["too sure"] = trials.overconfidence(found[0], held_out.labels)
        learn("from scratch", labels)
    for kind, how in LONGER.items():
        if found := learn(kind, "all", **how):
            join(f"together, {kind}", "all", *found)
    for kind, backward in WRONG.items():
        learn(kind, "1000", head_backward=backward)
    learn("asked all", "1000", ask_all=True)
    save()


def main():
    parser = argparse.ArgumentParser("benchmarks.classify", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--search", action="store_true")
    options = parser.parse_args()
    if options.search:
        return search(1)
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    for seed in range(options.seeds):
        done = record.setdefault(str(seed), {})
        of_seed(seed, done, lambda: write(record))
        of_it = {kind: found for kind, found in done.items() if isinstance(found, dict)}
        print(seed, {kind: found.get("right") for kind, found in of_it.items()}, flush=True)


if __name__ == "__main__":
    main()
