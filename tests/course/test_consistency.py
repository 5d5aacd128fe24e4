"""The book says one thing once: chapters and plan agree, and what breaks this is noticed."""

from pathlib import Path

import nbformat
import pytest
import yaml

from handgrad.course import consistency, evidence

ROOT = Path(__file__).parents[2]
CHAPTERS = {int(path.stem[:2]): notebook for path, notebook in evidence.chapters(ROOT / "notebooks")}
PLAN = yaml.safe_load((ROOT / "book" / "chapters.yml").read_text(encoding="utf-8"))
NEEDS = {entry["number"]: entry["needs"] for part in PLAN for entry in part["chapters"]}
PAGES = sorted(
    path
    for pattern in (
        "notebooks/[0-9]*.ipynb",
        "notebooks/solutions/*.ipynb",
        "notebooks/quizzes/*.json",
        "book/*.md",
    )
    for path in ROOT.glob(pattern)
)
HOMES = consistency.homes(ROOT / "notebooks")


def words_of(path):
    """The Markdown of a notebook, or the text of another file."""
    if path.suffix == ".ipynb":
        return prose(nbformat.read(path, as_version=4))
    return path.read_text(encoding="utf-8")


# What a chapter needs ---------------------------------------------------------------------------------------


def test_the_openings_and_the_plan_say_the_same():
    openings = {n: consistency.opening(book.cells[0].source, HOMES) for n, book in CHAPTERS.items()}
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


def test_what_follows_from_the_plan_may_be_named():
    assert consistency.wrong_needs({1: [], 2: [1], 3: [2]}, GOOD) == []
    assert consistency.closure({1: [], 2: [1], 3: [2], 4: []}, 3) == {1, 2}


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
    wrong = consistency.wrong_needs({1: [], 2: [1], 3: needs}, GOOD | {3: opening})
    assert any(complaint in sentence for sentence in wrong)


# What a chapter promises ------------------------------------------------------------------------------------


def prose(notebook):
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def test_who_is_sent_on_to_a_later_chapter_is_met_there():
    """All but the last, whose tables collect errors from everywhere, and are made by its code."""
    texts = {number: prose(notebook) for number, notebook in CHAPTERS.items() if number < 20}
    assert consistency.unanswered(texts, HOMES) == []
    assert 8 in consistency.linked(texts[2], HOMES) and 2 in consistency.linked(texts[8], HOMES)


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_no_chapter_is_promised_without_its_name(path):
    assert consistency.vague(words_of(path)) == []


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
    assert consistency.vague(text) == found


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

```{glossary}
adjoint
  What.

Jacobian
  A matrix.

post-norm, pre-norm
  Where.
```
Word
"""


def test_a_glossary_is_read_and_what_is_wrong_with_it_is_noticed():
    terms = consistency.glossary(GLOSSARY)
    assert terms == ["adjoint", "Jacobian", "post-norm, pre-norm"]
    text = "Adjoints are {term}`tables <Jacobian>`. In pre-norm, and in Post norm."
    assert consistency.wrong_glossary(terms, text) == []
    assert consistency.wrong_glossary(terms, text.replace("<Jacobian>", "<jacobi>")) == [
        "no chapter uses Jacobian"
    ]
    assert consistency.wrong_glossary(terms, text.replace("pre-norm", "front")) == [
        "no chapter uses post-norm, pre-norm"
    ]
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
        (WORK.replace("@article", "@misc"), "{cite:t}`one2001`", "one2001 has no eprint"),
        (WORK.replace("  title  = {On},\n", ""), "{cite:t}`one2001`", "one2001 has no title"),
    ],
)
def test_a_work_that_is_incomplete_or_not_cited_is_noticed(bibliography, text, complaint):
    assert consistency.wrong_works(WORK, "{cite}`one2001`") == []
    assert complaint in consistency.wrong_works(bibliography, text)
