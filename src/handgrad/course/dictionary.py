r"""Every symbol of an equation is in the dictionary of the notation, or a listed exception of its chapter.

The dictionary is what a reader sees, book/notation.md: tables whose first column holds symbols, and the table
of second meanings, which names the chapters of each. `symbols` reads the symbols of a formula, `read` the
page; `gaps` says which symbols of a chapter stand nowhere, and `idle` which exceptions their chapters do not
use.

A symbol is a letter in its font, ``\mathbf{X}`` or ``x``; with an index it is another one, ``x_``, the entry
of an array, where ``x`` is a number or an index. An array on the page, ``\mathbf{X}``, allows its rows and
entries, ``\mathbf{x}`` and ``x_``. Accents, primes, upright names and some signs are symbols of their own. A
word in a subscript is none, nor a capital that stands there alone: both say which, as in ``\mathbf{W}_Q``.
"""

import re
from collections import Counter
from dataclasses import dataclass

GREEK = "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|phi|chi|psi"
SIGNS = ["circ", "|", "nabla", "mid", "star", "hat", "bar", "tilde", "langle", "lVert", "Pr", "binom"]
WORD = r"\\(?:mathrm|text|operatorname)\s*\{[^{}]*\}|\\(?:max|min)(?![a-z])"
CHAPTERS = re.compile(r"chapters? (\d+(?:(?:, | and | to )\d+)*)")
# Layout and words; what says which, in subscripts and superscripts; then a symbol after the other.
IGNORED = re.compile(
    r"\\(?:begin|end)\{\w+\*?\}|\\text\{[^{}]*\}|\\\\(?:\[\w+\])?|\\(?:left|right|[bB]igg?[lrm]?)(?![a-z])"
)
WHICH = re.compile(
    rf"\^[A-Z](?=_)|[_^]\s*(?:{WORD}|\{{\s*(?:{WORD})\s*\}})|_\s*(?:[A-Z]|\{{[A-Z]\}}|\\(?:max|min)(?![a-z]))"
)
SYMBOL = re.compile(
    r"\\(?P<font>mathbf|boldsymbol|mathsf|mathcal|mathbb)\s*(?:\{(?P<inside>[^{}]*)\}|(?P<one>\\?[a-zA-Z]+))"
    r"|\\(?:mathrm|operatorname)\s*\{(?P<name>[^{}]*)\}"
    rf"|\\(?P<sign>{'|'.join(map(re.escape, SIGNS))})(?![a-zA-Z])"
    rf"|(?P<letter>\\(?:(?:var)?(?i:{GREEK}|omega)|ell)(?![a-zA-Z])|(?<!\\)[a-zA-Z])"
    r"(?P<index>(?=\s*'*\s*(?:\^\s*(?:\{(?:[^{}]|\{[^{}]*\})*\}|\\?\w)\s*)?_(?!\\star)))?(?P<power>(?=\s*\^))?"
    r"|(?P<mark>['!])|\\[a-zA-Z]+"
)


# A formula --------------------------------------------------------------------------------------------------


def symbols(tex):
    r"""The symbols of a formula, in order: ``\hat x_j + \mathbf{W}_Q`` → \hat, x_, j, \mathbf{W}."""
    found = []
    for match in SYMBOL.finditer(IGNORED.sub(" ", WHICH.sub(" ", tex))):
        letter = match["letter"]
        if match["font"]:
            inside = re.findall(r"\\[a-zA-Z]+|[a-zA-Z0-9]", match["inside"] or match["one"])
            found += [rf"\{match['font']}{{{one}}}" for one in inside]
        elif match["name"]:
            found.append(rf"\mathrm{{{match['name']}}}")
        elif letter:
            raised = letter == "e" and match["power"] is not None and match["index"] is None
            found.append(letter + "_" * (match["index"] is not None) + "^" * raised)
        elif match["sign"] or match["mark"]:
            found.append(match["mark"] or "\\" + match["sign"].replace("lVert", "|"))
    return list(dict.fromkeys(found))


def allowed(symbol):
    r"""What a listed symbol allows: itself, and for an array its rows and its entries.

    ``\mathbf{X}`` → {r"\mathbf{X}", r"\mathbf{x}", "x_"}, ``\boldsymbol{\gamma}`` → itself and ``\gamma_``.
    """
    array = re.fullmatch(r"\\(mathbf|boldsymbol|mathsf)\{(\\[a-z]+|[a-zA-Z])\}", symbol)
    if not array:
        return {symbol}
    font, letter = array[1], array[2]
    small = letter.lower() if len(letter) == 1 else letter
    return {symbol, rf"\{font}{{{small}}}", rf"\mathsf{{{small}}}_" if font == "mathsf" else small + "_"}


