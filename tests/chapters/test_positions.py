"""Chapter 07: its exercises derived again, solved otherwise and answered wrongly; its task and its faults."""

import numpy as np
import pytest
import torch
from judging import check_answers

from handgrad import ops
from handgrad.chapters.positions import exercises, faults, figures, shift
from handgrad.course import judge

# The answers, derived a second time by automatic differentiation of the forward -----------------------------


def grid_loss(dy, rows, columns):
    return (dy * (rows[:, None] + columns)).sum()


def half_split_loss(dy, x, angles):
    """As in much code: x cos + rotate_half(x) sin."""
    J = angles.shape[-1]
    first, second, rest = x.tensor_split([J, 2 * J], -1)
    twice = torch.cat([angles, angles], -1)
    turned = x[..., : 2 * J] * twice.cos() + torch.cat([-second, first], -1) * twice.sin()
    return (dy * torch.cat([turned, rest], -1)).sum()


def slope_loss(ds, q, k, slope):
    t, s = torch.arange(ds.shape[-2]), torch.arange(ds.shape[-1])
    penalty = slope[:, None, None] * (t[:, None] - s).abs()
    return (ds * (q @ k.mT / q.shape[-1] ** 0.5 - penalty)).sum()


def table_loss(ds, table, reach):
    t, s = torch.arange(ds.shape[-2]), torch.arange(ds.shape[-1])
    return (ds * table[:, (s - t[:, None]).clamp(-reach, reach) + reach]).sum()


def frequency_loss(dy, x, omega):
    return (dy * shift.torch_turned(x, torch.arange(x.shape[1])[:, None] * omega)).sum()


def tensors(*arrays):
    return [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in arrays]


def agree(mine, loss, wanted):
    for gradient, dx in zip(mine, torch.autograd.grad(loss, wanted), strict=True):
        np.testing.assert_allclose(gradient, dx, rtol=1e-10, atol=1e-12)


def test_grid_gradients_by_autograd():
    for case in exercises.GRID_GRADIENTS.cases:
        (dy,) = case.inputs
        rows, columns = tensors(*(np.zeros((n, dy.shape[-1])) for n in dy.shape[1:3]))
        loss = grid_loss(torch.tensor(dy), rows, columns)
        agree(exercises.grid_gradients(dy), loss, [rows, columns])


def test_half_split_by_autograd_and_by_permutation():
    for case in exercises.HALF_SPLIT_DX.cases:
        dy, angles = case.inputs
        (x,) = tensors(np.ones(dy.shape))
        agree(
            [exercises.half_split_dx(dy, angles)],
            half_split_loss(*map(torch.tensor, (dy,)), x, torch.tensor(angles)),
            [x],
        )
        by_permutation = exercises.half_split_by_permutation(dy, angles)
        np.testing.assert_allclose(exercises.half_split_dx(dy, angles), by_permutation, rtol=1e-12)


def test_slope_gradients_by_autograd():
    for case in exercises.SLOPE_GRADIENTS.cases:
        ds, q, k = case.inputs
        inputs = tensors(q, k, np.full(ds.shape[1], 0.3))
        agree(exercises.slope_gradients(ds, q, k), slope_loss(torch.tensor(ds), *inputs), inputs)


def test_distance_table_by_autograd():
    for case in exercises.DISTANCE_TABLE.cases:
        ds, reach = case.inputs
        (table,) = tensors(np.zeros((ds.shape[1], 2 * reach + 1)))
        agree([exercises.distance_table(ds, reach)], table_loss(torch.tensor(ds), table, reach), [table])


def test_frequency_gradients_by_autograd():
    for case in exercises.FREQUENCY_GRADIENTS.cases:
        dy, *rest = case.inputs
        inputs = tensors(*rest)
        agree(exercises.frequency_gradients(dy, *rest), frequency_loss(torch.tensor(dy), *inputs), inputs)


