"""What the exercises of chapter 03 draw, where no common word says it."""


def windows(rng, shape):
    """Tokens 0 to 2, 0 for padding: at least one token in each window; one repeats, if there is room."""
    tokens = rng.integers(0, 3, shape)
    tokens[:, 0] = rng.integers(1, 3, shape[0])
    if shape[1] > 3:
        tokens[0, :4] = [2, 0, 2, 1]
    return tokens


def with_an_empty_one(tokens):
    """The same windows, the second of which is all padding."""
    tokens = tokens.copy()
    tokens[1] = 0
    return tokens
