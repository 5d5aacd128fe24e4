"""Exercises of chapter 09, most of them masks that it does not show: answers, stories and hints."""

import dataclasses

import numpy as np

from ...course.judge.draws import Draw, mask, normal, number
from ...course.judge.function import Exercise
from ...ops.softmax import softmax


def documents(rng, shape):
    """Rows (B, T) of numbers of documents, not in order, and 0 for padding, behind or before them."""
    B, T = shape
    rows = []
    for b in range(B):
        padding = min((b + 1) % 3, T - 1)
        cuts = np.sort(rng.integers(0, T - padding + 1, 2)) if T > 3 else [1, T]
        parts = np.searchsorted(cuts, np.arange(T - padding), side="right")
        numbers = rng.permutation(np.arange(1, 4))[parts]
        rows.append(np.pad(numbers, (0, padding) if b % 2 else (padding, 0)))
    return np.array(rows)


def visible(rng, shape):
    """A mask (S, S) that allows four entries of ten, but query 0 nothing behind itself."""
    allowed = rng.random(shape) < 0.4
    allowed[0, 1:] = False
    return allowed


def influences(rng, shape):
    """Derivatives (B, S, S), half of them 0, of either sign, one in ten tiny; one at the end of row 0."""
    size = np.where(rng.random(shape) < 0.1, 1e-15, 1.0)
    found = rng.normal(size=shape) * size * (rng.random(shape) < 0.5)
    found[0, 0, -1] = -0.7
    return found


def with_a_blind_query(allowed):
    allowed[:, 1] = False
    return allowed


def before(rng, shape):
    """Each query sees the position before it, and not itself."""
    return np.eye(shape[0], k=-1) > 0


def band(rng, shape):
    """A window of two: each query sees itself and the position before."""
    return (np.eye(shape[0]) + np.eye(shape[0], k=-1)) > 0


def sixteen_together(rng, shape):
    """Sixteen tokens that all see each other, and one that sees itself and is seen by nobody else."""
    return np.pad(np.ones((16, 16), dtype=bool), (0, 1)) | np.eye(17, dtype=bool)


DEEP = {"mask": Draw("", sixteen_together), "layers": number(17)}
OVERFLOW = (
    "Do numbers of ways grow too large for their type? Ask “is it above 0?” after each layer, or multiply "
    "Booleans."
)
SOME = Draw("S", lambda rng, shape: 3 - shape[0] % 2)  # 2 or 3, and not the same in every case
WINDOW = Draw("T", SOME.make)
QUERIES, KEYS, VALUES = normal("B T K"), normal("B T K"), normal("B T E")


# 1 ----------------------------------------------------------------------------------------------------------


def packed_mask(documents):
    T = documents.shape[1]
    queries = documents[:, :, np.newaxis]
    keys = documents[:, np.newaxis, :]
    same = queries == keys
    words = keys != 0
    past = np.tril(np.ones((T, T), dtype=bool))
    return same & words & past


def packed_by_places(documents):
    t = np.arange(documents.shape[1])
    past = t[:, np.newaxis] >= t
    product = documents[:, :, np.newaxis] * documents[:, np.newaxis, :]
    same = product == (documents**2)[:, :, np.newaxis]
    words = product > 0
    return past & same & words


def packed_by_loops(documents):
    mask = np.zeros((*documents.shape, documents.shape[1]))
    for n, row in enumerate(documents):
        for i, j in np.ndindex(len(row), len(row)):
            mask[n, i, j] = j <= i and row[j] != 0 and row[i] == row[j]
    return mask


class MaskExercise(Exercise):
    """An exercise whose answer has to be Boolean, as `attention` wants its masks."""

    def judge(self, answer=None):
        verdict = super().judge(answer)
        if verdict.status == "right":
            dtype = np.asarray(answer(*self.cases[0].inputs)).dtype
            text = (
                f"The entries are right, but they are {dtype}. `attention` takes Booleans only: end with a "
                "comparison, or combine Booleans by &."
            )
            return verdict if dtype.kind == "b" else self._verdict("wrong", text, rows=verdict.rows)
        if "contains infinite numbers" in verdict.diagnosis:
            text = f"{verdict.diagnosis} Asked are Booleans, not what is added to the scores."
            return dataclasses.replace(verdict, diagnosis=text)
        return verdict


