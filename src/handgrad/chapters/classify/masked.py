"""Masked-token pre-training: what is hidden, and what is asked."""

import numpy as np

from ... import names


def corrupt(rng, tokens):
    """Choose characters and hide them: tokens (B, T) -> a batch for `model.loss_and_gradients`.

    Each character is chosen with probability 0.15. Of the chosen ones 80 % become [MASK], 10 % a random
    character, 10 % stay as they are. target_out holds the chosen characters, and [PAD], which does not count,
    everywhere else.
    """
    characters = tokens >= names.UNK
    chosen = characters & (rng.random(tokens.shape) < 0.15)
    fate = rng.random(tokens.shape)
    others = rng.integers(len(names.SPECIAL), names.V, size=tokens.shape)
    read = np.where(chosen & (fate < 0.8), names.MASK, tokens)
    read = np.where(chosen & (fate >= 0.8) & (fate < 0.9), others, read)
    return {"tokens": read, "target_out": np.where(chosen, tokens, names.PAD)}


def pool_of(*parts):
    """The names of several parts as one, without their labels: what pre-training reads."""
    texts = [text for part in parts for text in part.texts]
    return names.Names.of(texts, np.full(len(texts), names.UNLABELLED))


def near(rng, pool, size, window=512):
    """Draw `size` names of about one length, so that a batch holds little padding."""
    center, window = rng.integers(len(pool)), min(window, len(pool))
    first = min(max(center - window // 2, 0), len(pool) - window)
    return pool.take(by_length(pool)[first + rng.integers(window, size=size)])


def by_length(pool):
    """The places (B,) of the names, from the shortest to the longest."""
    return np.argsort((pool.tokens != names.PAD).sum(axis=1), kind="stable")


def drawn_from(pool):
    """The argument `draw` of `train.run`: names of the pool, corrupted anew each time."""
    return lambda rng, size: corrupt(rng, near(rng, pool, size).tokens)


def labelled_from(pool):
    """The argument `draw` of `train.run`: names of the pool with their labels."""

    def draw(rng, size):
        drawn = near(rng, pool, size)
        return {"tokens": drawn.tokens, "target_out": drawn.labels}

    return draw
