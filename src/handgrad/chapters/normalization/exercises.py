"""Exercises of chapter 05: LayerNorm and RMSNorm. Each is its right answer, and what to say about it."""

import numpy as np
from sympy import sqrt

from ...course.judge.derivation import Derivation
from ...course.judge.draws import normal, number, repeating, scales
from ...course.judge.function import Exercise
from ...ops.normalization import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward

X = repeating("B T D")
EPS = number(0.05)  # large enough to be felt
NORM = {"dy": normal("B T D"), "x": X, "gamma": scales("D"), "eps": EPS}
X_HAT = X.then(lambda x: layer_norm(x, np.ones(x.shape[-1]), np.zeros(x.shape[-1]), 0.05)[0])


def with_equal_features(x):
    return np.concatenate([np.full_like(x[:, :1], 3.0), x[:, 1:]], axis=1)


SPECIAL = {
    "a token whose features are all equal": {"x": X.then(with_equal_features)},
    "features far from zero": {"x": X.then(lambda x: x + 40)},
}


# 1 ----------------------------------------------------------------------------------------------------------


def variance_gradient(x_i, mu, D):
    return 2 * (x_i - mu) / D


VARIANCE_GRADIENT = Derivation(
    variance_gradient,
    domains={"x_i": "real", "mu": "real", "D": "count"},
    stories="""
    - 1/D is missing: the variance is the mean of D squares, not their sum.
          / D →
    - The 2 is missing: the derivative of a square is twice its base.
          2 * →
    - The mean is missing: this is the derivative of the mean of x², not of (x - μ)².
          (x_i - mu) → x_i
    - This follows x_i through its own square only. x_i also moves μ in the other D - 1 squares; summed over
      all of them, the path through μ vanishes, because the deviations add up to 0.
          / D → / D * (1 - 1 / D)
    - D - 1 in place of D: LayerNorm divides by D, it does not estimate a population.
          / D → / (D - 1)
    - The sign is wrong: moving x_i away from the mean makes the variance larger.
          x_i - mu → mu - x_i
    - This is the term of x_i in the variance itself, before the derivative is taken.
          2 * (x_i - mu) → (x_i - mu) ** 2
    - D² in place of D. The variance has one factor 1/D; another one comes with ∂μ/∂x_i, but the path
      through μ vanishes as a whole.
          / D → / D**2
    """,
    hints="""
    - Write the variance as the mean of the D squares (x_j - μ)². x_i occurs in it openly, in one of the
      squares, and hidden, in μ.
    - The path through μ: ∂(variance)/∂μ = -2/D · Σ_j (x_j - μ). What is the sum of all deviations from a
      mean?
    - Only the open path is left: the derivative of (x_i - μ)²/D with μ held still.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def layer_norm_dgamma_dbeta(dy, x_hat):
    return (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def shipped_dgamma_dbeta(dy, x_hat):
    ones = np.ones(x_hat.shape[-1])
    return layer_norm_backward(dy, {"x_hat": x_hat, "inverse_std": 1.0, "gamma": ones})[1:]


LAYER_NORM_DGAMMA_DBETA = Exercise(
    layer_norm_dgamma_dbeta,
    outputs="dgamma dbeta",
    inputs={"dy": normal("B T D"), "x_hat": X_HAT},
    shipped=shipped_dgamma_dbeta,
    stories="""
    - A mean in place of a sum. Every token uses the same γ and β, so their gradients add up; the 1/m of a
      mean loss has already arrived in dy.
          .sum( → .mean(
    - Summed over the batch but not over the positions. γ and β are shared by all tokens of all sequences,
      so both axes must go.
          (0, 1) → 0
    - Summed over the positions but not over the batch. γ and β are shared by all tokens of all sequences,
      so both axes must go.
          (0, 1) → 1
    - The wrong axis: this adds over the features and keeps the tokens. γ has one entry per feature, so its
      gradient keeps the last axis and adds over the others.
          (0, 1) → -1
    - Nothing is summed. γ was broadcast over batch and positions; the adjoint of a broadcast is a sum, and
      dγ has the shape of γ.
          .sum(axis=(0, 1)) →
    - x̂ is missing from dγ: γ multiplies x̂, so each dy is weighted by it. This is the formula of dβ.
          (dy * x_hat) → dy
    - A product of two sums in place of the sum of the products: multiply dy and x̂ token by token, then
      add.
          (dy * x_hat).sum(axis=(0, 1)) → dy.sum(axis=(0, 1)) * x_hat.sum(axis=(0, 1))
    """,
    hints="""
    - γ and β have shape (D,), and so have their gradients. Which axes of dy must disappear?
    - The same γ is used for every token of every sequence. A value that is used many times collects the
      gradients of all its uses: a sum over batch and positions.
    - In NumPy a sum over two axes is `.sum(axis=(0, 1))`. For dγ, weight dy by x̂ first.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def layer_norm_jacobian(delta, D, r, xhat_i, xhat_j):
    return r * (delta - 1 / D - xhat_i * xhat_j / D)


def jacobian_by_paths(delta, D, r, xhat_i, xhat_j):
    dmu = 1 / D
    dr = -(r**2) * xhat_j / D
    return (delta - dmu) * r + xhat_i / r * dr


LAYER_NORM_JACOBIAN = Derivation(
    layer_norm_jacobian,
    domains={"delta": "delta", "D": "count", "r": "positive", "xhat_i": "real", "xhat_j": "real"},
    ways=(jacobian_by_paths,),
    stories="""
    - Only the direct path is there. x_j also moves the mean and the variance, and through them every
      output.
          - 1 / D - xhat_i * xhat_j / D →
    - The path through the variance is missing: x_j changes r as well, by ∂r/∂x_j = -r² x̂_j / D.
          - xhat_i * xhat_j / D →
    - The path through the mean is missing: x_j moves μ by 1/D, and every x̂_i by -r/D. (This is RMSNorm's
      Jacobian.)
          - 1 / D →
    - 1/D is missing: mean and variance are means over D features, so each feature moves them by a D-th
      part.
          1 / D - xhat_i * xhat_j / D → 1 - xhat_i * xhat_j
    - r is missing: all three paths end in the division by the standard deviation.
          r * ( → (
    - The path through the variance is twice too strong: the 2 of the square and the ½ of the root cancel.
          xhat_i * xhat_j → 2 * xhat_i * xhat_j
    - The path through the variance has the wrong sign: a larger variance makes r smaller.
          - xhat_i → + xhat_i
    - Both indirect paths have the wrong sign: a larger mean is taken away, a larger variance makes r
      smaller.
          - 1 / D - → + 1 / D +
    - r occurs too often in the last term: there x̂ already holds the factor r; with x̂ in place of x - μ,
      one r is left.
          xhat_i * xhat_j → r**2 * xhat_i * xhat_j
    - Both factors of the last term carry the index i. One x̂ comes from the output i, the other from the
      input j.
          xhat_i * xhat_j → xhat_i**2
    """,
    hints="""
    - Write x̂_i = (x_i - μ) · r. Three things change when x_j does: x_i (only if i = j), μ, and r. Add
      their three shares.
    - ∂x_i/∂x_j = δ, ∂μ/∂x_j = 1/D. For r = (σ² + ε)^(-1/2) use the first exercise: ∂σ²/∂x_j = 2 (x_j -
      μ)/D.
    - ∂r/∂x_j = -½ (σ² + ε)^(-3/2) · 2 (x_j - μ)/D = -r³ (x_j - μ)/D = -r² x̂_j/D. Multiply by x_i - μ =
      x̂_i / r.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def layer_norm_dx(dy, x, gamma, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt(variance + eps)
    x_hat = centred * r
    dx_hat = gamma * dy
    through_mean = dx_hat.mean(axis=-1, keepdims=True)
    through_variance = x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    return r * (dx_hat - through_mean - through_variance)


def dx_by_paths(dy, x, gamma, eps):
    D = x.shape[-1]
    centred = x - x.mean(axis=-1, keepdims=True)
    std = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    dx_hat = gamma * dy
    dvariance = -(dx_hat * centred).sum(axis=-1, keepdims=True) / (2 * std**3)
    dmean = -dx_hat.sum(axis=-1, keepdims=True) / std
    return dx_hat / std + dvariance * 2 * centred / D + dmean / D


def shipped_dx(dy, x, gamma, eps):
    return shipped_backward(dy, x, gamma, eps)[0]


LAYER_NORM_DX = Exercise(
    layer_norm_dx,
    outputs="dx",
    inputs=NORM,
    special=SPECIAL,
    shipped=shipped_dx,
    ways=(dx_by_paths,),
    stories="""
    - γ is outside the sums. It weights each feature's dy before the means are taken: form dx̂ = γ ∘ dy
      first, and use dx̂ in both means. With γ = 1 nobody notices.
          dx_hat = gamma * dy → dx_hat = dy
          r * (dx_hat → gamma * r * (dx_hat
    - γ is missing: x̂ is multiplied by γ on the way forward, so its gradient is dx̂ = γ ∘ dy.
          dx_hat = gamma * dy → dx_hat = dy
    - Only the direct path is there. Each feature also moves the mean and the variance, and through them all
      outputs of its token; those two paths are missing.
          - through_mean - through_variance →
    - The path through the mean is missing: take mean(dx̂) away. Without it the gradient of a token does not
      add up to 0, though shifting a token changes nothing.
          - through_mean →
    - The path through the variance is missing: take x̂ ∘ mean(dx̂ ∘ x̂) away. Without it, dx still points
      along x̂, though rescaling a token changes (almost) nothing.
          - through_variance →
    - 1/D is missing from the two indirect paths: they hold means over the features, not sums.
          dx_hat.mean → dx_hat.sum
          x_hat).mean → x_hat).sum
    - ε is outside the root. Here LayerNorm divides by √(var + ε), not by √var + ε.
          np.sqrt(variance + eps) → (np.sqrt(variance) + eps)
    - The variance is divided by D - 1 (`ddof=1`). LayerNorm divides by D.
          (centred**2).mean(axis=-1, keepdims=True) → x.var(axis=-1, keepdims=True, ddof=1)
    - The means run over the positions. LayerNorm treats each token by itself: take the means over its
      features, the last axis.
          axis=-1 → axis=1
    - x stands where x̂ should: the path through the variance is x̂ ∘ mean(dx̂ ∘ x̂), in the normalised
      token.
          x_hat * (dx_hat * x_hat) → x * (dx_hat * x)
    """,
    hints="""
    - Go backward one step at a time. y = γ ∘ x̂ + β, so the gradient that reaches x̂ is dx̂ = γ ∘ dy. From
      here on forget dy.
    - Contract the Jacobian of the previous exercise with dx̂: dx_j = Σ_i dx̂_i J_ij. Each of its three
      terms becomes one term of dx.
    - Σ_i dx̂_i / D is the mean of dx̂ over the features of the token; Σ_i dx̂_i x̂_i / D is the mean of dx̂
      ∘ x̂. Use `keepdims=True`.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def repaired_backward(dy, x, gamma, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    x_hat = centred * r
    dx_hat = gamma * dy
    through_mean = dx_hat.mean(axis=-1, keepdims=True)
    through_variance = x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = r * (dx_hat - through_mean - through_variance)
    return dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def shipped_backward(dy, x, gamma, eps):
    return layer_norm_backward(dy, layer_norm(x, gamma, np.zeros_like(gamma), eps)[1])


REPAIRED_BACKWARD = Exercise(
    repaired_backward,
    outputs="dx dgamma dbeta",
    inputs=NORM,
    special=SPECIAL,
    shipped=shipped_backward,
    stories="""
    - Both bugs are still there: γ is outside the means in dx, and inside dγ, where it does not belong.
          dx_hat = gamma * dy → dx_hat = dy
          dx = r → dx = gamma * r
          (dy * x_hat).sum → (gamma * dy * x_hat).sum
    - dγ still holds γ: y = γ ∘ x̂ is linear in γ, so its gradient cannot depend on γ.
          (dy * x_hat).sum → (gamma * dy * x_hat).sum
    - In dx, γ still stands outside the means; it belongs to dy, inside them.
          dx_hat = gamma * dy → dx_hat = dy
          dx = r → dx = gamma * r
    - Now γ has got into dβ as well. β is added after the multiplication by γ, so dβ is the sum of dy alone.
          (dy * x_hat).sum → (gamma * dy * x_hat).sum
          , dy.sum → , (gamma * dy).sum
    - In dx γ occurs twice now: inside the means and still outside. Once dx̂ = γ ∘ dy is formed, γ is used
      up.
          dx = r → dx = gamma * r
    - γ is gone from dx altogether. But x̂ is multiplied by γ, so dx̂ = γ ∘ dy.
          dx_hat = gamma * dy → dx_hat = dy
    - γ stands inside one of the two means of dx only. Replace dy by dx̂ = γ ∘ dy in every place of that
      line.
          (dx_hat * x_hat) → (dy * x_hat)
    """,
    hints="""
    - There are two bugs. Neither shows when γ = 1. So look at every place where γ stands, and at every
      place where it does not.
    - y = γ ∘ x̂ + β. What reaches x̂ is γ ∘ dy, all of it, before any mean is taken. What reaches γ is dy ∘
      x̂.
    """,
)


# 6 ----------------------------------------------------------------------------------------------------------


def rms_norm_dx(dy, x, gamma, eps):
    mean_square = (x**2).mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt(mean_square + eps)
    x_hat = x * r
    dx_hat = gamma * dy
    return r * (dx_hat - x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True))


def shipped_rms_dx(dy, x, gamma, eps):
    return rms_norm_backward(dy, rms_norm(x, gamma, eps)[1])[0]


RMS_NORM_DX = Exercise(
    rms_norm_dx,
    outputs="dx",
    inputs=NORM,
    special=SPECIAL,
    shipped=shipped_rms_dx,
    stories="""
    - There is a mean path too many. RMSNorm takes no mean away, so no gradient flows through one: drop
      mean(dx̂).
          (dx_hat - x_hat → (dx_hat - dx_hat.mean(axis=-1, keepdims=True) - x_hat
    - This is LayerNorm's gradient. RMSNorm does not centre: neither x, nor dx̂.
          (dx_hat - x_hat → (dx_hat - dx_hat.mean(axis=-1, keepdims=True) - x_hat
          mean_square = (x**2).mean( → mean_square = x.var(
          x_hat = x * r → x_hat = (x - x.mean(axis=-1, keepdims=True)) * r
    - The tokens are centred before they are scaled. RMSNorm divides x by the root of the mean of x², as it
      stands.
          mean_square = (x**2).mean( → mean_square = x.var(
          x_hat = x * r → x_hat = (x - x.mean(axis=-1, keepdims=True)) * r
    - The wrong path is left out. RMSNorm has no mean, so the path through the mean is gone; the one through
      the root mean square remains: take x̂ ∘ mean(dx̂ ∘ x̂) away.
          x_hat * (dx_hat * x_hat).mean( → dx_hat.mean(
    - Only the direct path is there: each feature also moves the root mean square, and with it all outputs
      of its token.
          - x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True) →
    - γ is outside the mean: form dx̂ = γ ∘ dy first, and use it inside mean(dx̂ ∘ x̂) too.
          dx_hat = gamma * dy → dx_hat = dy
          return r → return gamma * r
    - 1/D is missing: the path through the root mean square holds a mean over the features, not a sum.
          x_hat).mean → x_hat).sum
    - ε is outside the root. Here RMSNorm divides by √(mean(x²) + ε).
          np.sqrt(mean_square + eps) → (np.sqrt(mean_square) + eps)
    """,
    hints="""
    - RMSNorm is LayerNorm without the mean. Which of the three paths exists no longer?
    - With x̂_i = x_i r and r = (mean(x²) + ε)^(-1/2): ∂r/∂x_j = -r² x̂_j / D.
    - Two terms are left: dx̂, and x̂ times the mean of dx̂ ∘ x̂. Both are multiplied by r.
    """,
)


# 7 ----------------------------------------------------------------------------------------------------------


def project_out(v, x_hat):
    along = (v * x_hat).sum(axis=-1, keepdims=True) / (x_hat**2).sum(axis=-1, keepdims=True)
    return v - v.mean(axis=-1, keepdims=True) - along * x_hat


PROJECT_OUT = Exercise(
    project_out,
    outputs="p",
    inputs={"v": normal("B T D"), "x_hat": X_HAT},
    stories="""
    - ⟨x̂, v⟩ is divided by D. That is the squared length of x̂ only if ε = 0; a projection divides by ⟨x̂,
      x̂⟩ itself.
          (x_hat**2).sum(axis=-1, keepdims=True) → x_hat.shape[-1]
    - Only the part along 1 is removed. Take the part along x̂ away as well.
          - along * x_hat →
    - Only the part along x̂ is removed. Take the part along 1, the mean, away as well.
          - v.mean(axis=-1, keepdims=True) →
    - This is the part that should be removed: the projection onto 1 and x̂. Take it away from v.
          v - v.mean(axis=-1, keepdims=True) - along → v.mean(axis=-1, keepdims=True) + along
    - ⟨x̂, v⟩ x̂ is not divided by the squared length ⟨x̂, x̂⟩. Only for a unit vector may that be left out.
          / (x_hat**2).sum(axis=-1, keepdims=True) →
    - Divided by the length of x̂ once. The projection along x̂ divides by its length twice: by ⟨x̂, x̂⟩.
          (x_hat**2).sum(axis=-1, keepdims=True) → np.sqrt((x_hat**2).sum(axis=-1, keepdims=True))
    - Along 1 the sum is taken away where the mean should be: ⟨1, v⟩ must be divided by ⟨1, 1⟩ = D.
          v.mean → v.sum
    """,
    hints="""
    - The part of v along a vector u is u ⟨u, v⟩ / ⟨u, u⟩.
    - The features of x̂ add up to 0, so 1 and x̂ are perpendicular: the two parts can be removed one after
      the other.
    - Along 1 the part is simply the mean of v. Along x̂ divide by `(x_hat**2).sum(axis=-1, keepdims=True)`.
    """,
)


# 8 ----------------------------------------------------------------------------------------------------------


def scale_direction(xhat_i, v, epsilon):
    r = 1 / sqrt(v + epsilon)
    mean_square = v / (v + epsilon)
    return r * xhat_i * (1 - mean_square)


SCALE_DIRECTION = Derivation(
    scale_direction,
    domains={"xhat_i": "real", "v": "positive", "epsilon": "positive"},
    stories="""
    - 0 is the answer for ε = 0 only. With ε the mean of x̂² is not 1 but v/(v + ε), a little less, and a
      little is left.
          (1 - mean_square) → 0
    - Only the direct path is there: this is r x̂_i. Take r x̂_i · mean(x̂²) away.
          * (1 - mean_square) →
    - The factor r = 1/√(v + ε) in front of the Jacobian is missing.
          r * xhat_i → xhat_i
    - This is the part that is taken away, r x̂_i · v/(v + ε). The answer is what remains of r x̂_i.
          (1 - mean_square) → mean_square
    - mean(x̂²) is not v: x̂ is already divided by √(v + ε), so its mean square is v/(v + ε).
          mean_square = v / (v + epsilon) → mean_square = v
    - The mean square of x̂ is v/(v + ε), without a root: x̂ occurs twice in the sum.
          v / (v + epsilon) → sqrt(v / (v + epsilon))
    - The path through the variance has the wrong sign: it is taken away.
          1 - mean → 1 + mean
    """,
    hints="""
    - J_ij = r (δ - 1/D - x̂_i x̂_j/D). Multiply by x̂_j and add over j. Two of the three sums you know: Σ_j
      x̂_j = 0 and Σ_j δ x̂_j = x̂_i.
    - Left is r x̂_i (1 - mean(x̂²)). By definition x̂² = (x - μ)² / (v + ε). What is its mean?
    - mean(x̂²) = v / (v + ε), so 1 - mean(x̂²) = ε / (v + ε). Put r = 1/√(v + ε).
    """,
)
