r"""From the TeX of a formula to its tree: what is written, before anybody asks what it means.

`scan` makes tokens, with the braces that TeX leaves out (``\frac1D``) and without what only moves ink.
`split` cuts a displayed formula into statements, chains of sides such as a = b = c, each with the words
before it. `parse` reads one side by the grammar below. A formula that reads in two ways, such as 1/2x, is
refused.
"""

import itertools
import re
from functools import lru_cache
from typing import NamedTuple

import lark
from lark.lexer import Lexer

PIECE = re.compile(r"\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|[a-zA-Z]|\S", re.DOTALL)
INK = set(
    r"\, \; \! \: \  ~ \left \right \big \Big \bigg \Bigg \bigl \bigr \Bigl \Bigr \biggl \biggr "
    r"\displaystyle \textstyle \limits \nolimits \tfrac \dfrac".split(" ")
) - {r"\tfrac", r"\dfrac", ""}
FONTS = {
    r"\mathbf": "bold",
    r"\boldsymbol": "bold",
    r"\bm": "bold",
    r"\vec": "bold",
    r"\mathsf": "sans",
    r"\mathcal": "cal",
    r"\mathbb": "double",
    r"\mathbbm": "double",
}
ACCENTS = {
    r"\hat": "hat", r"\widehat": "hat", r"\bar": "bar", r"\overline": "bar", r"\tilde": "tilde",
    r"\widetilde": "tilde",
}  # fmt: skip
WORDS = {r"\text", r"\mathrm", r"\operatorname"}
NAMES = {rf"\{name}": name for name in "ln exp cos sin tanh min max Pr log nabla rint sign erf".split()}
GREEK = set(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi "
    "psi omega ell Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega infty".split()
)
RELATIONS = {
    "=": "=", r"\ne": "≠", r"\neq": "≠", r"\le": "≤", r"\leq": "≤", r"\ge": "≥", r"\geq": "≥", "<": "<",
    ">": ">", r"\approx": "≈", r"\leftarrow": "←", r"\to": "→", r"\in": "∈", r"\subseteq": "⊆",
    r"\mapsto": "↦", r"\coloneqq": "=", r"\triangleq": "=", r"\leqslant": "≤", r"\geqslant": "≥",
}  # fmt: skip
PLAIN = {
    "+": "PLUS", "-": "MINUS", "/": "SLASH", "(": "OPEN", ")": "CLOSE", "[": "SQUARE", "]": "ERAUQS",
    "{": "LBRACE", "}": "RBRACE", "_": "SUB", "^": "SUP", "'": "PRIME", "!": "FACTORIAL", ",": "COMMA",
    ":": "COLON", ";": "SEMICOLON", r"\{": "SET", r"\}": "TES", r"\cdot": "TIMES", r"\times": "TIMES",
    r"\circ": "ENTRYWISE", r"\odot": "ENTRYWISE", r"\sum": "SUM", r"\prod": "PROD",
    r"\int": "INTEGRAL", r"\partial": "PARTIAL",
    r"\frac": "FRAC", r"\tfrac": "FRAC", r"\dfrac": "FRAC", r"\binom": "BINOM", r"\sqrt": "SQRT",
    r"\top": "TOP", r"\intercal": "TOP",
    r"\star": "STAR", r"\langle": "ANGLE", r"\rangle": "ELGNA", r"\mid": "BAR", r"\dots": "DOTS",
    r"\cdots": "DOTS", r"\ldots": "DOTS",
    r"\lvert": "ABS", r"\rvert": "SBA", r"\lVert": "NORM", r"\rVert": "MRON",
}  # fmt: skip
SPOKEN = {
    r"\forall": "for all", r"\implies": "so", r"\Rightarrow": "so", r"\Longrightarrow": "so",
}  # fmt: skip
"""Signs that are read as words."""
BETWEEN = {"RELATION", "PLUS", "MINUS", "SLASH", "TIMES", "ENTRYWISE"}
"""What stands between two parts of one statement, so that a line does not end beside it."""
OPENING = {"STILL", "OPEN", "SQUARE", "LBRACE", "ANGLE", "ABS", "NORM", "BEGIN", "SET"}
CLOSING = {"HELD", "CLOSE", "ERAUQS", "RBRACE", "ELGNA", "SBA", "MRON", "END", "TES"}


