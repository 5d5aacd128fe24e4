"""Cards with formulas that the book has checked.

book/cheat_sheet.yml names equations and writes none: ``eq-linear-dw 2`` is the second statement of that
equation, ``ends`` leaves out what stands between its first and its last side. The TeX comes from the
notebooks, and so does the mark of its evidence, which stands beside it with its number. `problems` says what
is wrong in the file: a gradient must be checked, a definition is no evidence for one.
"""

import re
from pathlib import Path

import yaml

from handgrad.course.evidence import MARKS, chapters, equations

ROOT = Path(__file__).parents[2]
BITES = "the test that bites"
SIGNS = {"forward": "→", "backward": "←", "also": "•"}
RELATION = r"(=|<|>|\\(le|ge|ne|approx|leftarrow|to)(?![a-z]))"
GRADIENT = r"\mathrm{d}"
BREAK = "\n"  # between the lines of one statement
CONDITION = r"\\text\{\s*(if|for|where|otherwise|by)\b"


# Formulas ---------------------------------------------------------------------------------------------------


def split(tex, separator, opening="{(["):
    """Split TeX at a pattern, but not inside environments and what opens with one of these signs."""
    closing = opening.translate(str.maketrans("{([", "})]"))
    parts, depth, rest = [""], 0, tex
    while rest:
        found = depth == 0 and re.match(separator, rest)
        token = re.match(r"\\begin\{\w+\}|\\end\{\w+\}|\\[a-zA-Z]+|\\.|.", rest, flags=re.DOTALL)[0]
        if found:
            parts.append("")
            rest = rest[found.end() :]
            continue
        depth += token in opening or token.startswith(r"\begin{")
        depth -= token in closing or token.startswith(r"\end{")
        parts[-1] += token
        rest = rest[len(token) :]
    return parts


def statements(formula):
    r"""What a displayed formula states, each as TeX; `BREAK` stands where it goes on in another line.

    A line that begins with a relation, or with a sign and holds none, belongs to the one before. Statements
    of one line stand apart by ``\qquad``, or by a comma and ``\quad``; a condition stays with its statement.
    """
    formula = re.sub(
        r"^\\begin\{(aligned|gathered)\}(.*)\\end\{\1\}$", r"\2", formula.strip(), flags=re.DOTALL
    )
    lines = []
    for row in split(formula, r"\\\\(\[\w+\])?", "{"):
        cells = [" ".join(cell.split()) for cell in split(row, "&", "{")]
        line = " ".join(rf"\;{c}\;" if re.fullmatch(r"\\text\{[^{}]*\}", c) else c for c in cells if c)
        line = re.sub(r"^(\s|\\q?quad\b|\\;|\{\})*", "", line)
        goes_on = re.match(RELATION, line) or (line[:1] in "+-" and not any(split(line, RELATION)[1:]))
        goes_on = goes_on or re.match(rf"{CONDITION}|\\big", line)
        if lines and goes_on:
            lines[-1] += BREAK + ("{}" if line[0] in "+-" else "") + line
        else:
            lines.append(line)
    stated = []
    for line in lines:
        for part in split(line, r",?\s*\\qquad|,\s*\\quad"):
            part = part.strip(" ,")
            if stated and (re.match(CONDITION, part) or not re.search(RELATION, part)):
                stated[-1] += r"\;\;" + part
            else:
                stated.append(part)
    return [
        _without(r"^\\text\{(that is|with|so that|and)\s*\}(\\;|\\quad|\s)*|(\\;)+$|\.(?=\}$)", s)
        for s in stated
    ]


def _without(pattern, statement):
    return re.sub(pattern, "", statement.strip(" .,")).strip(" .,")


def ends(statement):
    """The first and the last side of an equation of several: a = b = c becomes a = c."""
    first, *others = split(statement.replace(BREAK, " "), "=")
    return f"{first.strip()} = {others[-1].strip()}" if others else first


def is_gradient(statement):
    """Whether a gradient stands on the left side: dx, or a derivative."""
    left = split(statement, RELATION)[0]
    return bool(re.match(r"(\\text\{\w+\}(\\;)*\s*)?(\\mathrm\{d\}|\\frac\{\\partial)", left))


# The file ---------------------------------------------------------------------------------------------------


def read(root=ROOT):
    """The sides of the sheet."""
    return yaml.safe_load((root / "book/cheat_sheet.yml").read_text(encoding="utf-8"))


