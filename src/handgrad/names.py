"""Names of territories and languages in twenty languages, as integers: one for each character.

They come from Unicode CLDR by the package `babel`. Each name belongs to things, which CLDR tells by codes:
the territory DE is "tyskland" in Danish and in Swedish. Three decisions make an examination of them.

    spelling     in small letters, since capitals alone would tell German; accents composed, quotes straight
    ambiguous    a name that several languages spell alike ("malta") has no single answer. It is never asked
                 for its language; those of training things are kept without a label, in `unlabelled`
    held out     whole things: each fifth code, with its names in all languages. So no name stands on both
                 sides, nor does a thing in two spellings; Sweden and Swedish are two codes, so relatives do.
                 A name that means a thing on either side is left out, and so is one longer than 30 characters

A row of tokens is [CLS], the characters, [SEP], and then [PAD].
"""

import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from babel import Locale

from .algebra import check_integer
from .data import integers, pad_rows

LANGUAGES = {
    "da": "Danish",
    "nb": "Norwegian",
    "sv": "Swedish",
    "is": "Icelandic",
    "de": "German",
    "nl": "Dutch",
    "fi": "Finnish",
    "et": "Estonian",
    "cs": "Czech",
    "sk": "Slovak",
    "pl": "Polish",
    "sl": "Slovenian",
    "hr": "Croatian",
    "es": "Spanish",
    "gl": "Galician",
    "pt": "Portuguese",
    "ca": "Catalan",
    "fr": "French",
    "it": "Italian",
    "ro": "Romanian",
}
"""The languages by code, neighbours side by side; a label is a place in this order."""
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")
PAD, CLS, SEP, MASK, UNK = range(5)
"""Filling behind a row, its first token, its last, a hidden character, one that is not in the list."""
CHARACTERS = " '(),-.:abcdefghijklmnopqrstuvwxyzßàáâãäåæçèéêëíîïñòóôõöøúüýðþăąćčďđęěľłńňřśšťůźżžșț"
V = len(SPECIAL) + len(CHARACTERS)
LONGEST = 30
"""Characters of the longest name; a row has two tokens more."""
UNLABELLED = -1
"""The label of a name that several languages share."""
_PLACES = {character: place for place, character in enumerate(CHARACTERS, len(SPECIAL))}
_PLAIN = str.maketrans({"’": "'", "ʼ": "'", "–": "-", "—": "-"})


def spell(name: str) -> str:
    """Write a name as it is compared: small letters, composed accents, straight apostrophes and hyphens."""
    if not isinstance(name, str):
        raise TypeError(f"name: expected a string, got {type(name).__name__}")
    return unicodedata.normalize("NFC", name).lower().translate(_PLAIN)


def encode(name: str) -> list[int]:
    """Turn a name into tokens: [CLS], its characters as `spell` writes them, [SEP].

    A character without a place of its own becomes [UNK].
    """
    return [CLS, *(_PLACES.get(character, UNK) for character in spell(name)), SEP]


def tokens_of(row: Sequence[int]) -> list[str]:
    """Return the tokens of a row as strings. Raises TypeError or ValueError unless they are 0 … V − 1."""
    return [(*SPECIAL, *CHARACTERS)[token] for token in integers("row", row, V)]


@dataclass(frozen=True)
class Names:
    """Names with their labels (B,) and tokens (B, T); UNLABELLED where several languages share a name."""

    texts: tuple[str, ...]
    labels: np.ndarray
    tokens: np.ndarray

    @classmethod
    def of(cls, texts: Sequence[str], labels: Sequence[int]) -> "Names":
        """Encode the names. Raises TypeError or ValueError unless each has a label, −1 … 19."""
        labels = integers("labels", np.asarray(labels) + 1, len(LANGUAGES) + 1) - 1
        if len(labels) != len(texts):
            raise ValueError(f"labels: expected one for each of {len(texts)} texts, got {len(labels)}")
        return cls(tuple(map(spell, texts)), labels, pad_rows([encode(text) for text in texts], PAD))

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: Sequence[int]) -> "Names":
        """Return the names at these places, (R,), without columns that hold padding only."""
        rows = integers("rows", rows, len(self))
        if len(rows) == 0:
            raise ValueError("rows: expected at least one, got none")
        longest = int((self.tokens[rows] != PAD).sum(axis=1).max())
        return Names(tuple(self.texts[row] for row in rows), self.labels[rows], self.tokens[rows, :longest])


@cache
def found() -> dict[str, tuple[frozenset, frozenset]]:
    """Every name of CLDR's territories and languages, with the languages that spell it so, and its things."""
    spoken, meant = defaultdict(set), defaultdict(set)
    for language in LANGUAGES:
        locale = Locale(language)
        for kind, of_kind in (("territory", locale.territories), ("language", locale.languages)):
            for code, name in of_kind.items():
                spoken[spell(name)].add(language)
                meant[spell(name)].add((kind, code))
    return {name: (frozenset(spoken[name]), frozenset(meant[name])) for name in sorted(spoken)}


def split(every: int = 5) -> tuple[Names, Names, Names]:
    """Return training and held-out names, each of one language, and the unlabelled ones for training.

    Of the things in the order of their codes each `every`-th is held out, with all its names. Raises
    TypeError or ValueError unless `every` is an integer from 2 to the number of things.
    """
    things = sorted(set().union(*(meant for _, meant in found().values())))
    check_integer("every", every, least=2, most=len(things))
    examined, languages = set(things[every - 1 :: every]), list(LANGUAGES)
    sides = {"training": {}, "held out": {}, "unlabelled": {}}
    for name, (spoken, meant) in found().items():
        if len(name) > LONGEST or (meant & examined and meant - examined):
            continue
        if len(spoken) == 1:
            side = "held out" if meant & examined else "training"
            sides[side][name] = languages.index(*spoken)
        elif not meant & examined:
            sides["unlabelled"][name] = UNLABELLED
    return tuple(Names.of(list(side), list(side.values())) for side in sides.values())


def few(names: Names, each: int, rng: np.random.Generator) -> Names:
    """Draw `each` names of every language. Raises ValueError if a language has fewer."""
    check_integer("each", each, least=1)
    rows = [np.flatnonzero(names.labels == label) for label in range(len(LANGUAGES))]
    least = min(map(len, rows))
    if each > least:
        raise ValueError(f"each: expected at most {least}, the names of the rarest language, got {each}")
    return names.take(np.concatenate([rng.choice(of, size=each, replace=False) for of in rows]))