CONDITIONS = ("if", "for", "whenever", "whatever", "where all", "at")
"""The words before what is no claim, but says when one holds."""
DEFINING = ("with", "where")
CLAIMING = ("so", "hence", "that is")
"""The words before what follows from the rest, and defines nothing."""
FOLLOWING = {
    *DEFINING,
    *CLAIMING,
    "so that",
    "and",
    "exactly where",
    "forward",
    "backward",
    "numbers",
    "is",
}
"""The words before a claim, or behind one, that take nothing of it back."""


class Unreadable(ValueError):
    """A formula, or a part of it, that the reader does not understand, with its place."""


class Statement(NamedTuple):
    """A chain a = b ≥ c: the words before it, its sides (texts), and the relations between them."""

    words: str
    sides: tuple
    relations: tuple
    rows: tuple = (0, 0)  # of the formula, in which it begins and ends

    def behind_first(self):
        """What a definition a = b = c claims besides: b = c. None, of a = b."""
        return Statement("", self.sides[1:], self.relations[1:], self.rows) if self.relations[1:] else None

    def opens(self, words):
        """Whether what stands before it opens with one of these words: "for", but not "forward"."""
        return bool(re.match(rf"({'|'.join(words)})\b", self.words, re.IGNORECASE))


# ------------------------------------------------------------------------------------------------- the tokens


class Token(NamedTuple):
    type: str
    value: str
    start: int
    end: int


def scan(tex):
    """The tokens of a formula, each with its place in the text.

    Raises Unreadable for brackets that do not close, and for a command that has no meaning here.
    """
    tex = re.sub(r"(?<!\\)%.*", lambda m: " " * len(m[0]), tex)
    raw = [(m[0], m.start(), m.end()) for m in PIECE.finditer(tex)]
    return _paired(list(_Scanner(tex, raw).tokens()), tex)


