"""Chapter 09: its exercises derived again."""

import numpy as np
import torch
from judging import gradients, solution

from handgrad import ops
from handgrad.course import judge

# The answers, derived a second time by automatic differentiation, or by trying ------------------------------


def attended(q, k, v, allowed, bias=0.0):
    """Masked attention by exponentials and products with 0 and 1; 0 where nothing is allowed."""
    w = allowed * torch.exp(q @ k.mT / q.shape[-1] ** 0.5 + bias)
    total = w.sum(-1, keepdim=True)
    return w / torch.where(total == 0, 1.0, total) @ v


def test_packed_mask_says_on_what_each_prediction_depends():
    """Documents alone and packed have the same outputs at the same places, with this mask and no other."""
    rng = np.random.default_rng(0)
    for case in judge.find("packed_mask").cases:
        (documents,) = case.inputs
        mask = solution("packed_mask")(documents)
        q, k, v = rng.standard_normal((3, *documents.shape, 4))
        packed, _ = ops.attention(q, k, v, mask)
        for n, row in enumerate(documents):
            assert (packed[n, row == 0] == 0).all()
            for number in set(row) - {0}:
                own = row == number
                alone, _ = ops.attention(q[n, own], k[n, own], v[n, own], ops.causal_mask(own.sum()))
                np.testing.assert_allclose(packed[n, own], alone, rtol=1e-12)


def window_loss(dy, q, k, v, window):
    return (dy * attended(q, k, v, torch.ones(q.shape[1], q.shape[1]).tril().triu(1 - window))).sum()


def bias_loss(dy, q, k, v, bias, mask):
    return (dy * attended(q, k, v, mask[:, None], bias)).sum()


test_the_answers_are_the_gradients = gradients(
    ("window_gradients", window_loss, "q k v"),
    ("bias_gradient", bias_loss, "bias"),
)


def test_seen_through_is_what_random_stacks_do():
    """In a stack of random layers with residual connections exactly those derivatives are not 0."""
    rng = np.random.default_rng(1)
    for case in judge.find("seen_through").cases:
        mask, layers = case.inputs
        jacobian = np.eye(len(mask))
        for _ in range(layers):
            jacobian = (np.eye(len(mask)) + mask * rng.uniform(0.5, 1, mask.shape)) @ jacobian
        np.testing.assert_array_equal(solution("seen_through")(mask, layers), jacobian > 0)


def test_leaks_are_counted_by_walking_all_ways():
    def reach(mask, layers, i):
        found = {i}
        for _ in range(layers):
            found = found.union(*(np.flatnonzero(mask[n]).tolist() for n in found))
        return found

    for case in judge.find("count_leaks").cases:
        influence, mask, layers = case.inputs
        counts = [
            sum(
                x[i, j] != 0 for i in range(len(mask)) for j in set(range(len(mask))) - reach(mask, layers, i)
            )
            for x in influence
        ]
        np.testing.assert_array_equal(solution("count_leaks")(influence, mask, layers), counts)


def test_the_cases_hold_what_the_exercises_promise():
    """Padding on either side and none, queries that see nothing or not themselves, tiny leaks."""
    assert any(not case.inputs[5].any(-1).all() for case in judge.find("bias_gradient").cases)
    rows = [row for case in judge.find("packed_mask").cases for row in case.inputs[0]]
    assert {(row[0] == 0, row[-1] == 0) for row in rows} >= {(True, False), (False, True), (False, False)}
    assert any(len(set(row) - {0}) > 1 for row in rows)
    assert any(not mask.diagonal().all() for mask, _ in (c.inputs for c in judge.find("seen_through").cases))
    values = np.concatenate([case.inputs[0].ravel() for case in judge.find("count_leaks").cases])
    assert (values < 0).any() and ((values != 0) & (abs(values) < 1e-12)).any()


def test_a_mask_of_numbers_is_refused():
    verdict = judge.packed_mask(lambda documents: solution("packed_mask")(documents).astype(int))
    assert verdict.status == "wrong" and "Booleans only" in verdict.diagnosis
