"""What chapter 16 measures of a trained translator, and the dull translator beside it.

The notebook measures its own model with these functions, and benchmarks/translate.py those of several seeds.
"""

from collections import Counter

import numpy as np
import optree

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


# Cross-attention --------------------------------------------------------------------------------------------


def cross_attention(params, config, batch):
    """The weights of every block and head, (N, B, H, T, S)."""
    _, cache = model.forward(params, config, batch)
    return np.stack([block["crossed"]["f"]["attended"]["a"] for block in cache["decoded"]["blocks"]])


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
    z = z - z.max(axis=-1, keepdims=True)
    chosen = np.take_along_axis(z, targets[..., None], axis=-1)[..., 0]
    return chosen - np.log(np.exp(z).sum(axis=-1))


def kept_bytes(cache):
    """The bytes of all arrays in a cache, each counted once."""
    held = {}
    for leaf in optree.tree_leaves(cache):
        while isinstance(getattr(leaf, "base", None), np.ndarray):
            leaf = leaf.base
        held[id(leaf)] = getattr(leaf, "nbytes", 0)
    return sum(held.values())


# Without a model --------------------------------------------------------------------------------------------


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


def answer(params, config, training, text):
    """What the model says of the number in a text, and whether it is right. ValueError if it is no number."""
    number, vocabulary = int(text), training.vocabulary
    english, wanted = data.words(number, "en"), data.words(number, "fr")
    french = decode.translate(params, config, vocabulary, [english])[0]
    verdict = "right" if french == wanted else "wrong"
    seen = "seen" if number in training.numbers else "not seen"
    return f"{english}\n{french}\n{verdict}; {seen} in training"


# The record -------------------------------------------------------------------------------------------------


def of_start(record):
    """A table: what models of many seeds do before the first update."""
    lines = [f"{len(record['start'])} seeds"]
    for name in record["start"][0]:
        found = [seed[name] for seed in record["start"]]
        lines.append(f"{name:22} {np.mean(found):.2f}, from {min(found):.2f} to {max(found):.2f}")
    return "\n".join(lines)


def of_failures(record):
    """The numbers that models of several seeds got wrong, after 400 updates and at the end."""
    runs, lines = record["trials"]["4000 sentences"].values(), []
    for update, when in ((400, "early wrong"), (1600, "end wrong")):
        wrong = sorted(number for run in runs for number in run[when])
        title = f"{len(wrong)} of {sum(record['numbers']) * len(runs)} wrong after {update} updates:"
        lines.append(" ".join([title, *map(str, wrong)]))
    return "\n".join(lines)


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


def of_dependence(record, *questions):
    """A table: for each question (number, French, English), the share lost by the model of each seed."""
    lines = []
    for number, french, english in questions:
        found = [run[f"lost {number}"] for run in record["trials"]["4000 sentences"].values()]
        shares = [x["lost"][x["target"].index(french)][x["source"].index(english)] for x in found]
        lines.append(
            f"{french:4} by {english:6} in {number:6}: " + " ".join(f"{share:.2f}" for share in shares)
        )
    return "\n".join(lines)