class _Scanner:
    def __init__(self, tex, raw):
        self.tex, self.raw, self.at = tex, raw, 0
        self.inside = []  # the matrices and cases that are open

    def tokens(self, until=None):
        while self.at < len(self.raw):
            text = self.raw[self.at][0]
            if text == until:
                return
            yield from self.next()

    def argument(self):
        """The tokens of the next argument, in braces, whether TeX has them or not."""
        if self.at >= len(self.raw):
            raise Unreadable(f"an argument is missing at the end of {self.tex!r}")
        text, start, end = self.raw[self.at]
        if text in INK:
            self.at += 1
            return self.argument()
        if text == "{":
            self.at += 1
            inner = list(self.tokens("}"))
            if self.at >= len(self.raw):
                raise Unreadable(f"a brace does not close: {self.tex[start : start + 30]!r}")
            self.at += 1
            return [Token("LBRACE", "{", start, end), *inner, Token("RBRACE", "}", end, end)]
        if text[0].isdigit() and len(text) > 1:  # \frac12 is one half
            self.raw[self.at] = (text[1:], start + 1, end)
            inner = [Token("NUMBER", text[0], start, start + 1)]
        else:
            inner = list(self.next())
        return [Token("LBRACE", "{", start, start), *inner, Token("RBRACE", "}", end, end)]

    def words(self):
        """The text of a braced argument as it stands."""
        while self.raw[self.at][0] in INK:
            self.at += 1
        start, depth = self.at, 0
        while True:
            if self.at >= len(self.raw):
                raise Unreadable(f"a brace does not close: {self.tex[self.raw[start][1] :][:30]!r}")
            text = self.raw[self.at][0]
            depth += {"{": 1, "}": -1}.get(text, 0)
            self.at += 1
            if depth == 0:
                return self.tex[self.raw[start][2] : self.raw[self.at - 1][1]] if text == "}" else text

    def applies(self, words):
        """Whether a word is the name of a function, as in \\text{softmax}(x): a bracket follows at once."""
        ahead = (text for text, _, _ in self.raw[self.at :] if text not in INK)
        return re.fullmatch(r"\w+", words) and (words == "softmax" or next(ahead, "") == "(")

    def next(self):
        text, start, end = self.raw[self.at]
        self.at += 1

        def token(kind, value=text):
            return Token(kind, value, start, self.raw[self.at - 1][2])

        if text in INK:
            if text == r"\left" and self.raw[self.at][0] == ".":
                self.at += 1
                yield token("STILL")
            if text == r"\right" and self.raw[self.at][0] == "|":
                self.at += 1
                yield token("HELD")
        elif text in (r"\quad", r"\qquad"):
            yield token("SPACE")
        elif text in (r"\label", r"\tag"):
            self.words()
        elif text == "&":
            if self.inside and self.inside[-1]:
                yield token("COLUMN")
        elif text == "\\ ":
            pass
        elif text == r"\\":
            if (
                self.at < len(self.raw)
                and self.raw[self.at][0] == "["
                and not (self.inside and self.inside[-1])
            ):
                while self.raw[self.at - 1][0] != "]":  # \\[4pt]
                    self.at += 1
            yield token("ROW")
        elif text in (r"\begin", r"\end"):
            kind = self.words()
            if kind in ("aligned", "gathered", "split"):
                self.inside += [False] if text == r"\begin" else []
                if text == r"\end":
                    self.inside.pop()
            elif kind in ("pmatrix", "bmatrix", "matrix", "cases"):
                self.inside = [*self.inside, True] if text == r"\begin" else self.inside[:-1]
                yield token("BEGIN" if text == r"\begin" else "END", "cases" if kind == "cases" else "matrix")
            else:
                raise Unreadable(f"{text}{{{kind}}}")
        elif text == r"\phantom":
            self.words()
        elif text == r"\underbrace":
            opening, *inner, closing = self.argument()
            yield from (opening._replace(type="OPEN"), *inner, closing._replace(type="CLOSE"))
            if self.raw[self.at][0] == "_":
                self.at += 1
                if any(t.type == "RELATION" for t in self.argument()):
                    raise Unreadable("a relation below a brace: write it as an equation of its own")
        elif text == r"\substack":
            yield from (t._replace(type="COMMA") if t.type == "ROW" else t for t in self.argument()[1:-1])
        elif text in WORDS:
            self.at += self.raw[self.at][0] == "*"  # \operatorname*
            words = self.words()
            if text != r"\operatorname" and words == "d":
                yield token("D")
            elif text == r"\text" and not self.applies(words):
                yield token("TEXT", words)
            else:
                yield token("NAME", words)
        elif text in FONTS:
            yield token("FONT", FONTS[text])
            yield from self.argument()
        elif text in ACCENTS:
            yield token("ACCENT", ACCENTS[text])
            yield from self.argument()
        elif text in ("_", "^"):
            yield token(PLAIN[text])
            yield from self.argument()
        elif text in (r"\frac", r"\tfrac", r"\dfrac", r"\binom"):
            yield token(PLAIN[text])
            yield from self.argument()
            yield from self.argument()
        elif text == r"\sqrt":
            yield token("SQRT")
            yield from self.argument()
        elif text in ("|", r"\|"):
            yield token(text)
        elif text == "{":
            if self.raw[self.at][0] == "}":  # {} moves a sign, no more
                self.at += 1
            else:
                self.at -= 1
                yield from self.argument()
        elif text == ":" and self.at < len(self.raw) and self.raw[self.at][0] == "=":
            self.at += 1
            yield token("RELATION", "=")
        elif text in RELATIONS:
            yield token("RELATION", RELATIONS[text])
        elif text in SPOKEN:
            yield token("TEXT", SPOKEN[text])
        elif text in PLAIN:
            yield token(PLAIN[text])
        elif text in NAMES:
            yield token("NAME", NAMES[text])
        elif text[0].isdigit():
            yield token("NUMBER")
        elif text.isalpha() and len(text) == 1:
            yield token("LETTER")
        elif text[1:] in GREEK:
            yield token("LETTER", text[1:].removeprefix("var"))
        elif text == ".":
            yield token("STOP")
        else:
            raise Unreadable(f"{text!r} has no meaning here, in {self.tex[max(0, start - 20) : end + 20]!r}")


