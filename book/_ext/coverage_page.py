"""What each topic of book/coverage.yml consists of, and links to each place.

The file is a list of ``{topic, items}``. An item is ``{item, what, from, where}``: its number in the list of
what the five texts teach, one line, the texts with their sections, ``A 12.3.1, 12.3.3; B 1.2``, and a
dictionary from each place to words that stand there. Instead of ``where`` it may have ``left_out``, a reason;
the items of the topic that is in none of the texts have no ``from``. A place is

* ``eq-softmax``, the label of an equation, or ``attention-scale``, that of a section or of a paragraph;
* ``exercise:08.1`` or ``question:08.1``, the first exercise or the first question of chapter 8;
* ``term:softmax``, an entry of the glossary, or ``page:book/notation``, a page.

`places` reads what stands at every place of the book; `problems` says what is wrong in the list.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import nbformat
import yaml

ROOT = Path(__file__).parents[2]
LABEL = re.compile(r"\(([a-z0-9-]+)\)=")
EQUATION = re.compile(r"\$\$ *\((eq-[a-z0-9-]+)\)")

# 161 are the themes of a quiz, a to n.
ITEMS = [str(n) for n in range(1, 163) if n != 161] + ["22b", "95b", "95c", "95d"]
ITEMS += [f"161{theme}" for theme in "abcdefghijklmn"]


NOWHERE = "In none of the five texts"
"""The topic whose items no text has."""

SECTIONS = {
    "A": r"objectives|12\.\d(\.\d)?",
    "B": r"1\.\d+",
    "C": r"introduction|(forward|backward)( \d)?|GPT-3|references",
    "D": r"introduction|\d(\.\d)?|references",
    "E": r"prerequisites|objectives|\d|key terms|(example|problem|pitfall) \d|quiz|summary",
}
"""How a text of book/notation.md names its sections, its steps and its problems."""


class Place(NamedTuple):
    """The page, a link to the place in MyST, and what stands there, each white space a blank."""

    page: str
    link: str
    text: str


# What stands at a place -------------------------------------------------------------------------------------


def plain(text):
    return " ".join(text.split())


def cells(file):
    """Pairs (whether it is Markdown, text) of a page; code has with it what it prints, if that is stored."""
    if file.suffix == ".md":
        return [(True, file.read_text(encoding="utf-8"))]
    return [
        (
            cell.cell_type == "markdown",
            "\n".join([cell.source, *(o.get("text", "") for o in cell.get("outputs", []))]),
        )
        for cell in nbformat.read(file, as_version=4).cells
    ]


def sections(file):
    """Yield (labels, title or None, text) of each heading, to the next as high, and labelled paragraph."""
    lines, starts, labels, fenced = [], [], [], False
    for markdown, source in cells(file):
        for line in source.splitlines():
            fenced ^= markdown and line.startswith("```")
            prose = markdown and not fenced
            heading = re.match(r"(#+) +(.+)", line) if prose else None
            if prose and (label := LABEL.fullmatch(line.strip())):
                labels.append(label[1])
                continue
            if heading or (labels and line.strip()):
                starts.append((len(lines), len(heading[1]) if heading else 7, labels, heading and heading[2]))
                labels = []
            lines.append(line)
    for k, (start, level, own, title) in enumerate(starts, 1):
        end = next((later for later, other, _, _ in starts[k:] if other <= level), len(lines))
        yield own, title, "\n".join(lines[start:end])


def equations(file):
    """Yield (label, text around it) of each labelled equation: its cell, or some lines of a page."""
    for markdown, source in cells(file):
        for match in EQUATION.finditer(source) if markdown else ():
            around = slice(max(0, match.start() - 800), match.end() + 400)
            yield match[1], source if file.suffix == ".ipynb" else source[around]


def shown(label, claims):
    """What a table of chapter 21 shows of the claims that belong to a label: to errata-e7 those of E7."""
    group = "R" if label == "errata-rest" else label.removeprefix("errata-").upper()
    return "".join(f" {claim['says']} {claim['right']}" for claim in claims if claim["group"] == group)


def places(root=ROOT):
    """A dictionary from each place of the book to what is there, a `Place`."""
    claims = yaml.safe_load((root / "src/handgrad/chapters/errata/claims.yml").read_text(encoding="utf-8"))
    found, asked = {}, {}
    for file in sorted([*(root / "book").glob("*.md"), *(root / "notebooks").glob("[0-9]*.ipynb")]):
        page = str(file.relative_to(root).with_suffix(""))
        for labels, title, text in sections(file):
            found.setdefault(f"page:{page}", Place(page, f"{{doc}}`/{page}`", plain(text)))
            for label in labels:
                erratum = f"{{ref}}`erratum {label.rpartition('-')[2].upper()} <{label}>`"
                link = f"{{ref}}`{label}`" if title else erratum
                more = shown(label, claims) if label.startswith("errata-") else ""
                found[label] = Place(page, link, plain(text + more))
                if label.endswith("-exercises"):
                    asked[file.name[:2]] = label
        for label, text in equations(file):
            found[label] = Place(page, f"equation {{eq}}`{label}`", plain(text))
    for file in sorted((root / "notebooks/exercises").glob("*.ipynb")):
        page, chapter = f"notebooks/exercises/{file.stem}", file.name[:2]
        for _, title, text in sections(file):
            if match := re.match(r"(\d+)\. ([^★]+)", title or ""):
                link = f"{{doc}}`exercise {match[1]}, {match[2].strip()} </{page}>`"
                found[f"exercise:{chapter}.{match[1]}"] = Place(page, link, plain(text))
    for file in sorted((root / "notebooks/quizzes").glob("*.json")):
        chapter = file.name[:2]
        for number, question in enumerate(json.loads(file.read_text(encoding="utf-8")), 1):
            words = [question["question"], *(answer["answer"] for answer in question["answers"])]
            link = f"{{ref}}`question {number} <{asked[chapter]}>`"
            found[f"question:{chapter}.{number}"] = Place(
                f"notebooks/{file.stem}", link, plain(" ".join(words))
            )
    glossary = (root / "book/glossary.md").read_text(encoding="utf-8").split(":::{glossary}")[1]
    for term, text in re.findall(r"^(.+)\n: (.+\n(?:  .+\n)*)", glossary, re.MULTILINE):
        found[f"term:{term}"] = Place("book/glossary", f"{{term}}`{term}`", plain(text))
    return found


# The list ---------------------------------------------------------------------------------------------------


def read(root=ROOT):
    """The list of topics."""
    return yaml.safe_load((root / "book/coverage.yml").read_text(encoding="utf-8"))


def sections_of(told):
    """The dictionary {text: [sections]} of a field ``from``. Raises ValueError if it is none."""
    found = {}
    for part in str(told).split("; "):
        text, _, named = part.partition(" ")
        if text not in SECTIONS or text in found:
            raise ValueError(f"expected each of {', '.join(SECTIONS)} at most once, got {part!r}")
        found[text] = named.split(", ")
        for section in found[text]:
            if not re.fullmatch(SECTIONS[text], section):
                raise ValueError(f"expected a section of text {text}, got {section!r}")
    return found


def problems(topics, found):
    """What is wrong in a list, given the places that there are: sentences, [] if nothing is."""
    items = [item for topic in topics for item in topic["items"]]
    in_none = [item["item"] for topic in topics if topic["topic"] == NOWHERE for item in topic["items"]]
    times = Counter(item["item"] for item in items)
    wrong = [f"item {name}: expected once, got {times[name]} times" for name in ITEMS if times[name] != 1]
    wrong += [f"item {name}: there is no such number" for name in times if name not in ITEMS]
    for item in items:
        name, where = f"item {item['item']}", item.get("where", {})
        if ("from" in item) == (item["item"] in in_none):
            wrong.append(f"{name}: expected the texts and their sections, except under {NOWHERE!r}")
        elif "from" in item:
            try:
                sections_of(item["from"])
            except ValueError as error:
                wrong.append(f"{name}: from: {error}")
        if bool(where) == bool(item.get("left_out")):
            wrong.append(f"{name}: expected either places or a reason to leave it out")
        for place, words in where.items():
            if place not in found:
                wrong.append(f"{name}: there is no place {place!r}")
            elif len(words) < 8:
                wrong.append(f"{name}: {words!r} is too short to tell one place from another")
            elif plain(words) not in found[place].text:
                wrong.append(f"{name}: {place} does not say {words!r}")
    return wrong


# The page ---------------------------------------------------------------------------------------------------


def chapter_of(place):
    """What stands before the links to a chapter; nothing before a page that says its name itself."""
    chapter = re.fullmatch(r"notebooks/(?:exercises/)?(\d\d)_\w+", place.page)
    return f"chapter\N{NO-BREAK SPACE}{int(chapter[1])}: " if chapter and place.link[:7] != "{doc}`/" else ""


def line_of(item, found):
    """An item as a row of a table, in MyST; its places in one chapter stand together."""
    start = f"| {item['what']} | {item.get('from', 'none')} |"
    if "left_out" in item:
        return f"{start} {item['left_out']} |"
    links = {}
    for place in map(found.get, item["where"]):
        links.setdefault(chapter_of(place), []).append(place.link)
    groups = [chapter + ", ".join(of_chapter) for chapter, of_chapter in links.items()]
    return f"{start} {'; '.join(groups)} |"


def page():
    """A table for each topic: what is taught, in which sections of the texts, and where here."""
    found, lines = places(), []
    for topic in read():
        lines += [
            f"## {topic['topic']}",
            "",
            "| what is taught | in the texts | in this book |",
            "|:--|:--|:--|",
        ]
        lines += [*(line_of(item, found) for item in topic["items"]), ""]
    return "\n".join(lines)
