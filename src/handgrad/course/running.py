r"""The formulas of the running text say what the labelled ones say.

A formula in a sentence, or displayed without a label, is no claim of its own: the chapter has it from its
labelled equations. `Running.findings` looks at each that is an equation. It agrees if a labelled equation has
it in the same signs, or if numbers satisfy it in a reading (`page.given`) with which the chapter checks its
equations. It differs if they satisfy it in none, though one defines the letter on its left or its gradient.

The rest is left alone: what no reading knows; a value, D = 64; what restricts a free letter, S = T; and of
what no reading satisfies, what the chapter refuses as printed wrong, what a sentence assumes, behind "if" or
"take", and a letter put for another, p = q. A slip with an index that nobody knows leaves a formula alone
that was compared before; so the number of those that agree tells as well.
"""

import re
from typing import NamedTuple

from ..page.checks import DISPLAY, INLINE, NO_VALUE, Given
from ..page.meaning import items_of, letter_of
from ..page.tree import CONDITIONS, DEFINING, Unreadable, parse, split
from .damage import REFUSALS, Chapter

NAMES = ["eq-running" + "-" * n for n in range(3)]
"""What a formula is called while it is compared; for each name other numbers are drawn."""
ASSUMED = re.compile(rf"\b({'|'.join([*CONDITIONS, *DEFINING, 'take', 'let'])})\s+$", re.IGNORECASE)
SLASHED = re.compile(r"(\\partial[^/=]+?)\s*/\s*(\\partial\s*(?:\\hat\s+)?[^\s,=+-]+)")
CONDITION = re.compile(r"\s+(if|for)\s+\$([^$]+)\$")


class Finding(NamedTuple):
    """A formula of the running text; whether it "agrees", "differs" or is "left"; and why."""

    tex: str
    verdict: str
    why: str


def formulas(text):
    r"""The formulas of a Markdown text that have no label, in order: pairs (TeX, whether it is assumed).

    A condition behind one, $a = b$ for $j \ne k$, belongs to it.
    """
    text = DISPLAY.sub(lambda m: "" if m["label"] or m["kept"] else f"${m['tex'].strip()}$", text)
    for m in INLINE.finditer(text):
        behind = CONDITION.match(text, m.end())
        tex = m[1].strip() + (rf" \quad\text{{{behind[1]}}} {behind[2]}" if behind else "")
        yield tex, bool(ASSUMED.search(text[: m.start()]))


class Running:
    """The running text of a notebook, and what its formulas are compared with. path: the notebook."""

    def __init__(self, path):
        chapter = Chapter(path)
        self.text, cells = chapter.text, chapter.notebook.cells
        self.refused = "".join(c.source for c in cells if c.cell_type == "code" and ".refuses(" in c.source)
        printed = [s for tex in chapter.page.equations.values() for s in split(tex)]
        self.written = [{_signs(side) for side in statement.sides} for statement in printed]
        sources = {check[0] for _, checks in chapter.targets.values() for check in checks}
        pages = [eval(source, chapter.made) for source in sorted(sources)]
        self.readings = [page for page in pages if isinstance(page, Given)]

    def findings(self):
        """The Findings of the text, one for each place of an equation, in order."""
        places = list(formulas(self.text))
        verdicts = {place: self.verdict(*place) for place in dict.fromkeys(places)}
        return [Finding(place[0], *verdicts[place]) for place in places if verdicts[place]]

    def verdict(self, tex, assumed=False):
        """What becomes of a formula, and why; None for one that is no equation, or no formula."""
        try:
            claims = [s for s in split(tex) if s.relations[:1] == ("=",) and not s.opens(CONDITIONS)]
        except Unreadable:
            return None
        if not claims:
            return None
        if all(_plain(side) for claim in claims for side in claim.sides[1:]):
            return "left", "a value"
        if all(any({*map(_signs, claim.sides)} <= sides for sides in self.written) for claim in claims):
            return "agrees", "in the same signs"
        if f'"{tex}"' in self.refused:
            return "left", "printed as wrong"
        found = "left", "no reading"
        for given in self.readings:
            error = _error(given, SLASHED.sub(r"\\frac{\1}{\2}", tex))
            if error is None:
                return "agrees", "on numbers"
            if not isinstance(error, AssertionError):
                continue
            if assumed:
                found = "left", "it is assumed"
            elif any(_plain(claim.sides[-1]) or _letter(claim.sides[-1]) for claim in claims):
                found = "left", "a letter or a value for another"
            elif all(_defines(given, _letter(claim.sides[0])) for claim in claims):
                found = "differs", str(error)
        return found


def _error(given, tex):
    """Why numbers refute a formula; None if they do. A draw that leaves none, as of masks, is skipped."""
    found = Unreadable(NO_VALUE)
    for name in NAMES:
        given.page.equations[name] = tex
        try:
            found = given.holds(name)
        except (*REFUSALS, IndexError) as error:  # t + 1 runs out
            if NO_VALUE not in str(error):
                return error
    return found


def _signs(side):
    """What is written on a side, without what only moves ink."""
    return " ".join(token.value for token in side)


def _plain(side):
    """Whether no letter stands on a side."""
    return not any(token.type in ("LETTER", "NAME") for token in side)


def _letter(side):
    """The letter that a side is, None if it is more."""
    items = items_of(parse(side))
    return letter_of(items[0]) if items and len(items) == 1 and items[0].data == "factor" else None


def _defines(given, letter):
    """Whether a reading has a definition of a letter, or the gradient by it."""
    known = letter and given.reading.find(letter._replace(gradient=False))
    return bool(known) and (letter.gradient or known in given.reading.definitions)
