"""The inputs of an exercise, by name: what is drawn, of which shape, and in which cases.

A shape is given in letters, "B T D"; a product is "H*K". Every case gives each letter a size. No two letters
have the same size in most of them, so that no axis can be taken for another; and all are equal in one, where
a wrong transpose has the right shape. N, R, C and J are other names of H, E, V and K.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

SIZES = {
    "one sequence": dict(B=1, T=1, S=3, D=4, H=2, K=4, E=2, F=5, V=6, N=2, R=2, C=6, J=4),
    "a batch": dict(B=3, T=4, S=6, D=5, H=3, K=2, E=7, F=8, V=9, N=3, R=7, C=9, J=2),
    "many positions": dict(B=2, T=6, S=2, D=3, H=2, K=3, E=5, F=4, V=7, N=2, R=5, C=7, J=3),
    "few positions": dict(B=4, T=2, S=5, D=7, H=1, K=6, E=3, F=8, V=9, N=1, R=3, C=9, J=6),
    "all sizes equal but the batch": dict(B=2, T=3, S=3, D=3, H=3, K=3, E=3, F=3, V=3, N=3, R=3, C=3, J=3),
}
"""The cases that every exercise has, with the letters that its inputs name."""
SPECIAL = dict(B=2, T=4, S=6, D=7, H=2, K=3, E=5, F=8, V=9, N=2, R=5, C=9, J=3)
"""The sizes of the cases that an exercise adds."""


@dataclass(frozen=True)
class Draw:
    """letters: of the shape. make: a function (rng, shape) -> array."""

    letters: str
    make: Callable

    def __call__(self, rng, sizes):
        """An array for the given size of each letter."""
        axes = self.letters.split()
        return self.make(rng, tuple(prod(sizes[letter] for letter in axis.split("*")) for axis in axes))


@dataclass(frozen=True)
class Case:
    """One set of inputs, in the order of the arguments."""

    name: str
    sizes: dict
    inputs: tuple


def cases(inputs, special, seed):
    """Every Case: inputs {argument: Draw} of all SIZES, then special {name: {argument: Draw}}."""
    letters = {letter for draw in inputs.values() for letter in draw.letters.replace("*", " ").split()}
    wanted = [(name, sizes, {}) for name, sizes in SIZES.items()]
    wanted += [(name, SPECIAL, changed) for name, changed in special.items()]
    return [
        case(name, {n: sizes[n] for n in sizes if n in letters}, inputs | changed, [seed, i])
        for i, (name, sizes, changed) in enumerate(wanted)
    ]


def case(name, sizes, inputs, seed):
    """The Case of these sizes with what the seed draws of inputs {argument: Draw}."""
    rng = np.random.default_rng(seed)
    drawn = tuple(draw(rng, sizes) for draw in inputs.values())
    for array in drawn:
        if isinstance(array, np.ndarray):
            array.flags.writeable = False  # it is kept for every answer to come; `attempt` hands out copies
    return Case(name, sizes, drawn)


# How an argument is drawn: functions (rng, shape) -> array, and functions that make such ones ---------------


def normal(rng, shape):
    """N(0, 1): upstream gradients, and all that has no other wish."""
    return rng.normal(size=shape)


def weights(rng, shape):
    """A matrix that keeps the size of what it multiplies."""
    return rng.normal(size=shape) / np.sqrt(shape[0])


def repeating_along(axis):
    """N(½, 2²), where the last entry along an axis repeats the first."""

    def make(rng, shape):
        x = rng.normal(0.5, 2.0, shape)
        if shape[axis] > 2:
            first, last = ((slice(None),) * axis + (i,) for i in (0, -1))
            x[last] = x[first]
        return x

    return make


repeating = repeating_along(1)
"""A token that occurs twice."""


def scales(rng, shape):
    """Parameters such as γ, around 1 and none of them 1."""
    return rng.normal(1.0, 0.7, shape)


def classes(rng, shape):
    """One of the entries of the last axis, for each row."""
    return rng.integers(shape[-1], size=shape[:-1])


def mask(rng, shape):
    """True where a query may attend: to the first two keys and, but for the first query, to 60 % of all."""
    allowed = rng.random(shape) < 0.6
    allowed[..., :2] = True
    allowed[(0,) * (len(shape) - 1) + (slice(2, None),)] = False
    return allowed


def number(value):
    """The same number in every case."""
    return lambda rng, shape: value


def gaussian(mean, spread):
    return lambda rng, shape: rng.normal(mean, spread, shape or None)


def uniform(low, high):
    return lambda rng, shape: rng.uniform(low, high, shape or None)


def exponential(mean):
    return lambda rng, shape: rng.exponential(mean, shape)


def integers(low, high):
    """From low up to, and without, high."""
    return lambda rng, shape: rng.integers(low, high, shape) if shape else int(rng.integers(low, high))


def then(make, change):
    """What `change` makes of an array that is drawn so."""
    return lambda rng, shape: change(make(rng, shape))


def times(factor, make):
    return then(make, lambda x: factor * x)
