"""One random walk, asked in three ways: a task for each family, with the least loss known in advance.

A walk goes around a ring of 8 places; each step is +1, +2 or +3, drawn anew. Of a walk of 2k + 1 places

    decoder            is asked for each place, given those before it
    encoder            is asked for some of the odd places, which are hidden, given all others
    encoder-decoder    reads the even places and writes the odd ones
"""

from math import log

import numpy as np

from handgrad import model, train
from handgrad.config import Config

RING, STEPS = 8, {1: 0.5, 2: 0.25, 3: 0.25}
PAD, MARK, FIRST = 0, 1, 2  # padding; the token that begins a row, or hides one; the first place
V, LENGTH = FIRST + RING, 7


def walks(rng, B, length=LENGTH):
    """B walks (B, length) as tokens; the first place is uniform."""
    steps = rng.choice(list(STEPS), size=(B, length), p=list(STEPS.values()))
    steps[:, 0] = rng.integers(RING, size=B)
    return FIRST + steps.cumsum(axis=1) % RING


def rows(tokens):
    """One row for each sequence, (B, T + 1): the mark, then the tokens (B, T)."""
    return np.concatenate([np.full_like(tokens[:, :1], MARK), tokens], axis=1)


def shifted(row):
    """rows (B, T + 1) -> what is read, what is asked (B, T)."""
    return row[:, :-1], row[:, 1:]


def hidden(rng, tokens):
    """Hide odd places of tokens (B, T), each with probability ½: what is read, and what is asked."""
    hide = rng.random(tokens.shape) < 0.5
    hide[:, 0::2] = False
    return np.where(hide, MARK, tokens), np.where(hide, tokens, PAD)


def batch(kind, rng, B):
    """A batch of B fresh walks, for a family."""
    walk = walks(rng, B)
    if kind == "encoder":
        read, asked = hidden(rng, walk)
        return {"tokens": read, "target_out": asked}
    if kind == "decoder":
        read, asked = shifted(rows(walk))
        return {"tokens": read, "target_out": asked}
    read, asked = shifted(rows(walk[:, 1::2]))
    return {"source": walk[:, 0::2], "target_in": read, "target_out": asked}


def entropy(chances):
    """The entropy of {value: probability}, in nats."""
    return -sum(p * log(p) for p in chances.values())


def two_steps():
    """The distribution of the sum of two steps: {sum: probability}."""
    chances = {}
    for a, p in STEPS.items():
        for b, q in STEPS.items():
            chances[a + b] = chances.get(a + b, 0) + p * q
    return chances


def levels():
    """The least expected loss of each task, in nats per token, and that of one who sees nothing."""
    one, two, k = entropy(STEPS), entropy(two_steps()), LENGTH // 2
    return {
        "decoder": (log(RING) + (LENGTH - 1) * one) / LENGTH,
        "encoder": 2 * one - two,
        "encoder-decoder": 2 * one - two,
        "odd places alone": (log(RING) + (k - 1) * two) / k,
        "nothing": log(RING),
    }


def config(kind, **changes):
    """A small whole model of a family."""
    sizes = dict(
        V=V, D=32, H=4, F=64, N=1, positions="learned", T_max=LENGTH, pad=PAD, tied=False, shared=False
    )
    return Config(kind, **sizes | changes)


RECIPE = train.Recipe(steps=250, batch_size=32, peak=1e-2, warmup=20, label_smoothing=0.0)


def trained(kind, seed, make=batch, recipe=RECIPE, **changes):
    """Train a model of a family: its parameters and the losses of all updates."""
    own, rng = config(kind, **changes), np.random.default_rng([13, seed])
    state = train.start(own, seed)
    for _ in range(recipe.steps):
        state = train.update(state, make(kind, rng, recipe.batch_size), own, recipe)
    return state.params, np.array(state.losses)


def loss_on(params, kind, asked, **changes):
    """The loss on a batch."""
    return float(model.loss_and_gradients(params, config(kind, **changes), asked)[0])


def enumerated():
    """The same levels from their definition: entropies over every walk, each with its probability."""
    walks_of = {(x,): 1 / RING for x in range(RING)}
    for _ in range(LENGTH - 1):
        walks_of = {
            (*walk, (walk[-1] + step) % RING): p * q
            for walk, p in walks_of.items()
            for step, q in STEPS.items()
        }

    def of(places):
        """The entropy of the places of a walk."""
        chances = {}
        for walk, p in walks_of.items():
            seen = tuple(walk[i] for i in places)
            chances[seen] = chances.get(seen, 0) + p
        return entropy(chances)

    all_places, even, odd = range(LENGTH), range(0, LENGTH, 2), range(1, LENGTH, 2)
    return {
        "decoder": of(all_places) / LENGTH,
        "encoder": of(all_places) - of([i for i in all_places if i != 3]),
        "encoder-decoder": (of(all_places) - of(even)) / len(odd),
        "odd places alone": of(odd) / len(odd),
        "nothing": of([1]),
    }


def updates_until(kind, losses, near=0.2):
    """The updates until the mean of ten losses is within `near` of the level of a family."""
    of_ten = np.convolve(losses, np.full(10, 0.1), mode="valid")
    return 10 + int(np.argmax(of_ten < levels()[kind] + near))


# Shifted rightly and wrongly --------------------------------------------------------------------------------

SHIFTS = {
    "right": shifted,
    "not shifted": lambda row: (row[:, 1:], row[:, 1:]),
    "the other way": lambda row: (row[:, 1:], row[:, :-1]),
    "by two": lambda row: (row[:, :-2], row[:, 2:]),
    "right, but no mask": shifted,
}
"""From rows (B, T + 1) to what is read and what is asked."""


def family(title):
    """The kind of model that is trained under a title of SHIFTS."""
    return "encoder" if title == "right, but no mask" else "decoder"


def shift_levels():
    """The least loss of each of SHIFTS."""
    one, two = entropy(STEPS), entropy(two_steps())
    by_two = (log(RING) + (LENGTH - 2) * two) / (LENGTH - 1)
    return dict(zip(SHIFTS, (levels()["decoder"], 0.0, 0.0, by_two, one / LENGTH), strict=True))


def shift_trained(title, seed):
    """Train on batches made by one of SHIFTS: parameters and losses."""

    def make(kind, rng, B):
        read, asked = SHIFTS[title](rows(walks(rng, B)))
        return {"tokens": read, "target_out": asked}

    return trained(family(title), seed, make=make)
