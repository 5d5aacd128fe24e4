"""Exercises of chapter 08, most of them layers that it does not show: answers, stories and hints."""

import numpy as np

from ...course.judge.derivation import Derivation
from ...course.judge.draws import Draw, mask, normal, number, repeating
from ...course.judge.function import Exercise
from ...ops.attention import attention
from ...ops.softmax import softmax, softmax_backward

DY, Q = normal("B T E"), normal("B T K")
K, V = (repeating(letters).then(lambda x: (x - 0.5) / 2) for letters in ("B S K", "B S E"))


def softmax_rows(rng, shape):
    """Weights, some of them exactly 0, as behind a mask; at least two of each row are not."""
    allowed = rng.random(shape) < 0.8
    allowed[..., :2] = True
    return softmax(np.where(allowed, rng.normal(0, 1.5, shape), -np.inf))[0]


A = Draw("B T S", softmax_rows)


# 1 ----------------------------------------------------------------------------------------------------------


def softmax_ds(da, a):
    return a * (da - (a * da).sum(axis=-1, keepdims=True))


SOFTMAX_DS = Exercise(
    softmax_ds,
    asks="The product of softmax's Jacobian and a gradient, row by row, without the matrix.",
    outputs="ds",
    inputs={"da": normal("B T S"), "a": A},
    shipped=lambda da, a: softmax_backward(da, {"a": a}),
    reserved=(softmax_backward,),
    stories="""
    - The second term is missing: this treats every weight as if it had only its own score. The scores share
      one denominator; take ⟨a, da⟩ away from da before multiplying by a.
          - (a * da).sum(axis=-1, keepdims=True) →
    - Only the diagonal of the Jacobian is used, a_j (1 - a_j). Each score moves all the weights of its row.
          - (a * da).sum(axis=-1, keepdims=True) → - a * da
    - The sum is not weighted: it is Σ a_j da_j, not Σ da_j.
          (a * da).sum → da.sum
    - An ordinary mean stands where the mean weighted by a should: take Σ a_j da_j away.
          (a * da).sum → da.mean
    - A mean in place of a sum: ⟨a, da⟩ is the sum of a_j da_j. The weights already add up to 1; do not
      divide by S again.
          (a * da).sum → (a * da).mean
    - The sum runs over the queries. Softmax works along each row: sum over the keys, the last axis.
          axis=-1 → axis=-2
    - The factor a in front is missing: a weight near 0 hardly moves, whatever its score does.
          return a * ( → return (
    """,
    hints="""
    - One row first: ds_j = Σ_r da_r ∂a_r/∂s_j, with ∂a_r/∂s_j = a_r (δ - a_j).
    - The sum has two parts: a_j da_j, and -a_j Σ_r a_r da_r. Take a_j out of both.
    - For all rows at once, sum over the last axis with `keepdims=True`, so that each row keeps its own
      number.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def score_variance(K, sigma_q, sigma_k, mu_q, mu_k):
    return K * (sigma_q**2 * sigma_k**2 + sigma_q**2 * mu_k**2 + sigma_k**2 * mu_q**2)


def variance_by_squares(K, sigma_q, sigma_k, mu_q, mu_k):
    return K * ((sigma_q**2 + mu_q**2) * (sigma_k**2 + mu_k**2) - mu_q**2 * mu_k**2)


SCORE_VARIANCE = Derivation(
    score_variance,
    asks="The variance of a sum of products when the usual zero means are not assumed.",
    domains={"K": "count", "sigma_q": "positive", "sigma_k": "positive", "mu_q": "real", "mu_k": "real"},
    ways=(variance_by_squares,),
    stories="""
    - This holds only if both means are 0. With means, two more terms remain: σ_q² μ_k² and σ_k² μ_q².
          + sigma_q**2 * mu_k**2 + sigma_k**2 * mu_q**2 →
    - K is missing: q · k is a sum of K independent products, and their variances add up.
          K * ( → 1 * (
    - K² in place of K: the variance of a sum of K independent terms is K times that of one. K² would come
      from K copies of the same term.
          K * ( → K**2 * (
    - This is the standard deviation. The variance is its square.
          K * ( → (K * (
          mu_q**2) → mu_q**2)) ** 0.5
    - This is K times the mean square of one product. The variance takes the square of its mean, μ_q² μ_k²,
      away.
          sigma_k**2 * mu_q**2) → sigma_k**2 * mu_q**2 + mu_q**2 * mu_k**2)
    - This is the mean square of q · k. The variance takes the square of the mean, (K μ_q μ_k)², away.
          sigma_k**2 * mu_q**2) → sigma_k**2 * mu_q**2) + K**2 * mu_q**2 * mu_k**2
    - Divided by K. That would be the variance of the mean of the products; q · k is their sum.
          K * ( → 1 / K * (
    - The variances are added. That is the rule for a sum of two variables; q_c k_c is a product.
          sigma_q**2 * sigma_k**2 + sigma_q**2 * mu_k**2 + sigma_k**2 * mu_q**2 → sigma_q**2 + sigma_k**2
    - Each mean stands beside the wrong variance: a spread in q is magnified by the mean of k, and the other
      way round.
          sigma_q**2 * mu_k**2 + sigma_k**2 * mu_q**2 → sigma_q**2 * mu_q**2 + sigma_k**2 * mu_k**2
    - σ is taken for a variance. It is a standard deviation, and its square is the variance.
          sigma_q**2 → sigma_q
          sigma_k**2 → sigma_k
    - These are standard deviations. For a product of independent variables of mean 0, the variances
      multiply: σ_q² σ_k².
          sigma_q**2 * sigma_k**2 + sigma_q**2 * mu_k**2 + sigma_k**2 * mu_q**2 → sigma_q * sigma_k
    """,
    hints="""
    - First one product z = q_c k_c. Its variance is E[z²] - E[z]². For independent q_c and k_c the
      expectation of a product is the product of the expectations.
    - E[q_c²] = σ_q² + μ_q², and likewise for k. So E[z²] = (σ_q² + μ_q²)(σ_k² + μ_k²), and E[z]² = μ_q²
      μ_k².
    - The K products are independent of each other, so their variances add up.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def masked_attention(q, k, v, mask):
    scale = 1 / np.sqrt(q.shape[-1])
    scores = scale * (q @ k.mT)
    s = np.where(mask, scores, -np.inf)
    top = s.max(axis=-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0.0))
    total = e.sum(axis=-1, keepdims=True)
    a = e / np.where(total == 0, 1.0, total)
    return a @ v, a


def shipped_attention(q, k, v, mask):
    y, cache = attention(q, k, v, mask)
    return y, cache["a"]


def with_a_blind_query(allowed):
    allowed[0, 1] = False
    return allowed


MASK = mask("B T S")
ATTENTION = {"q": Q, "k": K, "v": V, "mask": MASK}
BLIND = {"a query that may attend to nothing": {"mask": MASK.then(with_a_blind_query)}}
LARGE = {"scores of many thousands": {"q": Q.then(lambda q: 300 * q), "k": K.then(lambda k: 300 * k)}}
MASKED_ATTENTION = Exercise(
    masked_attention,
    asks="A masked softmax that stays finite: rows where nothing is allowed, and very large scores.",
    outputs="y a",
    inputs=ATTENTION,
    special=BLIND | LARGE,
    only={
        "a query that may attend to nothing": "By definition its weights and its output are exactly 0.",
        "scores of many thousands": "There exp overflows unless the largest score of each row is taken away "
        "first; and no finite number is low enough to hide a key.",
    },
    shipped=shipped_attention,
    reserved=(attention,),
    stories="""
    - The mask is not used.
          np.where(mask, scores, -np.inf) → scores
    - The mask is used the wrong way round: True means that the query may attend.
          np.where(mask, scores, -np.inf) → np.where(mask, -np.inf, scores)
    - The mask comes after the softmax. The hidden keys have already taken their share of the denominator,
      so the weights do not add up to 1, and what is hidden still leaks. Mask the scores.
          np.where(mask, scores, -np.inf) → scores
          a = e / → a = mask * e /
    - Masked after the softmax, and divided by what is left. That is right on paper, but if a hidden key has
      by far the largest score, everything visible is rounded to 0 and is lost. Mask the scores, before exp.
          np.where(mask, scores, -np.inf) → scores
          total = e → e = mask * e / e.sum(axis=-1, keepdims=True); total = e
    - Hidden scores are set to 0. A score of 0 is an ordinary score: exp(0) = 1. Set them to -∞.
          -np.inf → 0.0
    - Right except for the query that may attend to nothing: there it gives NaN, from -∞ - (-∞) or 0/0. By
      definition its weights and its output are 0.
          np.where(np.isfinite(top), top, 0.0) → top
          np.where(total == 0, 1.0, total) → total
    - A large negative number stands for -∞. A query that may attend to nothing then attends to everything
      equally: only the differences count, and they are 0. Its weights should be 0.
          -np.inf → -1e9
    - Right for small scores; for large ones exp overflows. Subtract the largest score of each row first,
      which changes nothing else.
          s - np.where(np.isfinite(top), top, 0.0) → s
    - The scores are not divided by √K.
          scale = 1 / np.sqrt(q.shape[-1]) → scale = 1
    - The scores are divided by K; the root is missing.
          np.sqrt(q.shape[-1]) → q.shape[-1]
    - The softmax runs along the queries. The weights of one query, over the keys, must add up to 1: the
      last axis.
          axis=-1 → axis=-2
    """,
    hints="""
    - Four steps: scaled scores, -∞ where the mask is false, softmax over the last axis, weighted mean of
      the values.
    - For softmax, subtract the largest score of each row before exp. In a row of -∞ the largest is -∞
      itself: replace it by 0 there.
    - In that row all exponentials are 0 and so is their sum. Divide by `np.where(total == 0, 1, total)`.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def temperature_gradients(ds, q, k, theta):
    tau = np.exp(theta)[:, np.newaxis, np.newaxis]
    dq = tau * (ds @ k)
    dk = tau * (ds.mT @ q)
    dtheta = (ds * tau * (q @ k.mT)).sum(axis=(0, 2, 3))
    return dq, dk, dtheta


TEMPERATURE_GRADIENTS = Exercise(
    temperature_gradients,
    asks="The gradient of a learned scale that some axes share and others do not.",
    outputs="dq dk dtheta",
    inputs={
        "ds": normal("B H T S"),
        "q": normal("B H T K"),
        "k": repeating("B H S K", axis=2),
        "theta": Draw("H", lambda rng, shape: rng.normal(0.3, 0.6, shape)),
    },
    stories="""
    - The inner derivative is missing from dtheta: this is the gradient of τ. Since τ = exp(θ), dθ = τ dτ.
          ds * tau * (q → ds * (q
    - dtheta is one number for all heads. Each head has its own θ, so the sum leaves the axis of the heads.
          axis=(0, 2, 3) → axis=(0, 1, 2, 3)
    - dtheta is a mean. θ is used by every pair of query and key in every sequence, and gradients add.
          .sum(axis=(0, 2, 3)) → .mean(axis=(0, 2, 3))
    - dtheta is not summed over the batch. θ is a parameter: all sequences share it.
          axis=(0, 2, 3) → axis=(2, 3)
    - dtheta is not summed over the keys.
          axis=(0, 2, 3) → axis=(0, 2)
    - θ stands where exp(θ) should: the scores are exp(θ) q · k.
          np.exp(theta)[ → theta[
    - The temperature is missing from dq and dk: they pass through the same product as the scores.
          dq = tau * (ds → dq = (ds
          dk = tau * (ds → dk = (ds
    - 1/√K is still there. In this layer the learned factor stands in its place.
          dq = tau * (ds @ k) → dq = tau * (ds @ k) / np.sqrt(q.shape[-1])
          dk = tau * (ds.mT @ q) → dk = tau * (ds.mT @ q) / np.sqrt(q.shape[-1])
    - dS is not transposed. A key collects from every query.
          ds.mT @ q → ds @ q
    """,
    hints="""
    - Where is θ used? In every score of its head: s = exp(θ) u with u = q · k. Find each place, multiply what
      arrives by the local derivative, and add.
    - The local derivative ∂s/∂θ is exp(θ) u, the score itself.
    - So dθ is the sum of ds times s over the batch, the queries and the keys; dq and dk are as ever, with
      exp(θ) for the scale.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def capped_gradients(ds, q, k, cap):
    scale = 1 / np.sqrt(q.shape[-1])
    u = scale * (q @ k.mT)
    du = ds * (1 - np.tanh(u / cap) ** 2)
    dq = scale * (du @ k)
    dk = scale * (du.mT @ q)
    return dq, dk


CAPPED_GRADIENTS = Exercise(
    capped_gradients,
    asks="One more link in the chain between products and scores, taken at the right place.",
    outputs="dq dk",
    inputs={"ds": normal("B T S"), "q": Q, "k": K, "cap": number(1.5)},
    stories="""
    - The cap is not in the backward: this is the gradient of plain scores. Between u and s stands a tanh, and
      its derivative is at most 1.
          du = ds * (1 - np.tanh(u / cap) ** 2) → du = ds
    - The derivative of the outer factor and of the inner one: c · (1/c) = 1. Here c stands once too often.
          du = ds * (1 → du = cap * ds * (1
    - 1/c is left over: c · tanh(u/c) has the derivative c · (1/c) · (1 - tanh²). The factors cancel.
          du = ds * (1 → du = ds / cap * (1
    - The tanh is not squared: its derivative is 1 - tanh².
          np.tanh(u / cap) ** 2 → np.tanh(u / cap)
    - The derivative is taken at u, not at u/c.
          np.tanh(u / cap) → np.tanh(u)
    - The derivative is taken at the capped score. It belongs at u, from before the tanh.
          np.tanh(u / cap) → np.tanh(np.tanh(u / cap))
    - This is the square of 1 - tanh. Only the tanh is squared: its derivative is 1 - tanh².
          (1 - np.tanh(u / cap) ** 2) → (1 - np.tanh(u / cap)) ** 2
    - tanh stands where its derivative should.
          (1 - np.tanh(u / cap) ** 2) → np.tanh(u / cap)
    - Not divided by c: with the score s = c tanh(u/c), the square of tanh is s²/c².
          np.tanh(u / cap) ** 2 → (cap * np.tanh(u / cap)) ** 2
    - Divided by c once more: with u/c inside the tanh, its square is tanh²(u/c) and nothing else.
          np.tanh(u / cap) ** 2 → (np.tanh(u / cap) / cap) ** 2
    - That is the derivative of a clip, 1 inside and 0 outside. The tanh bends everywhere.
          (1 - np.tanh(u / cap) ** 2) → (np.abs(u) < cap)
    - The scale 1/√K is missing from dq and dk. It stands in u, before the tanh, and acts both in the forward
      and in the backward.
          dq = scale * (du → dq = (du
          dk = scale * (du → dk = (du
    - The scale 1/√K is missing from u, so the tanh is taken at the wrong place.
          u = scale * (q → u = (q
    - dU is not transposed. A key collects from every query.
          du.mT @ q → du @ q
    """,
    hints="""
    - There is one more step between S and the product: s = c tanh(u/c). What is ds/du?
    - tanh' = 1 - tanh². The inner derivative 1/c and the outer factor c cancel.
    - du = ds times 1 - tanh²(u/c), entry by entry. From du to dq and dk it goes as ever, with 1/√K.
    """,
)


# 6 ----------------------------------------------------------------------------------------------------------


def sink_gradients(dy, q, k, v, sink):
    scale = 1 / np.sqrt(q.shape[-1])
    e = np.exp(scale * (q @ k.mT))
    a = e / (np.exp(sink) + e.sum(axis=-1, keepdims=True))
    dv = a.mT @ dy
    da = dy @ v.mT
    mean = (a * da).sum(axis=-1, keepdims=True)
    ds = a * (da - mean)
    rest = 1 - a.sum(axis=-1, keepdims=True)
    dsink = -(rest * mean).sum()
    dq = scale * (ds @ k)
    dk = scale * (ds.mT @ q)
    return dq, dk, dv, dsink


def sink_as_a_key(dy, q, k, v, sink):
    scale = 1 / np.sqrt(q.shape[-1])
    e = np.exp(scale * (q @ k.mT))
    a = e / (np.exp(sink) + e.sum(axis=-1, keepdims=True))
    y = a @ v
    dv = a.mT @ dy
    mean = (dy * y).sum(axis=-1, keepdims=True)
    ds = a * (dy @ v.mT - mean)
    dsink = -ds.sum()
    dq = scale * (ds @ k)
    dk = scale * (ds.mT @ q)
    return dq, dk, dv, dsink


SINK_GRADIENTS = Exercise(
    sink_gradients,
    asks="Weights that add up to less than 1: the gradient of the extra score, and what it changes.",
    outputs="dq dk dv dsink",
    inputs={"dy": DY, "q": Q, "k": K, "v": V, "sink": number(0.7)},
    ways=(sink_as_a_key,),
    stories="""
    - dsink has the wrong sign. A larger sink takes weight away from every key: ∂a_j/∂b = -a_j a_sink.
          dsink = -(rest → dsink = (rest
    - dsink is not weighted by the sink's own weight, 1 - Σ a_j: a sink that holds no weight takes none away.
          -(rest * mean).sum() → -mean.sum()
    - dsink is a mean. All queries of all sequences share the sink, and gradients add.
          (rest * mean).sum() → (rest * mean).mean()
    - This is the gradient of exp(b), not of b: the inner derivative exp(b) is missing.
          -(rest * mean).sum() → -(rest * mean).sum() / np.exp(sink)
    - dsink is not divided by the denominator of the softmax: the weight of the sink is exp(b) divided by it.
          -(rest * mean).sum() → -(np.exp(sink) * mean).sum()
    - exp(b) stands in dsink twice: the weight of the sink, 1 - Σ a_j, has it inside.
          -(rest * mean).sum() → -(rest * mean).sum() * np.exp(sink)
    - An ordinary mean of da stands where the mean weighted by a should.
          mean = (a * da).sum( → mean = da.mean(
    - The sink itself stands in the denominator. It is a score, so exp(b) does.
          np.exp(sink) + e.sum → sink + e.sum
    - A 1 stands in the denominator: that is the sink b = 0 only.
          np.exp(sink) + e.sum → 1 + e.sum
    - The average is divided by the sum of the weights, as if they added up to 1. The sink has a value too,
      and it is 0: Σ a_j da_j is the average with the sink in it.
          mean = (a * da) → mean = (a / a.sum(axis=-1, keepdims=True) * da)
    - In the softmax step the average is not subtracted.
          ds = a * (da - mean) → ds = a * da
    - Each query has its own dsink. The sink is one number, which all of them share: sum over them.
          dsink = -(rest * mean).sum() → dsink = -(rest * mean)[..., 0]
    - The scale is missing from dq and dk.
          dq = scale * (ds → dq = (ds
          dk = scale * (ds → dk = (ds
    - dS is not transposed. A key collects from every query.
          ds.mT @ q → ds @ q
    """,
    hints="""
    - Think of the sink as one more key, with the score b and a value of 0. Its weight is what is missing from
      a row of weights: 1 - Σ a_j.
    - Then nothing is new: ds = a ∘ (da - average) holds for all S + 1 scores of a row, and the sink's da is
      0, because its value is 0.
    - So the average is Σ a_j da_j over the true keys, and dsink = (1 - Σ a_j)(0 - average), summed over all
      queries and sequences.
    """,
)
