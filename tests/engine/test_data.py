"""Number words: exact text back from tokens, disjoint seeded numbers, batches with the shift by one."""

import numpy as np
import pytest

from handgrad import data


@pytest.fixture(scope="module")
def pairs():
    return data.number_pairs(np.random.default_rng(16), train=600, held_out=50)


def test_words_are_those_of_num2words():
    assert data.words(99, "fr") == "quatre-vingt-dix-neuf"
    assert data.words(81_200, "en") == "eighty-one thousand, two hundred"
    assert data.words(np.int64(200_080), "fr") == "deux cent mille quatre-vingts"


@pytest.mark.parametrize("language", ["en", "fr"])
def test_splitting_and_joining_is_exact(language, rng):
    for number in [*range(1000), *data.sample_numbers(rng, 300)]:
        text = data.words(number, language)
        assert data.join_words(data.split_words(text)) == text


def test_tokens_keep_their_hyphen():
    assert data.split_words("quatre-vingt-un mille") == ["quatre", "-vingt", "-un", "mille"]
    assert data.split_words("one thousand, one hundred") == ["one", "thousand", ",", "one", "hundred"]


def test_numbers_are_different_and_spread_over_the_lengths(rng):
    numbers = data.sample_numbers(rng, 9100)
    assert len(set(numbers.tolist())) == 9100 and numbers.min() == 0 and numbers.max() <= data.LARGEST
    lengths = np.bincount([len(str(n)) for n in numbers])
    assert lengths[1:].tolist() == [10, 90, 900, 2700, 2700, 2700]
    assert len(set(data.sample_numbers(rng, 5).tolist())) == 5
    assert not np.array_equal(np.sort(numbers), numbers)


def test_all_numbers_can_be_drawn(rng):
    assert np.array_equal(np.sort(data.sample_numbers(rng, 10**6)), np.arange(10**6))


@pytest.mark.parametrize("seed", range(8))
def test_training_and_held_out_numbers_are_disjoint(seed):
    train, held_out = data.split_numbers(np.random.default_rng(seed), 100, 900)
    assert (len(train), len(held_out)) == (100, 900)
    assert not set(train.tolist()) & set(held_out.tolist())
    assert 0 in train
    again = data.split_numbers(np.random.default_rng(seed), 100, 900)
    assert np.array_equal(train, again[0]) and np.array_equal(held_out, again[1])


def test_vocabulary_goes_both_ways(pairs):
    train, held_out = pairs
    vocabulary = train.vocabulary
    assert vocabulary.tokens[:3] == (data.PAD, data.BOS, data.EOS)
    assert (vocabulary.pad, vocabulary.bos, vocabulary.eos) == (0, 1, 2)
    assert len(set(vocabulary.tokens)) == len(vocabulary) and held_out.vocabulary is vocabulary
    assert vocabulary.decode(vocabulary.encode("ninety-nine")) == "ninety-nine"
    assert vocabulary.decode([1, *vocabulary.encode("cent un"), 0, 0]) == "cent un"
    assert vocabulary.decode([*vocabulary.encode("cent"), *vocabulary.encode("un")]) == "cent"


def test_held_out_pairs_are_translations_never_seen(pairs):
    train, held_out = pairs
    seen = {train.vocabulary.decode(row) for row in train.source}
    for number, source, target in zip(held_out.numbers, held_out.source, held_out.target, strict=True):
        assert held_out.vocabulary.decode(source) == data.words(number, "en")
        assert held_out.vocabulary.decode(target) == data.words(number, "fr")
        assert data.words(number, "en") not in seen


def test_batches_shift_the_target_by_one(pairs):
    train, _ = pairs
    batch = train.batch(np.array([3, 141, 59, 3]))
    T = batch["target_out"].shape[1]
    assert batch["target_in"].shape == (4, T) and batch["source"].shape[0] == 4
    assert (batch["target_in"][:, 0] == 1).all()
    for into, out, source in zip(batch["target_in"], batch["target_out"], batch["source"], strict=True):
        length = out.tolist().index(2) + 1
        assert into[1:length].tolist() == out[: length - 1].tolist()
        assert not into[length:].any() and not out[length:].any()
        assert 2 in source
    assert np.array_equal(batch["source"][0], batch["source"][3])
    assert (batch["target_out"][:, -1] != 0).any() and (batch["source"][:, -1] != 0).any()


