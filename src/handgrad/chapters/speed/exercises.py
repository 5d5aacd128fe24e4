"""Exercises of chapter 19: tiles, memory and workers. Each is its right answer, and what to say about it."""

import numpy as np
from sympy import Rational

from ...course.judge.derivation import Derivation
from ...course.judge.draws import Draw, normal, number, repeating
from ...course.judge.function import Exercise


def positive(letters):
    """Sums of exponentials: between 1 and 4."""
    return Draw(letters, lambda rng, shape: rng.uniform(1, 4, shape))


# 1 ----------------------------------------------------------------------------------------------------------


def weighed(weights, u):
    """weights (B, T), u (B, T, E): each row of u times its weight."""
    return weights[..., None] * u


def merge_parts(m_1, z_1, u_1, m_2, z_2, u_2):
    m = np.maximum(m_1, m_2)
    fade_1 = np.exp(m_1 - m)
    fade_2 = np.exp(m_2 - m)
    z = fade_1 * z_1 + fade_2 * z_2
    u = fade_1[..., None] * u_1 + fade_2[..., None] * u_2
    return m, z, u


def first_is(value):
    """The first sequence has this number everywhere."""

    def change(x):
        x[0] = value
        return x

    return change


NOTHING = {
    "m_2": normal("B T").then(first_is(-np.inf)),
    "z_2": positive("B T").then(first_is(0)),
    "u_2": normal("B T E").then(first_is(0)),
}
FAR = {"m_1": normal("B T").then(lambda m: 2000 + m), "m_2": normal("B T").then(lambda m: 1999 + m)}
MERGE_PARTS = Exercise(
    merge_parts,
    asks="Joining two partial softmax sums without overflow, also where one has seen nothing.",
    outputs="m z u",
    inputs={
        "m_1": normal("B T"),
        "z_1": positive("B T"),
        "u_1": normal("B T E"),
        "m_2": normal("B T"),
        "z_2": positive("B T"),
        "u_2": normal("B T E"),
    },
    special={"scores of some thousands": FAR, "a part that has seen nothing": NOTHING},
    only={
        "scores of some thousands": "There exp overflows unless its exponent is a difference of two maxima.",
        "a part that has seen nothing": "Its maximum is -∞ and its sums are 0: the other part must come out "
        "as it was, not NaN.",
    },
    stories="""
    - Neither part is faded. Each sum was taken with its own maximum; both must be brought to the common one
      before they are added.
          fade_1 = np.exp(m_1 - m) → fade_1 = 0 * z_1 + 1
          fade_2 = np.exp(m_2 - m) → fade_2 = 0 * z_2 + 1
    - Only the first part is faded, as in a stream. There the new block is computed with the new maximum;
      here the second part has a maximum of its own.
          fade_2 = np.exp(m_2 - m) → fade_2 = 0 * z_2 + 1
    - Only the second part is faded. Either part may have the smaller maximum.
          fade_1 = np.exp(m_1 - m) → fade_1 = 0 * z_1 + 1
    - The exponent has the wrong sign: a smaller maximum must make a part smaller, by exp(m_1 - m) ≤ 1.
          fade_1 = np.exp(m_1 - m) → fade_1 = np.exp(m - m_1)
          fade_2 = np.exp(m_2 - m) → fade_2 = np.exp(m - m_2)
    - The maxima are exchanged in the two factors.
          fade_1 = np.exp(m_1 - m) → fade_1 = np.exp(m_2 - m)
          fade_2 = np.exp(m_2 - m) → fade_2 = np.exp(m_1 - m)
    - z is right, but u is added without the factors. The same factor belongs to both sums of a part.
          u = fade_1[..., None] * u_1 + fade_2[..., None] * u_2 → u = u_1 + u_2
    - This u is divided by z already. It is asked for the sum, so that it can be merged again.
          + fade_2[..., None] * u_2 → + fade_2[..., None] * u_2; u = u / z[..., None]
    - This treats u as an average: it is weighted by z once more. u is a sum already, and only fades.
          fade_1[..., None] * u_1 → weighed(fade_1 * z_1, u_1)
          fade_2[..., None] * u_2 → weighed(fade_2 * z_2, u_2)
    - The common maximum is the larger of the two, not their mean.
          np.maximum(m_1, m_2) → (m_1 + m_2) / 2
    - The common maximum is the larger of the two, not their sum.
          np.maximum(m_1, m_2) → m_1 + m_2
    - The common maximum is the larger of the two, not the smaller: the factors would be above 1 and may
      overflow.
          np.maximum(m_1, m_2) → np.minimum(m_1, m_2)
    """,
    hints="""
    - What would z_1 and u_1 be, had the first part known the common maximum m from the beginning?
    - Each is multiplied by exp(m_1 - m). The second part has a factor of its own.
    - z has shape (B, T) and u (B, T, E): the factor needs one more axis, `fade[..., None]`.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def tile_gradients(dy, dl, q, k, v, y, l):
    scale = 1 / np.sqrt(q.shape[-1])
    s = scale * (q @ k.mT)
    a = np.exp(s - l[..., None])
    D = (dy * y).sum(axis=-1, keepdims=True)
    da = dy @ v.mT
    ds = a * (da - D + dl[..., None])
    dq = scale * (ds @ k)
    dk = scale * (ds.mT @ q)
    dv = a.mT @ dy
    return dq, dk, dv


TILE_GRADIENTS = Exercise(
    tile_gradients,
    asks="A tile of a longer row with two gradients from above: what is its own, what the row's.",
    outputs="dq dk dv",
    inputs={
        "dy": normal("B T E"),
        "dl": normal("B T"),
        "q": normal("B T K"),
        "k": repeating("B S K").then(lambda k: k / 3),
        "v": repeating("B S E"),
        "y": normal("B T E"),
        "l": positive("B T"),
    },
    stories="""
    - dℓ is multiplied by ℓ. The path through ℓ has the slope ∂ℓ_i/∂s_ij = a_ij, and nothing else.
          dl[..., None]) → dl[..., None] * l[..., None])
    - The gradient of ℓ is not used. ℓ_i depends on every score of its row, with the slope a_ij, so dℓ_i
      comes back to each of them.
          da - D + dl[..., None] → da - D
    - dℓ is taken away where it should be added: a larger score makes ℓ larger.
          da - D + dl[..., None] → da - D - dl[..., None]
    - dℓ is added outside the bracket: it comes back through the slope ∂ℓ_i/∂s_ij = a_ij.
          a * (da - D + dl[..., None]) → a * (da - D) + dl[..., None]
    - D is missing: the average of da under the weights must be taken away.
          da - D + dl[..., None] → da + dl[..., None]
    - D is added where it should be taken away.
          da - D + dl → da + D + dl
    - D is the row sum over this tile only. It is that over all keys, which is the product of dy and y.
          da - D + dl[..., None] → da - (a * da).sum(axis=-1, keepdims=True) + dl[..., None]
    - The weights are normalised within the tile. They are shares of the whole row: exp(s - ℓ).
          a = np.exp(s - l[..., None]) → a = np.exp(s) / np.exp(s).sum(axis=-1, keepdims=True)
    - ℓ is not taken away: exp(s) is not a weight yet.
          np.exp(s - l[..., None]) → np.exp(s)
    - dv is taken from ds. A value is weighted by a, and its gradient is aᵀ dy.
          a.mT @ dy → ds.mT @ dy
    - The scale is missing from dq and dk. The scores are q · k / √K, so 1/√K comes back in both.
          dq = scale * (ds @ k) → dq = ds @ k
          dk = scale * (ds.mT @ q) → dk = ds.mT @ q
    - The scale is missing from dq.
          dq = scale * (ds @ k) → dq = ds @ k
    - The scale is missing from dk.
          dk = scale * (ds.mT @ q) → dk = ds.mT @ q
    - The weights are computed again without the scale, and are not those of the forward.
          s = scale * (q @ k.mT) → s = q @ k.mT
    """,
    hints="""
    - Begin as in the chapter: the scores of the tile, and the weights exp(s - ℓ).
    - The loss reaches a score on two ways: through y, as in the chapter, and through ℓ. The two add up.
    - ∂ℓ_i/∂s_ij = a_ij. So dℓ_i stands in the bracket, beside -D_i.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def two_level_memory(N, rho):
    each = (rho * N) ** Rational(1, 3)
    return 3 * each


