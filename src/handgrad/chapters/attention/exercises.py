"""Exercises of chapter 08: softmax and scaled dot-product attention.

A wrong answer is a function whose docstring is the diagnosis; in a derivation it is an expression beside
its diagnosis.
"""

import numpy as np
from sympy import exp, sqrt, symbols

from ...course.judge.derivation import Derivation
from ...course.judge.function import Case, Exercise
from ...ops.attention import attention, attention_backward
from ...ops.softmax import softmax, softmax_backward

# ---- the cases. B sequences, T queries, S keys of width K, values of width E; some keys are repeated


def queries_keys_values(rng, B, T, S, K, E):
    """q (B, T, K), k (B, S, K), v (B, S, E); from three keys on, the last key and value repeat the first."""
    q, k, v = rng.normal(size=(B, T, K)), rng.normal(size=(B, S, K)), rng.normal(size=(B, S, E))
    if S > 2:
        k[:, -1], v[:, -1] = k[:, 0], v[:, 0]
    return q, k, v


def weights(rng, B, T, S):
    """a (B, T, S), with some weights exactly 0, as behind a mask; at least two in each row are not."""
    allowed = rng.random((B, T, S)) < 0.8
    allowed[..., :2] = True
    return softmax(np.where(allowed, rng.normal(0, 1.5, (B, T, S)), -np.inf))[0]


SIZES = {
    "one query": {"B": 1, "T": 1, "S": 3, "K": 4, "E": 2},
    "more keys than queries": {"B": 2, "T": 3, "S": 5, "K": 6, "E": 4},
    "more queries than keys": {"B": 3, "T": 6, "S": 2, "K": 3, "E": 5},
    "as many keys as queries": {"B": 2, "T": 4, "S": 4, "K": 5, "E": 7},
    "all sizes equal but the batch": {"B": 2, "T": 3, "S": 3, "K": 3, "E": 3},
}
SIX = {"B": 2, "T": 4, "S": 6, "K": 2, "E": 3}


def cases(make, *letters):
    """A case for each entry of SIZES, with the sizes that `make` takes."""
    return tuple(Case(name, make, {n: sizes[n] for n in letters}) for name, sizes in SIZES.items())


# ---- score_variance

K, sigma_q, sigma_k, mu_q, mu_k = symbols("K sigma_q sigma_k mu_q mu_k")
TERM = sigma_q**2 * sigma_k**2 + sigma_q**2 * mu_k**2 + sigma_k**2 * mu_q**2  # the variance of one product

SCORE_VARIANCE = Derivation(
    "score_variance",
    K * TERM,
    {K: "count", sigma_q: "positive", sigma_k: "positive", mu_q: "real", mu_k: "real"},
    (
        (
            K * sigma_q**2 * sigma_k**2,
            "This holds only if both means are 0. With means, two more terms remain: σ_q² μ_k² and σ_k² "
            "μ_q².",
        ),
        (TERM, "K is missing: q · k is a sum of K independent products, and their variances add up."),
        (
            K**2 * TERM,
            "K² in place of K: the variance of a sum of K independent terms is K times that of one. K² "
            "would come from K copies of the same term.",
        ),
        (sqrt(K * TERM), "This is the standard deviation. The variance is its square."),
        (
            K * (TERM + mu_q**2 * mu_k**2),
            "This is K times the mean square of one product. The variance takes the square of its mean, "
            "μ_q² μ_k², away.",
        ),
        (
            K * TERM + K**2 * mu_q**2 * mu_k**2,
            "This is the mean square of q · k. The variance takes the square of the mean, (K μ_q μ_k)², "
            "away.",
        ),
        (
            TERM / K,
            "Divided by K. That would be the variance of the mean of the products; q · k is their sum.",
        ),
        (
            K * (sigma_q**2 + sigma_k**2),
            "The variances are added. That is the rule for a sum of two variables; q_i k_i is a product.",
        ),
        (
            K * (sigma_q**2 * sigma_k**2 + sigma_q**2 * mu_q**2 + sigma_k**2 * mu_k**2),
            "Each mean stands beside the wrong variance: a spread in q is magnified by the mean of k, and"
            " the other way round.",
        ),
        (
            K * sigma_q * sigma_k,
            "These are standard deviations. For a product of independent variables of mean 0, the "
            "variances multiply: σ_q² σ_k².",
        ),
    ),
    (
        "First one product z = q_i k_i. Its variance is E[z²] - E[z]². For independent q_i and k_i "
        "the expectation of a product is the product of the expectations.",
        "E[q_i²] = σ_q² + μ_q², and likewise for k. So E[z²] = (σ_q² + μ_q²)(σ_k² + μ_k²), and E[z]² "
        "= μ_q² μ_k².",
        "The K products are independent of each other, so their variances add up.",
    ),
)


