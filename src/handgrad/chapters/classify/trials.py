"""What chapter 18 measures: baselines that count, and what a trained classifier does on held-out names.

The notebook measures its own models with these functions, and benchmarks/classify.py those of several seeds.
"""

import numpy as np
from scipy.stats import binomtest

from ... import model, names
from ...blocks import encoder_block_backward
from ...config import bert_base
from ...decode import log_softmax
from ...ops import cross_entropy, cross_entropy_backward
from ...train import Recipe
from . import head

C = len(names.LANGUAGES)

CONFIG = bert_base(V=names.V, D=64, H=4, F=128, N=2, T_max=32, segments=0, std=None, p=0.0, pad=names.PAD)
"""The model of the chapter: BERT's form, small; one kind of segment, so none."""
PRETRAINING = Recipe(steps=2000, batch_size=64, peak=0.003, warmup=100, label_smoothing=0.0)


def fine_tuning(labels):
    """The recipe with labels: 800 updates for "all" of them, 250 for fewer."""
    steps, peak = (800, 0.002) if labels == "all" else (250, 0.001)
    return Recipe(steps=steps, batch_size=64, peak=peak, warmup=50, label_smoothing=0.0)


# Baselines that count ---------------------------------------------------------------------------------------


def grams(text, longest):
    """All pieces of ^text$ of 1 … `longest` characters."""
    marked = f"^{text}$"
    return [marked[i : i + n] for n in range(1, longest + 1) for i in range(len(marked) - n + 1)]


class NaiveBayes:
    """Multinomial naive Bayes over character n-grams with add-α counts, fitted to labelled names only."""

    def __init__(self, labelled, longest=5, alpha=0.1):
        self.longest = longest
        pieces = [grams(text, longest) for text in labelled.texts]
        self.place = {piece: i for i, piece in enumerate(sorted(set().union(*pieces)))}
        counts = np.zeros((len(self.place), C))
        for label, of_name in zip(labelled.labels, pieces, strict=True):
            np.add.at(counts, ([self.place[piece] for piece in of_name], label), 1)
        self.log_share = np.log(counts + alpha) - np.log((counts + alpha).sum(axis=0))  # (grams, C)
        self.log_prior = np.log(np.bincount(labelled.labels, minlength=C) + alpha)

    def scores(self, texts):
        """ln p(label) + Σ ln p(piece | label), (B, C); a piece that was never seen says nothing."""
        rows = [[self.place[g] for g in grams(text, self.longest) if g in self.place] for text in texts]
        return np.array([self.log_prior + self.log_share[row].sum(axis=0) for row in rows])


def chosen_bayes(labelled, folds=5):
    """`NaiveBayes` with the longest piece and the α that are best in cross-validation, and these two.

    The folds are made of things, as the examination is: the names of one thing are in one fold.
    """
    things = [" ".join(min(names.found()[text][1])) for text in labelled.texts]
    fold, results = np.unique(things, return_inverse=True)[1] % folds, {}
    for longest in (3, 4, 5):
        for alpha in (0.03, 0.1, 0.3):
            right = 0
            for n in range(folds):
                rest, tried = (labelled.take(np.flatnonzero(at)) for at in (fold != n, fold == n))
                right += np.sum(
                    NaiveBayes(rest, longest, alpha).scores(tried.texts).argmax(axis=1) == tried.labels
                )
            results[longest, alpha] = right
    best = max(results, key=results.get)
    return NaiveBayes(labelled, *best), best


def entropy(counts):
    """The entropy of counted things, in nats."""
    shares = np.asarray(counts)[np.asarray(counts) > 0] / np.sum(counts)
    return float(-(shares * np.log(shares)).sum())


class Neighbours:
    """A character from its neighbours: p(c | left, right), mixed with p(c | left), p(c | right), p(c)."""

    def __init__(self, pool):
        (a, c, b), V = triples(pool.tokens), names.V
        self.both = np.bincount((a * V + b) * V + c, minlength=V**3).reshape(V, V, V)
        self.left, self.right = self.both.sum(axis=1), self.both.sum(axis=0)
        self.alone = self.both.sum(axis=(0, 1))

    def loss(self, tokens):
        """Mean cross-entropy of all characters of tokens (B, T), each hidden by itself."""
        a, c, b = triples(tokens)
        base = (self.alone + 1) / (self.alone + 1).sum()
        p = base[c]
        for counts in (self.left[a] + self.right[b], self.both[a, b]):
            weight = counts.sum(axis=1)
            spread = 5.0
            p = (counts[np.arange(len(c)), c] + spread * p) / (weight + spread)
        return float(-np.log(p).mean())


def triples(tokens):
    """Each character of tokens (B, T) with what stands to its left and right: (left, character, right)."""
    rows, columns = np.nonzero(tokens >= names.UNK)
    return tokens[rows, columns - 1], tokens[rows, columns], tokens[rows, columns + 1]


# A trained model --------------------------------------------------------------------------------------------


def scores(params, config, of, size=256):
    """The scores (B, C) of a classifier for all names, in the order in which they stand."""
    order, found = np.argsort((of.tokens != names.PAD).sum(axis=1), kind="stable"), np.zeros((len(of), C))
    for first in range(0, len(of), size):
        rows = order[first : first + size]
        found[rows] = head.forward(params, config, of.take(rows).tokens)[0]
    return found


