"""The exercises of chapter 03: derived again and solved otherwise."""

import numpy as np
import pytest
import torch
from judging import check_answers, solution
from sympy import Rational, diff, exp, log, simplify, symbols
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from handgrad.chapters.linear_and_embedding import figures
from handgrad.course import judge
from handgrad.course.figures import subplots

# The figures ------------------------------------------------------------------------------------------------


def test_the_graph_finds_room_for_its_texts():
    texts = [text.get_text() for text in figures.layer().axes[0].texts]
    assert r"sparse $\mathrm{d}E$" in texts and r"dense $\mathrm{d}E$" in texts


def test_a_table_shows_every_number_and_a_dot_for_0():
    fig, ax = subplots()
    figures.table(ax, [[1, 0], [-2, 3.5]], "dW", rows=["a", "b"], reach=4)
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


def grads(forward, dy, *arrays):
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    forward(*leaves).backward(torch.tensor(dy))
    return [leaf.grad.numpy() for leaf in leaves]


def bag(tokens):
    return lambda E: functional.embedding_bag(torch.tensor(tokens), E, mode="mean", padding_idx=0)


def added(W, g):
    return lambda x, A, C: x @ torch.tensor(W) + g * (x @ A) @ C


def test_the_others_against_autograd():
    for case in judge.find("twice_backward").cases:
        dy, *arrays = case.inputs
        wanted = grads(lambda x, W, b: (x @ W + b) @ W + b, dy, *arrays)
        for ours, theirs in zip(solution("twice_backward")(*case.inputs), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    for case in judge.find("low_rank_backward").cases:
        dy, x, W, A, C, g = case.inputs
        wanted = grads(added(W, g), dy, x, A, C)
        for ours, theirs in zip(solution("low_rank_backward")(*case.inputs), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    for case in judge.find("bag_backward").cases:
        dy, tokens, E = case.inputs
        np.testing.assert_allclose(
            solution("bag_backward")(*case.inputs), grads(bag(tokens), dy, E)[0], atol=1e-12
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


# Right answers, written otherwise ---------------------------------------------------------------------------


def twice_by_names(dy, x, W, b):
    D = len(b)
    rows, arriving = x.reshape(-1, D), dy.reshape(-1, D)
    first = rows @ W + b
    at_first = arriving @ W.T
    dW = np.einsum("ni,nj->ij", first, arriving)
    dW += np.einsum("ni,nj->ij", rows, at_first)
    return (at_first @ W.T).reshape(x.shape), dW, arriving.sum(0) + at_first.sum(0)


def twice_by_loops(dy, x, W, b):
    dx, dW, db = np.zeros_like(x), np.zeros_like(W), np.zeros_like(b)
    for n, t in np.ndindex(x.shape[:2]):
        h, dh = x[n, t] @ W + b, W @ dy[n, t]
        dW += np.outer(h, dy[n, t]) + np.outer(x[n, t], dh)
        db += dh + dy[n, t]
        dx[n, t] = W @ dh
    return dx, dW, db


def low_rank_by_einsum(dy, x, W, A, C, g):
    dx = np.einsum("btf,df->btd", dy, W + g * A @ C)
    dA = g * np.einsum("btd,btf,kf->dk", x, dy, C)
    return dx, dA, g * np.einsum("btd,dk,btf->kf", x, A, dy)


def low_rank_by_loops(dy, x, W, A, C, g):
    dx, dA, dC = np.zeros_like(x), np.zeros_like(A), np.zeros_like(C)
    for n, t in np.ndindex(x.shape[:2]):
        back = g * C @ dy[n, t]
        dx[n, t] = W @ dy[n, t] + A @ back
        dA += np.outer(x[n, t], back)
        dC += g * np.outer(A.T @ x[n, t], dy[n, t])
    return dx, dA, dC


def flops_by_shapes(n, r, D, V):
    shapes = [(n, r, D), (n, D, r), (n, r, V)]
    return sum(3 * 2 * rows * inner * columns for rows, inner, columns in shapes)


def bag_by_loops(dy, tokens, E):
    dE = np.zeros_like(E)
    for n, row in enumerate(tokens):
        kept = row[row != 0]
        for token in kept:
            dE[token] += dy[n] / len(kept)
    return dE


def bag_by_add_at(dy, tokens, E):
    dE, kept = np.zeros_like(E), tokens != 0
    window, _ = np.nonzero(kept)
    np.add.at(dE, tokens[kept], dy[window] / kept.sum(1)[window, None])
    return dE


RIGHT = {
    "tied_row": (
        lambda e_0, e_1, scale: scale * (2 * e_0 - e_1) / (1 + exp(scale * e_0 * e_1 - scale * e_0**2)),
        lambda e_0, e_1, scale: diff(log(1 + exp(scale * e_0**2 - scale * e_0 * e_1)), e_0),
    ),
    "twice_backward": (twice_by_names, twice_by_loops),
    "low_rank_backward": (low_rank_by_einsum, low_rank_by_loops),
    "factor_flops": (lambda n, r, D, V: 6 * n * r * (V + 2 * D), flops_by_shapes),
    "bag_backward": (bag_by_loops, bag_by_add_at),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_accepted_however_written(name):
    check_answers(name, RIGHT[name])


def test_every_exercise_has_been_solved_otherwise():
    assert set(RIGHT) == set(judge.chapters()["linear_and_embedding"])
