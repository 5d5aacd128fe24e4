"""Searches, beside an enumeration of all sentences, and on models that they do not know."""

import functools
import itertools
from dataclasses import replace

import numpy as np
import optree
import pytest
import torch
from cases import CASES, problem

from handgrad import data, decode, mistakes, model
from handgrad.config import Config, init

PAD, BOS, EOS = 0, 1, 2
ENDS = {"bos": BOS, "eos": EOS, "pad": PAD}


def beam(*args, width=2, **options):
    """The tokens of `decode.beam`: a search as `decode.greedy` is one."""
    return decode.beam(*args, width=width, **options)[0]


SEARCHES = decode.greedy, functools.partial(beam, width=3)


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


def test_a_beam_that_holds_everything_finds_the_best_sentence(rng):
    """Greedy search misses it somewhere, and the penalty changes which one it is."""
    V, B, T = 4, 12, 4
    next_logits = random_language(rng, V, B)
    found = [decode.greedy(next_logits, B, max_length=T, **ENDS).tolist()]
    for alpha in (0.0, 0.6, 2.0):
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
        found.append(tokens.tolist())
    greedy, plain, *_, penalised = found
    assert greedy != plain != penalised


def plain_beam(next_logits, row, width, max_length, alpha, V):
    """One sentence of `decode.beam` in lists: score, tokens, and whether one ended before others grew."""
    kept, early = [(0.0, (), False)], False  # log probability, tokens, ended

    def score(beginning):
        return beginning[0] / float(decode.length_penalty(len(beginning[1]), alpha))

    for _ in range(max_length):
        early |= {ended for _, _, ended in kept} == {True, False}
        grown = [one for one in kept if one[2]]
        for _, tokens, _ in (one for one in kept if not one[2]):
            for token in range(V):
                longer = (*tokens, token)
                grown.append((log_probability(next_logits, row, longer), longer, token == EOS))
        kept = sorted(grown, key=score, reverse=True)[:width]
    best = max(kept, key=score)
    return score(best), best[1], early


def worst_of_narrow_beams(beam, rng):
    """The worst difference of scores from `plain_beam`, and how often some ended before others."""
    V, B, T, worst, early = 5, 8, 6, 0.0, 0
    for width in (2, 3, 4):
        for alpha in (0.0, 0.6, 2.0):
            next_logits = random_language(rng, V, B, sharpness=1.0)
            tokens, scores = beam(next_logits, B, width, max_length=T, alpha=alpha, **ENDS)
            for row in range(B):
                score, wanted, ended = plain_beam(next_logits, row, width, T, alpha, V)
                same = tokens[row].tolist() == [*wanted, *[PAD] * (T - len(wanted))]
                worst, early = max(worst, abs(scores[row] - score) if same else 1.0), early + ended
    return worst, early


def test_narrow_beams_in_which_some_sentences_end_before_others(rng):
    worst, early = worst_of_narrow_beams(decode.beam, rng)
    assert worst < 1e-12 and early > 30


def test_a_penalty_that_grows_after_the_end_is_refuted_by_narrow_beams_alone(rng):
    """A wrong edit that is right where all beginnings fit, since the best of all is never compared late."""
    wrong = mistakes.edited(decode.beam, "length[b, w] = t + 1 → length[:] = t + 1")
    assert worst_of_narrow_beams(wrong, rng)[0] > 1e-3


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_beam_of_width_one_is_greedy(alpha, rng):
    next_logits = random_language(rng, V=7, B=20)
    greedy = decode.greedy(next_logits, 20, max_length=9, **ENDS)
    tokens, _ = decode.beam(next_logits, 20, 1, max_length=9, alpha=alpha, **ENDS)
    assert np.array_equal(greedy, tokens)
    assert (greedy == EOS).any() and len({tuple(row) for row in greedy.tolist()}) > 10


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


@pytest.mark.parametrize("temperature", [1e-3, 1e-310])
def test_a_low_temperature_takes_the_most_likely(temperature, rng):
    z = rng.normal(size=(50, 7))
    with np.errstate(over="ignore"):
        drawn = decode.sampler(rng, temperature)(z)
    assert np.array_equal(drawn, decode.most_likely(z))


