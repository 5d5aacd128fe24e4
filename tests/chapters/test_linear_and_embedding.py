"""The exercises of chapter 03: derived again, solved otherwise, and answered wrongly."""

import numpy as np
import pytest
import torch
from judging import check_answers
from sympy import Rational, diff, exp, log, simplify, symbols
from torch.nn import functional

from handgrad import manual
from handgrad.chapters.linear_and_embedding import bigram, exercises, faults, figures, trials
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


# What the chapter computes with -----------------------------------------------------------------------------


def test_counts_and_entropies():
    tokens = np.array([0, 1, 0, 1, 2])
    counts = manual.count_pairs(tokens)
    assert counts.shape == (96, 96) and counts[0, 1] == 2 and counts.sum() == 4
    np.testing.assert_allclose(bigram.entropy(np.array([1.0, 1, 0, 2])), 1.5 * np.log(2))


def test_a_truncated_table_has_its_rank_and_is_nearest():
    counts = manual.count_pairs(manual.split()[1])
    log_counts = np.log(counts + 0.5)
    centred = log_counts - log_counts.mean(axis=1, keepdims=True)
    for r in (2, 7):
        cut = bigram.truncated(counts, r, 0.5)
        assert np.linalg.matrix_rank(cut) == r
        values = np.linalg.svd(centred, compute_uv=False)
        np.testing.assert_allclose(((cut - centred) ** 2).sum(), (values[r:] ** 2).sum())
    whole = bigram.truncated(counts, 96, 0.5)
    p, q = (np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) for z in (whole, log_counts))
    np.testing.assert_allclose(p, q, atol=1e-12)


def test_every_fault_is_one_and_the_right_one_is_none():
    rng = np.random.default_rng(0)
    hard = faults.draw(rng, B=2, F=5, repeat=True, scale=1.7)
    assert faults.error(faults.right, hard) == 0
    assert all(faults.error(fault, hard) > 0.01 for fault in faults.FAULTS.values())
    _, tokens, *_ = faults.draw(rng)
    assert len(set(tokens.ravel())) == tokens.size
    dy, tokens, E, W, scale = hard
    leaves = [torch.tensor(m, requires_grad=True) for m in (E, W)]
    (scale * functional.embedding(torch.tensor(tokens), leaves[0]) @ leaves[1]).backward(torch.tensor(dy))
    for ours, leaf in zip(faults.right(*hard), leaves, strict=True):
        np.testing.assert_allclose(ours, leaf.grad, rtol=1e-12, atol=1e-14)


def test_both_parts_add_up_to_the_gradient_of_the_table():
    rng = np.random.default_rng(0)
    E, dz, tokens = rng.normal(size=(5, 2)), rng.normal(size=(3, 5)), np.array([1, 3, 1])
    leaf = torch.tensor(E, requires_grad=True)
    (leaf[torch.tensor(tokens)] @ leaf.T).backward(torch.tensor(dz))
    np.testing.assert_allclose(sum(trials.both_parts(tokens, dz, E)), leaf.grad, rtol=1e-12)


# The answers, derived a second time -------------------------------------------------------------------------


def test_the_tied_row_is_the_derivative():
    e_0, e_1, scale = symbols("e_0 e_1 scale", positive=True)
    x = scale * e_0
    loss = -log(exp(x * e_1) / (exp(x * e_0) + exp(x * e_1)))
    point = {e_0: Rational(3, 5), e_1: Rational(-4, 3), scale: Rational(7, 4)}
    gap = diff(loss, e_0) - exercises.tied_row(e_0, e_1, scale)
    assert abs(gap.subs(point).evalf(30)) < 1e-25
    assert simplify(exercises.tied_row(1, 1, 2)) == 1 and exercises.tied_row(0, 1, 2) == -1


def grads(forward, dy, *arrays):
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    forward(*leaves).backward(torch.tensor(dy))
    return [leaf.grad.numpy() for leaf in leaves]


def bag(tokens):
    return lambda E: functional.embedding_bag(torch.tensor(tokens), E, mode="mean", padding_idx=0)


def added(W, g):
    return lambda x, A, C: x @ torch.tensor(W) + g * (x @ A) @ C


