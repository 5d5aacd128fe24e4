"""Sub-words: pieces of a text that occur often, made of pairs of neighbours (Sennrich et al., 2016)."""

from collections import Counter
from itertools import pairwise


def learn(text, times):
    """Begin with the characters of `text`; `times` times, join the pair of neighbours that occurs most often.

    Returns the pieces in the order in which they were made, and the text as a list of tokens. Of pairs that
    occur equally often the first in the text is taken. Raises ValueError if no two neighbours are left.
    """
    tokens, pieces = list(text), []
    for _ in range(times):
        counts = Counter(pairwise(tokens))
        if not counts:
            raise ValueError(f"text: expected one that can be joined {times} times, got {len(pieces)} pairs")
        pair = counts.most_common(1)[0][0]
        tokens = joined(tokens, pair)
        pieces.append("".join(pair))
    return pieces, tokens


def joined(tokens, pair):
    """The tokens with each occurrence of a pair made one token, from left to right."""
    found, i = [], 0
    while i < len(tokens):
        width = 2 if tuple(tokens[i : i + 2]) == pair else 1
        found.append("".join(tokens[i : i + width]))
        i += width
    return found
