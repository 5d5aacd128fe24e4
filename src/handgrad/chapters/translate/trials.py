"""What chapter 16 measures of a trained translator, and the tables of its record.

The notebook measures its own model with these functions, and benchmarks/translate.py those of several seeds.
"""

import numpy as np

from handgrad import decode, model


def tokens_of(row, vocabulary):
    """The words of a row of integers."""
    return [vocabulary.tokens[place] for place in row]


def examine(params, config, pairs, length):
    """Greedy translations (B, length) of all pairs, and which of them are right (B,): every word of them."""
    vocabulary = pairs.vocabulary
    ends = {"bos": vocabulary.bos, "eos": vocabulary.eos, "max_length": length}
    translations = decode.greedy(decode.translator(params, config, pairs.source), len(pairs), **ends)
    target = np.pad(pairs.target, ((0, 0), (0, length - pairs.target.shape[1])))
    return translations, (translations == target).all(axis=1)


def by_digits(numbers, correct):
    """The share that is right among the numbers of 1, 2, ..., 6 digits."""
    digits = np.array([len(str(number)) for number in numbers])
    return [float(np.mean(np.asarray(correct)[digits == count])) for count in range(1, 7)]


def gap(params, config, batch):
    """How far the logit of the right word stands above the mean of the others, on average."""
    z, _ = model.forward(params, config, batch)
    right = np.take_along_axis(z, batch["target_out"][..., None], axis=-1)[..., 0]
    above = right - (z.sum(axis=-1) - right) / (config.V - 1)
    return above[batch["target_out"] != config.pad].mean()


# The record -------------------------------------------------------------------------------------------------


def of_sentences(record):
    """The shares by digits: {sentences: (seeds, 6)} of models, {sentences: (6,)} of the phrase book."""
    book = {int(sentences): np.array(shares) for sentences, shares in record["book"].items()}
    runs = {sentences: record["trials"][f"{sentences} sentences"].values() for sentences in book}
    return {sentences: np.array([run["end"] for run in runs[sentences]]) for sentences in book}, book


def scale(record):
    """A table: the share that model and phrase book get right, by the number of sentences."""
    weights, (models, book) = np.array(record["numbers"]) / sum(record["numbers"]), of_sentences(record)
    lines = []
    for sentences, shares in models.items():
        low, high, of_book = (shares @ weights).min(), (shares @ weights).max(), book[sentences] @ weights
        seeds = f"{len(shares)} seeds"
        lines.append(f"{sentences:5}: model {low:.1%} to {high:.1%}, {seeds}; book {of_book:.1%}")
    return "\n".join(lines)


def ablations(record):
    """A table: the shares by digits that bags allow, and those of models with a part taken out, by seed."""
    rows = [("bags", record["bags"])]
    for name in ("no positions", "no source", "4000 sentences"):
        rows += [(name, run["end"]) for run in record["trials"][name].values()]
    lines = ["digits        " + "".join(f"{digits:5}" for digits in range(1, 7))]
    return "\n".join(lines + [f"{name:14}" + "".join(f"{share:5.0%}" for share in row) for name, row in rows])
