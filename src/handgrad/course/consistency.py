r"""One book: what its chapters say of each other agrees with the plan, and nothing is told twice.

The opening of a chapter says what one needs. "**You need:**" links chapters that it builds on, "**In part:**"
earlier ones of which a part is enough; other labels, as "**Said here:**" and "**Instead**", bind to nothing.
`opening` reads the box, `wrong_needs` compares it with the plan.

Outside the opening, a chapter that sends its reader on to a later one is met there: `unanswered` lists the
links ahead that no link of the later chapter answers, `VAGUE` finds promises that name no chapter.

The glossary is in order and used, `wrong_glossary`; the works are complete and cited, `wrong_works`. What is
told in two chapters is found by its words, `told_twice`; and a thing has one name and one spelling,
`other_names`.
"""

import re
from collections import Counter, defaultdict
from itertools import combinations, pairwise
from os.path import commonprefix

from .evidence import chapters, prose

LABEL = re.compile(r"^\*\*([A-Z][a-z ]+):?\*\*:?", flags=re.MULTILINE)
PLACE = re.compile(r"^(?:\$\$ )?\(([\w-]+)\)=?$", flags=re.MULTILINE)
OPENING = re.compile(
    r"^:::\{admonition\} What you will[\s\S]*?^:::$(?:\n\n(?:\*\*[A-Z].*\n?)+)?", flags=re.MULTILINE
)
LINK = re.compile(r"\{(doc|ref|eq)\}`(?:[^`<]*<)?([^`<>]+)>?`")


# What a chapter needs ---------------------------------------------------------------------------------------


def homes(folder):
    """The number of the chapter in which each label stands, of a place or of an equation.

    folder: that of the chapter notebooks.
    """
    return {
        label: int(path.stem[:2])
        for path, notebook in chapters(folder)
        for label in PLACE.findall(prose(notebook))
    }


def opening(text, homes):
    """The chapters that each label of an opening links: {"You need": [1, 3], "In part": [2], "Time": []}.

    text: the chapter's Markdown, read to its first section; homes: from `homes`. Raises ValueError for a link
    that leads nowhere.
    """
    box = text.partition("\n## ")[0].partition(":::")[2]
    parts = LABEL.split(box)[1:]
    return {label: linked(words, homes) for label, words in zip(parts[::2], parts[1::2])}


def linked(text, homes):
    """The numbers of the chapters that a text links, in order, one for each link; none for other pages.

    Raises ValueError for a label that no chapter has.
    """
    numbers = []
    for role, target in LINK.findall(text):
        page = re.match(r"(?:/notebooks/)?(\d\d)_", target)
        if role != "doc" and target not in homes:
            raise ValueError(f"text: expected a label of a chapter, got {{{role}}}`{target}`")
        numbers += [homes[target]] if role != "doc" else [int(page[1])] if page else []
    return numbers


def closure(needs, number):
    """All chapters that one needs, and that these need: {2, 3, 1} for 8. needs: {number: numbers}."""
    return set(needs[number]).union(*(closure(needs, need) for need in needs[number] if need < number))


def wrong_needs(needs, openings):
    """What the plan and the openings say otherwise, as sentences; [] if they agree.

    needs: {number: numbers} of the plan; openings: {number: the `opening` of the chapter}.
    """
    wrong = []
    for number, planned in needs.items():
        box, implied, here = openings[number], closure(needs, number), f"the opening of chapter {number}"
        needed, part = set(box.get("You need", ())), set(box.get("In part", ()))
        unsaid, unplanned, late = set(planned) - needed, needed - implied, {n for n in part if n >= number}
        wrong += [f"chapter {number} needs {n}, which is not earlier" for n in planned if n >= number]
        wrong += [f"{here} has no {label!r}" for label in ("You need", "Time") if label not in box]
        wrong += [f"chapter {number} needs {n}, and its opening does not say so" for n in sorted(unsaid)]
        wrong += [f"{here} says that it needs {n}, the plan does not" for n in sorted(unplanned)]
        wrong += [f"{here} wants a part of {n}, which it needs as a whole" for n in sorted(part & implied)]
        wrong += [f"{here} wants a part of {n}, which is not earlier" for n in sorted(late - implied)]
    return wrong


