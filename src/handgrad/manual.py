"""The text of Python's manual, as integers: one for each character.

It is the manual's topics, 79 of them with 453,985 characters, as the package brython 3.11.3 carries them in
its copy of `pydoc_data.topics`. Python's own copy differs from one version to the next; this one is the same,
character for character, on every Python. The vocabulary is the line break and the 95 characters of ASCII that
print, V = 96. Quotation marks, dashes and dots of other kinds are turned into these.
"""

import ast
import functools
import hashlib
import importlib.metadata
import importlib.resources
import json

import numpy as np

from .algebra import check_integer
from .data import integers

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
V = len(CHARACTERS)
_PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "…": "..."})
_PLACES = {character: place for place, character in enumerate(CHARACTERS)}
_SHA256 = "005f409921a886f825247110570d9c3082efc9346d1c7dbfa3efd223fc930ebe"


def encode(text: str) -> np.ndarray:
    """Turn a text into integers (L,), 0 … V − 1. A character that is not in the vocabulary becomes "?"."""
    if not isinstance(text, str):
        raise TypeError(f"text: expected a string, got {type(text).__name__}")
    unknown = _PLACES["?"]
    return np.array([_PLACES.get(character, unknown) for character in text.translate(_PLAIN)], dtype=int)


def decode(tokens) -> str:
    """Turn integers (L,) back into a text. Raises TypeError or ValueError unless they are 0 … V − 1."""
    return "".join(CHARACTERS[token] for token in integers("tokens", tokens, V))


def read(library: str) -> dict[str, str]:
    """Find the manual's topics, by name, in the text of brython's file of Python's modules.

    That file is JavaScript: a module's name, then JSON with its source, here `topics={…}`. Nothing of it is
    run. Raises RuntimeError unless the text is the one that the book's results were made with.
    """
    _, _, behind = library.partition('"pydoc_data.topics": ')
    found = {}
    if behind:
        (_, source, *_), _ = json.JSONDecoder().raw_decode(behind)
        found = ast.literal_eval(source.partition("=")[2])
    if hashlib.sha256(_joined(found).encode()).hexdigest() != _SHA256:
        version = importlib.metadata.version("brython")
        raise RuntimeError(
            f"brython {version} carries another text of Python's manual than this book was made with. "
            "Take the version that carries that text: pip install brython==3.11.3"
        )
    return found


@functools.cache
def _topics():
    """The topics of the installed brython; its own file of 4.6 MB is read once."""
    file = importlib.resources.files("brython") / "data" / "brython_stdlib.js"
    return read(file.read_text(encoding="utf-8") if file.is_file() else "")


def _joined(topics):
    """All topics, in the order of their names, as one text."""
    return "\n\n".join(topics[name] for name in sorted(topics))


def passages(least: int = 2000, once: bool = False) -> list[str]:
    """Cut the manual, its topics in the order of their names, into passages of at least `least` characters.

    A passage ends where a paragraph does; the last of a topic may be shorter. Joined by blank lines they are
    the whole text. With `once` a paragraph that has occurred before, but for spaces and line breaks, is left
    out: some topics repeat parts of others. Raises TypeError or ValueError unless `least` is an integer ≥ 1.
    """
    check_integer("least", least, least=1)
    topics = _topics()
    found, known = [], set()
    for name in sorted(topics):
        passage = []
        for paragraph in topics[name].split("\n\n"):
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
