"""Names of territories and languages: their spelling, their tokens, and an examination without leaks."""

import numpy as np
import pytest
from babel import Locale

from handgrad import names


@pytest.fixture(scope="module")
def parts():
    return names.split()


def test_the_tokens_are_special_ones_and_characters_each_once():
    assert names.V == len(names.SPECIAL) + len(set(names.CHARACTERS)) == 5 + len(names.CHARACTERS)
    assert all(getattr(names, special[1:-1]) == place for place, special in enumerate(names.SPECIAL))


@pytest.mark.parametrize(
    ("written", "spelled"),
    [("Malta", "malta"), ("Côte d’Ivoire", "côte d'ivoire"), ("c\u0327a", "ça"), ("A–B", "a-b")],
)
def test_spelling(written, spelled):
    assert names.spell(written) == spelled
    assert names.tokens_of(names.encode(written)) == ["[CLS]", *spelled, "[SEP]"]


def test_a_row_begins_ends_and_is_filled_up():
    two = names.Names.of(["tysk", "Malta!"], [0, 19])
    assert names.tokens_of(two.tokens[0]) == ["[CLS]", *"tysk", "[SEP]", "[PAD]", "[PAD]"]
    assert names.tokens_of(two.tokens[1]) == ["[CLS]", *"malta", "[UNK]", "[SEP]"]
    assert two.take([0]).tokens.shape == (1, 6) and two.take([0]).texts == ("tysk",)


def test_no_name_stands_on_two_sides_or_has_two_labels(parts):
    training, held_out, unlabelled = (set(part.texts) for part in parts)
    assert not training & held_out and not training & unlabelled and not held_out & unlabelled
    assert all(len(set(part.texts)) == len(part) for part in parts)


def test_no_thing_stands_on_two_sides(parts):
    training, held_out, unlabelled = (
        set().union(*(names.found()[text][1] for text in part.texts)) for part in parts
    )
    assert not training & held_out and not unlabelled & held_out


def test_labels_are_those_of_the_locales_themselves(parts):
    """Asked of babel again, one language at a time: each name is in its language and in no other."""
    own = {}
    for place, code in enumerate(names.LANGUAGES):
        locale = Locale(code)
        for name in {*locale.territories.values(), *locale.languages.values()}:
            own.setdefault(names.spell(name), set()).add(place)
    for part in parts[:2]:
        assert all(own[text] == {label} for text, label in zip(part.texts, part.labels, strict=True))
    assert all(len(own[text]) > 1 for text in parts[2].texts) and set(parts[2].labels) == {-1}


def test_every_fifth_thing_is_held_out_and_nothing_else_is_lost(parts):
    things = sorted(set().union(*(meant for _, meant in names.found().values())))
    examined = set(things[4::5])
    inside = {text for part in parts for text in part.texts}
    for text, (spoken, meant) in names.found().items():
        both = bool(meant & examined) and bool(meant - examined)
        shared_and_held_out = len(spoken) > 1 and meant <= examined
        assert (text in inside) != (both or shared_and_held_out or len(text) > names.LONGEST), text


def test_the_examination_is_large_enough_and_even_enough_for_the_book(parts):
    training, held_out, unlabelled = parts
    assert len(training) > 6000 and len(held_out) > 1500 and len(unlabelled) > 1000
    shares = np.bincount(held_out.labels) / len(held_out)
    assert len(shares) == 20 and shares.max() < 0.1
    assert np.mean(training.tokens[training.tokens > names.MASK] == names.UNK) < 1e-3


def test_few_takes_as_many_of_each(parts):
    few = names.few(parts[0], 7, np.random.default_rng(0))
    assert (np.bincount(few.labels) == 7).all() and len(set(few.texts)) == 140
    assert set(few.texts) <= set(parts[0].texts)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: names.spell(3), TypeError, "name: expected a string, got int"),
        (lambda: names.tokens_of([names.V]), ValueError, "row: expected integers"),
        (lambda: names.Names.of(["a"], [20]), ValueError, "labels: expected"),
        (lambda: names.Names.of(["a"], [1, 2]), ValueError, "labels: expected one for each of 1"),
        (lambda: names.Names.of(["a"], [1]).take([]), ValueError, "rows: expected at least one"),
        (lambda: names.Names.of(["a"], [1]).take([1]), ValueError, "rows: expected"),
        (lambda: names.split(1), ValueError, "every: expected"),
        (lambda: names.few(names.Names.of(["a"], [1]), 1, np.random.default_rng(0)), ValueError, "at most 0"),
    ],
)
def test_bad_input_names_the_argument(call, error, words):
    with pytest.raises(error, match=words):
        call()
