"""What the exercises of chapter 19 draw, where no common word says it."""


def first_is(value):
    """The first sequence has this number everywhere."""

    def change(x):
        x[0] = value
        return x

    return change
