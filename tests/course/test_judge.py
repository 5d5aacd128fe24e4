"""The exercises: right answers are accepted however written, wrong ones refused with their own diagnosis.

The references are the shipped lines, which are proved elsewhere; those that are not a shipped line are
derived here a second time.
"""

import dataclasses
import itertools
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
import sympy
from nbclient import NotebookClient
from sympy import I, Matrix, Rational, Symbol, diff, exp, log, sqrt, symbols

from handgrad.course.judge import CHAPTERS, EXERCISES, attention, check, normalization
from handgrad.course.judge.derivation import Derivation
from handgrad.course.judge.factor import name_factor
from handgrad.course.judge.function import Case, Exercise, attempt, diagnosis_of
from handgrad.course.judge.verdict import Verdict
from handgrad.ops.attention import attention as shipped_attention
from handgrad.ops.attention import attention_backward
from handgrad.ops.normalization import layer_norm, layer_norm_backward

ROOT = Path(__file__).parents[2]
FUNCTIONS = [e for e in EXERCISES.values() if isinstance(e, Exercise)]
DERIVATIONS = [e for e in EXERCISES.values() if isinstance(e, Derivation)]


def by_name(exercise):
    return exercise.name


# The exercises as data --------------------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=by_name)
def test_the_reference_is_right(exercise):
    verdict = exercise.judge(exercise.reference)
    assert verdict.status == "right"
    assert verdict.value is exercise.reference


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapter_has_enough_to_do(chapter):
    assert len(CHAPTERS[chapter]) >= 5
    assert sum(isinstance(exercise, Derivation) for exercise in CHAPTERS[chapter]) >= 2


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=by_name)
def test_every_exercise_has_hints_and_distinct_wrong_answers(exercise):
    texts = [w[1] if isinstance(w, tuple) else diagnosis_of(w) for w in exercise.wrong]
    assert len(texts) >= 6
    assert len(set(texts)) == len(texts)
    assert len(exercise.hints) >= 2


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=by_name)
def test_no_case_is_vacuous(exercise):
    """Each case expects numbers other than 0, is the same every time, and the cases differ in size."""
    for inputs in exercise.inputs():
        run = attempt(exercise.reference, inputs, exercise.outputs)
        assert all(np.any(array) for array in run.arrays.values())
        assert all(np.all(np.isfinite(array)) and array.dtype == np.float64 for array in run.arrays.values())
    for first, second in zip(exercise.inputs(), exercise.inputs()):
        assert all(np.array_equal(a, b) for a, b in zip(first, second))
    sizes = [case.sizes for case in exercise.cases]
    assert any(size["B"] > 1 for size in sizes)
    for letter in sizes[0]:
        assert len({size[letter] for size in sizes}) > 1


def test_the_cases_hold_what_the_book_promises():
    """Repeated tokens, parameters other than 1, masks, a fully masked row, large scores."""
    for _, x, gamma, eps in normalization.LAYER_NORM_DX.inputs()[1:]:
        assert np.array_equal(x[0, 0], x[0, -1]) or np.ptp(x[0, 0]) == 0
        assert np.all(gamma != 1) and eps > 0
    rows = [mask for _, _, _, mask in attention.MASKED_ATTENTION.inputs()]
    assert any(not row.any() for mask in rows for row in mask.reshape(-1, mask.shape[-1]))
    assert all(not mask.all() for mask in rows if mask.shape[-1] > 2)
    assert any(np.abs(q @ k.mT).max() > 1e3 for q, k, _, _ in attention.MASKED_ATTENTION.inputs())


# The references that are no shipped line, derived a second time ---------------------------------------------


def test_the_parts_of_attention_are_the_whole():
    """The references chained are the shipped backward pass."""
    for dy, q, k, v, mask in attention.ATTENTION_GRADIENTS.inputs():
        y, cache = shipped_attention(q, k, v, mask)
        da, dv = attention.attention_da_dv(dy, cache["a"], v)
        dq, dk = attention.attention_dq_dk(attention.softmax_ds(da, cache["a"]), q, k)
        for mine, shipped in zip((dq, dk, dv), attention_backward(dy, cache)):
            np.testing.assert_allclose(mine, shipped, rtol=1e-12, atol=1e-14)