def _paired(tokens, tex):
    """Bars as openings and closings of absolute values and norms, in turn; between [ and ] they separate."""
    result, groups = [], [("", {})]
    for token in tokens:
        kind, count = groups[-1]
        if token.type in ("|", r"\|"):
            if kind == "SQUARE":
                token = token._replace(type="BAR")
            else:
                count[token.type] = 1 - count.get(token.type, 0)
                pair = ("ABS", "SBA") if token.type == "|" else ("NORM", "MRON")
                token = token._replace(type=pair[0] if count[token.type] else pair[1])
        elif token.type in OPENING:
            groups.append((token.type, {}))
        elif token.type in CLOSING:
            if len(groups) == 1 or any(groups.pop()[1].values()):
                raise Unreadable(f"brackets that do not pair: {tex[: token.end][-40:]!r}")
        result.append(token)
    if len(groups) > 1 or any(groups[0][1].values()):
        raise Unreadable(f"a bracket does not close in {tex!r}")
    return result


# --------------------------------------------------------------------------------------------- the statements

_LEVEL = {kind: 1 for kind in OPENING} | {kind: -1 for kind in CLOSING}


def split(tex):
    """The statements of a displayed formula, in order: what stands between commas, spaces, lines and words.

    A line that begins with a relation or a sign goes on with the one before it, as does one inside a bracket.
    """
    parts, words, rows, row = [[]], [""], [[0, 0]], 0
    level, tables, tokens = 0, 0, _counted(scan(tex))
    for place, token in enumerate(tokens):
        level += _LEVEL.get(token.type, 0)
        tables += {"BEGIN": 1, "END": -1}.get(token.type, 0)
        row += token.type == "ROW" and not tables
        if token.type not in ("ROW", "SPACE"):
            rows[-1] = [rows[-1][0] if parts[-1] or words[-1] else row, row]
        ends = token.type in ("COMMA", "SEMICOLON", "COLON", "ROW", "SPACE", "TEXT", "STOP") and level == 0
        if not ends:
            if token.type not in ("ROW", "SPACE", "STOP") or tables and token.type == "ROW":
                parts[-1].append(token)
            continue
        if token.type in ("ROW", "SPACE"):
            following = next((t for t in tokens[place + 1 :] if t.type not in ("SPACE", "ROW")), None)
            goes_on = following is not None and following.type in BETWEEN
            if parts[-1] and (goes_on or parts[-1][-1].type in BETWEEN):
                continue
        if parts[-1]:
            parts.append([])
            words.append("")
            rows.append([row, row])
        if token.type == "TEXT":
            words[-1] = f"{words[-1]} {token.value}".strip()
    found = []
    for part, before, where in zip(parts, words, rows):
        if part:
            found.append(_chain(part, before)._replace(rows=tuple(where)))
        elif before and found:
            found.append(Statement(before, (), (), tuple(where)))
    return found


def _counted(tokens):
    """The tokens with i = 1, …, D, which claims nothing, as words and a relation: for i ∈ D."""
    found, pattern = [], ["RELATION", "NUMBER", "COMMA", "DOTS", "COMMA"]
    tokens = list(tokens)
    while tokens:
        if tokens[0].type == "LETTER" and [t.type for t in tokens[1:6]] == pattern and tokens[2].value == "1":
            letter, relation = tokens[:2]
            if not (found and found[-1].type == "TEXT"):
                found.append(letter._replace(type="TEXT", value="for"))
            found += [letter, relation._replace(value="∈")]
            tokens = tokens[6:]
        else:
            found.append(tokens.pop(0))
    return found