# ---- softmax_jacobian_entry

s_1, s_2, s_3 = symbols("s_1 s_2 s_3")
E_1, E_2, E_3 = exp(s_1), exp(s_2), exp(s_3)
TOTAL = E_1 + E_2 + E_3

SOFTMAX_JACOBIAN_ENTRY = Derivation(
    "softmax_jacobian_entry",
    -E_1 * E_2 / TOTAL**2,
    {s_1: "real", s_2: "real", s_3: "real"},
    (
        (E_1 * E_2 / TOTAL**2, "The sign is wrong: raising s_2 takes weight away from a_1."),
        (
            E_1 / TOTAL * (1 - E_1 / TOTAL),
            "This is the diagonal entry ∂a_1/∂s_1. Here the score of another place is moved.",
        ),
        (
            E_1 / TOTAL * (1 - E_2 / TOTAL),
            "The 1 belongs to the diagonal entry only: s_2 does not occur in the numerator of a_1.",
        ),
        (-E_1 * E_2 / TOTAL, "The square is missing: the derivative of 1/Z is -1/Z² times that of Z."),
        (-E_1 / TOTAL**2, "The inner derivative is missing: the sum Z changes with s_2 by exp(s_2)."),
        (-E_1 * E_3 / TOTAL**2, "This is ∂a_1/∂s_3."),
        (-E_2 * E_3 / TOTAL**2, "This is ∂a_2/∂s_3; both indices are wrong."),
        (
            -E_1 * E_2 / (E_1 + E_2) ** 2,
            "The third score is missing from the sum: softmax divides by the exponentials of all three.",
        ),
        (
            -E_1 / TOTAL,
            "This is -a_1. It must still be multiplied by a_2: a score with no weight behind it moves "
            "nothing.",
        ),
        (E_2 / TOTAL, "This is a_2 itself, the derivative of log Z."),
    ),
    (
        "a_1 = exp(s_1) / Z with Z = exp(s_1) + exp(s_2) + exp(s_3). Where does s_2 occur?",
        "Only in Z. So the derivative is exp(s_1) times the derivative of 1/Z.",
        "In terms of the weights it is -a_1 a_2. Now put the exponentials in.",
    ),
)


# ---- softmax_ds


def softmax_ds(da, a):
    return softmax_backward(da, {"a": a})


def da_and_weights(rng, B, T, S):
    return rng.normal(size=(B, T, S)), weights(rng, B, T, S)


def no_inner_product(da, a):
    """The second term is missing: this treats every weight as if it had only its own score. The scores
    share one denominator; take ⟨a, da⟩ away from da before multiplying by a."""
    return a * da


def diagonal_only(da, a):
    """Only the diagonal of the Jacobian is used, a_i (1 - a_i). Each score moves all the weights of its
    row."""
    return a * (1 - a) * da


def plain_sum(da, a):
    """The sum is not weighted: it is Σ a_j da_j, not Σ da_j."""
    return a * (da - da.sum(-1, keepdims=True))


def plain_mean(da, a):
    """An ordinary mean stands where the mean weighted by a should: take Σ a_j da_j away."""
    return a * (da - da.mean(-1, keepdims=True))


def mean_of_product(da, a):
    """A mean in place of a sum: ⟨a, da⟩ is the sum of a_j da_j. The weights already add up to 1; do not
    divide by S again."""
    return a * (da - (a * da).mean(-1, keepdims=True))


def keepdims_forgotten(da, a):
    """`keepdims=True` is missing: the sums have shape (B, T), and are lined up with the wrong axes."""
    return a * (da - (a * da).sum(-1))


def softmax_over_queries(da, a):
    """The sum runs over the queries. Softmax works along each row: sum over the keys, the last axis."""
    return a * (da - (a * da).sum(-2, keepdims=True))


def sum_over_everything(da, a):
    """The sum runs over the whole array: an `axis=-1` is missing. Each row has its own ⟨a, da⟩."""
    return a * (da - (a * da).sum())


def inner_product_added(da, a):
    """The sign of the second term is wrong: ⟨a, da⟩ is taken away."""
    return a * (da + (a * da).sum(-1, keepdims=True))


