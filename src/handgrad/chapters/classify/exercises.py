"""Exercises of chapter 18, heads and losses that it does not show: answers, stories and hints."""

import numpy as np

from ...course.judge.draws import Draw, normal, repeating
from ...course.judge.function import Exercise


def real_tokens(rng, shape):
    """False at padding, which may stand anywhere. Each sequence has padding if it is longer than 2."""
    real, rows, S = rng.random(shape) < 0.6, np.arange(shape[0]), shape[1]
    place = rng.integers(S, size=shape[0])
    real[rows, place] = real[rows, place - 2] = True
    real[rows, place - 1] = S < 3
    return real


REAL = Draw("B S", real_tokens)

# 1 ----------------------------------------------------------------------------------------------------------


def max_pool_dx(dy, x, real):
    seen = np.where(real[:, :, None], x, -np.inf)
    place = seen.argmax(axis=1)
    t = np.arange(x.shape[1])[:, None]
    wins = 1.0 * (t == place[:, None, :])
    return wins * dy[:, None, :]


def one_for_all(sizes, dy):
    """The place of the largest of sizes (B, T), the same for all features: (B, D)."""
    return np.repeat(sizes.argmax(axis=1)[:, None], dy.shape[1], axis=1)


def in_front(real):
    """As many places as there are tokens, at the front."""
    return np.arange(real.shape[1]) < real.sum(axis=1, keepdims=True)


def winners(values):
    """1 where a value is the largest over the places."""
    return 1.0 * (values == values.max(axis=1, keepdims=True))


def winners_along(axis, values):
    """1 at the first of the largest values along an axis."""
    won = np.zeros(values.shape)
    np.put_along_axis(won, values.argmax(axis=axis, keepdims=True), 1, axis=axis)
    return won


