"""Exercises of chapter 05: LayerNorm and RMSNorm.

A wrong answer is a function whose docstring is the diagnosis; in a derivation it is an expression beside
its diagnosis.
"""

import numpy as np
from sympy import Integer, Rational, sqrt, symbols

from ...course.judge.derivation import Derivation
from ...course.judge.function import Case, Exercise
from ...ops.normalization import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward


def mean(x):
    """Over the features of each token: (..., D) -> (..., 1)."""
    return x.mean(axis=-1, keepdims=True)


def normalise(x, eps):
    """x (B, T, D) -> x_hat (B, T, D), r (B, T, 1), the inverse standard deviation."""
    centred = x - mean(x)
    r = 1 / np.sqrt(mean(centred**2) + eps)
    return centred * r, r


# ---- the cases: a repeated token in each, random γ and upstream, and an ε large enough to be felt


def tokens(rng, B, T, D):
    """x (B, T, D) of no particular mean and scale; the last token of a sequence repeats the first."""
    x = rng.normal(0.5, 2.0, (B, T, D))
    x[:, -1] = x[:, 0]
    return x


def plain(rng, B, T, D):
    return rng.normal(size=(B, T, D)), tokens(rng, B, T, D), rng.normal(1.0, 0.7, D), 0.05


def equal_features(rng, B, T, D):
    dy, x, gamma, eps = plain(rng, B, T, D)
    x[0, 0] = 3.0
    return dy, x, gamma, eps


def far_from_zero(rng, B, T, D):
    dy, x, gamma, eps = plain(rng, B, T, D)
    return dy, x + 40.0, gamma, eps


BACKWARD_CASES = (
    Case("one token", plain, {"B": 1, "T": 1, "D": 4}),
    Case("a batch of sequences", plain, {"B": 3, "T": 4, "D": 5}),
    Case("as many tokens as features", plain, {"B": 2, "T": 6, "D": 6}),
    Case("a token whose features are all equal", equal_features, {"B": 2, "T": 3, "D": 7}),
    Case("features far from zero", far_from_zero, {"B": 4, "T": 2, "D": 3}),
)


def with_normalised(rng, B, T, D):
    """dy and x_hat."""
    dy, x, _, eps = plain(rng, B, T, D)
    return dy, normalise(x, eps)[0]


PAIR_CASES = (
    Case("one token", with_normalised, {"B": 1, "T": 1, "D": 4}),
    Case("one sequence", with_normalised, {"B": 1, "T": 5, "D": 3}),
    Case("a batch of sequences", with_normalised, {"B": 3, "T": 4, "D": 5}),
    Case("as many tokens as features", with_normalised, {"B": 2, "T": 6, "D": 6}),
)


# ---- variance_gradient

x_i, mu, D = symbols("x_i mu D")

VARIANCE_GRADIENT = Derivation(
    "variance_gradient",
    2 * (x_i - mu) / D,
    {x_i: "real", mu: "real", D: "count"},
    (
        (
            2 * (x_i - mu),
            "1/D is missing: the variance is the mean of D squares, not their sum.",
        ),
        ((x_i - mu) / D, "The 2 is missing: the derivative of a square is twice its base."),
        (2 * x_i / D, "The mean is missing: this is the derivative of the mean of x², not of (x - μ)²."),
        (
            2 * (x_i - mu) / D * (1 - 1 / D),
            "This follows x_i through its own square only. x_i also moves μ in the other D - 1 squares; "
            "summed over all of them, the path through μ vanishes, because the deviations add up to 0.",
        ),
        (
            2 * (x_i - mu) / (D - 1),
            "D - 1 in place of D: LayerNorm divides by D, it does not estimate a population.",
        ),
        (2 * (mu - x_i) / D, "The sign is wrong: moving x_i away from the mean makes the variance larger."),
        (
            (x_i - mu) ** 2 / D,
            "This is the term of x_i in the variance itself, before the derivative is taken.",
        ),
        (
            2 * (x_i - mu) / D**2,
            "D² in place of D. The variance has one factor 1/D; another one comes with ∂μ/∂x_i, but the path "
            "through μ vanishes as a whole.",
        ),
    ),
    (
        "Write the variance as the mean of the D squares (x_j - μ)². x_i occurs in it openly, in one "
        "of the squares, and hidden, in μ.",
        "The path through μ: ∂(variance)/∂μ = -2/D · Σ_j (x_j - μ). What is the sum of all deviations"
        " from a mean?",
        "Only the open path is left: the derivative of (x_i - μ)²/D with μ held still.",
    ),
)


