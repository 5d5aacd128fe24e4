"""Searches, beside an enumeration of all sentences, and on models that they do not know."""

import itertools

import numpy as np
import pytest

from handgrad import data, decode, model
from handgrad.config import Config, init

PAD, BOS, EOS = 0, 1, 2
ENDS = {"bos": BOS, "eos": EOS, "pad": PAD}


@pytest.fixture
def rng():
    return np.random.default_rng(16)


def random_language(rng, V, B, sharpness=2.0):
    """Logits that depend on the whole beginning and on the row: a table filled on first use."""
    table = {}

    def next_logits(prefixes, rows):
        keys = [(int(row), *map(int, prefix)) for prefix, row in zip(prefixes, rows, strict=True)]
        return np.array([table.setdefault(key, sharpness * rng.normal(size=V)) for key in keys])

    return next_logits


def log_probability(next_logits, row, tokens):
    total, prefix = 0.0, [BOS]
    for token in tokens:
        z = next_logits(np.array([prefix]), np.array([row]))[0]
        total += z[token] - np.log(np.exp(z).sum())
        prefix.append(token)
    return total


def all_sentences(V, max_length):
    """Every sentence that ends in at most max_length tokens, and every beginning that is cut there."""
    others = [token for token in range(V) if token != EOS]
    for length in range(1, max_length + 1):
        for beginning in itertools.product(others, repeat=length - 1):
            yield (*beginning, EOS)
    yield from itertools.product(others, repeat=max_length)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_that_holds_everything_finds_the_best_sentence(alpha, rng):
    V, B, T = 4, 3, 4
    next_logits = random_language(rng, V, B)
    tokens, scores = decode.beam(next_logits, B, V**T, max_length=T, alpha=alpha, **ENDS)
    for row in range(B):
        rated = {
            sentence: log_probability(next_logits, row, sentence)
            / float(decode.length_penalty(len(sentence), alpha))
            for sentence in all_sentences(V, T)
        }
        best = max(rated, key=rated.get)
        assert tokens[row].tolist() == [*best, *[PAD] * (T - len(best))]
        assert scores[row] == pytest.approx(rated[best], rel=1e-12)


def test_the_enumeration_is_not_trivial(rng):
    """Greedy search misses the best sentence somewhere, and the penalty changes which one is best."""
    V, B, T = 4, 30, 4
    next_logits = random_language(rng, V, B)
    greedy = decode.greedy(next_logits, B, max_length=T, **ENDS)
    best, _ = decode.beam(next_logits, B, V**T, max_length=T, alpha=0.0, **ENDS)
    penalised, _ = decode.beam(next_logits, B, V**T, max_length=T, alpha=2.0, **ENDS)
    assert not np.array_equal(greedy, best) and not np.array_equal(best, penalised)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_beam_of_width_one_is_greedy(alpha, rng):
    next_logits = random_language(rng, V=7, B=20)
    greedy = decode.greedy(next_logits, 20, max_length=9, **ENDS)
    tokens, _ = decode.beam(next_logits, 20, 1, max_length=9, alpha=alpha, **ENDS)
    assert np.array_equal(greedy, tokens)
    assert (greedy == EOS).any() and len({tuple(row) for row in greedy.tolist()}) > 10


def test_the_score_is_that_of_the_sentence_and_wider_beams_win_on_average(rng):
    next_logits = random_language(rng, V=5, B=40)
    mean = []
    for width in (1, 3, 9):
        tokens, scores = decode.beam(next_logits, 40, width, max_length=6, alpha=0.6, **ENDS)
        for row in range(40):
            sentence = tokens[row].tolist()
            sentence = sentence[: sentence.index(EOS) + 1] if EOS in sentence else sentence
            expected = log_probability(next_logits, row, sentence) / decode.length_penalty(len(sentence), 0.6)
            assert scores[row] == pytest.approx(float(expected), rel=1e-12)
        mean.append(scores.mean())
    assert mean[0] < mean[1] < mean[2]


def test_the_penalty_is_that_of_wu():
    assert decode.length_penalty(1, 0.6) == 1.0  # (5 + 1) / 6
    assert decode.length_penalty(7, 0.5) == pytest.approx(2**0.5)
    assert (decode.length_penalty(np.arange(1, 9), 0.0) == 1).all()


def test_greedy_stops_at_eos_and_at_max_length():
    calls = []

    def count_up(prefixes, rows):
        """Row r ends after r words; row 3 never does."""
        calls.append(len(rows))
        t = prefixes.shape[1] - 1
        z = np.zeros((len(rows), 6))
        z[np.arange(len(rows)), np.where((rows == t) & (rows < 3), EOS, 5)] = 1
        return z

    tokens = decode.greedy(count_up, 4, max_length=5, **ENDS)
    assert tokens.tolist() == [[2, 0, 0, 0, 0], [5, 2, 0, 0, 0], [5, 5, 2, 0, 0], [5, 5, 5, 5, 5]]
    assert calls == [4, 3, 2, 1, 1]  # an ended sentence asks the model nothing
    assert decode.greedy(count_up, 1, max_length=5, **ENDS).shape == (1, 5)


