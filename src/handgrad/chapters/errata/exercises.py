"""Exercises of chapter 20, claims and how to test them: answers, stories and hints."""

import numpy as np

from ...course.judge.derivation import Derivation
from ...course.judge.draws import SPECIAL, Draw, normal, repeating, scales
from ...course.judge.function import Exercise

# 1 ----------------------------------------------------------------------------------------------------------


def two_refutations(q, k, dy, dq, dk, dv):
    asks = q.T @ dq
    reads = k.T @ dk
    turn = asks - reads.mT
    shift = dv.sum(axis=1) - dy.sum(axis=0)
    turned = np.abs(turn).max(axis=(1, 2))
    shifted = np.abs(shift).max(axis=1)
    return turned, shifted


def claims_of_one_head():
    """{argument: its array}: two claims on one head, the first of which is right, the second without 1/√K."""
    rng, size = np.random.default_rng(20), SPECIAL
    T, S, K, E = (size[letter] for letter in "TSKE")
    q, k, v, dy = (rng.normal(size=shape) for shape in ((T, K), (S, K), (S, E), (T, E)))
    a = np.exp(q @ k.T / np.sqrt(K))
    a = a / a.sum(axis=1, keepdims=True)
    da = dy @ v.T
    ds = a * (da - (a * da).sum(axis=1, keepdims=True)) / np.sqrt(K)
    dq, dk, dv = ds @ k, ds.T @ q, a.T @ dy
    right, wrong = (dq, dk, dv), (dq * np.sqrt(K), dk, 1.5 * dv)
    gradients = {name: np.stack(both) for name, both in zip(("dq", "dk", "dv"), zip(right, wrong))}
    return {"q": q, "k": k, "dy": dy} | gradients


def fixed(letters, array):
    """This array, whatever is drawn."""
    return Draw(letters, lambda rng, shape: array)


