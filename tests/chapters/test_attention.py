"""The exercises of chapter 08: derived again, solved otherwise, and answered wrongly."""

import itertools

import numpy as np
import pytest
import sympy
from judging import check_answers
from sympy import diff, exp, log, symbols

from handgrad.chapters.attention import exercises
from handgrad.course import judge
from handgrad.ops.attention import attention as shipped_attention
from handgrad.ops.attention import attention_backward

# The answers that are no shipped line, derived a second time ------------------------------------------------


def test_the_parts_of_attention_are_the_whole():
    """The answers chained are the shipped backward pass."""
    for case in exercises.ATTENTION_GRADIENTS.cases:
        dy, q, k, v, mask = case.inputs
        y, cache = shipped_attention(q, k, v, mask)
        da, dv = exercises.attention_da_dv(dy, cache["a"], v)
        dq, dk = exercises.attention_dq_dk(exercises.softmax_ds(da, cache["a"]), q, k)
        for mine, shipped in zip((dq, dk, dv), attention_backward(dy, cache)):
            np.testing.assert_allclose(mine, shipped, rtol=1e-12, atol=1e-14)


def test_the_derivations():
    """The variance by adding over all outcomes of coins of that mean and spread; the entry by SymPy."""
    sigma_q, sigma_k, mu_q, mu_k, s_1, s_2, s_3 = symbols("sigma_q sigma_k mu_q mu_k s_1 s_2 s_3")
    for width in (1, 2):
        outcomes = []
        for signs in itertools.product((1, -1), repeat=2 * width):
            q = [mu_q + sign * sigma_q for sign in signs[:width]]
            k = [mu_k + sign * sigma_k for sign in signs[width:]]
            outcomes.append(sum(a * b for a, b in zip(q, k)))
        mean = sum(outcomes) / len(outcomes)
        variance = sum((outcome - mean) ** 2 for outcome in outcomes) / len(outcomes)
        assert sympy.expand(variance - exercises.score_variance(width, sigma_q, sigma_k, mu_q, mu_k)) == 0
    weight = exp(s_1) / (exp(s_1) + exp(s_2) + exp(s_3))
    assert sympy.simplify(diff(weight, s_2) - exercises.softmax_jacobian_entry(s_1, s_2, s_3)) == 0


def test_the_cases_hold_what_the_book_promises():
    """Repeated keys, masks, a fully masked row, large scores."""
    cases = {case.name: case.inputs for case in exercises.MASKED_ATTENTION.cases}
    _, k, v, mask = cases["a batch"]
    assert np.array_equal(k[:, 0], k[:, -1]) and np.array_equal(v[:, 0], v[:, -1])
    assert not mask.all() and mask.any(-1).all()
    assert not cases["a query that may attend to nothing"][3].any(-1).all()
    q, k, _, _ = cases["scores of many thousands"]
    assert np.abs(q @ k.mT).max() > 1e5
    assert any((a == 0).any() for _, a in (case.inputs for case in exercises.SOFTMAX_DS.cases))


# Right answers, written otherwise ---------------------------------------------------------------------------


def softmax_by_matrix(da, a):
    jacobian = a[..., :, None] * np.eye(a.shape[-1]) - a[..., :, None] * a[..., None, :]
    return np.einsum("btij,btj->bti", jacobian, da)


def softmax_expanded(da, a):
    return a * da - a * np.einsum("bts,bts->bt", a, da)[..., np.newaxis]


def da_dv_by_einsum(dy, a, v):
    return np.einsum("bte,bse->bts", dy, v), np.einsum("bts,bte->bse", a, dy)


def da_dv_by_loops(dy, a, v):
    pairs = [(dy[b] @ v[b].T, a[b].T @ dy[b]) for b in range(len(dy))]
    return [np.stack(parts) for parts in zip(*pairs)]


def dq_dk_scaled_first(ds, q, k):
    du = ds / np.sqrt(k.shape[2])
    return np.matmul(du, k), np.swapaxes(du, 1, 2) @ q


def dq_dk_by_loops(ds, q, k):
    dq, dk = np.zeros_like(q), np.zeros_like(k)
    for b, t, s in np.ndindex(*ds.shape):
        dq[b, t] += ds[b, t, s] * k[b, s] / q.shape[-1] ** 0.5
        dk[b, s] += ds[b, t, s] * q[b, t] / q.shape[-1] ** 0.5
    return dq, dk


def attention_by_rows(q, k, v, mask):
    y, a = np.zeros((*q.shape[:2], v.shape[-1])), np.zeros(mask.shape)
    for b, t in np.ndindex(*mask.shape[:2]):
        seen = np.flatnonzero(mask[b, t])
        if seen.size:
            s = k[b, seen] @ q[b, t] / np.sqrt(q.shape[-1])
            e = np.exp(s - s.max())
            a[b, t, seen] = e / e.sum()
            y[b, t] = a[b, t] @ v[b]
    return y, a


def attention_with_where(q, k, v, mask):
    s = np.einsum("btk,bsk->bts", q, k) * q.shape[-1] ** -0.5
    top = np.max(s, axis=-1, keepdims=True, where=mask, initial=-1e300)
    e = np.exp(np.minimum(s - top, 0)) * mask
    total = e.sum(-1, keepdims=True)
    a = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    return np.einsum("bts,bse->bte", a, v), a


def gradients_in_one_piece(dy, q, k, v, mask):
    a, root = attention_by_rows(q, k, v, mask)[1], np.sqrt(q.shape[-1])
    y = a @ v
    ds = a * (dy @ v.mT - (dy * y).sum(-1, keepdims=True))  # the row sum of A ∘ dA is ⟨dy, y⟩
    return np.einsum("bts,bsk->btk", ds, k) / root, np.einsum("bts,btk->bsk", ds, q) / root, a.mT @ dy