def test_the_projection_is_the_gradient_without_epsilon():
    rng = np.random.default_rng(0)
    dy, x = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3, 5))
    _, cache = layer_norm(x, np.ones(5), np.zeros(5), 0.0)
    projected = cache["inverse_std"] * normalization.project_out(dy, cache["x_hat"])
    np.testing.assert_allclose(projected, layer_norm_backward(dy, cache)[0], rtol=1e-10, atol=1e-12)


def test_the_derivations_of_normalization():
    """Each formula against SymPy's own derivative of LayerNorm at three features, exactly."""
    n, eps = 3, Rational(1, 7)
    x = symbols("x_1:4", real=True)
    mu, point = sum(x) / n, dict(zip(x, (Rational(3, 2), Rational(-1, 3), Rational(5, 4))))
    v = sum((xi - mu) ** 2 for xi in x) / n
    r, xhat = 1 / sqrt(v + eps), [(xi - mu) / sqrt(v + eps) for xi in x]

    def same(mine, other):
        return abs((mine - other).xreplace(point).evalf(40)) < sympy.Float("1e-30", 40)

    N = normalization
    for i in range(n):
        assert same(N.VARIANCE_GRADIENT.reference.subs({N.x_i: x[i], N.mu: mu, N.D: n}), diff(v, x[i]))
        scaled = sum(diff(xhat[i], x[j]) * xhat[j] for j in range(n))
        assert same(N.SCALE_DIRECTION.reference.subs({N.xhat_i: xhat[i], N.v: v, N.eps: eps}), scaled)
        for j in range(n):
            values = {N.delta: int(i == j), N.D: n, N.r: r, N.xhat_i: xhat[i], N.xhat_j: xhat[j]}
            assert same(N.LAYER_NORM_JACOBIAN.reference.subs(values), diff(xhat[i], x[j]))


def test_the_derivations_of_attention():
    """The variance by adding over all outcomes of coins of that mean and spread; the entry by SymPy."""
    A = attention
    for width in (1, 2):
        outcomes = []
        for signs in itertools.product((1, -1), repeat=2 * width):
            q = [A.mu_q + sign * A.sigma_q for sign in signs[:width]]
            k = [A.mu_k + sign * A.sigma_k for sign in signs[width:]]
            outcomes.append(sum(a * b for a, b in zip(q, k)))
        mean = sum(outcomes) / len(outcomes)
        variance = sum((outcome - mean) ** 2 for outcome in outcomes) / len(outcomes)
        assert sympy.expand(variance - A.SCORE_VARIANCE.reference.subs(A.K, width)) == 0
    weight = A.E_1 / (A.E_1 + A.E_2 + A.E_3)
    assert sympy.simplify(diff(weight, A.s_2) - A.SOFTMAX_JACOBIAN_ENTRY.reference) == 0


# Right answers, written otherwise ---------------------------------------------------------------------------


def dgamma_by_einsum(dy, x_hat):
    return np.einsum("btd,btd->d", dy, x_hat), np.einsum("btd->d", dy)


def dgamma_by_loops(dy, x_hat):
    dgamma, dbeta = np.zeros(dy.shape[-1]), np.zeros(dy.shape[-1])
    for b, t in np.ndindex(*dy.shape[:2]):
        dgamma += dy[b, t] * x_hat[b, t]
        dbeta += dy[b, t]
    return [dgamma.tolist(), dbeta.tolist()]  # lists of numbers are arrays too


def layer_norm_by_matrix(dy, x, gamma, eps):
    dx, D = np.zeros_like(x), x.shape[-1]
    for b, t in np.ndindex(*x.shape[:2]):
        r = (x[b, t].var() + eps) ** -0.5
        x_hat = r * (x[b, t] - x[b, t].mean())
        dx[b, t] = r * (np.eye(D) - np.ones((D, D)) / D - np.outer(x_hat, x_hat) / D) @ (gamma * dy[b, t])
    return dx


def layer_norm_by_paths(dy, x, gamma, eps):
    D = x.shape[-1]
    centred = x - x.mean(-1, keepdims=True)
    std = np.sqrt(x.var(-1, keepdims=True) + eps)
    g = gamma * dy
    dvariance = (g * centred).sum(-1, keepdims=True) * -0.5 * std**-3
    dmean = -(g / std).sum(-1, keepdims=True)
    return g / std + dvariance * 2 * centred / D + dmean / D