def not_multiplied(da, a):
    """The factor a in front is missing: a weight near 0 hardly moves, whatever its score does."""
    return da - (a * da).sum(-1, keepdims=True)


SOFTMAX_DS = Exercise(
    "softmax_ds",
    softmax_ds,
    ("ds",),
    cases(da_and_weights, "B", "T", "S"),
    (
        no_inner_product,
        diagonal_only,
        plain_sum,
        plain_mean,
        mean_of_product,
        keepdims_forgotten,
        softmax_over_queries,
        inner_product_added,
        not_multiplied,
        sum_over_everything,
    ),
    (
        "One row first: ds_i = Σ_j da_j ∂a_j/∂s_i, with ∂a_j/∂s_i = a_j (δ - a_i).",
        "The sum has two parts: a_i da_i, and -a_i Σ_j a_j da_j. Take a_i out of both.",
        "For all rows at once, sum over the last axis with `keepdims=True`, so that each row keeps "
        "its own number.",
    ),
)


# ---- attention_da_dv


def attention_da_dv(dy, a, v):
    return dy @ v.mT, a.mT @ dy


def dy_and_weights(rng, B, T, S, E):
    return rng.normal(size=(B, T, E)), weights(rng, B, T, S), rng.normal(size=(B, S, E))


def dv_without_transpose(dy, a, v):
    """dv: A is not transposed. Value s is used by every query t with the weight a_ts, so dv adds over the
    queries: dV = Aᵀ dY."""
    return dy @ v.mT, a @ dy


def da_without_transpose(dy, a, v):
    """da: V is not transposed. The weight a_ts multiplies the value v_s, so its gradient is ⟨dy_t, v_s⟩:
    dA = dY Vᵀ."""
    return dy @ v, a.mT @ dy


def da_is_transposed(dy, a, v):
    """da is transposed: its rows are the queries, as in A. It is dY Vᵀ, not V dYᵀ."""
    return v @ dy.mT, a.mT @ dy


def swapped_da_dv(dy, a, v):
    """The two results are in the wrong order: da comes first, then dv."""
    return a.mT @ dy, dy @ v.mT


def dv_mean(dy, a, v):
    """dv is divided by the number of queries. A value collects the gradients of all its uses: a sum, not a
    mean."""
    return dy @ v.mT, a.mT @ dy / dy.shape[-2]


def dv_summed_over_batch(dy, a, v):
    """dv is summed over the batch. Each sequence has its own values; only parameters are shared. Keep the
    first axis."""
    return dy @ v.mT, np.einsum("bts,bte->se", a, dy)


def da_times_a(dy, a, v):
    """da is multiplied by A already. That factor belongs to the next step, the softmax."""
    return a * (dy @ v.mT), a.mT @ dy


def dv_unweighted(dy, a, v):
    """dv ignores the weights: every value gets the plain sum of dy. Query t passes on the share a_ts only."""
    return dy @ v.mT, np.ones_like(a).mT @ dy


ATTENTION_DA_DV = Exercise(
    "attention_da_dv",
    attention_da_dv,
    ("da", "dv"),
    cases(dy_and_weights, "B", "T", "S", "E"),
    (
        dv_without_transpose,
        da_without_transpose,
        da_is_transposed,
        swapped_da_dv,
        dv_mean,
        dv_summed_over_batch,
        da_times_a,
        dv_unweighted,
    ),
    (
        "Y = A V is a product of two matrices. For any such product dA = dY Vᵀ and dV = Aᵀ dY; the "
        "shapes leave no other choice.",
        "With a batch axis in front, transpose the last two axes only: `a.mT`, or `np.swapaxes(a, -1,"
        " -2)`. `a.T` turns all axes round.",
    ),
)


# ---- attention_dq_dk


def attention_dq_dk(ds, q, k):
    scale = 1 / np.sqrt(q.shape[-1])
    return scale * (ds @ k), scale * (ds.mT @ q)


def ds_queries_keys(rng, B, T, S, K):
    """ds, whose rows add up to 0 as after a softmax, q and k."""
    q, k, _ = queries_keys_values(rng, B, T, S, K, 1)
    return softmax_ds(rng.normal(size=(B, T, S)), weights(rng, B, T, S)), q, k


def no_scale(ds, q, k):
    """Both are off by exactly √K: the scale is missing. The scores are q · k / √K, so the factor 1/√K
    returns in both gradients."""
    return ds @ k, ds.mT @ q


