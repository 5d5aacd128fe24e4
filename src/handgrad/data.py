"""Number words: pairs of English and French sentences, generated, never downloaded.

The package `num2words` writes any number below a million in both languages. A few thousand numbers are enough
to teach a model; the rest of the million measures whether it has learned the rule.

A sentence is split into words. A hyphen stays with the word it precedes and a comma stands alone, so that the
exact text can be put together again:

    quatre-vingt-dix-neuf mille  ->  quatre  -vingt  -dix  -neuf  mille
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import takewhile

import numpy as np
from num2words import num2words

from .algebra import check_integer

LARGEST = 999_999
_spell = cache(num2words)  # a tenth of a millisecond each, otherwise

PAD, BOS, EOS = "<pad>", "<bos>", "<eos>"  # padding, beginning and end of a sentence


def words(number: int, language: str) -> str:
    """Return `number` (0 … 999 999) in words; `language` is "en" or "fr".

    Raises ValueError for another language or a number out of range, TypeError for what is not an integer.
    """
    if language not in ("en", "fr"):
        raise ValueError(f'language: expected "en" or "fr", got {language!r}')
    check_integer("number", number, most=LARGEST)
    return _spell(int(number), lang=language)


def split_words(text: str) -> list[str]:
    """Split a sentence into tokens; `join_words` is the exact inverse on number words.

    Raises ValueError for a sentence that could not be put together again.
    """
    tokens = re.findall(r"-?\w+|,", text)
    if join_words(tokens) != text:
        raise ValueError(f"text: expected words joined by single spaces, hyphens or commas, got {text!r}")
    return tokens


def join_words(tokens: Iterable[str]) -> str:
    """Put the tokens of `split_words` together again."""
    return " ".join(tokens).replace(" -", "-").replace(" ,", ",")


def sample_numbers(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draw `count` different numbers, (count,), as evenly over the six lengths (1 … 6 digits) as they allow.

    A uniform draw would hardly ever show a number below 10 000. Here each length gives the same share; a
    length that has not enough numbers gives all it has, and the longer ones share what is missing.
    Raises TypeError or ValueError unless count is an integer from 1 to 1 000 000.
    """
    check_integer("count", count, least=1, most=LARGEST + 1)
    chosen, missing = [], count
    for digits in range(1, 7):
        first = 0 if digits == 1 else 10 ** (digits - 1)
        available = 10**digits - first
        share = min(available, round(missing / (7 - digits)))
        chosen.append(first + rng.choice(available, size=share, replace=False))
        missing -= share
    return rng.permutation(np.concatenate(chosen))


