"""The book says one thing once: chapters and plan agree, and what breaks this is noticed."""

import re
from pathlib import Path

import nbformat
import pytest

from handgrad.course import consistency, evidence, plan
from handgrad.course.evidence import prose

ROOT = Path(__file__).parents[2]
CHAPTERS = {int(path.stem[:2]): notebook for path, notebook in evidence.chapters(ROOT / "notebooks")}
NEEDS = {chapter.number: chapter.needs for chapter in plan.chapters(ROOT)}
FOLDERS = "notebooks/[0-9]*.ipynb", "notebooks/solutions/*.ipynb", "notebooks/quizzes/*.json", "book/*.md"
PAGES = sorted(path for pattern in FOLDERS for path in ROOT.glob(pattern))
HOMES = consistency.homes(ROOT / "notebooks")


def words_of(path):
    """The Markdown of a notebook, or the text of another file."""
    if path.suffix == ".ipynb":
        return prose(nbformat.read(path, as_version=4))
    return path.read_text(encoding="utf-8")


# What a chapter needs ---------------------------------------------------------------------------------------


def test_the_openings_and_the_plan_say_the_same():
    openings = {n: consistency.opening(prose(book), HOMES) for n, book in CHAPTERS.items()}
    assert consistency.wrong_needs(NEEDS, openings) == []
    assert HOMES["eq-softmax"] == HOMES["softmax-cross-entropy-shift"] == 2
    assert openings[8]["You need"] == [1, 2, 3] and openings[8]["In part"] == [5]


OPENING = """# Title

:::{admonition} What you will be able to do
1. **Read** {doc}`chapter 7 <07_positions>`.

**You need:** {doc}`1 <01_chain_rule>`, {ref}`projection <here>`, and the {doc}`notation </book/notation>`.
**In part:** {doc}`/notebooks/02_softmax_cross_entropy`.
**Time:** 3 minutes.
:::
"""


def test_an_opening_is_read():
    assert consistency.opening(OPENING, {"here": 5}) == {"You need": [1, 5], "In part": [2], "Time": []}
    assert consistency.opening("# Title\n\n**You need:** nothing.", {}) == {}


def test_a_link_that_leads_nowhere_is_refused():
    with pytest.raises(ValueError, match="expected a label of a chapter, got {ref}`here`"):
        consistency.opening(OPENING, {"there": 5})


GOOD = {
    1: {"You need": [], "Time": []},
    2: {"You need": [1], "Time": []},
    3: {"You need": [1, 2], "Time": []},
}


@pytest.mark.parametrize(
    "needs, opening, complaint",
    [
        ([1], GOOD[3], "says that it needs 2, the plan does not"),
        ([2], GOOD[2], "chapter 3 needs 2, and its opening does not say so"),
        ([2, 3], GOOD[3], "chapter 3 needs 3, which is not earlier"),
        ([2], {"You need": [2]}, "has no 'Time'"),
        ([], {"Time": []}, "has no 'You need'"),
        ([2], GOOD[3] | {"In part": [1]}, "wants a part of 1, which it needs as a whole"),
        ([1], GOOD[2] | {"In part": [3]}, "wants a part of 3, which is not earlier"),
    ],
)
def test_a_plan_and_an_opening_that_disagree_are_noticed(needs, opening, complaint):
    assert consistency.wrong_needs({1: [], 2: [1], 3: [2]}, GOOD) == []  # what follows may be named
    wrong = consistency.wrong_needs({1: [], 2: [1], 3: needs}, GOOD | {3: opening})
    assert any(complaint in sentence for sentence in wrong)


# What a chapter promises ------------------------------------------------------------------------------------


def test_who_is_sent_on_to_a_later_chapter_is_met_there():
    """All but the last, whose tables collect errors from everywhere, and are made by its code."""
    texts = {number: prose(notebook) for number, notebook in CHAPTERS.items() if number < 20}
    assert consistency.unanswered(texts, HOMES) == []
    assert 8 in consistency.linked(texts[2], HOMES) and 2 in consistency.linked(texts[8], HOMES)


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_no_chapter_is_promised_without_its_name(path):
    assert consistency.VAGUE.findall(words_of(path)) == []