def test_padding_of_a_narrow_type_cuts_no_token():
    assert data.pad_rows(np.array([[300, 70_000]]), np.int8(0)).tolist() == [[300, 70_000]]
    assert data.pad_rows([[], [4]], -100).tolist() == [[-100], [4]]


def test_draws_are_seeded(pairs):
    train, _ = pairs
    one, other, another = (train.draw(np.random.default_rng(seed), 7) for seed in (1, 1, 2))
    assert np.array_equal(one["source"], other["source"]) and len(one["source"]) == 7
    assert not np.array_equal(one["source"], another["source"])


RNG = np.random.default_rng(0)
BAD = [  # what is called with a value, values that do not fit, and what is named
    (lambda p, n: data.words(n, "fr"), [10**6, -1, 1.5, True], "number: expected"),
    (lambda p, language: data.words(1, language), ["de"], "language.*de"),
    (lambda p, text: data.split_words(text), ["one  two", "one; two"], "text"),
    (lambda p, count: data.sample_numbers(RNG, count), [0, 10**6 + 1, 2.5, True], "count: expected"),
    (lambda p, held_out: data.split_numbers(RNG, 5, held_out), [0, np.nan], "held_out: expected"),
    (lambda p, train: data.split_numbers(RNG, train, 5), [5.5], r"train: expected.*5\.5"),
    (lambda p, train: data.split_numbers(RNG, train, 500_001), [500_000], "count"),
    (lambda p, text: p.vocabulary.encode(text), ["one million"], ".*million"),
    (lambda p, row: p.vocabulary.decode(row), [[10**6], [-1]], "row: expected"),
    (lambda p, row: p.vocabulary.decode(row), [[3.7], [True], ["3"]], "row: expected integers, got"),
    (lambda p, row: p.vocabulary.decode(row), [3], r"row: expected one axis, got shape \(\)"),
    (lambda p, rows: data.Pairs.of(rows, p.vocabulary), [[]], "rows"),
    (lambda p, size: p.draw(RNG, size), [0, 2.0], "size: expected"),
    (lambda p, rows: p.batch(rows), [np.arange(600) < 2, [True]], "rows: expected integers, got bool"),
    (lambda p, rows: p.batch(rows), [np.array([0.0]), slice(3)], "rows: expected integers, got (fl|ob)"),
    (lambda p, rows: p.batch(rows), [3, np.array([[0, 1]])], "rows: expected one axis, got shape"),
    (lambda p, rows: p.batch(rows), [[0, 600], [-1]], "rows.*0 … 599.*(600|-1)"),
    (lambda p, rows: p.batch(rows), [[]], "rows: expected at least one, got none"),
    (lambda p, texts: data.Vocabulary.of(texts), ["two"], "texts.*'two'"),
    (lambda p, tokens: data.Vocabulary(tokens), [("a", "b", "c")], "tokens.*<pad>.*'a'"),
    (lambda p, more: data.Vocabulary((*p.vocabulary.tokens, more)), [5, ""], "tokens.*(5|'')"),
    (lambda p, twice: data.Vocabulary((*p.vocabulary.tokens[:4], twice, twice)), ["un"], "tokens.*'un'"),
    (lambda p, rows: data.pad_rows(rows, 0), [[3]], r"rows\[0\]: expected one axis"),
    (lambda p, rows: data.pad_rows(rows, 0), [[]], "rows"),
    (lambda p, rows: data.pad_rows(rows, 0), [[[3], [1.7]], [[3], [True]]], r"rows\[1\].*(float64|bool)"),
    (lambda p, pad: data.pad_rows([[3]], pad), [0.5], "pad.*float64"),
]


@pytest.mark.parametrize(("call", "values", "message"), BAD)
def test_bad_input_is_refused_by_name(call, values, message, pairs):
    for value in values:
        with pytest.raises((TypeError, ValueError), match=f"^{message}"):
            call(pairs[0], value)
