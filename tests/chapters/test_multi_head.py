"""Chapter 10: its exercises derived again, solved otherwise, answered wrongly; what it draws and measures."""

import numpy as np
import pytest
import torch
from judging import check_answers

from handgrad import ops
from handgrad.chapters.multi_head import columns, exercises, faults, figures, look_back, turning
from handgrad.course import judge

# The answers, derived a second time by automatic differentiation ------------------------------------------


def fused_loss(dq, dk, dv, fused):
    q, k, v = (z.unflatten(-1, (dq.shape[1], -1)).transpose(1, 2) for z in fused.chunk(3, -1))
    return (dq * q + dk * k + dv * v).sum()


def test_the_fused_gradient():
    for case in exercises.FUSED_GRADIENT.cases:
        parts = [torch.tensor(x) for x in case.inputs]
        B, H, T, K = parts[0].shape
        fused = torch.zeros(B, T, 3 * H * K, dtype=torch.float64, requires_grad=True)
        (wanted,) = torch.autograd.grad(fused_loss(*parts, fused), fused)
        np.testing.assert_array_equal(exercises.fused_gradient(*case.inputs), wanted)


def gate_loss(dy, o, gate, W_O):
    return (dy * ((gate[:, None, None] * o).transpose(1, 2).flatten(-2) @ W_O)).sum()


def mixed_loss(ds, u, P):
    return (ds * torch.tensordot(u, P, dims=([1], [1])).permute(0, 3, 1, 2)).sum()


def latent_loss(dk, dv, x, W_C, W_K, W_V):
    return (dk * (x @ W_C @ W_K) + dv * (x @ W_C @ W_V)).sum()


def shared_loss(dy, q, m):
    m = m[:, None].expand(*q.shape[:2], *m.shape[1:])
    return (dy * torch.nn.functional.scaled_dot_product_attention(q, m, m)).sum()


@pytest.mark.parametrize(
    "exercise, loss, upstream",
    [
        (exercises.GATE_GRADIENTS, gate_loss, 1),
        (exercises.MIXED_GRADIENTS, mixed_loss, 1),
        (exercises.LATENT_GRADIENTS, latent_loss, 2),
        (exercises.SHARED_GRADIENTS, shared_loss, 1),
    ],
    ids=["gates", "mixed", "latent", "shared"],
)
def test_what_the_chapter_does_not_show_by_autograd(exercise, loss, upstream):
    for case in exercise.cases:
        arrived, given = [
            [torch.tensor(x) for x in part] for part in (case.inputs[:upstream], case.inputs[upstream:])
        ]
        for x in given:
            x.requires_grad_()
        wanted = torch.autograd.grad(loss(*arrived, *given), given)
        for gradient, dx in zip(exercise.answer(*case.inputs), wanted, strict=True):
            np.testing.assert_allclose(gradient, dx, rtol=1e-10, atol=1e-11)


# Solved otherwise -----------------------------------------------------------------------------------------


def fused_by_loops(dq, dk, dv):
    B, H, T, K = dq.shape
    out = np.empty((B, T, 3 * H * K))
    for third, part in enumerate((dq, dk, dv)):
        for b, h, t, c in np.ndindex(*part.shape):
            out[b, t, third * H * K + h * K + c] = part[b, h, t, c]
    return out


def gates_by_loops(dy, o, gate, W_O):
    K, do, dgate, dW = o.shape[3], np.empty_like(o), np.zeros_like(gate), np.zeros_like(W_O)
    for h, g in enumerate(gate):
        W = W_O[h * K : (h + 1) * K]
        do[:, h] = g * dy @ W.T
        dgate[h] = np.sum(dy * (o[:, h] @ W))
        for b in range(len(dy)):
            dW[h * K : (h + 1) * K] += g * o[b, h].T @ dy[b]
    return do, dgate, dW


def gates_by_merge(dy, o, gate, W_O):
    merged, cache = ops.merge_heads(gate[:, None, None] * o)
    dmerged, dW, _ = ops.linear_backward(dy, ops.linear(merged, W_O)[1])
    back = ops.merge_heads_backward(dmerged, cache)
    return gate[:, None, None] * back, np.einsum("bhtk,bhtk->h", back, o), dW


