"""A language model that looks at one character, by counting pairs.

A table of counts n (V, V) holds in n[c, v] how often v follows c. All that a bigram model can know of a
text is in it: the loss of any conditional probabilities p[c, v], and its optimum n[c, v] / n[c]. Losses are
in nats per character.
"""

import numpy as np

from ...algebra import check_array, check_number


def unigram_loss(counts, added=0.0, of=None):
    """The loss on the pairs `of`, by default those of counts, if one predicts without looking.

    p[v] = (n[v] + added) / (n + added V), with n[v] = Σ_c counts[c, v]. Infinite if p[v] = 0 for a v that
    occurs in `of`.
    """
    seen = counts.sum(axis=0)
    p = (seen + added) / (seen.sum() + added * len(seen))
    return mean_cost((counts if of is None else of).sum(axis=0), p)


def bigram_loss(counts, added=0.0, of=None):
    """The loss on the pairs `of`, by default those of counts, of p = `conditional(counts, added)`.

    With added = 0 and the pairs of counts themselves this is the optimum: no p has a smaller loss on them.
    """
    return mean_cost(counts if of is None else of, conditional(counts, added))


def conditional(counts, added=0.0):
    """counts (V, V) -> p (V, V), p[c, v] = (n[c, v] + added) / (n[c] + added V); 1/V where this is 0/0."""
    check_array("counts", counts, (len(counts), len(counts)), "integers")
    check_number("added", added)
    n = counts + added
    rows = n.sum(axis=1, keepdims=True)  # (V, 1)
    return np.where(rows > 0, n, 1.0) / np.where(rows > 0, rows, len(n))


def mean_cost(n, p):
    """-1/m Σ n log p with m = Σ n; what never occurs, n = 0, costs nothing, even where p = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.where(n > 0, -np.log(p), 0.0)
    return float((n * cost).sum() / n.sum())


def leave_one_out_loss(counts, added):
    """The loss if each pair is predicted from all the other pairs: `added` is judged without other data.

    The pair (c, v) is predicted with (n[c, v] - 1 + added) / (n[c] - 1 + added V).
    """
    rows = counts.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = (counts - 1 + added) / (rows - 1 + added * len(counts))
    return mean_cost(counts, p)


ADDED = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""What may be added to each count."""


def best_added(counts, choices=ADDED):
    """The choice with the smallest leave-one-out loss on the counts themselves."""
    return min(choices, key=lambda added: leave_one_out_loss(counts, added))