def test_an_impossible_token_is_never_written(rng):
    """A logit of −∞ is a probability of 0: for every search, and at any temperature."""

    def next_logits(prefixes, rows):
        z = rng.normal(size=(len(rows), 5))
        z[:, 3:] = -np.inf
        return z

    tokens = [decode.beam(next_logits, 40, 9, max_length=3, **ENDS)[0]]
    for choose in (decode.most_likely, decode.sampler(rng, 1e6)):
        tokens.append(decode.greedy(next_logits, 40, max_length=3, choose=choose, **ENDS))
    assert all(written.max() < 3 for written in tokens)


def test_padding_may_be_the_end_of_a_sentence(rng):
    """The sentences are the same, with another padding."""
    next_logits = random_language(rng, V=5, B=30)
    for search in SEARCHES:
        one, other = (search(next_logits, 30, max_length=6, bos=BOS, eos=EOS, pad=pad) for pad in (PAD, EOS))
        ended = (np.cumsum(one == EOS, axis=1) - (one == EOS)) > 0
        assert ended.any() and np.array_equal(np.where(ended, EOS, one), other)


def test_padding_of_a_narrow_type_cuts_no_token():
    def next_logits(prefixes, rows):
        return np.eye(400)[np.full(len(rows), 300)]

    ends = dict(bos=1, eos=2, pad=np.int8(0), max_length=2)
    assert decode.greedy(next_logits, 1, **ends).tolist() == [[300, 300]]
    assert decode.beam(next_logits, 1, 2, **ends)[0].tolist() == [[300, 300]]


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


def test_a_search_on_torch_tensors_writes_the_same(rng, source):
    params = init(CONFIG, rng)
    tensors = optree.tree_map(torch.from_numpy, params)
    for search in SEARCHES:
        one, other = (
            search(decode.translator(p, CONFIG, source), 5, max_length=6, **ENDS) for p in (params, tensors)
        )
        assert np.array_equal(one, other)


@pytest.mark.parametrize("B", [1, 2, 4])
def test_every_source_has_its_sentence(B, rng, source):
    """A search for fewer sentences would drop the last ones without a word."""
    next_logits = decode.translator(init(CONFIG, rng), CONFIG, source[:3])
    for search in SEARCHES:
        assert len(search(next_logits, 3, max_length=2, **ENDS)) == 3
        with pytest.raises(ValueError, match=f"B: expected 3, .*got {B}"):
            search(next_logits, B, max_length=2, **ENDS)


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
    params, config = init(CONTINUING, rng), CONTINUING
    tokens = decode.greedy(decode.continuer(params, config), 2, max_length=5, **ENDS)
    logits, _ = model.forward(
        params, config, {"tokens": np.concatenate([[[BOS]] * 2, tokens[:, :-1]], axis=1)}
    )
    ended = (np.cumsum(tokens == EOS, axis=1) - (tokens == EOS)) > 0
    assert np.where(ended, tokens, logits.argmax(-1)).tolist() == tokens.tolist()


DECODERS = [name for name, case in CASES.items() if case["kind"] == "decoder"]
"""Every two choices that a decoder-only model has stand together in one of these."""


@pytest.mark.parametrize("name", DECODERS)
def test_reading_behind_a_past_is_the_whole_pass(name):
    """In pieces, and token by token; the numbers of the positions before stay as they were."""
    params, config, batch, *_ = problem(CASES[name])
    to = torch.from_numpy if CASES[name]["library"] == "torch" else np.asarray
    params = optree.tree_map(lambda array: to(array.astype(np.float64)), params)
    tokens = batch["tokens"][:, :40]
    whole, _ = model.forward(params, config, {"tokens": tokens})
    for width in (1, 3, 7, 40):
        past, pieces = None, []
        for start in range(0, tokens.shape[1], width):
            z, past = decode.extend(params, config, tokens[:, start : start + width], past)
            pieces.append(np.asarray(z))
        z = np.concatenate(pieces, axis=1)
        np.testing.assert_allclose(z, whole, rtol=1e-12, atol=1e-12 * abs(whole).max())
        assert decode.length_of(past) == tokens.shape[1]
        numbers = sum(np.asarray(array).size for array in past["keys"] + past["values"])
        assert numbers == 2 * config.N * tokens.size * (config.H_kv or config.H) * config.K