def mixed_by_loops(ds, u, P):
    du, dP = np.zeros_like(u), np.zeros_like(P)
    for e, h in np.ndindex(*P.shape):
        du[:, h] += P[e, h] * ds[:, e]
        dP[e, h] = np.vdot(ds[:, e], u[:, h])
    return du, dP


def mixed_by_axes(ds, u, P):
    return np.moveaxis(np.moveaxis(ds, 1, -1) @ P, -1, 1), np.tensordot(ds, u, ([0, 2, 3], [0, 2, 3]))


def latent_by_linear(dk, dv, x, W_C, W_K, W_V):
    c, down = ops.linear(x, W_C)
    dc_k, dW_K, _ = ops.linear_backward(dk, ops.linear(c, W_K)[1])
    dc_v, dW_V, _ = ops.linear_backward(dv, ops.linear(c, W_V)[1])
    dx, dW_C, _ = ops.linear_backward(dc_k + dc_v, down)
    return dx, dW_C, dW_K, dW_V


def latent_by_rows(dk, dv, x, W_C, W_K, W_V):
    rows, dk_, dv_ = (z.reshape(-1, z.shape[-1]) for z in (x, dk, dv))
    wide = np.concatenate([dk_, dv_], 1) @ np.concatenate([W_K, W_V], 1).T
    c = rows @ W_C
    return (wide @ W_C.T).reshape(x.shape), rows.T @ wide, c.T @ dk_, c.T @ dv_


def shared_by_copies(dy, q, m):
    memory, copied = ops.repeat_heads(m[:, None], q.shape[1])
    dq, dk, dv = ops.attention_backward(dy, ops.attention(q, memory, memory)[1])
    return dq, ops.repeat_heads_backward(dk + dv, copied)[:, 0]


def shared_by_loops(dy, q, m):
    dq, dm, root = np.zeros_like(q), np.zeros_like(m), np.sqrt(q.shape[-1])
    for b, h, t in np.ndindex(*q.shape[:3]):
        s = m[b] @ q[b, h, t] / root
        a = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
        da = m[b] @ dy[b, h, t]
        ds = a * (da - a @ da)
        dq[b, h, t] = ds @ m[b] / root
        dm[b] += np.outer(ds, q[b, h, t]) / root + np.outer(a, dy[b, h, t])
    return dq, dm