def test_samples_have_the_probabilities_of_the_softmax(rng):
    z = np.array([[0.0, 1.0, -1.0, 2.0]])
    for temperature in (1.0, 0.5):
        draws = decode.sampler(rng, temperature)(np.repeat(z, 100_000, axis=0))
        p = np.exp(z[0] / temperature) / np.exp(z[0] / temperature).sum()
        # six standard errors of a frequency
        assert (abs(np.bincount(draws, minlength=4) / 1e5 - p) <= 6 * np.sqrt(p * (1 - p) / 1e5)).all()


CONFIG = Config(kind="encoder-decoder", V=11, D=8, H=2, F=12, N=2, scale_embedding=True, pad=PAD)

CONTINUING = Config(kind="decoder", V=11, D=8, H=2, F=12, N=2)


@pytest.fixture
def source(rng):
    source = rng.integers(3, 11, size=(5, 6))
    source[1, 4:] = source[3, 2:] = PAD
    return source


def test_the_translator_is_the_forward_pass(rng, source):
    params = init(CONFIG, rng)
    target = rng.integers(3, 11, size=(5, 4))
    logits, _ = model.forward(params, CONFIG, {"source": source, "target_in": target})
    next_logits = decode.translator(params, CONFIG, source)
    rows = np.array([4, 1, 1, 3])
    for t in range(1, 5):
        np.testing.assert_allclose(next_logits(target[rows, :t], rows), logits[rows, t - 1], atol=1e-12)


@pytest.mark.parametrize("width", [1, 3])
def test_other_sentences_of_the_batch_change_nothing(width, rng, source):
    params = init(CONFIG, rng)
    together, scores = decode.beam(decode.translator(params, CONFIG, source), 5, width, max_length=7, **ENDS)
    for row in range(5):
        alone = source[row : row + 1, source[row] != PAD]
        tokens, score = decode.beam(decode.translator(params, CONFIG, alone), 1, width, max_length=7, **ENDS)
        assert np.array_equal(tokens[0], together[row])
        assert score[0] == pytest.approx(scores[row], rel=1e-10)


def test_a_decoder_only_model_continues(rng):
    config = Config(kind="decoder", V=11, D=8, H=2, F=12, N=2)
    params = init(config, rng)
    tokens = decode.greedy(decode.continuer(params, config), 2, max_length=5, **ENDS)
    logits, _ = model.forward(
        params, config, {"tokens": np.concatenate([[[BOS]] * 2, tokens[:, :-1]], axis=1)}
    )
    ended = (np.cumsum(tokens == EOS, axis=1) - (tokens == EOS)) > 0
    assert np.where(ended, tokens, logits.argmax(-1)).tolist() == tokens.tolist()
    drawn = decode.greedy(
        decode.continuer(params, config), 2, max_length=5, choose=decode.sampler(rng), **ENDS
    )
    assert drawn.shape == (2, 5)


def test_translate_speaks_the_vocabulary(rng):
    vocabulary = data.Vocabulary.of(["two hundred", "deux cents"])
    config = Config(kind="encoder-decoder", V=len(vocabulary), D=8, H=2, F=12, N=1, pad=PAD)
    params = init(config, rng)
    for width in (1, 2):
        answers = decode.translate(params, config, vocabulary, ["two hundred", "two"], width, max_length=4)
        assert len(answers) == 2 and all(isinstance(answer, str) for answer in answers)
    with pytest.raises(ValueError, match="three"):
        decode.translate(params, config, vocabulary, ["three hundred"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, p, s: decode.greedy(f, 0, max_length=3, **ENDS), "B"),
        (lambda f, p, s: decode.greedy(f, 1, max_length=0, **ENDS), "max_length"),
        (lambda f, p, s: decode.beam(f, 1, 0, max_length=3, **ENDS), "width"),
        (lambda f, p, s: decode.beam(f, 1, 2, max_length=3, alpha=-1, **ENDS), "alpha"),
        (lambda f, p, s: decode.sampler(np.random.default_rng(0), 0.0), "temperature"),
        (lambda f, p, s: decode.continuer(p, CONFIG), "kind"),
        (lambda f, p, s: decode.translator(p, CONFIG, s + 11), "source"),
        (lambda f, p, s: decode.translator(p, CONFIG, s[:0]), "source"),
        (lambda f, p, s: decode.translator(p, CONFIG, s[0]), r"source: expected shape \(any, any\)"),
        (lambda f, p, s: decode.translator(p | {"more": s / 2}, CONFIG, s), r'params: .* at \["more"\]'),
        (lambda f, p, s: decode.continuer(p, CONTINUING), r'params: expected \["decoder"\]|at \["'),
    ],
)
def test_bad_input_is_refused_by_name(call, message, rng, source):
    params = init(CONFIG, rng)
    with pytest.raises(ValueError, match=message):
        call(random_language(rng, 5, 1), params, source)
