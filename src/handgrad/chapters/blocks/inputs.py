"""What the exercises of chapter 12 draw, where no common word says it."""


def joined(rng, shape):
    """N(0, 1) with S + T rows: letters B S T D."""
    B, S, T, D = shape
    return rng.normal(size=(B, S + T, D))