RIGHT = {
    "fused_gradient": (
        fused_by_loops,
        lambda *d: np.concatenate([x.swapaxes(1, 2).reshape(len(x), x.shape[2], -1) for x in d], 2),
    ),
    "gate_gradients": (gates_by_loops, gates_by_merge),
    "mixed_gradients": (mixed_by_loops, mixed_by_axes),
    "latent_gradients": (latent_by_linear, latent_by_rows),
    "shared_gradients": (shared_by_copies, shared_by_loops),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_accepted_however_written(name):
    check_answers(name, RIGHT[name])


def test_every_exercise_has_been_solved_otherwise():
    assert set(RIGHT) == set(judge.chapters()["multi_head"])


# Wrong answers, as learners write them --------------------------------------------------------------------


def gates(change):
    """From the right do, dgate, dW_O, and the gate."""
    return lambda dy, o, gate, W_O: change(*gates_by_merge(dy, o, gate, W_O), gate[:, None, None], len(dy))


def latent(change):
    def backward(dk, dv, x, W_C, W_K, W_V):
        return change(latent_by_linear(dk, dv, x, W_C, W_K, W_V), x @ W_C, x, dk, dv)

    return backward


def shared(change):
    def backward(dy, q, m):
        memory = np.broadcast_to(m[:, None], (*q.shape[:2], *m.shape[1:]))
        _, cache = ops.attention(q, memory, memory)
        return change(*ops.attention_backward(dy, cache), cache["a"], memory, q.shape[-1] ** 0.5)

    return backward


def gates_by_tile(dy, o, gate, W_O):
    """One gate for each column, in the wrong order: np.tile where np.repeat belongs."""
    merged, cache = ops.merge_heads(o)
    columns = np.tile(gate, o.shape[3])
    dmerged = dy @ W_O.T
    dgate = (merged * dmerged).sum((0, 1)).reshape(o.shape[1], -1).sum(1)
    do = ops.merge_heads_backward(columns * dmerged, cache)
    return do, dgate, np.einsum("btk,btd->kd", columns * merged, dy)


def gates_by_tile_throughout(dy, o, gate, W_O):
    do, _, dW_O = gates_by_tile(dy, o, gate, W_O)
    moved = ops.merge_heads(o)[0] * (dy @ W_O.T)
    return do, moved.sum((0, 1)).reshape(o.shape[3], -1).sum(0), dW_O


def gates_joined_by_reshape(dy, o, gate, W_O):
    do, dgate, _ = gates_by_merge(dy, o, gate, W_O)
    rows = (gate[:, None, None] * o).reshape(*dy.shape[:2], -1)
    return do, dgate, np.einsum("btk,btd->kd", rows, dy)


def mixed_through_softmax(ds, u, P):
    s = np.einsum("eh,bhts->bets", P, u)
    return mixed_by_axes(ops.softmax_backward(ds, ops.softmax(s)[1]), u, P)


def mixed_untransposed(ds, u, P):
    B, E, T, S = ds.shape
    return (P @ ds.reshape(B, E, -1)).reshape(u.shape), mixed_by_axes(ds, u, P)[1]


def mixed_by_exchanged_loops(ds, u, P):
    du = np.zeros_like(u)
    for e in range(P.shape[0]):
        for h in range(P.shape[1]):
            du[:, h] += P[h, e] * ds[:, e]
    return du, mixed_by_axes(ds, u, P)[1]


def latent_turned(dk, dv, x, W_C, W_K, W_V):
    dc = dk @ W_K.T + dv @ W_V.T
    right = latent_by_linear(dk, dv, x, W_C, W_K, W_V)
    return right[0], x.reshape(x.shape[2], -1) @ dc.reshape(-1, dc.shape[2]), *right[2:]


WRONG = [
    (
        "fused_gradient",
        lambda q, k, v: fused_by_loops(q / q.shape[3] ** 0.5, k / q.shape[3] ** 0.5, v),
        "scale belongs",
    ),
    ("gate_gradients", gates_by_tile, "np.tile"),
    ("gate_gradients", gates_by_tile_throughout, "np.tile. does, in dgate too"),
    ("gate_gradients", gates_joined_by_reshape, "joined by a reshape alone"),
    ("mixed_gradients", mixed_through_softmax, "backward of the softmax"),
    ("mixed_gradients", mixed_untransposed, "A matrix is transposed"),
    (
        "mixed_gradients",
        lambda ds, u, P: ((P[:, :, None, None] * ds[:, None]).sum(2), mixed_by_axes(ds, u, P)[1]),
        "passes its transpose",
    ),
    (
        "mixed_gradients",
        lambda ds, u, P: (P.sum(0)[:, None, None] * ds.sum(1, keepdims=True), mixed_by_axes(ds, u, P)[1]),
        "multiplies two sums over the mixed heads",
    ),
    (
        "mixed_gradients",
        lambda ds, u, P: (
            mixed_by_axes(ds, u, P)[0],
            ds.reshape(len(P), -1) @ u.reshape(P.shape[1], -1).T,
        ),
        "mixes sequences and heads",
    ),
    ("mixed_gradients", mixed_by_exchanged_loops, "indices of P are exchanged"),
    (
        "mixed_gradients",
        lambda ds, u, P: (
            np.broadcast_to(P.sum() * ds.sum(1, keepdims=True), u.shape),
            mixed_by_axes(ds, u, P)[1],
        ),
        "sum of all of P",
    ),
    ("latent_gradients", latent_turned, "transposed by a reshape"),
    (
        "shared_gradients",
        shared(lambda dq, dk, dv, a, m, r: (dq / a.shape[1] ** 0.5, (dk / a.shape[1] ** 0.5 + dv).sum(1))),
        "scale on the way back",
    ),
    ("fused_gradient", lambda *d: np.stack([ops.merge_heads(x)[0] for x in d]), "along a new axis"),
    ("fused_gradient", lambda *d: np.concatenate(d, -1), "heads are not joined"),
    ("fused_gradient", lambda *d: sum(ops.merge_heads(x)[0] for x in d), "parts are added"),
    (
        "fused_gradient",
        lambda *d: np.concatenate([ops.merge_heads(x)[0] for x in d]),
        "sequences of the batch",
    ),
    ("fused_gradient", lambda q, k, v: fused_by_loops(k, q, v), "Queries and keys"),
    ("gate_gradients", gates(lambda do, dg, dW, g, B: (do / g, dg, dW)), "gate is missing in do"),
    ("gate_gradients", gates(lambda do, dg, dW, g, B: (do, dg * g.ravel(), dW)), "its own gradient"),
    ("gate_gradients", gates(lambda do, dg, dW, g, B: (do, dg, dW / B)), "mean over the batch"),
    ("gate_gradients", gates(lambda do, dg, dW, g, B: (do, -dg, dW)), "Descent taken ahead"),
    ("gate_gradients", gates(lambda do, dg, dW, g, B: (do, dg.sum(), dW)), "wrong axis"),
    ("gate_gradients", gates(lambda do, dg, dW, g, B: (do, 0 * dg, dW)), "dgate is 0 everywhere"),
    (
        "mixed_gradients",
        lambda ds, u, P: (mixed_by_axes(ds, u, P)[0], mixed_by_axes(ds, u, P)[1].T),
        "transposed",
    ),
    ("mixed_gradients", lambda ds, u, P: mixed_by_axes(ds, u, P)[::-1], "wrong order"),
    (
        "mixed_gradients",
        lambda ds, u, P: (np.einsum("eh,bhts->bets", P, u), mixed_by_axes(ds, u, P)[1]),
        "forward",
    ),
    ("latent_gradients", latent(lambda d, c, x, dk, dv: (d[0], d[1].T, *d[2:])), "transposed"),
    ("latent_gradients", latent(lambda d, c, x, dk, dv: (2 * d[0], *d[1:])), "factor too many"),
    ("latent_gradients", latent(lambda d, c, x, dk, dv: (*d[:2], d[3], d[2])), "changed places"),
    ("latent_gradients", latent(lambda d, c, x, dk, dv: (*d[:2], c.mT @ dk, c.mT @ dv)), "sum"),
    ("shared_gradients", shared(lambda dq, dk, dv, a, m, r: (dq, dk.sum(1))), "as values is missing"),
    ("shared_gradients", shared(lambda dq, dk, dv, a, m, r: (dq, dv.sum(1))), "as keys is missing"),
    ("shared_gradients", shared(lambda dq, dk, dv, a, m, r: (dq, (dk + dv).mean(1))), "heads are averaged"),
    ("shared_gradients", shared(lambda dq, dk, dv, a, m, r: (dq, dk + dv)), "heads are not added"),
    (
        "shared_gradients",
        shared(lambda dq, dk, dv, a, m, r: (r * dq, (r * dk + dv).sum(1))),
        "scale is missing",
    ),
    ("shared_gradients", shared(lambda dq, dk, dv, a, m, r: (a @ m, (dk + dv).sum(1))), "dq is the forward"),
    ("shared_gradients", shared(lambda dq, dk, dv, a, m, r: (-dq, (dk + dv).sum(1))), "sign of a whole line"),
]


@pytest.mark.parametrize("name, answer, kind", WRONG, ids=range(len(WRONG)))
def test_a_wrong_answer_is_told_what_is_wrong(name, answer, kind):
    check_answers(name, [answer], wrong=(kind, ""))


# What the chapter draws and measures ----------------------------------------------------------------------


def test_the_wanted_bits_are_those_of_the_tokens_before():
    c = look_back.bits(np.random.default_rng(1), B=3)
    answer = look_back.wanted(c)
    assert c.shape == (3, 12, 4) and answer.shape == (3, 8, 16)
    for t in range(8):
        for n in range(1, 5):
            np.testing.assert_array_equal(answer[:, t, 4 * n - 4 : 4 * n], c[:, t + 4 - n])


def test_the_table_keeps_the_bits_apart():
    np.testing.assert_allclose(look_back.TABLE @ look_back.TABLE.T, np.eye(4), atol=1e-12)


def test_heads_that_begin_alike_are_copies():
    params = look_back.alike(look_back.initial(np.random.default_rng(2)), 4)
    for name, x in params.items():
        if name != "b_O":
            axis = 0 if name == "W_O" else -1
            assert np.ptp(np.stack(np.split(x, 4, axis)), axis=0).max() == 0


def test_the_torch_loss_is_ours():
    params = look_back.initial(np.random.default_rng(3))
    c = look_back.bits(np.random.default_rng(4))
    x = 2 * c @ look_back.TABLE
    y, _ = ops.multi_head(x, x, params, 2, mask=ops.causal_mask(12), angles=look_back.turns(8))
    ours = np.mean((y[:, 4:] - look_back.wanted(c)) ** 2)
    theirs = look_back.torch_loss({name: torch.tensor(p) for name, p in params.items()}, c, 2)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_the_printed_formulas_are_wrong_and_the_corrected_right():
    found = columns.printed_and_right(K=3, D=4, T=5, seed=7)
    assert all(printed > 0.1 and right < 1e-8 for printed, _, right in found.values())
    np.testing.assert_allclose(found["dA, from the right dQ"][:2], (1 - 3**-0.5, 1), rtol=1e-6)


def test_a_right_backward_is_right_at_all_sizes_of_the_table():
    assert max(map(faults.errors, faults.SIZES.values())) < 1e-8


def test_a_reshape_alone_is_its_own_inverse_pair():
    x = np.random.default_rng(5).standard_normal((2, 6, 12))
    np.testing.assert_array_equal(faults.joined_without_transpose(faults.cut_without_transpose(x, 3)), x)
    assert not np.array_equal(faults.cut_without_transpose(x, 3), ops.split_heads(x, 3)[0])


def test_the_turned_head_moves_the_others_only_through_dy():
    a, ds, dy = turning.answers(0)
    b, other, _ = turning.answers(90, dy)
    np.testing.assert_array_equal(a[1:], b[1:])
    np.testing.assert_array_equal(ds[1:], other[1:])
    assert abs(turning.answers(90)[1][1:] - ds[1:]).max() > 0.01


def test_the_figures_draw_what_they_are_given():
    shown = [text.get_text() for text in figures.cut(T=2, H=2, K=3).axes[0].texts]
    assert [text for text in shown if text.isdigit()] == [str(n) for n in range(12)] + [
        *"012678",
        "3",
        "4",
        "5",
        "9",
        "10",
        "11",
    ]
    texts = {text.get_text() for text in figures.integers().axes[0].texts}
    assert {"(−3, 3)", "(3, −3)", "(5, −2)", "(2, 1)"} <= texts
    maps = figures.looks({"H = 2": np.eye(2, 3)})
    np.testing.assert_array_equal(maps.axes[0].images[0].get_array(), np.eye(2, 3))


def test_the_balanced_lines_have_exact_moments():
    c = look_back.balanced(np.random.default_rng(6)).reshape(64, 48)
    assert set(np.unique(c)) == {-1, 1} and not c.sum(axis=0).any()
    np.testing.assert_array_equal(c.T @ c, 64 * np.eye(48))


@pytest.mark.parametrize("H", [1, 2, 4])
def test_heads_made_by_hand_copy_one_token_each(H):
    c = look_back.bits(np.random.default_rng(7))
    x = 2 * c @ look_back.TABLE
    params = look_back.by_hand(H, 10)
    y, cache = ops.multi_head(x, x, params, H, mask=ops.causal_mask(12), angles=look_back.turns(16 // H))
    np.testing.assert_allclose(y[:, 4:, : 4 * H], look_back.wanted(c)[..., : 4 * H], atol=1e-10)
    assert not y[..., 4 * H :].any()
    for h in range(H):
        assert np.diagonal(cache["attended"]["a"][:, h], -h - 1, 1, 2).min() > 0.99


def test_refitting_finds_the_best_last_matrix():
    rng = np.random.default_rng(8)
    o, W, b = rng.standard_normal((5, 3, 4)), rng.standard_normal((4, 2)), rng.standard_normal(2)
    best = look_back.refitted({"W_O": None, "W_Q": 1}, o, o @ W + b)
    np.testing.assert_allclose(best["W_O"], W, rtol=1e-10)
    np.testing.assert_allclose(best["b_O"], b, rtol=1e-10)
    assert best["W_Q"] == 1
