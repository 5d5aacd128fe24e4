"""Number words: exact text back from tokens, disjoint seeded numbers, batches with the shift by one."""

import numpy as np
import pytest

from handgrad import data


@pytest.fixture
def rng():
    return np.random.default_rng(16)


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
    assert vocabulary.tokens[:3] == (data.PAD, data.BOS, data.EOS) and (vocabulary.pad, vocabulary.bos) == (
        0,
        1,
    )
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


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda rng, p: data.words(10**6, "fr"), ValueError, "number.*1000000"),
        (lambda rng, p: data.words(-1, "fr"), ValueError, "number.*-1"),
        (lambda rng, p: data.words(1.5, "fr"), TypeError, "number.*1.5"),
        (lambda rng, p: data.words(True, "fr"), TypeError, "number"),
        (lambda rng, p: data.words(1, "de"), ValueError, "language.*de"),
        (lambda rng, p: data.split_words("one  two"), ValueError, "text"),
        (lambda rng, p: data.split_words("one; two"), ValueError, "text"),
        (lambda rng, p: data.sample_numbers(rng, 0), ValueError, "count"),
        (lambda rng, p: data.sample_numbers(rng, 10**6 + 1), ValueError, "count"),
        (lambda rng, p: data.split_numbers(rng, 5, 0), ValueError, "held_out"),
        (lambda rng, p: p.vocabulary.encode("one million"), ValueError, "million"),
        (lambda rng, p: p.vocabulary.decode([10**6]), ValueError, "row"),
        (lambda rng, p: data.Pairs.of([], p.vocabulary), ValueError, "rows"),
        (lambda rng, p: p.draw(rng, 0), ValueError, "size"),
        (lambda rng, p: p.draw(rng, 2.0), TypeError, r"size.*2\.0"),
        (lambda rng, p: p.batch(np.arange(len(p)) < 2), TypeError, "rows: expected integers, got bool"),
        (lambda rng, p: p.batch([True, False]), TypeError, "rows: expected integers, got bool"),
        (lambda rng, p: p.batch(np.array([0.0, 1.0])), TypeError, "rows.*float64"),
        (lambda rng, p: p.batch(np.array([[0, 1]])), ValueError, r"rows.*\(1, 2\)"),
        (lambda rng, p: p.batch([0, 600]), ValueError, r"rows.*0 … 599.*600"),
        (lambda rng, p: p.batch([-1]), ValueError, "rows.*-1"),
        (lambda rng, p: data.sample_numbers(rng, 2.5), TypeError, r"count.*2\.5"),
        (lambda rng, p: data.sample_numbers(rng, True), TypeError, "count.*True"),
        (lambda rng, p: data.split_numbers(rng, 5.5, 5), TypeError, r"train.*5\.5"),
        (lambda rng, p: data.split_numbers(rng, 5, np.nan), TypeError, "held_out.*nan"),
        (lambda rng, p: data.split_numbers(rng, 500_000, 500_001), ValueError, "count"),
        (lambda rng, p: p.vocabulary.decode([3.7]), TypeError, "row: expected integers, got float64"),
        (lambda rng, p: p.vocabulary.decode([True]), TypeError, "row.*bool"),
        (lambda rng, p: p.vocabulary.decode(["3"]), TypeError, "row.*<U1"),
        (lambda rng, p: p.vocabulary.decode([-1]), ValueError, "row.*-1"),
        (lambda rng, p: data.Vocabulary.of("two"), TypeError, "texts.*'two'"),
        (lambda rng, p: data.Vocabulary(("a", "b", "c")), ValueError, "tokens.*<pad>.*'a'"),
        (lambda rng, p: data.Vocabulary((*p.vocabulary.tokens[:4], "un", "un")), ValueError, "tokens.*'un'"),
        (lambda rng, p: data.Vocabulary((*p.vocabulary.tokens, 5)), ValueError, "tokens.*5"),
        (lambda rng, p: data.Vocabulary((*p.vocabulary.tokens, "")), ValueError, "tokens.*''"),
        (lambda rng, p: p.vocabulary.decode(3), ValueError, r"row: expected one axis, got shape \(\)"),
        (lambda rng, p: p.batch(3), ValueError, r"rows: expected one axis, got shape \(\)"),
        (lambda rng, p: p.batch(slice(3)), TypeError, "rows: expected integers, got object"),
        (lambda rng, p: p.batch([]), ValueError, "rows: expected at least one, got none"),
        (lambda rng, p: data.pad_rows([3], 0), ValueError, r"rows\[0\]: expected one axis"),
        (lambda rng, p: data.pad_rows([], 0), ValueError, "rows"),
        (lambda rng, p: data.pad_rows([[3], [1.7]], 0), TypeError, r"rows\[1\].*float64"),
        (lambda rng, p: data.pad_rows([[3], [True]], 0), TypeError, r"rows\[1\].*bool"),
        (lambda rng, p: data.pad_rows([[3]], 0.5), TypeError, "pad.*float64"),
    ],
)
def test_bad_input_is_refused_by_name(call, error, message, rng, pairs):
    with pytest.raises(error, match=message):
        call(rng, pairs[0])