MAX_POOL_DX = Exercise(
    max_pool_dx,
    asks="Where the gradient of a maximum goes, feature by feature, when there is padding.",
    outputs="dx",
    inputs={"dy": normal("B D"), "x": normal("B S D").then(lambda x: x - 1), "real": REAL},
    stories="""
    - Padding takes part: where it holds the largest value, it gets the gradient. Hide it before you look for
      the largest.
          seen = np.where(real[:, :, None], x, -np.inf) → seen = x
    - Padding is set to 0, not hidden: where all tokens are negative, 0 is the largest. Put -∞ there.
          np.where(real[:, :, None], x, -np.inf) → np.where(real[:, :, None], x, 0)
    - Padding is set to 0, and then its gradient too. Where all tokens are negative, 0 was the largest, and
      the gradient is lost. Put -∞ there.
          np.where(real[:, :, None], x, -np.inf) → np.where(real[:, :, None], x, 0)
          wins * dy[:, None, :] → real[:, :, None] * wins * dy[:, None, :]
    - Padding wins here and there, and then its gradient is set to 0. The largest is that of the tokens: hide
      padding before you look for it.
          np.where(real[:, :, None], x, -np.inf) → x
          wins * dy[:, None, :] → real[:, :, None] * wins * dy[:, None, :]
    - One place for all features: that of the largest value of all. Each feature has its own largest value.
          place = seen.argmax(axis=1) → place = one_for_all(seen.max(axis=2), dy)
    - One place for all features: that of the largest sum. Each feature has its own largest value.
          place = seen.argmax(axis=1) → place = one_for_all(seen.sum(axis=2), dy)
    - This is the gradient of the mean over the tokens. Of a maximum only the largest gets a gradient.
          wins = 1.0 * (t == place[:, None, :]) → wins = real[:, :, None] / real.sum(axis=1)[:, None, None]
    - This is the gradient of a sum: every token gets dy. Of a maximum only the largest gets a gradient.
          wins = 1.0 * (t == place[:, None, :]) → wins = 1.0 * real[:, :, None] + 0 * x
    - Every place gets dy, padding too. Of a maximum only the largest token gets a gradient.
          wins = 1.0 * (t == place[:, None, :]) → wins = 1.0 + 0 * x
    - The value of the largest stands in the gradient. A maximum passes on what arrives, whatever its value.
          return wins * dy[:, None, :] → return wins * x * dy[:, None, :]
    - dy is not multiplied: this says where the gradient goes, and not what it is.
          return wins * dy[:, None, :] → return wins
    - The smallest value is taken, not the largest.
          seen = np.where(real[:, :, None], x, -np.inf) → seen = np.where(real[:, :, None], -x, -np.inf)
    - The largest absolute value is taken. The maximum is that of the values with their signs.
          np.where(real[:, :, None], x, -np.inf) → np.where(real[:, :, None], np.abs(x), -np.inf)
    - Divided by the number of tokens. A maximum does not share out.
          return wins * dy[:, None, :] → return wins * dy[:, None, :] / real.sum(axis=1)[:, None, None]
    - The mask is turned round: true is a token, and padding was searched.
          np.where(real[:, :, None], x, -np.inf) → np.where(real[:, :, None], -np.inf, x)
    - Of each token the largest feature is taken. The maximum runs over the tokens, for each feature.
          wins = 1.0 * (t == place[:, None, :]) → wins = 1.0 * (seen == seen.max(axis=2, keepdims=True))
    - Of each token the largest feature is taken: argmax runs over the features, and not over the tokens.
          1.0 * (t == place[:, None, :]) → real[:, :, None] * winners_along(2, seen)
    - Of each place the largest feature is taken: argmax runs over the features, and not over the tokens.
          1.0 * (t == place[:, None, :]) → winners_along(2, seen)
    - The largest token is looked for over the batch: argmax runs over the names. Each name has its own.
          1.0 * (t == place[:, None, :]) → real[:, :, None] * winners_along(0, seen)
    - The largest is looked for over the batch, padding too: argmax runs over the names. Each has its own.
          1.0 * (t == place[:, None, :]) → winners_along(0, x)
    - The largest is looked for over the batch, and padding set to 0 afterwards. Each name has its own.
          1.0 * (t == place[:, None, :]) → real[:, :, None] * winners_along(0, x)
    - One value of a name is taken, the largest of all its features. Each feature has its own largest value.
          1.0 * (t == place[:, None, :]) → 1.0 * (seen == seen.max(axis=(1, 2), keepdims=True))
    - Of each token the largest feature is taken, of padding too. The maximum runs over the tokens.
          wins = 1.0 * (t == place[:, None, :]) → wins = 1.0 * (x == x.max(axis=2, keepdims=True))
    - The largest is looked for over the batch. Each name has its own.
          wins = 1.0 * (t == place[:, None, :]) → wins = 1.0 * (seen == seen.max(axis=0, keepdims=True))
    - dy is summed over the batch. What arrives at a name goes to its own tokens.
          return wins * dy[:, None, :] → return wins * dy.sum(axis=0)
    - This is the gradient of a mean over all places, padding too. Of a maximum only the largest gets one.
          wins = 1.0 * (t == place[:, None, :]) → wins = 1 / x.shape[1] + 0 * x
    - The first token gets it all. Each feature looks for its largest token.
          place = seen.argmax(axis=1) → place = one_for_all(real, dy)
    - Padding is set to 0, not hidden: where all tokens are negative, 0 is the largest, and every padding gets
      the gradient. Put -∞ there.
          wins = 1.0 * (t == place[:, None, :]) → wins = winners(x * real[:, :, None])
    - Padding is taken to stand at the end of each name. It may stand anywhere.
          np.where(real[:, :, None], x, -np.inf) → np.where(in_front(real)[:, :, None], x, -np.inf)
    - A token that wins in one feature gets the gradient of all of them. Each feature has its own winner.
          1.0 * (t == place[:, None, :]) → 1.0 * (t == place[:, None, :]).any(axis=2, keepdims=True)
    - This is the gradient of a ReLU: every positive value passes it on. Of a maximum only the largest does.
          wins = 1.0 * (t == place[:, None, :]) → wins = 1.0 * (x > 0) * real[:, :, None]
    - Row 0 gets it all: that is the head of the chapter. Here each feature looks for its largest token.
          wins = 1.0 * (t == place[:, None, :]) → wins = 1.0 * (t == 0 * place[:, None, :])
    - This is the largest value itself, the forward.
          return wins * dy[:, None, :] → return wins * x
    - The gradient is spread by a softmax. A maximum passes all of it to one place.
          1.0 * (t == place[:, None, :]) → np.exp(seen) / np.exp(seen).sum(axis=1, keepdims=True)
    """,
    hints="""
    - One feature of one name first: y is one of the numbers x_t. What is the derivative of y by each of them?
    - `np.where(real[:, :, None], x, -np.inf).argmax(axis=1)` says which place wins, (B, D).
    - Compare it with `np.arange(T)[:, None]`: a (B, T, D) array that is true where a feature was taken.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def counted_calls(rng, shape):
    """A confusion matrix: counts, some rows and columns of which are 0; one language stands in neither."""
    counts = rng.integers(0, 6, shape) + np.diag(rng.integers(0, 9, shape[0]))
    if shape[0] > 3:
        counts[:, 1] = 0
        counts[2] = 0
        counts[3], counts[:, 3] = 0, 0
    if shape[0] > 5:
        counts[:, 4] = 0
        counts[5, 5], counts[5, 0], counts[0, 5] = 0, 3, 2
    return counts


def macro_f1(counts):
    right = np.diag(counts)
    named, called = counts.sum(axis=1), counts.sum(axis=0)
    both = named + called
    occurs = both > 0
    f1 = 2 * right[occurs] / both[occurs]
    return f1.mean()


def f1_of_means(right, named, called, zeros=False):
    """F1 of the mean precision and the mean recall. zeros: 0 counts where they are not defined."""
    P, R = (np.where(n > 0, right / np.maximum(n, 1), 0 if zeros else np.nan) for n in (called, named))
    P, R = np.nanmean(P), np.nanmean(R)
    return 2 * P * R / (P + R)


def root_of_both(right, named, called):
    """√(P R) of each language."""
    return np.sqrt(right / np.maximum(named, 1) * (right / np.maximum(called, 1)))


def mean_of_both(right, named, called):
    """(P + R)/2 of each language."""
    return (right / np.maximum(named, 1) + right / np.maximum(called, 1)) / 2


def f1_of_shares(counts):
    right = np.diag(counts)
    named, called = counts.sum(axis=1), counts.sum(axis=0)
    recall = right / np.maximum(named, 1)
    precision = right / np.maximum(called, 1)
    occurs = named + called > 0
    f1 = 2 * precision * recall / np.where(precision + recall > 0, precision + recall, 1)
    return f1[occurs].mean()


MACRO_F1 = Exercise(
    macro_f1,
    asks="A mean over classes, and what becomes of classes that are never met or never called.",
    outputs="score",
    inputs={"counts": Draw("V V", counted_calls)},
    ways=(f1_of_shares,),
    stories="""
    - This is the accuracy, or F1 over all names together, which is the same: frequent languages count more.
      Take F1 of each language first, and then the mean.
          return f1.mean() → return right.sum() / counts.sum()
    - This is the mean recall: what share of the names of a language is found. F1 also asks how many of the
      names that were called so are so.
          f1 = 2 * right[occurs] / both[occurs] → f1 = right[named > 0] / named[named > 0]
    - This is the mean recall, 0 for a language without names. F1 also asks how many of the names that were
      called so are so.
          f1 = 2 * right[occurs] / both[occurs] → f1 = right[occurs] / np.maximum(named, 1)[occurs]
    - This is the mean precision: what share of the names that were called so are so. F1 also asks what share
      of the names of a language is found.
          f1 = 2 * right[occurs] / both[occurs] → f1 = right[called > 0] / called[called > 0]
    - This is the mean precision, 0 for a language that is never called. F1 also asks what share of the names
      of a language is found.
          f1 = 2 * right[occurs] / both[occurs] → f1 = right[occurs] / np.maximum(called, 1)[occurs]
    - A language that stands in neither counts as 0. It was not asked and not said: leave it out of the mean.
          return f1.mean() → return f1.sum() / len(counts)
    - A language that stands in neither counts as 1. It was not asked and not said: leave it out of the mean.
          return f1.mean() → return (f1.sum() + (~occurs).sum()) / len(counts)
    - Languages without names are left out, also those that were called all the same. Such a call is a mistake
      and makes F1 of that language 0.
          occurs = both > 0 → occurs = named > 0
    - Languages that were never called are left out. They have names, and none was found: F1 is 0.
          occurs = both > 0 → occurs = called > 0
    - Only languages that have names and were called count here. With one of the two missing, F1 is 0, and
      belongs to the mean.
          occurs = both > 0 → occurs = (named > 0) & (called > 0)
    - Only languages with a right call count here. Where nothing is right, F1 is 0, and belongs to the mean.
          occurs = both > 0 → occurs = right > 0
    - The factor 2 is missing: F1 is 2PR/(P + R), which is 1 where both are 1.
          2 * right[occurs] → right[occurs]
    - This is F1 of the two means. Take F1 of each language, and then the mean.
          return f1.mean() → return f1_of_means(right, named, called)
    - F1 of each language is weighted by its number of names. In this mean all languages count alike.
          return f1.mean() → return (f1 * named[occurs]).sum() / named.sum()
    - This is the mean of precision and recall. F1 is their harmonic mean.
          f1 = 2 * right[occurs] / both[occurs] → f1 = mean_of_both(right, named, called)[occurs]
    - The geometric mean of precision and recall stands here. F1 is their harmonic mean, 2PR/(P + R).
          f1 = 2 * right[occurs] / both[occurs] → f1 = root_of_both(right, named, called)[occurs]
    - This is F1 of the two means, 0 where one is not defined. Take F1 of each language, and then the mean.
          return f1.mean() → return f1_of_means(right, named, called, zeros=True)
    - This is F1 of the means of precision and recall over the languages that occur. Take F1 of each language,
      and then the mean.
          return f1.mean() → return f1_of_means(right[occurs], named[occurs], called[occurs], zeros=True)
    - This is F1 of the means of precision and recall over the languages that have names. Take F1 of each
      language, and then the mean.
          return f1.mean() → return f1_of_means(*(n[named > 0] for n in (right, named, called)), zeros=True)
    - This is F1 of the means of precision and recall over the languages that are called. Take F1 of each
      language, and then the mean.
          return f1.mean() → return f1_of_means(*(n[called > 0] for n in (right, named, called)), zeros=True)
    - This is F1 of the means of precision and recall over the languages that have names and are called. Take
      F1 of each language, and then the mean; with one of the two missing it is 0.
          return f1.mean() → return f1_of_means(*(n[named * called > 0] for n in (right, named, called)))
    - This is a sum over the languages. The score is their mean.
          f1.mean() → f1.sum()
    - This is right over everything that is right, missed or wrongly called. F1 counts what is right twice,
      above and below.
          f1 = 2 * right[occurs] / both[occurs] → f1 = right[occurs] / (both - right)[occurs]
    """,
    hints="""
    - Of language k: precision P is the share of the names called k that are k, recall R the share of the
      names of k that are called k. Both have counts[k, k] above.
    - 2PR/(P + R) = 2 counts[k, k] / (row sum + column sum). So nothing has to be divided by 0, except where
      both sums are 0.
    - `occurs = counts.sum(axis=0) + counts.sum(axis=1) > 0` says which languages belong to the mean.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def some_known(rng, shape):
    """True where an answer is known: some in each column, not all."""
    known = rng.random(shape) < 0.6
    known.flat[0], known.flat[-1] = True, known.size == 1
    return known


def several_labels_du(u, y, known, w):
    sigma = 1 / (1 + np.exp(-u))
    m = known.sum()
    of_yes = w * y * (sigma - 1)
    of_no = (1 - y) * sigma
    return known * (of_yes + of_no) / m


SEVERAL_LABELS_DU = Exercise(
    several_labels_du,
    asks="Yes-or-no losses with weights and unknown answers, and the denominator of their mean.",
    outputs="du",
    inputs={
        "u": normal("B V"),
        "y": Draw("B V", lambda rng, shape: rng.integers(2, size=shape)),
        "known": Draw("B V", some_known),
        "w": Draw("V", lambda rng, shape: rng.uniform(1.5, 5.0, shape)),
    },
    stories="""
    - The weight stands at both terms. It multiplies the term of a yes only.
          of_no = (1 - y) * sigma → of_no = w * (1 - y) * sigma
    - The weight stands at the term of a no. It belongs to that of a yes.
          of_yes = w * y * (sigma - 1) → of_yes = y * (sigma - 1)
          of_no = (1 - y) * sigma → of_no = w * (1 - y) * sigma
    - The weight is missing.
          of_yes = w * y * (sigma - 1) → of_yes = y * (sigma - 1)
    - The weight multiplies y and not the term: σ belongs to it as well, w y (σ - 1).
          of_yes = w * y * (sigma - 1) → of_yes = y * (sigma - w)
    - This is a softmax, with one right answer. Here each language is asked by itself, yes or no: a sigmoid.
          sigma = 1 / (1 + np.exp(-u)) → sigma = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
    - Divided by the number of all entries. The mean is taken over those that are known.
          m = known.sum() → m = known.size
    - Divided by the number of names. The mean is taken over all entries that are known.
          m = known.sum() → m = len(u)
    - Divided by the number of languages. The mean is taken over all entries that are known.
          m = known.sum() → m = u.shape[1]
    - Each name is divided by the number of its own known entries. The mean is one over all of them.
          m = known.sum() → m = np.maximum(known.sum(axis=1, keepdims=True), 1)
    - Each language is divided by the number of its own known entries. The mean is one over all of them.
          m = known.sum() → m = np.maximum(known.sum(axis=0), 1)
    - Not divided: this is the gradient of a sum.
          known.sum() → 1
    - A mean of means: each name is divided by the number of its own known entries, and then by the number of
      names. The mean is one over all known entries.
          m = known.sum() → m = np.maximum(known.sum(axis=1, keepdims=True), 1) * len(u)
    - The sign in the exponent is missing: this σ falls where the score rises.
          np.exp(-u) → np.exp(u)
    - The weight multiplies the score inside σ. It belongs before the logarithm of a yes.
          np.exp(-u) → np.exp(-w * u)
    - An entry that is not known gets a gradient. Nothing is asked there.
          return known * (of_yes + of_no) / m → return (of_yes + of_no) / m
    - Where nothing is known the score is set to 0, and gets a gradient all the same: σ(0) is ½. Multiply the
      gradient by `known`, not the score.
          sigma = 1 / (1 + np.exp(-u)) → sigma = 1 / (1 + np.exp(-u * known))
          return known * (of_yes + of_no) / m → return (of_yes + of_no) / m
    - Score and answer are set to 0 where nothing is known, and the score gets a gradient all the same, that
      of a no with σ(0) = ½. Multiply the gradient by `known`.
          sigma = 1 / (1 + np.exp(-u)) → sigma = 1 / (1 + np.exp(-u * known))
          of_yes = w * y * (sigma - 1) → of_yes = known * w * y * (sigma - 1)
          of_no = (1 - y) * sigma → of_no = (1 - known * y) * sigma
          return known * (of_yes + of_no) / m → return (of_yes + of_no) / m
    - σ is set to 0 where nothing is known. There a yes still gets a gradient, as if it were missed for sure.
      Multiply the gradient by `known`, not σ.
          sigma = 1 / (1 + np.exp(-u)) → sigma = known / (1 + np.exp(-u))
          return known * (of_yes + of_no) / m → return (of_yes + of_no) / m
    - An entry that is not known is taken for a no.
          of_yes = w * y * (sigma - 1) → of_yes = known * w * y * (sigma - 1)
          of_no = (1 - y) * sigma → of_no = (1 - known * y) * sigma
          return known * (of_yes + of_no) / m → return (of_yes + of_no) / m
    - An entry that is not known is taken for a no, and counts in m.
          m = known.sum() → m = known.size
          of_yes = w * y * (sigma - 1) → of_yes = known * w * y * (sigma - 1)
          of_no = (1 - y) * sigma → of_no = (1 - known * y) * sigma
          return known * (of_yes + of_no) / m → return (of_yes + of_no) / m
    - The gradient has gone through the sigmoid once more: the derivative by u has no factor σ(1 - σ) left.
          return known * (of_yes + of_no) / m → return known * (of_yes + of_no) * sigma * (1 - sigma) / m
    - This is the derivative by the probability σ, and not by the score u: multiply by σ(1 - σ).
          of_yes = w * y * (sigma - 1) → of_yes = -w * y / sigma
          of_no = (1 - y) * sigma → of_no = (1 - y) / (1 - sigma)
    - The sign is wrong: where the answer is yes, a higher score makes the loss smaller.
          of_yes + of_no → -of_yes - of_no
    - Divided by the sum of the weights of the known yes and the number of the known no. Here m is the plain
      number of known entries.
          m = known.sum() → m = (known * (w * y + 1 - y)).sum()
    - The term of a no is missing. A language that is known not to spell it so has a score that should fall.
          (of_yes + of_no) → of_yes
    - The term of a yes is missing.
          (of_yes + of_no) → of_no
    """,
    hints="""
    - One entry first. ln σ(u) has the derivative 1 - σ(u), and ln(1 - σ(u)) the derivative -σ(u).
    - For a yes the loss is -w ln σ, for a no -ln(1 - σ). Only one of the two is there.
    - `known * (...) / known.sum()`: nothing where nothing is known.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def attention_pool_backward(dy, x, w, real):
    s = np.where(real, x @ w, -np.inf)
    e = np.exp(s - s.max(axis=1, keepdims=True))
    a = e / e.sum(axis=1, keepdims=True)
    da = (x * dy[:, None, :]).sum(axis=2)
    mean = (a * da).sum(axis=1, keepdims=True)
    ds = a * (da - mean)
    as_value = a[:, :, None] * dy[:, None, :]
    as_key = ds[:, :, None] * w
    dx = as_value + as_key
    dw = (ds[:, :, None] * x).sum(axis=(0, 1))
    return dx, dw


ATTENTION_POOL_BACKWARD = Exercise(
    attention_pool_backward,
    asks="A token that counts as a value and through its score, under a softmax with padding.",
    outputs="dx dw",
    inputs={
        "dy": normal("B D"),
        "x": repeating("B S D").then(lambda x: x / 2),
        "w": normal("D"),
        "real": REAL,
    },
    stories="""
    - dx has the path through the average only. x_t is read twice: it also makes the score that its weight
      comes from.
          dx = as_value + as_key → dx = as_value
    - dx has the path through the score only. x_t is read twice: it is also what is averaged.
          dx = as_value + as_key → dx = as_key
    - In the softmax the mean of da is not taken away: a larger weight makes all others smaller.
          ds = a * (da - mean) → ds = a * da
    - The plain mean of da is taken away. It is the mean with the weights a.
          mean = (a * da).sum(axis=1, keepdims=True) → mean = da.mean(axis=1, keepdims=True)
    - The softmax is passed by as if each weight depended on its own score only: a(1 - a) stands where
      a(da - Σ a da) should.
          ds = a * (da - mean) → ds = a * (1 - a) * da
    - The gradient by the weights stands where the gradient by the scores should: go through the softmax.
          ds = a * (da - mean) → ds = da
    - Padding takes part in the softmax. Hide it before: with -∞ as a score its weight is 0.
          s = np.where(real, x @ w, -np.inf) → s = x @ w
    - Padding has the score 0, not -∞: its weight is not 0.
          s = np.where(real, x @ w, -np.inf) → s = np.where(real, x @ w, 0)
    - Padding has the score 0, not -∞: its weight is not 0, and the tokens share with it. That no gradient
      goes into its score does not mend this.
          s = np.where(real, x @ w, -np.inf) → s = np.where(real, x @ w, 0)
          ds = a * (da - mean) → ds = real * a * (da - mean)
    - Padding has the score 0, not -∞: its weight is not 0, and the tokens share with it. That both its
      gradients are set to 0 does not mend this.
          s = np.where(real, x @ w, -np.inf) → s = np.where(real, x @ w, 0)
          ds = a * (da - mean) → ds = real * a * (da - mean)
          dx = as_value + as_key → dx = real[:, :, None] * (as_value + as_key)
    - Padding has the score 0, not -∞: its weight is not 0, and the tokens share with it. That its dx is set
      to 0 afterwards does not mend this.
          s = np.where(real, x @ w, -np.inf) → s = np.where(real, x @ w, 0)
          dx = as_value + as_key → dx = real[:, :, None] * (as_value + as_key)
    - The rows of padding are set to 0, and then their scores are 0, not -∞: their weights are not 0, and the
      average is too small.
          s = np.where(real, x @ w, -np.inf) → s = np.where(real, x @ w, 0)
          da = (x * dy[:, None, :]).sum(axis=2) → da = real * (x * dy[:, None, :]).sum(axis=2)
          dx = as_value + as_key → dx = real[:, :, None] * (as_value + as_key)
          dw = (ds[:, :, None] * x) → dw = (ds[:, :, None] * real[:, :, None] * x)
    - The rows of padding are set to 0, and then their scores are 0, not -∞: they get a weight, and a
      gradient.
          s = np.where(real, x @ w, -np.inf) → s = np.where(real, x @ w, 0)
          da = (x * dy[:, None, :]).sum(axis=2) → da = real * (x * dy[:, None, :]).sum(axis=2)
          dw = (ds[:, :, None] * x) → dw = (ds[:, :, None] * real[:, :, None] * x)
    - Padding takes part in the softmax, and only its dx is set to 0 afterwards. Hide it before: with -∞ as a
      score its weight is 0.
          s = np.where(real, x @ w, -np.inf) → s = x @ w
          dx = as_value + as_key → dx = real[:, :, None] * (as_value + as_key)
    - The softmax runs over the batch. Each name has its own, over its places.
          s = np.where(real, x @ w, -np.inf) → s = np.where(real, x @ w, -1e30)
          e = np.exp(s - s.max(axis=1, keepdims=True)) → e = np.exp(s - s.max(axis=0))
          a = e / e.sum(axis=1, keepdims=True) → a = e / e.sum(axis=0)
          mean = (a * da).sum(axis=1, keepdims=True) → mean = (a * da).sum(axis=0)
    - The softmax runs over the batch, its backward over the places. Each name has its own softmax.
          s = np.where(real, x @ w, -np.inf) → s = np.where(real, x @ w, -1e30)
          e = np.exp(s - s.max(axis=1, keepdims=True)) → e = np.exp(s - s.max(axis=0))
          a = e / e.sum(axis=1, keepdims=True) → a = e / e.sum(axis=0)
    - One softmax runs over all names. Each name has its own, over its places.
          e = np.exp(s - s.max(axis=1, keepdims=True)) → e = np.exp(s - s.max())
          a = e / e.sum(axis=1, keepdims=True) → a = e / e.sum()
          mean = (a * da).sum(axis=1, keepdims=True) → mean = (a * da).sum()
    - dw is made with dy and the weights a: that is the way of x_t through the average. w stands in the scores
      only, and gets ds_t x_t.
          dw = (ds[:, :, None] * x) → dw = (a[:, :, None] * dy[:, None, :])
    - dw is y times dy, summed over the batch: that is the way of the rows into the average. w stands in the
      scores only, and gets ds_t x_t.
          dw = (ds[:, :, None] * x) → dw = (a[:, :, None] * x * dy[:, None, :])
    - dw is made with da and the weights a, without the softmax: w stands in the scores, and gets ds_t x_t.
          dw = (ds[:, :, None] * x) → dw = ((a * da)[:, :, None] * x)
    - The weights are those of all places, with 0 written at padding afterwards: those of the tokens no longer
      add up to 1.
          s = np.where(real, x @ w, -np.inf) → s = x @ w
          a = e / e.sum(axis=1, keepdims=True) → a = real * e / e.sum(axis=1, keepdims=True)
    - dw keeps the axis of the batch. One w serves all names: sum over them too.
          .sum(axis=(0, 1)) → .sum(axis=1)
    - dw is a mean over the batch. One w serves all names, and gradients add.
          .sum(axis=(0, 1)) → .sum(axis=1).mean(axis=0)
    - dw is a mean over all places. One w serves all of them, and gradients add.
          .sum(axis=(0, 1)) → .mean(axis=(0, 1))
    - The weights are equal here, those of a mean. They come from the scores x·w.
          a = e / e.sum(axis=1, keepdims=True) → a = real / real.sum(axis=1, keepdims=True)
    - dw is made with the weights a where the gradient ds of the scores belongs.
          dw = (ds[:, :, None] * x) → dw = (a[:, :, None] * x)
    - In dx, on the way over the score, x stands where w should: the derivative of x·w by x is w.
          as_key = ds[:, :, None] * w → as_key = ds[:, :, None] * x
    - The scores are divided by √D here. The task does not scale them.
          s = np.where(real, x @ w, -np.inf) → s = np.where(real, x @ w / np.sqrt(len(w)), -np.inf)
          ds = a * (da - mean) → ds = a * (da - mean) / np.sqrt(len(w))
    - dx is the forward, the average itself.
          dx = as_value + as_key → dx = (a[:, :, None] * x).sum(axis=1, keepdims=True) + 0 * x
    - The signs of the two paths differ. Both add.
          dx = as_value + as_key → dx = as_value - as_key
    - The mean that is taken away is Σ da, without the weights.
          mean = (a * da).sum(axis=1, keepdims=True) → mean = da.sum(axis=1, keepdims=True)
    """,
    hints="""
    - It is one query of an attention, whose keys and values are the same rows x: what does each of the two
      uses send back?
    - Backward: da_t = x_t·dy, then ds_t = a_t (da_t - Σ a da), as for every softmax.
    - dx_t = a_t dy + ds_t w. And w stands in the score of every place of every name.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def lengths(rows):
    return np.sqrt((rows**2).sum(axis=1))


def of_columns(s):
    """The gradient of the other direction: for each v a softmax over all u."""
    q = np.exp(s - s.max(axis=0))
    return (q / q.sum(axis=0) - np.eye(len(s))) / len(s)


def contrastive_gradients(u, v, tau):
    s = u @ v.T / tau
    e = np.exp(s - s.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    B = len(u)
    ds = (p - np.eye(B)) / B
    du = ds @ v / tau
    dv = ds.T @ u / tau
    dtau = -(ds * s).sum() / tau
    return du, dv, dtau


CONTRASTIVE_GRADIENTS = Exercise(
    contrastive_gradients,
    asks="A product of two encodings under a softmax, back to both and to the temperature.",
    outputs="du dv dtau",
    inputs={
        "u": normal("S D"),
        "v": normal("S D"),
        "tau": Draw("", lambda rng, shape: rng.uniform(0.4, 0.8)),
    },
    special={"similarities in the thousands": {"u": normal("S D").then(lambda u: 900 * u)}},
    only={
        "similarities in the thousands": "There exp overflows, unless the largest of each row is taken away "
        "first."
    },
    stories="""
    - dv is not transposed: column j of ds belongs to v_j.
          dv = ds.T @ u → dv = ds @ u
    - dv has the own pairs only. v_j stands in the similarities of every u, and each of the others pushes it
      away, by p.
          dv = ds.T @ u / tau → dv = -u / (B * tau)
    - du has the own pairs only. u_i stands in the similarities to every v, and each of the others pushes it
      away, by p.
          du = ds @ v / tau → du = -v / (B * tau)
    - In dv stands p where ds should: of the own pair 1 is to be taken away.
          dv = ds.T @ u / tau → dv = p.T @ u / (B * tau)
    - In du stands p where ds should: of the own pair 1 is to be taken away.
          du = ds @ v / tau → du = p @ v / (B * tau)
    - In dtau stands p where ds should: of the own pair 1 is to be taken away.
          dtau = -(ds * s).sum() / tau → dtau = -(p * s).sum() / (B * tau)
    - dv belongs to the other direction, a softmax for each v over all u. It is a column of the same ds.
          dv = ds.T @ u / tau → dv = of_columns(s).T @ u / tau
    - In du the own u stands where v should.
          du = ds @ v / tau → du = ds @ u / tau
    - Not divided by the number of names: the loss is a mean.
          (p - np.eye(B)) / B → (p - np.eye(B))
    - Divided by the number of pairs. The loss is a mean over the names, and each has one softmax.
          (p - np.eye(B)) / B → (p - np.eye(B)) / B**2
    - τ is missing in du and dv: the similarity is divided by it, and so is its gradient.
          du = ds @ v / tau → du = ds @ v
          dv = ds.T @ u / tau → dv = ds.T @ u
    - τ is missing in du.
          du = ds @ v / tau → du = ds @ v
    - τ is missing in dv.
          dv = ds.T @ u / tau → dv = ds.T @ u
    - τ multiplies where it divides.
          s = u @ v.T / tau → s = u @ v.T * tau
          du = ds @ v / tau → du = ds @ v * tau
          dv = ds.T @ u / tau → dv = ds.T @ u * tau
    - The softmax runs along the wrong axis: for each u it compares all v, a row of s.
          s.max(axis=1, keepdims=True) → s.max(axis=0, keepdims=True)
          e.sum(axis=1, keepdims=True) → e.sum(axis=0, keepdims=True)
    - One softmax over all pairs. Each u has its own.
          e = np.exp(s - s.max(axis=1, keepdims=True)) → e = np.exp(s - s.max())
          e.sum(axis=1, keepdims=True) → e.sum()
    - Only the right pairs get a gradient. Every other v is pushed away, by p.
          ds = (p - np.eye(B)) / B → ds = np.eye(B) * (p - np.eye(B)) / B
    - The right pairs get no gradient. Each u is pulled to its own v, by 1 - p.
          ds = (p - np.eye(B)) / B → ds = (1 - np.eye(B)) * p / B
    - The identity is missing: ds is p without what is asked.
          (p - np.eye(B)) / B → p / B
    - Both directions are counted, from u to v and from v to u. The task asks for one.
          ds = (p - np.eye(B)) / B → ds = (p - np.eye(B)) / B + of_columns(s)
    - The mean of both directions is taken, from u to v and from v to u. The task asks for the first.
          ds = (p - np.eye(B)) / B → ds = ((p - np.eye(B)) / B + of_columns(s)) / 2
    - The rows are divided by their lengths in the softmax: a cosine. The task takes the plain product.
          s = u @ v.T / tau → s = u @ v.T / tau / lengths(u)[:, None] / lengths(v)
    - The gradient by τ lacks its sign: where s is multiplied by less, a larger τ makes it smaller.
          dtau = -(ds * s).sum() / tau → dtau = (ds * s).sum() / tau
    - dtau is Σ ds s, the derivative by the logarithm of 1/τ. By τ it is -1/τ times as large.
          dtau = -(ds * s).sum() / tau → dtau = (ds * s).sum()
    - dtau is divided by τ once too often: s contains one 1/τ already.
          dtau = -(ds * s).sum() / tau → dtau = -(ds * s).sum() / tau**2
    - dtau lacks a 1/τ: the derivative of 1/τ is -1/τ², and s contains one of these only.
          dtau = -(ds * s).sum() / tau → dtau = -(ds * s).sum()
    - dtau is a mean over the pairs. τ stands in all of them, and gradients add.
          dtau = -(ds * s).sum() / tau → dtau = -(ds * s).mean() / tau
    - dtau takes the right pairs only. τ stands in all similarities.
          dtau = -(ds * s).sum() / tau → dtau = -np.trace(ds * s) / tau
    - dtau is the derivative by 1/τ. Multiply by -1/τ².
          dtau = -(ds * s).sum() / tau → dtau = (ds * s).sum() * tau
    - The signs are wrong: u should move towards its own v, so the gradient points away from it.
          (p - np.eye(B)) → (np.eye(B) - p)
    """,
    hints="""
    - Row i of s = u vᵀ/τ are the logits of a classification with B answers; the right one is i.
    - ds = (p - I)/B. Then s is a product of two matrices, each of which gets its gradient through the other.
    - τ stands in every entry of s, and ∂s/∂τ = -s/τ.
    """,
)