# ---- layer_norm_dgamma_dbeta


def layer_norm_dgamma_dbeta(dy, x_hat):
    ones = np.ones(x_hat.shape[-1])
    return layer_norm_backward(dy, {"x_hat": x_hat, "inverse_std": 1.0, "gamma": ones})[1:]


def mean_over_tokens(dy, x_hat):
    """A mean in place of a sum. Every token uses the same γ and β, so their gradients add up; the 1/m of a
    mean loss has already arrived in dy."""
    return (dy * x_hat).mean(axis=(0, 1)), dy.mean(axis=(0, 1))


def summed_over_batch_only(dy, x_hat):
    """Summed over the batch but not over the positions. γ and β are shared by all tokens, so both axes
    must go."""
    return (dy * x_hat).sum(axis=0), dy.sum(axis=0)


def summed_over_positions_only(dy, x_hat):
    """Summed over the positions but not over the batch. γ and β are shared by all tokens, so both axes
    must go."""
    return (dy * x_hat).sum(axis=1), dy.sum(axis=1)


def summed_over_features(dy, x_hat):
    """The wrong axis: this adds over the features and keeps the tokens. γ has one entry per feature, so
    its gradient keeps the last axis and adds over the others."""
    return (dy * x_hat).sum(axis=-1), dy.sum(axis=-1)


def not_summed(dy, x_hat):
    """Nothing is summed. γ was broadcast over batch and positions; the adjoint of a broadcast is a sum,
    and dγ has the shape of γ."""
    return dy * x_hat, dy


def gamma_like_beta(dy, x_hat):
    """x̂ is missing from dγ: γ multiplies x̂, so each dy is weighted by it. This is the formula of dβ."""
    return dy.sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def swapped_parameters(dy, x_hat):
    """The two results are in the wrong order: dγ comes first, then dβ."""
    return dy.sum(axis=(0, 1)), (dy * x_hat).sum(axis=(0, 1))


def product_of_sums(dy, x_hat):
    """A product of two sums in place of the sum of the products: multiply dy and x̂ token by token, then
    add."""
    return dy.sum(axis=(0, 1)) * x_hat.sum(axis=(0, 1)), dy.sum(axis=(0, 1))


LAYER_NORM_DGAMMA_DBETA = Exercise(
    "layer_norm_dgamma_dbeta",
    layer_norm_dgamma_dbeta,
    ("dgamma", "dbeta"),
    PAIR_CASES,
    (
        mean_over_tokens,
        summed_over_batch_only,
        summed_over_positions_only,
        summed_over_features,
        not_summed,
        gamma_like_beta,
        swapped_parameters,
        product_of_sums,
    ),
    (
        "γ and β have shape (D,), and so have their gradients. Which axes of dy must disappear?",
        "The same γ is used for every token of every sequence. A value that is used many times "
        "collects the gradients of all its uses: a sum over batch and positions.",
        "In NumPy a sum over two axes is `.sum(axis=(0, 1))`. For dγ, weight dy by x̂ first.",
    ),
)


# ---- layer_norm_jacobian

delta, r, xhat_i, xhat_j = symbols("delta r xhat_i xhat_j")