PACKED_MASK = MaskExercise(
    packed_mask,
    asks="Combining three conditions on pairs of positions into one Boolean mask.",
    outputs="mask",
    inputs={"documents": Draw("B T", documents)},
    shipped=packed_by_loops,
    ways=(packed_by_places,),
    stories="""
    - A token sees the earlier documents of its row. Two tokens see each other only if their numbers are
      equal.
          return same & words & past → return words & past
    - The mask is not causal: a token sees the rest of its own document.
          return same & words & past → return same & words
    - Padding sees padding: its numbers are equal, too. A key whose number is 0 is hidden from everybody.
          return same & words & past → return same & past
    - Only the causal mask is here. Documents and padding are not used.
          return same & words & past → return past & (keys == keys)
    - A token does not see itself. It may: position i predicts what comes after it.
          np.ones((T, T), dtype=bool)) → np.ones((T, T), dtype=bool), -1)
    - Turned round: a token sees what comes later in its document. The last axis says which key is looked at.
          np.tril( → np.triu(
    - True and False are exchanged: True where a query may look.
          return same & words & past → return ~(same & words & past)
    - Each row of the result is one of the batch's numbers: the mask needs an axis of queries and one of
      keys.
          return same & words & past → return documents != 0
    - Only the neighbour before, and the token itself, are seen. All earlier tokens of the document may be.
          return same & words & past → return same & words & past & np.triu(np.ones((T, T), dtype=bool), -1)
    - A document sees those with smaller numbers. The numbers are names: only equal ones belong together.
          same = queries == keys → same = queries >= keys
    - Each token also sees the one after it: j ≤ i and no further.
          np.ones((T, T), dtype=bool)) → np.ones((T, T), dtype=bool), 1)
    - Padding is hidden as a query, and the documents are not kept apart. The last axis is the key.
          return same & words & past → return (queries != 0) & past
    - Padding sees itself. A key whose number is 0 is hidden from everybody, itself included.
          return same & words & past → return same & past & (words | np.eye(T, dtype=bool))
    - Everybody sees padding. A key whose number is 0 is hidden from all.
          return same & words & past → return (same | (keys == 0)) & past
    - The same document *or* not later is enough here. Both are needed: join them with &.
          return same & words & past → return (same | past) & words
    - Only padding is hidden, as key and as query: documents are not kept apart, nor is the future hidden.
          return same & words & past → return words & (queries != 0)
    - Only later tokens of the document are seen. A token sees itself and what is before it.
          return same & words & past → return same & words & ~past
    - A document sees those with larger numbers. The numbers are names: only equal ones belong together.
          same = queries == keys → same = queries <= keys
    - These are products of numbers of documents. They are not 0 for two different documents, either.
          return same & words & past → return queries * keys * past
    - This is the mask that is added to scores, 0 and a large negative number. Asked are True and False.
          return same & words & past → return np.where(same & words & past, 0.0, -1e9)
    - A token sees all documents but its own.
          same = queries == keys → same = queries != keys
    - One condition is enough here, and all are needed: join them with &.
          return same & words & past → return same | words | past
    - The documents are kept apart, but the future is not hidden, nor is padding from padding.
          return same & words & past → return same
    """,
    hints="""
    - Three conditions: the same document, not padding, not later. Each is an array of Booleans, or can be
      broadcast to (B, T, T).
    - `documents[:, :, None] == documents[:, None, :]` compares each query with each key.
    - Padding has equal numbers, too: `documents[:, None, :] != 0` hides it as a key.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def window_gradients(dy, q, k, v, window):
    scale = 1 / np.sqrt(q.shape[-1])
    i = np.arange(q.shape[1])[:, np.newaxis]
    j = np.arange(q.shape[1])
    allowed = (j <= i) & (j > i - window)
    s = np.where(allowed, scale * (q @ k.mT), -np.inf)
    a = softmax(s)[0]
    da = dy @ v.mT
    mean = (a * da).sum(axis=-1, keepdims=True)
    ds = a * (da - mean)
    dq = scale * (ds @ k)
    dk = scale * (ds.mT @ q)
    dv = a.mT @ dy
    return dq, dk, dv


def from_the_last(weights, rows, window):
    """What the last query that sees a key sends it: weights (B, T, T), rows (B, T, width)."""
    j = np.arange(rows.shape[1])
    last = np.minimum(j + window - 1, len(j) - 1)
    return weights[:, last, j][..., np.newaxis] * rows[:, last]


def from_the_end(i, j, window):
    """What a slice that begins at i - window + 1 holds: a negative number counts from the end."""
    first = i - window + 1
    return (j <= i) & (j >= np.where(first < 0, np.maximum(first + len(j), 0), first))


def softmax_of_some(s):
    """ValueError where a row is empty, as the maximum of nothing."""
    if np.isneginf(s).all(axis=-1).any():
        raise ValueError("the maximum of nothing")
    return softmax(s)


WINDOW_GRADIENTS = Exercise(
    window_gradients,
    asks="The whole backward of attention under a mask that has to be made first.",
    outputs="dq dk dv",
    inputs={"dy": VALUES, "q": QUERIES, "k": KEYS, "v": VALUES, "window": WINDOW},
    special={"a window of three": {"window": number(3)}},
    stories="""
    - The window is one too wide: with the query itself it holds `window` positions, j > i - window.
          (j > i - window) → (j >= i - window)
    - The window is one too narrow: the query itself is one of its `window` positions.
          (j > i - window) → (j > i - window + 1)
    - The query does not see itself. It is the last position of its window.
          (j <= i) & (j > i - window) → (j < i) & (j >= i - window)
    - The query does not see itself, and its window has lost that position: it is the last one of its window.
          (j <= i) & (j > i - window) → (j < i) & (j > i - window)
    - The window is not causal, and one too wide: it reaches `window` positions to both sides.
          (j <= i) & (j > i - window) → (np.abs(i - j) <= window)
    - At the start of a sequence i - window + 1 is negative, and in a slice that counts from the end: the
      first queries see nothing. Begin at max(0, i - window + 1).
          (j <= i) & (j > i - window) → from_the_end(i, j, window)
    - At the start of a sequence i - window + 1 is negative, and in a slice that counts from the end: the
      first queries have an empty window. Begin at max(0, i - window + 1).
          (j <= i) & (j > i - window) → from_the_end(i, j, window)
          softmax(s)[0] → softmax_of_some(s)[0]
    - What lies inside the window is hidden, and what lies further back is seen.
          (j <= i) & (j > i - window) → (j <= i - window) | (j == i)
    - These are blocks that lie side by side. A window slides: each query has its own.
          (j <= i) & (j > i - window) → (j <= i) & (i // window == j // window)
    - Each key and each value keeps what the last query sends. Every query that sees them sends a part, and
      they add: `+=`.
          dv = a.mT @ dy → dv = from_the_last(a, dy, window)
          dk = scale * (ds.mT @ q) → dk = scale * from_the_last(ds, q, window)
    - The window is not causal: it reaches as far to the right as to the left.
          (j <= i) & (j > i - window) → (np.abs(i - j) < window)
    - The window lies on the wrong side: after the query.
          (j <= i) & (j > i - window) → (j >= i) & (j < i + window)
    - This is the whole causal mask. What lies further back than the window is hidden, too.
          (j <= i) & (j > i - window) → (j <= i)
    - The window is not used: this is attention without a mask.
          (j <= i) & (j > i - window) → (j == j)
    - Only the edge of the window is used, not the causal mask: later positions are seen.
          (j <= i) & (j > i - window) → (j > i - window)
    - The mask comes after the softmax, so the weights of a row do not add up to 1. Mask the scores.
          s = np.where(allowed, scale * (q @ k.mT), -np.inf) → s = scale * (q @ k.mT)
          a = softmax(s)[0] → a = allowed * softmax(s)[0]
    - This is the right gradient of a wrong layer: the mask comes after the softmax, in the backward as well.
      Mask the scores.
          s = np.where(allowed, scale * (q @ k.mT), -np.inf) → s = scale * (q @ k.mT)
          dv = a.mT @ dy → dv = (allowed * a).mT @ dy
          da = dy @ v.mT → da = allowed * (dy @ v.mT)
    - The mask is used in the backward only: ds is masked, but the weights are those of all positions.
          s = np.where(allowed, scale * (q @ k.mT), -np.inf) → s = scale * (q @ k.mT)
          ds = a * (da - mean) → ds = allowed * a * (da - mean)
    - Hidden scores are set to 0, which is an ordinary score. Set them to -∞.
          -np.inf → 0.0
    - The average is not subtracted in the softmax step.
          ds = a * (da - mean) → ds = a * da
    - An ordinary mean of da stands where the mean weighted by a should.
          mean = (a * da).sum( → mean = da.mean(
    - The scale 1/√K is missing from the scores, so the weights are others.
          scale * (q @ k.mT) → (q @ k.mT)
    - The scale 1/√K is missing from dq and dk.
          dq = scale * (ds → dq = (ds
          dk = scale * (ds → dk = (ds
    - The scale 1/√K is nowhere.
          scale = 1 / np.sqrt(q.shape[-1]) → scale = 1
    - dS is not transposed. A key collects from every query that sees it.
          ds.mT @ q → ds @ q
    - dv is made with dS. A value has the factor a in the output: it collects Aᵀ dY.
          dv = a.mT @ dy → dv = ds.mT @ dy
    - dv is made with the mask in place of the weights.
          dv = a.mT @ dy → dv = (1.0 * allowed).T @ dy
    - A is not transposed in dv. A value collects from every query that sees it.
          a.mT @ dy → a @ dy
    - The softmax runs along the queries. The weights of one query add up to 1: the last axis.
          a = softmax(s)[0] → a = softmax(s.mT)[0].mT
    """,
    hints="""
    - Which keys may query i see? itself, i - 1, …, i - window + 1. Make a Boolean mask (T, T) of that.
    - Then nothing is new: -∞ where it is false, softmax, and the five steps of chapter 8. The backward needs
      no mask, since hidden weights are 0.
    - With `i = np.arange(T)[:, None]` and `j = np.arange(T)` the mask is `(j <= i) & (j > i - window)`.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def bias_gradient(dy, q, k, v, bias, mask):
    scale = 1 / np.sqrt(q.shape[-1])
    u = scale * (q @ k.mT) + bias
    allowed = mask[:, np.newaxis]
    s = np.where(allowed, u, -np.inf)
    a = softmax(s)[0]
    da = dy @ v.mT
    mean = (a * da).sum(axis=-1, keepdims=True)
    ds = a * (da - mean)
    return ds.sum(axis=0)


def naive_softmax(s):
    """NaN in a row of -∞."""
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


BIAS_MASK = mask("B T S")
BIAS_GRADIENT = Exercise(
    bias_gradient,
    asks="A bias that all sequences share, under masks that differ, with queries that see nothing.",
    outputs="dbias",
    inputs={
        "dy": normal("B H T E"),
        "q": normal("B H T K"),
        "k": normal("B H S K"),
        "v": normal("B H S E"),
        "bias": normal("H T S"),
        "mask": BIAS_MASK,
    },
    special={"a query that may look at nothing": {"mask": BIAS_MASK.then(with_a_blind_query)}},
    only={
        "a query that may look at nothing": "By definition its weights are 0, and it sends nothing back.",
    },
    stories="""
    - Not summed over the batch: all sequences share the bias, and gradients of several uses add.
          return ds.sum(axis=0) → return ds
    - A mean over the batch. All sequences share the bias, and their gradients add; if the loss is a mean,
      that has arrived with dy.
          return ds.sum(axis=0) → return ds.mean(axis=0)
    - Summed over the heads, too. Each head has its own bias.
          return ds.sum(axis=0) → return ds.sum(axis=(0, 1))
    - The gradient carries the scale 1/√K. Only the product of query and key is divided by √K; the bias is
      added after that.
          return ds.sum(axis=0) → return scale * ds.sum(axis=0)
    - The bias is scaled with the product. It is added after the division by √K.
          scale * (q @ k.mT) + bias → scale * (q @ k.mT + bias)
    - The bias is missing from the forward: the weights depend on it.
          + bias →
    - The bias is missing from the forward, and the mask, too: the weights depend on both.
          scale * (q @ k.mT) + bias → scale * (q @ k.mT)
          np.where(allowed, u, -np.inf) → u
    - The mask is not used.
          np.where(allowed, u, -np.inf) → u
    - The mask is used in the backward only: ds is masked, but the weights are those of all keys.
          np.where(allowed, u, -np.inf) → u
          ds = a * (da - mean) → ds = allowed * a * (da - mean)
    - The mask comes after the softmax: the hidden keys have taken their share of the denominator.
          np.where(allowed, u, -np.inf) → u
          a = softmax(s)[0] → a = allowed * softmax(s)[0]
    - This is the right gradient of a wrong layer: the mask comes after the softmax, in the backward as well.
      Mask the scores.
          np.where(allowed, u, -np.inf) → u
          da = dy @ v.mT → da = allowed * (dy @ v.mT)
    - The mask of the first sequence is used for all of them. Each has its own.
          allowed = mask[:, np.newaxis] → allowed = mask[:1, np.newaxis]
    - The mask is used the wrong way round: True means that the query may look.
          np.where(allowed, u, -np.inf) → np.where(allowed, -np.inf, u)
    - Hidden scores are set to 0. A score of 0 is an ordinary score: exp(0) = 1. Set them to -∞.
          -np.inf → 0.0
    - The scores are multiplied by the mask, in the forward and in the backward. That sets hidden ones to 0,
      which is an ordinary score: exp(0) = 1. Set them to -∞.
          -np.inf → 0.0
          ds = a * (da - mean) → ds = allowed * a * (da - mean)
    - The scores and the weights are multiplied by the mask. A score of 0 is an ordinary score: exp(0) = 1,
      and hidden keys take their part of the denominator. Set their scores to -∞.
          -np.inf → 0.0
          a = softmax(s)[0] → a = allowed * softmax(s)[0]
    - The mask (B, T, S) has no axis for the heads: beside scores (B, H, T, S) its sequences stand where the
      heads are. Give it one: `mask[:, None]`.
          allowed = mask[:, np.newaxis] → allowed = mask
    - The mask (B, T, S) has no axis for the heads: beside scores (B, H, T, S) its sequences stand where the
      heads are. Give it one: `mask[:, None]`. And a query that may look at nothing gives 0/0.
          allowed = mask[:, np.newaxis] → allowed = mask
          a = softmax(s)[0] → a = naive_softmax(s)
    - Hidden scores are set to their bias alone. They are -∞, whatever the bias says.
          -np.inf → bias
    - Right except for the query that may look at nothing: there it gives NaN, from 0/0, and the sum over the
      batch spreads it. By definition its weights are 0.
          a = softmax(s)[0] → a = naive_softmax(s)
    - A large negative number stands for -∞. A query that may look at nothing then looks at everything
      equally, and sends back a gradient that should be 0.
          -np.inf → -1e9
    - A large negative number is added for -∞. A query that may look at nothing then looks at everything, as
      if there were no mask, and sends back a gradient that should be 0.
          np.where(allowed, u, -np.inf) → u + np.where(allowed, 0.0, -1e9)
    - This is the gradient of the weights, dA, summed over the batch. It has to go through the softmax.
          return ds.sum(axis=0) → return da.sum(axis=0)
    - These are the weights, and not a gradient.
          return ds.sum(axis=0) → return a.sum(axis=0)
    - The average is not subtracted in the softmax step: the scores of a row share a denominator.
          ds = a * (da - mean) → ds = a * da
    - An ordinary mean of da stands where the mean weighted by a should.
          mean = (a * da).sum( → mean = da.mean(
    - Only the diagonal of the softmax's Jacobian is used, a (1 - a).
          ds = a * (da - mean) → ds = a * (1 - a) * da
    - Multiplied by the bias. In the score it stands as a plain term: its local derivative is 1.
          return ds.sum(axis=0) → return (ds * bias).sum(axis=0)
    - The bias is masked, and the scores are not: a hidden score keeps its query times key.
          + bias → + np.where(mask[:, np.newaxis], bias, 0.0)
          np.where(allowed, u, -np.inf) → u
    - Only the first sequence is used. All of them send a gradient.
          return ds.sum(axis=0) → return ds[0]
    - Only the last sequence is used: `=` where `+=` should stand. All of them send a gradient.
          return ds.sum(axis=0) → return ds[-1]
    - Divided by the number of sequences that may look there. Gradients of several uses add; nothing is
      averaged.
          return ds.sum(axis=0) → return ds.sum(axis=0) / np.maximum(mask.sum(axis=0), 1)
    - The softmax runs along the queries. The weights of one query add up to 1: the last axis.
          a = softmax(s)[0] → a = softmax(s.mT)[0].mT
    - This is the gradient of the mean over the queries. Each pair of query and key has its own bias.
          return ds.sum(axis=0) → return ds.mean(axis=(0, 2))
    """,
    hints="""
    - In s = u + bias + M the bias is a plain term: its local derivative is 1, at every pair that is allowed.
    - So dbias is dS, summed over what shares the bias: the batch. Where the mask hides a key, dS is 0
      already.
    - Weights as ever, with the bias in the scores: `softmax` of `handgrad.ops` knows rows of -∞. The mask
      needs an axis for the heads, `mask[:, None]`.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def seen_through(mask, layers):
    itself = np.eye(len(mask), dtype=bool)
    step = mask | itself
    paths = np.linalg.matrix_power(step, layers)
    return paths > 0


def seen_by_layers(mask, layers):
    seen = np.eye(len(mask))
    for _ in range(layers):
        seen = np.sign(seen + mask @ seen)
    return seen


def closure(step):
    """What is reached in any number of layers."""
    return np.linalg.matrix_power(step, len(step))


SEEN_THROUGH = Exercise(
    seen_through,
    asks="How what may be seen spreads through layers with residual connections.",
    outputs="seen",
    inputs={"mask": Draw("S S", visible), "layers": SOME},
    shipped=seen_by_layers,
    special={
        "one layer": {"layers": number(1)},
        "a window of two": {"mask": Draw("S S", band)},
        "four layers": {"layers": number(4)},
        "only the one before": {"mask": Draw("S S", before), "layers": number(3)},
        "sixteen tokens that see each other, 17 layers": DEEP,
    },
    only={"sixteen tokens that see each other, 17 layers": OVERFLOW},
    stories="""
    - The residual connection is forgotten: around every layer a token reaches its own output.
          step = mask | itself → step = mask
    - This is one layer, or its power entry by entry, which is the same: in each further layer a token hands
      on what it has seen. Two layers are a product of matrices.
          return paths > 0 → return step
    - This is the mask. There are several layers, and residual connections around them.
          return paths > 0 → return mask
    - One layer too many.
          (step, layers) → (step, layers + 1)
    - One layer too few: a loop that begins with the first layer runs layers - 1 times more.
          (step, layers) → (step, layers - 1)
    - Turned round: entry (i, j) says whether output i can depend on token j.
          return paths > 0 → return paths.T > 0
    - This is for any number of layers. Whoever needs a longer way is not reached.
          return paths > 0 → return closure(step)
    - These are the numbers of ways from a token to an output. Asked is whether there is one.
          (step, layers) → (step.astype(int), layers)
          return paths > 0 → return paths
    - These are the numbers of ways from a token to an output. Asked is whether there is one.
          (step, layers) → (step.astype(float), layers)
          return paths > 0 → return paths
    - The numbers of ways outgrow the integers, and 16¹⁶ = 2⁶⁴ reads as 0. Ask “is it above 0?” after each
      layer, or multiply Booleans.
          (step, layers) → (step.astype(int), layers)
    - The residual connection is forgotten: around every layer a token reaches its own output. And the numbers
      of ways outgrow the integers: ask “is it above 0?” after each layer, or multiply Booleans.
          step = mask | itself → step = mask.astype(int)
    - Only ways of exactly that length are counted, and the token itself is added at the end. A layer may
      also be passed by its residual connection.
          step = mask | itself → step = mask
          return paths > 0 → return (paths > 0) | itself
    - True and False are exchanged: True where output i can depend on token j.
          return paths > 0 → return paths == 0
    - Everything is said to be seen. Where there is no way, the entry of the product is 0, and that is not
      above 0.
          return paths > 0 → return paths >= 0
    - The first layer has no residual connection here, so the way through the residual connections alone is
      missing. Around every layer a token reaches its own output.
          (step, layers) → (step, layers - 1) @ mask
    - Only the first layer has a residual connection here. All of them have one.
          return paths > 0 → return np.linalg.matrix_power(mask, layers - 1) @ step
    - These are the ways of full length, and the mask. A way may also be shorter, and be passed by residual
      connections.
          return paths > 0 → return np.linalg.matrix_power(mask, layers) | mask
    - Asked for more than one way. One is enough.
          (step, layers) → (step.astype(float), layers)
          return paths > 0 → return paths > 1
    - This is the mask and its square: two layers, of which the first has no residual connection.
          return paths > 0 → return step @ mask
    - The square: two layers, whatever their number.
          (step, layers) → (step, 2)
    """,
    hints="""
    - One layer with its residual connection: output i depends on token i, and on those that it may look at.
    - Two layers: on token j if there is an n such that i sees n and n sees j. That is a product of matrices
      of zeros and ones, read as “is it above 0?”.
    - With `step = mask | np.eye(len(mask), dtype=bool)` multiply by `step` once for each layer. Products of
      Booleans stay Booleans; numbers of ways grow until they no longer fit their type.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def count_leaks(influence, mask, layers):
    step = mask | np.eye(len(mask), dtype=bool)
    paths = np.linalg.matrix_power(step, layers)
    forbidden = paths == 0
    felt = influence != 0
    leaks = forbidden & felt
    return leaks.sum(axis=(1, 2))


def counted_by_layers(influence, mask, layers):
    hidden = seen_by_layers(mask, layers) == 0
    return 1.0 * np.count_nonzero(hidden & ~(influence == 0), axis=(1, 2))


COUNT_LEAKS = Exercise(
    count_leaks,
    asks="Writing a test that looks for leaks just where there must be none, and counts them.",
    outputs="leaks",
    inputs={"influence": Draw("B S S", influences), "mask": Draw("S S", visible), "layers": SOME},
    shipped=counted_by_layers,
    special={
        "a window of two": {"mask": Draw("S S", band)},
        "one layer": {"layers": number(1)},
        "sixteen tokens that see each other, 17 layers": DEEP
        | {"influence": Draw("", lambda rng, shape: influences(rng, (2, 17, 17)))},
    },
    only={"sixteen tokens that see each other, 17 layers": OVERFLOW},
    stories="""
    - Derivatives below a tolerance are let pass. What the mask hides is exactly 0: a small number is a leak,
      too.
          felt = influence != 0 → felt = np.abs(influence) > 1e-12
    - Negative derivatives are let pass. An influence has either sign.
          felt = influence != 0 → felt = influence > 0
    - The mask of one layer is asked for, where several stand above each other. They may pass on what they
      see.
          forbidden = paths == 0 → forbidden = ~step
    - The mask of one layer is asked for, and without its residual connection.
          forbidden = paths == 0 → forbidden = ~mask
    - The residual connections are forgotten: around every layer a token reaches its own output.
          step = mask | np.eye(len(mask), dtype=bool) → step = mask
    - A token that reaches its own output is counted as a leak, too. The residual connection lets it.
          forbidden = paths == 0 → forbidden = (paths == 0) | np.eye(len(mask), dtype=bool)
    - All implementations are counted together. Each has a number of its own.
          leaks.sum(axis=(1, 2)) → leaks.sum()
    - Counted are the outputs that leak, and not the pairs.
          leaks.sum(axis=(1, 2)) → leaks.any(axis=2).sum(axis=1)
    - Counted are the tokens that leak, and not the pairs.
          leaks.sum(axis=(1, 2)) → leaks.any(axis=1).sum(axis=1)
    - This says whether there is a leak. Asked is how many pairs leak.
          leaks.sum(axis=(1, 2)) → leaks.any(axis=(1, 2))
    - This is the share of the pairs that leak. Asked is their number.
          leaks.sum(axis=(1, 2)) → leaks.mean(axis=(1, 2))
    - This is how much leaks: a sum of derivatives, in which signs may cancel. Asked is how many pairs.
          return leaks.sum(axis=(1, 2)) → return np.where(leaks, influence, 0).sum(axis=(1, 2))
    - This is how much leaks: a sum of sizes. Asked is how many pairs.
          return leaks.sum(axis=(1, 2)) → return np.where(leaks, np.abs(influence), 0).sum(axis=(1, 2))
    - Positive derivatives are let pass. An influence has either sign.
          felt = influence != 0 → felt = influence < 0
    - This is the largest derivative that leaks. Asked is how many pairs.
          return leaks.sum(axis=(1, 2)) → return np.where(leaks, np.abs(influence), 0).max(axis=(1, 2))
    - This is the share of the forbidden pairs that leak. Asked is their number.
          return leaks.sum(axis=(1, 2)) → return leaks.sum(axis=(1, 2)) / max(1, forbidden.sum())
    - This is the share of the felt pairs that leak. Asked is their number.
          return leaks.sum(axis=(1, 2)) → return leaks.sum(axis=(1, 2)) / np.maximum(1, felt.sum(axis=(1, 2)))
    - Only leaks from the future are counted. This mask need not be causal; ask what it forbids.
          leaks = forbidden & felt → leaks = forbidden & felt & (np.triu(np.ones(mask.shape), 1) > 0)
    - Counted is what is allowed and not felt. That is no leak.
          leaks = forbidden & felt → leaks = ~forbidden & ~felt
    - Counted are two things: what is forbidden and felt, and what is allowed and not felt. The second is no
      leak.
          leaks = forbidden & felt → leaks = forbidden == felt
    - This lets pass what takes more layers than there are.
          (step, layers) → (step, len(mask))
    - Counted is what is allowed and felt. A leak is what is forbidden and felt.
          forbidden = paths == 0 → forbidden = paths > 0
    - Counted is what is forbidden and 0, which is as it should be.
          felt = influence != 0 → felt = influence == 0
    - Counted are all pairs that are felt, the allowed ones, too.
          leaks = forbidden & felt → leaks = felt
    - Counted are all pairs that are forbidden, whether they are felt or not.
          leaks = forbidden & felt → leaks = forbidden & (influence == influence)
    - The mask is read the wrong way round: entry (i, j) says whether query i may look at key j.
          forbidden = paths == 0 → forbidden = paths.T == 0
    - The future is asked for, not the mask, which need not be causal: ask what it forbids.
          forbidden = paths == 0 → forbidden = np.triu(np.ones(mask.shape), 1) > 0
    - One layer too many.
          (step, layers) → (step, layers + 1)
    - One layer too few.
          (step, layers) → (step, layers - 1)
    - The numbers of ways outgrow the integers, and 16¹⁶ = 2⁶⁴ reads as 0. Ask “is it above 0?” after each
      layer, or multiply Booleans.
          (step, layers) → (step.astype(int), layers)
    """,
    hints="""
    - First, what may influence what: the exercise before. A pair is forbidden if there is no way.
    - A forbidden derivative of a right implementation is exactly 0, so no tolerance is needed.
    - `forbidden & (influence != 0)`, summed over the last two axes.
    """,
)
