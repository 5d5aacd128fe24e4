"""What every exercise has, however it is answered: its right answer, its words, its Verdict."""

from collections.abc import Callable
from dataclasses import dataclass, field

from .attempt import YOUR_TURN
from .verdict import NOT_YET, Verdict

REFERENCE = "This is the reference, which the notebook hands on while yours is open. Write your own above."


@dataclass(frozen=True)
class Task:
    """An exercise; a kind of them adds how an answer is judged (`_judged`), `_columns` and `_note`.

    answer: the right one; its name is that of the exercise. ideas: wrong ideas. hints: mildest first. asks:
    what it tests, a sentence for teachers that does not tell the answer. seed: of all that is drawn.
    """

    answer: Callable
    ideas: tuple = field(kw_only=True)
    hints: tuple = field(kw_only=True)
    asks: str = field(kw_only=True)
    seed: int = field(default=7, kw_only=True)

    @property
    def name(self):
        return self.answer.__name__

    def judge(self, answer=None):
        """The Verdict on the learner's answer.

        Raises nothing for what the answer is or does, but KeyboardInterrupt: it may be the learner's own.
        """
        if answer is None or answer is ...:
            return self._verdict(NOT_YET, YOUR_TURN)
        if answer is self.answer:
            return self._verdict(NOT_YET, REFERENCE)
        return self._judged(answer)

    def _verdict(self, status, diagnosis, found=None, value=None, rows=(), raises=False):
        return Verdict(
            self.name,
            status,
            diagnosis,
            self.answer if value is None else value,
            found.where if found else "",
            self._columns if rows else (),
            rows,
            self._note if rows else "",
            self.hints,
            found.line if found else "",
            raises,
        )