# What a chapter promises ------------------------------------------------------------------------------------

VAGUE = re.compile(
    r"\b(?:in|of|to|by) (?:a|the|some) (?:later|coming|following|next) chapters?\b|\blater chapters?\b"
    r"|\bchapters? to come\b|\bnext chapter\b|\bnot yet (?:been )?(?:written|derived)\b|✎",
    flags=re.IGNORECASE,
)
"""Words that promise a chapter without naming it."""


def unanswered(texts, homes):
    """Pairs (chapter, later chapter): behind its opening the first links the second, which does not link it.

    texts: {number: the chapter's Markdown}; homes: from `homes`.
    """
    links = {number: set(linked(text, homes)) for number, text in texts.items()}
    ahead = {number: linked(OPENING.sub("", text, count=1), homes) for number, text in texts.items()}
    return [
        (number, later)
        for number in texts
        for later in sorted(set(ahead[number]))
        if later > number and later in texts and number not in links[later]
    ]


# The glossary and the works ---------------------------------------------------------------------------------

FIELDS = {
    "article": ({"journal"}, {"volume"}),
    "inproceedings": ({"booktitle"}, {"pages", "volume", "eprint"}),
    "incollection": ({"booktitle"}, {"publisher"}),
    "book": ({"publisher"},),
    "techreport": ({"institution"},),
    "misc": ({"eprint", "url"},),
}
"""What an entry of each kind has beside author, title and year: one of each set."""


def glossary(page):
    """The terms of a page's ``{glossary}``, in its order."""
    return re.findall(r"^(.+)\n: ", page.partition(":::{glossary}\n")[2], flags=re.MULTILINE)


def wrong_glossary(terms, text):
    """What is wrong with the terms of a glossary, as sentences: their order, or a term that no chapter uses.

    text: that of the chapters. It uses a term that ``{term}`` names, or that stands there, in any case, as a
    plural too; of terms with commas in them, such as "query, key, value", each part.
    """
    linked = {name.lower() for name in re.findall(r"\{term\}`(?:[^`<]*<)?([^`<>]+)>?`", text)}
    words = re.sub(r"\W+", " ", text.lower())
    wrong = [f"{a} stands before {b}" for a, b in pairwise(terms) if a.casefold() > b.casefold()]
    for term in terms:
        parts = [re.sub(r"\W+", " ", part.lower()).strip() for part in term.split(",")]
        said = all(re.search(rf"\b{part}s?\b", words) for part in parts)
        wrong += [] if term.lower() in linked or said else [f"no chapter uses {term}"]
    return wrong


def wrong_works(bibliography, text):
    """What is wrong with a BibTeX file, as sentences: works twice, incomplete, uncited, missing."""
    works = re.findall(r"^@(\w+)\{(\w+),(.+?)^\}", bibliography, flags=re.MULTILINE | re.DOTALL)
    keys = [key for _, key, _ in works]
    cited = {
        key.strip() for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", text) for key in keys.split(",")
    }
    wrong = [f"{key} stands there twice" for key, times in Counter(keys).items() if times > 1]
    wrong += [f"{key} is cited nowhere" for key in keys if key not in cited]
    wrong += [f"{key} is cited, and is no work" for key in sorted(cited - set(keys))]
    for kind, key, entry in works:
        fields = set(re.findall(r"^\s*(\w+)\s*=", entry, flags=re.MULTILINE))
        wanted = ({"author"}, {"title"}, {"year"}, *FIELDS[kind.lower()])
        wrong += [f"{key} has no {' or '.join(sorted(names))}" for names in wanted if not names & fields]
    return wrong