LAYER_NORM_JACOBIAN = Derivation(
    "layer_norm_jacobian",
    r * (delta - (1 + xhat_i * xhat_j) / D),
    {delta: "delta", D: "count", r: "positive", xhat_i: "real", xhat_j: "real"},
    (
        (
            r * delta,
            "Only the direct path is there. x_j also moves the mean and the variance, and through them "
            "every output.",
        ),
        (
            r * (delta - 1 / D),
            "The path through the variance is missing: x_j changes r as well, by ∂r/∂x_j = -r² x̂_j / D.",
        ),
        (
            r * (delta - xhat_i * xhat_j / D),
            "The path through the mean is missing: x_j moves μ by 1/D, and every x̂_i by -r/D. (This is "
            "RMSNorm's Jacobian.)",
        ),
        (
            r * (delta - 1 - xhat_i * xhat_j),
            "1/D is missing: mean and variance are means over D features, so each feature moves them by a"
            " D-th part.",
        ),
        (
            delta - (1 + xhat_i * xhat_j) / D,
            "r is missing: all three paths end in the division by the standard deviation.",
        ),
        (
            r * (delta - 1 / D - 2 * xhat_i * xhat_j / D),
            "The path through the variance is twice too strong: the 2 of the square and the ½ of the root"
            " cancel.",
        ),
        (
            r * (delta - 1 / D + xhat_i * xhat_j / D),
            "The path through the variance has the wrong sign: a larger variance makes r smaller.",
        ),
        (
            r * (delta + (1 + xhat_i * xhat_j) / D),
            "Both indirect paths have the wrong sign: a larger mean is taken away, a larger variance "
            "makes r smaller.",
        ),
        (
            r * (delta - 1 / D - r**2 * xhat_i * xhat_j / D),
            "r occurs too often in the last term: there x̂ already holds the factor r; with x̂ in place "
            "of x - μ, one r is left.",
        ),
        (
            r * (delta - (1 + xhat_i**2) / D),
            "Both factors of the last term carry the index i. One x̂ comes from the output i, the other "
            "from the input j.",
        ),
        (r * (delta - (1 + xhat_i * xhat_j) / (D - 1)), "D - 1 in place of D: LayerNorm divides by D."),
    ),
    (
        "Write x̂_i = (x_i - μ) · r. Three things change when x_j does: x_i (only if i = j), μ, and "
        "r. Add their three shares.",
        "∂x_i/∂x_j = δ, ∂μ/∂x_j = 1/D. For r = (σ² + ε)^(-1/2) use the first exercise: ∂σ²/∂x_j = 2 "
        "(x_j - μ)/D.",
        "∂r/∂x_j = -½ (σ² + ε)^(-3/2) · 2 (x_j - μ)/D = -r³ (x_j - μ)/D = -r² x̂_j/D. Multiply by x_i"
        " - μ = x̂_i / r.",
    ),
)


# ---- layer_norm_dx


def layer_norm_dx(dy, x, gamma, eps):
    _, cache = layer_norm(x, gamma, np.zeros_like(gamma), eps)
    return layer_norm_backward(dy, cache)[0]


def gamma_outside(dy, x, gamma, eps):
    """γ is outside the sums. It weights each feature's dy before the means are taken: form dx̂ = γ ∘ dy
    first, and use dx̂ in both means. With γ = 1 nobody notices."""
    x_hat, r = normalise(x, eps)
    return gamma * r * (dy - mean(dy) - x_hat * mean(dy * x_hat))


def gamma_forgotten(dy, x, gamma, eps):
    """γ is missing: x̂ is multiplied by γ on the way forward, so its gradient is dx̂ = γ ∘ dy."""
    x_hat, r = normalise(x, eps)
    return r * (dy - mean(dy) - x_hat * mean(dy * x_hat))


def direct_path_only(dy, x, gamma, eps):
    """Only the direct path is there. Each feature also moves the mean and the variance, and through them
    all outputs of its token; those two paths are missing."""
    return gamma * dy * normalise(x, eps)[1]


def no_mean_path(dy, x, gamma, eps):
    """The path through the mean is missing: take mean(dx̂) away. Without it the gradient of a token does
    not add up to 0, though shifting a token changes nothing."""
    x_hat, r = normalise(x, eps)
    g = gamma * dy
    return r * (g - x_hat * mean(g * x_hat))


def no_variance_path(dy, x, gamma, eps):
    """The path through the variance is missing: take x̂ ∘ mean(dx̂ ∘ x̂) away. Without it, dx still points
    along x̂, though rescaling a token changes (almost) nothing."""
    r = normalise(x, eps)[1]
    g = gamma * dy
    return r * (g - mean(g))


def sums_for_means(dy, x, gamma, eps):
    """1/D is missing from the two indirect paths: they hold means over the features, not sums."""
    x_hat, r = normalise(x, eps)
    g = gamma * dy
    return r * (g - g.sum(-1, keepdims=True) - x_hat * (g * x_hat).sum(-1, keepdims=True))


