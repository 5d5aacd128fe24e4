"""The exercises of the book, and `check`, which judges an answer and says what is wrong with it.

>>> from handgrad.course.judge import check
>>> check.softmax_ds(lambda da, a: a * da).status
'wrong'

Each chapter has a module with the list EXERCISES. An exercise is data: the reference, the cases, the
known wrong answers with their diagnoses, and hints.
"""

import difflib

from ...chapters.attention import exercises as attention
from ...chapters.normalization import exercises as normalization
from .verdict import Hints, Verdict

__all__ = ["CHAPTERS", "EXERCISES", "Verdict", "check"]

CHAPTERS = {"05_normalization": normalization.EXERCISES, "08_attention": attention.EXERCISES}
EXERCISES = {exercise.name: exercise for chapter in CHAPTERS.values() for exercise in chapter}


class Check:
    """`check.NAME(answer)` judges an answer to the exercise NAME; `check.hint("NAME")` gives hints."""

    def hint(self, name):
        """The hints for one exercise, mildest first. Raises AttributeError if there is no such exercise."""
        exercise = find(name)
        return Hints(exercise.name, exercise.hints)

    def __getattr__(self, name):
        if name.startswith("_"):  # a question of Python or IPython, not of a learner
            raise AttributeError(name)
        exercise = find(name)

        def judge(answer=None):
            return exercise.judge(answer)

        judge.__name__ = judge.__qualname__ = name
        judge.__doc__ = f"Judge an answer to the exercise {name}: returns a Verdict."
        return judge

    def __dir__(self):
        return [*EXERCISES, "hint"]

    def __repr__(self):
        chapters = (f"  {c}: {', '.join(e.name for e in exercises)}" for c, exercises in CHAPTERS.items())
        return "check.NAME(answer), where NAME is one of\n" + "\n".join(chapters)


def find(name):
    """The exercise of that name. Raises AttributeError that names the closest ones."""
    if name in EXERCISES:
        return EXERCISES[name]
    near = difflib.get_close_matches(str(name), EXERCISES, n=3, cutoff=0.4)
    advice = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(EXERCISES)}."
    raise AttributeError(f"there is no exercise called {name!r}. {advice}")


check = Check()
