"""Exercises of chapter 08: softmax and attention. Each is its right answer, and what to say about it."""

import numpy as np
from sympy import exp

from ...course.judge.derivation import Derivation
from ...course.judge.draws import Draw, mask, normal, repeating
from ...course.judge.function import Exercise
from ...ops.attention import attention, attention_backward
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


def score_variance(K, sigma_q, sigma_k, mu_q, mu_k):
    return K * (sigma_q**2 * sigma_k**2 + sigma_q**2 * mu_k**2 + sigma_k**2 * mu_q**2)


def variance_by_squares(K, sigma_q, sigma_k, mu_q, mu_k):
    return K * ((sigma_q**2 + mu_q**2) * (sigma_k**2 + mu_k**2) - mu_q**2 * mu_k**2)


SCORE_VARIANCE = Derivation(
    score_variance,
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
    - The variances are added. That is the rule for a sum of two variables; q_i k_i is a product.
          sigma_q**2 * sigma_k**2 + sigma_q**2 * mu_k**2 + sigma_k**2 * mu_q**2 → sigma_q**2 + sigma_k**2
    - Each mean stands beside the wrong variance: a spread in q is magnified by the mean of k, and the other
      way round.
          sigma_q**2 * mu_k**2 + sigma_k**2 * mu_q**2 → sigma_q**2 * mu_q**2 + sigma_k**2 * mu_k**2
    - These are standard deviations. For a product of independent variables of mean 0, the variances
      multiply: σ_q² σ_k².
          sigma_q**2 * sigma_k**2 + sigma_q**2 * mu_k**2 + sigma_k**2 * mu_q**2 → sigma_q * sigma_k
    """,
    hints="""
    - First one product z = q_i k_i. Its variance is E[z²] - E[z]². For independent q_i and k_i the
      expectation of a product is the product of the expectations.
    - E[q_i²] = σ_q² + μ_q², and likewise for k. So E[z²] = (σ_q² + μ_q²)(σ_k² + μ_k²), and E[z]² = μ_q²
      μ_k².
    - The K products are independent of each other, so their variances add up.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def softmax_jacobian_entry(s_1, s_2, s_3):
    Z = exp(s_1) + exp(s_2) + exp(s_3)
    a_1 = exp(s_1) / Z
    a_2 = exp(s_2) / Z
    return -a_1 * a_2


def entry_from_the_general(s_1, s_2, s_3):
    Z = exp(s_1) + exp(s_2) + exp(s_3)
    a_1 = exp(s_1) / Z
    a_2 = exp(s_2) / Z
    delta = 0
    return a_1 * (delta - a_2)


def entry_by_the_quotient(s_1, s_2, s_3):
    Z = exp(s_1) + exp(s_2) + exp(s_3)
    dZ = exp(s_2)
    return -exp(s_1) * dZ / Z**2


SOFTMAX_JACOBIAN_ENTRY = Derivation(
    softmax_jacobian_entry,
    domains={"s_1": "real", "s_2": "real", "s_3": "real"},
    ways=(entry_from_the_general, entry_by_the_quotient),
    stories="""
    - The sign is wrong: raising s_2 takes weight away from a_1.
          -a_1 * a_2 → a_1 * a_2
    - This is the diagonal entry ∂a_1/∂s_1. Here the score of another place is moved.
          -a_1 * a_2 → a_1 * (1 - a_1)
    - The 1 belongs to the diagonal entry only: s_2 does not occur in the numerator of a_1.
          -a_1 * a_2 → a_1 * (1 - a_2)
    - The square is missing: the derivative of 1/Z is -1/Z² times that of Z.
          -a_1 * a_2 → -a_1 * a_2 * Z
    - The inner derivative is missing: the sum Z changes with s_2 by exp(s_2).
          -a_1 * a_2 → -a_1 / Z
    - This is ∂a_1/∂s_3.
          a_2 = exp(s_2) → a_2 = exp(s_3)
    - This is ∂a_2/∂s_3; both indices are wrong.
          -a_1 * a_2 → -a_2 * exp(s_3) / Z
    - The third score is missing from the sum: softmax divides by the exponentials of all three.
          + exp(s_2) + exp(s_3) → + exp(s_2)
    - This is -a_1. It must still be multiplied by a_2: a score with no weight behind it moves nothing.
          -a_1 * a_2 → -a_1
    - This is a_2 itself, the derivative of log Z.
          -a_1 * a_2 → a_2
    """,
    hints="""
    - a_1 = exp(s_1) / Z with Z = exp(s_1) + exp(s_2) + exp(s_3). Where does s_2 occur?
    - Only in Z. So the derivative is exp(s_1) times the derivative of 1/Z.
    - In terms of the weights it is -a_1 a_2. Now put the exponentials in.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def softmax_ds(da, a):
    return a * (da - (a * da).sum(axis=-1, keepdims=True))


SOFTMAX_DS = Exercise(
    softmax_ds,
    outputs="ds",
    inputs={"da": normal("B T S"), "a": A},
    shipped=lambda da, a: softmax_backward(da, {"a": a}),
    stories="""
    - The second term is missing: this treats every weight as if it had only its own score. The scores share
      one denominator; take ⟨a, da⟩ away from da before multiplying by a.
          - (a * da).sum(axis=-1, keepdims=True) →
    - Only the diagonal of the Jacobian is used, a_i (1 - a_i). Each score moves all the weights of its row.
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
    - One row first: ds_i = Σ_j da_j ∂a_j/∂s_i, with ∂a_j/∂s_i = a_j (δ - a_i).
    - The sum has two parts: a_i da_i, and -a_i Σ_j a_j da_j. Take a_i out of both.
    - For all rows at once, sum over the last axis with `keepdims=True`, so that each row keeps its own
      number.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def attention_da_dv(dy, a, v):
    return dy @ v.mT, a.mT @ dy


ATTENTION_DA_DV = Exercise(
    attention_da_dv,
    outputs="da dv",
    inputs={"dy": DY, "a": A, "v": V},
    stories="""
    - A is not transposed. Value s is used by every query t with the weight a_ts, so dv adds over the
      queries: dV = Aᵀ dY.
          a.mT @ dy → a @ dy
    - V is not transposed. The weight a_ts multiplies the value v_s, so its gradient is ⟨dy_t, v_s⟩: dA = dY
      Vᵀ.
          dy @ v.mT → dy @ v
    - It is transposed: the rows of dA are the queries, as in A. It is dY Vᵀ, not V dYᵀ.
          dy @ v.mT → v @ dy.mT
    - A mean over the queries. A value collects the gradients of all its uses: a sum, not a mean.
          a.mT @ dy → a.mT @ dy / dy.shape[-2]
    - Summed over the batch. Each sequence has its own values; only parameters are shared. Keep the first
      axis.
          a.mT @ dy → (a.mT @ dy).sum(axis=0)
    - Multiplied by A already. That factor belongs to the next step, the softmax.
          dy @ v.mT → a * (dy @ v.mT)
    - The weights are ignored: every value gets the plain sum of dy. Query t passes on the share a_ts only.
          a.mT @ dy → (0 * a + 1).mT @ dy
    """,
    hints="""
    - Y = A V is a product of two matrices. For any such product dA = dY Vᵀ and dV = Aᵀ dY; the shapes leave
      no other choice.
    - With a batch axis in front, transpose the last two axes only: `a.mT`, or `np.swapaxes(a, -1, -2)`.
      `a.T` turns all axes round.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def attention_dq_dk(ds, q, k):
    scale = 1 / np.sqrt(q.shape[-1])
    return scale * (ds @ k), scale * (ds.mT @ q)


ATTENTION_DQ_DK = Exercise(
    attention_dq_dk,
    outputs="dq dk",
    inputs={"ds": normal("B T S"), "q": Q, "k": K},
    stories="""
    - Off by exactly √K: the scale is missing. The scores are q · k / √K, so the factor 1/√K returns in both
      gradients.
          scale = 1 / np.sqrt(q.shape[-1]) → scale = 1
    - Divided by K: the scale 1/√K is applied twice, or the root was forgotten.
          np.sqrt(q.shape[-1]) → q.shape[-1]
    - Multiplied by √K where it should be divided: the backward pass uses the same factor 1/√K as the
      forward pass.
          1 / np.sqrt → np.sqrt
    - The scale uses the number of keys. K is the width of a query, its last axis, not how many keys there
      are.
          q.shape[-1] → k.shape[-2]
    - dS is not transposed. Key s is used by every query t, so dk adds over the queries: dK = dSᵀ Q / √K.
          ds.mT @ q → ds @ q
    - This is dk's formula, with a transpose. dQ = dS K / √K; dK = dSᵀ Q / √K has the transpose.
          ds @ k → ds.mT @ k
    - Queries and keys are exchanged: the score ⟨q_t, k_s⟩ sends k_s to q_t, and q_t to k_s.
          ds @ k → ds @ q
          ds.mT @ q → ds.mT @ k
    """,
    hints="""
    - S = Q Kᵀ / √K is a product of two matrices and a number. ds is the gradient of these scaled scores.
    - For a product U = Q Kᵀ: dQ = dU K and dK = dUᵀ Q. Here dU = dS / √K, and K in the root is the width
      `q.shape[-1]`.
    """,
)


# 6 ----------------------------------------------------------------------------------------------------------


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
    outputs="y a",
    inputs=ATTENTION,
    special=BLIND | LARGE,
    only={
        "a query that may attend to nothing": "By definition its weights and its output are exactly 0.",
        "scores of many thousands": "There exp overflows unless the largest score of each row is taken away "
        "first; and no finite number is low enough to hide a key.",
    },
    shipped=shipped_attention,
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


# 7 ----------------------------------------------------------------------------------------------------------


def attention_gradients(dy, q, k, v, mask):
    scale = 1 / np.sqrt(q.shape[-1])
    scores = scale * (q @ k.mT)
    s = np.where(mask, scores, -np.inf)
    top = s.max(axis=-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0.0))
    total = e.sum(axis=-1, keepdims=True)
    a = e / np.where(total == 0, 1.0, total)
    dv = a.mT @ dy
    da = dy @ v.mT
    ds = a * (da - (a * da).sum(axis=-1, keepdims=True))
    dq = scale * (ds @ k)
    dk = scale * (ds.mT @ q)
    return dq, dk, dv


ATTENTION_GRADIENTS = Exercise(
    attention_gradients,
    outputs="dq dk dv",
    inputs={"dy": DY} | ATTENTION,
    special=BLIND,
    only={"a query that may attend to nothing": "Its weights are 0 by definition, and so are its gradients."},
    shipped=lambda dy, q, k, v, mask: attention_backward(dy, attention(q, k, v, mask)[1]),
    stories="""
    - dq and dk are off by exactly √K: the scale is missing from dS. The scores were divided by √K on the
      way forward.
          scale * (ds → (ds
    - dq and dk are too small by exactly √K: the scale is applied twice, once to dS and once more to the
      products.
          scale * (ds → scale**2 * (ds
    - In the softmax step dS = A ∘ (dA - rowsum(A ∘ dA)) the row sum is missing.
          - (a * da).sum(axis=-1, keepdims=True) →
    - In the softmax step the row sum is not weighted: it is rowsum(A ∘ dA), not rowsum(dA).
          (a * da).sum → da.sum
    - The softmax step is left out: dA is used where dS should be.
          ds = a * (da - (a * da).sum(axis=-1, keepdims=True)) → ds = da
    - The weights are computed without the mask: gradients flow to keys and values that no query could see.
          np.where(mask, scores, -np.inf) → scores
    - The mask comes after the softmax. The hidden keys have already taken their share of the denominator,
      so the weights do not add up to 1. They must be those of the forward pass.
          np.where(mask, scores, -np.inf) → scores
          a = e / → a = mask * e /
    - In the softmax step an ordinary mean stands where the mean weighted by a should: take rowsum(A ∘ dA)
      away.
          (a * da).sum → da.mean
    - The scale of dq and dk uses the number of keys. K is the width of a query, its last axis.
          scale * (ds @ k) → ds @ k / np.sqrt(k.shape[-2])
          scale * (ds.mT @ q) → ds.mT @ q / np.sqrt(k.shape[-2])
    - The weights are recomputed from scores that are not divided by √K, so even dv is wrong. They must be
      those of the forward pass.
          scores = scale * (q @ k.mT) → scores = q @ k.mT
    - A large negative number stands for -∞. A query that may attend to nothing then attends to everything
      equally, and sends gradients where there should be none.
          -np.inf → -1e9
    - It uses dA where A should be. A value's gradient is the sum of dy weighted by the attention weights:
      dV = Aᵀ dY.
          dv = a.mT @ dy → dv = (dy @ v.mT).mT @ dy
    - dS is not transposed. A key collects from every query: dK = dSᵀ Q / √K.
          ds.mT @ q → ds @ q
    - Right except where a query may attend to nothing: its weights come out as NaN, and NaN spreads to
      every key and value. They are 0 by definition, and so are their gradients.
          np.where(np.isfinite(top), top, 0.0) → top
          np.where(total == 0, 1.0, total) → total
    - The three results are in the order dv, dq, dk. It should be that of the inputs: dq, dk, dv.
          return dq, dk, dv → return dv, dq, dk
    """,
    hints="""
    - You have all the parts. Recompute the weights with `masked_attention`, then go backward: through A V,
      through the softmax, through Q Kᵀ / √K.
    - The mask needs no step of its own: where a weight is 0, dS is 0, because every term carries the factor
      a.
    - Four lines: the weights from `masked_attention`, da and dv from `attention_da_dv`, ds from
      `softmax_ds`, dq and dk from `attention_dq_dk`.
    """,
)