@pytest.mark.parametrize("pad", [None, PAD])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
def test_a_search_with_a_memory_writes_the_same(positions, pad, rng, monkeypatch):
    """Greedy search drops rows that have ended, a beam doubles and exchanges them."""
    config = replace(CONTINUING, positions=positions, T_max=7, pad=pad, norm="pre", final_norm=True)
    params = init(config, rng)
    read, extend = [], decode._extend
    for search in SEARCHES:
        wanted = search(decode.continuer(params, config), 9, max_length=6, **ENDS)
        monkeypatch.setattr(decode, "_extend", lambda *args: read.append(args[2].shape) or extend(*args))
        got = search(decode.cached_continuer(params, config), 9, max_length=6, **ENDS)
        monkeypatch.undo()
        assert np.array_equal(got, wanted) and len(np.unique(wanted[:, 0])) == 1
    assert {width for _, width in read} == {1}  # after the first token, one more each time


def test_a_memory_is_not_misled(rng):
    """Other beginnings, shorter ones, the same again, or one in whose past a token differs: read afresh."""
    params, config = init(CONTINUING, rng), CONTINUING
    plain, cached = decode.continuer(params, config), decode.cached_continuer(params, config)
    first = rng.integers(0, 11, size=(3, 4))
    longer = np.concatenate([first[[2, 0, 0]], rng.integers(0, 11, size=(3, 2))], axis=1)
    other = longer.copy()
    other[1, 0] = (other[1, 0] + 1) % 11
    for prefixes in (first, longer, longer, other, first, first[:2, :1], longer[:1]):
        rows = np.arange(len(prefixes))
        np.testing.assert_allclose(cached(prefixes, rows), plain(prefixes, rows), atol=1e-12)


Z = np.log(np.array([[0.1, 0.4, 0.2, 0.3], [0.25, 0.25, 0.25, 0.25]]))


@pytest.mark.parametrize(
    "cut, kept",
    [
        (lambda z: decode.top_k(z, 1), [[1], [0]]),
        (lambda z: decode.top_k(z, 2), [[1, 3], [0, 1]]),
        (lambda z: decode.top_k(z, 9), [[0, 1, 2, 3], [0, 1, 2, 3]]),
        (lambda z: decode.nucleus(z, 0.05), [[1], [0]]),
        (lambda z: decode.nucleus(z, 0.45), [[1, 3], [0, 1]]),
        (lambda z: decode.nucleus(z, 0.65), [[1, 3], [0, 1, 2]]),
        (lambda z: decode.nucleus(z, 0.75), [[1, 2, 3], [0, 1, 2]]),
        (lambda z: decode.nucleus(z, 1.0), [[0, 1, 2, 3], [0, 1, 2, 3]]),
    ],
)
def test_what_a_cut_keeps(cut, kept):
    """Of equal ones the first; what stays is not changed, whatever constant was added to the logits."""
    for shift in (0.0, 700.0):
        z = cut(Z + shift)
        assert [np.flatnonzero(row > -np.inf).tolist() for row in z] == kept
        assert (z[z > -np.inf] == (Z + shift)[z > -np.inf]).all()


def test_a_nucleus_is_the_smallest_that_reaches_p(rng):
    """Beside a search over all sets of tokens."""
    z = rng.normal(0, 2, size=(20, 6))
    z[:, 4] = -np.inf
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    for wanted in (0.1, 0.5, 0.9, 0.99):
        kept = decode.nucleus(z, wanted) > -np.inf
        for row in range(20):
            sets = [list(s) for n in range(1, 6) for s in itertools.combinations(range(6), n)]
            fewest = min(len(s) for s in sets if p[row, s].sum() >= wanted)
            assert kept[row].sum() == fewest and p[row, kept[row]].sum() >= wanted
            assert p[row, kept[row]].min() >= p[row, ~kept[row]].max() and not kept[row, 4]