def memory_at_the_best(N, rho):
    c = (N**2 / rho) ** Rational(1, 3)
    d = (N / rho**2) ** Rational(1, 3)
    return N / c + c / d + rho * d


TWO_LEVEL_MEMORY = Derivation(
    two_level_memory,
    asks="Writing a cost in two unknowns, and finding where it is smallest.",
    domains={"N": "positive", "rho": "positive"},
    ways=(memory_at_the_best,),
    stories="""
    - This is the least of one level. With groups inside groups there are three terms.
          each = (rho * N) ** Rational(1, 3) → each = (rho * N) ** Rational(1, 2)
          3 * each → 2 * each
    - The power is right, but there are three terms, all equal at the best plan, and you have fewer.
          3 * each → 2 * each
    - This is one of the three terms. The memory is their sum.
          3 * each → each
    - ρ is missing. Only the innermost term holds whole caches, each as large as ρ inputs.
          (rho * N) → N
    - The root is the square root. Three factors whose product is fixed have the least sum when each is the
      third root of it.
          (rho * N) ** Rational(1, 3) → (rho * N) ** Rational(1, 2)
    - ρ stands outside of the root.
          (rho * N) ** Rational(1, 3) → rho * N ** Rational(1, 3)
    - The exponent is 2/3. That is the power of N in the best c, not of the memory.
          Rational(1, 3) → Rational(2, 3)
    - This is what is held without any recomputation.
          3 * each → each**3
    """,
    hints="""
    - At any time the memory is a sum of three terms: N/c inputs of large groups, c/d inputs of small ones,
      and ρ d for the caches of one small group.
    - The product of the three terms is ρ N, whatever c and d are.
    - A sum of three numbers with a fixed product is least if all three are equal.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def gate_backward(dy, x, g):
    dx = dy + dy * g
    dh = dy * x * g * (1 - g)
    return dx, dh


GATE_BACKWARD = Exercise(
    gate_backward,
    asks="Finding where two names mean one array, and a repair that changes no argument.",
    outputs="dx dh",
    inputs={
        "dy": normal("B T D"),
        "x": repeating("B T D"),
        "g": normal("B T D").then(lambda h: 1 / (1 + np.exp(-h))),
    },
    stories="""
    - dh is computed from dx, and comes out (1 + g) times too large. What arrives at the product x g is dy: if
      dx has been written into the memory of dy, dh has read it too late.
          dh = dy * x → dh = dx * x
    - The slope has been written into the memory of g before dx reads it.
          dx = dy + dy * g → dx = dy + dy * (g * (1 - g))
    - The slope of the gate is read after it has been overwritten: g (1 - g) was taken for g.
          x * g * (1 - g) → x * g * (1 - g) * (1 - g * (1 - g))
    - The residual path is missing: x goes to y by itself as well, so dy itself belongs to dx.
          dx = dy + dy * g → dx = dy * g
    - This dx is the residual path only. Through the product x g a second part, dy g, comes back.
          dx = dy + dy * g → dx = dy
    - The slope of σ is missing: the gradient asked for is that of h, before the gate.
          * g * (1 - g) → + 0 * g
    - The slope of σ is g (1 - g); here one factor is missing.
          x * g * (1 - g) → x * (1 - g)
    - The product rule is taken for a sum: dh has one path only, through x g.
          dh = dy * x * g * (1 - g) → dh = dy * x + dy * g * (1 - g)
    - x is missing from dh: h acts on y through x g.
          dy * x * g → dy * g
    """,
    hints="""
    - Which names stand for the same array? Follow `dx = dy`, and then every line with `+=` or `*=`.
    - There are two of them: `dx` and `dy`, `slope` and `g`. An operation that makes a new array,
      `dy + dy * g`, has no such trouble.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def shortened(g, most):
    """g, and not longer than `most`: what a worker would do by itself."""
    return g * np.minimum(1.0, most / np.sqrt((g * g).sum()))


def joined_and_clipped(g_1, g_2, m_1, m_2, most):
    g = (m_1 * g_1 + m_2 * g_2) / (m_1 + m_2)
    norm = np.sqrt((g * g).sum())
    factor = np.minimum(1.0, most / norm)
    return factor * g


def counted(low, high):
    """A number of targets."""
    return Draw("", lambda rng, shape: int(rng.integers(low, high)))


JOINED_AND_CLIPPED = Exercise(
    joined_and_clipped,
    asks="Averaging gradients of unequal parts, and what is clipped.",
    outputs="g",
    inputs={
        "g_1": normal("B D F").then(lambda g: 2 * g),
        "g_2": repeating("B D F"),
        "m_1": counted(5, 15),
        "m_2": counted(20, 60),
        "most": number(0.4),  # not 1, which an answer may take for it
    },
    special={"a gradient within the limit": {"most": number(1e6)}},
    only={
        "a gradient within the limit": "Clipping only shortens: a gradient that is shorter than the limit "
        "stays as it is.",
    },
    stories="""
    - The plain mean. The loss is a mean over all counted targets, so each gradient weighs as much as its
      worker has targets.
          (m_1 * g_1 + m_2 * g_2) / (m_1 + m_2) → (g_1 + g_2) / 2
    - The gradients are added without weights.
          (m_1 * g_1 + m_2 * g_2) / (m_1 + m_2) → g_1 + g_2
    - The weights are exchanged: the gradient of the first worker has the weight m_1.
          (m_1 * g_1 + m_2 * g_2) → (m_2 * g_1 + m_1 * g_2)
    - Divided by the number of workers, and not by the number of targets.
          (m_1 * g_1 + m_2 * g_2) / (m_1 + m_2) → (m_1 * g_1 + m_2 * g_2) / 2
    - Each gradient is divided by its number of targets. It is a mean over them already; it must be
      multiplied by that number, to be a sum again.
          (m_1 * g_1 + m_2 * g_2) / (m_1 + m_2) → (g_1 / m_1 + g_2 / m_2) * (m_1 + m_2)
    - The norm is taken as the largest number. It is the root of the sum of all squares.
          np.sqrt((g * g).sum()) → np.abs(g).max()
    - The norm of a sum is not the sum of the norms: the two gradients may point in different directions.
          norm = np.sqrt((g * g).sum()) → norm = np.sqrt((g_1 * g_1).sum()) + np.sqrt((g_2 * g_2).sum())
    - The gradient is stretched where it is short, and left where it is long: the other way round.
          np.minimum(1.0, most / norm) → np.maximum(1.0, most / norm)
    - The sum is not divided by the number of targets.
          (m_1 * g_1 + m_2 * g_2) / (m_1 + m_2) → (m_1 * g_1 + m_2 * g_2)
    - Each worker has clipped its own gradient before they were joined. One process would clip the joined
      gradient, by the norm of the whole.
          (m_1 * g_1 + m_2 * g_2) → (m_1 * shortened(g_1, most) + m_2 * shortened(g_2, most))
          return factor * g → return g
    - It is not clipped.
          return factor * g → return g
    - The gradient is stretched as well as shortened: it always gets the norm `most`.
          np.minimum(1.0, most / norm) → most / norm
    - A gradient that is too long gets the norm 1. It should get the norm `most`.
          np.minimum(1.0, most / norm) → np.where(norm > most, 1 / norm, 1.0)
    - The norm is squared: the root is missing.
          np.sqrt((g * g).sum()) → (g * g).sum()
    - Each number is clipped by itself, which changes the direction. The norm of the whole counts.
          return factor * g → return np.clip(g, -most, most)
    - Each matrix is shortened by its own norm. One norm counts, that of all numbers together.
          (g * g).sum() → (g * g).sum(axis=(-2, -1), keepdims=True)
    - The norm is taken of each row. It is that of all numbers together.
          (g * g).sum() → (g * g).sum(axis=-1, keepdims=True)
    """,
    hints="""
    - What would one process do? It would have the gradient of the whole batch, and clip that.
    - The gradient of the whole batch weighs each g by its targets. Its norm is not known before both are
      joined.
    - If the norm is above `most`, multiply by most / norm; else by 1.
    """,
)
