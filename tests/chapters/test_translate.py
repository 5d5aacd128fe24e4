"""Chapter 16: what its record was measured with, and its exercises, solved otherwise."""

import json
from pathlib import Path

import numpy as np
import pytest
from judging import solution
from scipy.optimize import minimize

from benchmarks.translate import SENTENCES, phrase_book, wrong_of_book
from handgrad import data
from handgrad.course import judge
from handgrad.decode import greedy, log_softmax
from handgrad.ops import causal_mask, cross_entropy, padding_mask
from handgrad.optim import adamw

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "translate.json"


# The record -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pairs():
    return data.number_pairs(np.random.default_rng(16), train=4000, held_out=3000)


@pytest.fixture(scope="module")
def record():
    return json.loads(RECORD.read_text(encoding="utf-8"))


def test_the_phrase_book_says_what_it_has_read():
    translate = phrase_book([21_000, 80, 5])
    assert translate(21_080) == "vingt et un mille quatre-vingts" and translate(5) == "cinq"
    assert translate(80_005) is None
    for number in (0, 7, 1_000, 1_001, 21_000, 80_091, 999_999):
        assert phrase_book([number])(number) == data.words(number, "fr")


def test_the_record_bears_out_what_the_chapter_says_of_it(pairs, record):
    """Else other words are wanted in scale-reading. The floor of the loss is 0.7616."""
    assert record["book"] == {str(n): wrong_of_book(n) for n in SENTENCES}
    assert all(len(runs) >= 3 for runs in record["trials"].values())
    assert all(0.7616 < run["loss"] < 0.7656 for run in record["trials"]["100"].values())
    for run in record["trials"]["4000"].values():
        assert len(run["numbers"]) == run["wrong"] and set(run["numbers"]) <= set(pairs[1].numbers.tolist())


# The answers, derived a second time -------------------------------------------------------------------------


def test_the_shift_and_the_masks_are_those_of_the_package(pairs):
    vocabulary = pairs[0].vocabulary
    batch = data.Pairs.of([91, 1_200, 5, 80], vocabulary).batch(np.arange(4))
    read = solution("decoder_input")(batch["target_out"], vocabulary.bos, vocabulary.eos, vocabulary.pad)
    np.testing.assert_array_equal(read, batch["target_in"])
    own, cross = solution("decoder_masks")(read, batch["source"], 0)
    np.testing.assert_array_equal(own[:, None], causal_mask(read.shape[1]) & padding_mask(read, 0))
    shape = (len(read), 1, read.shape[1], batch["source"].shape[1])
    np.testing.assert_array_equal(cross[:, None], np.broadcast_to(padding_mask(batch["source"], 0), shape))


def test_the_floor_by_an_optimizer():
    """A mixture is a share of smoothed targets: the loss is linear in the target."""
    u, alpha, y = np.array([0.5, 0.3, 0.2]), 0.4, 2

    def loss(z):
        each = [cross_entropy(z[None], np.array([v]))[0] for v in range(3)]
        return (1 - alpha) * each[y] + alpha * u @ each

    lowest = minimize(loss, np.zeros(3), tol=1e-10).fun
    assert solution("unigram_floor")(np.array([y, y]), u, alpha) == pytest.approx(lowest, rel=1e-7)


def test_greedy_is_that_of_the_package():
    """With a next_logits that looks only at how long the beginning is."""
    for case in judge.find("greedy_words").cases:
        z, eos, pad = case.inputs
        tokens, score = solution("greedy_words")(z, eos, pad)
        searched = greedy(
            lambda prefixes, rows, z=z: z[rows, prefixes.shape[1] - 1], len(z), 1, eos, z.shape[1]
        )
        np.testing.assert_array_equal(tokens, searched)
        chosen = log_softmax(z).max(axis=-1) * (tokens != pad)
        if not (z.argmax(axis=-1) == pad).any():
            np.testing.assert_allclose(score, chosen.sum(axis=1))


def test_the_repaired_step_is_the_shipped_update():
    for case in judge.find("repaired_step").cases:
        E, x, targets, m, v, step = case.inputs
        p = np.exp(x @ E.T) / np.exp(x @ E.T).sum(axis=1, keepdims=True)
        dz = (p - np.eye(len(E))[targets]) * (targets != 0)[:, None] / (targets != 0).sum()
        state = {"step": step - 1, "m": {"E": m}, "v": {"E": v}}
        options = dict(beta_1=0.9, beta_2=0.98, eps=1e-300, weight_decay=0)
        params, state = adamw({"E": E}, {"E": dz.T @ x}, state, 0.01, **options)
        for mine, shipped in zip(solution("repaired_step")(*case.inputs), (params, state["m"], state["v"])):
            np.testing.assert_allclose(mine, shipped["E"], rtol=1e-10, atol=1e-13)


def test_the_cases_hold_what_the_tasks_speak_of():
    """Padding in source and target, words after <eos>, and targets that do not count."""
    cases = {case.name: case.inputs for case in judge.find("decoder_masks").cases}
    target_in, source, pad = cases["a batch"]
    assert (target_in == pad).any() and (source == pad).any() and (target_in[:, 0] == 1).all()
    ended = [case.inputs[0].argmax(axis=-1) == case.inputs[1] for case in judge.find("greedy_words").cases]
    assert any(ends[:, :-1].any() for ends in ended) and not all(ends.any(axis=1).all() for ends in ended)
    assert any((case.inputs[2] == 0).any() for case in judge.find("repaired_step").cases)
