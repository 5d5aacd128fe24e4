r"""Printed formulas, damaged on purpose: each edit is one slip of a typesetter.

`edits` yields what a formula becomes with a sign turned, two indices exchanged, a number one larger, a sum, a
sum with its index, a hat, a transpose, a root, a d, a factor, a matrix or a condition left out, a sum that
begins one earlier, a term that stands outside its root, Σ for Π, one letter of an index, or one that stands
behind "for all", for another that stands in the formula. A page that is proved must refuse each of them,
unless it says the same.
"""

import re
from typing import NamedTuple

from .tree import _LEVEL, CONDITIONS, scan

ENDS = {"LETTER", "NUMBER", "RBRACE", "CLOSE", "D", "FONT", "ACCENT", "OPEN", "FRAC", "SUM", "SQRT"}
"""What may stand behind a factor of a product."""


class Edit(NamedTuple):
    """One change: its kind, the place in the TeX, and the whole TeX after it."""

    kind: str
    start: int
    end: int
    tex: str


def edits(tex):
    """The edits of a formula, in the order of their places; none twice."""
    seen, found = {tex}, []
    for kind, start, end, new in sorted(_all(tex), key=lambda edit: edit[1:3]):
        edited = tex[:start] + new + tex[end:]
        if edited not in seen:
            seen.add(edited)
            found.append(Edit(kind, start, end, edited))
    return found


def _all(tex):
    tokens = scan(tex)
    closing = _closing(tokens)
    for n, token in enumerate(tokens):
        kind, start, end = token.type, token.start, token.end
        after = tokens[n + 1] if n + 1 < len(tokens) else None
        if kind == "PLUS":
            yield "sign", start, end, "-"
        elif kind == "MINUS":
            yield "sign", start, end, "+"
        elif kind == "NUMBER" and "." not in token.value and not _in_font(tokens, n):
            yield "number", start, end, str(int(token.value) + 1)
        elif kind == "D":
            yield "d left out", start, end, ""
        elif kind == "SUM":
            yield "Σ → Π", start, end, r"\prod"
            last = n
            while last + 1 < len(tokens) and tokens[last + 1].type in ("SUB", "SUP"):
                last = closing[last + 2]
            yield "sum left out", start, _end(tokens, last, tex), ""
            yield from _with_its_index(tokens, closing, n, last, tex)
            for first in range(n, last - 1):
                if tokens[first].value == "=" and tokens[first + 1].type == "NUMBER":
                    low = tokens[first + 1]
                    yield "one earlier", low.start, low.end, str(int(low.value) - 1)
        elif kind == "PROD":
            yield "Π → Σ", start, end, r"\sum"
        elif kind == "ACCENT":
            inner = tokens[n + 1 : closing[n + 1] + 1]
            yield (
                "hat left out",
                start,
                _end(tokens, closing[n + 1], tex),
                tex[inner[0].start : _end(tokens, closing[n + 1], tex)],
            )
        elif kind == "SQRT":
            last = _end(tokens, closing[n + 1], tex)
            yield "root left out", start, last, tex[after.start : last]
            yield from _out_of_root(tokens, closing, n, tex)
        elif kind == "SUP":
            inner = tokens[n + 2 : closing[n + 1]]
            if any(t.type == "TOP" for t in inner):
                yield "transpose left out", start, _end(tokens, closing[n + 1], tex), ""
            elif len(inner) == 1 and inner[0].type == "NUMBER":
                yield "power left out", start, _end(tokens, closing[n + 1], tex), ""
        elif kind == "SUB":
            inner = tokens[n + 2 : closing[n + 1]]
            letters = [t for t in inner if t.type == "LETTER"]
            if len(inner) == len(letters) == 2 and letters[0].value != letters[1].value:
                a, b = letters
                between = tex[a.end : b.start]
                yield "indices exchanged", a.start, b.end, _spaced(b, between, a, tex)
        elif kind == "TEXT" and re.match(rf"\s*({'|'.join(CONDITIONS)})\b", token.value):
            behind = (t.start for t in tokens[n + 1 :] if t.type == "ROW" or _opens_another(t))
            yield "condition left out", start, next(behind, tokens[-1].end), " "
        elif kind == "SLASH":
            yield "quotient → product", start, end, r"\cdot "
        elif kind == "RELATION" and token.value in "≤≥<>":
            turned = {"≤": r"\ge", "≥": r"\le", "<": ">", ">": "<"}[token.value]
            yield "relation turned", start, end, turned + " "
        elif kind == "FRAC" and tokens[n + 2].type != "PARTIAL":
            top, bottom = n + 1, closing[n + 1] + 1
            last = closing[bottom]
            parts = [_braced(tokens, first, closing[first], tex) for first in (top, bottom)]
            yield "fraction upside down", start, _end(tokens, last, tex), rf"\frac{parts[1]}{parts[0]}"
        elif kind == "PRIME" and after is not None and after.type == "OPEN":
            yield "prime left out", start, end, ""
    yield from _factors(tokens, closing, tex)
    yield from _matrices(tokens, closing, tex)
    yield from _letters(tokens, closing, tex)


def _opens_another(token):
    """Whether a statement begins with these words, and not one more of the conditions before it."""
    return token.type == "TEXT" and not re.match(r"\s*(all|each|and|is|or)\b", token.value)


