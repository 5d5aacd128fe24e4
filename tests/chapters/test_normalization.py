"""The exercises of chapter 05: derived again, solved otherwise, and answered wrongly."""

import numpy as np
import pytest
import sympy
from judging import check_answers
from sympy import Rational, diff, sqrt, symbols

from handgrad.chapters.normalization import exercises, figures
from handgrad.course import judge
from handgrad.course.figures import subplots
from handgrad.ops.normalization import layer_norm, layer_norm_backward

# The figures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", ["points", "upstream", "kept"])
def test_no_arrow_is_cut_at_the_edge_of_the_plane(far):
    point = figures.PLANE[:1]  # (1, 3), of length 1
    drawn = dict(points=point, hats=point, upstream=point, kept=point)
    figures.circle(subplots()[1], **drawn)
    with pytest.raises(ValueError, match="within 3.0, got"):
        figures.circle(subplots()[1], **drawn | {far: 3.1 * point})


# The answers that are no shipped line, derived a second time ------------------------------------------------


def test_the_projection_is_the_gradient_without_epsilon():
    rng = np.random.default_rng(0)
    dy, x = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3, 5))
    _, cache = layer_norm(x, np.ones(5), np.zeros(5), 0.0)
    projected = cache["inverse_std"] * exercises.project_out(dy, cache["x_hat"])
    np.testing.assert_allclose(projected, layer_norm_backward(dy, cache)[0], rtol=1e-10, atol=1e-12)


def test_the_derivations():
    """Each formula against SymPy's own derivative of LayerNorm at three features, exactly."""
    n, eps = 3, Rational(1, 7)
    x = symbols("x_1:4", real=True)
    mu, point = sum(x) / n, dict(zip(x, (Rational(3, 2), Rational(-1, 3), Rational(5, 4))))
    v = sum((xi - mu) ** 2 for xi in x) / n
    r, xhat = 1 / sqrt(v + eps), [(xi - mu) / sqrt(v + eps) for xi in x]

    def same(mine, other):
        return abs((mine - other).xreplace(point).evalf(40)) < sympy.Float("1e-30", 40)

    for i in range(n):
        assert same(exercises.variance_gradient(x[i], mu, n), diff(v, x[i]))
        scaled = sum(diff(xhat[i], x[j]) * xhat[j] for j in range(n))
        assert same(exercises.scale_direction(xhat[i], v, eps), scaled)
        for j in range(n):
            entry = exercises.layer_norm_jacobian(int(i == j), sympy.Integer(n), r, xhat[i], xhat[j])
            assert same(entry, diff(xhat[i], x[j]))


def test_the_cases_hold_what_the_book_promises():
    """Repeated tokens, γ that is not 1, an ε that is felt, a token without variance, features far from 0."""
    cases = {case.name: case.inputs for case in exercises.LAYER_NORM_DX.cases}
    _, x, gamma, eps = cases["a batch"]
    assert np.array_equal(x[:, 0], x[:, -1]) and np.all(gamma != 1) and eps > 0.01
    assert np.ptp(cases["a token whose features are all equal"][1][0, 0]) == 0
    assert abs(cases["features far from zero"][1].mean()) > 30


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