def conditions_in(statements):
    """The statements that say when others hold: behind "if" or "for", and beside these, for x > 0, y > 0.

    Raises Unreadable for an equation beside a condition, which may be a claim, unless it gives one letter.
    """
    found, before = [], None
    for statement in statements:
        beside = found and statement.words in ("", "and") and found[-1].rows[1] == statement.rows[0]
        if statement.opens(CONDITIONS):
            found.append(statement)
        elif beside and found[-1] is before:
            if "=" in statement.relations and not _one_letter(statement.sides[0]):
                raise Unreadable("an equation behind a condition: write it before, or in a row of its own")
            found.append(statement)
        before = statement
    return found


def _one_letter(tokens):
    depths = itertools.accumulate(_LEVEL.get(token.type, 0) for token in tokens)
    letters = [t for t, depth in zip(tokens, depths) if depth == 0 and t.type in ("LETTER", "FONT")]
    return len(letters) == 1


def by_rows(statements):
    """The statements of a formula in groups, each with the conditions of its claims.

    A condition is of the claims in its row, and of those that follow from them with "so"; in a row of its
    own, or where all claims stand in one row, it is of all.
    """
    conditions, shared, rows, row = conditions_in(statements), [], {}, None
    for statement in (s for s in statements if s not in conditions):
        if statement.opens(DEFINING) or not statement.relations:
            shared.append(statement)
        else:
            row = row if row is not None and statement.opens(CLAIMING) else statement.rows[1]
            rows.setdefault(row, []).append(statement)
    scoped = {}
    for condition in conditions:
        of = [row for row, claims in rows.items() if any(s.rows[1] == condition.rows[0] for s in claims)]
        (scoped.setdefault(of[0], []) if of and len(rows) > 1 else shared).append(condition)
    common = [claim for row, claims in rows.items() if row not in scoped for claim in claims]
    groups = [common] * bool(common) + [rows[row] + found for row, found in scoped.items()]
    return [[s for s in statements if s in group or s in shared] for group in groups or [[]]]


def _chain(tokens, words):
    sides, relations, level = [[]], [], 0
    for token in tokens:
        level += _LEVEL.get(token.type, 0)
        if token.type == "RELATION" and level == 0:
            relations.append(token.value)
            sides.append([])
        else:
            sides[-1].append(token)
    return Statement(words, tuple(tuple(side) for side in sides), tuple(relations))


# ------------------------------------------------------------------------------------------------ the grammar

_SILENT = set(
    "STILL HELD OPEN CLOSE SQUARE ERAUQS LBRACE RBRACE SUB SUP PRIME FACTORIAL COMMA COLON SEMICOLON SET TES "
    "ANGLE ELGNA ABS SBA NORM MRON SQRT FRAC BINOM D".split()
)

GRAMMAR = r"""
?start: expr
expr: (PLUS | MINUS)? product ((PLUS | MINUS) product)*
product: item+
?item: factor | TIMES | ENTRYWISE | SLASH | big
big: (SUM | PROD | INTEGRAL) limits*
limits: _SUB group -> low
      | _SUP group -> high
factor: atom script*
script: _SUB group -> sub
      | _SUP group -> sup
      | _PRIME -> prime
      | _FACTORIAL -> factorial
?group: _LBRACE list _RBRACE
      | _LBRACE TEXT _RBRACE -> words
list: clause ((_COMMA | _COLON | BAR | _SEMICOLON) clause)*
clause: expr (RELATION expr)*
atom: LETTER -> letter
    | NUMBER -> number
    | NAME -> name
    | _D atom -> gradient
    | FONT _LBRACE atom+ _RBRACE -> font
    | ACCENT _LBRACE factor _RBRACE -> accent
    | PARTIAL -> partial
    | DOTS -> dots
    | TOP -> top
    | STAR -> star
    | _FRAC group group -> frac
    | _BINOM group group -> binom
    | _SQRT group -> sqrt
    | _LBRACE expr _RBRACE -> braced
    | _OPEN list _CLOSE -> paren
    | _STILL expr _HELD _SUB group -> still
    | _SQUARE list _ERAUQS -> square
    | _ABS expr _SBA -> abs
    | _NORM expr _MRON -> norm
    | _ANGLE expr _COMMA expr _ELGNA -> angle
    | _SET list _TES -> set
    | BEGIN row (ROW row)* ROW? END -> table
row: cell (COLUMN cell)*
cell: piece*
?piece: clause | TEXT -> words | _COMMA -> nothing
%declare _STILL _HELD PLUS MINUS SLASH _OPEN _CLOSE _SQUARE _ERAUQS _LBRACE _RBRACE _SUB _SUP _PRIME
%declare _FACTORIAL _COMMA _COLON _SEMICOLON
%declare _SET _TES TIMES ENTRYWISE SUM PROD INTEGRAL PARTIAL _FRAC _BINOM _SQRT TOP
%declare STAR _ANGLE _ELGNA BAR DOTS _ABS _SBA
%declare _NORM _MRON BEGIN END ROW COLUMN _D TEXT NAME FONT ACCENT RELATION NUMBER LETTER
"""