def repaired_by_parts(dy, x, gamma, eps):
    x_hat = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    return layer_norm_by_paths(dy, x, gamma, eps), *dgamma_by_einsum(dy, x_hat)


def rms_norm_by_matrix(dy, x, gamma, eps):
    D = x.shape[-1]
    r = ((x * x).mean(-1, keepdims=True) + eps) ** -0.5
    jacobian = np.eye(D) - (r[..., None] ** 2) * x[..., :, None] * x[..., None, :] / D
    return r * np.einsum("btij,bti->btj", jacobian, gamma * dy)


def rms_norm_with_loops(dy, x, gamma, eps):
    dx, D = np.zeros_like(x), x.shape[-1]
    for b, t, i, j in np.ndindex(*x.shape, D):
        r = 1 / np.sqrt(np.sum(x[b, t] ** 2) / D + eps)
        dx[b, t, j] += gamma[i] * dy[b, t, i] * (r * (i == j) - r**3 * x[b, t, i] * x[b, t, j] / D)
    return dx


def project_by_least_squares(v, x_hat):
    p = np.empty_like(v)
    for b, t in np.ndindex(*v.shape[:2]):
        basis = np.stack([np.ones(v.shape[-1]), x_hat[b, t]], axis=1)
        p[b, t] = v[b, t] - basis @ np.linalg.lstsq(basis, v[b, t])[0]
    return p


def project_one_after_the_other(v, x_hat):
    v = v - v.mean(-1, keepdims=True)
    unit = x_hat / np.linalg.norm(x_hat, axis=-1, keepdims=True)
    return v - unit * np.einsum("btd,btd->bt", unit, v)[..., None]


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


OTHERWISE = {
    "layer_norm_dgamma_dbeta": (dgamma_by_einsum, dgamma_by_loops),
    "layer_norm_dx": (layer_norm_by_matrix, layer_norm_by_paths),
    "repaired_backward": (
        repaired_by_parts,
        lambda dy, x, g, e: (layer_norm_by_matrix(dy, x, g, e), *repaired_by_parts(dy, x, g, e)[1:]),
    ),
    "rms_norm_dx": (rms_norm_by_matrix, rms_norm_with_loops),
    "project_out": (project_by_least_squares, project_one_after_the_other),
    "softmax_ds": (softmax_by_matrix, softmax_expanded),
    "attention_da_dv": (da_dv_by_einsum, da_dv_by_loops),
    "attention_dq_dk": (dq_dk_scaled_first, dq_dk_by_loops),
    "masked_attention": (attention_by_rows, attention_with_where),
    "attention_gradients": (gradients_in_one_piece, gradients_by_loops),
}
FAIR = [(name, answer) for name, answers in OTHERWISE.items() for answer in answers]


@pytest.mark.parametrize("name, answer", FAIR, ids=[f"{n}-{a.__name__}" for n, a in FAIR])
def test_a_right_answer_is_accepted_however_written(name, answer):
    verdict = getattr(check, name)(answer)
    assert verdict.status == "right", verdict
    assert verdict.value is answer


def test_every_exercise_has_been_solved_otherwise():
    assert set(OTHERWISE) == {exercise.name for exercise in FUNCTIONS}