def scale_only_in_dq(ds, q, k):
    """dk is off by exactly √K: the scale is missing from it. It belongs to both dq and dk."""
    return ds @ k / np.sqrt(q.shape[-1]), ds.mT @ q


def scale_only_in_dk(ds, q, k):
    """dq is off by exactly √K: the scale is missing from it. It belongs to both dq and dk."""
    return ds @ k, ds.mT @ q / np.sqrt(q.shape[-1])


def scale_twice(ds, q, k):
    """Divided by K: the scale 1/√K is applied twice, or the root was forgotten."""
    return ds @ k / q.shape[-1], ds.mT @ q / q.shape[-1]


def scale_upside_down(ds, q, k):
    """Multiplied by √K where it should be divided: the backward pass uses the same factor 1/√K as the
    forward pass."""
    return ds @ k * np.sqrt(q.shape[-1]), ds.mT @ q * np.sqrt(q.shape[-1])


def scale_by_keys(ds, q, k):
    """The scale uses the number of keys. K is the width of a query, its last axis, not how many keys there
    are."""
    scale = 1 / np.sqrt(k.shape[-2])
    return scale * (ds @ k), scale * (ds.mT @ q)


def dk_without_transpose(ds, q, k):
    """dk: dS is not transposed. Key s is used by every query t, so dk adds over the queries: dK = dSᵀ Q /
    √K."""
    scale = 1 / np.sqrt(q.shape[-1])
    return scale * (ds @ k), scale * (ds @ q)


def dq_like_dk(ds, q, k):
    """dq is built by dk's formula: it holds a transpose. dQ = dS K / √K; dK = dSᵀ Q / √K has the
    transpose."""
    scale = 1 / np.sqrt(q.shape[-1])
    return scale * (ds.mT @ k), scale * (ds.mT @ q)


def operands_exchanged(ds, q, k):
    """Queries and keys are exchanged: the score ⟨q_t, k_s⟩ sends k_s to q_t, and q_t to k_s."""
    scale = 1 / np.sqrt(q.shape[-1])
    return scale * (ds @ q), scale * (ds.mT @ k)


def swapped_dq_dk(ds, q, k):
    """The two results are in the wrong order: dq comes first, then dk."""
    return attention_dq_dk(ds, q, k)[::-1]


ATTENTION_DQ_DK = Exercise(
    "attention_dq_dk",
    attention_dq_dk,
    ("dq", "dk"),
    cases(ds_queries_keys, "B", "T", "S", "K"),
    (
        no_scale,
        scale_only_in_dq,
        scale_only_in_dk,
        scale_twice,
        scale_upside_down,
        scale_by_keys,
        dk_without_transpose,
        dq_like_dk,
        operands_exchanged,
        swapped_dq_dk,
    ),
    (
        "S = Q Kᵀ / √K is a product of two matrices and a number. ds is the gradient of these scaled scores.",
        "For a product U = Q Kᵀ: dQ = dU K and dK = dUᵀ Q. Here dU = dS / √K, and K in the root is "
        "the width `q.shape[-1]`.",
    ),
)


# ---- masked_attention


def masked_attention(q, k, v, mask):
    y, cache = attention(q, k, v, mask)
    return y, cache["a"]


def with_mask(rng, B, T, S, K, E):
    """q, k, v and a mask (B, T, S) that leaves every query two keys, and hides from the first all but two."""
    mask = rng.random((B, T, S)) < 0.6
    mask[..., :2] = True
    mask[0, 0, 2:] = False
    return *queries_keys_values(rng, B, T, S, K, E), mask


def fully_masked(rng, B, T, S, K, E):
    q, k, v, mask = with_mask(rng, B, T, S, K, E)
    mask[0, 1] = False
    return q, k, v, mask


def large_scores(rng, B, T, S, K, E):
    """Scores of some thousands; exp of them is no number any more."""
    q, k, v, mask = with_mask(rng, B, T, S, K, E)
    return 100 * q, 30 * k, v, mask


FORWARD_CASES = (
    *cases(with_mask, "B", "T", "S", "K", "E"),
    Case("a query that may attend to nothing", fully_masked, SIX),
    Case("scores of some thousands", large_scores, SIX | {"T": 5}),
)


def scores(q, k):
    return q @ k.mT / np.sqrt(q.shape[-1])


def shown(s):
    """Softmax over the last axis, as it is usually first written: NaN for a row of -inf."""
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def mask_ignored(q, k, v, mask):
    """The mask is not used."""
    a = shown(scores(q, k))
    return a @ v, a


