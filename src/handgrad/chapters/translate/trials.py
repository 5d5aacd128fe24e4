"""What chapter 16 measures of a trained translator, and the tables of its record.

The notebook measures its own model with these functions, and benchmarks/translate.py those of several seeds.
"""

import numpy as np

from handgrad import data, decode, model

DIGITS = "one two three four five six seven eight nine".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
KINDS = (DIGITS, TENS, ["-" + digit for digit in DIGITS])
"""English words that can stand in each other's place."""
PAIRS = {"thirty": "trente", "forty": "quarante", "fifty": "cinquante"}
"""Tens that are one word in both languages."""


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


# Cross-attention --------------------------------------------------------------------------------------------


def cross_attention(params, config, batch):
    """The weights of every block and head, (N, B, H, T, S)."""
    _, cache = model.forward(params, config, batch)
    return np.stack([block["crossed"]["f"]["attended"]["a"] for block in cache["decoded"]["blocks"]])


def looks(params, config, number, vocabulary):
    """Cross-attention (N, H, T, S) for one number, the words written (T,) and the words read (S,)."""
    batch = data.Pairs.of([number], vocabulary).batch(np.array([0]))
    sides = (tokens_of(batch[name][0], vocabulary) for name in ("target_out", "source"))
    return cross_attention(params, config, batch)[:, 0], *sides


def share(params, config, pairs, english, french):
    """How much of each head's weight (N, H) lies on `english` while `french` is written.

    The mean over the pairs in which both occur once.
    """
    batch, tokens = pairs.batch(np.arange(len(pairs))), pairs.vocabulary.tokens
    read = batch["source"] == tokens.index(english)  # (B, S)
    written = batch["target_out"] == tokens.index(french)  # (B, T)
    rows = (read.sum(axis=1) == 1) & (written.sum(axis=1) == 1)
    weights = cross_attention(params, config, {name: table[rows] for name, table in batch.items()})
    both = written[rows][:, None, :, None] & read[rows][:, None, None, :]  # (B, 1, T, S)
    return (weights * both).sum(axis=(3, 4)).mean(axis=1)


def shares(params, config, pairs):
    """The mean of `share` over three tens, (N, H)."""
    return np.mean([share(params, config, pairs, *words) for words in PAIRS.items()], axis=0)


def replacements(source):
    """Each way to replace one word of a source by another of its kind: pairs (place, new source)."""
    for place, token in enumerate(source):
        for kind in (kind for kind in KINDS if token in kind):
            for other in kind:
                if other != token:
                    yield place, [*source[:place], other, *source[place + 1 :]]


def dependence(params, config, number, vocabulary):
    """What share of each French word's probability is lost when an English word is replaced: (T, S).

    The mean over the other words of its kind, with the words before it as they should be; a gain counts 0.
    Returns the shares, the French and the English words.
    """
    batch = data.Pairs.of([number], vocabulary).batch(np.array([0]))
    source, target = (tokens_of(batch[name][0], vocabulary) for name in ("source", "target_out"))
    places, others = zip(*replacements(source))
    rows = np.array([[vocabulary.tokens.index(token) for token in row] for row in (source, *others)])
    given = {"source": rows, "target_in": batch["target_in"].repeat(len(rows), axis=0)}
    z, _ = model.forward(params, config, given)
    p = np.exp(log_p(z, batch["target_out"].repeat(len(rows), axis=0)))  # (R, T)
    lost, average = np.maximum(1 - p[1:] / p[0], 0), np.zeros((len(source), len(target)))
    for place in sorted(set(places)):
        average[place] = lost[np.array(places) == place].mean(axis=0)
    return average.T, target, source


def log_p(z, targets):
    """The log probability of each target: z (..., V), targets (...) -> (...)."""
    return np.take_along_axis(decode.log_softmax(z), targets[..., None], axis=-1)[..., 0]


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