# The page ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Second:
    """A second meaning: the symbols that may have it, at least one of which is used, in which chapter."""

    symbols: tuple[str, ...]
    chapter: int
    words: str

    @property
    def allows(self):
        """The symbols and what they allow, and the same with an index."""
        return {also for symbol in self.symbols for also in (*allowed(symbol), symbol.rstrip("_") + "_")}


@dataclass(frozen=True)
class Dictionary:
    """What the page says: the symbols in force everywhere, and the second meanings of some of them.

    twice: symbols that two rows allow although no second meaning is listed.
    """

    general: frozenset[str]
    seconds: tuple[Second, ...]
    twice: tuple[str, ...]


def read(page):
    """The dictionary on a page of Markdown.

    Its tables have symbols in the first column; the table whose last column is headed "And also" holds second
    meanings, apart by semicolons, each with its chapters. Raises ValueError for a second meaning without a
    chapter, and for a row without a symbol.
    """
    rows, seconds = [], []
    for table in re.findall(r"(?:^\|.*\|\n)+", page, flags=re.MULTILINE):
        head, _, *body = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()
        ]
        if head[-1] == "And also":
            seconds += [one for cells in body if "$" in cells[0] for one in _seconds(cells[0], cells[-1])]
        elif head[0]:
            rows += [row for cells in body for row in _heads(cells[0])]
    excused = set().union(*(second.allows for second in seconds))
    plain = [symbol for tex, symbol in rows if not re.search(r"'|_(?:\\mathrm|[A-Z\d])", tex)]
    counts = Counter(also for symbol in plain for also in allowed(symbol))
    twice = tuple(symbol for symbol, times in counts.items() if times > 1 and symbol not in excused)
    return Dictionary(frozenset(symbol for _, symbol in rows), tuple(seconds), twice)


def _heads(text):
    """Each formula of a text with the symbol that it begins with."""
    heads = [(tex, *symbols(tex)[:1]) for tex in re.findall(r"\$([^$]+)\$", text)]
    if not heads or min(map(len, heads)) < 2:
        raise ValueError(f"page: expected a symbol in the first column of each row, got {text!r}")
    return heads


def _seconds(letters, also):
    """The second meanings of one row. Without a formula in front, a meaning is that of the row's letters."""
    chapters = ()
    for words in re.split(r";\s+", also):
        named = re.match(r"((?:\$[^$]+\$(?:, | and )?)+)", words)
        chapters = chapters_of(words) or chapters
        if not chapters:
            raise ValueError(f"page: expected a chapter with each second meaning of {letters}, got {words!r}")
        listed = tuple(symbol for _, symbol in _heads(named[1] if named else letters))
        for chapter in chapters:
            for group in [(symbol,) for symbol in listed] if named else [listed]:
                yield Second(group, chapter, words)


def chapters_of(words):
    """The numbers of the chapters that a text names: "in chapters 2 and 8 to 10" → (2, 8, 9, 10)."""
    numbers = []
    for listed in CHAPTERS.findall(words):
        for part in re.split(", | and ", listed):
            first, _, last = part.partition(" to ")
            numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


# What is missing, and what is too much ----------------------------------------------------------------------


def gaps(dictionary, chapter, formulas):
    """The symbols of the formulas of a chapter that stand nowhere: {symbol: the first formula}."""
    known = {also for symbol in dictionary.general for also in allowed(symbol)}
    known = known.union(*(second.allows for second in dictionary.seconds if second.chapter == chapter))
    missing = {}
    for tex in formulas:
        for symbol in symbols(tex):
            if symbol not in known:
                missing.setdefault(symbol, tex)
    return missing


def idle(dictionary, chapter, text):
    """The second meanings listed for a chapter whose symbols no formula in its text uses, as words."""
    used = {symbol for _, tex in re.findall(r"(\$\$?)([^$]+)\1", text) for symbol in symbols(tex)}
    return [
        f"{' '.join(second.symbols)}: {second.words}"
        for second in dictionary.seconds
        if second.chapter == chapter and not used & second.allows
    ]