def test_the_cases_hold_what_the_exercises_promise():
    """More queries than keys and fewer, distances beyond the reach on both sides, widths above one pair."""
    shapes = [case.inputs[0].shape[-2:] for case in exercises.DISTANCE_TABLE.cases]
    assert any(T > S + 2 for T, S in shapes) and any(S > T + 2 for T, S in shapes)
    assert {case.inputs[1] for case in exercises.DISTANCE_TABLE.cases} == {1, 2, 3}
    for dy, angles in (case.inputs for case in exercises.HALF_SPLIT_DX.cases):
        assert 1 < angles.shape[-1] < dy.shape[-1] / 2


# Right answers, written otherwise ---------------------------------------------------------------------------


def grid_by_loops(dy):
    rows, columns = np.zeros((dy.shape[1], dy.shape[3])), np.zeros((dy.shape[2], dy.shape[3]))
    for b, s, t in np.ndindex(*dy.shape[:3]):
        rows[s] += dy[b, s, t]
        columns[t] += dy[b, s, t]
    return rows, columns


def half_split_by_complex(dy, angles):
    first, second, rest = np.split(dy, [angles.shape[-1], 2 * angles.shape[-1]], -1)
    turned = (first + 1j * second) * np.exp(-1j * angles)
    return np.concatenate([turned.real, turned.imag, rest], -1)


def half_split_by_wide_arrays(dy, angles):
    wide = np.concatenate([angles, angles, np.zeros((len(angles), dy.shape[-1] - 2 * angles.shape[-1]))], -1)
    first, second, rest = np.split(dy, [angles.shape[-1], 2 * angles.shape[-1]], -1)
    return dy * np.cos(wide) + np.concatenate([second, -first, rest], -1) * np.sin(wide)


def slope_by_einsum(ds, q, k):
    t, s = np.indices(ds.shape[-2:])
    du = ds / k.shape[-1] ** 0.5
    dslope = np.einsum("bhts,ts->h", ds, -1.0 * abs(s - t))
    return np.einsum("bhts,bhsk->bhtk", du, k), np.einsum("bhts,bhtk->bhsk", du, q), dslope


def slope_by_loops(ds, q, k):
    dq, dk, dslope = np.zeros_like(q), np.zeros_like(k), np.zeros(ds.shape[1])
    for b, h, t, s in np.ndindex(*ds.shape):
        g = ds[b, h, t, s]
        dq[b, h, t] += g * k[b, h, s] / np.sqrt(q.shape[-1])
        dk[b, h, s] += g * q[b, h, t] / np.sqrt(q.shape[-1])
        dslope[h] -= g * abs(t - s)
    return dq, dk, dslope


def table_by_loops(ds, reach):
    table = np.zeros((ds.shape[1], 2 * reach + 1))
    for b, h, t, s in np.ndindex(*ds.shape):
        table[h, max(-reach, min(reach, s - t)) + reach] += ds[b, h, t, s]
    return table


def table_by_add_at(ds, reach):
    t, s = np.indices(ds.shape[-2:])
    table = np.zeros((ds.shape[1], 2 * reach + 1))
    for row, mine in zip(table, ds.sum(0), strict=True):
        np.add.at(row, np.clip(s - t, -reach, reach) + reach, mine)
    return table


def frequency_by_complex(dy, x, omega):
    t = np.arange(x.shape[1])[:, None]
    turn = np.exp(1j * t * omega)
    z, dz = x[..., ::2] + 1j * x[..., 1::2], dy[..., ::2] + 1j * dy[..., 1::2]
    back = dz * turn.conj()
    domega = (np.conj(1j * t * z * turn) * dz).real.sum((0, 1))
    return np.stack([back.real, back.imag], -1).reshape(x.shape), domega


def frequency_before_the_turn(dy, x, omega):
    """The angle between a pair and its gradient is the same before and after the turn."""
    angles = np.arange(x.shape[1])[:, None] * omega
    dx = ops.rotary_backward(dy, ops.rotary(x, angles)[1])
    cross = dx[..., 1::2] * x[..., ::2] - dx[..., ::2] * x[..., 1::2]
    return dx, np.einsum("btk,t->k", cross, np.arange(x.shape[1]))