def mask_inverted(q, k, v, mask):
    """The mask is used the wrong way round: True means that the query may attend."""
    a = softmax(np.where(mask, -np.inf, scores(q, k)))[0]
    return a @ v, a


def mask_after_softmax(q, k, v, mask):
    """The mask comes after the softmax. The hidden keys have already taken their share of the denominator,
    so the weights do not add up to 1, and what is hidden still leaks. Mask the scores."""
    a = shown(scores(q, k)) * mask
    return a @ v, a


def renormalised_after(q, k, v, mask):
    """Masked after the softmax, and divided by what is left. That is right on paper, but if a hidden key
    has by far the largest score, everything visible is rounded to 0 and is lost. Mask the scores,
    before exp."""
    a = shown(scores(q, k)) * mask
    total = a.sum(axis=-1, keepdims=True)
    a = a / np.where(total == 0, 1, total)
    return a @ v, a


def masked_by_zero(q, k, v, mask):
    """Hidden scores are set to 0. A score of 0 is an ordinary score: exp(0) = 1. Set them to -∞."""
    a = shown(np.where(mask, scores(q, k), 0.0))
    return a @ v, a


def nan_where_nothing_is_seen(q, k, v, mask):
    """Right except for the query that may attend to nothing: there it gives NaN, from -∞ - (-∞) or 0/0. By
    definition its weights and its output are 0."""
    with np.errstate(invalid="ignore"):
        a = shown(np.where(mask, scores(q, k), -np.inf))
    return a @ v, a


def large_negative_number(q, k, v, mask):
    """A large negative number stands for -∞. A query that may attend to nothing then attends to everything
    equally: only the differences count, and they are 0. Its weights should be 0."""
    a = shown(np.where(mask, scores(q, k), -1e9))
    return a @ v, a


def maximum_not_subtracted(q, k, v, mask):
    """Right for small scores; for large ones exp overflows. Subtract the largest score of each row first,
    which changes nothing else."""
    e = np.where(mask, np.exp(scores(q, k)), 0.0)
    total = e.sum(axis=-1, keepdims=True)
    a = e / np.where(total == 0, 1, total)
    return a @ v, a


def not_scaled(q, k, v, mask):
    """The scores are not divided by √K."""
    y, a = masked_attention(q * np.sqrt(q.shape[-1]), k, v, mask)
    return y, a


def scaled_by_width(q, k, v, mask):
    """The scores are divided by K; the root is missing."""
    return masked_attention(q / np.sqrt(q.shape[-1]), k, v, mask)


def softmax_along_queries(q, k, v, mask):
    """The softmax runs along the queries. The weights of one query, over the keys, must add up to 1: the
    last axis."""
    a = softmax(np.where(mask, scores(q, k), -np.inf).mT)[0].mT
    return a @ v, a


MASKED_ATTENTION = Exercise(
    "masked_attention",
    masked_attention,
    ("y", "a"),
    FORWARD_CASES,
    (
        mask_ignored,
        mask_inverted,
        mask_after_softmax,
        renormalised_after,
        masked_by_zero,
        nan_where_nothing_is_seen,
        large_negative_number,
        maximum_not_subtracted,
        not_scaled,
        scaled_by_width,
        softmax_along_queries,
    ),
    (
        "Four steps: scaled scores, -∞ where the mask is false, softmax over the last axis, weighted "
        "mean of the values.",
        "For softmax, subtract the largest score of each row before exp. In a row of -∞ the largest "
        "is -∞ itself: replace it by 0 there.",
        "In that row all exponentials are 0 and so is their sum. Divide by `np.where(total == 0, 1, total)`.",
    ),
)


# ---- attention_gradients


def attention_gradients(dy, q, k, v, mask):
    return attention_backward(dy, attention(q, k, v, mask)[1])


def with_upstream(make):
    def inputs(rng, B, T, S, K, E):
        q, k, v, mask = make(rng, B, T, S, K, E)
        return rng.normal(size=(B, T, E)), q, k, v, mask

    return inputs


def steps(dy, q, k, v, mask):
    """The weights, and the gradient of the scaled and masked scores."""
    a = masked_attention(q, k, v, mask)[1]
    return a, softmax_ds(dy @ v.mT, a)


def backward_no_scale(dy, q, k, v, mask):
    """dq and dk are off by exactly √K: the scale is missing from dS. The scores were divided by √K on the
    way forward."""
    a, ds = steps(dy, q, k, v, mask)
    return ds @ k, ds.mT @ q, a.mT @ dy