def test_the_others_against_autograd():
    for case in exercises.TWICE_BACKWARD.cases:
        dy, *arrays = case.inputs
        wanted = grads(lambda x, W, b: (x @ W + b) @ W + b, dy, *arrays)
        for ours, theirs in zip(exercises.twice_backward(*case.inputs), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    for case in exercises.LOW_RANK_BACKWARD.cases:
        dy, x, W, A, C, g = case.inputs
        wanted = grads(added(W, g), dy, x, A, C)
        for ours, theirs in zip(exercises.low_rank_backward(*case.inputs), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    for case in exercises.BLOCKS_BACKWARD.cases:
        dy, x, W = case.inputs
        wanted = grads(lambda x, W: x @ torch.block_diag(*W), dy, x, W)
        for ours, theirs in zip(exercises.blocks_backward(*case.inputs), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    for case in exercises.BAG_BACKWARD.cases:
        dy, tokens, E = case.inputs
        np.testing.assert_allclose(
            exercises.bag_backward(*case.inputs), grads(bag(tokens), dy, E)[0], atol=1e-12
        )


def test_the_windows_hold_what_the_exercise_is_about():
    cases = {case.name: case.inputs[1] for case in exercises.BAG_BACKWARD.cases}
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


def blocks_by_loops(dy, x, W):
    G, K, E = W.shape
    dx, dW = np.zeros_like(x), np.zeros_like(W)
    for k in range(G):
        mine, its = slice(k * K, (k + 1) * K), slice(k * E, (k + 1) * E)
        dx[..., mine] = dy[..., its] @ W[k].T
        dW[k] = np.tensordot(x[..., mine], dy[..., its], axes=([0, 1], [0, 1]))
    return dx, dW


def blocks_by_einsum(dy, x, W):
    (B, T, _), (G, K, E) = x.shape, W.shape
    parts, arriving = x.reshape(B, T, G, K), dy.reshape(B, T, G, E)
    dx = np.einsum("btge,gke->btgk", arriving, W).reshape(x.shape)
    return dx, np.einsum("btgk,btge->gke", parts, arriving)


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
    "low_rank_backward": (low_rank_by_einsum, low_rank_by_loops, exercises.low_rank_by_matrix),
    "blocks_backward": (blocks_by_loops, blocks_by_einsum),
    "bag_backward": (bag_by_loops, bag_by_add_at),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_accepted_however_written(name):
    check_answers(name, RIGHT[name])


def test_every_exercise_has_been_solved_otherwise():
    assert set(RIGHT) == set(judge.chapters()["linear_and_embedding"])


# Wrong answers, as a learner gives them ---------------------------------------------------------------------


def p_0(e_0, e_1, scale):
    return 1 / (1 + exp(scale * e_0 * (e_1 - e_0)))


def twice(dh=lambda dy, W: dy @ W.T, dx=lambda dh, W: dh @ W.T, dW=None, bias=1, batch=lambda g: g.sum(0)):
    """The backward of a matrix used twice, with one thing wrong."""

    def backward(dy, x, W, b):
        h, first = x @ W + bias * b, dh(dy, W)
        shares = x.mT @ first + h.mT @ dy if dW is None else dW(x, h, dy, first, W)
        return dx(first, W), batch(shares), (first + dy).sum((0, 1))

    return backward


def low_rank(on_dh=1.0, on_dC=1.0, dx=lambda whole, low: whole + low, batch=lambda g: g.sum(0), of=None):
    def backward(dy, x, W, A, C, g):
        h, dh = x @ A, g * on_dh * dy @ C.T
        dA = (of(x, h) if of else x).mT @ dh
        return dx(dy @ W.T, dh @ A.T), batch(dA), batch(g * on_dC * h.mT @ dy)

    return backward


def blocks(shares=lambda g: g.sum((0, 1)), back=lambda d, x: d.reshape(x.shape), of=lambda W: W, spec="btgk"):
    def backward(dy, x, W):
        (B, T, _), (G, K, E) = x.shape, W.shape
        parts, arriving = x.reshape(B, T, G, K), dy.reshape(B, T, G, E)
        dx = np.einsum(f"btge,gke->{spec}", arriving, of(W))
        return back(dx, x), shares(np.einsum("btgk,btge->btgke", parts, arriving))

    return backward


def blocks_dealt(of_x=True, of_dx=True, of_dy=False):
    """Features of some arrays are dealt to the groups in turn, as by the slice h::H."""

    def parts(array, H, dealt):
        slices = [slice(h, None, H) for h in range(H)]
        n = array.shape[-1] // H
        return slices if dealt else [slice(h * n, (h + 1) * n) for h in range(H)]

    def backward(dy, x, W):
        H, dx, dW = len(W), np.zeros_like(x), np.zeros_like(W)
        for h, (mine, theirs, its) in enumerate(
            zip(parts(x, H, of_x), parts(x, H, of_dx), parts(dy, H, of_dy), strict=True)
        ):
            dx[..., theirs] = dy[..., its] @ W[h].T
            dW[h] = np.tensordot(x[..., mine], dy[..., its], axes=([0, 1], [0, 1]))
        return dx, dW

    return backward


def blocks_cut(cut):
    """dW cut from that of a whole matrix: `cut` makes (H, K, E) of it, as (H, K, H, E) and as it is."""

    def backward(dy, x, W):
        H, K, E = W.shape
        whole = np.einsum("bti,btj->ij", x, dy)
        return blocks_by_loops(dy, x, W)[0], cut(whole.reshape(H, K, H, E), whole, W)

    return backward


def blocks_from(at_x, at_y):
    """Slices that begin at multiples of `at_x(K, E)` and `at_y(K, E)`."""

    def backward(dy, x, W):
        H, K, E = W.shape
        dx, dW = np.zeros_like(x), np.zeros_like(W)
        for h in range(H):
            i, j = h * at_x(K, E), h * at_y(K, E)
            dW[h] = x[..., i : i + K].reshape(-1, K).T @ dy[..., j : j + E].reshape(-1, E)
            dx[..., i : i + K] = dy[..., j : j + E] @ W[h].T
        return dx, dW

    return backward


def blocks_in_turn(dy, x, W):
    (B, T, _), (H, K, E) = x.shape, W.shape
    parts, arriving = x.reshape(B, T, K, H), dy.reshape(B, T, E, H)
    dx = np.einsum("bteg,gke->btkg", arriving, W).reshape(x.shape)
    return dx, np.einsum("btkg,bteg->gke", parts, arriving)


def bag_by_tokens(number=lambda kept, row: len(kept), keep=lambda row: row[row != 0], put=np.add.at):
    def backward(dy, tokens, E):
        dE = np.zeros_like(E)
        for row, arriving in zip(tokens, dy, strict=True):
            kept = keep(row)
            if len(kept):
                put(dE, kept, arriving / number(kept, row))
        return dE

    return backward


def bag_by_ids(share, keep=lambda row: row[row != 0], put=np.add, dtype=float):
    """Once for each different id of a window: `share` is a function (how often, the ids of the window)."""

    def backward(dy, tokens, E):
        dE = np.zeros(E.shape, dtype)
        for row, arriving in zip(tokens, dy, strict=True):
            kept = keep(row)
            for v in np.unique(kept):
                dE[v] = put(dE[v], share((kept == v).sum(), kept) * arriving)
        return dE

    return backward


def bag_of_last(dy, tokens, E):
    for n in range(len(dy)):
        dE = bag_by_loops(dy[n : n + 1], tokens[n : n + 1], E)
    return dE


def bag_by_average(dy, tokens, E):
    number = np.mean([(row != 0).sum() for row in tokens])
    return bag_by_tokens(number=lambda kept, row: number)(dy, tokens, E)


def bag_by_occurrence(dy, tokens, E):
    how_often = np.bincount(tokens.ravel(), minlength=len(E))
    return bag_by_tokens(number=lambda kept, row: how_often[kept][:, None])(dy, tokens, E)


def bag_times_output(dy, tokens, E):
    y = np.array([E[row[row != 0]].mean(0) if row.any() else 0 * E[0] for row in tokens])
    return bag_by_loops(dy * y, tokens, E)


def put_whole(dE, kept, share):
    np.add.at(dE, kept, share.astype(int))


def put_once(dE, kept, share):
    dE[kept] += share


def put_last(dE, kept, share):
    dE[kept] = share


def bag_with_nan(dy, tokens, E):
    share = (tokens != 0) / (tokens != 0).sum(axis=1, keepdims=True)
    return (share[:, :, None] * (tokens[:, :, None] == np.arange(len(E)))).sum(1).T @ dy


WRONG = [
    ("tied_row", lambda e_0, e_1, scale: p_0(e_0, e_1, scale) * scale * e_0, "Only the head", ""),
    ("tied_row", lambda e_0, e_1, scale: scale * (2 * e_0 - e_1), "p_0 is missing", ""),
    ("tied_row", lambda e_0, e_1, scale: p_0(e_0, e_1, scale) * (2 * e_0 - e_1), "missing from both", ""),
    ("tied_row", lambda e_0, e_1, scale: p_0(e_0, e_1, scale) * scale * (2 * e_0 + e_1), "sign", "p_0 . e_1"),
    ("tied_row", lambda e_0, e_1, scale: 2 * p_0(e_0, e_1, scale) * scale * e_0, "A term is missing", "e_1"),
    ("tied_row", lambda e_0, e_1, scale: log(1 + exp(scale * e_0 * (e_0 - e_1))), "the loss itself", ""),
    ("twice_backward", twice(dW=lambda x, h, dy, dh, W: h.mT @ dy), "last use only. .* dx and db", ""),
    ("twice_backward", twice(dW=lambda x, h, dy, dh, W: 2 * (x.mT @ dy) @ W), "commute", ""),
    ("twice_backward", twice(bias=0), "the bias is missing", ""),
    ("twice_backward", twice(batch=lambda g: g), "keeps the axis of the sequences", ""),
    ("twice_backward", twice(batch=lambda g: g[-1]), "last sequence only", ""),
    ("twice_backward", twice(dx=lambda dh, W: dh), "passed twice", ""),
    ("twice_backward", twice(dh=lambda dy, W: dy @ W), "transposed", "`dh`"),
    (
        "twice_backward",
        twice(dW=lambda x, h, dy, dh, W: x.mT @ (dh @ W.T) + h.mT @ dy),
        "One array stands",
        "`dx` stands where `dh`",
    ),
    ("low_rank_backward", low_rank(dx=lambda whole, low: 0.6 * whole + low), "wrong place", "`g` belongs"),
    ("low_rank_backward", low_rank(dx=lambda whole, low: whole), "lost the way through A and C", ""),
    ("low_rank_backward", low_rank(dx=lambda whole, low: low), "lost the way through W", ""),
    ("low_rank_backward", low_rank(on_dh=1 / 0.6, on_dC=1 / 0.6), "g is missing from all", ""),
    ("low_rank_backward", low_rank(on_dC=0.6), "in dC twice", ""),
    ("low_rank_backward", low_rank(batch=lambda g: g.mean(0)), "averaged over the sequences", ""),
    ("low_rank_backward", low_rank(batch=lambda g: g[0]), "first sequence only", ""),
    ("low_rank_backward", low_rank(of=lambda x, h: h), "One array stands", "`h` stands where `x`"),
    ("blocks_backward", blocks_in_turn, "dealt to the groups in turn, 0, H, 2H", ""),
    ("blocks_backward", blocks_dealt(), "features of x are dealt .* those of dy are not", ""),
    ("blocks_backward", blocks_dealt(of_dx=False), "features of x are dealt .* dx is right", ""),
    ("blocks_backward", blocks_dealt(False, False, True), "features of dy are dealt", ""),
    (
        "blocks_backward",
        blocks_from(lambda K, E: K, lambda K, E: K),
        "slices of dy begin at multiples of K",
        "",
    ),
    (
        "blocks_backward",
        blocks_from(lambda K, E: E, lambda K, E: E),
        "slices of x begin at multiples of E",
        "",
    ),
    ("blocks_backward", blocks_cut(lambda m, whole, W: m.sum(2)), "those beside it", ""),
    ("blocks_backward", blocks_cut(lambda m, whole, W: m.sum(0).swapaxes(0, 1)), "above and below", ""),
    ("blocks_backward", blocks_cut(lambda m, whole, W: m[:, :, 0]), "first E columns", ""),
    ("blocks_backward", blocks_cut(lambda m, whole, W: m[0].swapaxes(0, 1)), "first K rows", ""),
    ("blocks_backward", blocks_cut(lambda m, whole, W: m), "each pair of groups", ""),
    ("blocks_backward", blocks_cut(lambda m, whole, W: whole), "that of a whole matrix", ""),
    (
        "blocks_backward",
        blocks_cut(lambda m, w, W: np.stack([w.reshape(len(W), *W.shape)[h, h] for h in range(len(W))])),
        "does not cut a matrix",
        "",
    ),
    ("blocks_backward", blocks(back=lambda d, x: d), r"dx stand still in two axes, \(H, K\)", ""),
    ("blocks_backward", blocks(back=lambda d, x: d.sum(2)), "In dx the groups are added up", ""),
    (
        "blocks_backward",
        blocks(back=lambda d, x: d.sum(2).reshape(-1, d.shape[-1])),
        "In dx the groups are added up",
        "",
    ),
    (
        "blocks_backward",
        blocks(back=lambda d, x: np.tile(d.sum(2), d.shape[2])),
        "In dx the groups are added up",
        "",
    ),
    ("blocks_backward", blocks(back=lambda d, x: d[:, :, -1]), "last group only", ""),
    ("blocks_backward", blocks(of=lambda W: W.sum(0) + 0 * W), "sum of the blocks", ""),
    ("blocks_backward", blocks(spec="gbtk"), "groups come first", ""),
    ("blocks_backward", blocks(shares=lambda g: g.sum(1)), "keeps the axis of the sequences", ""),
    ("blocks_backward", blocks(shares=lambda g: g.mean((0, 1))), "number of tokens", ""),
    ("blocks_backward", blocks(shares=lambda g: g[-1, -1]), "last token only", ""),
    ("blocks_backward", blocks(of=lambda W: W[:1].repeat(len(W), 0)), "weights of the first", ""),
    ("blocks_backward", blocks(shares=lambda g: g.sum((0, 1)).mT), "transposed", "`dW`"),
    ("bag_backward", bag_by_tokens(number=lambda kept, row: len(row)), "length of the window", ""),
    ("bag_backward", bag_by_tokens(number=lambda kept, row: 1), "Not divided", ""),
    ("bag_backward", bag_by_tokens(keep=lambda row: row), "Padding is treated", ""),
    ("bag_backward", bag_by_tokens(number=lambda kept, row: len(set(kept))), "different tokens", ""),
    ("bag_backward", bag_by_tokens(number=lambda kept, row: len(set(row))), "different ids", ""),
    ("bag_backward", bag_by_tokens(put=put_once), "counts once", ""),
    ("bag_backward", bag_by_tokens(put=put_last), "repeated tokens are lost", ""),
    (
        "bag_backward",
        bag_by_ids(lambda c, kept: 1 / len(np.unique(kept))),
        "the different ids of a window. An",
        "",
    ),
    (
        "bag_backward",
        bag_by_ids(lambda c, kept: 1 / len(np.unique(kept)), keep=lambda row: row),
        "the padding among them",
        "",
    ),
    ("bag_backward", bag_by_ids(lambda c, kept: c / len(kept), put=lambda old, new: new), "added, `.=`", ""),
    ("bag_backward", bag_by_ids(lambda c, kept: 1 / c), "token itself occurs in the window", ""),
    ("bag_backward", bag_by_ids(lambda c, kept: 1), "Not divided .* counts once", ""),
    ("bag_backward", bag_by_ids(lambda c, kept: c / len(kept), dtype=int), "cut to whole ones", ""),
    ("bag_backward", bag_by_tokens(put=put_whole), "cut to whole ones", ""),
    ("bag_backward", lambda *case: bag_by_loops(*case).astype(int), "cut to whole ones", ""),
    ("bag_backward", bag_of_last, "Only the last window", ""),
    ("bag_backward", bag_by_average, "average number of tokens", ""),
    ("bag_backward", bag_by_occurrence, "in all windows, and not", ""),
    ("bag_backward", bag_times_output, "multiplied by the output", ""),
    ("bag_backward", lambda *case: -exercises.bag_backward(*case), "sign of a whole line", ""),
    ("bag_backward", lambda *case: np.roll(exercises.bag_backward(*case), -1, 0), "moved by one", ""),
    ("bag_backward", bag_with_nan, "has the output 0", ""),
]


@pytest.mark.parametrize("name, answer, kind, where", WRONG, ids=range(len(WRONG)))
def test_a_wrong_answer_is_told_what_is_wrong(name, answer, kind, where):
    check_answers(name, [answer], wrong=(kind, where))