def masked_loss(params, config, batch, size=512):
    """The mean cross-entropy of what a batch asks, some rows at a time."""
    losses, numbers = [], []
    for first in range(0, len(batch["tokens"]), size):
        some = {name: array[first : first + size] for name, array in batch.items()}
        z, _ = model.forward(params, config, some)
        losses.append(cross_entropy(z, some["target_out"], config.pad)[0])
        numbers.append(np.sum(some["target_out"] != config.pad))
    return float(np.average(losses, weights=numbers))


def together(z, of_bayes, longest=5):
    """Both opinions: ln p of the model and ln p of Bayes, whose scores are divided by `longest` before.

    The score of Bayes is a sum over the lengths 1 … `longest` of its pieces. Divided, it is the mean of what
    each length by itself would say (but for the prior). That is a choice; nothing is fitted.
    """
    return log_softmax(z) + log_softmax(of_bayes / longest)


def accuracy(z, labels):
    """The share of names whose highest score is that of their label."""
    return float(np.mean(z.argmax(axis=1) == labels))


def confusion(z, labels):
    """How often a name of language i is called j: counts (C, C)."""
    return np.bincount(C * labels + z.argmax(axis=1), minlength=C * C).reshape(C, C)


def spelled_alike(languages=2):
    """How many names two languages spell alike, of those that exactly so many share: counts (C, C)."""
    places, alike = {code: i for i, code in enumerate(names.LANGUAGES)}, np.zeros((C, C), int)
    for spoken, _ in names.found().values():
        at = [places[code] for code in spoken]
        if len(at) == languages:
            alike[np.ix_(at, at)] += 1
    return alike * (1 - np.eye(C, dtype=int))


# Where a gradient arrives -----------------------------------------------------------------------------------


def arrivals(dx, cache):
    """The gradients (N + 1, B, T, D) of the stream of `model.encode`, from the top to below the first block.

    dx (B, T, D): the gradient of the encoder's output; the encoder has no norm of its own at its end.
    """
    found = [dx]
    for block in reversed(cache["blocks"]):
        dx, _ = encoder_block_backward(dx, block)
        found.append(dx)
    return np.array(found)


def of_questions(params, config, batch):
    """`arrivals` (N + 1, B, T, D) of the loss of hidden characters, for what a batch asks."""
    x, encoded = model.encode(params, config, batch["tokens"])
    logits, headed = model.head(x, params, config)
    _, counted = cross_entropy(logits, batch["target_out"], names.PAD)
    dx, _, _ = model.head_backward(cross_entropy_backward(1.0, counted), headed)
    return arrivals(dx, encoded)


# The record -------------------------------------------------------------------------------------------------

MODELS = ("pre-trained", "from scratch", "Bayes", "together")
LABELS = ("200", "1000", "all")


def rights(record, *kinds):
    """The shares that are right, {kind: (seeds,)}."""
    return {kind: np.array([done[kind]["right"] for done in record.values()]) for kind in kinds}


def packed(right):
    """Booleans (n,) as a text, a hexadecimal digit for four of them."""
    return np.packbits(right).tobytes().hex()


def which(done, kind):
    """Which held-out names are right, Booleans (names,), of one seed of the record."""
    packed = np.frombuffer(bytes.fromhex(done[kind]["which"]), np.uint8)
    return np.unpackbits(packed, count=np.sum(done["confusion"])).astype(bool)


def standard_error(share, n):
    """That of a share of n names drawn independently: √(share (1 - share) / n)."""
    return np.sqrt(share * (1 - share) / n)


def paired(done, one, other):
    """How many names only the one has right, how many only the other, and the p-value of this difference.

    The two sit one examination, so only names on which they differ say anything. If neither were better, each
    of these would fall to either side with probability ½ (McNemar's test, exact, two-sided).
    """
    first, second = which(done, one), which(done, other)
    only_one, only_other = int(np.sum(first & ~second)), int(np.sum(second & ~first))
    return only_one, only_other, binomtest(only_one, max(only_one + only_other, 1)).pvalue


def table(record, *kinds):
    """A line for each kind: the mean share right, and its standard errors from names and from seeds."""
    n, wide = np.sum(next(iter(record.values()))["confusion"]), max(22, *(len(kind) + 1 for kind in kinds))
    lines = [f"{'':{wide}} right  names  seeds"]
    for kind, shares in rights(record, *kinds).items():
        mean, of_seeds = shares.mean(), np.std(shares, ddof=1) / np.sqrt(len(shares))
        errors = f"± {100 * standard_error(mean, n):.1f}  ± {100 * of_seeds:.1f}"
        lines.append(f"{kind:{wide}}{mean:6.1%}  {errors}")
    return "\n".join(lines)


def largest_pairs(counts, number):
    """The pairs of languages with the largest counts (C, C), as texts: "da-nb 131"."""
    codes, pairs = list(names.LANGUAGES), np.array(np.triu_indices(C, 1)).T
    order = np.argsort(-counts[tuple(pairs.T)], kind="stable")[:number]
    return [f"{codes[i]}-{codes[j]} {counts[i, j]}" for i, j in pairs[order]]


def overconfidence(z, labels):
    """By how much the mean of the largest probability exceeds the share that is right."""
    return float(np.exp(log_softmax(z)).max(axis=1).mean() - accuracy(z, labels))
