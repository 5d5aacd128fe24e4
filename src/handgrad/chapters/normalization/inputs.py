"""What the exercises of chapter 05 draw, where no common word says it."""


def far_from_zero(rng, shape):
    """Numbers of both signs, between 0.5 and 2: what is divided by."""
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 2.0, shape)
