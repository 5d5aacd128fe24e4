"""The exercises of chapter 03: derived again."""

import torch
from judging import gradients, solution
from sympy import Rational, diff, exp, log, simplify, symbols
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from handgrad.chapters.linear_and_embedding import figures
from handgrad.course import judge
from handgrad.course.figures import subplots

# The figures ------------------------------------------------------------------------------------------------


def test_a_table_shows_every_number_and_a_dot_for_0():
    fig, ax = subplots()
    figures.table(ax, [[1, 0], [-2, 3.5]], "dW", rows=["a", "b"])
    assert [text.get_text() for text in ax.texts] == ["1", "·", "−2", "3.5"]


# The answers, derived a second time -------------------------------------------------------------------------


def test_the_tied_row_is_the_derivative():
    e_0, e_1, scale = symbols("e_0 e_1 scale", positive=True)
    x = scale * e_0
    loss = -log(exp(x * e_1) / (exp(x * e_0) + exp(x * e_1)))
    point = {e_0: Rational(3, 5), e_1: Rational(-4, 3), scale: Rational(7, 4)}
    gap = diff(loss, e_0) - solution("tied_row")(e_0, e_1, scale)
    assert abs(gap.subs(point).evalf(30)) < 1e-25
    assert simplify(solution("tied_row")(1, 1, 2)) == 1 and solution("tied_row")(0, 1, 2) == -1


def twice_loss(dy, x, W, b):
    return (dy * ((x @ W + b) @ W + b)).sum()


def low_rank_loss(dy, x, W, A, C, g):
    return (dy * (x @ W + g * (x @ A) @ C)).sum()


def bag_loss(dy, tokens, E):
    return (dy * functional.embedding_bag(tokens, E, mode="mean", padding_idx=0)).sum()


test_the_answers_are_the_gradients = gradients(
    ("twice_backward", twice_loss, "x W b"),
    ("low_rank_backward", low_rank_loss, "x A C"),
    ("bag_backward", bag_loss, "E"),
)


def test_the_flops_are_those_that_torch_counts():
    n, r, D, V = 5, 2, 3, 7
    leaf = dict(dtype=torch.float64, requires_grad=True)
    A, C, x = torch.ones((V, r), **leaf), torch.ones((r, D), **leaf), torch.ones((n, D), **leaf)
    with FlopCounterMode(display=False) as counter:
        read = A[torch.arange(n)] @ C
        logits = x @ C.T @ A.T
        (read.sum() + logits.sum()).backward()
    assert counter.get_total_flops() == solution("factor_flops")(n, r, D, V)


def test_the_windows_hold_what_the_exercise_is_about():
    cases = {case.name: case.inputs[1] for case in judge.find("bag_backward").cases}
    usual = [tokens for name, tokens in cases.items() if name != "a window of padding only"]
    assert all((tokens != 0).any(axis=1).all() for tokens in usual)
    assert any((tokens == 0).any() for tokens in usual)
    assert any(len(set(row[row > 0])) < (row > 0).sum() for tokens in usual for row in tokens)
    assert (cases["a window of padding only"][1] == 0).all()
