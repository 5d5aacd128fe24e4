"""Questions with a choice of answers: each opens, and replies.

An answer is an HTML ``<details>``. So a quiz needs no script and no network: it works in the built book, in
JupyterLab and with a keyboard, and a screen reader knows it. Opening an answer closes the others of its
question. The right one is nowhere in particular: the order is drawn, the same for every reader.
"""

import json
import random
from html import escape
from pathlib import Path

OWN_KEYS = "data-lm-suppress-shortcuts"
"""JupyterLab takes arrows, Enter, letters for commands on cells, unless the focused element has this."""
FRAME = "border: 1px solid; border-radius: 0.25rem; margin: 0.4rem 0; padding: 0.3rem 0.75rem"


def quiz(path):
    """Read the questions of a JSON file, and return them as something that Jupyter shows.

    The file is a list of {"question": …, "answers": [{"answer": …, "correct": …, "feedback": …}, …]}; texts
    may hold $formulas$. Raises FileNotFoundError if there is none, and ValueError, with the question, unless
    each has at least three different answers, of which one is correct, and every answer its feedback.
    """
    questions = json.loads(Path(path).read_text(encoding="utf-8"))
    for question in questions:
        answers, name = question["answers"], f"{path}: {question['question'][:60]!r}"
        texts = [answer["answer"].strip() for answer in answers]
        if len(answers) < 3 or len(set(texts)) < len(texts) or not all(texts):
            raise ValueError(f"{name}: expected at least three different answers, got {texts}")
        if [answer["correct"] for answer in answers].count(True) != 1:
            raise ValueError(f"{name}: expected one correct answer")
        if not all(answer["feedback"].strip() for answer in answers):
            raise ValueError(f"{name}: expected feedback to every answer")
    text = "\n\n".join(
        "\n".join([f"{i}. {question['question']}", *(f"   - {a['answer']}" for a in shuffled(question))])
        for i, question in enumerate(questions, 1)
    )
    name = Path(path).stem
    return Shown(text, "\n".join(_question(name, i, question) for i, question in enumerate(questions, 1)))


class Shown:
    """What a reader can open or move: as HTML, and as text where none is shown."""

    def __init__(self, text, html):
        self._text, self._html = text, html

    def __repr__(self):
        return self._text

    def html(self):
        return self._html

    _repr_html_ = html


def _question(name, number, question):
    """One question as HTML; the file's name and the number tell which answers close each other."""
    lines = [
        f'<div class="question tex2jax_process" role="group" aria-label="Question {number}">',
        f"<p><strong>Question {number}.</strong> {escape(question['question'])}</p>",
    ]
    for answer in shuffled(question):
        kind, sign = ("right", "✓") if answer["correct"] else ("wrong", "✗")
        lines += [
            f'<details name="{name}-{number}" class="{kind}" style="{FRAME}">',
            f"<summary {OWN_KEYS}>{escape(answer['answer'])}</summary>",
            f'<p role="status">{sign} {escape(answer["feedback"])}</p></details>',
        ]
    return "\n".join([*lines, "</div>"])


def shuffled(question):
    """The answers of a question, in an order that its text decides."""
    return random.Random(question["question"]).sample(question["answers"], len(question["answers"]))