class _Given(Lexer):
    """Hands lark the tokens that `scan` made."""

    def __init__(self, conf):
        pass

    def lex(self, tokens):
        for token in tokens:
            kind = f"_{token.type}" if token.type in _SILENT else token.type
            yield lark.Token(kind, token.value, token.start, end_pos=token.end)


_PARSER = lark.Lark(GRAMMAR, parser="lalr", lexer=_Given)


def parse(tokens):
    """The tree of one side, given its tokens.

    Raises Unreadable, with the place, where the grammar ends, and for what print does not tell apart.
    The same tokens have the same tree, which is to be read only.
    """
    return _parsed(tuple(tokens))


@lru_cache(maxsize=2**14)
def _parsed(tokens):
    try:
        tree = _PARSER.parse(tokens)
    except lark.UnexpectedInput as error:
        read = " ".join(token.value for token in tokens)
        found = getattr(error, "token", None)
        at = f"at {found.value!r}" if found is not None and found.type != "$END" else "at its end"
        raise Unreadable(f"{read!r} is no formula: it breaks off {at}") from None
    for part in tree.iter_subtrees():
        part.data = str(part.data)  # which lark compares slowly
    signed = [e.children[0].children[0] for e in tree.find_data("expr") if _braced_sign(e.children[0])]
    for factor in tree.find_data("factor"):
        atom, scripts = factor.children[0], factor.children[1:]
        if atom.data == "braced" and not any(factor is one for one in signed):
            inner = only(atom.children[0], "factor")
            if inner is None or scripts and any(s.data == "sup" for s in inner.children[1:]):
                raise Unreadable("braces { } around several factors or terms are not printed: write brackets")
        for script in scripts:
            above = only(script.children[0], "factor") if script.data == "sup" else None
            if form(above) == "square":
                raise Unreadable(
                    "a square bracket as an exponent: write x^2 for a power, x^{(2)} for an index"
                )
    for product in tree.find_data("product"):
        for before, behind in zip(product.children, product.children[1:]):
            if form(before) == "number" and form(behind) == "frac":
                if all(form(only(part, "factor")) == "number" for part in behind.children[0].children):
                    raise Unreadable(
                        "a number before a fraction of numbers, such as 2½, or 2 · ½? Write a dot"
                    )
    return tree


def form(item):
    """What a factor is made of: "letter", "paren", "frac"; "" for a sign, a sum, or nothing at all."""
    return item.children[0].data if getattr(item, "data", "") == "factor" else ""


def _braced_sign(product):
    """Whether a product, the first of its terms, opens with {-x}, whose braces only keep the sign near."""
    first = product.children[0] if getattr(product, "data", "") == "product" else None
    if form(first) != "braced" or len(first.children) > 1:
        return False
    inner = first.children[0].children[0]
    return len(inner.children) == 2 and not hasattr(inner.children[0], "data")


def only(tree, kind):
    """The only child of a tree of this kind, through wrappers that hold one thing; None if there is more."""
    while tree.data != kind:
        if tree.data in ("list", "clause", "expr", "product", "braced") and len(tree.children) == 1:
            tree = tree.children[0]
            if not hasattr(tree, "data"):
                return None
        else:
            return None
    return tree
