"""The judge of the exercises: `judge.NAME(answer)` says whether an answer is right, and what is wrong.

>>> from handgrad.course import judge
>>> judge.softmax_ds(lambda da, a: a * da).status
'wrong'

An exercise is an `Exercise` or a `Derivation`, as its notebook of solutions states it: see `stated`. It is
found there by the name of its right answer, and entered in no list. In a learner's folder verdicts are kept:
see `record`.
"""

import difflib

from .derivation import Derivation
from .function import Exercise
from .record import record
from .stated import chapters
from .verdict import Hint, Verdict

__all__ = ["Derivation", "Exercise", "Verdict", "chapters", "find", "hint"]


def find(name):
    """The exercise of that name. Raises AttributeError that names the closest ones."""
    exercises = {n: exercise for chapter in chapters().values() for n, exercise in chapter.items()}
    if name in exercises:
        return exercises[name]
    near = difflib.get_close_matches(str(name), exercises, n=3, cutoff=0.4)
    advice = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(exercises)}."
    raise AttributeError(f"there is no exercise called {name!r}. {advice}")


def hint(name, number=1):
    """A hint for one exercise, the mildest first.

    Raises AttributeError if there is no such exercise, ValueError if it has not so many hints.
    """
    exercise = find(name)
    hints = exercise.hints
    if not 1 <= number <= len(hints):
        raise ValueError(f"number: expected 1 to {len(hints)}, got {number}")
    return Hint(exercise.name, number, hints)


def __getattr__(name):
    if name.startswith("_"):  # a question of Python or IPython, not of a learner
        raise AttributeError(name)
    exercise = find(name)

    def judge(answer=None):
        verdict = exercise.judge(answer)
        record(verdict)
        return verdict

    judge.__name__ = judge.__qualname__ = name
    judge.__doc__ = f"Judge an answer to the exercise {name}: returns a Verdict."
    return judge


def __dir__():
    return sorted([*(name for chapter in chapters().values() for name in chapter), "hint"])
