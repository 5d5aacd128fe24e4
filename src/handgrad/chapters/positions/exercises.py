"""Exercises of chapter 07, most of them positions that it does not show: answers, stories and hints."""

import numpy as np

from ...course.judge.draws import Draw, normal
from ...course.judge.function import Exercise
from ...ops.positions import rotary_backward


def in_pairs(letters):
    """N(0, 1), twice as wide as the last letter says: columns that come in pairs."""
    return Draw(letters, lambda rng, shape: rng.normal(size=(*shape[:-1], 2 * shape[-1])))


PARTLY_IN_PAIRS = Draw(
    "B T K E", lambda rng, shape: rng.normal(size=(*shape[:2], 2 * shape[2] + shape[3]))
)  # K pairs of columns, then E columns that are not turned
ANGLES = Draw("T K", lambda rng, shape: rng.uniform(0.3, 2.8, shape))


REACH = Draw("T S", lambda rng, shape: 1 + sum(shape) % 3)  # 1, 2 or 3, and not the same in every case


def as_neighbours(first, second):
    """Pairs put back as columns 2i and 2i + 1."""
    return np.stack([first, second], axis=-1).reshape(*first.shape[:-1], -1)


def half_order(J):
    """The columns in the order 0, J, 1, J + 1, …: the members of each pair (i, i + J) side by side."""
    return np.arange(2 * J).reshape(2, J).T.ravel()


def put_on(first, second):
    """Turned pairs (i, i + J), whose columns are permuted once more and not put back."""
    return as_neighbours(first, second)[..., half_order(first.shape[-1])]


def inversely_permuted(dy, angles):
    """Turned back after np.argsort(order), where order should stand, and put back by its inverse."""
    order = np.argsort(half_order(angles.shape[-1]))
    part = dy[..., order]
    dx, cos, sin = np.empty_like(part), np.cos(angles), np.sin(angles)
    first, second = part[..., 0::2], part[..., 1::2]
    dx[..., order] = as_neighbours(first * cos + second * sin, second * cos - first * sin)
    return dx


def with_wide_angles(dy, angles):
    """Pairs (i, i + K/2), but with the angles repeated as for neighbours."""
    wide = np.repeat(angles, 2, axis=-1)
    first, second = np.split(dy, 2, axis=-1)
    return dy * np.cos(wide) + np.concatenate([second, -first], axis=-1) * np.sin(wide)


def with_other(shift, dy, angles):
    """Turned back, with the wrong columns beside the sines: shifted by `shift`, or in reversed order."""
    other = np.roll(dy, shift, axis=-1) if shift else dy[..., ::-1]
    cos, sin = np.cos(angles), np.sin(angles)
    return dy * np.concatenate([cos, cos], axis=-1) + other * np.concatenate([sin, -sin], axis=-1)


def across_the_width(dy, angles):
    """Turned back in pairs (i, i + K/2), K the whole width, of which there are as many as angles."""
    dx, middle, J = dy.copy(), dy.shape[-1] // 2, angles.shape[-1]
    first, second = dy[..., :J], dy[..., middle : middle + J]
    dx[..., :J] = first * np.cos(angles) + second * np.sin(angles)
    dx[..., middle : middle + J] = second * np.cos(angles) - first * np.sin(angles)
    return dx


def last_wins(summed, held, reach):
    """A table (H, 2 * reach + 1) in which each entry keeps the last gradient only."""
    table = np.zeros((len(summed), 2 * reach + 1))
    table[:, held + reach] = summed
    return table


def last_near(summed, distance, reach):
    """The same without what lies beyond the reach."""
    inside = np.abs(distance) <= reach
    table = np.zeros((len(summed), 2 * reach + 1))
    table[:, distance[inside] + reach] = summed[:, inside]
    return table


def first_wins(summed, held, reach):
    """A table (H, 2 * reach + 1) in which each entry keeps the first gradient only."""
    return last_wins(summed[:, ::-1, ::-1], held[::-1, ::-1], reach)


def only_heads(ds, chosen):
    """The sum over the batch, and 0 for heads h of H that are not chosen."""
    heads = np.arange(ds.shape[1])
    return ds.sum(axis=0) * chosen(heads, len(heads))[:, np.newaxis, np.newaxis]


def looked_up(summed, entry, reach):
    """A table (H, 2 * reach + 1): what arrives is added at entry (T, S). IndexError as from a loop."""
    table = np.zeros((len(summed), 2 * reach + 1))
    for t, r in np.ndindex(*summed.shape[1:]):
        table[:, entry[t, r]] += summed[:, t, r]
    return table


def other_end(summed, distance, reach):
    """The same, but what lies beyond the reach on one side is added at the entry of the other side."""
    ends = np.where(distance > reach, 0, np.where(distance < -reach, 2 * reach, distance + reach))
    return looked_up(summed, ends, reach)


def once_a_row(summed, held, reach):
    """The same, but each query adds to an entry once: the last of its keys that use it."""
    return sum(
        last_wins(row[:, np.newaxis], at[np.newaxis], reach) for row, at in zip(summed.swapaxes(0, 1), held)
    )


def once_a_column(summed, held, reach):
    """The same, but each key adds to an entry once: the last of its queries that use it."""
    return once_a_row(summed.mT, held.T, reach)


# 1 ----------------------------------------------------------------------------------------------------------


def grid_gradients(dy):
    drows = dy.sum(axis=(0, 2))
    dcolumns = dy.sum(axis=(0, 1))
    return drows, dcolumns


def grid_by_einsum(dy):
    drows = np.einsum("bstd->sd", dy)
    dcolumns = np.einsum("bstd->td", dy)
    return drows, dcolumns