def gradients_by_loops(dy, q, k, v, mask):
    grads = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for b in range(len(q)):
        one = gradients_in_one_piece(dy[b][None], q[b][None], k[b][None], v[b][None], mask[b][None])
        for total, part in zip(grads, one):
            total[b] = part[0]
    return grads


K, sigma_q, sigma_k, mu_q, mu_k, s_1, s_2, s_3 = symbols("K sigma_q sigma_k mu_q mu_k s_1 s_2 s_3")
Z = exp(s_1) + exp(s_2) + exp(s_3)
RIGHT = {
    "softmax_ds": (softmax_by_matrix, softmax_expanded),
    "attention_da_dv": (da_dv_by_einsum, da_dv_by_loops),
    "attention_dq_dk": (dq_dk_scaled_first, dq_dk_by_loops),
    "masked_attention": (attention_by_rows, attention_with_where),
    "attention_gradients": (gradients_in_one_piece, gradients_by_loops),
    "score_variance": (
        lambda K, a, b, m, n: K * ((a**2 + m**2) * (b**2 + n**2) - m**2 * n**2),
        K * (sigma_q * sigma_k) ** 2 + K * ((sigma_q * mu_k) ** 2 + (sigma_k * mu_q) ** 2),
    ),
    "softmax_jacobian_entry": (
        lambda s_1, s_2, s_3: diff(exp(s_1) / (exp(s_1) + exp(s_2) + exp(s_3)), s_2),
        -1 / (exp(s_1 - s_2) + 1 + exp(s_3 - s_2)) / (1 + exp(s_2 - s_1) + exp(s_3 - s_1)),
        -exp(s_1 + s_2 - 2 * log(Z)),
        sympy.Derivative(exp(s_1) / Z, s_2),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_accepted_however_written(name):
    check_answers(name, RIGHT[name])


def test_every_exercise_has_been_solved_otherwise():
    assert set(RIGHT) == set(judge.chapters()["attention"])


# Wrong answers that are on no list --------------------------------------------------------------------------


def weights_of(q, k, mask, hidden=-np.inf, top=True):
    s = np.where(mask, q @ k.mT / np.sqrt(q.shape[-1]), hidden)
    largest = np.maximum(s.max(-1, keepdims=True), -1e9)
    e = np.exp(s - largest) if top else np.exp(s)
    total = e.sum(-1, keepdims=True)
    return np.nan_to_num(e / np.where(total == 0, 1, total))


def gradients(dq_scale=-0.5, dk_scale=-0.5, hidden=-np.inf):
    """Attention's backward as a learner writes it, with one thing wrong."""

    def backward(dy, q, k, v, mask):
        a, K = weights_of(q, k, mask, hidden), q.shape[-1]
        da = dy @ v.mT
        ds = a * (da - (a * da).sum(-1, keepdims=True))
        return K**dq_scale * (ds @ k), K**dk_scale * (ds.mT @ q), a.mT @ dy

    return backward


def attended(*options, **more):
    def forward(q, k, v, mask):
        a = weights_of(q, k, mask, *options, **more)
        return a @ v, a

    return forward


UNLISTED = [
    (
        "softmax_ds",
        lambda da, a: a * da - (a * da).sum(-1, keepdims=True),
        "only a part",
        "`a` does not reach",
    ),
    ("softmax_ds", lambda da, a: a * (da - (a * da).sum()), "wrong axis", "the whole array"),
    ("softmax_ds", lambda da, a: a * (da - (a * da).sum(-1)), "keepdims", ""),
    ("softmax_ds", lambda da, a: a * (da + (a * da).sum(-1, keepdims=True)), "A sign is wrong", "sum"),
    ("softmax_ds", lambda da, a: -a * (da - (a * da).sum(-1, keepdims=True)), "sign", ""),
    ("attention_da_dv", lambda dy, a, v: (a.mT @ dy, dy @ v.mT), "wrong order", ""),
    (
        "attention_da_dv",
        lambda dy, a, v: (dy @ v.mT, (a.mT @ dy).mT),
        "transposed",
        "`a.mT @ dy` is transposed",
    ),
    (
        "attention_dq_dk",
        lambda ds, q, k: (ds @ k, ds.mT @ q / np.sqrt(q.shape[-1])),
        "A factor is missing",
        "dq",
    ),
    (
        "attention_dq_dk",
        lambda ds, q, k: (ds @ k / np.sqrt(q.shape[-1]), ds.mT @ k / np.sqrt(q.shape[-1])),
        "One array stands where another should",
        "`k` stands where `q` should",
    ),
    (
        "attention_gradients",
        gradients(dk_scale=0.5),
        "divided, or the other way round. dq and dv are",
        "`dk`",
    ),
    ("attention_gradients", gradients(hidden=-1e9), "A large negative number stands for -∞", ""),
    (
        "attention_gradients",
        gradients(0, 0, -1e9),
        "^A large negative number stands.* Besides: A factor is missing.",
        "",
    ),
    ("masked_attention", attended(top=False), "exp overflows", ""),
    (
        "score_variance",
        lambda K, a, b, m, n: K * (a**2 + m**2) * (b**2 + n**2) - (m * n) ** 2,
        "only a part",
        "`K` does not reach",
    ),
]


@pytest.mark.parametrize("name, answer, kind, where", UNLISTED, ids=range(len(UNLISTED)))
def test_a_mistake_on_no_list_is_found(name, answer, kind, where):
    check_answers(name, [answer], wrong=(kind, where))