def of_book(root=ROOT):
    """What the sheet can show: {number of a chapter: (path, {label: equation}, {row of its card: text})}."""
    return {
        int(path.name[:2]): (path, {e.label: e for e in equations(notebook)}, card(notebook))
        for path, notebook in chapters(root / "notebooks")
    }


def card(notebook):
    """The rows of the table below "The card": {first cell in small letters: (first cell, second cell)}."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and "## The card\n" in cell.source:
            table = cell.source.split("## The card\n")[1].split("\n## ")[0]
            rows = re.findall(r"^\| *([^|]+?) *\| *((?:\\\||[^|])+?) *\|", table, re.MULTILINE)
            return {first.lower(): (first, second) for first, second in rows}
    return {}


def chosen(item, found):
    """What an item such as "eq-linear-dw 2 ends" names: (label, [TeX of each statement], kind of evidence).

    found: the equations of the chapter. Raises ValueError if there is no such equation or statement.
    """
    match = re.fullmatch(r"(eq-[a-z0-9-]+)(?: (\d+))?( ends)?", item)
    if not match or match[1] not in found:
        raise ValueError(f"{item!r}: the chapter has no equation of this label")
    label, number, shorten = match.groups()
    stated, kind = statements(found[label].formula), found[label].kind
    if number:
        if not 1 <= int(number) <= len(stated):
            raise ValueError(f"{item!r}: expected a statement from 1 to {len(stated)}")
        stated = [stated[int(number) - 1]]
    return label, [ends(s) if shorten else s for s in stated], kind


def problems(sides, book):
    """What is wrong with the sheet, given what `of_book` read: sentences, [] if nothing is."""
    wrong = []
    cards = [card for side in sides for card in side["cards"]]
    if (numbers := [card["chapter"] for card in cards]) != sorted(book):
        wrong.append(f"expected a card for each of the chapters {sorted(book)}, in order, got {numbers}")
    for about in cards:
        _, found, rows = book.get(about["chapter"], (None, {}, {}))
        for place in SIGNS:
            for item in about.get(place, ()):
                try:
                    label, stated, kind = chosen(item, found)
                except ValueError as error:
                    wrong.append(f"chapter {about['chapter']}, {error}")
                    continue
                if kind is None:
                    wrong.append(f"{item!r}: nothing checks it")
                if kind in ("definition", "named") and any(GRADIENT in split(s, RELATION)[0] for s in stated):
                    wrong.append(f"{item!r}: says what a gradient is, and is only a definition")
                if place == "backward" and not any(map(is_gradient, stated)):
                    wrong.append(f"{item!r}: expected a gradient on a left side, got {stated}")
        wrong += [
            f"chapter {about['chapter']}: its card has no row {row!r}"
            for row in about.get("says", [BITES])
            if row.lower() not in rows
        ]
    return wrong


# The page ---------------------------------------------------------------------------------------------------


def line_of(item, found):
    """An item as MyST: its statements, then the mark of its evidence and its number, which is a link."""
    label, stated, kind = chosen(item, found)
    *first, last = (f"[${line}$]{{.statement}}" for s in stated for line in s.split(BREAK))
    return " ".join([*first, f"[{last}[{MARKS[kind]} {{eq}}`{label}`]{{.evidence}}]{{.marked}}"])


def card_of(about, chapter):
    """One card as MyST: what it says forward, backward and beside."""
    path, found, rows = chapter
    lines = [
        '<div class="sheet-card">',
        "",
        f"{{doc}}`{about['chapter']} {about['title']} </notebooks/{path.stem}>`",
        "",
    ]
    for place, sign in SIGNS.items():
        if place in about:
            lines.append(f"- [{sign}]{{.sign}} " + " ".join(line_of(item, found) for item in about[place]))
    for row in about.get("says", [BITES]):
        name, words = rows[row.lower()]
        bites = row == BITES
        name = "" if bites else f"*{name.rpartition(':')[2].strip()}:* "
        lines.append(f"- [{'✓' if bites else '•'}]{{.sign}} {name}{words}")
    return "\n".join([*lines, "", "</div>"])


def page(book):
    """The sides of the sheet as MyST. Raises ValueError that says what is wrong in the file."""
    sides = read()
    if wrong := problems(sides, book):
        raise ValueError("cheat_sheet.yml: " + "; ".join(wrong))
    found = []
    for side in sides:
        cards = (card_of(about, book[about["chapter"]]) for about in side["cards"])
        found += [f"## {side['side']}", '<div class="cheat-sheet">', *cards, "</div>"]
    return "\n\n".join(found) + "\n"