@pytest.mark.parametrize(
    ("temperature", "cut", "p"),
    [
        (1.0, None, [0.1, 0.4, 0.2, 0.3]),
        (2.0, None, np.sqrt([0.1, 0.4, 0.2, 0.3])),
        (1.0, functools.partial(decode.nucleus, p=0.65), [0, 0.4, 0, 0.3]),
        (2.0, functools.partial(decode.nucleus, p=0.65), np.sqrt([0, 0.4, 0.2, 0.3])),
    ],
)
def test_samples_have_the_probabilities_of_the_softmax_after_temperature_and_cut(temperature, cut, p, rng):
    draws = decode.sampler(rng, temperature, cut)(np.repeat(Z[:1], 100_000, axis=0))
    p = np.array(p) / np.sum(p)
    # six standard errors of a frequency
    assert (abs(np.bincount(draws, minlength=4) / 1e5 - p) <= 6 * np.sqrt(p * (1 - p) / 1e5)).all()


def spoiled(value, places=slice(None)):
    """A language whose second row says `value` at these places, from the second token on."""

    def next_logits(prefixes, rows):
        z = np.zeros((len(rows), 5))
        z[:, 3] = 1.0  # never the end
        if prefixes.shape[1] > 1:
            z[rows == 1, places] = value
        return z

    return next_logits


def sampled(*args, **ends):
    return decode.greedy(*args, choose=decode.sampler(np.random.default_rng(0)), **ends)


@pytest.mark.parametrize(
    "search", [decode.greedy, sampled, *(functools.partial(beam, width=n) for n in (1, 7))]
)
def test_logits_that_are_no_numbers_are_refused(search):
    for wrong in (spoiled(np.nan), spoiled(np.nan, 4), spoiled(np.inf, 4), spoiled(-np.inf)):
        with pytest.raises(FloatingPointError, match="logits: expected finite numbers, or −∞"):
            search(wrong, 3, max_length=4, **ENDS)
    search(spoiled(-np.inf, 4), 3, max_length=4, **ENDS)


def test_no_token_is_chosen_from_what_is_no_number(rng):
    cuts = (lambda z: decode.top_k(z, 2)), (lambda z: decode.nucleus(z, 0.5))
    for choose in (decode.most_likely, decode.sampler(rng), *cuts):
        with pytest.raises(FloatingPointError, match="logits.*nan.* row 1"):
            choose(np.array([[0.0, 1.0], [1.0, np.nan]]))


