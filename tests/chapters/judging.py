"""What the tests of exercises ask of the judge."""

from inspect import signature

import numpy as np
import pytest
import torch

from handgrad.course import judge


def solution(name):
    """The right answer of an exercise."""
    return judge.find(name).answer


def tensor(x):
    """An input as torch takes it."""
    return torch.tensor(np.asarray(x)) if isinstance(x, (np.ndarray, float)) else x


def gradients(*rows):
    """A test that the answers of exercises are what autograd finds, for each of their cases.

    Rows (name, loss, by). loss: of the inputs, arrays and floats as tensors; by: the names of those that it
    is differentiated by.
    """

    @pytest.mark.parametrize("name, loss, by", rows)
    def test(name, loss, by):
        for case in judge.find(name).cases:
            inputs = dict(zip(signature(loss).parameters, map(tensor, case.inputs), strict=True))
            leaves = [inputs[letter].requires_grad_() for letter in by.split()]
            found = torch.autograd.grad(loss(**inputs), leaves)
            mine = solution(name)(*case.inputs)
            for ours, theirs in zip(mine if isinstance(mine, tuple) else (mine,), found, strict=True):
                np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-10, atol=1e-14)

    return test


def check_answers(name, answers):
    """Assert that answers are accepted, however they are written."""
    for answer in answers:
        verdict = getattr(judge, name)(answer)
        assert verdict.status == "right", verdict
        assert callable(verdict.value)