def backward_scale_twice(dy, q, k, v, mask):
    """dq and dk are too small by exactly √K: the scale is applied twice, once to dS and once more to the
    products."""
    a, ds = steps(dy, q, k, v, mask)
    return ds @ k / q.shape[-1], ds.mT @ q / q.shape[-1], a.mT @ dy


def backward_no_inner_product(dy, q, k, v, mask):
    """In the softmax step dS = A ∘ (dA - rowsum(A ∘ dA)) the row sum is missing. dv is right."""
    a, _ = steps(dy, q, k, v, mask)
    return *attention_dq_dk(a * (dy @ v.mT), q, k), a.mT @ dy


def backward_sum_unweighted(dy, q, k, v, mask):
    """In the softmax step the row sum is not weighted: it is rowsum(A ∘ dA), not rowsum(dA). dv is right."""
    a, _ = steps(dy, q, k, v, mask)
    return *attention_dq_dk(plain_sum(dy @ v.mT, a), q, k), a.mT @ dy


def backward_skips_softmax(dy, q, k, v, mask):
    """The softmax step is left out: dA is used where dS should be. dv is right."""
    a, _ = steps(dy, q, k, v, mask)
    return *attention_dq_dk(dy @ v.mT, q, k), a.mT @ dy


def backward_without_mask(dy, q, k, v, mask):
    """The weights are computed without the mask: gradients flow to keys and values that no query could
    see."""
    return attention_gradients(dy, q, k, v, np.ones_like(mask))


def backward_unscaled_weights(dy, q, k, v, mask):
    """The weights are recomputed from scores that are not divided by √K, so even dv is wrong. They must be
    those of the forward pass."""
    a = not_scaled(q, k, v, mask)[1]
    return *attention_dq_dk(softmax_ds(dy @ v.mT, a), q, k), a.mT @ dy


def backward_dv_from_da(dy, q, k, v, mask):
    """dv: it uses dA where A should be. A value's gradient is the sum of dy weighted by the attention
    weights: dV = Aᵀ dY."""
    _, ds = steps(dy, q, k, v, mask)
    return *attention_dq_dk(ds, q, k), (dy @ v.mT).mT @ dy


def backward_dk_without_transpose(dy, q, k, v, mask):
    """dk: dS is not transposed. A key collects from every query: dK = dSᵀ Q / √K."""
    a, ds = steps(dy, q, k, v, mask)
    return *dk_without_transpose(ds, q, k), a.mT @ dy


def backward_nan(dy, q, k, v, mask):
    """Right except where a query may attend to nothing: its weights come out as NaN, and NaN spreads to
    every key and value. They are 0 by definition, and so are their gradients."""
    with np.errstate(invalid="ignore"):
        a = nan_where_nothing_is_seen(q, k, v, mask)[1]
    return *attention_dq_dk(softmax_ds(dy @ v.mT, a), q, k), a.mT @ dy


def backward_order(dy, q, k, v, mask):
    """The three results are in the order dv, dq, dk. It should be that of the inputs: dq, dk, dv."""
    dq, dk, dv = attention_gradients(dy, q, k, v, mask)
    return dv, dq, dk


ATTENTION_GRADIENTS = Exercise(
    "attention_gradients",
    attention_gradients,
    ("dq", "dk", "dv"),
    tuple(Case(c.name, with_upstream(c.make), c.sizes) for c in FORWARD_CASES[:-1]),
    (
        backward_no_scale,
        backward_scale_twice,
        backward_no_inner_product,
        backward_sum_unweighted,
        backward_skips_softmax,
        backward_without_mask,
        backward_unscaled_weights,
        backward_dv_from_da,
        backward_dk_without_transpose,
        backward_nan,
        backward_order,
    ),
    (
        "You have all the parts. Recompute the weights with `masked_attention`, then go backward: "
        "through A V, through the softmax, through Q Kᵀ / √K.",
        "The mask needs no step of its own: where a weight is 0, dS is 0, because every term carries "
        "the factor a.",
        "Four lines: `y, a = masked_attention(...)`, `da, dv = attention_da_dv(...)`, `ds = "
        "softmax_ds(...)`, `dq, dk = attention_dq_dk(...)`.",
    ),
)


EXERCISES = (
    SCORE_VARIANCE,
    SOFTMAX_JACOBIAN_ENTRY,
    SOFTMAX_DS,
    ATTENTION_DA_DV,
    ATTENTION_DQ_DK,
    MASKED_ATTENTION,
    ATTENTION_GRADIENTS,
)