def _with_its_index(tokens, closing, n, last, tex):
    """A sum left out together with its index, from the sum to the end of its side."""
    below = tokens[n + 3 : closing[n + 2]] if tokens[n + 1].type == "SUB" else []
    bound = (
        {t.value for t in below if t.type == "LETTER"}
        if all(t.type in ("LETTER", "COMMA") for t in below)
        else ()
    )
    gone, level, m = [(tokens[n].start, _end(tokens, last, tex))], 0, last + 1
    while bound and m < len(tokens):
        level += _LEVEL.get(tokens[m].type, 0)
        if level < 0 or level == 0 and tokens[m].type in ("RELATION", "ROW", "TEXT", "SPACE"):
            break
        if tokens[m].type == "SUB":
            inner = [t for t in tokens[m + 2 : closing[m + 1]] if t.type in ("LETTER", "NUMBER")]
            free = [t for t in inner if t.value not in bound]
            whole = (tokens[m].start, _end(tokens, closing[m + 1], tex))
            gone += [(t.start, t.end) for t in inner if t not in free] if free else [whole] if inner else []
        m += 1
    if len(gone) > 1:
        ends = [end for _, end in gone]
        kept = (tex[a:b] for a, b in zip(ends, [start for start, _ in gone[1:]]))
        yield "sum left out with its index", gone[0][0], ends[-1], "".join(kept)


def _out_of_root(tokens, closing, n, tex):
    """The last term under a root, outside of it."""
    level, last = 0, None
    for m in range(n + 2, closing[n + 1]):
        level += _LEVEL.get(tokens[m].type, 0)
        last = m if level == 0 and tokens[m].type == "PLUS" else last
    if last:
        start, end = tokens[n + 1].start, _end(tokens, closing[n + 1], tex)
        inside = tex[tokens[n + 2].start : tokens[last].start].strip()
        term = tex[tokens[last].start : end].removesuffix("}")
        yield "out of the root", start, end, f"{{{inside}}} {term}"


def _letters(tokens, closing, tex):
    """Each letter of an index for the next one that stands in an index of the formula."""
    inside = [m for n, t in enumerate(tokens) if t.type == "SUB" for m in range(n + 2, closing[n + 1])]
    inside += [
        n + 1 for n, t in enumerate(tokens[:-1]) if t.type == "TEXT" and re.search(r"\ball\b", t.value)
    ]
    found = [
        token
        for token in (tokens[m] for m in dict.fromkeys(inside) if tokens[m - 2].type != "FONT")
        if token.type == "LETTER"
        and (token.value.islower() and len(token.value) == 1 or token.value == "ell")
    ]
    written = {token.value: tex[token.start : token.end] for token in found}
    following = dict(zip(written, [*written][1:] + [*written][:1]))
    for token in found if len(written) > 1 else ():
        new = written[following[token.value]]
        gap = " " if new.startswith("\\") and tex[token.end : token.end + 1].isalpha() else ""
        yield "another index", token.start, token.end, new + gap


def _matrices(tokens, closing, tex):
    """A bold letter, with its scripts, that multiplies or is multiplied, left out."""
    for n, token in enumerate(tokens):
        if token.type != "FONT" or n and tokens[n - 1].type in ("D", "PARTIAL") or _in_accent(tokens, n):
            continue
        last = closing[n + 1]
        while last + 1 < len(tokens) and tokens[last + 1].type in ("SUB", "SUP"):
            last = closing[last + 2]
        before, after = (tokens[m].type if 0 <= m < len(tokens) else "" for m in (n - 1, last + 1))
        if after in ENDS or before in ("LETTER", "NUMBER", "RBRACE", "CLOSE"):
            yield "factor left out", token.start, _end(tokens, last, tex), " "


def _in_accent(tokens, n):
    return n > 1 and tokens[n - 1].type == "LBRACE" and tokens[n - 2].type == "ACCENT"


def _factors(tokens, closing, tex):
    """A letter that multiplies, without brackets or scripts around it, left out."""
    depth = 0
    for n, token in enumerate(tokens):
        depth += {"LBRACE": 1, "RBRACE": -1}.get(token.type, 0)
        before, after = (tokens[m].type if 0 <= m < len(tokens) else "" for m in (n - 1, n + 1))
        if (
            token.type == "LETTER"
            and depth == 0
            and after in ENDS
            and after != "OPEN"
            and before not in ("D", "PARTIAL")
        ):
            yield "factor left out", token.start, token.end, " "


def _closing(tokens):
    """For each opening brace the place of its closing one."""
    open_, pairs = [], {}
    for n, token in enumerate(tokens):
        if token.type == "LBRACE":
            open_.append(n)
        elif token.type == "RBRACE":
            pairs[open_.pop()] = n
    return pairs


def _end(tokens, n, tex):
    """Where a group ends in the text, with its brace if the text has one."""
    end = max(t.end for t in tokens[: n + 1])
    return end + (tex[end : end + 1] == "}" and tokens[n].type == "RBRACE" and _printed(tokens, n, tex))


def _printed(tokens, n, tex):
    """Whether the opening brace that belongs to a closing one stands in the text."""
    depth = 0
    for token in reversed(tokens[: n + 1]):
        depth += {"RBRACE": 1, "LBRACE": -1}.get(token.type, 0)
        if depth == 0:
            return token.end > token.start
    return False


def _braced(tokens, first, last, tex):
    inner = tex[tokens[first + 1].start : _end(tokens, last, tex)]
    return "{" + (inner.removesuffix("}") if _printed(tokens, last, tex) else inner) + "}"


def _spaced(b, between, a, tex):
    second = tex[a.start : a.end]
    gap = between or (" " if tex[b.start : b.end].startswith("\\") else "")
    return tex[b.start : b.end] + gap + second


def _in_font(tokens, n):
    return n > 1 and tokens[n - 1].type == "LBRACE" and tokens[n - 2].type == "FONT"
