"""Exercises of chapter 02: five losses that it does not show, and their gradients by the logits."""

import numpy as np

from ...course.judge.derivation import Derivation
from ...course.judge.draws import Draw, normal, number
from ...course.judge.function import Exercise

LOGITS = Draw("B T V", lambda rng, shape: rng.normal(0.3, 1.5, shape))
TARGETS = Draw("B T V", lambda rng, shape: rng.integers(shape[-1], size=shape[:-1]))


def high_once(z):
    """The same logits, and at one position 1000 more."""
    z[0, 0] += 1000.0
    return z


def with_padding(rng, shape):
    """Right tokens, and -100 at every third position, from another one on in each sequence."""
    targets = rng.integers(shape[-1], size=shape[:-1])
    b, t = np.ogrid[: shape[0], : shape[1]]
    return np.where((b + t) % 3 == 2, -100, targets)


# 1 ----------------------------------------------------------------------------------------------------------


def z_loss_slope(p, log_U, lam, delta):
    cross_entropy = p - delta
    penalty = lam * 2 * log_U * p
    return cross_entropy + penalty


Z_LOSS_SLOPE = Derivation(
    z_loss_slope,
    asks="The derivative of the log-sum of exponentials, added to the gradient of cross-entropy.",
    domains={"p": "positive", "log_U": "real", "lam": "positive", "delta": "delta"},
    stories="""
    - This is the answer for the right token alone. `delta` is a symbol here, and an `if` takes one branch for
      good: write δ into the formula.
          cross_entropy = p - delta → cross_entropy = p - 1
    - This is the answer for the other tokens alone. `delta` is a symbol here, and an `if` takes one branch
      for good: write δ into the formula.
          cross_entropy = p - delta → cross_entropy = p
    - The inner derivative is missing: ln U changes with z_j by p_j, and the square by 2 ln U times that.
          lam * 2 * log_U * p → lam * 2 * log_U
    - The 2 of the square is missing.
          lam * 2 * log_U * p → lam * log_U * p
    - This is the gradient of λ ln U. The penalty is its square, whose derivative is 2 ln U times that.
          lam * 2 * log_U * p → lam * p
    - ln U is missing: the derivative of a square is twice what is squared, times its derivative.
          lam * 2 * log_U * p → lam * 2 * p
    - This is the penalty alone. The gradient of the cross-entropy, p_j - δ, must be added.
          return cross_entropy + penalty → return penalty
    - This is the cross-entropy alone. The penalty has a gradient too.
          return cross_entropy + penalty → return cross_entropy
    - The penalty does not know which token is right: its factor is p_j, the derivative of ln U, not p_j - δ.
          lam * 2 * log_U * p → lam * 2 * log_U * (p - delta)
    - ln U is still squared. The derivative of a square is twice what is squared, times its derivative.
          lam * 2 * log_U * p → lam * 2 * log_U**2 * p
    - ln U stands squared, as in the loss, where its derivative should: (x²)' = 2x x'.
          lam * 2 * log_U * p → lam * log_U**2 * p
    - This is the loss's penalty itself, λ (ln U)², and not its derivative.
          lam * 2 * log_U * p → lam * log_U**2
    - The derivative of ln U by z_j is p_j itself. p_j (1 - p_j) would be that of p_j.
          lam * 2 * log_U * p → lam * 2 * log_U * p * (1 - p)
    - The penalty is subtracted. It is added to the loss, so its gradient is added.
          cross_entropy + penalty → cross_entropy - penalty
    - All signs of the cross-entropy are turned round: its gradient is p_j - δ. This would climb.
          cross_entropy = p - delta → cross_entropy = delta - p
    - δ is turned round: it is 1 for the right token, so the gradient of the cross-entropy is p_j - δ.
          cross_entropy = p - delta → cross_entropy = p - (1 - delta)
    - The derivative of ln U by z_j is not 1/U: the inner derivative e^{z_j} belongs to it, and e^{z_j}/U is
      p_j.
          lam * 2 * log_U * p → lam * 2 * log_U * 2.718281828459045 ** (-log_U)
    - e^{z_j} is the derivative of U. That of ln U is e^{z_j}/U, which is p_j.
          lam * 2 * log_U * p → lam * 2 * log_U * p * exp(log_U)
    - This is the loss, for the right token, and not its derivative.
          return cross_entropy + penalty → return -log(p) + lam * log_U**2
    - 1 - p_j stands where p_j should: the derivative of ln U by z_j is e^{z_j}/U.
          lam * 2 * log_U * p → lam * 2 * log_U * (1 - p)
    - The gradient of -ln p_y by the logits is p_j - δ. With another factor p_j this is the way of p_y,
      and not that of its logarithm.
          cross_entropy = p - delta → cross_entropy = p * (delta - p)
    - The gradient of -ln p_y by the logits is p_j - δ, without another factor p_j.
          cross_entropy = p - delta → cross_entropy = p * (p - delta)
    - U stands where ln U should: what is squared is the logarithm.
          lam * 2 * log_U * p → lam * 2 * 2.718281828459045 ** log_U * p
    - λ is missing from the penalty.
          lam * 2 * log_U * p → 2 * log_U * p
    """,
    hints="""
    - The loss is a sum of two terms, so its gradient is one too. The first is in the chapter.
    - For the second: what is the derivative of ln U by z_j, if U is the sum of all exponentials?
    - It is e^{z_j}/U, which is p_j. And the derivative of a square is twice what is squared, times its own.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def weighted_dz(z, targets, w):
    counted = targets != -100
    y = np.where(counted, targets, 0)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    one_hot = np.eye(len(w))[y]
    weight = np.where(counted, w[y], 0.0)
    total = weight.sum()
    return weight[..., None] * (p - one_hot) / total


OVERFLOW = """
    - The exponentials overflow where the logits are near 1000. Softmax does not feel a shift: take the
      largest logit of each row away first.
          e = np.exp(z - z.max(axis=-1, keepdims=True)) → e = np.exp(z)
"""


def each_with_overflow(stories):
    """The stories, and then each that still uses these exponentials once more, without the maximum."""
    change = "e = np.exp(z - z.max(axis=-1, keepdims=True)) → e = np.exp(z)"
    words = "Besides, the exponentials overflow where the logits are near 1000."
    both = []
    for story in stories.strip().split("\n    - "):
        first, _, rest = story.removeprefix("- ").partition("\n")
        if "np.exp(" not in rest and "→ -one_hot" not in rest:
            both.append(f"- {first}\n{change}\n{rest}\n{words}")
    return stories + "\n".join(both)


WEIGHTED_DZ = Exercise(
    weighted_dz,
    asks="A weighted mean under padding: what stands in its denominator; and large logits.",
    outputs="dz",
    inputs={
        "z": LOGITS,
        "targets": Draw("B T V", with_padding),
        "w": Draw("V", lambda rng, shape: rng.uniform(0.3, 3.0, shape)),
    },
    special={"logits near 1000": {"z": LOGITS.then(high_once)}},
    only={
        "logits near 1000": "There the exponentials overflow, or all of a row become 0. Take from each row "
        "its own largest logit: p stays the same. To clip the logits, or to put 0 for NaN, changes p."
    },
    stories=OVERFLOW
    + each_with_overflow("""
    - Token 0 is taken for padding. Padding is -100, and 0 is a token like any other.
          counted = targets != -100 → counted = targets > 0
    - All that follows the first padding of a sequence is left out. Padding can stand anywhere: in a loop,
      `continue` in place of `break`.
          counted = targets != -100 → counted = np.cumprod(targets != -100, axis=1) == 1
    - Padding is taken to stand at the end: of each sequence only the first positions have a gradient, as many
      as are not padding. It can stand anywhere.
          return weight → return ((np.arange(y.shape[1]) < counted.sum(axis=1)[:, None]) * weight)
    - The weights are normalised over the vocabulary, and then the number of targets divides. Divide by the
      weights of the targets instead, each as often as it occurs.
          np.where(counted, w[y], 0.0) → np.where(counted, w[y] / w.sum(), 0.0)
          total = weight.sum() → total = counted.sum()
    - The weights are normalised over the vocabulary, to the mean 1, and then the number of targets divides.
      Divide by the weights of the targets instead, each as often as it occurs.
          np.where(counted, w[y], 0.0) → np.where(counted, w[y] / w.mean(), 0.0)
          total = weight.sum() → total = counted.sum()
    - At padding the one-hot row is 0, but p is not: every logit there is pushed down. The whole row must be
      0.
          np.where(counted, w[y], 0.0) → np.where(counted, w[y], 1.0)
          (p - one_hot) / total → (p - one_hot * counted[..., None]) / (weight * counted).sum()
    - At padding the one-hot row is 0, but p is not: every logit there is pushed down. The whole row must be
      0.
          np.where(counted, w[y], 0.0) → w[y]
          (p - one_hot) / total → (p - one_hot * counted[..., None]) / (weight * counted).sum()
    - At padding the one-hot row is 0, but p and the weight are not. The whole row must be 0, and the sum of
      the weights must leave padding out.
          np.where(counted, w[y], 0.0) → w[y]
          (p - one_hot) / total → (p - one_hot * counted[..., None]) / total
    - Divided by the number m of targets that count. This mean is weighted: divide by the sum of the weights
      that occur.
          total = weight.sum() → total = counted.sum()
    - Divided by the number of all positions. This mean is weighted: divide by the sum of the weights that
      occur.
          total = weight.sum() → total = counted.size
    - Divided by the sum of the table w. Divide by the weights of the targets, each as often as it occurs.
          total = weight.sum() → total = w.sum()
    - Divided twice, by the sum of the weights and by the number of targets. The sum of the weights alone
      makes the mean.
          total = weight.sum() → total = weight.sum() * counted.sum()
    - Each weight enters the sum once. It must stand there as often as its token is a target.
          total = weight.sum() → total = w[np.unique(y[counted])].sum()
    - One softmax over the whole array. Each position has its own.
          p = e / e.sum(axis=-1, keepdims=True) → p = np.exp(z) / np.exp(z).sum()
    - One softmax over the whole array. Each position has its own.
          p = e / e.sum(axis=-1, keepdims=True) → p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    - The gradient went through the softmax twice: p - q is already the derivative by the logits.
          (p - one_hot) → (p * (p - one_hot - (p * (p - one_hot)).sum(axis=-1, keepdims=True)))
    - The gradient by the logits is p - q, without another factor p.
          (p - one_hot) → p * (p - one_hot)
    - Only the right token gets a gradient. The others get p_j: their logits should fall.
          (p - one_hot) → one_hot * (p - one_hot)
    - The weights stand inside the softmax. They weigh the costs of the positions, and leave p alone.
          p = e / e.sum( → e = w * e; p = e / e.sum(
    - The weights stand inside the softmax, in the place of the weights of the positions. They weigh the
      costs, and leave p alone.
          p = e / e.sum( → e = w * e; p = e / e.sum(
          np.where(counted, w[y], 0.0) → np.where(counted, 1.0, 0.0)
    - Divided by the mean of the weights. Divide by their sum.
          total = weight.sum() → total = weight.sum() / counted.sum()
    - Divided by the number of sequences. The loss is one weighted mean over the whole batch.
          total = weight.sum() → total = len(z)
    - Not divided at all: this is the gradient of the weighted sum. The loss is a weighted mean.
          total = weight.sum() → total = 1.0
    - Each sequence is divided by its own weights, and the sequences are averaged. The loss is one weighted
      mean over the whole batch.
          total = weight.sum() → total = weight.sum(axis=-1)[:, None, None] * len(z)
    - Each sequence is divided by its own weights. The loss is one weighted mean over the whole batch.
          total = weight.sum() → total = weight.sum(axis=-1)[:, None, None]
    - Divided by the weights at the same position of all sequences. The loss is one weighted mean over the
      whole batch.
          total = weight.sum() → total = weight.sum(axis=0)[:, None]
    - Divided inside the loop, by the weights of the positions so far. Divide by the whole sum, after the
      loop.
          total = weight.sum() → total = np.cumsum(weight).reshape(weight.shape)[..., None]
    - This is p - q at each position. Neither weights nor mean are in it, or each weight has been divided by
      itself: divide all by their sum.
          np.where(counted, w[y], 0.0) → np.where(counted, 1.0, 0.0)
          total = weight.sum() → total = 1.0
    - The weight is that of the most probable token. It belongs to the right one, as the cost does.
          np.where(counted, w[y], 0.0) → np.where(counted, w[p.argmax(axis=-1)], 0.0)
    - The weights multiply the logits. They weigh the costs of the positions, and leave p alone.
          np.exp(z - z.max(axis=-1, keepdims=True)) → np.exp(w * z - (w * z).max(axis=-1, keepdims=True))
    - The weights stand at the columns. A weight belongs to the position, through its right token, and
      multiplies the whole row.
          return weight[..., None] * → return counted[..., None] * w *
    - The weights stand at the columns, and the number of targets divides. A weight belongs to the position,
      through its right token, and multiplies the whole row; and the sum of these weights divides.
          return weight[..., None] * → return counted[..., None] * w *
          total = weight.sum() → total = counted.sum()
    - The rows are not weighted: only the denominator knows of the weights.
          return weight[..., None] * → return counted[..., None] *
    - Only the right token is weighted. The cost is w ln p_y as a whole, so w multiplies p too.
          weight[..., None] * (p - one_hot) → (counted[..., None] * p - weight[..., None] * one_hot)
    - Only the right token is weighted, and the number of targets divides. The cost is w ln p_y as a whole, so
      w multiplies p too; and the sum of the weights divides.
          weight[..., None] * (p - one_hot) → (counted[..., None] * p - weight[..., None] * one_hot)
          total = weight.sum() → total = counted.sum()
    - Divided by the weights: this makes rare tokens count less if their weight is large.
          np.where(counted, w[y], 0.0) → np.where(counted, 1 / w[y], 0.0)
    - This is the derivative by p, -q/p. It must still go back through the softmax.
          (p - one_hot) → (-one_hot / p)
    - Padding gets a gradient, and its weight enters the mean. Where the target is -100 both must be 0.
          np.where(counted, w[y], 0.0) → w[y]
    - Padding gets a gradient: as many zeros are needed as there are targets -100.
          return weight[..., None] → return w[y][..., None]
    - The weight of padding enters the mean. Its gradient is rightly 0, but the sum of the weights must leave
      it out as well.
          total = weight.sum() → total = w[y].sum()
    - The weight of padding enters the mean. Its gradient is rightly 0, but the sum of the weights must leave
      it out as well.
          total = weight.sum() → total = w[targets % len(w)].sum()
    - Padding is taken for a token: -100 has chosen one from the end of the table. Its weight and its
      gradient must be 0.
          np.where(counted, w[y], 0.0) → w[np.where(counted, targets, -1)]
          y = np.where(counted, targets, 0) → y = np.where(counted, targets, -1)
    - The weights are not used.
          np.where(counted, w[y], 0.0) → np.where(counted, 1.0, 0.0)
    - The weights are squared: w_y once, over the sum of the w_y.
          return weight[..., None] * → return weight[..., None] ** 2 *
    - The exponentials are not normalised: divide each row by its sum.
          p = e / e.sum(axis=-1, keepdims=True) → p = e
    - The one-hot row is missing: this pushes every logit down, the right one too.
          (p - one_hot) → p
    - The sign is turned round: the gradient is p - q, and descent subtracts it.
          (p - one_hot) → (one_hot - p)
    - The probabilities are missing: the other tokens must hear of the mistake as well.
          (p - one_hot) → -one_hot
    - The softmax runs along the positions. The probabilities of one position, over the tokens, add up to 1.
          axis=-1 → axis=1
    """),
    hints="""
    - Write the loss as Σ_t w_t ℓ_t / Σ_t w_t with w_t = w[y_t]. The denominator does not depend on z.
    - So each row is that of ℓ_t, times w_t over the sum of all w_t.
    - Padding: let w_t be 0 there. `np.where(targets == -100, 0, targets)` makes an index that is allowed.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def focal_dz(z, targets, gamma):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    one_hot = np.eye(z.shape[-1])[targets]
    r = (p * one_hot).sum(axis=-1, keepdims=True)
    of_logarithm = -((1 - r) ** gamma) / r
    of_factor = gamma * (1 - r) ** (gamma - 1) * np.log(r)
    return (of_logarithm + of_factor) * r * (one_hot - p) / targets.size


def focal_by_a_factor(z, targets, gamma):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    one_hot = np.eye(z.shape[-1])[targets]
    r = (p * one_hot).sum(axis=-1, keepdims=True)
    constant = (1 - r) ** gamma
    moving = gamma * r * (1 - r) ** (gamma - 1) * np.log(r)
    return (constant - moving) * (p - one_hot) / targets.size


FOCAL_DZ = Exercise(
    focal_dz,
    asks="The chain rule through softmax when the loss holds the right token's probability twice.",
    outputs="dz",
    ways=(focal_by_a_factor,),
    inputs={"z": LOGITS, "targets": TARGETS, "gamma": number(2.5)},
    stories="""
    - r is taken as the largest probability. It is that of the right token, which the model need not prefer.
          r = (p * one_hot).sum(axis=-1, keepdims=True) → r = p.max(axis=-1, keepdims=True)
    - r is taken as the largest probability, and (1 - r)^γ as a constant. r is that of the right token, and
      it depends on z.
          r = (p * one_hot).sum(axis=-1, keepdims=True) → r = p.max(axis=-1, keepdims=True)
          (of_logarithm + of_factor) → of_logarithm
    - This is the derivative of (1 - r)^γ times that of the logarithm. In a product each derivative stands
      beside the other function itself, and the two results are added.
          (of_logarithm + of_factor) * r → -gamma * (1 - r) ** (gamma - 1)
    - This is the derivative of (1 - r)^γ times that of the logarithm. In a product each derivative stands
      beside the other function itself, and the two results are added.
          (of_logarithm + of_factor) * r → gamma * (1 - r) ** (gamma - 1)
    - This is the derivative of (1 - r)^γ by the logits alone. The logarithm beside it is missing, and so is
      the derivative of the logarithm, times (1 - r)^γ.
          (of_logarithm + of_factor) → -gamma * (1 - r) ** (gamma - 1)
    - This is the derivative of (1 - r)^γ by the logits alone. The logarithm beside it is missing, and so is
      the derivative of the logarithm, times (1 - r)^γ.
          (of_logarithm + of_factor) → gamma * (1 - r) ** (gamma - 1)
    - This is γ (1 - r)^(γ-1) ln r times p - q. It is the path through (1 - r)^γ without its factor r, and
      the path through the logarithm is missing.
          (of_logarithm + of_factor) * r → -gamma * (1 - r) ** (gamma - 1) * np.log(r)
    - This is γ (1 - r)^(γ-1) ln r times p - q. It is the path through (1 - r)^γ without its factor r, and
      the path through the logarithm is missing.
          (of_logarithm + of_factor) * r → gamma * (1 - r) ** (gamma - 1) * np.log(r)
    - ln(1 - r) stands where ln r should: the loss takes the logarithm of r, and only the factor has 1 - r.
          np.log(r) → np.log(1 - r)
    - ln(1 - r) is differentiated in the place of ln r: only the factor has 1 - r.
          np.log(r) → np.log(1 - r)
          -((1 - r) ** gamma) / r → (1 - r) ** gamma / (1 - r)
    - ln(1 - r) is differentiated in the place of ln r, and its sign is turned round. Only the factor has
      1 - r.
          np.log(r) → np.log(1 - r)
          -((1 - r) ** gamma) / r → -((1 - r) ** gamma) / (1 - r)
    - The factor (1 - p_y)^γ is treated as a constant. It depends on z too, and that path is missing.
          (of_logarithm + of_factor) → of_logarithm
    - The path through the logarithm is missing: this is the derivative of (1 - p_y)^γ alone.
          (of_logarithm + of_factor) → of_factor
    - This is plain cross-entropy: the factor (1 - p_y)^γ is not used.
          (of_logarithm + of_factor) → (-1 / r)
    - The sign of the path through the factor is wrong. (1 - p)^γ has the derivative -γ (1 - p)^(γ-1), and
      in front of the logarithm stands a minus: together plus, and ln p is negative.
          of_logarithm + of_factor → of_logarithm - of_factor
    - The exponent has not gone down: the derivative of (1 - p)^γ has the exponent γ - 1.
          (1 - r) ** (gamma - 1) → (1 - r) ** gamma
    - γ is missing in front: the derivative of (1 - p)^γ is -γ (1 - p)^(γ-1).
          gamma * (1 - r) ** (gamma - 1) → (1 - r) ** (gamma - 1)
    - The factor has lost its power in the path through the logarithm.
          -((1 - r) ** gamma) / r → -(1 - r) / r
    - The factor stands with p_y^γ; it is (1 - p_y)^γ, small where the model is sure.
          (1 - r) → r
    - The factor stands with p_y^γ; it is (1 - p_y)^γ, small where the model is sure.
          -((1 - r) ** gamma) / r → -(r**gamma) / r
          gamma * (1 - r) ** (gamma - 1) → -gamma * r ** (gamma - 1)
    - The derivative of the softmax lacks its factor p_y: ∂p_y/∂z_j = p_y (δ - p_j).
          * r * (one_hot - p) → * (one_hot - p)
    - Only the right logit gets a gradient. All logits move p_y: ∂p_y/∂z_j = p_y (δ - p_j).
          (one_hot - p) → one_hot * (one_hot - p)
    - Only the right logit gets a gradient, p_y dp_y. The backward of the softmax is p ∘ (dp - Σ p dp), and
      the sum is missing.
          (one_hot - p) → one_hot
    - The backward of the softmax is p ∘ (dp - Σ p dp). In the sum p is missing.
          * r * (one_hot - p) → * (one_hot * r - p)
    - The backward of the softmax is p ∘ (dp - Σ p dp). The sum is not multiplied by p.
          (one_hot - p) → (one_hot - 1)
    - The backward of the softmax is p ∘ (dp - Σ p dp). A plain mean of dp stands where that sum should.
          * r * (one_hot - p) → * (one_hot * r - p / z.shape[-1])
    - 1 stands where δ should: ∂p_y/∂z_j = p_y (δ - p_j), and δ is 1 for the right token alone.
          (one_hot - p) → (1 - p)
    - The sign is wrong for the other tokens: when their logits grow, p_y falls, ∂p_y/∂z_j = -p_y p_j.
          (one_hot - p) → abs(one_hot - p)
    - This is the derivative by p_y, in the place of the right token. It must still go back through the
      softmax.
          * r * (one_hot - p) → * one_hot
    - The factor is computed for every token, with its own p_j. It belongs to the position: (1 - p_y)^γ, with
      the probability of the right token.
          r = (p * one_hot).sum(axis=-1, keepdims=True) → r = p
    - p - q is multiplied by (1 - p_j)^γ, each token by its own. The factor is one number for each
      position, and it depends on z as well.
          (of_logarithm + of_factor) * r * (one_hot - p) → (1 - p) ** gamma * (p - one_hot)
    - This is the cost itself times p - q. The gradient takes its derivative by p_y, times that of p_y.
          (of_logarithm + of_factor) * r → (1 - r) ** gamma * np.log(r)
    - This is (1 - p_y)^(γ-1) times p - q. Of the product both factors are differentiated, one at a time, and
      the two results are added.
          (of_logarithm + of_factor) * r → -((1 - r) ** (gamma - 1))
    - (γ + 1)(1 - r)^γ comes from (1 - r)^(γ+1). Here a logarithm stands beside (1 - r)^γ: the product rule
      has two terms, one of them with ln r.
          (of_logarithm + of_factor) * r → -(gamma + 1) * (1 - r) ** gamma
    - A mean has been taken before the end: each position keeps its own derivative by p_y.
          (of_logarithm + of_factor) → (of_logarithm + of_factor).mean()
          / targets.size → / 1
    - The gradient went through the softmax twice.
          (one_hot - p) → p * (one_hot - p)
    - The distance from 1 is taken for every token, with its own p_j - q_j. The factor is one number for each
      position, and it depends on z as well.
          (of_logarithm + of_factor) * r * (one_hot - p) → abs(p - one_hot) ** gamma * (p - one_hot)
    - The logarithm is that to the base 2; the loss has the natural one.
          np.log(r) → np.log2(r)
    - The mean is missing: this is the gradient of the sum over all positions.
          / targets.size → / 1
    - The mean is over the sequences only. There are B · T positions.
          / targets.size → / len(targets)
    - The mean is over the positions of one sequence only. There are B · T positions.
          / targets.size → / targets.shape[1]
    - Divided by all entries of z. There are B · T costs, and V logits for each.
          / targets.size → / z.size
    - The sign is turned round: descent subtracts this, and it would make the right token less likely.
          (one_hot - p) → (p - one_hot)
    - The one-hot row is missing from the derivative of the softmax: ∂p_y/∂z_j = p_y (δ - p_j).
          (one_hot - p) → -p
    """,
    hints="""
    - The cost is a product of two functions of p_y, a factor and a logarithm. First its derivative by p_y.
    - Then from p_y to all logits: ∂p_y/∂z_j = p_y (δ_jy - p_j), the row of the Jacobian that belongs to y.
    - With r = p_y the derivative by r is γ (1 - r)^(γ-1) ln r - (1 - r)^γ / r. Times r (δ - p_j), over B T.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def distill_dz(z, teacher, tau):
    e = np.exp((z - z.max(axis=-1, keepdims=True)) / tau)
    p = e / e.sum(axis=-1, keepdims=True)
    f = np.exp((teacher - teacher.max(axis=-1, keepdims=True)) / tau)
    q = f / f.sum(axis=-1, keepdims=True)
    tau_squared = tau**2
    one_over_tau = 1 / tau
    m = z.shape[0] * z.shape[1]
    return tau_squared * one_over_tau * (p - q) / m


DISTILL_DZ = Exercise(
    distill_dz,
    asks="Cross-entropy with soft targets, and how often the temperature counts.",
    outputs="dz",
    inputs={"z": LOGITS, "teacher": LOGITS, "tau": number(2.5)},
    stories="""
    - 1/τ is missing: the logits are divided by τ before the softmax, and that is a link of the chain.
          one_over_tau = 1 / tau → one_over_tau = 1
    - τ² in front of the loss is missing.
          tau_squared = tau**2 → tau_squared = 1
    - No τ is left in front of p - q, and one should be: τ² stands in front of the loss, and the chain adds
      1/τ, once.
          tau_squared = tau**2 → tau_squared = tau
    - Divided by τ². The loss is multiplied by τ², and the chain divides by τ once.
          tau_squared = tau**2 → tau_squared = 1 / tau
    - 1/τ is missing, and so is the mean over the B · T positions.
          one_over_tau = 1 / tau → one_over_tau = 1
          m = z.shape[0] * z.shape[1] → m = 1
    - The logarithms are compared, ln p - ln q. The gradient by the logits compares p with q.
          (p - q) → np.log(p / q)
    - These are the terms of the loss, q ln(q/p), and not their derivative.
          tau_squared * one_over_tau * (p - q) → tau_squared * q * np.log(q / p)
    - These are the terms of the loss, q ln(q/p), or their negative, and not their derivative.
          (p - q) → q * np.log(p / q)
    - Divided by τ² where the loss is multiplied by it.
          tau_squared = tau**2 → tau_squared = 1 / tau**2
    - Multiplied by τ where the chain divides: ∂(z/τ)/∂z = 1/τ.
          one_over_tau = 1 / tau → one_over_tau = tau
    - The student has no temperature: its p is the softmax of z/τ, as the teacher's.
          p = e / e.sum( → e = e**tau; p = e / e.sum(
    - The teacher has no temperature: q is the softmax of its logits divided by τ.
          q = f / f.sum( → f = f**tau; q = f / f.sum(
    - The temperature multiplies the logits. It divides them: z/τ.
          keepdims=True)) / tau) → keepdims=True)) * tau)
    - The temperature is in neither softmax: p and q are those of z/τ and of the teacher's logits over τ.
          keepdims=True)) / tau) → keepdims=True)))
    - The teacher's most probable token stands for its whole row. All its probabilities are wanted.
          q = f / f.sum(axis=-1, keepdims=True) → q = 1.0 * (f == f.max(axis=-1, keepdims=True))
    - The temperature is not used at all, or it stands behind the softmax and cancels. It divides the logits,
      in both softmaxes, and τ² stands in front of the loss.
          tau_squared = tau**2 → tau_squared = 1
          one_over_tau = 1 / tau → one_over_tau = 1
          keepdims=True)) / tau) → keepdims=True)))
    - The teacher's most probable token stands for its whole row; and 1/τ, a link of the chain, is missing.
          q = f / f.sum(axis=-1, keepdims=True) → q = 1.0 * (f == f.max(axis=-1, keepdims=True))
          one_over_tau = 1 / tau → one_over_tau = 1
    - The teacher's most probable token stands for its whole row, and there is no temperature. All the
      teacher's probabilities are wanted, softened as the student's.
          tau_squared = tau**2 → tau_squared = 1
          one_over_tau = 1 / tau → one_over_tau = 1
          keepdims=True)) / tau) → keepdims=True)))
          q = f / f.sum(axis=-1, keepdims=True) → q = 1.0 * (f == f.max(axis=-1, keepdims=True))
    - 1 stands where q should: each p_j is compared with what the teacher gives to the same token.
          (p - q) → (p - 1)
    - The temperature divides the teacher's probabilities. It divides the logits, before the softmax.
          q = f / f.sum( → f = f**tau; q = 1 / tau * f / f.sum(
    - The gradient by the logits is p - q, without another factor p.
          (p - q) → p * (p - q)
    - p is missing: the teacher's row alone says where to go, but not how far is left.
          (p - q) → (-q)
    - The teacher's exponentials are not normalised.
          q = f / f.sum(axis=-1, keepdims=True) → q = f
    - The teacher's logits stand where its probabilities should.
          q = f / f.sum(axis=-1, keepdims=True) → q = teacher
    - The teacher's logits over τ stand where its probabilities should.
          q = f / f.sum(axis=-1, keepdims=True) → q = teacher / tau
    - One softmax over the whole array. Each position has its own.
          (axis=-1, keepdims=True) → ()
    - The logits are compared, student minus teacher. The gradient compares probabilities.
          (p - q) → (z - teacher)
    - p and q are exchanged: the gradient is what the student predicts minus what is wanted.
          (p - q) → (q - p)
    - This is the gradient of the divergence the other way round, Σ p ln(p/q). In this loss the teacher's q
      stands in front, and no ln remains.
          (p - q) → p * (np.log(p / q) - (p * np.log(p / q)).sum(axis=-1, keepdims=True))
    - The gradient went through the softmax twice: p - q is already the derivative by z/τ.
          (p - q) → p * ((p - q) - (p * (p - q)).sum(axis=-1, keepdims=True))
    - This is the derivative by p, -q/p. It must still go back through the softmax.
          (p - q) → (-q / p)
    - This is the derivative by p, -q/p. It must still go back through the softmax.
          tau_squared * one_over_tau * (p - q) → tau_squared * (-q / p)
    - This is the derivative by p, -q/p. It must still go back through the softmax, and no τ is in front.
          tau_squared * one_over_tau * (p - q) → -q / p
    - The backward of the softmax is p ∘ (dp - Σ p dp). In the sum p is missing.
          (p - q) → (p * (q / p).sum(axis=-1, keepdims=True) - q)
    - This is dp - Σ p dp. The backward of the softmax is p times that.
          (p - q) → (1 - q / p)
    - This is the gradient by the teacher's logits. The teacher is constant: asked is the gradient by z.
          (p - q) → q * (np.log(q / p) - (q * np.log(q / p)).sum(axis=-1, keepdims=True))
    - The mean is missing: this is the gradient of the sum over all positions.
          m = z.shape[0] * z.shape[1] → m = 1
    - The mean is over the sequences only. There are B · T positions.
          m = z.shape[0] * z.shape[1] → m = z.shape[0]
    - The mean is over the positions of one sequence only. There are B · T positions.
          m = z.shape[0] * z.shape[1] → m = z.shape[1]
    - Divided by all B · T · V entries, and no τ is left in front of p - q. The mean is over B · T costs; τ²
      stands in front of them, and the chain adds 1/τ, once.
          tau_squared = tau**2 → tau_squared = tau
          m = z.shape[0] * z.shape[1] → m = z.size
    - Divided by all B · T · V entries. There is one cost for each position: the mean is over B · T.
          m = z.shape[0] * z.shape[1] → m = z.size
    """,
    hints="""
    - The teacher's row q is a constant. What does Σ q ln(q/p) have in common with cross-entropy?
    - Its gradient by the logits *of the softmax*, z/τ, is p - q. One link of the chain leads from there to z.
    - That link is 1/τ, and in front of the loss stands τ². Multiply, and divide by the number of positions.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def units(x):
    """Rows of length 1, for a story."""
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def pair_gradients(u, v, tau):
    s = u @ v.T / tau
    e = np.exp(s - s.max(axis=1, keepdims=True))
    rows = e / e.sum(axis=1, keepdims=True)
    f = np.exp(s - s.max(axis=0, keepdims=True))
    columns = f / f.sum(axis=0, keepdims=True)
    one_hot = np.eye(len(s))
    ds = ((rows - one_hot) + (columns - one_hot)) / 2 / len(s)
    du = ds @ v / tau
    dv = ds.T @ u / tau
    return du, dv


PAIR_GRADIENTS = Exercise(
    pair_gradients,
    asks="Two softmaxes over different axes of one table, and then the backward of a product.",
    outputs="du dv",
    inputs={"u": normal("S K"), "v": normal("S K"), "tau": number(0.7)},
    stories="""
    - The sums of the rows lack `keepdims=True`: they divide the columns. The table is square, so NumPy does
      not object.
          rows = e / e.sum(axis=1, keepdims=True) → rows = np.exp(s) / np.exp(s).sum(axis=1)
    - The sums of the rows lack `keepdims=True`: they divide the columns. The table is square, so NumPy does
      not object.
          rows = e / e.sum(axis=1, keepdims=True) → rows = e / e.sum(axis=1)
    - The sums of the columns divide the rows: as a row, `[None, :]`, they would divide each its own column.
          columns = f / f.sum(axis=0, keepdims=True) → columns = f / f.sum(axis=0)[:, None]
    - The sums of the columns divide the rows: as a row, `[None, :]`, they would divide each its own column.
          columns = f / f.sum(axis=0, keepdims=True) → columns = np.exp(s) / np.exp(s).sum(axis=0)[:, None]
    - Both sums divide along the wrong axis: those of the rows the columns, and those of the columns the rows.
          rows = e / e.sum(axis=1, keepdims=True) → rows = e / e.sum(axis=1)
          columns = f / f.sum(axis=0, keepdims=True) → columns = f / f.sum(axis=0)[:, None]
    - Both sums divide along the wrong axis: those of the rows the columns, and those of the columns the rows.
          rows = e / e.sum(axis=1, keepdims=True) → rows = np.exp(s) / np.exp(s).sum(axis=1)
          columns = f / f.sum(axis=0, keepdims=True) → columns = np.exp(s) / np.exp(s).sum(axis=0)[:, None]
    - Only the rows: each u looks for its v, once, or twice if both softmaxes run along the rows. The loss
      also asks each v for its u, by a softmax over each column.
          ((rows - one_hot) + (columns - one_hot)) / 2 → (rows - one_hot)
    - Only the columns: each v looks for its u, once, or twice if both softmaxes run along the columns. The
      loss also asks each u for its v, by a softmax over each row.
          ((rows - one_hot) + (columns - one_hot)) / 2 → (columns - one_hot)
    - Only the rows, and halved: the half that belongs to the columns is missing.
          ((rows - one_hot) + (columns - one_hot)) / 2 → (rows - one_hot) / 2
    - Only the columns, and halved: the half that belongs to the rows is missing.
          ((rows - one_hot) + (columns - one_hot)) / 2 → (columns - one_hot) / 2
    - Both the ½ and the 1/S of the means are missing.
          / 2 / len(s) → / 1
    - The two softmaxes are multiplied. The two losses are added, and so are their gradients.
          ((rows - one_hot) + (columns - one_hot)) / 2 → (rows * columns - one_hot)
    - The two gradients are subtracted. The two losses are added, and so are their gradients.
          (rows - one_hot) + (columns - one_hot) → (rows - one_hot) - (columns - one_hot)
    - Divided by the width K. Each of the two losses is a mean over S pairs.
          / 2 / len(s) → / 2 / u.shape[1]
    - The ½ reaches only the columns. It stands in front of both losses.
          (rows - one_hot) + → 2 * (rows - one_hot) +
    - The ½ reaches only the rows. It stands in front of both losses.
          + (columns - one_hot) → + 2 * (columns - one_hot)
    - The last one wins: each turn of a loop replaces the gradient of the turn before. They add up: `+=`.
          du = ds @ v → du = ds[:, -1:] * v[-1]
    - The last one wins: each turn of a loop replaces the gradient of the turn before. They add up: `+=`.
          dv = ds.T @ u → dv = ds[-1:].T * u[-1]
    - ds is summed first, and its sums multiply the rows of v and of u. Each entry of ds has a row of its own
      to multiply, before the sum: a matrix product.
          ds @ v → ds.sum(axis=1, keepdims=True) * v
          ds.T @ u → ds.T.sum(axis=1, keepdims=True) * u
    - The pairs are left out, the diagonal of ds. Their scores have a gradient too: they should rise.
          / 2 / len(s) → / 2 / len(s) * (1 - one_hot)
    - This is the derivative by the probabilities, -1/p. It must still go back through the softmaxes.
          ((rows - one_hot) + (columns - one_hot)) → -(one_hot / rows + one_hot / columns)
    - This is ds and its transpose, the gradient of the scores. It must still go back to u and v.
          return du, dv → return ds, ds.T
    - 1 is taken away everywhere. It belongs to the pairs alone, which stand on the diagonal.
          one_hot = np.eye(len(s)) → one_hot = np.ones((len(s), len(s)))
    - Only the diagonal of ds is used. The scores of all other pairs have a gradient too: they should fall.
          ((rows - one_hot) + (columns - one_hot)) → one_hot * (rows + columns - 2 * one_hot)
    - The rows are divided by their lengths first. Here the scores are plain products of u and v over τ.
          s = u @ v.T / tau → u = units(u); v = units(v); s = u @ v.T / tau
    - One of the two one-hot matrices is missing: each of the two losses subtracts its own.
          ((rows - one_hot) + (columns - one_hot)) → (rows + columns - one_hot)
    - The two losses are averaged, with ½ each; here they are added.
          (columns - one_hot)) / 2 → (columns - one_hot))
    - The 1/S of the means is missing: each of the two losses is a mean over S pairs.
          / 2 / len(s) → / 2
    - The second softmax divides by sums of rows. A column must add up to 1.
          f.sum(axis=0, keepdims=True) → f.sum(axis=1, keepdims=True)
    - One softmax over all S · S scores. There is one for each row, and one for each column.
          rows = e / e.sum(axis=1, keepdims=True) → rows = np.exp(s) / np.exp(s).sum()
          columns = f / f.sum(axis=0, keepdims=True) → columns = rows
    - The columns' part is turned round: it is the softmax over each column of the same s, in the place
      where it stands, not its transpose.
          (columns - one_hot) → (columns.T - one_hot)
    - τ is missing from du and dv: the scores are divided by it.
          ds @ v / tau → ds @ v
          ds.T @ u / tau → ds.T @ u
    - τ is missing from the scores; the gradient is taken at the wrong place.
          s = u @ v.T / tau → s = u @ v.T
    - Multiplied by τ. The scores are divided by it.
          ds @ v / tau → ds @ v * tau
          ds.T @ u / tau → ds.T @ u * tau
    - 1/τ stands twice in du and dv.
          ds @ v / tau → ds @ v / tau**2
          ds.T @ u / tau → ds.T @ u / tau**2
    - ds is not transposed in dv. Each v collects from all u, along its column.
          ds.T @ u → ds @ u
    - ds is transposed in du. Each u collects from all v, along its row.
          du = ds @ v → du = ds.T @ v
    - u and v are exchanged: the scores are u vᵀ, so du takes v, and dv takes u.
          ds @ v → ds @ u
          ds.T @ u → ds.T @ v
    - dv stands in the place of du, and du in that of dv.
          return du, dv → return dv, du
    - The one-hot matrices are missing: this pushes all pairs apart, those that belong together too.
          one_hot = np.eye(len(s)) → one_hot = 0 * s
    - The sign is turned round: descent subtracts this, and would push the pairs apart.
          / 2 / len(s) → / -2 / len(s)
    - Only the rows reach du and only the columns reach dv. Both softmaxes are of the same scores, and the
      scores are made of both u and v: ds is one matrix.
          du = ds @ v → du = (rows - one_hot) / 2 / len(s) @ v
          dv = ds.T @ u → dv = ((columns - one_hot) / 2 / len(s)).T @ u
    - Only the rows reach du and only the columns reach dv. Both softmaxes are of the same scores, and the
      scores are made of both u and v: ds is one matrix.
          du = ds @ v → du = (rows - one_hot) / len(s) @ v
          dv = ds.T @ u → dv = ((columns - one_hot) / len(s)).T @ u
    - Only the rows reach du. Both softmaxes are of the same scores: the whole ds belongs to du as to dv.
          du = ds @ v → du = (rows - one_hot) / 2 / len(s) @ v
    - Only the columns reach du. Both softmaxes are of the same scores: the whole ds belongs to du as to dv.
          du = ds @ v → du = (columns - one_hot) / 2 / len(s) @ v
    - Only the rows reach dv. Both softmaxes are of the same scores: the whole ds belongs to dv as to du.
          dv = ds.T @ u → dv = ((rows - one_hot) / 2 / len(s)).T @ u
    - Only the columns reach dv. Both softmaxes are of the same scores: the whole ds belongs to dv as to du.
          dv = ds.T @ u → dv = ((columns - one_hot) / 2 / len(s)).T @ u
    - Divided by S². Each of the two losses is a mean over S pairs, not over S · S scores.
          / 2 / len(s) → / 2 / len(s) ** 2
    - The gradient went through the softmax once more: p - q is already the derivative by the scores.
          (rows - one_hot) → rows * (rows - one_hot - (rows * (rows - one_hot)).sum(axis=1, keepdims=True))
          (columns - one_hot) → columns * (columns - one_hot - (columns * (columns - one_hot)).sum(axis=0))
    """,
    hints="""
    - First ds, of shape (S, S). The loss is a mean of two cross-entropies of the same scores: their gradients
      add, with ½ each.
    - In row i the right column is i, and in column j the right row is j: both have the one-hot matrix I.
    - So ds = ((rows - I) + (columns - I))/(2 S). From s = u vᵀ/τ it goes on as through any product, with 1/τ.
    """,
)
