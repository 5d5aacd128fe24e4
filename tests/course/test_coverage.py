"""Everything that the five texts teach has its place: it is there, and says what the list says of it."""

import copy
import re
from collections import Counter
from pathlib import Path

import pytest

from book._ext import coverage_page as coverage
from handgrad.chapters.errata import claims

ROOT = Path(__file__).parents[2]
PLACES, TOPICS = coverage.places(), coverage.read()
ALL = [item for topic in TOPICS for item in topic["items"]]


def test_everything_has_its_place():
    assert coverage.problems(TOPICS, PLACES) == []


def test_the_items_are_those_of_the_list():
    numbers = Counter(re.match(r"\d+", item["item"])[0] for item in ALL)
    assert sorted(map(int, numbers)) == list(range(1, 163))
    assert {number: times for number, times in numbers.items() if times > 1} == {"22": 2, "95": 4, "161": 14}
    assert [item["item"] for item in ALL if "left_out" in item] == ["135"]
    assert [item["item"] for item in ALL if "from" not in item] == ["162"]


def test_each_theme_has_a_question():
    for item in ALL:
        if item["item"].startswith("161"):
            assert any(re.match("exercise:|question:", place) for place in item["where"]), item


def test_all_five_texts_occur():
    texts = Counter(text for item in ALL if "from" in item for text in coverage.sections_of(item["from"]))
    assert sorted(texts) == list("ABCDE") and min(texts.values()) > 20


def test_errata_stand_behind_what_holds_and_their_text_is_named():
    for item in ALL:
        wrong = [place.startswith("errata-") for place in item.get("where", {})]
        assert wrong == sorted(wrong), item
        for label in re.findall(r"errata-([ea]\d+)", " ".join(item.get("where", {}))):
            texts = {claim.text for claim in claims.of(label.upper())}
            named = coverage.sections_of(item["from"]) if "from" in item else texts
            assert not texts or texts & set(named), item


def changed(**changes):
    """The list with one item of its own changed: the first that names the place `attention-saturation`."""
    topics = copy.deepcopy(TOPICS)
    items = [item for topic in topics for item in topic["items"]]
    next(item for item in items if "attention-saturation" in item.get("where", {})).update(changes)
    return topics


SATURATES = "It hurts because softmax saturates"


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"where": {"attention-saturated": SATURATES}}, "item 33: there is no place 'attention-saturated'"),
        ({"where": {"attention-scale": "saturates above"}}, "item 33: attention-scale does not say"),
        ({"where": {"attention-memory": SATURATES}}, "item 33: attention-memory does not say"),
        ({"where": {"attention-saturation": "softmax"}}, "item 33: 'softmax' is too short"),
        ({"where": {}}, "item 33: expected either places or a reason"),
        ({"left_out": "It is hard."}, "item 33: expected either places or a reason"),
        ({"from": "F 1"}, "item 33: from: expected each of A, B, C, D, E at most once, got 'F 1'"),
        ({"from": "B 1.5; B 1.6"}, "item 33: from: expected each of A, B, C, D, E at most once"),
        ({"from": "B 12.5"}, "item 33: from: expected a section of text B, got '12.5'"),
        ({"from": "A 12.3.2,12.4"}, "item 33: from: expected a section of text A, got '12.3.2,12.4'"),
        ({"item": "32"}, "item 33: expected once, got 0 times"),
        ({"item": "163"}, "item 163: there is no such number"),
    ],
)
def test_a_faulty_list_is_refused(changes, complaint):
    assert any(found.startswith(complaint) for found in coverage.problems(changed(**changes), PLACES))


def test_an_item_without_its_texts_is_refused():
    topics = changed()
    items = [item for topic in topics for item in topic["items"]]
    del items[0]["from"]
    items[-1]["from"] = "A 12.1"
    words = "expected the texts and their sections, except under 'In none of the five texts'"
    assert coverage.problems(topics, PLACES) == [f"item 1: {words}", f"item 162: {words}"]


