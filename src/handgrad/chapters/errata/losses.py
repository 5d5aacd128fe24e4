"""A text whose entropy is known, and the losses that four reports give for it."""

import numpy as np

V, PAD, T = 8, 8, 24  # tokens, the mark that fills rows up, and targets in a row
RANDOM = 0.2  # after token x comes x + 1, and after the last the first; or, so often, a random token
RULE = RANDOM / V + (1 - RANDOM) * np.roll(np.eye(V), 1, axis=1)  # row x: the next token's probabilities
ENTROPY = -(RULE[0] * np.log(RULE[0])).sum()  # the same in every row


def rows(rng, n):
    """n rows (n, T + 1) of tokens; the shorter ones are padded at the end."""
    x = [rng.integers(V, size=n)]
    for _ in range(T):
        x.append(np.where(rng.random(n) < RANDOM, rng.integers(V, size=n), (x[-1] + 1) % V))
    ends = rng.integers(T // 4, T + 1, n)[:, None]
    return np.where(np.arange(T + 1) <= ends, np.stack(x, axis=1), PAD)


def pairs(data, padding=False):
    """How often each token follows each, (V + 1, V + 1); padding: whether it counts as a target."""
    counts, counted = np.zeros((V + 1, V + 1)), (data[:, 1:] != PAD) | padding
    np.add.at(counts, (data[:, :-1][counted], data[:, 1:][counted]), 1)
    return counts


def model(counts):
    """The probabilities of the next token, (V + 1, V + 1), from counted pairs."""
    return (counts + 0.1) / (counts + 0.1).sum(axis=1, keepdims=True)


def mean(P, counts):
    """The mean loss of pairs of tokens."""
    return float(-(counts * np.log(P)).sum() / counts.sum())


def reports(seed):
    """{what is reported: the loss in entropies}, of models of 128 rows, or of 8, in batches of 16 rows."""
    rng = np.random.default_rng(seed)
    data, unseen = rows(rng, 128), rows(rng, 4000)
    P, padded, few = model(pairs(data)), model(pairs(data, True)), model(pairs(data[:8]))
    found = {
        "right": mean(P, pairs(unseen)),
        "E8, divided by rows": sum(mean(P, pairs(batch)) for batch in np.split(data, 8)) / 128,
        "E10, padding counted": mean(padded, pairs(unseen, True)),
        "E11, rows it has seen": mean(few, pairs(data[:8])),
    }
    return {name: loss / ENTROPY for name, loss in found.items()}