x_i, mu, D, delta, r, xhat_i, xhat_j, v, epsilon = symbols("x_i mu D delta r xhat_i xhat_j v epsilon")
K, sigma_q, sigma_k, mu_q, mu_k, s_1, s_2, s_3 = symbols("K sigma_q sigma_k mu_q mu_k s_1 s_2 s_3")
Z = exp(s_1) + exp(s_2) + exp(s_3)
EXPRESSIONS = {
    "variance_gradient": (2 / D * x_i - mu * 2 / D, diff((x_i - mu) ** 2 / D, x_i), 2.0 * (x_i - mu) / D),
    "layer_norm_jacobian": (
        (D * r * delta - r - r * xhat_i * xhat_j) / D,
        r * delta**2 - r * (1 + xhat_j * xhat_i) / D,  # delta is 0 or 1, so its square is itself
        sympy.Piecewise((0, sympy.Eq(delta, 0)), (r, True)) - r * (1 + xhat_i * xhat_j) / D,
    ),
    "scale_direction": (
        xhat_i / sqrt(v + epsilon) * (1 - v / (v + epsilon)),
        xhat_i * epsilon * (v + epsilon) ** -1.5,
        epsilon * Symbol("xhat_i", real=True) / sqrt((Symbol("v", positive=True) + epsilon) ** 3),
    ),
    "score_variance": (
        K * ((sigma_q**2 + mu_q**2) * (sigma_k**2 + mu_k**2) - mu_q**2 * mu_k**2),
        K * (sigma_q * sigma_k) ** 2 + K * ((sigma_q * mu_k) ** 2 + (sigma_k * mu_q) ** 2),
    ),
    "softmax_jacobian_entry": (
        diff(exp(s_1) / Z, s_2),
        -1 / (exp(s_1 - s_2) + 1 + exp(s_3 - s_2)) / (1 + exp(s_2 - s_1) + exp(s_3 - s_1)),
        -exp(s_1 + s_2 - 2 * log(Z)),
        sympy.Derivative(exp(s_1) / Z, s_2),
    ),
}
FAIR_EXPRESSIONS = [(name, e) for name, expressions in EXPRESSIONS.items() for e in expressions]


@pytest.mark.parametrize("name, answer", FAIR_EXPRESSIONS, ids=[f"{n}-{e}"[:60] for n, e in FAIR_EXPRESSIONS])
def test_an_equivalent_expression_is_accepted(name, answer):
    verdict = getattr(check, name)(answer)
    assert verdict.status == "right", verdict
    assert verdict.value is answer


def test_every_derivation_has_been_written_otherwise():
    assert set(EXPRESSIONS) == {exercise.name for exercise in DERIVATIONS}


# Wrong answers ----------------------------------------------------------------------------------------------

WRONG = [(e, w, diagnosis_of(w), w.__name__) for e in FUNCTIONS for w in e.wrong] + [
    (e, *w, str(i)) for e in DERIVATIONS for i, w in enumerate(e.wrong)
]


@pytest.mark.parametrize("exercise, wrong, text, _", WRONG, ids=[f"{e.name}-{n}" for e, _, _, n in WRONG])
def test_a_wrong_answer_is_refused_with_its_own_diagnosis(exercise, wrong, text, _):
    verdict = exercise.judge(wrong)
    assert verdict.status == "wrong"
    assert verdict.diagnosis == text
    assert verdict.value is exercise.reference


def test_two_mistakes_in_two_outputs_are_both_named():
    def both(ds, q, k):
        return ds @ k, ds.mT @ q / q.shape[-1]

    diagnosis = check.attention_dq_dk(both).diagnosis
    assert diagnosis_of(attention.no_scale) in diagnosis and "dq: " in diagnosis
    assert diagnosis_of(attention.scale_twice) in diagnosis and "dk: " in diagnosis


def nan_if_all_is_seen(q, k, v, mask):
    y, a = attention.masked_attention(q, k, v, mask)
    a[0, 0, 0] = np.nan if mask.all(-1).any() else a[0, 0, 0]
    return y, a


def forgets_to_return(dy, x, gamma, eps):
    normalization.layer_norm_dx(dy, x, gamma, eps)


def in_place(dy, x, gamma, eps):
    dx = normalization.layer_norm_dx(dy, x, gamma, eps)
    dy *= 2
    return dx


def divides_by_a_word(dy, x, gamma, eps):
    dx_hat = gamma * dy
    return dx_hat / "sigma"


def right_dx(dy, x, gamma, eps):
    return normalization.layer_norm_dx(dy, x, gamma, eps)


def on_dx(change):
    return lambda dy, x, gamma, eps: change(right_dx(dy, x, gamma, eps))


