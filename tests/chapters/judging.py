"""What the tests of exercises ask of the judge."""

import numpy as np
import torch

from handgrad.course import judge


def solution(name):
    """The right answer of an exercise."""
    return judge.find(name).answer


def check_gradients(name, loss):
    """Assert that the answer of an exercise is what autograd finds, for each of its cases.

    loss: of the inputs, arrays and floats as tensors; returns the loss, and what it is differentiated by.
    """

    def tensor(x):
        if isinstance(x, (np.ndarray, float)):
            return torch.tensor(np.asarray(x), requires_grad=np.asarray(x).dtype.kind == "f")
        return x

    exercise = judge.find(name)
    for case in exercise.cases:
        inputs = [tensor(x) for x in case.inputs]
        found = torch.autograd.grad(*loss(*inputs))
        for mine, theirs in zip(exercise.answer(*case.inputs), found, strict=True):
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-9, atol=1e-11)


def check_answers(name, answers):
    """Assert that answers are accepted, however they are written."""
    for answer in answers:
        verdict = getattr(judge, name)(answer)
        assert verdict.status == "right", verdict
        assert callable(verdict.value)
