"""One random walk, asked in three ways: a task for each family, with the least loss known in advance.

A walk goes around a ring of 8 places; each step is +1, +2 or +3, drawn anew. Of a walk of 2k + 1 places

    decoder            is asked for each place, given those before it
    encoder            is asked for some of the odd places, which are hidden, given all others
    encoder-decoder    reads the even places and writes the odd ones
"""

from math import log

import numpy as np

RING, STEPS = 8, {1: 0.5, 2: 0.25, 3: 0.25}
PAD, MARK, FIRST = 0, 1, 2  # padding; the token that begins a row, or hides one; the first place
V, LENGTH = FIRST + RING, 7


def walks(rng, B, length=LENGTH):
    """B walks (B, length) as tokens; the first place is uniform."""
    steps = rng.choice(list(STEPS), size=(B, length), p=list(STEPS.values()))
    steps[:, 0] = rng.integers(RING, size=B)
    return FIRST + steps.cumsum(axis=1) % RING


def shifted(tokens):
    """tokens (B, T) -> what is read, what is asked (B, T): cut from one row, which begins with the mark."""
    row = np.concatenate([np.full_like(tokens[:, :1], MARK), tokens], axis=1)
    return row[:, :-1], row[:, 1:]


def batch(kind, rng, B):
    """A batch of B fresh walks, for a family."""
    walk = walks(rng, B)
    if kind == "encoder":
        hide = rng.random(walk.shape) < 0.5
        hide[:, 0::2] = False
        return {"tokens": np.where(hide, MARK, walk), "target_out": np.where(hide, walk, PAD)}
    read, asked = shifted(walk if kind == "decoder" else walk[:, 1::2])
    if kind == "decoder":
        return {"tokens": read, "target_out": asked}
    return {"source": walk[:, 0::2], "target_in": read, "target_out": asked}


def entropy(chances):
    """The entropy of {value: probability}, in nats."""
    return -sum(p * log(p) for p in chances.values())


def entropy_of(places, length=LENGTH):
    """The entropy of some places of a walk, over every walk with its probability."""
    of_walks = {(x,): 1 / RING for x in range(RING)}
    for _ in range(length - 1):
        of_walks = {
            (*walk, (walk[-1] + step) % RING): p * q
            for walk, p in of_walks.items()
            for step, q in STEPS.items()
        }
    chances = {}
    for walk, p in of_walks.items():
        seen = tuple(walk[i] for i in places)
        chances[seen] = chances.get(seen, 0) + p
    return entropy(chances)
