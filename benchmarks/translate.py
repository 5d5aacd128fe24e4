"""How well chapter 16's translator does, by seed, by the number of its sentences, and with a part taken out.

    OMP_NUM_THREADS=1 python -m benchmarks.translate        writes benchmarks/results/translate.json

Each training is that of the chapter, 1600 updates from another seed; examination and vocabulary are always
those of the chapter. A training takes about a minute, and the record is written after each; those that it
holds already are not done again.

sentences      how many of the chapter's training sentences are seen: the first so many
no positions   nothing is added to the embeddings, neither of the source nor of the target
not shifted    the decoder reads the row that it is asked for; 120 updates, beside those of the right model
no source      every source sentence is the lone <eos>, so that cross-attention has nothing to tell
start          the loss before the first update, and the mean log-sum of the logits with and without the word
               that was read last
book           without a model: the pieces before and after "thousand" are looked up
bags           without a model: what a translator of shuffled words can at most get right
"""

import argparse
import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from handgrad import data, fast, model, train
from handgrad.chapters.translate import trials
from handgrad.config import vaswani_base

RECORD = Path(__file__).parent / "results" / "translate.json"
RECIPE = train.Recipe(steps=1600, batch_size=128, peak=0.002, warmup=100, label_smoothing=0.1)
TRIALS = {
    "4000 sentences": dict(sentences=4000),
    "400 sentences": dict(sentences=400),
    "1000 sentences": dict(sentences=1000),
    "100 sentences": dict(sentences=100),
    "no positions": dict(positions=False),
    "no source": dict(source=False),
    "not shifted": dict(shifted=False, steps=120),
}
EARLY = 400


def material():
    """The chapter's training and held-out pairs, and its model."""
    training, held_out = data.number_pairs(np.random.default_rng(16), train=4000, held_out=3000)
    vocabulary = training.vocabulary
    config = vaswani_base(V=len(vocabulary), D=64, H=4, F=256, N=2, p=0.0, pad=vocabulary.pad)
    return training, held_out, config


def silent(pairs):
    """The pairs with every source sentence replaced by its end."""
    return replace(pairs, source=np.full((len(pairs), 1), pairs.vocabulary.eos))


def no_positions(T, D):
    return np.zeros((T, D))


def unshifted(pairs):
    """A function that draws a batch in which the decoder reads what it is asked for."""

    def draw(rng, size):
        batch = pairs.draw(rng, size)
        return batch | {"target_in": batch["target_out"]}

    return draw


def trial(seed, sentences=4000, positions=True, source=True, shifted=True, steps=RECIPE.steps):
    """One training and its examination. steps: to stop early."""
    training, held_out, config = material()
    training = data.Pairs.of(training.numbers[:sentences], training.vocabulary)
    if not source:
        training, held_out = silent(training), silent(held_out)
    with ExitStack() as stack:
        if not positions:
            for module in (model, fast.step):
                stack.enter_context(patch.object(module, "sinusoidal", no_positions))
        state, found = train.start(config, seed), {}
        draw = training.draw if shifted else unshifted(training)
        for name, until in (("early", min(EARLY, steps)), ("end", steps)):
            options = dict(until=until, progress=False, engine=fast.engine)
            state = train.run(state, draw, config, RECIPE, **options)
            _, correct = trials.examine(state.params, config, held_out, held_out.target.shape[1])
            found[name] = trials.by_digits(held_out.numbers, correct)
            found[f"{name} wrong"] = [int(n) for n in held_out.numbers[~correct]]
    found["loss"] = float(np.mean(state.losses[-20:]))
    found["loss 80 to 120"] = float(np.mean(state.losses[80:120]))
    if not (positions and source and shifted and sentences == 4000):
        found["end wrong"], found["early wrong"] = len(found["end wrong"]), len(found["early wrong"])
    return found


def start(seed):
    """Before the first update: the loss, and what its approximation says of it, on 512 sentences."""
    training, _, config = material()
    state, batch = train.start(config, seed), training.batch(np.arange(512))
    z, _ = model.forward(state.params, config, batch)
    counted = batch["target_out"] != config.pad
    read = np.arange(config.V) == batch["target_in"][..., None]  # (B, T, V)
    loss, _ = model.loss_and_gradients(state.params, config, batch, label_smoothing=0.1)
    log_sum = np.logaddexp.reduce(z, axis=-1)[counted]
    others = np.logaddexp.reduce(np.where(read, -np.inf, z), axis=-1)[counted]
    found = {"loss": loss, "log-sum": log_sum.mean(), "without the word read": others.mean()}
    found["logit of the word read"] = z[read].reshape(counted.shape)[counted].mean()
    found |= {"variance of the others": z[~read].reshape(*counted.shape, -1)[counted].var(axis=-1).mean()}
    return {name: float(value) for name, value in found.items()}


def phrase_book(numbers):
    """A translator that knows one rule: cut at thousand and mille. The pieces it looks up.

    Returns a function number -> French sentence, or None where a piece was in no sentence of `numbers`.
    """
    book = {}
    for number in numbers:
        book |= dict(zip(*(pieces(number, language) for language in ("en", "fr"))))
    known = book.get

    def translate(number):
        found = [known(piece) for piece in pieces(number, "en")]
        return None if None in found else " ".join(filter(None, found))

    return translate


def pieces(number, language):
    """A number's words before thousand, with it, and after it, each with a mark of where it stands."""
    thousand = {"en": "thousand", "fr": "mille"}[language]
    before, found, after = data.words(number, language).partition(thousand)
    if not found:
        return (before.strip(), "") if language == "fr" else ("| " + before.strip(), "nothing")
    if language == "fr":
        return f"{before}{found}".strip(), after.strip()
    return f"{before}{found}".strip(), "| " + after.strip(" ,").removeprefix("and ")


def bags(below=1000):
    """The largest share of the numbers of 1, ..., 6 digits that a translator of shuffled words can get right.

    Numbers with the same words in another order are one sentence to it, and it must give them one answer.
    """
    groups = [tuple(sorted(data.split_words(data.words(n, "en")))) for n in range(below)]
    found = Counter()
    for first in range(below):
        for rest in range(below):
            link = () if not rest else (",",) if rest >= 100 else ("and",)
            words = (*groups[first], "thousand", *link, *(groups[rest] if rest else ()))
            found[len(str(first * below + rest)), tuple(sorted(words if first else groups[rest]))] += 1
    counts = Counter(digits for digits, _ in found)
    return [counts[digits] / (9 * 10 ** (digits - 1) + (digits == 1)) for digits in range(1, 7)]


def write(record):
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser("benchmarks.translate", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind")
    options = parser.parse_args()
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if "start" not in record:
        training, held_out, _ = material()
        record |= {"recipe": vars(RECIPE), "start": [start(seed) for seed in range(30)], "book": {}}
        for sentences in (100, 400, 1000, 4000):
            book = phrase_book(training.numbers[:sentences])
            right = [book(n) == data.words(n, "fr") for n in held_out.numbers]
            record["book"][str(sentences)] = trials.by_digits(held_out.numbers, right)
        digits = [len(str(n)) for n in held_out.numbers]
        record |= {"bags": bags(), "numbers": np.bincount(digits)[1:].tolist()}
    done = record.setdefault("trials", {})
    for seed in range(options.seeds):
        for name, kind in TRIALS.items():
            if str(seed) not in done.setdefault(name, {}):
                done[name][str(seed)] = trial(seed, **kind)
                write(record)
                print(name, seed, done[name][str(seed)]["end"], flush=True)


if __name__ == "__main__":
    main()
