"""Losses and what is reported of them.

A chain of tokens whose entropy is known, a table of logits trained on it by its own gradient, and the numbers
that five ways of reporting make of one training.
"""

import numpy as np

from ...check import measured
from ...ops import cross_entropy, cross_entropy_backward, softmax

CASES = ("as assumed", "mean 0.1", "one matrix, one token")
"""What `products` can be asked."""

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


def logits_of(table, batch):
    return table[batch[:, :-1]]


def gradient(table, batch, ignored):
    """The mean loss of a batch (n, LENGTH + 1) under a table of logits (V + 1, V + 1), and its gradient."""
    loss, kept = cross_entropy(logits_of(table, batch), batch[:, 1:], ignored)
    dz, dtable = cross_entropy_backward(1.0, kept), np.zeros_like(table)
    np.add.at(dtable, batch[:, :-1], dz)
    return loss, dtable


def trained(data, ignored=PAD, steps=400, rate=8.0):
    """A table trained from zeros by plain descent on all rows at once, and its losses."""
    table, losses = np.zeros((V + 1, V + 1)), []
    for _ in range(steps):
        loss, dtable = gradient(table, data, ignored)
        table, losses = table - rate * dtable, [*losses, loss]
    return table, np.array(losses)


def loss_on(table, data, ignored=PAD):
    return float(cross_entropy(logits_of(table, data), data[:, 1:], ignored)[0])


def reports(seed, n=128, few=8, B=16):
    """{what is reported: (the number, the right one)} for one chain, and its entropy.

    The right one is the loss of the same table on unseen rows, padding left out.
    """
    rng = np.random.default_rng(seed)
    P = chain(rng)
    data, unseen = rows(rng, P, n), rows(rng, P, 4000)
    table, _ = trained(data)
    means = [loss_on(table, data[at : at + B]) for at in range(0, n, B)]
    filled, _ = trained(data, ignored=-100)
    little = data[:few]
    learned, _ = trained(little, steps=1500)
    m, N = int((data[:, 1:] != PAD).sum()), 6
    per_row = m / len(data)
    zero = np.zeros_like(table)
    counted = cross_entropy(logits_of(zero, data), data[:, 1:], PAD)[1]
    kept = int((cross_entropy_backward(1.0, counted) != 0).any(axis=-1).sum())
    tallies = {"targets": m, "kept": kept, "batches": len(means)}
    found = {
        "right": (np.mean(means), loss_on(table, unseen)),
        "divided by rows": (sum(means) / n, np.mean(means)),
        "padding counted": (loss_on(filled, data, -100), loss_on(filled, unseen)),
        "rows it was trained on": (loss_on(learned, little), loss_on(learned, unseen)),
        "1/N, N blocks": (per_row / N * loss_on(table, data), loss_on(table, data)),
        "1/N, nothing learned": (per_row / N * loss_on(zero, data), loss_on(zero, data)),
    }
    return {name: tuple(map(float, pair)) for name, pair in found.items()} | tallies, entropy(P)


# A curve, a sign, a factor ----------------------------------------------------------------------------------


def plotted(z):
    """What text D plots over z: the loss of the two logits (z, −z) where the first is right."""
    return np.array([cross_entropy(np.array([[one, -one]]), np.array([0]))[0] for one in z])


def descended(steps=4000, rate=0.5):
    """The loss of that picture after so many steps of descent from z = 0: towards 0, its infimum."""
    z = 0.0
    for _ in range(steps):
        z += rate * 2 / (1 + np.exp(2 * z))
    return float(plotted([z])[0])


def towards_target(seed=0, T=6, classes=9, step=1e-4):
    """How the loss changes, per unit, if logits move a little along the gradient, and towards the target."""
    rng = np.random.default_rng(seed)
    z, y = rng.standard_normal((T, classes)), rng.integers(0, classes, T)
    loss, kept = cross_entropy(z, y)
    dz = cross_entropy_backward(1.0, kept)
    wish = np.eye(classes)[y] - softmax(z)[0]
    along = [(cross_entropy(z + step * way, y)[0] - loss) / step for way in (dz, wish)]
    return (*map(float, along), float((dz * wish).sum()))


def by_logits(T=6, classes=9, seed=0):
    """The gradient of the mean loss by the logits, by differences, and (y − p)/T, which leads to y."""
    rng = np.random.default_rng(seed)
    z, y = rng.standard_normal((T, classes)), rng.integers(0, classes, T)
    return measured(lambda z: cross_entropy(z, y)[0], z), (np.eye(classes)[y] - softmax(z)[0]) / T


def mean_gradient(seed=0, T=6, classes=9):
    """Each entry of p − y over the gradient of the averaged loss: its least and its largest."""
    rng = np.random.default_rng(seed)
    z, y = rng.standard_normal((T, classes)), rng.integers(0, classes, T)
    _, kept = cross_entropy(z, y)
    ratio = (softmax(z)[0] - np.eye(classes)[y]) / cross_entropy_backward(1.0, kept)
    return float(ratio.min()), float(ratio.max())


# What is assumed of scores ----------------------------------------------------------------------------------


def products(case, K=16, D=128, draws=4000, seed=0):
    """Mean and variance of q · k over draws of W_Q and W_K, tokens of mean square 1.

    case: "as assumed"; "mean 0.1", of all entries of both; "one matrix, one token", W_Q = W_K and x = y.
    """
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        x, y = rng.standard_normal((2, D))
        W_Q, W_K = rng.normal(0.1 if case == "mean 0.1" else 0, D**-0.5, (2, D, K))
        if case == "one matrix, one token":
            y, W_K = x, W_Q
        found.append((x @ W_Q) @ (y @ W_K))
    return float(np.mean(found)), float(np.var(found))


def token_beside_waves(D, seed=0):
    """Root mean squares of an embedded token, a table of variance 1/D: without √D, with it; and of a wave."""
    table = np.random.default_rng(seed).normal(0, D**-0.5, (100, D))
    size = float(np.sqrt(np.mean(table**2)))
    return size, size * D**0.5, 0.5**0.5