@pytest.mark.parametrize("topics, times", [(TOPICS[1:], 0), (TOPICS[:1] + TOPICS, 2)])
def test_a_missing_item_and_one_that_stands_twice_are_refused(topics, times):
    assert f"item 1: expected once, got {times} times" in coverage.problems(topics, PLACES)


def test_the_words_tell_one_place_from_another():
    """What is said of a place hardly ever stands at the next place of the list that is on another page."""
    pairs = [pair for item in ALL for pair in item.get("where", {}).items()]
    confused = [
        (place, words)
        for k, (place, words) in enumerate(pairs)
        for other in [next(o for o, _ in pairs[k + 1 :] + pairs if PLACES[o].page != PLACES[place].page)]
        if coverage.plain(words) in PLACES[other].text
    ]
    assert len(pairs) > 250 and len(confused) <= len(pairs) / 50, confused


# Reading a page ---------------------------------------------------------------------------------------------

PAGE = """# Squares

A page.

(squares-forward)=
## Forward

A square is a product.

$$
y = x x
$$ (eq-square)

(squares-small)=
**Small ones** come first.

### Numbers

Of 3 it is 9.

## Backward

```
# no heading
```

It is twice as much.
"""


def test_a_section_ends_where_the_next_begins(tmp_path):
    file = tmp_path / "squares.md"
    file.write_text(PAGE)
    found = {(*labels, title): coverage.plain(text) for labels, title, text in coverage.sections(file)}
    assert list(found) == [
        ("Squares",),
        ("squares-forward", "Forward"),
        ("squares-small", None),
        ("Numbers",),
        ("Backward",),
    ]
    forward, small = found["squares-forward", "Forward"], found["squares-small", None]
    assert forward.startswith("## Forward A square") and forward.endswith("Of 3 it is 9.")
    assert small == "**Small ones** come first."
    assert found["Backward",].endswith("``` # no heading ``` It is twice as much.")
    assert [label for label, _ in coverage.equations(file)] == ["eq-square"]


@pytest.mark.parametrize(
    "place, page, link, words",
    [
        ("eq-attention-ds", "notebooks/08_attention", "equation {eq}`eq-attention-ds`", "the average price"),
        ("attention-scale", "notebooks/08_attention", "{ref}`attention-scale`", "a theorem"),
        ("errata-e7", "notebooks/21_errata", "{ref}`erratum E7 <errata-e7>`", "Per token, over its features"),
        (
            "exercise:08.1",
            "notebooks/exercises/08_attention",
            "{doc}`exercise 1, Backward through softmax </notebooks/exercises/08_attention>`",
            "Contract its Jacobian",
        ),
        ("question:08.3", "notebooks/08_attention", "{ref}`question 3 <attention-exercises>`", "K = 64"),
        ("term:softmax", "book/glossary", "{term}`softmax`", "sum to 1"),
        ("page:book/notation", "book/notation", "{doc}`/book/notation`", "A token is a row"),
    ],
)
def test_every_kind_of_place_is_read(place, page, link, words):
    assert PLACES[place][:2] == (page, link) and words in PLACES[place].text


def test_places_of_one_chapter_stand_together():
    where = "attention-scale errata-a5 term:softmax eq-attention-variance page:notebooks/08_attention".split()
    item = {"what": "Scale", "from": "B 1.5; D 1", "where": where}
    assert coverage.line_of(item, PLACES).replace("\N{NO-BREAK SPACE}", "_") == (
        "| Scale | B 1.5; D 1 | chapter_8: {ref}`attention-scale`, equation {eq}`eq-attention-variance`; "
        "chapter_21: {ref}`erratum A5 <errata-a5>`; {term}`softmax`, {doc}`/notebooks/08_attention` |"
    )
    assert (
        coverage.line_of({"what": "A film", "left_out": "Elsewhere."}, {}) == "| A film | none | Elsewhere. |"
    )


def test_a_row_has_three_cells():
    assert all(coverage.line_of(item, PLACES).count("|") == 4 for item in ALL)