def keepdims_forgotten(dy, x, gamma, eps):
    """`keepdims=True` is missing: the means have shape (B, T), and are lined up with the wrong axes."""
    x_hat, r = normalise(x, eps)
    g = gamma * dy
    return r * (g - g.mean(-1) - x_hat * (g * x_hat).mean(-1))


def no_inverse_std(dy, x, gamma, eps):
    """The last factor is missing: divide everything by √(var + ε), as the forward pass does."""
    x_hat, _ = normalise(x, eps)
    g = gamma * dy
    return g - mean(g) - x_hat * mean(g * x_hat)


def variance_path_added(dy, x, gamma, eps):
    """The path through the variance has the wrong sign: a larger variance makes x̂ smaller, so the term is
    taken away."""
    x_hat, r = normalise(x, eps)
    g = gamma * dy
    return r * (g - mean(g) + x_hat * mean(g * x_hat))


def eps_outside_root(dy, x, gamma, eps):
    """ε is outside the root. Here LayerNorm divides by √(var + ε), not by √var + ε."""
    centred = x - mean(x)
    r = 1 / (np.sqrt(mean(centred**2)) + eps)
    x_hat, g = centred * r, gamma * dy
    return r * (g - mean(g) - x_hat * mean(g * x_hat))


def sample_variance(dy, x, gamma, eps):
    """The variance is divided by D - 1 (`ddof=1`). LayerNorm divides by D."""
    r = 1 / np.sqrt(x.var(axis=-1, keepdims=True, ddof=1) + eps)
    x_hat, g = (x - mean(x)) * r, gamma * dy
    return r * (g - mean(g) - x_hat * mean(g * x_hat))


def over_the_positions(dy, x, gamma, eps):
    """The means run over the positions. LayerNorm treats each token by itself: take the means over its
    features, the last axis."""
    centred = x - x.mean(axis=1, keepdims=True)
    r = 1 / np.sqrt((centred**2).mean(axis=1, keepdims=True) + eps)
    x_hat, g = centred * r, gamma * dy
    return r * (g - g.mean(axis=1, keepdims=True) - x_hat * (g * x_hat).mean(axis=1, keepdims=True))


def over_everything(dy, x, gamma, eps):
    """The means run over the whole array: an `axis=-1` is missing. Each token has its own mean and
    variance."""
    centred = x - x.mean()
    r = 1 / np.sqrt((centred**2).mean() + eps)
    x_hat, g = centred * r, gamma * dy
    return r * (g - g.mean() - x_hat * (g * x_hat).mean())


def x_for_x_hat(dy, x, gamma, eps):
    """x stands where x̂ should: the path through the variance is x̂ ∘ mean(dx̂ ∘ x̂), in the normalised
    token."""
    r = normalise(x, eps)[1]
    g = gamma * dy
    return r * (g - mean(g) - x * mean(g * x))


LAYER_NORM_DX = Exercise(
    "layer_norm_dx",
    layer_norm_dx,
    ("dx",),
    BACKWARD_CASES,
    (
        gamma_outside,
        gamma_forgotten,
        direct_path_only,
        no_mean_path,
        no_variance_path,
        sums_for_means,
        keepdims_forgotten,
        no_inverse_std,
        variance_path_added,
        eps_outside_root,
        sample_variance,
        over_the_positions,
        x_for_x_hat,
        over_everything,
    ),
    (
        "Go backward one step at a time. y = γ ∘ x̂ + β, so the gradient that reaches x̂ is dx̂ = γ ∘"
        " dy. From here on forget dy.",
        "Contract the Jacobian of the previous exercise with dx̂: dx_j = Σ_i dx̂_i J_ij. Each of its "
        "three terms becomes one term of dx.",
        "Σ_i dx̂_i / D is the mean of dx̂ over the features of the token; Σ_i dx̂_i x̂_i / D is the "
        "mean of dx̂ ∘ x̂. Use `keepdims=True`.",
    ),
)


# ---- repaired_backward


def repaired_backward(dy, x, gamma, eps):
    _, cache = layer_norm(x, gamma, np.zeros_like(gamma), eps)
    return layer_norm_backward(dy, cache)