def test_a_link_ahead_that_nobody_answers_is_noticed():
    texts = {1: "See {doc}`chapter 3 <03_x>` and {ref}`this <two>`.", 2: "None.", 3: "As {ref}`there <one>`."}
    homes = {"one": 1, "two": 2}
    assert consistency.unanswered(texts, homes) == [(1, 2)]
    assert consistency.unanswered(texts | {2: "See {eq}`one`."}, homes) == []
    assert consistency.unanswered({1: texts[1], 3: "None."}, homes) == [(1, 3)]
    assert consistency.unanswered({1: texts[1], 3: OPENING}, homes | {"here": 1}) == []
    assert consistency.unanswered({1: OPENING.replace("01_", "03_"), 3: "None."}, {"here": 1}) == []


@pytest.mark.parametrize(
    "text, found",
    [
        ("Dropout is the subject of a later chapter.", ["of a later chapter"]),
        ("Later chapters use it, and ✎ this", ["Later chapters", "✎"]),
        (
            "That is derived in the next chapter, which is not yet written.",
            ["in the next chapter", "not yet written"],
        ),
        ("Chapter 8 derives it, from later tokens.", []),
    ],
)
def test_a_vague_promise_is_noticed(text, found):
    assert consistency.VAGUE.findall(text) == found


# The glossary and the works ---------------------------------------------------------------------------------


def test_the_glossary_is_in_order_and_every_term_is_used():
    terms = consistency.glossary((ROOT / "book" / "glossary.md").read_text(encoding="utf-8"))
    assert len(terms) > 100
    assert consistency.wrong_glossary(terms, "\n\n".join(map(prose, CHAPTERS.values()))) == []


def test_the_works_are_complete_and_each_is_cited():
    text = "\n\n".join(map(words_of, PAGES))
    bibliography = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    assert consistency.wrong_works(bibliography, text) == []


GLOSSARY = """# Glossary

:::{glossary}
adjoint
: What.

Jacobian
: A matrix.

post-norm, pre-norm
: Where
  it stands.
:::
Word
"""


def test_a_glossary_is_read_and_what_is_wrong_with_it_is_noticed():
    terms = consistency.glossary(GLOSSARY)
    assert terms == ["adjoint", "Jacobian", "post-norm, pre-norm"]
    text = "Adjoints are {term}`tables <Jacobian>`. In pre-norm, and in Post norm."
    assert consistency.wrong_glossary(terms, text) == []
    for old, term in [("<Jacobian", "Jacobian"), ("pre-norm", "post-norm, pre-norm")]:
        assert consistency.wrong_glossary(terms, text.replace(old, "<other")) == [f"no chapter uses {term}"]
    assert consistency.wrong_glossary(terms[::-1], text) == [
        "post-norm, pre-norm stands before Jacobian",
        "Jacobian stands before adjoint",
    ]


WORK = """@article{one2001,
  author = {One, A.},
  title  = {On},
  journal = {Journal},
  volume = {1},
  year   = {2001}
}
"""


@pytest.mark.parametrize(
    "bibliography, text, complaint",
    [
        (WORK + WORK, "{cite}`one2001`", "one2001 stands there twice"),
        (WORK, "{cite}`two2002,one2001`", "two2002 is cited, and is no work"),
        (WORK, "As one2001 says.", "one2001 is cited nowhere"),
        (WORK.replace("journal", "booktitle"), "{cite:t}`one2001`", "one2001 has no journal"),
        (WORK.replace("@article", "@misc"), "{cite:t}`one2001`", "one2001 has no eprint or url"),
        (WORK.replace("  title  = {On},\n", ""), "{cite:t}`one2001`", "one2001 has no title"),
    ],
)
def test_a_work_that_is_incomplete_or_not_cited_is_noticed(bibliography, text, complaint):
    assert consistency.wrong_works(WORK, "{cite}`one2001`") == []
    assert complaint in consistency.wrong_works(bibliography, text)


