"""What chapter 18 measures: baselines that count, and what a trained classifier does on held-out names.

The notebook measures its own models with these functions, and benchmarks/classify.py those of several seeds.
"""

import numpy as np

from ... import model, names
from ...blocks import encoder_block_backward
from ...config import bert_base
from ...ops import cross_entropy, cross_entropy_backward
from ...train import Recipe
from . import head, masked

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


# A trained model --------------------------------------------------------------------------------------------


def scores(params, config, of, size=256):
    """The scores (B, C) of a classifier for all names, in the order in which they stand."""
    order, found = masked.by_length(of), np.zeros((len(of), C))
    for first in range(0, len(of), size):
        rows = order[first : first + size]
        found[rows] = head.forward(params, config, of.take(rows).tokens)[0]
    return found


def accuracy(z, labels):
    """The share of names whose highest score is that of their label."""
    return float(np.mean(z.argmax(axis=1) == labels))


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

MODELS = ("from scratch", "pre-trained", "counting")
LABELS = ("200", "1000", "all")


def rights(record, kind):
    """The share that is right, for each seed (seeds,)."""
    return np.array([done[kind]["right"] for done in record.values()])


def standard_error(share, n):
    """That of a share of n names drawn independently: √(share (1 - share) / n)."""
    return np.sqrt(share * (1 - share) / n)


def table(record, kinds, examined):
    """A line for each kind: the mean share right, and its standard errors from names and from seeds."""
    lines = [f"{'':22} right  names  seeds"]
    for kind in kinds:
        shares = rights(record, kind)
        mean, of_seeds = shares.mean(), np.std(shares, ddof=1) / np.sqrt(len(shares))
        errors = f"± {100 * standard_error(mean, examined):.1f}  ± {100 * of_seeds:.1f}"
        lines.append(f"{kind:22}{mean:6.1%}  {errors}")
    return "\n".join(lines)
