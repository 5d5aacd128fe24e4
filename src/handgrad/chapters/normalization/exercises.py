"""Exercises of chapter 05. Each is its right answer, and what to say about it."""

import numpy as np
from sympy import sqrt

from ...course.judge.derivation import Derivation
from ...course.judge.draws import Draw, normal, number, repeating, scales
from ...course.judge.function import Exercise
from ...ops.normalization import layer_norm, layer_norm_backward

X = repeating("B T D")
TOKENS = repeating("B S D")  # at least two of each feature
EPS = number(0.05)  # large enough to be felt
NORM = {"dy": normal("B T D"), "x": X, "gamma": scales("D"), "eps": EPS}


def far_from_zero(rng, shape):
    """Numbers of both signs, between 0.5 and 2: what is divided by."""
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 2.0, shape)


# 1 ----------------------------------------------------------------------------------------------------------


def two_features(h, epsilon):
    std = sqrt(h**2 + epsilon)
    direct = 1 / std
    through_variance = h**2 / std**3
    return (direct - through_variance) / 2


def two_features_by_quotient(h, epsilon):
    std = sqrt(h**2 + epsilon)
    return epsilon / (2 * std**3)


TWO_FEATURES = Derivation(
    two_features,
    asks="What ε does to the Jacobian of LayerNorm in the smallest case.",
    domains={"h": "real", "epsilon": "positive"},
    ways=(two_features_by_quotient,),
    stories="""
    - 0 is the answer for ε = 0 only. With ε the output is h/√(h² + ε), which still grows with h.
          return (direct - through_variance) / 2 → return 0 * direct
    - The ½ is missing: moving x_0 by 1 moves h by ½, since the mean goes half the way.
          ) / 2 → )
    - The path through the variance is missing: h stands in the root as well.
          - through_variance →
    - The variance of two features is h², the mean of two equal squares; it is not (2h)².
          h**2 + epsilon → 4 * h**2 + epsilon
    - The variance of two features is h², the mean of two equal squares; it is not their sum.
          h**2 + epsilon → 2 * h**2 + epsilon
    - This is the derivative by x_1. Moving x_0 up moves h up.
          return (direct → return -(direct
    - ε is outside the root. Here LayerNorm divides by √(σ² + ε).
          sqrt(h**2 + epsilon) → (sqrt(h**2) + epsilon)
    - The power below is wrong: by the rule for quotients the root stands there three times, √(h² + ε)³.
          return (direct - through_variance) / 2 → return epsilon / std / 2
    - This is the output h/√(h² + ε) itself, before the derivative is taken.
          return (direct - through_variance) / 2 → return h * direct
    """,
    hints="""
    - Write everything in h = (x_0 - x_1)/2: the mean is x_0 - h, the two deviations are h and -h. What is the
      variance?
    - The output is h/√(h² + ε). Differentiate it by h, with h in both places; then h by x_0.
    - The derivative by h is (h² + ε - h²)/(h² + ε)^(3/2), and ∂h/∂x_0 = ½.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def layer_norm_dx(dy, y, gamma, beta, r):
    x_hat = (y - beta) / gamma
    dx_hat = gamma * dy
    through_mean = dx_hat.mean(axis=-1, keepdims=True)
    through_variance = x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    return r * (dx_hat - through_mean - through_variance)


LAYER_NORM_DX = Exercise(
    layer_norm_dx,
    asks="Rewriting a known backward in terms of what is still in memory.",
    outputs="dx",
    inputs={
        "dy": normal("B T D"),
        "y": X,
        "gamma": Draw("D", far_from_zero),
        "beta": normal("D"),
        "r": Draw("B T", lambda rng, shape: rng.uniform(0.4, 2.0, shape)[..., None]),
    },
    stories="""
    - y stands where x̂ should. Undo the shift and the scale first: x̂ = (y - β)/γ.
          x_hat = (y - beta) / gamma → x_hat = y
    - β is not taken away: x̂ = (y - β)/γ.
          (y - beta) / gamma → y / gamma
    - The order is wrong: β was added last, so it is taken away first.
          (y - beta) / gamma → y / gamma - beta
    - γ is outside the sums: form dx̂ = γ ∘ dy first, and use dx̂ in both means.
          dx_hat = gamma * dy → dx_hat = dy
          return r → return gamma * r
    - γ is missing from dx̂: x̂ is multiplied by γ on the way forward.
          dx_hat = gamma * dy → dx_hat = dy
    - The features are normalised again. x̂ is normalised already, and its mean square is not 1 if ε > 0:
      normalising it changes it.
          dx_hat = gamma * dy → x_hat = x_hat / x_hat.std(-1, keepdims=True); dx_hat = gamma * dy
    - r is missing: all three paths end in the division by the spread.
          return r * ( → return (
    - The path through the mean is missing.
          - through_mean →
    - The path through the variance is missing.
          - through_variance →
    - Divided by r where it should be multiplied: r is the inverse of the spread.
          return r * → return 1 / r *
    - The means run over the positions. Each token is treated by itself: take them over its features.
          axis=-1 → axis=1
    - 1/D is missing from the two indirect paths: they hold means over the features, not sums.
          dx_hat.mean → dx_hat.sum
          x_hat).mean → x_hat).sum
    """,
    hints="""
    - The backward in the chapter needs x̂, r and γ, and nothing else. Which of these is missing here?
    - y = γ ∘ x̂ + β can be solved for x̂, if no γ is 0.
    - With x̂ = (y - β)/γ the rest is the three terms you know, and r stands ready.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def repaired_backward(dy, x, gamma, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    x_hat = centred * r
    dx_hat = gamma * dy
    along = (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = r * (dx_hat - dx_hat.mean(axis=-1, keepdims=True) - x_hat * along)
    return dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def shipped_backward(dy, x, gamma, eps):
    return layer_norm_backward(dy, layer_norm(x, gamma, np.zeros_like(gamma), eps)[1])


REPAIRED_BACKWARD = Exercise(
    repaired_backward,
    asks="Reading a plausible backward critically: faults that its author's test could not show.",
    outputs="dx dgamma dbeta",
    inputs=NORM,
    special={"features far from zero": {"x": X.then(lambda x: x + 40)}},
    shipped=shipped_backward,
    reserved=(layer_norm_backward,),
    stories="""
    - In dx the part along x̂ is still removed whole. With ε the layer does feel a little of the length of a
      token, and that part must stay.
          - x_hat * along → - x_hat * along / (x_hat**2).mean(axis=-1, keepdims=True)
    - In dγ and dβ the sequences are still averaged; all tokens of all sequences share γ and β, so all shares
      are added.
          .sum(axis=(0, 1)) → .sum(axis=1).mean(axis=0)
    - dγ and dβ are averaged over everything; they are sums. The 1/m of a mean loss has arrived in dy already.
          .sum(axis=(0, 1)) → .mean(axis=(0, 1))
    - The variance is divided by D - 1. LayerNorm divides by D: `var` does too, `var(ddof=1)` does not.
          (centred**2).mean(axis=-1, keepdims=True) → x.var(axis=-1, ddof=1, keepdims=True)
    - The part of dx along x̂ is not removed at all now. Of that part mean(dx̂ ∘ x̂) must go, divided by nothing.
          - x_hat * along →
    - In dγ and dβ the sequences are added, but the positions averaged; all tokens of all sequences share γ
      and β, so all shares are added.
          .sum(axis=(0, 1)) → .sum(axis=0).mean(axis=0)
    - Both bugs are still there: one in the part of dx along x̂, one in the sums over the sequences.
          - x_hat * along → - x_hat * along / (x_hat**2).mean(axis=-1, keepdims=True)
          .sum(axis=(0, 1)) → .sum(axis=1).mean(axis=0)
    - dγ and dβ still have an axis for the positions. All tokens of all sequences share γ and β, so both axes
      are summed away.
          .sum(axis=(0, 1)) → .mean(axis=0)
    - dβ is repaired and dγ is not: it still averages over the sequences.
          (dy * x_hat).sum(axis=(0, 1)) → (dy * x_hat).sum(axis=1).mean(axis=0)
    - dγ is repaired and dβ is not: it still averages over the sequences.
          , dy.sum(axis=(0, 1)) → , dy.sum(axis=1).mean(axis=0)
    """,
    hints="""
    - There are two bugs. The author tested one sequence, and a tiny ε. So look for what is right only with
      one sequence, and for what is right only with ε = 0.
    - Which line would change if there were two copies of the same sequence? How should dγ change then?
    - For ε = 0 the mean square of x̂ is 1. For ε > 0 it is less, and dividing by it is not what the chapter
      derives.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def batch_norm_dx(dy, x, gamma, eps):
    centred = x - x.mean(axis=(0, 1))
    r = 1 / np.sqrt((centred**2).mean(axis=(0, 1)) + eps)
    x_hat = centred * r
    dx_hat = gamma * dy
    through_mean = dx_hat.mean(axis=(0, 1))
    through_variance = x_hat * (dx_hat * x_hat).mean(axis=(0, 1))
    return r * (dx_hat - through_mean - through_variance)


BATCH_NORM_DX = Exercise(
    batch_norm_dx,
    asks="All paths through the mean and the variance, over other axes than those of the chapter.",
    outputs="dx",
    inputs={"dy": normal("B S D"), "x": TOKENS, "gamma": scales("D"), "eps": EPS},
    special={"features far from zero": {"x": TOKENS.then(lambda x: x + 40)}},
    stories="""
    - This is LayerNorm's gradient, over the features of each token. BatchNorm takes one feature over all
      tokens of all sequences.
          axis=(0, 1) → axis=-1, keepdims=True
    - The statistics run over the sequences only. All tokens of all sequences count: both axes.
          axis=(0, 1) → axis=0
    - The statistics run over the positions only. All tokens of all sequences count: both axes.
          axis=(0, 1) → axis=1, keepdims=True
    - The statistics are right, over all tokens. But the two means of the backward run over the features; they
      go where the statistics went.
          dx_hat.mean(axis=(0, 1)) → dx_hat.mean(axis=-1, keepdims=True)
          (dx_hat * x_hat).mean(axis=(0, 1)) → (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    - Mean and variance are held constant. That is BatchNorm after training; in training both depend on x.
          - through_mean - through_variance →
    - The path through the mean is missing.
          - through_mean →
    - The path through the variance is missing.
          - through_variance →
    - The two indirect paths hold means over all tokens, not sums.
          dx_hat.mean → dx_hat.sum
          x_hat).mean → x_hat).sum
    - γ is missing: x̂ is multiplied by γ on the way forward.
          dx_hat = gamma * dy → dx_hat = dy
    - ε is outside the root. Here it is √(variance + ε).
          np.sqrt((centred**2).mean(axis=(0, 1)) + eps) → (np.sqrt((centred**2).mean(axis=(0, 1))) + eps)
    - The variance is divided by n - 1. In training BatchNorm divides by n.
          (centred**2).mean(axis=(0, 1)) → x.var(axis=(0, 1), ddof=1)
    """,
    hints="""
    - Call the number of all tokens n. For one feature, BatchNorm does to the n tokens what LayerNorm does to
      the D features of a token. Which axes take the place of the last one?
    - Go through the three paths again: a value reaches the loss directly, through the mean of its feature,
      and through the variance of its feature.
    - The same three terms, with means over the axes (0, 1). γ is one number for each of these means.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def qk_norm_backward(ds, q, k, g):
    q_length = np.sqrt((q**2).sum(axis=-1, keepdims=True))
    k_length = np.sqrt((k**2).sum(axis=-1, keepdims=True))
    q_hat = q / q_length
    k_hat = k / k_length
    dg = (ds * (q_hat @ k_hat.mT)).sum()
    dq_hat = g * ds @ k_hat
    dk_hat = g * ds.mT @ q_hat
    dq = (dq_hat - q_hat * (dq_hat * q_hat).sum(axis=-1, keepdims=True)) / q_length
    dk = (dk_hat - k_hat * (dk_hat * k_hat).sum(axis=-1, keepdims=True)) / k_length
    return dq, dk, dg


QK_NORM_BACKWARD = Exercise(
    qk_norm_backward,
    asks="The backward of a division by the length, joined to that of a product.",
    outputs="dq dk dg",
    inputs={
        "ds": normal("B T S"),
        "q": repeating("B T K"),
        "k": repeating("B S K"),
        "g": Draw("", lambda rng, shape: rng.uniform(1.5, 4.0)),
    },
    stories="""
    - The path through the lengths is missing from dq and dk: each entry of a query also changes its length,
      and with it all its other entries.
          - q_hat * (dq_hat * q_hat).sum(axis=-1, keepdims=True)) → )
          - k_hat * (dk_hat * k_hat).sum(axis=-1, keepdims=True)) → )
    - g is missing from dq and dk: the scores are g times the product of the unit vectors.
          g * ds @ k_hat → ds @ k_hat
          g * ds.mT @ q_hat → ds.mT @ q_hat
    - dq and dk are not divided by the lengths: a longer vector turns less when it is pushed.
          ) / q_length → )
          ) / k_length → )
    - g occurs in dg: the scores are linear in g, so dg cannot depend on it.
          dg = (ds → dg = (g * ds
    - The part along the unit vector is divided by K, as in RMSNorm. Here the vectors are divided by their
      length, and not by their root mean square.
          (dq_hat * q_hat).sum( → (dq_hat * q_hat).mean(
          (dk_hat * k_hat).sum( → (dk_hat * k_hat).mean(
    - The mean is removed as in LayerNorm. Here nothing was centred on the way forward.
          (dq_hat - q_hat → (dq_hat - dq_hat.mean(axis=-1, keepdims=True) - q_hat
          (dk_hat - k_hat → (dk_hat - dk_hat.mean(axis=-1, keepdims=True) - k_hat
    - The gradient of the unit queries is taken with k, and that of the unit keys with q, as they were before
      they were normalised. The scores are products of unit vectors.
          dq_hat = g * ds @ k_hat → dq_hat = g * ds @ k
          dk_hat = g * ds.mT @ q_hat → dk_hat = g * ds.mT @ q
    """,
    hints="""
    - Two steps. The last one is a product, s = g q̂ k̂ᵀ, which is linear in each of g, q̂ and k̂. Its three
      gradients come first.
    - Then one vector at a time: q̂ = q/‖q‖, and ∂‖q‖/∂q_j = q_j/‖q‖. There are two paths, direct and through
      the length.
    - What can q̂ not see of q? Its length. So the part of dq̂ along q̂ cannot come back; what is left is divided
      by ‖q‖. For k the same, with dsᵀ.
    """,
)