def parameter_gradients(dy, x_hat):
    return (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def untouched(dy, x, gamma, eps):
    """Both bugs are still there: γ is outside the means in dx, and inside dγ, where it does not belong."""
    x_hat, r = normalise(x, eps)
    return (
        gamma_outside(dy, x, gamma, eps),
        *parameter_gradients(gamma * dy, x_hat)[:1],
        dy.sum(axis=(0, 1)),
    )


def only_dx_repaired(dy, x, gamma, eps):
    """dx is repaired. dγ still holds γ: y = γ ∘ x̂ is linear in γ, so its gradient cannot depend on γ."""
    x_hat, _ = normalise(x, eps)
    return (layer_norm_dx(dy, x, gamma, eps), (gamma * dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1)))


def only_dgamma_repaired(dy, x, gamma, eps):
    """dγ is repaired. In dx, γ still stands outside the means; it belongs to dy, inside them."""
    x_hat, _ = normalise(x, eps)
    return (gamma_outside(dy, x, gamma, eps), *parameter_gradients(dy, x_hat))


def gamma_in_dbeta(dy, x, gamma, eps):
    """Now γ has got into dβ as well. β is added after the multiplication by γ, so dβ is the sum of dy
    alone."""
    x_hat, _ = normalise(x, eps)
    return (layer_norm_dx(dy, x, gamma, eps), *parameter_gradients(gamma * dy, x_hat))


def gamma_twice_in_dx(dy, x, gamma, eps):
    """In dx γ occurs twice now: inside the means and still outside. Once dx̂ = γ ∘ dy is formed, γ is used
    up."""
    x_hat, _ = normalise(x, eps)
    return (gamma * layer_norm_dx(dy, x, gamma, eps), *parameter_gradients(dy, x_hat))


def gamma_removed(dy, x, gamma, eps):
    """γ is gone from dx altogether. dγ is right, but x̂ is multiplied by γ, so dx̂ = γ ∘ dy."""
    x_hat, _ = normalise(x, eps)
    return (gamma_forgotten(dy, x, gamma, eps), *parameter_gradients(dy, x_hat))


def gamma_in_one_mean(dy, x, gamma, eps):
    """γ stands inside one of the two means of dx only. Replace dy by dx̂ = γ ∘ dy in every place of that
    line."""
    x_hat, r = normalise(x, eps)
    dx = r * (gamma * dy - mean(gamma * dy) - x_hat * mean(dy * x_hat))
    return (dx, *parameter_gradients(dy, x_hat))


REPAIRED_BACKWARD = Exercise(
    "repaired_backward",
    repaired_backward,
    ("dx", "dgamma", "dbeta"),
    BACKWARD_CASES,
    (
        untouched,
        only_dx_repaired,
        only_dgamma_repaired,
        gamma_in_dbeta,
        gamma_twice_in_dx,
        gamma_removed,
        gamma_in_one_mean,
    ),
    (
        "There are two bugs. Neither shows when γ = 1. So look at every place where γ stands, and at "
        "every place where it does not.",
        "y = γ ∘ x̂ + β. What reaches x̂ is γ ∘ dy, all of it, before any mean is taken. What reaches"
        " γ is dy ∘ x̂.",
    ),
)


# ---- rms_norm_dx


def rms_norm_dx(dy, x, gamma, eps):
    return rms_norm_backward(dy, rms_norm(x, gamma, eps)[1])[0]


def scale_down(x, eps):
    """x (B, T, D) -> x_hat (B, T, D), r (B, T, 1), the inverse root mean square."""
    r = 1 / np.sqrt(mean(x**2) + eps)
    return x * r, r


def rms_with_mean_path(dy, x, gamma, eps):
    """There is a mean path too many. RMSNorm takes no mean away, so no gradient flows through one: drop
    mean(dx̂)."""
    x_hat, r = scale_down(x, eps)
    g = gamma * dy
    return r * (g - mean(g) - x_hat * mean(g * x_hat))


def rms_is_layer_norm(dy, x, gamma, eps):
    """This is LayerNorm's gradient. RMSNorm does not centre: neither x, nor dx̂."""
    return layer_norm_dx(dy, x, gamma, eps)


def rms_centred(dy, x, gamma, eps):
    """The tokens are centred before they are scaled. RMSNorm divides x by the root of the mean of x², as
    it stands."""
    x_hat, r = normalise(x, eps)
    g = gamma * dy
    return r * (g - x_hat * mean(g * x_hat))


