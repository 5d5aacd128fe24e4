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


def joined(places, tokens):
    """A number for each n characters in a row: V times the place of the first n − 1 of them, plus the last.

    places (L − n + 2,): where the characters before stand in the list of n − 1 in a row, −1 where they do
    not; tokens (L − n + 1,), the last of each. Negative if the first are not in the list.
    """
    return V * places[: len(tokens)] + tokens


def counted(tokens, order):
    """How often 1, …, `order` characters in a row occur in tokens (L,): a list of (sorted numbers, counts).

    The number of n characters is that of `joined`, with places in the list of n − 1. So it stays small at
    every order, and no two have the same. Raises ValueError unless 1 ≤ order ≤ L.
    """
    if not 1 <= order <= len(tokens):
        raise ValueError(f"order: expected 1 to {len(tokens)}, the length of the text, got {order}")
    counts, places = [], np.zeros(len(tokens) + 1, dtype=int)
    for n in range(1, order + 1):
        numbers = joined(places, tokens[n - 1 :])
        known, places, times = np.unique(numbers, return_inverse=True, return_counts=True)
        counts.append((known, times))
    return counts


def find(known, wanted):
    """Where each of `wanted` stands among the sorted numbers, or −1."""
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, place, -1)


def shares(counts, tokens):
    """For each order n = 1, …: f_n of each token after those before it, and how often these were seen. (L,)

    A context of the counted text is counted wherever a character follows it. At the first n − 1 places of
    tokens (L,) there is no context, and it was seen 0 times.
    """
    places = np.zeros(len(tokens) + 1, dtype=int)
    for n, (known, times) in enumerate(counts, 1):
        contexts, first = np.unique(known // V, return_index=True)
        followed = np.append(np.add.reduceat(times, first), 0)  # of each context, and at −1 of the others
        numbers = joined(places, tokens[n - 1 :])
        places = find(known, numbers)
        seen, share = np.zeros(len(tokens), dtype=int), np.zeros(len(tokens))
        seen[n - 1 :] = followed[find(contexts, numbers // V)]
        share[n - 1 :] = np.append(times, 0)[places]
        yield share / np.maximum(seen, 1), seen


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