# What is told twice -----------------------------------------------------------------------------------------

# What several pages say in one form, on purpose.
TEMPLATES = [
    r"This is the solved copy\..*?accepts\s+them\s+all",
    r"What\s+stands\s+behind\s+a\s+d.{1,80}in\s+its\s+shape(?:;\s+`\w+`\s+is\s+what\s+arrives\s+from\s+above)?",
    r"A last check needs no reference at all.*?predicts(?:\.\s+The\s+central\s+difference.*?digits\s+here)?",
    r"First,? a few questions that need no code",
    r"layers that this chapter has not shown",
    r"\*\*Signature:\*\*.*?\n\n",
    r"[Tt]he gradient of [^.]{1,40}\s+has\s+arrived\.\s+Send\s+it\s+on",
    r"says how it is known,? and leads to the cell that\s+checks it",
]


def texts_of_the_book():
    """{page: prose}: a chapter with its exercises and its quiz, without its opening, is one page."""
    found = {}
    for path in PAGES:
        text = words_of(path)
        if path.suffix == ".md":
            text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
        elif path.parent.name == "solutions":
            text = text[text.index("This is the solved copy") :]
        elif path.parent.name == "quizzes":
            text = "\n\n".join(re.findall(r'"(?:question|answer|feedback)": "(.*?)"[,}\n]', text))
        name = path.name[:2] if path.suffix != ".md" else path.name
        found[name] = found.get(name, "") + "\n\n" + consistency.OPENING.sub("", text)
    return found


def test_nothing_is_told_in_the_same_words_on_two_pages():
    texts = texts_of_the_book()
    assert len(texts) > 25 and all(len(text) > 1000 for name, text in texts.items() if name.isdigit())
    for template in TEMPLATES:
        holding = [name for name, text in texts.items() if re.search(template, text, flags=re.DOTALL)]
        assert len(holding) > 1, f"no two pages hold {template}"
    pattern = re.compile("|".join(TEMPLATES), flags=re.DOTALL)
    assert consistency.told_twice({name: pattern.sub("\n\n", text) for name, text in texts.items()}, 10) == []


def test_what_is_told_twice_is_found():
    texts = {
        "1": "# Title\n\nWe say: a falling loss, $L$, is\nno {term}`evidence <x>` at all.\n\n* A list.",
        "2": "And **a falling loss**, `L`, is no evidence at all for it. A falling loss is no evidence.",
        "3": "A falling loss\n\nis no evidence at all.",
    }
    assert consistency.told_twice(texts, 8) == [("a falling loss ~ is no evidence at all", {"1", "2"})]
    assert consistency.told_twice(texts, 9) == []
    found = consistency.told_twice(texts, 5)
    assert found[0][1] == {"1", "2"} and ("is no evidence at all", {"1", "2", "3"}) in found
    assert consistency.told_twice({"1": texts["2"], "2": "Nothing."}, 2) == []
    texts = {"1": "with $a$, $b$, `c` and $d$", "2": "with $e$, `f`, $g$ and $h$"}  # two words
    assert consistency.told_twice(texts, 2) == [("with ~ ~ ~ and ~", {"1", "2"})]
    assert consistency.told_twice(texts, 3) == []


# One name for a thing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [page for page in PAGES if page.suffix != ".json"], ids=lambda path: path.stem
)
def test_every_page_calls_a_thing_by_its_name(path):
    assert consistency.other_names(words_of(path)) == []


@pytest.mark.parametrize(
    "text, found",
    [
        ("A Feedforward layer.", ["Feedforward"]),
        ("The weights of attention, and an optimiser.", ["optimiser", "weights of attention"]),
        ("Pre-norm, an optimizer and a feed-forward layer are names.", []),
        ("See {term}`an elementwise step <activation>` and {doc}`page <encoder-decoder>`.", ["elementwise"]),
        ('`feedforward`, $center$, "a gray area" and (label-smoothing)', ["label-smoothing"]),
    ],
)
def test_another_name_is_noticed(text, found):
    assert [words for words, _ in consistency.other_names(text)] == found