def test_translate_speaks_the_vocabulary(rng):
    vocabulary = data.Vocabulary.of(["two hundred", "deux cents"])
    larger = data.Vocabulary((*vocabulary.tokens, "three"))
    config = Config(kind="encoder-decoder", V=len(vocabulary), D=8, H=2, F=12, N=1, pad=PAD)
    params = init(config, rng)
    for width in (1, 2):
        answers = decode.translate(params, config, vocabulary, ["two hundred", "two"], width, max_length=4)
        assert len(answers) == 2 and all(isinstance(answer, str) for answer in answers)
    for config_, vocabulary_, texts, width, message in (
        (config, vocabulary, ["three hundred"], 1, "three"),
        (config, vocabulary, ["two", ""], 1, "at least one word"),
        (config, vocabulary, "two", 1, "texts: expected a list of sentences, got one string: 'two'"),
        (config, vocabulary, [], 1, "rows"),
        (config, vocabulary, ["two"], True, "width.*True"),
        (replace(config, pad=None), vocabulary, ["two"], 1, r"config\.pad: expected 0, as .* got None"),
        (config, larger, ["two"], 1, "vocabulary: expected V = 7 tokens, got 8"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            decode.translate(params, config_, vocabulary_, texts, width)


def after(tokens, config, rows=3):
    """Read behind the past of four tokens that CONTINUING has read."""
    rng = np.random.default_rng(1)
    _, past = decode.extend(init(CONTINUING, rng), CONTINUING, tokens[:rows, :4])
    return decode.extend(init(config, rng), config, tokens[:3, 4:], past)


def asked(B=2, search=decode.greedy, of=lambda z: z, **options):
    """A search in a random language of 5 words, whose logits are changed."""
    f = random_language(np.random.default_rng(0), 5, 1)
    return lambda p, s: search(lambda *a: of(f(*a)), B, **dict(max_length=3) | ENDS | options)


SETTINGS = [
    (decode.greedy, "B", [0, 1.0, True]),
    (decode.greedy, "max_length", [0, 2.5]),
    (beam, "width", [0, 2.0]),
    (beam, "alpha", [-1, np.nan, np.inf, True]),
    (decode.greedy, "eos", [2.0]),
    (decode.greedy, "pad", [0.5]),
    (decode.greedy, "bos", [-1]),
]
SHORT = replace(CONTINUING, positions="learned", T_max=5)
BAD = [
    (asked(eos=5), r"V = 5, got \(1, 5, 0\)"),
    (asked(search=beam, pad=5), r"V = 5, got \(1, 2, 5\)"),
    (asked(1, of=lambda z: z[0]), r"next_logits.*\(5,\)"),
    (asked(of=lambda z: z[:1]), r"next_logits.*\(1, 5"),
    (asked(choose=lambda z: z.max(axis=-1)), "choose: expected integers, got float64"),
    (asked(choose=lambda z: np.array([9, 1])), "choose: expected 2 tokens from 0 to 4"),
    (asked(choose=lambda z: np.array([1])), "choose: expected 2 tokens from 0 to 4"),
    (lambda p, s: decode.continuer(p, CONFIG), "kind"),
    (lambda p, s: decode.cached_continuer(p, CONFIG), "kind"),
    (lambda p, s: decode.extend(p, CONFIG, s), "kind"),
    (lambda p, s: decode.translator(p, CONFIG, s + 11), "source"),
    (lambda p, s: decode.translator(p, CONFIG, s[:0]), "source"),
    (lambda p, s: decode.translator(p, CONFIG, s[0]), r"source: expected shape \(any, any\)"),
    (lambda p, s: decode.translator(p | {"more": s / 2}, CONFIG, s), r'params: .* at \["more"\]'),
    (lambda p, s: decode.continuer(p, CONTINUING), r'params: expected \["decoder"\]|at \["'),
    (lambda p, s: after(s, CONTINUING, rows=2), r'past\["keys"\]\[0\]: expected shape \(3, '),
    (lambda p, s: after(s, replace(CONTINUING, N=1)), "past: expected keys of 1 blocks, got 2"),
    (lambda p, s: after(s, replace(CONTINUING, pad=0)), "past: expected what `extend` returned"),
    (lambda p, s: after(s, SHORT), "at most T_max - 4 = 1 behind the past, got 2"),
    (lambda p, s: after(s + 11, CONTINUING), "tokens"),
    (lambda p, s: decode.top_k(Z, 0), "k: expected"),
    (lambda p, s: decode.top_k(Z, 1.5), r"k.*1\.5"),
    (lambda p, s: decode.nucleus(Z, 0.0), "p.*0"),
    (lambda p, s: decode.nucleus(Z, 1.1), "p: expected a probability, got 1.1"),
    (lambda p, s: decode.nucleus(Z, np.nan), "p.*nan"),
    (lambda p, s: decode.sampler(None, 0.0), "temperature: expected .*got 0.0"),
    (lambda p, s: decode.sampler(None, np.nan), "temperature: expected .*got nan"),
    (lambda p, s: decode.sampler(None, np.inf), "temperature: expected .*got inf"),
    *(
        (asked(search=search, **{name: value}), f"{name}: expected .*got.* {value}")
        for search, name, values in SETTINGS
        for value in values
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused_by_name(call, message, rng, source):
    with pytest.raises((TypeError, ValueError), match=message):
        call(init(CONFIG, rng), source)
