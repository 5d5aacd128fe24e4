"""Losses and what is reported of them.

A chain of tokens whose entropy is known, a table of logits trained on it by its own gradient, and the numbers
that five ways of reporting make of one training.
"""

import numpy as np

from ...ops import cross_entropy, cross_entropy_backward

V, PAD, LENGTH = 8, 8, 24  # tokens, the mark that fills rows up, and their length


# A chain with a known entropy -------------------------------------------------------------------------------


def chain(rng):
    """The probabilities of the next token, (V, V), each row a draw from a Dirichlet distribution."""
    return rng.dirichlet(np.full(V, 0.5), V)


def how_often(P):
    """The share of each token in a long text, (V,): the eigenvector of the eigenvalue 1."""
    values, vectors = np.linalg.eig(P.T)
    often = np.real(vectors[:, np.argmax(values.real)])
    return often / often.sum()


def entropy(P):
    """The least expected loss of the next token, in nats: entropies of the rows, by how often each comes."""
    return float(-(how_often(P) @ (P * np.log(np.maximum(P, 1e-300))).sum(axis=1)))


def rows(rng, P, n):
    """n rows (n, LENGTH + 1) of tokens that begin as they would in a long text; shorter ones are padded."""
    found, sums = np.full((n, LENGTH + 1), PAD), P.cumsum(axis=1)
    now = rng.choice(V, n, p=how_often(P))
    ends = rng.integers(LENGTH // 4, LENGTH + 1, n)
    for t in range(LENGTH + 1):
        found[:, t] = np.where(t <= ends, now, PAD)
        now = (rng.random(n)[:, None] > sums[now]).sum(axis=1).clip(max=V - 1)
    return found


def pairs(data, ignored=PAD):
    """How often each token follows each, (V + 1, V + 1), in rows (n, LENGTH + 1); targets may be ignored."""
    counts, counted = np.zeros((V + 1, V + 1)), data[:, 1:] != ignored
    np.add.at(counts, (data[:, :-1][counted], data[:, 1:][counted]), 1)
    return counts


def gradient(table, counts):
    """The mean loss of pairs of tokens under a table of logits (V + 1, V + 1), and its gradient."""
    shares = np.exp(table) / np.exp(table).sum(axis=1, keepdims=True)
    loss = -(counts * np.log(shares)).sum() / counts.sum()
    return float(loss), (counts.sum(axis=1, keepdims=True) * shares - counts) / counts.sum()


def trained(counts, steps=400, rate=8.0):
    """A table trained from zeros by plain descent on all pairs at once."""
    table = np.zeros((V + 1, V + 1))
    for _ in range(steps):
        table = table - rate * gradient(table, counts)[1]
    return table


def reports(seed, n=128, few=8, B=16):
    """{what is reported: (the number, the right one)} for one chain, and its entropy.

    The right one is the loss of the same table on unseen rows, padding left out.
    """
    rng = np.random.default_rng(seed)
    P = chain(rng)
    data, unseen = rows(rng, P, n), rows(rng, P, 4000)

    def loss_on(table, some, ignored=PAD):
        return gradient(table, pairs(some, ignored))[0]

    table, filled = trained(pairs(data)), trained(pairs(data, -100))
    learned, zero = trained(pairs(data[:few]), steps=1500), np.zeros((V + 1, V + 1))
    means = [loss_on(table, data[at : at + B]) for at in range(0, n, B)]
    counted = cross_entropy(zero[data[:, :-1]], data[:, 1:], PAD)[1]
    kept = int((cross_entropy_backward(1.0, counted) != 0).any(axis=-1).sum())
    m = int((data[:, 1:] != PAD).sum())
    of_N = m / n / 6  # a sum over the targets of a row, divided by six blocks
    found = {
        "right": (np.mean(means), loss_on(table, unseen)),
        "divided by rows": (sum(means) / n, np.mean(means)),
        "padding counted": (loss_on(filled, data, -100), loss_on(filled, unseen)),
        "rows it was trained on": (loss_on(learned, data[:few]), loss_on(learned, unseen)),
        "1/N, N blocks": (of_N * loss_on(table, data), loss_on(table, data)),
        "1/N, nothing learned": (of_N * loss_on(zero, data), loss_on(zero, data)),
    }
    tallies = {"targets": m, "kept": kept, "batches": len(means)}
    return {name: tuple(map(float, pair)) for name, pair in found.items()} | tallies, entropy(P)
