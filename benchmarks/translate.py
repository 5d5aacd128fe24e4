"""How well chapter 16's translator does, by seed and by the number of its sentences, beside a phrase book.

    OMP_NUM_THREADS=1 python -m benchmarks.translate        writes benchmarks/results/translate.json

Each training is that of the chapter, 1600 updates from another seed, on the first so many of the chapter's
sentences; examination and vocabulary are always those of the chapter. A training takes about a minute, and
the record is written after each; those that it holds already are not done again.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from handgrad import data, fast, train
from handgrad.chapters.translate.exam import examine
from handgrad.config import vaswani_base

RECORD = Path(__file__).parent / "results" / "translate.json"
RECIPE = train.Recipe(steps=1600, batch_size=128, peak=0.002, warmup=100, label_smoothing=0.1)
SENTENCES = (100, 400, 1000, 4000)


def material():
    """The chapter's training and held-out pairs, and its model."""
    training, held_out = data.number_pairs(np.random.default_rng(16), train=4000, held_out=3000)
    vocabulary = training.vocabulary
    config = vaswani_base(V=len(vocabulary), D=64, H=4, F=256, N=2, p=0.0, pad=vocabulary.pad)
    return training, held_out, config


def trial(seed, sentences):
    """One training: its last losses, and how many of its answers are wrong; with all sentences, which."""
    training, held_out, config = material()
    training = data.Pairs.of(training.numbers[:sentences], training.vocabulary)
    start = train.start(config, seed)
    state = train.run(start, training.draw, config, RECIPE, progress=False, engine=fast.engine)
    _, correct = examine(state.params, config, held_out, held_out.target.shape[1])
    found = {"loss": float(np.mean(state.losses[-20:])), "wrong": int((~correct).sum())}
    return found | ({"numbers": held_out.numbers[~correct].tolist()} if sentences == max(SENTENCES) else {})


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


def wrong_of_book(sentences):
    """How many of the held-out numbers a phrase book of the first sentences does not translate."""
    training, held_out, _ = material()
    translate = phrase_book(training.numbers[:sentences])
    return sum(translate(n) != data.words(n, "fr") for n in held_out.numbers)


def main():
    parser = argparse.ArgumentParser("benchmarks.translate", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind")
    options = parser.parse_args()
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"trials": {}}
    record |= {"recipe": vars(RECIPE), "book": {str(n): wrong_of_book(n) for n in SENTENCES}}
    for seed in range(options.seeds):
        for sentences in SENTENCES:
            done = record["trials"].setdefault(str(sentences), {})
            if str(seed) not in done:
                done[str(seed)] = trial(seed, sentences)
                RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
                print(sentences, seed, done[str(seed)], flush=True)


if __name__ == "__main__":
    main()