def split_numbers(rng: np.random.Generator, train: int, held_out: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw disjoint training and held-out numbers, (train,) and (held_out,), by `sample_numbers`.

    0 is never held out: its word occurs in no other number, so that no model could know it.
    Raises TypeError or ValueError unless both are integers ≥ 1 and together at most one million.
    """
    check_integer("train", train, least=1)
    check_integer("held_out", held_out, least=1)
    numbers = sample_numbers(rng, train + held_out)
    numbers = numbers[np.argsort(numbers != 0, kind="stable")]  # 0, if drawn, comes first
    return numbers[:train], numbers[train:]


@dataclass(frozen=True)
class Vocabulary:
    """Tokens of both languages; the integer of a token is its place. 0 is padding, 1 begins, 2 ends.

    Raises ValueError unless the tokens begin with these three and are different strings, none of them empty.
    """

    tokens: tuple[str, ...]

    pad, bos, eos = 0, 1, 2

    def __post_init__(self):
        empty = [token for token in self.tokens if not (isinstance(token, str) and token)]
        if empty:
            raise ValueError(f"tokens: expected strings that are not empty, got {empty[0]!r}")
        if tuple(self.tokens[:3]) != (PAD, BOS, EOS):
            raise ValueError(f"tokens: expected to begin with {(PAD, BOS, EOS)}, got {self.tokens[:3]}")
        if len(self._places) != len(self.tokens):
            twice = next(token for place, token in enumerate(self.tokens) if token in self.tokens[:place])
            raise ValueError(f"tokens: expected different ones, got {twice!r} twice")

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Vocabulary":
        """Build the vocabulary of `texts`: the three special tokens, then every word found, sorted.

        Raises TypeError if the texts are one string; errors as `split_words`.
        """
        if isinstance(texts, str):
            raise TypeError(f"texts: expected sentences, got one string: {texts!r}")
        found = {token for text in texts for token in split_words(text)}
        return cls((PAD, BOS, EOS, *sorted(found)))

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {token: place for place, token in enumerate(self.tokens)}

    def encode(self, text: str) -> list[int]:
        """Turn a sentence into integers and add `eos`. Raises ValueError for a word that is not known."""
        tokens = split_words(text)
        unknown = [token for token in tokens if token not in self._places]
        if unknown:
            raise ValueError(f"text: expected words of the vocabulary, got {unknown[0]!r} in {text!r}")
        return [*(self._places[token] for token in tokens), self.eos]

    def decode(self, row: Sequence[int]) -> str:
        """Turn integers back into a sentence: up to the first `eos`, without `bos` and padding.

        Raises TypeError unless these are integers, ValueError for one that is no place in the vocabulary.
        """
        places = takewhile(lambda place: place != self.eos, integers("row", row, len(self)).tolist())
        return join_words(self.tokens[place] for place in places if place not in (self.pad, self.bos))


def integers(name: str, values: Sequence[int], below: int | None = None) -> np.ndarray:
    """Return the values as an array (R,). below: each must lie in 0 … below − 1.

    Raises TypeError for other kinds than integers, ValueError for another shape or range.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name}: expected integers, got {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one axis, got shape {array.shape}")
    if below is not None and array.size and not (0 <= array.min() and array.max() < below):
        raise ValueError(f"{name}: expected integers 0 … {below - 1}, got {array.min()} … {array.max()}")
    return array


def pad_rows(rows: Sequence[Sequence[int]], pad: int) -> np.ndarray:
    """Write rows of different lengths into one array (B, longest), filled up with `pad` at the end.

    Raises ValueError if there is no row, TypeError if one holds anything but integers.
    """
    if not len(rows):
        raise ValueError("rows: expected at least one, got none")
    rows = [integers(f"rows[{b}]", row) for b, row in enumerate(rows)]
    table = np.full((len(rows), max(map(len, rows))), *integers("pad", [pad]), dtype=int)
    for b, row in enumerate(rows):
        table[b, : len(row)] = row
    return table


@dataclass(frozen=True)
class Pairs:
    """Numbers (B,) in two languages: source (B, S) and target (B, T), each row with `eos` and padding."""

    numbers: np.ndarray
    source: np.ndarray
    target: np.ndarray
    vocabulary: Vocabulary

    @classmethod
    def of(cls, numbers: Sequence[int], vocabulary: Vocabulary) -> "Pairs":
        """Spell and encode the numbers. Raises ValueError if there is none or a word is not known."""
        english, french = (
            pad_rows([vocabulary.encode(words(n, language)) for n in numbers], vocabulary.pad)
            for language in ("en", "fr")
        )
        return cls(np.asarray(numbers), english, french, vocabulary)

    def __len__(self) -> int:
        return len(self.source)

    def batch(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the named rows as a model's batch, without columns that hold padding only.

        The decoder reads `target_in`, which begins with `bos`, and is asked for `target_out`, which ends with
        `eos`: at each place the token that comes next.
        Raises TypeError unless the rows are integers, ValueError if there is none or one is out of range.
        """
        rows = integers("rows", rows, len(self))
        if len(rows) == 0:
            raise ValueError("rows: expected at least one, got none")
        source, target_out = (self._trimmed(table[rows]) for table in (self.source, self.target))
        bos = np.full((len(rows), 1), self.vocabulary.bos)
        target_in = np.concatenate([bos, target_out[:, :-1]], axis=1)
        # an ended row reads padding, never its own eos, as the last inputs of target_in
        target_in = np.where(target_in == self.vocabulary.eos, self.vocabulary.pad, target_in)
        return {"source": source, "target_in": target_in, "target_out": target_out}

    def draw(self, rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
        """Draw a batch of `size` pairs, with replacement. Raises TypeError or ValueError unless size ≥ 1."""
        check_integer("size", size, least=1)
        return self.batch(rng.integers(len(self), size=size))

    def _trimmed(self, table: np.ndarray) -> np.ndarray:
        longest = int((table != self.vocabulary.pad).sum(axis=1).max())
        return table[:, :longest]


def number_pairs(rng: np.random.Generator, train: int, held_out: int) -> tuple[Pairs, Pairs]:
    """Return training and held-out pairs, English to French, with one vocabulary from the training pairs.

    Raises as `split_numbers`; also ValueError if a held-out word never occurs in training (too few numbers).
    """
    train_numbers, held_out_numbers = split_numbers(rng, train, held_out)
    texts = (words(n, language) for n in train_numbers for language in ("en", "fr"))
    vocabulary = Vocabulary.of(texts)
    return Pairs.of(train_numbers, vocabulary), Pairs.of(held_out_numbers, vocabulary)
