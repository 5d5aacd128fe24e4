"""The manual's text: a fixed vocabulary, exact text back from tokens, whole passages held out."""

import hashlib
import json

import pytest

from handgrad import manual


def test_the_vocabulary_is_the_line_break_and_printable_ascii():
    assert manual.V == len(set(manual.CHARACTERS)) == 96
    assert all(character == "\n" or character.isprintable() for character in manual.CHARACTERS)


def test_a_text_of_the_vocabulary_comes_back():
    assert manual.decode(manual.encode(manual.CHARACTERS)) == manual.CHARACTERS
    tokens = manual.encode(manual.CHARACTERS)
    assert tokens.tolist() == list(range(96)) and tokens.dtype == int
    assert manual.decode([]) == "" and len(manual.encode("")) == 0


def test_other_characters_become_plain_ones():
    assert manual.decode(manual.encode("“a” – b’s … ß")) == '"a" - b\'s ... ?'


def library(topics):
    """A file of Python's modules as brython writes it."""
    modules = {
        "this": [".py", "s = 1\n", []],
        "pydoc_data.topics": [".py", f"\n\ntopics={topics!r}\n", []],
        "z": [".py", "", []],
    }
    return (
        f"__BRYTHON__.use_VFS = true;\nvar scripts = {json.dumps(modules)}\n__BRYTHON__.update_VFS(scripts)\n"
    )


def test_the_text_is_the_same_on_every_python():
    whole = "\n\n".join(manual.passages())
    assert hashlib.sha256(whole.encode()).hexdigest().startswith("005f409921a886f8")
    assert whole.startswith('The "assert" statement\n')
    assert len(whole) == 453_985 + 2 * 78  # 79 topics, a blank line between two


def test_the_topics_are_read_and_not_run(monkeypatch):
    topics = {"b": 'He said "no".\n', "a": "Two\n\nparagraphs, 1 \\ 2 \u201c3\u201d"}
    monkeypatch.setattr(manual, "_SHA256", hashlib.sha256(manual._joined(topics).encode()).hexdigest())
    assert manual.read(library(topics)) == topics
    with pytest.raises(ValueError, match="malformed node"):
        manual.read(library(topics).replace("topics={", "topics=str() or {"))


@pytest.mark.parametrize("changed", ["", library({}), library({"a": "Another text."})])
def test_another_text_is_refused(changed):
    with pytest.raises(
        RuntimeError, match=r"^brython \d.* carries another text .* pip install brython==3\.11\.3$"
    ):
        manual.read(changed)


def test_the_passages_are_the_whole_manual():
    assert manual.passages() == manual.passages(least=2000)
    assert "\n\n".join(manual.passages()) == "\n\n".join(manual.passages(least=1))
    assert sum(len(passage) < 2000 for passage in manual.passages()) <= 79


def test_the_split_holds_out_whole_passages_and_loses_none():
    train, held_out = (manual.decode(part) for part in manual.split(every=7))
    passages = [manual.decode(manual.encode(passage)) for passage in manual.passages()]
    assert all(passage in (train if place % 7 else held_out) for place, passage in enumerate(passages, 1))
    assert len(train) + len(held_out) == sum(map(len, passages)) + 2 * (len(passages) - 2)


def test_a_paragraph_stands_once():
    once = manual.passages(least=1, once=True)
    words = [" ".join(paragraph.split()) for paragraph in once]
    assert len(set(words)) == len(words) < len(manual.passages(least=1))
    every = {" ".join(paragraph.split()) for paragraph in manual.passages(least=1)}
    assert set(words) == every  # nothing but repetitions is gone


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: manual.encode(3), TypeError, "text: expected a string, got int"),
        (lambda: manual.decode([96]), ValueError, "tokens: expected integers 0 … 95, got 96"),
        (lambda: manual.decode([0.5]), TypeError, "tokens: expected integers"),
        (lambda: manual.passages(0), ValueError, "least: expected"),
        (lambda: manual.split(1), ValueError, "every: expected"),
        (lambda: manual.split(2.5), TypeError, "every: expected"),
    ],
)
def test_bad_input_names_the_argument(call, error, words):
    with pytest.raises(error, match=words):
        call()