GRID_GRADIENTS = Exercise(
    grid_gradients,
    asks="Summing one gradient for two tables that were broadcast along different axes.",
    outputs="drows dcolumns",
    inputs={"dy": normal("B S T D")},
    ways=(grid_by_einsum,),
    stories="""
    - The two tables are exchanged: row s of the grid holds all its columns, so drows sums over the columns,
      the third axis, and dcolumns over the rows.
          drows = dy.sum(axis=(0, 2)) → drows = dy.sum(axis=(0, 1))
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=(0, 2))
    - Not summed over the batch. All images share both tables, and gradients of several uses add.
          drows = dy.sum(axis=(0, 2)) → drows = dy.sum(axis=2)
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=1)
    - Summed over the batch only: a row of the first table is used in every column of its row, too.
          drows = dy.sum(axis=(0, 2)) → drows = dy.sum(axis=0)
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=0)
    - A mean in place of a sum. Each use of an entry sends its gradient, and they add; if the loss is a mean,
      that has arrived with dy.
          dy.sum( → dy.mean(
    - A mean over the batch in place of a sum: every image adds its part.
          drows = dy.sum(axis=(0, 2)) → drows = dy.sum(axis=2).mean(axis=0)
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=1).mean(axis=0)
    - Half of the right gradient: dy is not shared out between the two tables. In y = x + r + c each term has
      the factor 1, and each receives all of dy.
          dy.sum( → (dy / 2).sum(
    - What drows has received is taken away from dcolumns.
      Each entry of each table receives all that arrives where it stands.
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=(0, 1)) - dy.sum(axis=(0, 1, 2))
    - What dcolumns has received is taken away from drows.
      Each entry of each table receives all that arrives where it stands.
          drows = dy.sum(axis=(0, 2)) → drows = dy.sum(axis=(0, 2)) - dy.sum(axis=(0, 1, 2))
    - What arrives at the other table is taken away from both.
      Each entry of each table receives all that arrives where it stands.
          drows = dy.sum(axis=(0, 2)) → drows = dy.sum(axis=(0, 2)) - dy.sum(axis=(0, 1, 2))
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=(0, 1)) - dy.sum(axis=(0, 1, 2))
    - A mean over the columns, the share of drows, is taken away from dcolumns.
      Each entry of each table receives all that arrives where it stands.
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=(0, 1)) - dy.mean(axis=2).sum(axis=(0, 1))
    - A mean over the rows, the share of dcolumns, is taken away from drows.
      Each entry of each table receives all that arrives where it stands.
          drows = dy.sum(axis=(0, 2)) → drows = dy.sum(axis=(0, 2)) - dy.mean(axis=1).sum(axis=(0, 1))
    - The mean share of the other table is taken away from both.
      Each entry of each table receives all that arrives where it stands.
          drows = dy.sum(axis=(0, 2)) → drows = dy.sum(axis=(0, 2)) - dy.mean(axis=1).sum(axis=(0, 1))
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=(0, 1)) - dy.mean(axis=2).sum(axis=(0, 1))
    - drows is taken away from dy before the sum for dcolumns.
      Each entry of each table receives all that arrives where it stands.
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=(0, 1)) - len(dy) * dy.sum(axis=(0, 1, 2))
    - dcolumns is taken away from dy before the sum for drows.
      Each entry of each table receives all that arrives where it stands.
          drows = dy.sum(axis=(0, 2)) → drows = dy.sum(axis=(0, 2)) - len(dy) * dy.sum(axis=(0, 1, 2))
    - The mean of all gradients is taken away from dcolumns.
      Each entry of each table receives all that arrives where it stands.
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=(0, 1)) - dy.mean(axis=(1, 2)).sum(axis=0)
    - The first row is taken away from dcolumns, or left out.
      Each entry of each table receives all that arrives where it stands.
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=(0, 1)) - dy.sum(axis=0)[0]
    - The first column is taken away from drows, or left out.
      Each entry of each table receives all that arrives where it stands.
          drows = dy.sum(axis=(0, 2)) → drows = dy.sum(axis=(0, 2)) - dy.sum(axis=0)[:, 0]
    - The features are summed too. Each feature of a table row is a number of its own.
          drows = dy.sum(axis=(0, 2)) → drows = dy.sum(axis=(0, 2, 3))
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=(0, 1, 3))
    - The last one wins: each use of an entry replaces the gradient of the use before. They add: `+=`.
          drows = dy.sum(axis=(0, 2)) → drows = dy[-1, :, -1]
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy[-1, -1]
    - Only the last image is used. All of them send a gradient.
          dy.sum( → dy[-1:].sum(
    - Only one column is used for drows, and one row for dcolumns. Each row of the grid holds all its columns.
          drows = dy.sum(axis=(0, 2)) → drows = dy.sum(axis=0)[:, 0]
          dcolumns = dy.sum(axis=(0, 1)) → dcolumns = dy.sum(axis=0)[0]
    - Divided by the number of patches. Each use of an entry sends its gradient, and they add; nothing is
      averaged.
          dy.sum( → (dy / dy.shape[1] / dy.shape[2]).sum(
    - Only the first image is used. All of them send a gradient.
          dy.sum( → dy[:1].sum(
    """,
    hints="""
    - Where does row s of the first table stand? In all images, and in every column of the grid row s.
    - Everything that arrives at a place where it stands is added: for drows over the batch and t,
      for dcolumns over the batch and s.
    - Two sums, `dy.sum(axis=...)`, each over two axes.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def half_split_dx(dy, angles):
    half = angles.shape[-1]
    dy_0, dy_1 = dy[..., :half], dy[..., half : 2 * half]
    rest = dy[..., 2 * half :]
    cos, sin = np.cos(angles), np.sin(angles)
    dx_0 = dy_0 * cos + dy_1 * sin
    dx_1 = dy_1 * cos - dy_0 * sin
    turned = np.concatenate([dx_0, dx_1], axis=-1)
    return np.concatenate([turned, rest], axis=-1)


def half_split_by_permutation(dy, angles):
    order = np.arange(2 * angles.shape[-1]).reshape(2, -1).T.ravel()
    dx = dy.copy()
    cache = {"shape": dx[..., order].shape, "cos": np.cos(angles), "sin": np.sin(angles)}
    dx[..., order] = rotary_backward(dy[..., order], cache)
    return dx


HALF_SPLIT_DX = Exercise(
    half_split_dx,
    asks="The adjoint of a rotation, with columns paired in halves and some left alone.",
    outputs="dx",
    inputs={"dy": PARTLY_IN_PAIRS, "angles": ANGLES},
    shipped=half_split_by_permutation,
    stories="""
    - This is the forward: it turns dy by θ once more. The adjoint of a rotation turns back, by -θ.
          dx_0 = dy_0 * cos + dy_1 * sin → dx_0 = dy_0 * cos - dy_1 * sin
          dx_1 = dy_1 * cos - dy_0 * sin → dx_1 = dy_1 * cos + dy_0 * sin
    - Turned back, but in pairs of neighbours. In this layer column i goes with column i + J.
          dy[..., :half], dy[..., half : 2 * half] → dy[..., : 2 * half : 2], dy[..., 1 : 2 * half : 2]
          turned = np.concatenate([dx_0, dx_1], axis=-1) → turned = as_neighbours(dx_0, dx_1)
    - Turned the wrong way, and in pairs of neighbours: two mistakes. Column i goes with column i + J, and
      the gradient turns by -θ.
          dy[..., :half], dy[..., half : 2 * half] → dy[..., : 2 * half : 2], dy[..., 1 : 2 * half : 2]
          dx_0 = dy_0 * cos + dy_1 * sin → dx_0 = dy_0 * cos - dy_1 * sin
          dx_1 = dy_1 * cos - dy_0 * sin → dx_1 = dy_1 * cos + dy_0 * sin
          turned = np.concatenate([dx_0, dx_1], axis=-1) → turned = as_neighbours(dx_0, dx_1)
    - The pairs are taken in halves and put back as neighbours. Put them back where they were: all first
      members, then all second ones.
          turned = np.concatenate([dx_0, dx_1], axis=-1) → turned = as_neighbours(dx_0, dx_1)
    - Put back in the wrong order: y[..., order] once more permutes further. Put back by the inverse:
      result[..., order] = y, or by np.argsort(order).
          turned = np.concatenate([dx_0, dx_1], axis=-1) → turned = put_on(dx_0, dx_1)
    - The columns are permuted by the inverse order before the turn, so other columns are paired: column i
      goes with column i + J.
          turned = np.concatenate([dx_0, dx_1], axis=-1) → turned = inversely_permuted(dy, angles)
    - The pairs are taken as neighbours and put back in halves. In this layer column i goes with column
      i + J on the way in as well.
          dy[..., :half], dy[..., half : 2 * half] → dy[..., : 2 * half : 2], dy[..., 1 : 2 * half : 2]
    - dy is returned as it came. A rotation keeps its length, but not its direction.
          return np.concatenate([turned, rest], axis=-1) → return 1.0 * dy
    - Only the cosines are used: each column of a pair also reaches the other output, with a sine.
          + dy_1 * sin →
          - dy_0 * sin →
    - Both sines have the sign +. One of the four entries of a rotation is negative.
          dx_1 = dy_1 * cos - dy_0 * sin → dx_1 = dy_1 * cos + dy_0 * sin
    - Sine and cosine are exchanged.
          cos, sin = np.cos(angles), np.sin(angles) → cos, sin = np.sin(angles), np.cos(angles)
    - The two halves have changed places in the result.
          np.concatenate([dx_0, dx_1] → np.concatenate([dx_1, dx_0]
    - This is the derivative of the rotation by its angle, and not its adjoint.
          dx_0 = dy_0 * cos + dy_1 * sin → dx_0 = -dy_0 * sin - dy_1 * cos
          dx_1 = dy_1 * cos - dy_0 * sin → dx_1 = dy_0 * cos - dy_1 * sin
    - The pairs are right, but the angles are repeated as for neighbours, 0 0 1 1. Columns i and i + J have
      the same angle: 0 1 0 1.
          np.concatenate([dx_0, dx_1], axis=-1) → with_wide_angles(dy[..., : 2 * half], angles)
    - The sine stays with its own column here. It brings in the other column of the pair.
          dx_0 = dy_0 * cos + dy_1 * sin → dx_0 = dy_0 * cos + dy_0 * sin
          dx_1 = dy_1 * cos - dy_0 * sin → dx_1 = dy_1 * cos - dy_1 * sin
    - The sine brings in the neighbour here. Column i belongs together with column i + J.
          np.concatenate([dx_0, dx_1], axis=-1) → with_other(1, dy[..., : 2 * half], angles)
    - The columns are paired from both ends here. Column i belongs together with column i + J.
          np.concatenate([dx_0, dx_1], axis=-1) → with_other(None, dy[..., : 2 * half], angles)
    - Divided by the cosine: that undoes a factor. A rotation is undone by its transpose, and nothing is
      divided.
          dx_0 = dy_0 * cos + dy_1 * sin → dx_0 = dy_0 / cos
          dx_1 = dy_1 * cos - dy_0 * sin → dx_1 = dy_1 / cos
    - Turned back by twice the angle. The forward turned by θ, so the gradient turns by -θ.
          np.cos(angles), np.sin(angles) → np.cos(2 * angles), np.sin(2 * angles)
    - Turned back by half the angle. The forward turned by θ, so the gradient turns by -θ.
          np.cos(angles), np.sin(angles) → np.cos(angles / 2), np.sin(angles / 2)
    - The angles are read as degrees. They are in radians already.
          np.cos(angles), np.sin(angles) → np.cos(np.radians(angles)), np.sin(np.radians(angles))
    - The angles are in reversed order along the pairs: pair i turns by entry i of its row.
          np.cos(angles), np.sin(angles) → np.cos(angles[:, ::-1]), np.sin(angles[:, ::-1])
    - The angles are in reversed order along the positions: position t turns by row t.
          np.cos(angles), np.sin(angles) → np.cos(angles[::-1]), np.sin(angles[::-1])
    - All positions are turned by the angles of the first. Row t of the angles belongs to position t.
          np.cos(angles), np.sin(angles) → np.cos(angles[:1]), np.sin(angles[:1])
    - All pairs are turned by the angle of the first pair. Each has its own.
          np.cos(angles), np.sin(angles) → np.cos(angles[:, :1]), np.sin(angles[:, :1])
    - The columns that are not turned are missing from the result. They pass their gradient on as it is.
          return np.concatenate([turned, rest], axis=-1) → return turned
    - The columns that are not turned have received 0. They were handed on as they are, with the factor 1, and
      so is their gradient.
          [turned, rest] → [turned, 0 * rest]
    - The columns that are not turned stand before the others here. They are the last ones.
          [turned, rest] → [rest, turned]
    - The last 2J columns are turned here. Turn the first ones, and leave the last alone.
          dy[..., :half], dy[..., half : 2 * half] → dy[..., -2 * half : -half], dy[..., -half:]
          rest = dy[..., 2 * half :] → rest = dy[..., : -2 * half]
          [turned, rest] → [rest, turned]
    - The partner of column i is sought among the last J columns. Only the first 2J columns are turned: column
      i goes with column i + J.
          dy[..., :half], dy[..., half : 2 * half] → dy[..., :half], dy[..., -half:]
          rest = dy[..., 2 * half :] → rest = dy[..., half:-half]
          return np.concatenate([turned, rest], axis=-1) → return np.concatenate([dx_0, rest, dx_1], axis=-1)
    - The partner of column i is sought at i + K/2, in the middle of the whole width. Only 2J columns are
      turned: column i goes with column i + J.
          return np.concatenate([turned, rest], axis=-1) → return across_the_width(dy, angles)
    - K/2 is not the number of pairs: only 2J columns are turned, and J is the width of the angles.
          half = angles.shape[-1] → half = dy.shape[-1] // 2
    - Two mistakes: this is the forward, and the columns that are not turned are missing. The adjoint turns by
      -θ, and hands the rest on as it is.
          dx_0 = dy_0 * cos + dy_1 * sin → dx_0 = dy_0 * cos - dy_1 * sin
          dx_1 = dy_1 * cos - dy_0 * sin → dx_1 = dy_1 * cos + dy_0 * sin
          return np.concatenate([turned, rest], axis=-1) → return turned
    - Two mistakes: this is the forward, and the columns that are not turned have received 0. The adjoint
      turns by -θ, and hands the rest on as it is.
          dx_0 = dy_0 * cos + dy_1 * sin → dx_0 = dy_0 * cos - dy_1 * sin
          dx_1 = dy_1 * cos - dy_0 * sin → dx_1 = dy_1 * cos + dy_0 * sin
          [turned, rest] → [turned, 0 * rest]
    - The columns that are not turned are multiplied by a cosine here. They pass as they are.
          [turned, rest] → [turned, rest * cos[:, -1:]]
    """,
    hints="""
    - Where does x_i stand? In output i with a cosine, and in output i + J with a sine, for i < J.
    - Take J columns of dy, the next J, and the rest. The pairs are turned by the angle -θ; the rest is not.
    - Put the three parts side by side again: `np.concatenate([...], axis=-1)`.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def slope_gradients(ds, q, k):
    scale = 1 / np.sqrt(q.shape[-1])
    T, S = ds.shape[-2:]
    t, r = np.arange(T)[:, np.newaxis], np.arange(S)
    distance = np.abs(t - r)
    dq = scale * (ds @ k)
    dk = scale * (ds.mT @ q)
    dslope = -(distance * ds).sum(axis=(0, 2, 3))
    return dq, dk, dslope


SLOPE_GRADIENTS = Exercise(
    slope_gradients,
    asks="A parameter of each head that multiplies a fixed table of distances.",
    outputs="dq dk dslope",
    inputs={"ds": normal("B H T S"), "q": normal("B H T K"), "k": normal("B H S K")},
    stories="""
    - It fails where S is not T: the table of distances has the shape (T, T). It has a row for each of the T
      queries, and a column for each of the S keys.
          r = np.arange(T)[:, np.newaxis], np.arange(S) → r = np.arange(T)[:, np.newaxis], np.arange(T)
    - It fails where S is not T: the table of distances has the shape (S, S). It has a row for each of the T
      queries, and a column for each of the S keys.
          r = np.arange(T)[:, np.newaxis], np.arange(S) → r = np.arange(S)[:, np.newaxis], np.arange(S)
    - It fails where S is not T: the table of distances has the shape (S, T). It has a row for each of the T
      queries, and a column for each of the S keys.
          r = np.arange(T)[:, np.newaxis], np.arange(S) → r = np.arange(S)[:, np.newaxis], np.arange(T)
    - The loop over the keys runs to T. There are T queries and S keys.
          (distance * ds).sum → (distance * ds)[..., np.arange(T)].sum
    - The loop over the queries runs to S. There are T queries and S keys.
          (distance * ds).sum → (distance * ds)[:, :, np.arange(S)].sum
    - dslope has the wrong sign. The penalty is subtracted: a larger slope lowers every score but those at
      distance 0.
          dslope = -( → dslope = (
    - The distance is missing from dslope: the local derivative of a score by its slope is -|t - r|.
          (distance * ds).sum → ds.sum
    - dslope is one number for all heads. Each head has its own slope, so the sum leaves the axis of the
      heads.
          axis=(0, 2, 3) → axis=(0, 1, 2, 3)
    - dslope is not summed over the batch. All sequences share the slopes.
          axis=(0, 2, 3) → axis=(2, 3)
    - dslope is a mean. A slope is used by every pair of query and key in every sequence, and gradients add.
          .sum(axis=(0, 2, 3)) → .mean(axis=(0, 2, 3))
    - dslope is summed over the pairs and averaged over the batch. Every sequence adds its part.
          .sum(axis=(0, 2, 3)) → .sum(axis=(2, 3)).mean(axis=0)
    - The distance has a sign here. The penalty is for distance on either side: |t - r|.
          distance = np.abs(t - r) → distance = t - r
    - The distance has a sign here, r - t. The penalty is for distance on either side: |t - r|.
          distance = np.abs(t - r) → distance = r - t
    - The squared distance stands where |t - r| should.
          (distance * ds) → (distance**2 * ds)
    - Only keys before the query are counted. Nothing is masked here: the penalty is for distance on either
      side.
          distance = np.abs(t - r) → distance = np.maximum(t - r, 0)
    - Only keys after the query are counted. Nothing is masked here: the penalty is for distance on either
      side.
          distance = np.abs(t - r) → distance = np.maximum(r - t, 0)
    - The position of the key stands where its distance from the query should.
          np.abs(t - r) → r + 0 * t
    - The penalty is subtracted from ds in dq and dk. It is a part of the score, not of its gradient, and
      contains neither query nor key.
          dq = scale * (ds @ k) → dq = scale * ((ds - distance) @ k)
          dk = scale * (ds.mT @ q) → dk = scale * ((ds - distance).mT @ q)
    - dslope is the local derivative alone. It must be multiplied by what arrives, ds, before the sum.
          (distance * ds).sum(axis=(0, 2, 3)) → (distance + 0 * ds)[0].sum(axis=(1, 2))
    - dslope is the local derivative alone, summed over the batch as well. It must be multiplied by what
      arrives, ds, before the sum.
          (distance * ds).sum → (distance + 0 * ds).sum
    - The product of query and key stands in dslope where the distance should. The slope multiplies -|t - r|.
          dslope = -(distance * ds) → dslope = -(scale * (q @ k.mT) * ds)
    - The last query is left out of dslope: a loop ends one step too early.
          (distance * ds).sum → (distance * ds)[:, :, :-1].sum
    - The last key is left out of dslope: a loop ends one step too early.
          (distance * ds).sum → (distance * ds)[..., :-1].sum
    - Queries and keys are counted from the end here. Both count from 0 at the beginning: query t and key t
      stand at the same place.
          distance = np.abs(t - r) → distance = np.abs(t - T - r + S)
    - dslope is the size of the sum. A derivative has a sign.
          dslope = -( → dslope = -np.abs((
          axis=(0, 2, 3)) → axis=(0, 2, 3)))
    - The keys are counted from 1 here, and the queries from 0. Both count from 0.
          distance = np.abs(t - r) → distance = np.abs(t - r - 1)
    - The queries are counted from 1 here, and the keys from 0. Both count from 0.
          distance = np.abs(t - r) → distance = np.abs(t + 1 - r)
    - Every distance above 0 counts as 1 here. The penalty grows with |t - r|.
          distance = np.abs(t - r) → distance = np.minimum(np.abs(t - r), 1)
    - The largest distance stands where the distance of each pair should.
          (distance * ds).sum → (distance.max() * ds).sum
    - The distance is one too large: a query and a key at the same position have the distance 0.
          distance = np.abs(t - r) → distance = 1 + np.abs(t - r)
    - dslope carries the scale 1/√K. Only the product of query and key is divided by √K; the penalty is not.
          dslope = -( → dslope = -scale * (
    - The distance has found its way into dq and dk. The penalty contains neither query nor key: to them the
      scores are as ever.
          dq = scale * (ds @ k) → dq = scale * ((ds * distance) @ k)
          dk = scale * (ds.mT @ q) → dk = scale * ((ds * distance).mT @ q)
    - The scale 1/√K is missing from dq and dk.
          dq = scale * (ds → dq = (ds
          dk = scale * (ds → dk = (ds
    - Divided by K in dq and dk; the root is missing.
          np.sqrt(q.shape[-1]) → q.shape[-1]
    - dS is not transposed. A key collects from every query.
          ds.mT @ q → ds @ q
    """,
    hints="""
    - A score has two terms. Which of them contains the query, which the slope?
    - So dq and dk are those of plain scores. For the slope, the local derivative is -|t - r|.
    - Make a table of distances (T, S), multiply ds by it, and sum over all axes but the heads.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def distance_table(ds, reach):
    T, S = ds.shape[-2:]
    t, r = np.arange(T)[:, np.newaxis], np.arange(S)
    distance = r - t
    held = np.clip(distance, -reach, reach)
    places = np.arange(-reach, reach + 1)[:, np.newaxis, np.newaxis]
    chosen = held == places
    summed = ds.sum(axis=0)
    dtable = (summed[:, np.newaxis] * chosen).sum(axis=(2, 3))
    return dtable


DISTANCE_TABLE = Exercise(
    distance_table,
    asks="Gathering the gradient of a table whose entries are used at many places, and at its ends.",
    outputs="dtable",
    inputs={"ds": normal("B H T S"), "reach": REACH},
    stories="""
    - The last one wins: an entry that is used several times keeps one of its gradients. They add up. With
      indices that repeat, `dtable[:, entry] += ...` reads the old value once: use `np.add.at`, or a loop with
      `+=`.
          return dtable → return last_wins(summed, held, reach)
    - The table is reversed: the entry belongs to r - t, the key's position minus the query's.
          distance = r - t → distance = t - r
    - Distances beyond the reach are left out. They are clipped: they use the first or the last entry, which
      receives their gradients too.
          held = np.clip(distance, -reach, reach) → held = distance
    - Every distance becomes R: minimum and maximum are exchanged. The clip is `max(-R, min(R, r - t))`.
          held = np.clip(distance, -reach, reach) → held = 0 * distance + reach
    - Every distance becomes -R: minimum and maximum are exchanged, or the two ends of the clip. It is
      `max(-R, min(R, r - t))`.
          held = np.clip(distance, -reach, reach) → held = 0 * distance - reach
    - The indices are not shifted: distance 0 belongs to the entry in the middle, number `reach`. Without the
      shift, negative distances count from the end of the table.
          chosen = held == places → chosen = held % (2 * reach + 1) == places + reach
    - The shift is one too large: distance 0 belongs to the entry number `reach`.
          chosen = held == places → chosen = np.minimum(held + 1, reach) == places
    - The shift is one too small: distance 0 belongs to the entry number `reach`.
          chosen = held == places → chosen = np.maximum(held - 1, -reach) == places
    - The distance is taken without its sign. A key before the query and one after it have different
      entries.
          distance = r - t → distance = np.abs(r - t)
    - The distance is taken without its sign, and not shifted. A key before the query and one after it have
      different entries, and distance 0 has the one in the middle.
          chosen = held == places → chosen = np.abs(held) == places + reach
    - A mean over the batch. All sequences share the table, and their gradients add.
          summed = ds.sum(axis=0) → summed = ds.mean(axis=0)
    - Only the first sequence is used. All of them share the table, and their gradients add.
          summed = ds.sum(axis=0) → summed = ds[0]
    - Each entry has the mean of what arrives at it. It is used that often, and gradients add.
          .sum(axis=(2, 3)) → .sum(axis=(2, 3)) / np.maximum(chosen.sum(axis=(1, 2)), 1)
    - Each entry has the mean of what arrives at it, in all sequences. It is used that often, and gradients
      add.
          .sum(axis=(2, 3)) → .sum(axis=(2, 3)) / np.maximum(chosen.sum(axis=(1, 2)), 1) / len(ds)
    - All heads have received the same sum. Each head has its own row of the table.
          summed = ds.sum(axis=0) → summed = np.repeat(ds.sum(axis=(0, 1))[np.newaxis], ds.shape[1], axis=0)
    - 1/√K has no place here: the entry is added to the score after the division.
          summed = ds.sum(axis=0) → summed = ds.sum(axis=0) / np.sqrt(ds.shape[-1])
    - Clipped at the wrong place: first cut off at -R and R, then shift by R. Here all keys before the query
      use entry 0, and distance 0 with them.
          chosen = held == places → chosen = np.clip(distance, 0, 2 * reach) == places + reach
    - Distances below -R are counted at index -R, which counts from the end of the table. Their entry is the
      first, number 0.
          return dtable → return looked_up(summed, np.where(distance < -reach, -reach, held + reach), reach)
    - Distances above R are counted at entry R, that of distance 0. Their entry is the last, number 2R.
          return dtable → return looked_up(summed, np.where(distance > reach, reach, held + reach), reach)
    - What lies beyond the reach is counted at the other end: keys far before the query use the first entry,
      keys far after it the last.
          return dtable → return other_end(summed, distance, reach)
    - Distance R itself is missing from the last entry: a range ends one too early. What lies beyond is there.
          chosen = held == places → chosen = (held == places) & (distance != reach)
    - Distance -R itself is missing from the first entry: a range begins one too late. What lies beyond
      is there.
          chosen = held == places → chosen = (held == places) & (distance != -reach)
    - Each entry has received all distances up to its own. It belongs to one distance, and only the first and
      the last collect those beyond.
          chosen = held == places → chosen = distance <= places
    - Each entry has received all distances from its own on. It belongs to one distance, and only the first
      and the last collect those beyond.
          chosen = held == places → chosen = distance >= places
    - Both signs of a distance share what arrives. A key before the query and one after it have different
      entries.
          chosen = held == places → chosen = np.abs(held) == np.abs(places)
    - Both signs of a distance share what arrives, half and half. A key before the query and one after it have
      different entries.
          return dtable → return (dtable + dtable[:, ::-1]) / 2
    - Entries and scores are flattened in different orders: the table of entries has T rows and S columns, as
      ds has.
          return dtable → return looked_up(summed, held.T.reshape(T, S) + reach, reach)
    - Distances beyond the reach are left out, and those of exactly -R on the left: the range begins one too
      late.
          chosen = held == places → chosen = (held == places) & (distance > -reach) & (distance <= reach)
    - Query and key have changed places in `ds[n, h, r, t]`: the query comes first, ds[n, h, t, r].
          summed = ds.sum(axis=0) → summed = ds.sum(axis=0)[:, r, t]
    - Only the sign of the distance chooses the entry: the first, the middle or the last. Each distance
      between has an entry of its own.
          np.clip(distance, -reach, reach) → reach * np.sign(distance)
    - Two mistakes: t - r stands where r - t should, and it is clipped on the right only. Below -R the index
      is negative, and counts from the end of the table.
          return dtable → return looked_up(summed, np.minimum(-distance, reach) + reach, reach)
    - Clipped at 0 and R, then shifted by R: all keys before the query share the entry of distance 0. The
      clip cuts off at -R and R.
          np.clip(distance, -reach, reach) → np.clip(distance, 0, reach)
    - Clipped at 0 and R, and not shifted: all keys before the query share the first entry. The clip cuts
      off at -R and R, and distance 0 has the entry number `reach`.
          chosen = held == places → chosen = np.clip(distance, 0, reach) == places + reach
    - Queries and keys are shifted against each other, by S - T. Both positions count from 0 at the beginning.
          distance = r - t → distance = r - t + S - T
    - The shift is T - 1, as for a table of all distances. This one has only 2R + 1 entries: clip at -R and
      R first, then shift by R.
          chosen = held == places → chosen = np.clip(r - t + T - 1, 0, 2 * reach) == places + reach
    - The clip ends one too late: at -R - 1 and R + 1. These distances use the first and the last entry.
          return dtable → return looked_up(summed, np.clip(distance, -reach - 1, reach + 1) + reach, reach)
    - The distances beyond the reach are counted twice.
          summed = ds.sum(axis=0) → summed = ds.sum(axis=0) * (1 + (np.abs(distance) > reach))
    - The distances of R and beyond are counted twice.
          summed = ds.sum(axis=0) → summed = ds.sum(axis=0) * (1 + (np.abs(distance) >= reach))
    - The clip ends one too early on the right: both R and -R have an entry.
          np.clip(distance, -reach, reach) → np.clip(distance, -reach, reach - 1)
    - The clip is missing, and distances beyond the reach go round to the other end of the table.
          chosen = held == places → chosen = (distance + reach) % (2 * reach + 1) == places + reach
    - The clip and the shift are missing: distances go round, as negative indices do.
          chosen = held == places → chosen = distance % (2 * reach + 1) == places + reach
    - This counts how often an entry is used. What arrives, ds, is added there.
          summed = ds.sum(axis=0) → summed = 0 * ds.sum(axis=0) + 1
    - Distance 0 is left out. A query and a key at the same place have an entry too, the one in the middle.
          chosen = held == places → chosen = (held == places) & (distance != 0)
    - Only keys up to the query are counted. Nothing is masked here: entries above R belong to the keys
      after it.
          chosen = held == places → chosen = (held == places) & (distance <= 0)
    - The first query is left out.
          chosen = held == places → chosen = (held == places) & (t > 0)
    - The last query is left out: a loop ends one step too early.
          chosen = held == places → chosen = (held == places) & (t < T - 1)
    - Only the first query is used. All of them read the table.
          chosen = held == places → chosen = (held == places) & (t == 0)
    - Distances beyond the reach are left out on the right. They use the last entry.
          chosen = held == places → chosen = (held == places) & (distance <= reach)
    - Distances beyond the reach are left out on the left. They use the first entry.
          chosen = held == places → chosen = (held == places) & (distance >= -reach)
    - Multiplied by the distance. The entry is added to the score as it is: its local derivative is 1.
          summed = ds.sum(axis=0) → summed = ds.sum(axis=0) * distance
    - All heads have received what belongs to the last one. Each head has its own row of the table.
          summed = ds.sum(axis=0) → summed = np.repeat(ds.sum(axis=0)[-1:], ds.shape[1], axis=0)
    - All heads have received what belongs to the first one. Each head has its own row of the table.
          summed = ds.sum(axis=0) → summed = np.repeat(ds.sum(axis=0)[:1], ds.shape[1], axis=0)
    - The first one wins: an entry that is used several times keeps one of its gradients. They add up.
          return dtable → return first_wins(summed, held, reach)
    - Distance 0 goes to the entry before the right one. It belongs to the entry number `reach`, and both
      positions count from 0.
          held = np.clip(distance, -reach, reach) → held = np.clip(distance - 1, -reach, reach)
    - Distance 0 goes to the entry after the right one. It belongs to the entry number `reach`, and both
      positions count from 0.
          held = np.clip(distance, -reach, reach) → held = np.clip(distance + 1, -reach, reach)
    - Two mistakes: distances beyond the reach are left out, and of several gradients of an entry the last one
      wins. They are clipped, and they add up.
          return dtable → return last_near(summed, distance, reach)
    - Only the last sequence is used. All of them share the table, and their gradients add.
          summed = ds.sum(axis=0) → summed = ds[-1]
    - The squared distance chooses the entry. It belongs to the distance itself, with its sign.
          chosen = held == places → chosen = np.minimum(distance**2, 2 * reach) == places + reach
    - The position of the key chooses the entry. It belongs to r - t, the key's position minus the query's.
          chosen = held == places → chosen = np.minimum(r + 0 * t, 2 * reach) == places + reach
    - The position of the query chooses the entry. It belongs to r - t, the key's position minus the query's.
          chosen = held == places → chosen = np.minimum(t + 0 * r, 2 * reach) == places + reach
    - The sum of both positions chooses the entry. It belongs to their difference, r - t.
          chosen = held == places → chosen = np.minimum(t + r, 2 * reach) == places + reach
    - The table is transposed: it has a row for each head, and a column for each distance.
          .sum(axis=(2, 3)) → .sum(axis=(2, 3)).T
    - The last key of each query is left out: a loop ends one step too early.
          summed = ds.sum(axis=0) → summed = ds.sum(axis=0) * (r < S - 1)
    - Distances beyond the reach are not clipped: r - t + R points outside the table then, or from its
      other end. Cut off at -R and R first.
          return dtable → return looked_up(summed, distance + reach, reach)
    - Clip and shift are missing: r - t points outside the table then, or from its end. Cut off at -R
      and R, then add R.
          return dtable → return looked_up(summed, distance, reach)
    - The table is reversed, t - r for r - t, and not clipped: distances beyond the reach use the first
      or the last entry.
          return dtable → return looked_up(summed, reach - distance, reach)
    - Clipped on the right only. Below -R the index is negative, and counts from the end of the table.
          return dtable → return looked_up(summed, np.minimum(distance, reach) + reach, reach)
    - Above R the index points outside the table: nothing is clipped there, or only above 2R. The last entry
      is number 2R.
          return dtable → return looked_up(summed, np.maximum(distance, -reach) + reach, reach)
    - The shift is one too large: the index points outside the table. Distance 0 belongs to the entry
      number `reach`, and the last entry is number 2R.
          return dtable → return looked_up(summed, held + reach + 1, reach)
    - The shift is one too small: distance 0 belongs to the entry number `reach`, and -R to the first,
      number 0.
          return dtable → return looked_up(summed, held + reach - 1, reach)
    - Clipped after the shift, at -R and R. The clip belongs before the shift: it cuts off the distance,
      not the entry.
          return dtable → return looked_up(summed, np.clip(distance + reach, -reach, reach), reach)
    - Clipped after the shift, at 0 and R. The table goes on to entry 2R.
          return dtable → return looked_up(summed, np.clip(distance + reach, 0, reach), reach)
    - The clip ends one too early on both sides: R and -R have an entry, too.
          np.clip(distance, -reach, reach) → np.clip(distance, 1 - reach, reach - 1)
    - The clip ends one too early on the left: both R and -R have an entry.
          np.clip(distance, -reach, reach) → np.clip(distance, 1 - reach, reach)
    - Distances of R and beyond are left out. They use the first and the last entry.
          chosen = held == places → chosen = (held == places) & (np.abs(distance) < reach)
    - Distances beyond the reach are left out, and those of exactly R on the right: the range ends one
      too early.
          chosen = held == places → chosen = (held == places) & (distance >= -reach) & (distance < reach)
    - The first and the last entry hold what lies beyond the reach only. The distances R and -R
      themselves belong there, too.
          chosen = held == places → chosen = (held == places) & (np.abs(distance) != reach)
    - The distances R and -R are counted twice.
          summed = ds.sum(axis=0) → summed = ds.sum(axis=0) * (1 + (np.abs(distance) == reach))
    - Of the distances beyond the reach only the next one is counted, R + 1. All of them use the first
      or the last entry.
          chosen = held == places → chosen = (held == places) & (np.abs(distance) <= reach + 1)
    - The distance is taken without its sign, and the table filled up to the middle. A key before the
      query and one after it have different entries.
          distance = r - t → distance = -np.abs(r - t)
    - Only keys before the query are counted, and not the one at its own place. Nothing is masked here.
          chosen = held == places → chosen = (held == places) & (distance < 0)
    - Only keys from the query on are counted. Nothing is masked here: entries below R belong to the
      keys before.
          chosen = held == places → chosen = (held == places) & (distance >= 0)
    - Only keys after the query are counted. Nothing is masked here: distance 0 has the entry R, and
      keys before have those below.
          chosen = held == places → chosen = (held == places) & (distance > 0)
    - The first key of each query is left out.
          chosen = held == places → chosen = (held == places) & (r > 0)
    - The first query and the first key are left out: loops begin one too late. Positions count from 0.
          chosen = held == places → chosen = (held == places) & (r > 0) & (t > 0)
    - The last query and the last key are left out: loops end one step too early.
          chosen = held == places → chosen = (held == places) & (r < S - 1) & (t < T - 1)
    - Only the last query is left: the table is made anew for each, or each replaces the one before.
      Make it once, before the loops, and add.
          chosen = held == places → chosen = (held == places) & (t == T - 1)
    - Only the first T keys are used. There are S of them.
          chosen = held == places → chosen = (held == places) & (r < T)
    - The loop over the keys runs to T. There are T queries and S keys.
          return dtable → return looked_up(summed[:, :, np.arange(T)], held[:, np.arange(T)] + reach, reach)
    - The loop over the queries runs to S. There are T queries and S keys.
          return dtable → return looked_up(summed[:, np.arange(S)], held[np.arange(S)] + reach, reach)
    - The sizes are exchanged, or query and key: the third axis of ds holds the T queries, the fourth
      the S keys.
          return dtable → return looked_up(summed[:, np.arange(S)][:, :, np.arange(T)], held + reach, reach)
    - Query and key have changed places: ds has the query in its third axis and the key in its fourth.
          summed = ds.sum(axis=0) → summed = ds.sum(axis=0)[:, np.minimum(r, T - 1), np.minimum(t, S - 1)]
    - Queries and keys are lined up at their ends here. Both positions count from 0 at the beginning.
          distance = r - t → distance = r - S - t + T
    - Two mistakes: t - r stands where r - t should, and of several gradients of an entry the last one
      wins. They add up.
          distance = r - t → distance = t - r
          return dtable → return last_wins(summed, held, reach)
    - Two mistakes: t - r stands where r - t should, and the indices are not shifted by `reach`.
          distance = r - t → distance = t - r
          chosen = held == places → chosen = held % (2 * reach + 1) == places + reach
    - Two mistakes: only the first sequence is used, and of several gradients of an entry the last one
      wins. They all add up.
          summed = ds.sum(axis=0) → summed = ds[0]
          return dtable → return last_wins(summed, held, reach)
    - The last one wins, of all sequences and all places: each use of an entry replaces the gradient of
      the use before. They add up: `+=`, and a sum over the batch.
          summed = ds.sum(axis=0) → summed = ds[-1]
          return dtable → return last_wins(summed, held, reach)
    - Keys of one query that share an entry lose all but the last: `dtable[:, entries] += ...` reads the
      old value once where an entry repeats. Use `np.add.at`, or one key at a time.
          return dtable → return once_a_row(summed, held, reach)
    - Keys of one query that share an entry lose all but the last, and t - r stands where r - t should.
          distance = r - t → distance = t - r
          return dtable → return once_a_row(summed, held, reach)
    - Queries that share an entry for one key lose all but the last: `dtable[:, entries] += ...` reads
      the old value once where an entry repeats. Use `np.add.at`, or one query at a time.
          return dtable → return once_a_column(summed, held, reach)
    - All heads have received the mean of the heads. Each head has its own row of the table.
          summed = ds.sum(axis=0) → summed = ds.sum(axis=0).mean(axis=0) + np.zeros(ds.shape[1:])
    - Multiplied by the clipped distance. The entry is added to the score as it is: its local derivative
      is 1.
          summed = ds.sum(axis=0) → summed = ds.sum(axis=0) * np.clip(r - t, -reach, reach)
    - Multiplied by the distance without its sign. The entry is added to the score as it is: its local
      derivative is 1.
          summed = ds.sum(axis=0) → summed = ds.sum(axis=0) * np.abs(r - t)
    - Multiplied by minus the distance, as for a slope. The entry is added to the score as it is: its
      local derivative is 1.
          summed = ds.sum(axis=0) → summed = -ds.sum(axis=0) * np.abs(r - t)
    - This counts how often an entry is used, in all sequences. What arrives, ds, is added there.
          summed = ds.sum(axis=0) → summed = np.full(ds.shape[1:], float(len(ds)))
    - Each entry has received the sum over all scores of its head. Add what arrives at the pairs (t, r)
      whose distance belongs to it.
          chosen = held == places → chosen = held == held + 0 * places
    - The last entry is empty: a loop over the distances ends one too early. `range(-R, R + 1)` reaches
      R.
          chosen = held == places → chosen = (held == places) & (places < reach)
    - The first entry is empty: a loop over the distances begins one too late.
          chosen = held == places → chosen = (held == places) & (places > -reach)
    - Entry k has received the distance k. It belongs to the distance k - R: distance 0 has the entry in
      the middle.
          chosen = held == places → chosen = held == places + reach
    - Only the first and the last entry are filled. Each distance between has an entry of its own.
          chosen = held == places → chosen = (held == places) & (np.abs(distance) >= reach)
    - The last sequence is left out: a loop ends one step too early.
          summed = ds.sum(axis=0) → summed = ds[:-1].sum(axis=0)
    - The first sequence is left out: a loop begins one step too late.
          summed = ds.sum(axis=0) → summed = ds[1:].sum(axis=0)
    - Only the row of the last head is filled.
          summed = ds.sum(axis=0) → summed = only_heads(ds, lambda h, H: h == H - 1)
    - Only the row of the first head is filled.
          summed = ds.sum(axis=0) → summed = only_heads(ds, lambda h, H: h == 0)
    - The row of the last head is empty: a loop ends one step too early.
          summed = ds.sum(axis=0) → summed = only_heads(ds, lambda h, H: h < H - 1)
    - The heads are in reversed order.
          summed = ds.sum(axis=0) → summed = ds.sum(axis=0)[::-1]
    - Distances beyond the reach on the left are counted at the right end: clipping keeps the sign.
          np.clip(distance, -reach, reach) → np.where(distance < -reach, reach, np.minimum(r - t, reach))
    - Distances beyond the reach on the right are counted at the left end: clipping keeps the sign.
          np.clip(distance, -reach, reach) → np.where(distance > reach, -reach, np.maximum(r - t, -reach))
    - The first and the last entry are halved. Nothing is shared out: each receives all that arrives at
      its pairs.
          return dtable → return dtable * np.where(np.abs(places[:, 0, 0]) == reach, 0.5, 1)
    - The sizes of the gradients are added, without their signs.
          summed = ds.sum(axis=0) → summed = np.abs(ds).sum(axis=0)
    - The positions are clipped, and not their difference: first r - t, then the clip.
          held = np.clip(distance, -reach, reach) → held = np.minimum(r, reach) - np.minimum(t, reach)
    """,
    hints="""
    - Which scores use one entry of the table? A whole diagonal of the (T, S) scores, in every sequence.
    - Make the table of entries (T, S) that the forward would read. The backward adds where the forward reads.
    - Sum ds over the batch. Then, for each head, `np.add.at(dtable[h], entry, ds_sum[h])`: it adds also where
      an entry occurs many times.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def frequency_gradients(dy, x, omega):
    t = np.arange(x.shape[1])[:, np.newaxis]
    cos, sin = np.cos(t * omega), np.sin(t * omega)
    x_0, x_1 = x[..., 0::2], x[..., 1::2]
    dy_0, dy_1 = dy[..., 0::2], dy[..., 1::2]
    dx_0 = dy_0 * cos + dy_1 * sin
    dx_1 = dy_1 * cos - dy_0 * sin
    dx = np.stack([dx_0, dx_1], axis=-1).reshape(x.shape)
    y_0 = x_0 * cos - x_1 * sin
    y_1 = x_0 * sin + x_1 * cos
    dtheta = dy_1 * y_0 - dy_0 * y_1
    domega = (t * dtheta).sum(axis=(0, 1))
    return dx, domega


FREQUENCY_GRADIENTS = Exercise(
    frequency_gradients,
    asks="Differentiating a rotation by its frequency, with positions counted from 0.",
    outputs="dx domega",
    inputs={
        "dy": in_pairs("B T K"),
        "x": in_pairs("B T K"),
        "omega": Draw("K", lambda rng, shape: rng.uniform(0.2, 1.3, shape)),
    },
    stories="""
    - In ∂y_0/∂θ, or in y_1, its opposite, the term of x_1 with the cosine has the wrong sign.
          y_1 = x_0 * sin + x_1 * cos → y_1 = x_0 * sin - x_1 * cos
    - In ∂y_0/∂θ, or in y_1, its opposite, the term of x_0 with the sine has the wrong sign.
          y_1 = x_0 * sin + x_1 * cos → y_1 = x_1 * cos - x_0 * sin
    - In ∂y_1/∂θ, or in y_0, which is the same, the term of x_1 with the sine has the wrong sign.
          y_0 = x_0 * cos - x_1 * sin → y_0 = x_0 * cos + x_1 * sin
    - In ∂y_1/∂θ, or in y_0, which is the same, the term of x_0 with the cosine has the wrong sign.
          y_0 = x_0 * cos - x_1 * sin → y_0 = -x_0 * cos - x_1 * sin
    - In ∂y_0/∂θ, or in y_1, its opposite, the term of x_1 with the cosine is missing.
          y_1 = x_0 * sin + x_1 * cos → y_1 = x_0 * sin
    - In ∂y_0/∂θ, or in y_1, its opposite, the term of x_0 with the sine is missing.
          y_1 = x_0 * sin + x_1 * cos → y_1 = x_1 * cos
    - In ∂y_1/∂θ, or in y_0, which is the same, the term of x_1 with the sine is missing.
          y_0 = x_0 * cos - x_1 * sin → y_0 = x_0 * cos
    - In ∂y_1/∂θ, or in y_0, which is the same, the term of x_0 with the cosine is missing.
          y_0 = x_0 * cos - x_1 * sin → y_0 = -x_1 * sin
    - In domega only the sines are left: ∂y_0/∂θ and ∂y_1/∂θ have a cosine each, too.
          y_0 = x_0 * cos - x_1 * sin → y_0 = -x_1 * sin
          y_1 = x_0 * sin + x_1 * cos → y_1 = x_0 * sin
    - In domega only the cosines are left: ∂y_0/∂θ and ∂y_1/∂θ have a sine each, too.
          y_0 = x_0 * cos - x_1 * sin → y_0 = x_0 * cos
          y_1 = x_0 * sin + x_1 * cos → y_1 = x_1 * cos
    - In domega the derivative of the cosine is taken as + sin. It is - sin.
          y_0 = x_0 * cos - x_1 * sin → y_0 = x_0 * cos + x_1 * sin
          y_1 = x_0 * sin + x_1 * cos → y_1 = x_1 * cos - x_0 * sin
    - In domega the derivative of the sine is taken as - cos. It is + cos.
          y_0 = x_0 * cos - x_1 * sin → y_0 = -x_0 * cos - x_1 * sin
          y_1 = x_0 * sin + x_1 * cos → y_1 = x_0 * sin - x_1 * cos
    - dx is made of y in place of dy: turned back, y is x again. Turn back the gradient.
          dx = np.stack([dx_0, dx_1], axis=-1).reshape(x.shape) → dx = 1.0 * x
    - dx is the forward: x is turned. The adjoint turns dy, and by -θ.
          return dx, domega → return as_neighbours(y_0, y_1), domega
    - dx is x turned by -θ. The adjoint turns the gradient, dy.
          dx_0 = dy_0 * cos + dy_1 * sin → dx_0 = x_0 * cos + x_1 * sin
          dx_1 = dy_1 * cos - dy_0 * sin → dx_1 = x_1 * cos - x_0 * sin
    - dx is y turned by 90 degrees, the derivative by the angle. What is asked is dy, turned by -θ.
          return dx, domega → return as_neighbours(-y_1, y_0), domega
    - dx is dy times y, entry by entry. A turn mixes the two columns of a pair: turn dy by -θ.
          return dx, domega → return dy * as_neighbours(y_0, y_1), domega
    - dx is dy times x, entry by entry. A turn mixes the two columns of a pair: turn dy by -θ.
          dx = np.stack([dx_0, dx_1], axis=-1).reshape(x.shape) → dx = dy * x
    - The inner derivative is missing from domega: this is the sum of the gradients of the angles. Since
      θ = t ω, each of them counts t times.
          (t * dtheta) → dtheta
    - Positions are counted from 1 in domega. They count from 0: the first token is not turned.
          (t * dtheta) → ((t + 1) * dtheta)
    - Positions are counted from 1. They count from 0: the first token is not turned.
          t = np.arange(x.shape[1])[:, np.newaxis] → t = np.arange(1, x.shape[1] + 1)[:, np.newaxis]
    - domega has the wrong sign: when the angle grows, y_0 changes by -y_1, and y_1 by +y_0.
          dtheta = dy_1 * y_0 - dy_0 * y_1 → dtheta = dy_0 * y_1 - dy_1 * y_0
    - In domega both terms have the sign +. When the angle grows, y_0 changes by -y_1, and y_1 by +y_0.
          dtheta = dy_1 * y_0 - dy_0 * y_1 → dtheta = dy_1 * y_0 + dy_0 * y_1
    - This is ⟨dy, y⟩ for each pair: what a change of the *length* would cost. A turn moves y at right angles
      to itself, by (-y_1, y_0).
          dtheta = dy_1 * y_0 - dy_0 * y_1 → dtheta = dy_0 * y_0 + dy_1 * y_1
    - x stands in domega where the turned y should: the derivative is taken at the angle θ, not at 0.
          dtheta = dy_1 * y_0 - dy_0 * y_1 → dtheta = dy_1 * x_0 - dy_0 * x_1
    - domega is not summed over the batch. All sequences share the frequencies.
          .sum(axis=(0, 1)) → .sum(axis=1)
    - domega is not summed over the positions. All of them share the frequencies.
          .sum(axis=(0, 1)) → .sum(axis=0)
    - domega is a mean. A frequency is used at every position of every sequence, and gradients add.
          .sum(axis=(0, 1)) → .mean(axis=(0, 1))
    - domega is summed over the positions, but averaged over the batch.
          .sum(axis=(0, 1)) → .sum(axis=1).mean(axis=0)
    - ω stands in domega where t should: the derivative of θ = t ω by ω is t.
          (t * dtheta) → (omega * dtheta)
    - One term is missing in domega. Both outputs of a pair change with the angle.
          dtheta = dy_1 * y_0 - dy_0 * y_1 → dtheta = dy_1 * y_0
    - One term is missing in domega. Both outputs of a pair change with the angle.
          dtheta = dy_1 * y_0 - dy_0 * y_1 → dtheta = -dy_0 * y_1
    - This is ⟨dy, x⟩ for each pair. When the angle grows, y moves at right angles to itself, by (-y_1, y_0).
          dtheta = dy_1 * y_0 - dy_0 * y_1 → dtheta = dy_0 * x_0 + dy_1 * x_1
    - Sine and cosine are exchanged in dx.
          dx_0 = dy_0 * cos + dy_1 * sin → dx_0 = dy_0 * sin + dy_1 * cos
          dx_1 = dy_1 * cos - dy_0 * sin → dx_1 = dy_1 * sin - dy_0 * cos
    - Both terms have the sign +, and x stands where the turned y should. When the angle grows, y_0 changes by
      -y_1, and y_1 by +y_0.
          dtheta = dy_1 * y_0 - dy_0 * y_1 → dtheta = dy_1 * x_0 + dy_0 * x_1
    - ω has found its way into dx. The angle contains ω, but no x: the turn is all there is.
          return dx, domega → return dx * np.repeat(omega, 2), domega
    - The mean position stands where that of each token should: multiply by t before the sum.
          (t * dtheta) → (t.mean() * dtheta)
    - The last position stands where that of each token should: multiply by t before the sum.
          (t * dtheta) → (t.max() * dtheta)
    - T - t stands where t should: positions count from the beginning.
          (t * dtheta) → ((len(t) - t) * dtheta)
    - Only the last position is used. A frequency is used at all of them.
          (t * dtheta).sum(axis=(0, 1)) → (t * dtheta)[:, -1].sum(axis=0)
    - The positions are counted from the end. They count from 0 at the beginning.
          (t * dtheta) → (t[::-1] * dtheta)
    - domega is one sum for all pairs. Each pair has its own frequency.
          .sum(axis=(0, 1)) → .sum()
    - t stands in domega twice. The angle is t ω, so each dθ counts t times and no more.
          (t * dtheta) → (t**2 * dtheta)
    - dx is not turned: dy is returned as it came. The adjoint of a rotation turns back, by -θ.
          dx = np.stack([dx_0, dx_1], axis=-1).reshape(x.shape) → dx = 1.0 * dy
    - dx is turned by θ once more. The adjoint of a rotation turns back, by -θ.
          dx_0 = dy_0 * cos + dy_1 * sin → dx_0 = dy_0 * cos - dy_1 * sin
          dx_1 = dy_1 * cos - dy_0 * sin → dx_1 = dy_1 * cos + dy_0 * sin
    - dx has its pairs in halves. Columns 2i and 2i + 1 belong together, here as in the forward.
          dx = np.stack([dx_0, dx_1], axis=-1).reshape(x.shape) → dx = np.concatenate([dx_0, dx_1], axis=-1)
    - The pairs are taken in halves. In this layer columns 2i and 2i + 1 belong together.
          x_0, x_1 = x[..., 0::2], x[..., 1::2] → x_0, x_1 = np.split(x, 2, axis=-1)
          dy_0, dy_1 = dy[..., 0::2], dy[..., 1::2] → dy_0, dy_1 = np.split(dy, 2, axis=-1)
          dx = np.stack([dx_0, dx_1], axis=-1).reshape(x.shape) → dx = np.concatenate([dx_0, dx_1], axis=-1)
    """,
    hints="""
    - Two steps: first the gradient of each angle θ_ti, then θ_ti = t ω_i.
    - Differentiate the two outputs of a pair by θ: y_0 gives -y_1, and y_1 gives y_0. So dθ = dy_1 y_0 -
      dy_0 y_1.
    - ω_i stands in the angle of every position of every sequence, with the factor t: multiply by t and sum
      over both.
    """,
)
