"""The text of the Python manual that ships with Python, as integers: one for each character.

`pydoc_data.topics` holds some eighty topics of the manual, about 460,000 characters; the exact text differs
a little from one version of Python to the next. The vocabulary does not: the line break and the 95
characters of ASCII that print, V = 96. Quotation marks, dashes and dots of other kinds are turned into
these.
"""

from pydoc_data import topics

import numpy as np

from .algebra import check_integer
from .data import integers

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
V = len(CHARACTERS)
_PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "…": "..."})
_PLACES = {character: place for place, character in enumerate(CHARACTERS)}


def encode(text: str) -> np.ndarray:
    """Turn a text into integers (L,), 0 … V − 1. A character that is not in the vocabulary becomes "?"."""
    if not isinstance(text, str):
        raise TypeError(f"text: expected a string, got {type(text).__name__}")
    unknown = _PLACES["?"]
    return np.array([_PLACES.get(character, unknown) for character in text.translate(_PLAIN)], dtype=int)


def decode(tokens) -> str:
    """Turn integers (L,) back into a text. Raises TypeError or ValueError unless they are 0 … V − 1."""
    return "".join(CHARACTERS[token] for token in integers("tokens", tokens, V))


def passages(least: int = 2000, once: bool = False) -> list[str]:
    """Cut the manual, its topics in the order of their names, into passages of at least `least` characters.

    A passage ends where a paragraph does; the last of a topic may be shorter. Joined by blank lines they are
    the whole text. With `once` a paragraph that has occurred before, but for spaces and line breaks, is left
    out: some topics repeat parts of others. Raises TypeError or ValueError unless `least` is an integer ≥ 1.
    """
    check_integer("least", least, least=1)
    found, known = [], set()
    for name in sorted(topics.topics):
        passage = []
        for paragraph in topics.topics[name].split("\n\n"):
            words = " ".join(paragraph.split())
            if once and words in known:
                continue
            known.add(words)
            passage.append(paragraph)
            if len("\n\n".join(passage)) >= least:
                found.append("\n\n".join(passage))
                passage = []
        if passage:
            found.append("\n\n".join(passage))
    return found


def split(every: int = 10, once: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the manual as training and held-out tokens, (L_train,) and (L_held_out,).

    Each `every`-th passage is held out; once: see `passages`. Without it, some of what is held out stands in
    the training text as well, word for word. Raises TypeError or ValueError unless `every` is an integer from
    2 to the number of passages.
    """
    parts = passages(once=once)
    check_integer("every", every, least=2, most=len(parts))
    held_out = parts[every - 1 :: every]
    del parts[every - 1 :: every]
    return encode("\n\n".join(parts)), encode("\n\n".join(held_out))


def count_pairs(tokens, V=V) -> np.ndarray:
    """Return how often token v stands directly behind token u in tokens (L,): n[u, v], (V, V), sum L - 1.

    Raises TypeError or ValueError unless V is an integer ≥ 1 and the tokens are 0 … V − 1.
    """
    check_integer("V", V, least=1)
    tokens = integers("tokens", tokens, V)
    return np.bincount(V * tokens[:-1] + tokens[1:], minlength=V * V).reshape(V, V)