# What is told twice -----------------------------------------------------------------------------------------


def plain(text):
    """A Markdown text without blocks of code and formulas; those in a line are ~, and a role is its words."""
    text = re.sub(r"```.*?```|\$\$.*?\$\$", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"\{\w+(?::\w+)?\}`([^`<]*)(?:<[^`>]*>)?`", r"\1", text)
    return re.sub(r"\$[^$]*\$|`[^`]*`", " ~ ", text)


def passages(text):
    """The words of each paragraph, item and cell of a Markdown text; formulas and code are ~."""
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*>#|:]|\d+\.))|\|", plain(text))
    return [words for block in blocks if (words := re.findall(r"[\w’'~]+", block.lower()))]


def told_twice(texts, length):
    """The runs of at least `length` words that two texts share, as [(words, names)], the longest first.

    texts: {name: Markdown}. A run ends where its paragraph ends; formulas and code in it do not count.
    """
    places = defaultdict(list)
    for name, text in texts.items():
        for passage in passages(text):
            for start in range(len(passage) - length + 1):
                places[tuple(passage[start : start + length])].append((name, passage, start))
    found = defaultdict(set)
    for shared in places.values():
        for (name, passage, start), (other, beside, there) in combinations(shared, 2):
            if name != other and (not start or not there or passage[start - 1] != beside[there - 1]):
                run = commonprefix([passage[start:], beside[there:]])
                if len(run) - run.count("~") >= length:
                    found[" ".join(run)] |= {name, other}
    return sorted(found.items(), key=lambda pair: (-len(pair[0].split()), pair[0]))


# One name for a thing ---------------------------------------------------------------------------------------

NAMES = {
    r"optimis(?:er|ation)s?": "optimizer, optimization",
    r"normalisation": "normalization",
    r"(?:initial|recogn|factor|memor|minim|maxim|summar|organ|real|emphas)iz(?:e|ed|es|ing|ation)": "-ise",
    r"normaliz(?:e|ed|es|ing)": "normalise",
    r"colors?|colored": "colour",
    r"neighbors?|behaviors?|favor": "-our",
    r"center(?:s|ed)?|gray|modeling|labeled": "centre, grey, modelling, labelled",
    r"feed ?forward": "feed-forward",
    r"multi ?head": "multi-head",
    r"(?:self|cross) attention": "self-attention, cross-attention",
    r"cross entropy": "cross-entropy",
    r"soft-max": "softmax",
    r"one hot": "one-hot",
    r"layer norm": "LayerNorm, layer normalization",
    r"sublayers?": "sub-layer",
    r"(?:pre|post|output) ?norm": "pre-norm, post-norm, output-norm",
    r"encoder-decoder": "encoder–decoder",
    r"label-smoothing|teacher-forcing": "label smoothing, teacher forcing",
    r"weights of attention|attention probabilities": "attention weights",
    r"blind rows?|fully masked": "blind query",
    r"skip connections?": "residual connection",
    r"mini-?batch(?:es)?": "batch",
    r"step sizes?": "rate",
    r"nonzero": "not 0",
    r"elementwise|element-wise": "entry by entry",
    r"back-?propagated?": "backward",
}
"""What is called otherwise in this book: a pattern of words, and the name."""


def other_names(text):
    """The words in a Markdown text that have another name in this book: [(words, name)].

    Code, formulas, addresses, comments and what stands in quotation marks are not read.
    """
    unread = r"""(?s)<!--.*?-->|\]\([^)]*\)|^\([\w-]+\)=|\S+://\S+|["“][^"“”]*["”]"""
    text = re.sub(unread, " ", plain(text), flags=re.MULTILINE)
    return [
        (match[0], name)
        for pattern, name in NAMES.items()
        for match in re.finditer(rf"(?<![\w-])(?:{pattern})(?![\w-])", text, flags=re.IGNORECASE)
    ]
