"""Chapter 18: hiding, the head, the baselines, the record; its exercises, solved otherwise."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from judging import gradients, solution
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from handgrad import model, names, train
from handgrad.chapters.classify import figures, head, masked, torch_layer, trials
from handgrad.course import judge
from handgrad.mistakes import edited
from handgrad.twin import compare

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "classify.json"


@pytest.fixture(scope="module")
def parts():
    return names.split()


@pytest.fixture(scope="module")
def record():
    return json.loads(RECORD.read_text(encoding="utf-8"))


# Hiding -----------------------------------------------------------------------------------------------------


def test_what_is_hidden_has_the_shares_that_are_said(parts):
    tokens = np.tile(parts[0].tokens, (8, 1))
    batch = masked.corrupt(np.random.default_rng(0), tokens)
    characters, chosen = tokens >= names.UNK, batch["target_out"] != names.PAD
    assert not chosen[~characters].any() and abs(chosen[characters].mean() - 0.15) < 0.002
    np.testing.assert_array_equal(batch["tokens"][~chosen], tokens[~chosen])
    np.testing.assert_array_equal(batch["target_out"][chosen], tokens[chosen])
    read, right = batch["tokens"][chosen], tokens[chosen]
    assert abs(np.mean(read == names.MASK) - 0.8) < 0.005
    by_chance = 0.1 / (names.V - len(names.SPECIAL))  # a random character may be the right one
    assert abs(np.mean(read == right) - 0.1 - by_chance) < 0.005
    assert set(np.unique(read)) & set(range(len(names.SPECIAL))) <= {names.MASK, names.UNK}


def test_a_batch_has_names_of_about_one_length_and_every_name_its_turn(parts):
    rng, seen = np.random.default_rng(2), set()
    for _ in range(40):
        seen |= set(masked.near(rng, parts[1], 200, window=300).texts)
    lengths = (masked.near(rng, parts[0], 64).tokens != names.PAD).sum(axis=1)
    assert len(seen) > 0.95 * len(parts[1]) and lengths.max() - lengths.min() < 20


# The head ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classifier():
    state = train.start(trials.CONFIG, 3, np.float64)
    return state.params, head.begun(state.params, trials.CONFIG, trials.C, seed=4).params


def test_every_gradient_of_the_classifier_is_that_of_autograd(parts, classifier):
    _, params = classifier
    assert params["classifier"]["W"].std() == pytest.approx(0.02, rel=0.1)
    batch = masked.labelled_from(parts[0])(np.random.default_rng(5), 9)
    loss, grads = head.loss_and_gradients(params, trials.CONFIG, batch)
    of_torch, wanted = torch_layer.loss_and_gradients(params, trials.CONFIG, batch)
    assert loss == pytest.approx(of_torch, rel=1e-12)
    compare(grads, wanted)
    for slip in (
        "[dx_0[:, None, :] → [0 * dx_0[:, None, :]",
        "[dx_0[:, None, :], unread] → [unread, dx_0[:, None, :]]",
    ):
        wrong = edited(head.cls_head_backward, slip)
        _, grads = head.loss_and_gradients(params, trials.CONFIG, batch, head_backward=wrong)
        with pytest.raises(AssertionError):
            compare(grads, wanted)


def test_arrivals_are_those_of_autograd_and_end_in_the_embedding(parts, classifier):
    """The sum over the places that read a token, through the norm of the embedding, is its row of dE."""
    _, params = classifier
    tokens = parts[0].tokens[:4, :9]
    x, encoded = model.encode(params, trials.CONFIG, tokens)
    dx = np.random.default_rng(6).normal(size=x.shape)
    depths = trials.arrivals(dx, encoded)
    np.testing.assert_array_equal(depths[0], dx)
    of_embedding, _ = model.embed_backward(depths[-1], encoded["embedded"])
    grads = model.encode_backward(dx, encoded)
    np.testing.assert_allclose(of_embedding["E"], grads["embedding"]["E"])


def test_the_gradient_of_a_question_starts_where_it_is_asked(classifier):
    whole, _ = classifier
    row = np.array([names.encode("peru") + [names.PAD]])
    asked = np.where(row == row[0, 2], row, names.PAD)
    depths = trials.of_questions(whole, trials.CONFIG, {"tokens": row, "target_out": asked}).any(axis=-1)
    np.testing.assert_array_equal(depths[0, 0], np.eye(7, dtype=bool)[2])
    assert depths[1:, :, :-1].all() and not depths[1:, :, -1].any()


# Baselines and measures -------------------------------------------------------------------------------------


def test_bayes_by_counting_one_name():
    """Two languages, pieces of one and two characters, by the formula and by hand."""
    few = names.Names.of(["ab", "b"], [0, 1])
    bayes = trials.NaiveBayes(few, longest=2, alpha=0.5)
    G = 8  # ^ a b $ ^a ab b$ ^b
    assert len(bayes.place) == G
    scores = bayes.scores(["b"])[0]  # ^ b $ ^b b$
    of_0 = 3 * np.log(1.5 / (7 + 0.5 * G)) + np.log(0.5 / (7 + 0.5 * G)) + np.log(1.5 / (7 + 0.5 * G))
    of_1 = 5 * np.log(1.5 / (5 + 0.5 * G))
    assert scores[1] - scores[0] == pytest.approx(of_1 - of_0)


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_cross_validation_chooses_the_settings_of_the_record(parts, record, seed):
    few = names.few(parts[0], 10, np.random.default_rng([int(seed), 2]))
    bayes, (longest, alpha) = trials.chosen_bayes(few)
    noted = record[seed]["counting, 200"]
    assert (longest, alpha) == (noted["longest"], noted["alpha"])
    assert trials.accuracy(bayes.scores(parts[1].texts), parts[1].labels) == noted["right"]


# The record -------------------------------------------------------------------------------------------------


def test_the_record_is_complete(record):
    assert len(record) >= 3
    for run in record.values():
        kinds = {f"{name}, {labels}" for name in trials.MODELS for labels in trials.LABELS}
        assert set(run) == kinds | {"to all rows, 1000"} and all(0 < of["right"] < 1 for of in run.values())


def test_a_line_of_the_table_has_both_errors():
    record = {str(seed): {"kind": {"right": share}} for seed, share in enumerate((0.81, 0.82, 0.83))}
    assert trials.standard_error(0.82, 1730) == pytest.approx(0.0092, abs=5e-5)
    of_seeds = 0.01 / math.sqrt(3)
    line = trials.table(record, ["kind"], 1730).splitlines()[1]
    assert line.split() == ["kind", "82.0%", "±", "0.9", "±", f"{100 * of_seeds:.1f}"]


def test_the_figure_draws_what_it_is_given():
    ax = figures.accuracies({"a": np.array([[0.1, 0.3], [0.5, 0.7]])}, ("200", "all"), 0.08, 100).axes[0]
    assert [list(line.get_ydata()) for line in ax.lines[-3:-1]] == [[0.1, 0.5], [0.3, 0.7]]
    (bars,) = ax.containers
    np.testing.assert_allclose(bars.lines[0].get_ydata(), [0.2, 0.6])
    np.testing.assert_allclose(np.diff(bars.lines[2][0].get_segments()[0][:, 1]), 2 * 1.96 * 0.04)


# The answers, derived a second time -------------------------------------------------------------------------


def max_pool_loss(dy, x, real):
    return (dy * x.masked_fill(~real[..., None], -torch.inf).amax(dim=1)).sum()


def several_labels_loss(u, y, known, w):
    each = binary_cross_entropy_with_logits(u, y.double(), pos_weight=w, reduction="none")
    return each[known].mean()


def attention_pool_loss(dy, x, w, real):
    a = (x @ w).masked_fill(~real, -torch.inf).softmax(dim=1)
    return (dy * torch.einsum("bt,btd->bd", a, x)).sum()


def contrastive_loss(u, v, tau):
    return cross_entropy(u @ v.T / tau, torch.arange(len(u)))


test_the_answers_are_the_gradients = gradients(
    ("max_pool_dx", max_pool_loss, "x"),
    ("several_labels_du", several_labels_loss, "u"),
    ("attention_pool_backward", attention_pool_loss, "x w"),
    ("contrastive_gradients", contrastive_loss, "u v tau"),
)


def test_macro_f1_from_single_names():
    for case in judge.find("macro_f1").cases:
        (counts,) = case.inputs
        pairs = [(i, j) for i, j in np.ndindex(counts.shape) for _ in range(counts[i, j])]
        found = []
        for k in range(len(counts)):
            named, called = (
                {n for n, p in enumerate(pairs) if p[0] == k},
                {n for n, p in enumerate(pairs) if p[1] == k},
            )
            if named | called:
                found.append(2 * len(named & called) / (len(named) + len(called)))
        assert solution("macro_f1")(counts) == pytest.approx(np.mean(found))


def test_the_cases_hold_what_the_tasks_speak_of():
    """Padding before tokens, names of negative rows, rows and columns of zeros, answers not known."""
    real = [case.inputs[2] for case in judge.find("max_pool_dx").cases]
    assert any((~mask[:, 0]).any() for mask in real) and all(mask.any(axis=1).all() for mask in real)
    shown = [
        np.where(m[:, :, None], x, -np.inf).max(axis=1)
        for _, x, m in (case.inputs for case in judge.find("max_pool_dx").cases)
    ]
    assert any((best < 0).any() for best in shown)
    counts = [case.inputs[0] for case in judge.find("macro_f1").cases]
    assert any(((n.sum(axis=0) == 0) != (n.sum(axis=1) == 0)).any() for n in counts)
    assert any(((n.sum(axis=0) == 0) & (n.sum(axis=1) == 0)).any() for n in counts)
    known = [case.inputs[2] for case in judge.find("several_labels_du").cases]
    assert any(not k.all() for k in known) and all(k.any() for k in known)
