"""What a learner sees after asking: a verdict, in plain text and as HTML.

The HTML takes its text colour and background from the page, so it reads in light and dark themes; a coloured
bar at the left repeats what the words say, and is never the only sign.
"""

from dataclasses import dataclass, field
from html import escape
from typing import Any

RIGHT, WRONG, NOT_YET = "right", "wrong", "not yet"
MARK = {RIGHT: "✓", WRONG: "✗", NOT_YET: "○"}
SUMMARY = {True: "What should stand there?", False: "Where is it?"}
WHAT = {True: "what should stand there", False: "the place of the mistake"}
BAR = {RIGHT: "#009E73", WRONG: "#D55E00", NOT_YET: "#6B8FB0"}  # at least 3 : 1 on white and on near black


def code(text):
    """Escaped HTML of code, in the colours around it: a theme's own may not fit the ground of an output."""
    return f'<code style="color:inherit;background:none;border:none;padding:0">{escape(text)}</code>'


def prose(text):
    """Escaped HTML of a sentence in which `backticks` mark code."""
    return "".join(code(part) if i % 2 else escape(part) for i, part in enumerate(text.split("`")))


def closed(summary, body, opened=False):
    """HTML that stays closed until the reader opens it."""
    return (
        f'<details style="margin:.3em 0"{" open" if opened else ""}>'
        f'<summary style="cursor:pointer">{escape(summary)}</summary>{body}</details>'
    )


def paragraph(text):
    return f'<p style="margin:.3em 0 .3em 1.2em">{prose(text)}</p>'


@dataclass(frozen=True, eq=False)
class Hint:
    """One hint of an exercise, closed until it is opened."""

    exercise: str
    number: int
    texts: tuple[str, ...]

    def __repr__(self):
        more = f'\nThe next one: judge.hint("{self.exercise}", {self.number + 1})'
        text = f"Hint {self.number} of {len(self.texts)} for {self.exercise}: {self.texts[self.number - 1]}"
        return text + (more if self.number < len(self.texts) else "")

    def _repr_html_(self):
        body = paragraph(self.texts[self.number - 1])
        if self.number < len(self.texts):
            body += Hint(self.exercise, self.number + 1, self.texts)._repr_html_()
        return closed(f"Hint {self.number} of {len(self.texts)}", body)


@dataclass(frozen=True, eq=False)
class Verdict:
    """The outcome of a check. It is displayed by naming it last in a cell.

    status: "right", "wrong" or "not yet". diagnosis: what was found, in a sentence or two. where: the place
    of the mistake, for when it is asked for; empty if it is not known, or told already. value: the learner's
    answer if it is right, the reference otherwise, so that later cells can go on. columns, rows: the
    evidence, as text. note: how it was judged. hints: for when they are asked for. line: the learner's line
    alone, without what should stand there. raises: whether a wrong answer raises an error in some case.
    """

    exercise: str
    status: str
    diagnosis: str
    value: Any = field(repr=False)
    where: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""
    hints: tuple[str, ...] = ()
    line: str = ""
    raises: bool = False

    @property
    def outcome(self):
        """The status, in the words of its first line."""
        return "raises an error" if self.raises else self.status

    def __repr__(self):
        lines = [f"{MARK[self.status]} {self.exercise}: {self.outcome}", f"  {self.diagnosis}"]
        if self.rows:
            table = [self.columns, *self.rows]
            widths = [max(map(len, column)) for column in zip(*table)]
            lines += ["  " + "  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in table]
        if self.note:
            lines.append(f"  {self.note}")
        if self.line:
            lines.append("  For the line of the mistake: print(verdict.line)")
        if self.where:
            lines.append(f"  For {WHAT[bool(self.line)]}: print(verdict.where)")
        if self.hints and self.status != RIGHT:
            lines.append(f'  For a hint: judge.hint("{self.exercise}")')
        return "\n".join(lines)

    def _repr_html_(self):
        hints = (
            Hint(self.exercise, 1, self.hints)._repr_html_() if self.hints and self.status != RIGHT else ""
        )
        where = closed(SUMMARY[bool(self.line)], paragraph(self.where)) if self.where else ""
        if self.line:
            where = closed("Which line is it?", paragraph(self.line) + where)
        return (
            f'<div role="group" aria-label="{escape(self.exercise)}: {self.outcome}" '
            f'style="border-left:.4em solid {BAR[self.status]};padding:.4em 0 .4em .9em;margin:.4em 0">'
            f'<p style="margin:0 0 .3em"><strong><span aria-hidden="true">{MARK[self.status]}</span> '
            f"{self.outcome.capitalize()}</strong>: {code(self.exercise)}</p>"
            f'<p style="margin:.3em 0;max-width:46em">{prose(self.diagnosis)}</p>'
            f"{where}{self._table()}{hints}</div>"
        )

    def _table(self):
        note = f'<p style="margin:.3em 0"><small>{prose(self.note)}</small></p>' if self.note else ""
        if not self.rows:
            return note
        cell = "padding:.15em .9em .15em 0;text-align:left;font-weight:inherit"
        head = "".join(
            f'<th scope="col" style="{cell}"><strong>{escape(c)}</strong></th>' for c in self.columns
        )
        body = "".join(
            f'<tr><th scope="row" style="{cell}">{escape(row[0])}</th>'
            + "".join(f'<td style="{cell};white-space:nowrap">{escape(text)}</td>' for text in row[1:])
            + "</tr>"
            for row in self.rows
        )
        table = (
            f'<div role="group" aria-label="Cases of {escape(self.exercise)}" tabindex="0" '
            'style="overflow-x:auto">'
            f'<table style="margin:.3em 0;border-collapse:collapse"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )
        return closed("The cases, one by one", table + note, opened=self.status == WRONG)