def rms_direct_only(dy, x, gamma, eps):
    """Only the direct path is there: each feature also moves the root mean square, and with it all outputs
    of its token."""
    return gamma * dy * scale_down(x, eps)[1]


def rms_gamma_outside(dy, x, gamma, eps):
    """γ is outside the mean: form dx̂ = γ ∘ dy first, and use it inside mean(dx̂ ∘ x̂) too."""
    x_hat, r = scale_down(x, eps)
    return gamma * r * (dy - x_hat * mean(dy * x_hat))


def rms_gamma_forgotten(dy, x, gamma, eps):
    """γ is missing: the gradient that reaches x̂ is dx̂ = γ ∘ dy."""
    x_hat, r = scale_down(x, eps)
    return r * (dy - x_hat * mean(dy * x_hat))


def rms_sum_for_mean(dy, x, gamma, eps):
    """1/D is missing: the path through the root mean square holds a mean over the features, not a sum."""
    x_hat, r = scale_down(x, eps)
    g = gamma * dy
    return r * (g - x_hat * (g * x_hat).sum(-1, keepdims=True))


def rms_not_divided(dy, x, gamma, eps):
    """The last factor is missing: divide everything by √(mean(x²) + ε), as the forward pass does."""
    x_hat, _ = scale_down(x, eps)
    g = gamma * dy
    return g - x_hat * mean(g * x_hat)


def rms_added(dy, x, gamma, eps):
    """The indirect path has the wrong sign: a larger root mean square makes x̂ smaller, so its term is
    taken away."""
    x_hat, r = scale_down(x, eps)
    g = gamma * dy
    return r * (g + x_hat * mean(g * x_hat))


def rms_eps_outside(dy, x, gamma, eps):
    """ε is outside the root. Here RMSNorm divides by √(mean(x²) + ε)."""
    r = 1 / (np.sqrt(mean(x**2)) + eps)
    x_hat, g = x * r, gamma * dy
    return r * (g - x_hat * mean(g * x_hat))


RMS_NORM_DX = Exercise(
    "rms_norm_dx",
    rms_norm_dx,
    ("dx",),
    BACKWARD_CASES,
    (
        rms_with_mean_path,
        rms_is_layer_norm,
        rms_centred,
        rms_direct_only,
        rms_gamma_outside,
        rms_gamma_forgotten,
        rms_sum_for_mean,
        rms_not_divided,
        rms_added,
        rms_eps_outside,
    ),
    (
        "RMSNorm is LayerNorm without the mean. Which of the three paths exists no longer?",
        "With x̂_i = x_i r and r = (mean(x²) + ε)^(-1/2): ∂r/∂x_j = -r² x̂_j / D.",
        "Two terms are left: dx̂, and x̂ times the mean of dx̂ ∘ x̂. Both are multiplied by r.",
    ),
)


# ---- project_out


def project_out(v, x_hat):
    along = (v * x_hat).sum(-1, keepdims=True) / (x_hat**2).sum(-1, keepdims=True)  # (B, T, 1)
    return v - v.mean(-1, keepdims=True) - along * x_hat


def projection_inputs(rng, B, T, D):
    """v and x_hat, whose rows add up to 0 but are shorter than √D, because ε is not 0."""
    return with_normalised(rng, B, T, D)


def projected_with_D(v, x_hat):
    """⟨x̂, v⟩ is divided by D. That is the squared length of x̂ only if ε = 0; a projection divides by
    ⟨x̂, x̂⟩ itself."""
    return v - mean(v) - x_hat * mean(v * x_hat)


def only_ones_removed(v, x_hat):
    """Only the part along 1 is removed. Take the part along x̂ away as well."""
    return v - mean(v)


def only_x_hat_removed(v, x_hat):
    """Only the part along x̂ is removed. Take the part along 1, the mean, away as well."""
    return v - x_hat * (v * x_hat).sum(-1, keepdims=True) / (x_hat**2).sum(-1, keepdims=True)


def kept_not_removed(v, x_hat):
    """This is the part that should be removed: the projection onto 1 and x̂. Take it away from v."""
    return v - project_out(v, x_hat)


def not_divided(v, x_hat):
    """⟨x̂, v⟩ x̂ is not divided by the squared length ⟨x̂, x̂⟩. Only for a unit vector may that be left
    out."""
    return v - mean(v) - x_hat * (v * x_hat).sum(-1, keepdims=True)