OBSERVED = [
    ("layer_norm_dx", forgets_to_return, r"returns None.*return"),
    ("layer_norm_dx", in_place, r"changes its argument `dy` in place"),
    ("layer_norm_dx", divides_by_a_word, r"TypeError: .*line 3.*`return dx_hat / \"sigma\"`"),
    ("attention_da_dv", lambda dy, a, v: (dy @ v.T, a.T @ dy), r"ValueError.*`\.mT` transposes the last two"),
    ("project_out", lambda v, x_hat: v - v.sum(-1) - v.max(-1), r"ValueError.*`keepdims=True`"),
    ("layer_norm_dx", on_dx(lambda dx: dx.astype(np.float32)), r"result is float32"),
    (
        "layer_norm_dx",
        on_dx(lambda dx: dx.astype(np.float32).astype(float)),
        r"agrees to about \d digits only",
    ),
    ("layer_norm_dx", on_dx(lambda dx: dx[0]), r"has shape \(1, 4\), expected \(1, 1, 4\).*axis of length 1"),
    ("layer_norm_dx", on_dx(lambda dx: dx.sum((0, 1))), r"has shape \(4,\), expected \(1, 1, 4\)"),
    ("layer_norm_dx", on_dx(lambda dx: dx.mT), r"expected \(1, 1, 4\).*"),
    ("layer_norm_dx", on_dx(lambda dx: 0 * dx), r"0 everywhere"),
    ("layer_norm_dx", on_dx(lambda dx: -dx), r"opposite sign"),
    ("layer_norm_dx", on_dx(lambda dx: 2 * dx), r"exactly twice the right"),
    ("layer_norm_dx", on_dx(lambda dx: 1.001 * dx), r"exactly 1.001 times"),
    ("layer_norm_dx", on_dx(lambda dx: dx * dx.shape[-1]), r"exactly D times"),
    ("layer_norm_dx", on_dx(lambda dx: -dx / dx.shape[-1] ** 0.5), r"exactly minus 1/√D times"),
    ("layer_norm_dx", on_dx(lambda dx: dx / dx.shape[0]), r"exactly 1/B times"),
    ("layer_norm_dx", on_dx(lambda dx: dx * np.inf), r"contains"),
    ("layer_norm_dx", on_dx(lambda dx: dx + 1j), r"real numbers.*complex128"),
    ("layer_norm_dx", on_dx(lambda dx: "dx"), r"array of real numbers.*`str`"),
    ("layer_norm_dx", on_dx(lambda dx: {"dx": dx}), r"array of real numbers.*`dict`"),
    ("layer_norm_dx", on_dx(lambda dx: (dx, 1)), r"array of real numbers.*`tuple`"),
    ("layer_norm_dx", on_dx(lambda dx: dx + 1), r"not by a mistake known here.*index \(0, 0, \d\)"),
    (
        "layer_norm_dx",
        on_dx(lambda dx: dx if len(dx) < 4 else dx + 1),
        r"Wrong only in “features far from zero”",
    ),
    (
        "layer_norm_dx",
        on_dx(lambda dx: dx if len(dx) > 3 else dx + 1),
        r"Right only in “features far from zero”",
    ),
    ("layer_norm_dx", lambda dy, x: dy, r"called as `layer_norm_dx\(dy, x, gamma, eps\)`"),
    ("layer_norm_dx", np.ones(3), r"Expected a function, got a `ndarray`"),
    ("layer_norm_dx", on_dx(lambda dx: dx if len(dx) < 4 else dx @ dx), r"Wrong only in.*ValueError"),
    ("masked_attention", nan_if_all_is_seen, r"(Wrong|Right) only in .*a contains NaN \(1 of .*y is right"),
    ("masked_attention", lambda q, k, v, mask: q, r"Expected 2 values, \(y, a\), got a `ndarray`"),
    ("masked_attention", lambda q, k, v, mask: (q,), r"Expected 2 values, \(y, a\), got 1 values"),
    ("masked_attention", lambda q, k, v, mask: (q, None), r"a is None"),
    (
        "attention_da_dv",
        lambda dy, a, v: (dy @ v.mT, (a.mT @ dy).mT),
        r"dv has shape .*transpose of the right",
    ),
    (
        "attention_da_dv",
        lambda dy, a, v: (3 * dy @ v.mT, 2 * a.mT @ dy),
        r"da is exactly three.*dv is exactly twice",
    ),
]


@pytest.mark.parametrize("name, answer, text", OBSERVED, ids=range(len(OBSERVED)))
def test_what_is_on_no_list_is_still_described(name, answer, text):
    verdict = getattr(check, name)(answer)
    assert verdict.status == "wrong"
    assert re.search(text, verdict.diagnosis), verdict.diagnosis
    assert verdict.value is EXERCISES[name].reference