RIGHT = {
    "grid_gradients": (grid_by_loops, lambda dy: (dy.sum(0).sum(1), dy.sum(0).sum(0))),
    "half_split_dx": (half_split_by_complex, half_split_by_wide_arrays),
    "slope_gradients": (slope_by_einsum, slope_by_loops),
    "distance_table": (table_by_loops, table_by_add_at),
    "frequency_gradients": (frequency_by_complex, frequency_before_the_turn),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_are_accepted_however_written(name):
    check_answers(name, RIGHT[name])


def test_every_exercise_has_been_solved_otherwise():
    assert set(RIGHT) == set(judge.chapters()["positions"])


# Wrong answers that are on no list --------------------------------------------------------------------------


def half_split(both):
    def backward(dy, angles):
        a, b, rest = np.split(dy, [angles.shape[-1], 2 * angles.shape[-1]], -1)
        return np.concatenate([*both(a, b, np.cos(angles), np.sin(angles)), rest], -1)

    return backward


def slopes(dslope, power=-0.5):
    def backward(ds, q, k):
        c = q.shape[-1] ** power
        return (
            c * (ds @ k),
            c * (ds.mT @ q),
            dslope(ds, abs(np.subtract.outer(*map(np.arange, ds.shape[-2:])))),
        )

    return backward


def tabled(entry, summed=lambda ds: ds.sum(0)):
    def backward(ds, reach):
        table = np.zeros((ds.shape[1], 2 * reach + 1))
        for t, s in np.ndindex(*ds.shape[-2:]):
            table[:, entry(t, s, reach)] += summed(ds)[:, t, s]
        return table

    return backward


def a_query_at_a_time(ds, reach):
    """+= with entries that repeat keeps the last of them."""
    table = np.zeros((ds.shape[1], 2 * reach + 1))
    for t in range(ds.shape[2]):
        table[:, np.clip(np.arange(ds.shape[3]) - t, -reach, reach) + reach] += ds[:, :, t].sum(0)
    return table


def frequencies(dtheta, collect=lambda t, dtheta: (t * dtheta).sum((0, 1))):
    def backward(dy, x, omega):
        t = np.arange(x.shape[1])[:, None]
        y, cache = ops.rotary(x, t * omega)
        found = dtheta(dy[..., ::2], dy[..., 1::2], y[..., ::2], y[..., 1::2])
        return ops.rotary_backward(dy, cache), collect(t, found)

    return backward


def frequencies_by_derivatives(derivatives):
    """From the derivatives of the two outputs of a pair by its angle."""

    def backward(dy, x, omega):
        t = np.arange(x.shape[1])[:, None]
        angles, (a, b, g, h) = t * omega, (z[..., i::2] for z in (x, dy) for i in (0, 1))
        d0, d1 = derivatives(a, b, np.cos(angles), np.sin(angles))
        dx = ops.rotary_backward(dy, ops.rotary(x, angles)[1])
        return dx, (t * (g * d0 + h * d1)).sum((0, 1))

    return backward


def dx_from(found):
    """domega right, and dx as found from dy and y."""

    def backward(dy, x, omega):
        y, cache = ops.rotary(x, np.arange(x.shape[1])[:, None] * omega)
        return found(dy, y, cache), frequency_by_complex(dy, x, omega)[1]

    return backward


def slopes_at(queries, keys):
    """Distances of that many queries and keys, given T and S."""

    def backward(ds, q, k):
        T, S = ds.shape[-2:]
        distance = abs(np.arange(queries(T, S))[:, None] - np.arange(keys(T, S)))
        return ds @ k / q.shape[-1] ** 0.5, ds.mT @ q / q.shape[-1] ** 0.5, -(distance * ds).sum((0, 2, 3))

    return backward


def half_split_by_order(put_back):
    """Permuted, turned back in pairs of neighbours, and put back."""

    def backward(dy, angles):
        J = angles.shape[1]
        order = np.arange(2 * J).reshape(2, J).T.ravel()
        cache = {"shape": dy[..., order].shape, "cos": np.cos(angles), "sin": np.sin(angles)}
        turned = put_back(ops.rotary_backward(dy[..., order], cache), order)
        return np.concatenate([turned, dy[..., 2 * J :]], -1)

    return backward


def partners_at_the_end(dy, angles):
    J, dx = angles.shape[-1], dy.copy()
    dx[..., :J] = dy[..., :J] * np.cos(angles) + dy[..., -J:] * np.sin(angles)
    dx[..., -J:] = dy[..., -J:] * np.cos(angles) - dy[..., :J] * np.sin(angles)
    return dx


UNLISTED = [
    ("grid_gradients", lambda dy: (-dy.sum((0, 2)), -dy.sum((0, 1))), "sign", ""),
    ("grid_gradients", lambda dy: (dy.sum((0, 2)), dy.sum((0, 2))), "drows is right", "this is `drows`"),
    ("grid_gradients", lambda dy: (dy.sum((0, 2), keepdims=True), dy.sum((0, 1))), "axis of length 1", ""),
    (
        "grid_gradients",
        lambda dy: (dy.mean(2).sum(0), dy.mean(1).sum(0)),
        "factor too many",
        "division by `T`",
    ),
    ("grid_gradients", lambda dy: (dy.sum((0, 1, 2)), dy.sum((0, 1))), "drows has shape", ""),
    ("half_split_dx", partners_at_the_end, "among the last J columns", "^$"),
    ("half_split_dx", half_split(lambda a, b, c, s: (a * c - b * s, b * c - a * s)), "sign is wrong", "dy_1"),
    ("half_split_dx", half_split(lambda a, b, c, s: (-a * c - b * s, a * s - b * c)), "sign", ""),
    ("half_split_dx", half_split(lambda a, b, c, s: (a * c + b * s, b * s - a * s)), "", "cos"),
    (
        "half_split_dx",
        half_split(lambda a, b, c, s: (a * c + b * s, b * c - (a * c + b * s) * s)),
        "",
        "`dx_0`",
    ),
    ("half_split_dx", half_split(lambda a, b, c, s: (a * c + b * s, b * c)), "term is missing", "dy_0"),
    ("half_split_dx", lambda dy, a: half_split_by_complex(dy, a)[..., : 2 * a.shape[1]], "are missing", ""),
    ("slope_gradients", slopes(lambda ds, d: ds.sum((0, 2, 3))), "Besides: A factor is missing", ""),
    (
        "slope_gradients",
        lambda ds, q, k: slopes(lambda ds, d: (ds * d).sum((0, 2, 3)) / np.sqrt(q.shape[-1]))(ds, q, k),
        "wrong sign.* Besides: There is a factor too many. dq and dk are right.",
        "^(?!.*`dq`).*`scale` is too many.*`scale` is `1 / sqrt",
    ),
    ("slope_gradients", slopes(lambda ds, d: np.zeros(ds.shape[1])), "dslope is 0 everywhere", ""),
    ("slope_gradients", slopes(lambda ds, d: -(d * ds).sum((0, 3))), "dslope has shape", ""),
    ("slope_gradients", slopes(lambda ds, d: -(d * ds).sum((0, 2, 3)) / 2), "factor", "distance"),
    ("slope_gradients", slopes(lambda ds, d: -(d**0.5 * ds).sum((0, 2, 3))), "power or a root", ""),
    ("distance_table", tabled(lambda t, s, r: min(max(s - t, -r), r) + r, lambda ds: -ds.sum(0)), "sign", ""),
    (
        "distance_table",
        tabled(lambda t, s, r: min(max(s - t, -r), r) + r, lambda ds: 2 * ds.sum(0)),
        "factor",
        "",
    ),
    ("distance_table", tabled(lambda t, s, r: max(min(s - t, -r), r) + r), "becomes R: minimum", "^$"),
    ("distance_table", tabled(lambda t, s, r: min(max(s - t, r), -r) + r), "becomes -R: minimum", "^$"),
    ("distance_table", tabled(lambda t, s, r: s - t + r), "not clipped", ""),
    ("distance_table", tabled(lambda t, s, r: max(s - t, -r) + r), "Above R", ""),
    ("distance_table", tabled(lambda t, s, r: min(s - t, r) + r), "on the right only", ""),
    ("distance_table", tabled(lambda t, s, r: min(max(t - s, -r), r)), "t - r .* not shifted", ""),
    ("distance_table", tabled(lambda t, s, r: min(max(s - t, 1 - r), r) + r), "too early on the left", ""),
    ("distance_table", tabled(lambda t, s, r: min(max(s - t + r, 0), r)), "after the shift", ""),
    ("distance_table", tabled(lambda t, s, r: min(max(s - t, -r), r) + r - 1), "one too small", ""),
    ("distance_table", lambda ds, r: table_by_loops(np.triu(ds), r), "from the query on", ""),
    ("distance_table", lambda ds, r: table_by_loops(np.triu(ds, 1), r), "keys after the query", ""),
    ("distance_table", lambda ds, r: table_by_loops(np.tril(ds, -1), r), "keys before the query", ""),
    ("distance_table", lambda ds, r: table_by_loops(ds[:-1], r), "last sequence is left out", ""),
    ("distance_table", tabled(lambda t, s, r: min(s, r) - min(t, r) + r), "not their difference", ""),
    (
        "distance_table",
        lambda ds, r: table_by_loops(ds, r) * (np.arange(2 * r + 1) < 2 * r),
        "last entry",
        "",
    ),
    ("distance_table", a_query_at_a_time, "Keys of one query", ""),
    ("frequency_gradients", frequencies(lambda a, b, y, z: 0 * a), "`x`.*domega is 0 everywhere", ""),
    ("frequency_gradients", frequencies(lambda a, b, y, z: 2 * (b * y - a * z)), "factor", "dtheta"),
    ("frequency_gradients", frequencies(lambda a, b, y, z: b * z - a * y), "One array|exchanged|sign", ""),
    ("grid_gradients", lambda dy: (dy.sum((0, 2)), dy.sum((0, 1)) - dy.sum((0, 1, 2))), "from dcolumns", ""),
    ("half_split_dx", half_split_by_order(lambda y, order: y[..., order]), "wrong order", ""),
    ("slope_gradients", slopes_at(lambda T, S: T, lambda T, S: T), r"fails where .*\(T, T\)", ""),
    ("slope_gradients", slopes_at(lambda T, S: S, lambda T, S: S), r"fails where .*\(S, S\)", ""),
    ("slope_gradients", slopes_at(lambda T, S: S, lambda T, S: T), r"fails where .*\(S, T\)", ""),
    ("distance_table", tabled(lambda t, s, r: min(max(s - t, 0), r) + r), "Clipped at 0 and R, then", ""),
    ("distance_table", tabled(lambda t, s, r: r + r * int(np.sign(s - t))), "Only the sign", ""),
    ("distance_table", tabled(lambda t, s, r: -r if s - t < -r else min(s - t, r) + r), "at index -R", ""),
    ("distance_table", tabled(lambda t, s, r: r if s - t > r else max(s - t, -r) + r), "at entry R", ""),
    (
        "distance_table",
        tabled(lambda t, s, r: (abs(s - t) <= r) * (s - t + r) + (t - s > r) * 2 * r),
        "other end",
        "",
    ),
    ("distance_table", tabled(lambda t, s, r: min(max(s - t, 0), r)), "Clipped at 0 and R, and not", ""),
    ("distance_table", tabled(lambda t, s, r: min(max(s - t, -r - 1), r + 1) + r), "ends one too late", ""),
    (
        "frequency_gradients",
        frequencies_by_derivatives(lambda a, b, c, s: (-a * s + b * c, a * c - b * s)),
        "∂y_0/∂θ.*cosine has the wrong sign.*dx is right",
        "",
    ),
    (
        "frequency_gradients",
        frequencies_by_derivatives(lambda a, b, c, s: (-a * s, a * c - b * s)),
        "∂y_0/∂θ.*cosine is missing",
        "",
    ),
    (
        "frequency_gradients",
        frequencies_by_derivatives(lambda a, b, c, s: (-a * s - b * c, a * c)),
        "∂y_1/∂θ.*sine is missing",
        "",
    ),
    (
        "frequency_gradients",
        frequencies_by_derivatives(lambda a, b, c, s: (-a * s, -b * s)),
        "only the sines",
        "",
    ),
    (
        "frequency_gradients",
        frequencies_by_derivatives(lambda a, b, c, s: (a * s - b * c, a * c + b * s)),
        "derivative of the cosine",
        "",
    ),
    ("frequency_gradients", dx_from(lambda dy, y, cache: y), "dx is the forward.*domega is right", ""),
    ("frequency_gradients", dx_from(lambda dy, y, cache: dy * y), "entry by entry", ""),
    (
        "frequency_gradients",
        dx_from(lambda dy, y, cache: ops.rotary_backward(y, cache)),
        "in place of dy",
        "",
    ),
]


@pytest.mark.parametrize("name, answer, kind, where", UNLISTED, ids=range(len(UNLISTED)))
def test_a_mistake_on_no_list_is_found(name, answer, kind, where):
    check_answers(name, [answer], wrong=(kind, where))


# What the chapter draws and measures ------------------------------------------------------------------------


def test_a_line_holds_different_tokens():
    lines = shift.lines(np.random.default_rng(1), B=50, T=9)
    assert lines.shape == (50, 9) and all(len(set(line)) == 9 for line in lines)
    with pytest.raises(ValueError, match="at most 32"):
        shift.lines(np.random.default_rng(1), T=33)


def test_the_least_loss_of_one_who_sees_all_is_0_and_of_one_who_sees_nothing_is_largest():
    assert shift.least(4, lambda order, t: order[:t]) == 0
    np.testing.assert_allclose(shift.least(4, lambda order, t: 0), np.log(4))


def test_the_faults_are_faults_where_a_test_can_see_them():
    length, difference = faults.errors(faults.by_halves, T=5)
    assert length < 1e-12 and difference > 0.1
    assert max(faults.errors(ops.rotary_backward, T=5)) < 1e-8
    assert max(faults.errors(faults.by_halves, T=1)) < 1e-8  # position 0 is not turned


def test_clipped_scores_are_rotary_scores_within_the_reach():
    q, k = np.random.default_rng(3).standard_normal((2, 2, 9, 6))
    angles = ops.rotary_angles(9, 6)
    free = ops.rotary(q, angles)[0] @ ops.rotary(k, angles)[0].mT / np.sqrt(6)
    np.testing.assert_allclose(shift.clipped_scores(q, k, 8), free, rtol=1e-10, atol=1e-12)
    clipped, near = shift.clipped_scores(q, k, 3), abs(np.subtract.outer(*[np.arange(9)] * 2)) <= 3
    np.testing.assert_allclose(clipped[:, near], free[:, near], rtol=1e-10, atol=1e-12)
    assert abs(clipped - free)[:, ~near].min() > 1e-6
    far = ops.rotary(k[:, 8:], 3 * ops.rotary_angles(2, 6)[1:])[0]  # the last key, as if 3 places after
    np.testing.assert_allclose(clipped[:, 0, 8], (q[:, 0] * far[:, 0]).sum(-1) / np.sqrt(6), rtol=1e-10)


def test_the_turn_in_complex_numbers_is_ours():
    x, angles = np.random.default_rng(2).standard_normal((2, 5, 6)), ops.rotary_angles(5, 6)
    theirs = shift.torch_turned(torch.tensor(x), torch.tensor(angles))
    np.testing.assert_allclose(theirs, ops.rotary(x, angles)[0], rtol=1e-12, atol=1e-14)


def test_the_figures_draw_what_they_are_given():
    losses = {"waves": np.ones((2, 3)), "rotary": np.zeros((2, 3))}
    fig = figures.lengths((10, 12, 16), losses, np.log([9, 11, 15]))
    assert [line.get_ydata().tolist() for line in fig.axes[0].lines][:2] == [[1, 1, 1], [0, 0, 0]]
    texts = {text.get_text() for text in figures.integers().axes[0].texts}
    assert {"−5", "10", "7", "−1"} <= texts
