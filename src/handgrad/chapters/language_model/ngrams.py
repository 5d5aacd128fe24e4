"""Counting: what a text says of its next character after n − 1 others, orders mixed by weights.

The mixture is that of Jelinek and Mercer (1980). Order 0 gives 1/V to every character. Order n mixes the
share f_n, counted in a text, with order n − 1:

    p_n = λ f_n + (1 − λ) p_(n−1)

The weight λ depends on n and on how often the n − 1 characters before were seen: never, once, twice or three
times, four to seven times, and so on. Where they were never seen, λ = 0.
"""

import numpy as np

from ...manual import V

CLASSES = 24  # how often a context was seen, by powers of 2
LEAST = 20  # places that a class needs for a weight of its own; else it has that of the class before


def grams(tokens, n):
    """tokens (L,) -> (L − n + 1,): a number for each n characters in a row, the last as last digit."""
    found = np.zeros(len(tokens) - n + 1, dtype=np.int64)
    for place in range(n):
        found = V * found + tokens[place : len(tokens) - n + 1 + place]
    return found


def counted(tokens, order):
    """How often 1, …, `order` characters in a row occur in tokens (L,): a list of (sorted grams, counts).

    Raises ValueError unless 1 ≤ order ≤ 9: ten characters are too many for an integer.
    """
    if not 1 <= order <= 9:
        raise ValueError(f"order: expected 1 to 9, got {order}")
    return [np.unique(grams(tokens, n), return_counts=True) for n in range(1, order + 1)]


def times(count, wanted):
    """How often each of `wanted` was counted."""
    known, numbers = count
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, numbers[place], 0)


def shares(counts, tokens):
    """For each order n = 1, …: f_n of each token after those before it, and how often these were seen. (L,)

    A context of the counted text is counted wherever a character follows it. At the first n − 1 places of
    tokens (L,) there is no context, and it was seen 0 times.
    """
    followed = {n: times(count, grams(tokens, n)) for n, count in enumerate(counts, 1)}
    for n, count in enumerate(counts, 1):
        seen, share = np.zeros(len(tokens)), np.zeros(len(tokens))
        if n == 1:
            seen[:] = count[1].sum()
        else:
            known, numbers = count
            contexts, first = np.unique(known // V, return_index=True)
            seen[n - 1 :] = times((contexts, np.add.reduceat(numbers, first)), grams(tokens, n) // V)
        share[n - 1 :] = followed[n]
        yield share / np.maximum(seen, 1), seen.astype(int)


def classes(seen):
    """0 for never, 1 for once, 2 for two or three times, 3 for four to seven, …"""
    return np.where(seen > 0, 1 + np.log2(np.maximum(seen, 1)).astype(int), 0)


def best_share(f, p, rounds=100):
    """The λ in [0, 1] that makes the mean of ln(λ f + (1 − λ) p) largest: expectation and maximisation."""
    share = 0.5
    for _ in range(rounds):
        share = np.mean(share * f / (share * f + (1 - share) * p))
    return share


def fit(tokens, order, aside=0.1):
    """Weights (order, CLASSES) of the mixture: counts from the first part, weights from the last."""
    cut = int((1 - aside) * len(tokens))
    rest, weights = tokens[cut:], np.zeros((order, CLASSES))
    p = np.full(len(rest), 1 / V)
    for n, (f, seen) in enumerate(shares(counted(tokens[:cut], order), rest)):
        which = classes(seen)
        for number in range(1, CLASSES):
            here = which == number
            enough = here.sum() >= LEAST
            weights[n, number] = best_share(f[here], p[here]) if enough else weights[n, number - 1]
        p = weights[n, which] * f + (1 - weights[n, which]) * p
    return weights


def probabilities(counts, weights, tokens):
    """(order + 1, L): the probability of each of tokens (L,), given those before it, by orders 0, 1, …"""
    p = [np.full(len(tokens), 1 / V)]
    for own, (f, seen) in zip(weights, shares(counts, tokens), strict=True):
        share = own[classes(seen)]
        p.append(share * f + (1 - share) * p[-1])
    return np.array(p)


def baseline(training, held_out, order):
    """(order + 1, L): the probabilities of held_out (L,) by the mixtures of orders 0, 1, …, `order`.

    Counts are those of the whole training text; the weights are fitted inside it.
    """
    return probabilities(counted(training, order), fit(training, order), held_out)