def test_a_square_transpose_is_recognised():
    square = Exercise(
        "square",
        lambda x: x,
        ("y",),
        tuple(Case(f"{n}", lambda rng, n: (rng.normal(size=(n, n)),), {"n": n}) for n in (2, 3)),
        (),
        (),
    )
    assert "transpose" in square.judge(lambda x: x.T).diagnosis
    assert square.judge(lambda x: x.copy()).status == "right"


def test_the_tolerance_is_felt_from_both_sides():
    exercise = normalization.LAYER_NORM_DX
    assert exercise.judge(on_dx(lambda dx: dx * (1 + 1e-11))).status == "right"
    assert exercise.judge(on_dx(lambda dx: dx * (1 + 1e-7))).status == "wrong"
    tight = dataclasses.replace(exercise, tolerance=1e-13)
    assert tight.judge(on_dx(lambda dx: dx * (1 + 1e-11))).status == "wrong"


OBSERVED_EXPRESSIONS = [
    (
        "variance_gradient",
        2 * (x_i - Symbol("y")) / Symbol("n"),
        r"contains `n` and `y`.*in `x_i`, `mu` and `D`",
    ),
    ("variance_gradient", 5 * (x_i - mu) / D, r"exactly 2.5 times|exactly 2\.5"),
    ("variance_gradient", 2 * (x_i - mu) * D, r"exactly D² times"),
    ("variance_gradient", 0.5 * (x_i - mu) / D, r"a quarter of the right"),
    ("variance_gradient", 2 * x_i, r"does not depend on `D` and `mu`"),
    ("variance_gradient", (x_i - mu) / (D - D), r"no real value|no number"),
    ("variance_gradient", (x_i - mu) * I, r"no real value"),
    ("variance_gradient", sympy.Integer(0), r"It is 0"),
    ("variance_gradient", sympy.Function("f")(x_i), r"no number as its value.*f\("),
    ("variance_gradient", "2*(x_i - mu)/D", r"got text: leave out the quotes"),
    ("variance_gradient", Matrix([x_i]), r"Expected one SymPy expression"),
    ("variance_gradient", lambda: x_i, r"Expected one SymPy expression.*`function`"),
    ("variance_gradient", np.ones(2), r"Expected one SymPy expression.*`ndarray`"),
    ("variance_gradient", sympy.Eq(x_i, mu), r"Expected one SymPy expression"),
    ("variance_gradient", x_i**3 + mu / D, r"not by a mistake known here"),
    ("layer_norm_jacobian", r * (delta - (1 - delta) * (1 + xhat_i * xhat_j) / D), r"right where delta = 0"),
]


@pytest.mark.parametrize("name, answer, text", OBSERVED_EXPRESSIONS, ids=range(len(OBSERVED_EXPRESSIONS)))
def test_a_wrong_expression_on_no_list_is_still_described(name, answer, text):
    verdict = getattr(check, name)(answer)
    assert verdict.status == "wrong"
    assert re.search(text, verdict.diagnosis), verdict.diagnosis
    assert verdict.value is EXERCISES[name].reference


def test_a_factor_is_named_only_if_it_is_sure():
    assert name_factor([3, 3], [{"K": 3}, {"K": 3}]) == "three times the right answer"
    assert name_factor([3, 4], [{"K": 3}, {"K": 4}]) == "K times the right answer"
    assert name_factor([3, 5], [{"K": 3}, {"K": 4}]) is None


# Stubs ------------------------------------------------------------------------------------------------------


def stub_raise(*arguments):
    raise NotImplementedError("your turn")


def stub_dots(*arguments): ...


def stub_pass(*arguments):
    pass


def stub_returns_dots(*arguments):
    return ...


def stub_with_a_hole(*arguments):
    hole = ...
    return arguments[0] * hole


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=by_name)
def test_an_open_exercise_is_not_yet(exercise):
    stubs = (None, ...)
    if isinstance(exercise, Exercise):
        stubs += (stub_raise, stub_dots, stub_pass, stub_returns_dots, stub_with_a_hole)
    for stub in stubs:
        verdict = exercise.judge(stub)
        assert verdict.status == "not yet", (stub, verdict)
        assert verdict.value is exercise.reference
    assert exercise.judge().status == "not yet"


def test_one_open_value_of_two_is_not_yet():
    assert check.masked_attention(lambda q, k, v, mask: (q, ...)).status == "not yet"


# What the learner sees --------------------------------------------------------------------------------------