def divided_by_length(v, x_hat):
    """Divided by the length of x̂ once. The projection along x̂ divides by its length twice: by ⟨x̂, x̂⟩."""
    length = np.sqrt((x_hat**2).sum(-1, keepdims=True))
    return v - mean(v) - x_hat * (v * x_hat).sum(-1, keepdims=True) / length


def sum_along_ones(v, x_hat):
    """Along 1 the sum is taken away where the mean should be: ⟨1, v⟩ must be divided by ⟨1, 1⟩ = D."""
    return project_out(v, x_hat) + mean(v) - v.sum(-1, keepdims=True)


def projected_over_positions(v, x_hat):
    """The sums run over the positions. Each token is a vector of D features: sum over the last axis."""
    along = (v * x_hat).sum(1, keepdims=True) / (x_hat**2).sum(1, keepdims=True)
    return v - v.mean(1, keepdims=True) - along * x_hat


PROJECT_OUT = Exercise(
    "project_out",
    project_out,
    ("p",),
    tuple(Case(c.name, projection_inputs, c.sizes) for c in PAIR_CASES),
    (
        projected_with_D,
        only_ones_removed,
        only_x_hat_removed,
        kept_not_removed,
        not_divided,
        divided_by_length,
        sum_along_ones,
        projected_over_positions,
    ),
    (
        "The part of v along a vector u is u ⟨u, v⟩ / ⟨u, u⟩.",
        "The features of x̂ add up to 0, so 1 and x̂ are perpendicular: the two parts can be removed "
        "one after the other.",
        "Along 1 the part is simply the mean of v. Along x̂ divide by `(x_hat**2).sum(-1, keepdims=True)`.",
    ),
)


# ---- scale_direction

v, eps = symbols("v epsilon")

SCALE_DIRECTION = Derivation(
    "scale_direction",
    xhat_i * eps / (v + eps) ** Rational(3, 2),
    {xhat_i: "real", v: "positive", eps: "positive"},
    (
        (
            Integer(0),
            "0 is the answer for ε = 0 only. With ε the mean of x̂² is not 1 but v/(v + ε), a little "
            "less, and a little is left.",
        ),
        (
            xhat_i / sqrt(v + eps),
            "Only the direct path is there: this is r x̂_i. Take r x̂_i · mean(x̂²) away.",
        ),
        (xhat_i * eps / (v + eps), "The factor r = 1/√(v + ε) in front of the Jacobian is missing."),
        (
            xhat_i * v / (v + eps) ** Rational(3, 2),
            "This is the part that is taken away, r x̂_i · v/(v + ε). The answer is what remains of r x̂_i.",
        ),
        (
            (1 - v) * xhat_i / sqrt(v + eps),
            "mean(x̂²) is not v: x̂ is already divided by √(v + ε), so its mean square is v/(v + ε).",
        ),
        (
            xhat_i * (1 - sqrt(v / (v + eps))) / sqrt(v + eps),
            "The mean square of x̂ is v/(v + ε), without a root: x̂ occurs twice in the sum.",
        ),
        (
            xhat_i * (1 / sqrt(v + eps) + v / (v + eps) ** Rational(3, 2)),
            "The path through the variance has the wrong sign: it is taken away.",
        ),
    ),
    (
        "J_ij = r (δ - 1/D - x̂_i x̂_j/D). Multiply by x̂_j and add over j. Two of the three sums you"
        " know: Σ_j x̂_j = 0 and Σ_j δ x̂_j = x̂_i.",
        "Left is r x̂_i (1 - mean(x̂²)). By definition x̂² = (x - μ)² / (v + ε). What is its mean?",
        "mean(x̂²) = v / (v + ε), so 1 - mean(x̂²) = ε / (v + ε). Put r = 1/√(v + ε).",
    ),
)


EXERCISES = (
    VARIANCE_GRADIENT,
    LAYER_NORM_DGAMMA_DBETA,
    LAYER_NORM_JACOBIAN,
    LAYER_NORM_DX,
    REPAIRED_BACKWARD,
    RMS_NORM_DX,
    PROJECT_OUT,
    SCALE_DIRECTION,
)
