"""The inputs of an exercise, by name: what is drawn, of which shape, and in which cases.

A shape is given in letters, "B T D"; a product is "H*K". Every case gives each letter a size. No two letters
have the same size in most of them, so that no axis can be taken for another; and all are equal in one, where
a wrong transpose has the right shape.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

SIZES = {
    "one sequence": dict(B=1, T=1, S=3, D=4, H=2, K=4, E=2, F=5, V=6),
    "a batch": dict(B=3, T=4, S=6, D=5, H=3, K=2, E=7, F=8, V=9),
    "many positions": dict(B=2, T=6, S=2, D=3, H=2, K=3, E=5, F=4, V=7),
    "few positions": dict(B=4, T=2, S=5, D=7, H=1, K=6, E=3, F=8, V=9),
    "all sizes equal but the batch": dict(B=2, T=3, S=3, D=3, H=3, K=3, E=3, F=3, V=3),
}
"""The cases that every exercise has, with the letters that its inputs name."""
SPECIAL = dict(B=2, T=4, S=6, D=7, H=2, K=3, E=5, F=8, V=9)
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

    def then(self, change):
        """What `change` makes of an array that is drawn so."""
        return Draw(self.letters, lambda rng, shape: change(self.make(rng, shape)))


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


def normal(letters):
    """N(0, 1): upstream gradients, and all that has no other wish."""
    return Draw(letters, lambda rng, shape: rng.normal(size=shape))


def repeating(letters, axis=1):
    """N(½, 2²), where the last entry along an axis repeats the first: a token that occurs twice."""

    def make(rng, shape):
        x = rng.normal(0.5, 2.0, shape)
        if shape[axis] > 2:
            first, last = ((slice(None),) * axis + (i,) for i in (0, -1))
            x[last] = x[first]
        return x

    return Draw(letters, make)


def scales(letters):
    """Parameters such as γ, around 1 and none of them 1."""
    return Draw(letters, lambda rng, shape: rng.normal(1.0, 0.7, shape))


def number(value):
    """The same number in every case."""
    return Draw("", lambda rng, shape: value)


def mask(letters):
    """True where a query may attend: to the first two keys and, but for the first query, to 60 % of all."""

    def make(rng, shape):
        allowed = rng.random(shape) < 0.6
        allowed[..., :2] = True
        allowed[(0,) * (len(shape) - 1) + (slice(2, None),)] = False
        return allowed

    return Draw(letters, make)