x_i, mu, D, delta, r, xhat_i, xhat_j, v, epsilon = symbols("x_i mu D delta r xhat_i xhat_j v epsilon")
RIGHT = {
    "layer_norm_dgamma_dbeta": (dgamma_by_einsum, dgamma_by_loops),
    "layer_norm_dx": (layer_norm_by_matrix, layer_norm_by_paths),
    "repaired_backward": (
        repaired_by_parts,
        lambda dy, x, g, e: (layer_norm_by_matrix(dy, x, g, e), *repaired_by_parts(dy, x, g, e)[1:]),
    ),
    "rms_norm_dx": (rms_norm_by_matrix, rms_norm_with_loops),
    "project_out": (project_by_least_squares, project_one_after_the_other),
    "variance_gradient": (
        lambda x_i, mu, D: 2 / D * x_i - mu * 2 / D,
        diff((x_i - mu) ** 2 / D, x_i),
        2.0 * (x_i - mu) / D,
    ),
    "layer_norm_jacobian": (
        lambda delta, D, r, xhat_i, xhat_j: (D * r * delta - r - r * xhat_i * xhat_j) / D,
        r * delta**2 - r * (1 + xhat_j * xhat_i) / D,  # delta is 0 or 1, so its square is itself
        sympy.Piecewise((0, sympy.Eq(delta, 0)), (r, True)) - r * (1 + xhat_i * xhat_j) / D,
    ),
    "scale_direction": (
        lambda xhat_i, v, epsilon: xhat_i / sqrt(v + epsilon) * (1 - v / (v + epsilon)),
        xhat_i * epsilon * (v + epsilon) ** -1.5,
        epsilon * sympy.Symbol("xhat_i", real=True) / sqrt((sympy.Symbol("v", positive=True) + epsilon) ** 3),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_accepted_however_written(name):
    check_answers(name, RIGHT[name])


def test_every_exercise_has_been_solved_otherwise():
    assert set(RIGHT) == set(judge.chapters()["normalization"])


# Wrong answers that are on no list --------------------------------------------------------------------------


def std_of(x, eps):
    return np.sqrt(x.var(-1, keepdims=True) + eps)


def dx_with(eps=None, over=1, inner=1, weight=None):
    """LayerNorm's dx as a learner writes it, with one thing wrong."""

    def dx(dy, x, gamma, eps_):
        std = std_of(x, eps_ if eps is None else eps)
        x_hat, g = (x - x.mean(-1, keepdims=True)) / std, gamma * dy
        weighted = (dy if weight == "dy" else g) * x_hat
        through = (1 if weight == "no x_hat" else x_hat) * weighted.mean(-1, keepdims=True) * inner
        return (g - g.mean(-1, keepdims=True) - through) / std**over

    return dx


def by_paths_without_the_2(dy, x, gamma, eps):
    std, g, centred = std_of(x, eps), gamma * dy, x - x.mean(-1, keepdims=True)
    dvariance = (g * centred * -0.5 * std**-3).sum(-1, keepdims=True)
    dmean = (-g / std).sum(-1, keepdims=True)
    return g / std + (dvariance * centred + dmean) / x.shape[-1]


def rms(x, eps):
    return 1 / np.sqrt((x**2).mean(-1, keepdims=True) + eps)


UNLISTED = [
    ("layer_norm_dx", dx_with(eps=0.0), "A term is missing", "`eps` is missing"),
    ("layer_norm_dx", dx_with(over=2), "There is a factor too many|once too often", "`r`"),
    ("layer_norm_dx", dx_with(weight="dy"), "One array stands where another", "`dy` stands where `dx_hat`"),
    ("layer_norm_dx", dx_with(weight="no x_hat"), "A factor is missing", "the factor `x_hat` is missing"),
    ("layer_norm_dx", dx_with(inner=-1), "A sign is wrong", "`through_variance` has the wrong sign"),
    ("layer_norm_dx", by_paths_without_the_2, "A factor is missing", "the factor `2` is missing"),
    (
        "rms_norm_dx",
        lambda dy, x, gamma, eps: (
            rms(x, eps) * gamma * dy - rms(x, eps) ** 2 * x * (gamma * dy * x).mean(-1, keepdims=True)
        ),
        "A factor",
        "`r`",
    ),
    (
        "project_out",
        lambda v, x_hat: (
            v
            - v.mean(-1, keepdims=True)
            - x_hat * (v * x_hat).sum(-1, keepdims=True) / np.linalg.norm(x_hat) ** 2
        ),
        "wrong axis",
        "the whole array",
    ),
    (
        "layer_norm_jacobian",
        lambda delta, D, r, xhat_i, xhat_j: delta * r - 1 / D - r * xhat_i * xhat_j / D,
        "only a part",
        "`r` does not reach `1 / D`",
    ),
    (
        "scale_direction",
        lambda xhat_i, v, epsilon: xhat_i * (1 - 1 / (v + epsilon)) / sqrt(v + epsilon),
        "A factor is missing",
        "`v`",
    ),
    ("variance_gradient", lambda x_i, mu, D: -2 * (x_i - mu) / D**2, "Besides|Two things", ""),
]


@pytest.mark.parametrize("name, answer, kind, where", UNLISTED, ids=range(len(UNLISTED)))
def test_a_mistake_on_no_list_is_found(name, answer, kind, where):
    check_answers(name, [answer], wrong=(kind, where))
