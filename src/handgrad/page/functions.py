r"""The functions that a formula may name, such as \ln and softmax, and what each of them may take.

What the table does not say is refused, with a way to write it: a base at ln, a power of softmax, a prime. An
argument without brackets is one factor: ``\ln p_j``, ``\cos \frac{\pi s}{2}``, ``\ln \mathrm{softmax}(…)``;
numbers and π may stand before it where the table says so, as in ``\cos 2\pi t``. Behind it may stand another
function or a sum, and nothing that could belong to the argument.
"""

from typing import NamedTuple

from .tree import Unreadable


class Named(NamedTuple):
    r"""What a named function may take.

    arrays     whether it is a function of a whole array; else of each entry
    power      whether \sin^2 x may stand for (\sin x)^2
    base       whether an index is a base, as in \log_2
    constants  whether numbers and π may stand before an argument without brackets
    definable  whether a page may say itself what it is
    """

    arrays: bool = False
    power: bool = False
    base: bool = False
    constants: bool = False
    definable: bool = False


NAMED = {
    "ln": Named(power=True),
    "log": Named(power=True, base=True),
    "exp": Named(),
    "cos": Named(power=True, constants=True),
    "sin": Named(power=True, constants=True),
    "tanh": Named(power=True),
    "erf": Named(),
    "sign": Named(),
    "rint": Named(),
    "sigmoid": Named(definable=True),
    "ReLU": Named(definable=True),
    "relu": Named(definable=True),
    "SiLU": Named(definable=True),
    "softplus": Named(definable=True),
    "softmax": Named(arrays=True),
    "logsumexp": Named(arrays=True),
    "lse": Named(arrays=True),
    "mean": Named(arrays=True),
    "rowsum": Named(arrays=True),
    "colsum": Named(arrays=True),
    "diag": Named(arrays=True),
    "tr": Named(arrays=True),
}


def named(letter):
    """The entry of the table for a letter that is the name of a function; None for another letter."""
    return NAMED.get(letter.base) if letter.font == "name" and not letter.gradient else None


def reserved(letter):
    """Whether a letter is a name that no page defines: what begins with it is a claim, as tr A = …"""
    entry = NAMED.get(letter.base) if letter.font == "name" else None
    return letter == letter._replace(base="nabla", font="name") or bool(entry and not entry.definable)


def scripts_of(letter, digits, written):
    """The base and the exponent of a function's name, as trees or None.

    Raises Unreadable for scripts that it does not take.
    """
    name, takes = letter.base, NAMED[letter.base]
    if letter.primes:
        raise Unreadable(f"a prime at {name}: define a function, f(u) = {name} u, and write f'(u)")
    if letter.below and not (takes.base and len(letter.below) == 1):
        shown = written(letter.below[0])
        raise Unreadable(f"{name} with the index {shown}: write its argument in brackets, and no index")
    if letter.above and not (takes.power and len(letter.above) == 1 and digits(letter.above[0])):
        raise Unreadable(f"{name}^{written(letter.above[0])}: write ({name} …)^{written(letter.above[0])}")
    return (letter.below or (None,))[0], (letter.above or (None,))[0]


def two_ways(name, shown):
    """The error for what may or may not belong to an argument without brackets."""
    return Unreadable(f"{name} … {shown} reads in two ways: write {name}(…), or what stands behind before it")