def test_the_verdict_in_html():
    wrong = check.layer_norm_dx(on_dx(lambda dx: dx.sum(0)))._repr_html_()
    assert wrong.startswith("<div") and "✗" in wrong and "Wrong" in wrong
    assert "(1, 4), expected (1, 1, 4)" in wrong and "<details" in wrong and "Hint 1 of 3" in wrong
    assert '<th scope="col"' in wrong and '<th scope="row"' in wrong
    right = check.layer_norm_dx(right_dx)._repr_html_()
    assert "✓" in right and "Right" in right and "Hint" not in right
    assert "Not yet" in check.layer_norm_dx()._repr_html_()


def test_the_html_is_escaped():
    html = check.layer_norm_dx(on_dx(lambda dx: [][0]))._repr_html_()
    assert "IndexError" in html
    assert "<b>" not in Verdict("x", "wrong", "<b> `a<b`", None)._repr_html_()
    assert ">a&lt;b</code>" in Verdict("x", "wrong", "<b> `a<b`", None)._repr_html_()


def test_the_verdict_in_text():
    text = repr(check.layer_norm_dx(normalization.gamma_outside))
    assert text.startswith("✗ layer_norm_dx: wrong\n  γ is outside the sums")
    assert 'check.hint("layer_norm_dx")' in text
    assert repr(check.layer_norm_dx(right_dx)).startswith("✓ layer_norm_dx: right")


def test_check_lists_the_exercises_and_helps_with_names():
    assert dir(check) == sorted([*EXERCISES, "hint"])
    assert all(name in repr(check) for name in EXERCISES)
    assert "layer_norm_dx" in check.layer_norm_dx.__doc__
    with pytest.raises(
        AttributeError, match="no exercise called 'layernorm_dx'. Did you mean .*layer_norm_dx"
    ):
        check.layernorm_dx  # noqa: B018
    with pytest.raises(AttributeError, match="There are variance_gradient, "):
        check.hint("zzz")
    assert not hasattr(check, "_repr_html_")


def test_hints_wait_to_be_opened():
    hints = check.hint("softmax_ds")
    assert hints._repr_html_().count("<details") == len(EXERCISES["softmax_ds"].hints)
    assert " open" not in hints._repr_html_()
    assert repr(hints).startswith("Hint 1 for softmax_ds: ")


# The notebooks ----------------------------------------------------------------------------------------------

SOLUTIONS = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))


def statuses(path):
    """Run a notebook and return the status of each verdict that it shows, by exercise."""
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources=folder).execute()
    shown = [
        output.data["text/plain"].splitlines()[0]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]
    found = (re.fullmatch(r"[✓✗○] (\w+): (.*)", line) for line in shown)
    return dict(match.groups() for match in found if match)


def test_there_is_a_notebook_for_each_chapter():
    assert [path.stem for path in SOLUTIONS] == list(CHAPTERS)


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_the_solutions_are_right(path):
    assert statuses(path) == {exercise.name: "right" for exercise in CHAPTERS[path.stem]}


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_the_unsolved_notebook_runs_to_its_end(path):
    unsolved = path.parents[1] / "exercises" / path.name
    assert statuses(unsolved) == {exercise.name: "not yet" for exercise in CHAPTERS[path.stem]}


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_every_exercise_is_stated_and_asserted(path):
    notebook = nbformat.read(path, as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    for exercise in CHAPTERS[path.stem]:
        name = exercise.name.replace("_", "-")
        statement = cells[name].source
        assert re.search(r"^## \d+\. .* ★{1,3}$", statement, re.MULTILINE)
        assert re.search(r"\d+ minutes", statement) and "**Example.**" in statement
        assert f"(../{path.name})" in statement
        assert f"**Signature:** `{exercise.name}(" in statement or "**Answer:**" in statement
        assert cells[f"{name}-assert"].source == 'assert verdict.status == "right"'
        assert cells[f"{name}-assert"].metadata.tags == ["solution"]


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_the_equations_named_exist(path):
    text = path.read_text(encoding="utf-8")
    chapter = ROOT / "notebooks" / path.name
    for label in set(re.findall(r"\{eq\}`(eq-[a-z0-9-]+)`", text)):
        assert f"({label})" in chapter.read_text(encoding="utf-8"), label