LETTERS = {"q": "T K", "k": "S K", "dy": "T E", "dq": "B T K", "dk": "B S K", "dv": "B S E"}
REFUTATIONS = Exercise(
    two_refutations,
    asks="Writing a test from invariances, with no right answer to compare with.",
    outputs="turned shifted",
    inputs={name: normal(letters) for name, letters in LETTERS.items()},
    special={
        "two claims, one of them right": {
            name: fixed(LETTERS[name], array) for name, array in claims_of_one_head().items()
        }
    },
    stories="""
    - Qᵀ dQ and Kᵀ dK are compared entry by entry. M turns the queries and the transpose of its inverse
      the keys, so one of the two products has to be transposed.
          reads.mT → reads
    - Only the diagonal is compared: that is, M stretches each component by itself. Other M leave the
      scores alone as well.
          np.abs(turn).max(axis=(1, 2)) → np.abs(np.einsum("bkk->bk", turn)).max(axis=1)
    - Only one number is compared, ⟨Q, dQ⟩ with ⟨K, dK⟩: M is then a multiple of the identity. Every M
      gives an equation, K² in all.
          np.abs(turn).max(axis=(1, 2)) → np.abs(np.einsum("bkk->b", turn))
    - The two products are added. The keys are turned by the inverse: what one gives the other takes.
          asks - reads.mT → asks + reads.mT
    - The violations of all equations are added in `turned`. The largest one is asked.
          np.abs(turn).max(axis=(1, 2)) → np.abs(turn).sum(axis=(1, 2))
    - The violations of all equations are averaged in `turned`. The largest one is asked.
          np.abs(turn).max(axis=(1, 2)) → np.abs(turn).mean(axis=(1, 2))
    - The length of all violations together is taken in `turned`. The largest one is asked.
          np.abs(turn).max(axis=(1, 2)) → np.sqrt((turn**2).sum(axis=(1, 2)))
    - The length of all violations together is taken in `shifted`. The largest one is asked.
          np.abs(shift).max(axis=1) → np.sqrt((shift**2).sum(axis=1))
    - The length of all violations together is taken, twice. The largest one is asked.
          np.abs(turn).max(axis=(1, 2)) → np.sqrt((turn**2).sum(axis=(1, 2)))
          np.abs(shift).max(axis=1) → np.sqrt((shift**2).sum(axis=1))
    - The violations are added in both results. The largest one is asked.
          np.abs(turn).max(axis=(1, 2)) → np.abs(turn).sum(axis=(1, 2))
          np.abs(shift).max(axis=1) → np.abs(shift).sum(axis=1)
    - The violations are added in `shifted`. The largest one is asked.
          np.abs(shift).max(axis=1) → np.abs(shift).sum(axis=1)
    - The violations are averaged in `shifted`. The largest one is asked.
          np.abs(shift).max(axis=1) → np.abs(shift).mean(axis=1)
    - The violations are averaged in both results. The largest one is asked.
          np.abs(turn).max(axis=(1, 2)) → np.abs(turn).mean(axis=(1, 2))
          np.abs(shift).max(axis=1) → np.abs(shift).mean(axis=1)
    - Each value's gradient is compared with the sum of what arrives. All values get the row that is
      added, so their gradients are summed first.
          shift = dv.sum(axis=1) - dy.sum(axis=0) → shift = (dv - dy.sum(axis=0)).reshape(len(dv), -1)
    - Queries are multiplied with their gradients over the components, which gives T × T numbers. N joins
      two components, so the sum is over the tokens, and the result is K × K.
          turn = asks - reads.mT → turn = np.abs(q @ dq.mT).max((1, 2)) - np.abs(k @ dk.mT).max((1, 2))
          np.abs(turn).max(axis=(1, 2)) → turn
    - The absolute value is missing in both results: a violation may be negative.
          np.abs(turn) → turn
          np.abs(shift) → shift
    - The absolute value is missing in both results, and both differences are taken the other way round: a
      violation may be negative.
          np.abs(turn) → (-turn)
          np.abs(shift) → (-shift)
    - The absolute value is missing in both results, and only one of the differences, that of the values,
      is taken as incoming minus claimed: a violation may be negative.
          np.abs(turn) → turn
          np.abs(shift) → (-shift)
    - The absolute value is missing in both results, and the first difference is that of the keys minus
      that of the queries: a violation may be negative.
          np.abs(turn) → (-turn)
          np.abs(shift) → shift
    - ε = 1 was put in, and M inverted: where N has its 1 on the diagonal, the inverse is then
      1/(1 + ε) and not 1 - ε. To first order no ε is left.
          turn = asks - reads.mT → turn = asks - reads.mT / (1 + 1.0 * np.eye(reads.shape[1]))
    - A tenth was put in for ε, and M inverted: where N has its 1 on the diagonal, the inverse is then
      1/(1 + ε) and not 1 - ε. To first order no ε is left.
          turn = asks - reads.mT → turn = asks - reads.mT / (1 + 0.1 * np.eye(reads.shape[1]))
    - A hundredth was put in for ε, and M inverted: where N has its 1 on the diagonal, the inverse is then
      1/(1 + ε) and not 1 - ε. To first order no ε is left.
          turn = asks - reads.mT → turn = asks - reads.mT / (1 + 0.01 * np.eye(reads.shape[1]))
    - A thousandth was put in for ε, and M inverted: where N has its 1 on the diagonal, the inverse is then
      1/(1 + ε) and not 1 - ε. To first order no ε is left.
          turn = asks - reads.mT → turn = asks - reads.mT / (1 + 0.001 * np.eye(reads.shape[1]))
    - ε = 0.0001 was put in, and M inverted: where N has its 1 on the diagonal, the inverse is then
      1/(1 + ε) and not 1 - ε. To first order no ε is left.
          turn = asks - reads.mT → turn = asks - reads.mT / (1 + 0.0001 * np.eye(reads.shape[1]))
    - The absolute value is missing in `turned`: a violation may be negative.
          np.abs(turn) → turn
    - The absolute value is missing in `shifted`: a violation may be negative.
          np.abs(shift) → shift
    - The absolute value is taken of the largest violation in both results, so that a larger negative one
      is lost. It belongs to every violation.
          np.abs(turn).max(axis=(1, 2)) → np.abs(turn.max(axis=(1, 2)))
          np.abs(shift).max(axis=1) → np.abs(shift.max(axis=1))
    - These are yes and no. How large the largest violation is, is asked.
          np.abs(turn).max(axis=(1, 2)) → 1.0 * (np.abs(turn).max(axis=(1, 2)) > 1e-9)
          np.abs(shift).max(axis=1) → 1.0 * (np.abs(shift).max(axis=1) > 1e-9)
    - The gradients of the values add up to 0 here. They need not: a row that is added to all values is
      added to every output, so they add up to what arrives there.
          dv.sum(axis=1) - dy.sum(axis=0) → dv.sum(axis=1)
    - Sums are compared with means in `shifted`. The change of the loss is a sum over all values, and a
      sum over all outputs.
          dv.sum(axis=1) - dy.sum(axis=0) → dv.sum(axis=1) - dy.mean(axis=0)
    - In `shifted` the mean over the sources stands where the sum should, and so for the targets. There
      are S of the one and T of the other.
          dv.sum(axis=1) - dy.sum(axis=0) → dv.mean(axis=1) - dy.mean(axis=0)
    - In `shifted` everything is added, over the components too. The row may be any row, so each component
      has an equation of its own.
          np.abs(shift).max(axis=1) → np.abs(shift.sum(axis=1))
    - The two sides are added in `shifted`.
          dv.sum(axis=1) - dy.sum(axis=0) → dv.sum(axis=1) + dy.sum(axis=0)
    - The largest violation in all claims is given to each. Every claim is judged by itself.
          .max(axis=(1, 2)) → .max() + 0 * dq[:, 0, 0]
          .max(axis=1) → .max() + 0 * dq[:, 0, 0]
    - These are relative errors. The violation itself is asked.
          np.abs(turn).max(axis=(1, 2)) → np.abs(turn).max(axis=(1, 2)) / np.abs(asks).max(axis=(1, 2))
          .max(axis=1) → .max(axis=1) / np.abs(dy.sum(axis=0)).max()
    """,
    hints="""
    - Along a change that leaves the loss alone, the derivative of the loss is 0. It is the sum over all
      entries of gradient times change.
    - With M = I + ε N the queries change by ε Q N, the keys by -ε K Nᵀ. For the values: all S rows change
      by c, and so do all T rows of the output.
    - ⟨dQ, Q N⟩ = ⟨Qᵀ dQ, N⟩ and ⟨dK, K Nᵀ⟩ = ⟨Kᵀ dK, Nᵀ⟩, for every N.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def columns_into_rows(dz, x, W_q, W_k, W_v):
    q, k, v = x @ W_q.T, x @ W_k.T, x @ W_v.T
    T = x.shape[1]
    table = q @ k.mT / T
    dtable = dz @ v.mT / T
    dq = dtable @ k
    dk = dtable.mT @ q
    dv = table.mT @ dz
    dx = dq @ W_q + dk @ W_k + dv @ W_v
    dW_k = (dk.mT @ x).sum(axis=0)
    return dx, dW_k


INTO_ROWS = Exercise(
    columns_into_rows,
    asks="Translating a text that writes tokens as columns, and differentiating it in rows.",
    outputs="dx dW_k",
    inputs={
        "dz": normal("B T E"),
        "x": repeating("B T D"),
        "W_q": normal("K D"),
        "W_k": normal("K D"),
        "W_v": normal("E D"),
    },
    stories="""
    - The layer is divided by √K, as a softmax's scores would be. This one divides by the number of
      tokens.
          T = x.shape[1] → T = np.sqrt(len(W_k))
    - The division by T is missing everywhere.
          T = x.shape[1] → T = 1
    - T is counted twice: it divides each of the three products once.
          T = x.shape[1] → T = x.shape[1] ** 2
    - Divided by the number of sequences. T is the number of tokens.
          T = x.shape[1] → T = x.shape[0]
    - The path through the queries is missing in dx.
          dx = dq @ W_q + dk @ W_k + dv @ W_v → dx = dk @ W_k + dv @ W_v
    - The path through the keys is missing in dx.
          dx = dq @ W_q + dk @ W_k + dv @ W_v → dx = dq @ W_q + dv @ W_v
    - The path through the values is missing in dx.
          dx = dq @ W_q + dk @ W_k + dv @ W_v → dx = dq @ W_q + dk @ W_k
    - Only the path through the values is in dx. x is used three times.
          dx = dq @ W_q + dk @ W_k + dv @ W_v → dx = dv @ W_v
    - Only the path through the keys is in dx. x is used three times.
          dx = dq @ W_q + dk @ W_k + dv @ W_v → dx = dk @ W_k
    - Only the path through the queries is in dx. x is used three times.
          dx = dq @ W_q + dk @ W_k + dv @ W_v → dx = dq @ W_q
    - dW_k has the layout of rows, (D, K). The text stores its matrices as (K, D), and a gradient has the
      shape of what it belongs to.
          dW_k = (dk.mT @ x).sum(axis=0) → dW_k = (x.mT @ dk).sum(axis=0)
    - dW_k is that of the queries' matrix.
          dW_k = (dk.mT @ x).sum(axis=0) → dW_k = (dq.mT @ x).sum(axis=0)
    - Queries and keys have changed places throughout: what each column asks is q, and z belongs to it.
          q, k, v = x @ W_q.T, x @ W_k.T, x @ W_v.T → q, k, v = x @ W_k.T, x @ W_q.T, x @ W_v.T
          dx = dq @ W_q + dk @ W_k + dv @ W_v → dx = dq @ W_k + dk @ W_q + dv @ W_v
    - Queries and keys have changed places throughout, with their matrices: what each column asks is q,
      and z belongs to it.
          q, k, v = x @ W_q.T, x @ W_k.T, x @ W_v.T → q, k, v = x @ W_k.T, x @ W_q.T, x @ W_v.T
          dx = dq @ W_q + dk @ W_k + dv @ W_v → dx = dq @ W_k + dk @ W_q + dv @ W_v
          dW_k = (dk.mT @ x).sum(axis=0) → dW_k = (dq.mT @ x).sum(axis=0)
    - dW_k is averaged over the sequences. The matrix is shared by all of them, so their parts add.
          dW_k = (dk.mT @ x).sum(axis=0) → dW_k = (dk.mT @ x).mean(axis=0)
    - dW_k is averaged over the tokens once more. The T of the layer divides already.
          dW_k = (dk.mT @ x).sum(axis=0) → dW_k = (dk.mT @ x).sum(axis=0) / T
    - dW_k is that of the first sequence. The matrix is shared by all of them, so their parts add.
          dW_k = (dk.mT @ x).sum(axis=0) → dW_k = (dk.mT @ x)[0]
    - dW_k contains the path through the queries. That belongs to W_q, which is another matrix.
          dW_k = (dk.mT @ x).sum(axis=0) → dW_k = ((dk + dq).mT @ x).sum(axis=0)
    - This layer is causal: what comes later is left out. In the text every token reads all of them.
          table = q @ k.mT / T → table = np.tril(q @ k.mT) / T
          dtable = dz @ v.mT / T → dtable = np.tril(dz @ v.mT) / T
    - Where dx should stand, stands z, the output.
          dx = dq @ W_q + dk @ W_k + dv @ W_v → dx = table @ v
    - dW_k is kept for each sequence. The matrix is shared by all of them, so their parts add.
          dW_k = (dk.mT @ x).sum(axis=0) → dW_k = dk.mT @ x
    - Softmax's backward stands in the way of queries and keys. There is no softmax here: the weights are
      the scores, divided by T.
          dtable = dz @ v.mT / T → da = table * (dz @ v.mT)
          dq = dtable @ k → dtable = (da - table * da.sum(axis=-1, keepdims=True)) / T; dq = dtable @ k
    - A softmax was put in, with its backward. There is none here: the weights are the scores, divided by
      T.
          table = q @ k.mT / T → w = np.exp(q @ k.mT / T); table = w / w.sum(axis=-1, keepdims=True)
          dtable = dz @ v.mT / T → da = table * (dz @ v.mT)
          dq = dtable @ k → dtable = (da - table * da.sum(axis=-1, keepdims=True)) / T; dq = dtable @ k
    - In dK the table is not transposed. Key s collects from all who ask, the column s of the table.
          dk = dtable.mT @ q → dk = dtable @ q
    - In dV the table is not transposed. Value s collects from all who ask, with q_t · k_s.
          dv = table.mT @ dz → dv = table @ dz
    - Neither table is transposed, in dK and in dV. Token s is read by all who ask: its gradients collect
      the column s.
          dk = dtable.mT @ q → dk = dtable @ q
          dv = table.mT @ dz → dv = table @ dz
    - The division by T is missing on the way through the values.
          dv = table.mT @ dz → dv = T * table.mT @ dz
    - The division by T is missing on the way through the queries.
          dq = dtable @ k → dq = T * dtable @ k
    - Each token is combined with itself only. Query t reads every source s, and all of them get a
      gradient.
          dq = dtable @ k → dq = (v * dz).sum(axis=-1, keepdims=True) * k / T
          dk = dtable.mT @ q → dk = (v * dz).sum(axis=-1, keepdims=True) * q / T
          dv = table.mT @ dz → dv = (k * q).sum(axis=-1, keepdims=True) * dz / T
    """,
    hints="""
    - First the forward in rows. The transpose of a product is the product of the transposes in the other
      order.
    - z = q kᵀ v / T, token by token in rows, with q = x W_qᵀ. It is linear in each of the three.
    - dq = dz (kᵀ v)ᵀ / T, and in the same way dk and dv. q = x W_qᵀ gives dx += dq W_q.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def repaired_weight_norm(dy, x, v, g):
    dW = np.einsum("btd,btf->df", x, dy)
    length = np.sqrt((v * v).sum(axis=0))
    u = v / length
    dg = (dW * u).sum(axis=0)
    dv = g / length * (dW - dg * u)
    return dv, dg


WEIGHT_NORM = Exercise(
    repaired_weight_norm,
    asks="Which of two plausible lines is wrong, and what the author's test could not see.",
    outputs="dv dg",
    inputs={"dy": normal("B T F"), "x": repeating("B T D"), "v": normal("D F"), "g": scales("F")},
    stories="""
    - This is the line that is printed. It subtracts dg times v, which is right only where v has length 1:
      what points along v is dg times the unit vector v/‖v‖.
          dW - dg * u → dW - dg * v
    - The root is missing: v is divided by its square, so that u has no length 1.
          length = np.sqrt((v * v).sum(axis=0)) → length = (v * v).sum(axis=0)
    - The length was taken for a constant. It depends on v: what points along v changes it, and must go.
          dv = g / length * (dW - dg * u) → dv = g / length * dW
    - In dv the factor g is missing: W contains it.
          dv = g / length * (dW - dg * u) → dv = (dW - dg * u) / length
    - In dv the length is missing: twice as long a v changes its direction half as much.
          dv = g / length * (dW - dg * u) → dv = g * (dW - dg * u)
    - In dv the factors g/‖v‖ are missing.
          dv = g / length * (dW - dg * u) → dv = dW - dg * u
    - dg is divided by the length once more: it has the unit vector already.
          dg = (dW * u).sum(axis=0) → dg = (dW * u).sum(axis=0) / length
          dv = g / length * (dW - dg * u) → dv = g / length * (dW - (dW * u).sum(axis=0) * u)
    - dg goes with v, and not with the unit vector v/‖v‖. dv is not touched by that.
          dg = (dW * u).sum(axis=0) → dg = (dW * v).sum(axis=0)
          dv = g / length * (dW - dg * u) → dv = g / length * (dW - (dW * u).sum(axis=0) * u)
    - dg goes with v, and not with the unit vector v/‖v‖, and dv takes it so too.
          dg = (dW * u).sum(axis=0) → dg = (dW * v).sum(axis=0)
    - What points along v is taken to be v (v · dW). That has the square of the length too much.
          dv = g / length * (dW - dg * u) → dv = g / length * (dW - dg * u * length**2)
    - dg was taken along W, with g in it, and then dv as well.
          dg = (dW * u).sum(axis=0) → dg = (dW * g * u).sum(axis=0)
    - What points along v is subtracted with g twice: dg stands inside the bracket, before which g stands.
          dv = g / length * (dW - dg * u) → dv = g / length * (dW - g * dg * u)
    - What points along v is added.
          dW - dg * u → dW + dg * u
    - The mean over the inputs is subtracted, as if v were centred. It is not: only its length is divided
      away.
          dW - dg * u → dW - dg * u - dW.mean(axis=0)
    - The mean along v is subtracted, as in a root mean square. The length here is a sum of squares,
      without 1/D.
          dW - dg * u → dW - dg * u / len(v)
    - The root of the mean square stands in the place of the length, and a mean where ⟨dW, v⟩ is asked.
      The length is a sum, without 1/D.
          length = np.sqrt((v * v).sum(axis=0)) → length = np.sqrt((v * v).mean(axis=0))
          dW - dg * u → dW - dg * u / len(v)
    - Inputs and gradients are summed over the tokens, and then multiplied. Each token's input belongs to
      its own gradient: first multiply, then sum.
          dW = np.einsum("btd,btf->df", x, dy) → dW = np.outer(x.sum(axis=(0, 1)), dy.sum(axis=(0, 1)))
    - The length is that of the rows. Each output has a column of its own.
          length = np.sqrt((v * v).sum(axis=0)) → length = np.sqrt((v * v).sum(axis=1, keepdims=True))
    - One length is taken for the whole matrix. Each output has a column, and a length, of its own.
          length = np.sqrt((v * v).sum(axis=0)) → length = np.sqrt((v * v).sum())
    - The root of the mean square stands in the place of the length.
          length = np.sqrt((v * v).sum(axis=0)) → length = np.sqrt((v * v).mean(axis=0))
    - These are the gradients of W itself and of g: dv is what arrives at W.
          dv = g / length * (dW - dg * u) → dv = dW
    - dW is averaged over tokens and sequences. The weights are used by all of them, so their parts add.
          dW = np.einsum("btd,btf->df", x, dy) → dW = np.einsum("btd,btf->df", x, dy) / x[..., 0].size
    - dW is averaged over the sequences. The weights are used by all of them, so their parts add.
          dW = np.einsum("btd,btf->df", x, dy) → dW = np.einsum("btd,btf->df", x, dy) / len(x)
    - dg is summed over all outputs. Each has a g of its own.
          dg = (dW * u).sum(axis=0) → dg = (dW * u).sum() + 0 * g
          dv = g / length * (dW - dg * u) → dv = g / length * (dW - (dW * u).sum(axis=0) * u)
    - g and ‖v‖ have changed places in dv: g multiplies, and ‖v‖ divides.
          dv = g / length * (dW - dg * u) → dv = length / g * (dW - dg * u)
    """,
    hints="""
    - Take v twice as long: W is the same. So what must dv not contain, and how long is it then?
    - The unit vector u = v/‖v‖ has ∂u/∂v = (I - u uᵀ)/‖v‖.
    - Check the printed line for a v of length 5. In which place has it v where it should have u?
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def causal_crossover(D, H, H_kv, K, F):
    projections = 2 * D * H * K + 2 * D * H_kv * K
    gated = 3 * D * F
    pairs = H * K
    return (projections + gated) / pairs - 1


CROSSOVER = Derivation(
    causal_crossover,
    asks="Counting a block exactly: shared heads, a gated layer, allowed pairs only.",
    domains={"D": "count", "H": "count", "H_kv": "count", "K": "count", "F": "count"},
    stories="""
    - All T² pairs are counted. Key j ≤ i is one of i + 1, so there are T (T + 1)/2 of them.
          pairs = H * K → pairs = 2 * H * K
          / pairs - 1 → / pairs
    - The pairs are counted as T²/2. The diagonal belongs to them: they are T (T + 1)/2.
          / pairs - 1 → / pairs
    - The pairs are counted as T (T - 1)/2. The diagonal belongs to them: they are T (T + 1)/2.
          / pairs - 1 → / pairs + 1
    - Scores only are counted, or sums only. Both cost K multiply-adds for each pair and head.
          pairs = H * K → pairs = H * K / 2
    - The sums run over H_kv heads here. Each query head has its own weights, and reads shared values.
          pairs = H * K → pairs = (H + H_kv) * K / 2
    - Scores and sums are counted for the heads of the keys only. Each query head has its own.
          pairs = H * K → pairs = H_kv * K
    - All four projections are counted for H heads. Keys and values have H_kv heads.
          2 * D * H_kv * K → 2 * D * H * K
    - All four projections are square, D by D. The heads together are H K wide, and D may be something
      else.
          projections = 2 * D * H * K + 2 * D * H_kv * K → projections = 4 * D**2
    - Queries and output are taken to be D by D. The heads together are H K wide, and D may be something
      else.
          2 * D * H * K → 2 * D * D
    - Queries and output, scores and sums are taken to be D wide. The heads together are H K wide, and D
      may be something else.
          2 * D * H * K → 2 * D * D
          pairs = H * K → pairs = D
    - Scores and sums are taken to be D wide. The heads together are H K wide, and D may be something
      else.
          pairs = H * K → pairs = D
    - The output projection is missing.
          2 * D * H * K → D * H * K
    - The projection of the values is missing, or that of the keys.
          2 * D * H_kv * K → D * H_kv * K
    - The projections of keys and values are missing.
          + 2 * D * H_kv * K →
    - The projections of queries and output are missing.
          2 * D * H * K + → 0 * D * H * K +
    - The gated layer has three matrices; two are counted.
          gated = 3 * D * F → gated = 2 * D * F
    - One matrix of the gated layer is counted. It has three.
          gated = 3 * D * F → gated = D * F
    - Four matrices of the gated layer are counted. It has three: gate, up and down.
          gated = 3 * D * F → gated = 4 * D * F
    - The feed-forward layer is missing.
          (projections + gated) → projections
    - The projections are missing.
          (projections + gated) → gated
    - The share of the heads is upside down: keys and values have H_kv of H heads, which makes their
      projections cheaper.
          2 * D * H_kv * K → 2 * D * H * K * H / H_kv
    - Scores only are counted, or sums only, and T²/2 pairs. Both cost K multiply-adds for each pair and
      head, and there are T (T + 1)/2 pairs.
          pairs = H * K → pairs = H * K / 2
          / pairs - 1 → / pairs
    - All T² pairs are counted, and 1 is taken away all the same. It comes from T (T + 1)/2 pairs.
          pairs = H * K → pairs = 2 * H * K
    - The projection of the output is counted for H_kv heads. It reads all H heads.
          2 * D * H * K + 2 * D * H_kv * K → D * H * K + 3 * D * H_kv * K
    - Scores are divided by 2 once too often: H K multiply-adds for each of T (T + 1)/2 pairs, and as many
      for the sums.
          pairs = H * K → pairs = H * K / 4
    - This is the quotient upside down: the length is what all else costs, divided by what a pair costs.
          return (projections + gated) / pairs - 1 → return pairs / (projections + gated) - 1
    - The block is counted without the factor D of what goes in.
          gated = 3 * D * F → gated = 3 * F
    """,
    hints="""
    - Count multiply-adds for T tokens: a product of (T, D) with (D, n) takes T D n.
    - Allowed pairs: 1 for the first token, 2 for the second, … How many are there in all? For each, and
      each query head, a score and a share of a sum.
    - H K T (T + 1) against T (2 D H K + 2 D H_kv K + 3 D F).
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def mean_of_means(z, targets, keep):
    p = np.exp(z - z.max(axis=-1, keepdims=True))
    p = p / p.sum(axis=-1, keepdims=True)
    right = targets[..., None] == np.arange(z.shape[-1])
    m = keep.sum(axis=1, keepdims=True)
    rows = (m > 0).sum()
    weight = keep / np.maximum(m, 1) / rows
    log_p = np.log((p * right).sum(axis=-1))
    loss = -(weight * log_p).sum()
    dz = weight[..., None] * (p - right)
    return loss, dz


def kept(rng, shape):
    """What counts: about 60 % of all, never the first of three or more, and one in each sequence at least."""
    keep = rng.random(shape) < 0.6
    keep[:, -1] |= ~keep.any(axis=1)
    if shape[1] > 2:
        keep[0, 0] = False
        keep[0, -1] = True
    return keep


def with_an_empty_one(rng, shape):
    keep = kept(rng, shape)
    keep[1] = False
    return keep


MEAN_OF_MEANS = Exercise(
    mean_of_means,
    asks="How much each token weighs when every sequence counts the same.",
    outputs="loss dz",
    inputs={
        "z": normal("B T V").then(lambda z: 2 * z),
        "targets": Draw("B T V", lambda rng, shape: rng.integers(shape[-1], size=shape[:-1])),
        "keep": Draw("B T", kept),
    },
    special={"a sequence without a target": {"keep": Draw("B T", with_an_empty_one)}},
    only={
        "a sequence without a target": "It has no mean, so it is not one of those that are averaged, and its "
        "gradient is 0."
    },
    stories="""
    - This is the mean over all tokens that count. Here each sequence weighs the same, however many tokens
      of it count.
          weight = keep / np.maximum(m, 1) / rows → weight = keep / keep.sum()
    - This is the sum over all tokens that count: neither the tokens of a sequence nor the sequences
      divide.
          weight = keep / np.maximum(m, 1) / rows → weight = 1.0 * keep
    - The sequences are added, not averaged: the number of sequences is missing.
          weight = keep / np.maximum(m, 1) / rows → weight = keep / np.maximum(m, 1)
    - Divided by the number of sequences only: the means within them are sums here.
          weight = keep / np.maximum(m, 1) / rows → weight = keep / rows
    - Each sequence is divided by its length, with what does not count. Its mean is over the tokens that
      count.
          weight = keep / np.maximum(m, 1) / rows → weight = keep / keep.shape[1] / rows
    - Divided by the number of all places, B times T. Tokens that do not count divide nothing.
          weight = keep / np.maximum(m, 1) / rows → weight = keep / keep.size
    - All tokens are averaged, also those that do not count.
          weight = keep / np.maximum(m, 1) / rows → weight = np.ones(keep.shape) / keep.size
    - Means over the tokens that count, but of all tokens: what does not count is not left out.
          weight = keep / np.maximum(m, 1) / rows → weight = np.ones(keep.shape) / np.maximum(m, 1) / rows
    - An empty sequence is counted among those that are averaged. It has no mean.
          rows = (m > 0).sum() → rows = len(m)
    - Only the first tokens up to a sequence's number of targets are taken. `keep` says which ones, and
      they may lie anywhere.
          rows = (m > 0).sum() → rows = (m > 0).sum(); keep = np.arange(keep.shape[1]) < m
    - Each sequence's mean has the weight m/Σm, which gives the mean over all tokens that count. The loop
      weighs all sequences alike. In dz the number of sequences divides besides.
          loss = -(weight * log_p).sum() → loss = -(keep / m.sum() * log_p).sum()
          dz = weight[..., None] * (p - right) → dz = (keep / m.sum() / rows)[..., None] * (p - right)
    - The logarithm is missing in the loss: this is the mean of 1 - p.
          loss = -(weight * log_p).sum() → loss = (weight * (1 - np.exp(log_p))).sum()
    - The logarithm is missing in the loss: this is the mean of p, with a minus.
          loss = -(weight * log_p).sum() → loss = -(weight * np.exp(log_p)).sum()
    - In dz only the right token's logit has a gradient. Each logit is in the denominator of the softmax,
      and gets p.
          dz = weight[..., None] * (p - right) → dz = weight[..., None] * (p - right) * right
    - The backward of the softmax is applied to p minus the row with the 1. That has it in it already.
          (p - right) → (p * (p - right - (p * (p - right)).sum(axis=-1, keepdims=True)))
    - Logits of tokens that do not count are set to 0, and the tokens counted all the same.
          p = np.exp(z - z.max(axis=-1, keepdims=True)) → z = z * keep[..., None]; p = np.exp(z)
          weight = keep / np.maximum(m, 1) / rows → weight = np.ones(keep.shape) / keep.size
    - In dz what does not count is not left out. In the loss it is.
          dz = weight[..., None] * (p - right) → dz = (p - right) / np.maximum(m, 1)[..., None] / rows
    - In dz each token weighs 1: the divisions of the loss belong to the gradient as well.
          dz = weight[..., None] * (p - right) → dz = keep[..., None] * (p - right)
    - In dz each sequence's number of tokens that count is missing. The loss has it.
          dz = weight[..., None] * (p - right) → dz = keep[..., None] / rows * (p - right)
    - In the loss what does not count is not left out. In dz it is.
          loss = -(weight * log_p).sum() → loss = -(log_p / np.maximum(m, 1) * (m > 0)).sum() / rows
    - In dz the number of sequences is missing. The loss has it.
          dz = weight[..., None] * (p - right) → dz = (keep / np.maximum(m, 1))[..., None] * (p - right)
    - dz is that of the mean over all tokens that count. The loss is the mean of the sequences' means.
          dz = weight[..., None] * (p - right) → dz = keep[..., None] / keep.sum() * (p - right)
    - The loss is the mean over all tokens that count. dz has the weights that were asked.
          loss = -(weight * log_p).sum() → loss = -(keep / keep.sum() * log_p).sum()
    - dz is that by the probabilities of the right tokens, -1/p. Softmax lies between them and z.
          dz = weight[..., None] * (p - right) → dz = -weight[..., None] * right / p
    - dz points to the target: it is minus the gradient.
          dz = weight[..., None] * (p - right) → dz = weight[..., None] * (right - p)
    - The loss has the wrong sign: minus the logarithm is counted.
          loss = -(weight → loss = (weight
    - The 1 at the right token is missing: this is p, weighted.
          dz = weight[..., None] * (p - right) → dz = weight[..., None] * p
    - The sign of the loss and that of dz are turned round: minus the logarithm is counted.
          loss = -(weight → loss = (weight
          dz = weight[..., None] * (p - right) → dz = weight[..., None] * (right - p)
    - The mean over the tokens that count, of the whole batch, and once more over the sequences.
          weight = keep / np.maximum(m, 1) / rows → weight = keep / keep.sum() / rows
    - At each position the mean over the sequences is taken first, then the mean of these means. The
      sequences are to be averaged last.
          m = keep.sum(axis=1, keepdims=True) → m = keep.sum(axis=0, keepdims=True)
    - A logarithm to the base 2: the loss is in bits, dz in nats.
          np.log( → np.log2(
    """,
    hints="""
    - Write the loss as one sum over all tokens. Which weight has token t of sequence b?
    - The weight is 0 where the token does not count, else 1/(m_b R): m_b tokens of sequence b count, and
      R sequences have any.
    - The weights do not depend on z. So dz is the weight times p minus the row with a 1 at the target.
    """,
)
