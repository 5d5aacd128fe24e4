"""Exercises of chapter 14. Each is its right answer, and what to say about it."""

import numpy as np

from ...course.judge.derivation import Derivation
from ...course.judge.draws import Draw, normal, number
from ...course.judge.function import Exercise

# 1 ----------------------------------------------------------------------------------------------------------


def leaky_variance(a, D):
    share = (1 + a**2) / 2
    return 1 / (D * share)


LEAKY = Derivation(
    leaky_variance,
    asks="The mean square behind an activation that is not symmetric, solved for the weights.",
    domains={"a": "positive", "D": "count"},
    stories="""
    - This is the number for ReLU. The negative half is kept as well, multiplied by a.
          (1 + a**2) / 2 → 1 / 2
    - The slopes are averaged. What is halved and added is squares: z² above 0 and a² z² below.
          (1 + a**2) / 2 → (1 + a) / 2
    - The square of a mean of slopes. The mean of the squares is asked for: z² above 0 and a² z² below.
          (1 + a**2) / 2 → ((1 + a) / 2) ** 2
    - The half is missing: z is positive only half of the time, and negative half of the time.
          (1 + a**2) / 2 → 1 + a**2
    - Upside down: what the activation takes away, the weights must give back.
          1 / (D * share) → share / D
    - This is the standard deviation. The variance is asked for.
          1 / (D * share) → 1 / sqrt(D * share)
    - The number of inputs is missing: a sum of D products grows with D.
          1 / (D * share) → 1 / share
    - A minus between the halves: squares of both halves are positive.
          (1 + a**2) / 2 → (1 - a**2) / 2
    - Only the negative half is there. The positive one passes unchanged.
          (1 + a**2) / 2 → a**2 / 2
    - The positive half is missing; of the negative one no half is taken.
          (1 + a**2) / 2 → a**2
    - D multiplies the whole share, not one of its terms.
          1 / (D * share) → 2 / (D + a**2)
    - The numbers for the two halves were added. It is the shares of the halves that add up.
          1 / (D * share) → 2 / D + 2 / (D * a**2)
    - This is the share that the activation keeps, without the layer before it.
          1 / (D * share) → share
    - This is the bound of a uniform law, √(3 σ²). The variance is asked for.
          1 / (D * share) → sqrt(3 / (D * share))
    - The weights before the activation alone: without it 1/D would be right.
          1 / (D * share) → 1 / D
    """,
    hints="""
    - What is f(z)² + f(-z)², for any z?
    - The law of z is symmetric, so the mean of f(z)² is half the mean of that sum.
    - The variance times D times this share is 1.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def unscaled_and_clipped(dW, db, counts, s, R):
    share = counts / counts.sum()
    gW = np.tensordot(share, dW, 1) / s
    gb = share @ db / s
    length = np.sqrt((gW**2).sum() + (gb**2).sum())
    factor = np.minimum(1, R / length)
    return factor * gW, factor * gb


def alone(g, R):
    """g, clipped without regard to other arrays."""
    return np.minimum(1, R / np.sqrt((g**2).sum())) * g


def mean_of_clipped(share, g, dW, db, R):
    """The sum of share · g over the first axis, each part clipped by the length of its dW and db."""
    lengths = np.sqrt((dW**2).sum(axis=(1, 2)) + (db**2).sum(axis=1))
    clipped = [min(1, R / length) * part for length, part in zip(lengths, g, strict=True)]
    return np.tensordot(share, clipped, 1)


def different(rng, shape):
    """Counts that all differ."""
    return 1.0 + 3 * rng.permutation(*shape)


def times(value):
    return lambda x: value * x


UNSCALED = Exercise(
    unscaled_and_clipped,
    asks="The order in which to average, to remove the scale and to clip; and what the clip measures.",
    outputs="gW gb",
    inputs={
        "dW": normal("B D F").then(times(8.0)),
        "db": normal("B F").then(times(8.0)),
        "counts": Draw("B", different),
        "s": number(8.0),
        "R": number(0.4),
    },
    special={
        "a gradient that is short even with its scale": {
            "dW": normal("B D F").then(times(0.002)),
            "db": normal("B F").then(times(0.002)),
        },
        "a gradient that need not be clipped": {
            "dW": normal("B D F").then(times(0.4)),
            "db": normal("B F").then(times(0.4)),
        },
    },
    stories="""
    - The plain mean of the parts. A part with more examples weighs more in the mean over the batch.
          share = counts / counts.sum() → share = np.ones(len(dW)) / len(dW)
    - Weighted by the counts, which are not yet shares: the sum of all examples stands below.
          share = counts / counts.sum() → share = counts
    - The counts are divided by the number of parts. The number of all examples stands below.
          share = counts / counts.sum() → share = counts / len(dW)
    - Each part is divided by its count. It is a mean already; to be added, it is multiplied by it.
          share = counts / counts.sum() → share = 1 / counts
    - The parts are added and divided by the number of all examples. Each is a mean, not a sum.
          share = counts / counts.sum() → share = np.ones(len(dW)) / counts.sum()
    - Each part is divided by its count, and the mean is taken. A part with more examples weighs more.
          share = counts / counts.sum() → share = 1 / counts / len(dW)
    - The weight gradient is averaged, the bias gradient added. Both are means over examples.
          gb = share @ db / s → gb = db.sum(axis=0) / s
    - The stack of all parts is clipped, and then added: first one gradient, then its length.
          gW = np.tensordot(share, dW, 1) / s → gW = dW.sum(axis=0) / s
          gb = share @ db / s → gb = db.sum(axis=0) / s
          np.sqrt((gW**2).sum() + (gb**2).sum()) → np.sqrt((dW**2).sum() + (db**2).sum()) / s
    - The parts of the batch are added. The gradient of the whole batch is their mean, weighted by the counts.
          gW = np.tensordot(share, dW, 1) / s → gW = dW.sum(axis=0) / s
          gb = share @ db / s → gb = db.sum(axis=0) / s
    - Never divided by s: what was multiplied into the loss must come out of the gradient.
          gW = np.tensordot(share, dW, 1) / s → gW = np.tensordot(share, dW, 1)
          gb = share @ db / s → gb = share @ db
    - Multiplied by s a second time. The gradients came s times too large.
          gW = np.tensordot(share, dW, 1) / s → gW = np.tensordot(share, dW, 1) * s
          gb = share @ db / s → gb = share @ db * s
    - Clipped before dividing by s: the scaled gradient is s times too long for R.
          R / length → R / (s * length)
    - Each array is clipped by itself, which turns the direction: W and b share one length.
          return factor * gW, factor * gb → return alone(gW, R), alone(gb, R)
    - Always brought to the length R: a short gradient stays as it is.
          np.minimum(1, R / length) → R / length
    - The factor is the larger of the two; so long gradients stay, and short ones are made long.
          np.minimum → np.maximum
    - Each part of the batch is clipped, and then averaged. The mean is to be clipped: average first.
          gW = np.tensordot(share, dW, 1) / s → gW = mean_of_clipped(share, dW / s, dW / s, db / s, R)
          gb = share @ db / s → gb = mean_of_clipped(share, db / s, dW / s, db / s, R)
          np.minimum(1, R / length) → 1
    - Each part is clipped, and the parts are added. The mean is to be clipped: average first.
          gW = np.tensordot(share, dW, 1) / s → gW = mean_of_clipped(1 + 0 * share, dW / s, dW / s, db / s, R)
          gb = share @ db / s → gb = mean_of_clipped(1 + 0 * share, db / s, dW / s, db / s, R)
          np.minimum(1, R / length) → 1
    - The root is missing: a length is the root of the sum of squares.
          np.sqrt((gW**2).sum() + (gb**2).sum()) → (gW**2).sum() + (gb**2).sum()
    - Lengths do not add: their squares do.
          np.sqrt((gW**2).sum() + (gb**2).sum()) → np.sqrt((gW**2).sum()) + np.sqrt((gb**2).sum())
    - The bias is missing from the length: all parameters together make one vector.
          (gW**2).sum() + (gb**2).sum() → (gW**2).sum()
    - The bias is not clipped. All gradients get the same factor.
          return factor * gW, factor * gb → return factor * gW, gb
    - Each entry is cut by itself, which turns the direction. The vector is to be shortened.
          return factor * gW, factor * gb → return np.clip(gW, -R, R), np.clip(gb, -R, R)
    - Not clipped at all.
          return factor * gW, factor * gb → return gW, gb
    - Sizes were added. The length is the root of the sum of squares.
          np.sqrt((gW**2).sum() + (gb**2).sum()) → np.abs(gW).sum() + np.abs(gb).sum()
    - The largest entry in place of the length.
          np.sqrt((gW**2).sum() + (gb**2).sum()) → np.maximum(np.abs(gW).max(), np.abs(gb).max())
    - norm(·, 2) of a matrix is its largest singular value. All entries are to count as one vector.
          np.sqrt((gW**2).sum() + (gb**2).sum()) → np.sqrt(np.linalg.norm(gW, 2) ** 2 + (gb**2).sum())
    - Only the first part of the batch was taken.
          gW = np.tensordot(share, dW, 1) / s → gW = dW[0] / s
          gb = share @ db / s → gb = db[0] / s
    - Divided by the number of parts once more. The mean has done it.
          gW = np.tensordot(share, dW, 1) / s → gW = np.tensordot(share, dW, 1) / s / len(dW)
          gb = share @ db / s → gb = share @ db / s / len(dW)
    - Brought to the length 1 where it is to be R.
          R / length → 1 / length
    - The quotient is upside down.
          R / length → length / R
    - The length is a mean of squares. It has no division in it.
          np.sqrt((gW**2).sum() + (gb**2).sum()) → np.sqrt((gW**2).mean() + (gb**2).mean())
    - The length is that of the parts before they are averaged.
          np.sqrt((gW**2).sum() + (gb**2).sum()) → np.sqrt((dW**2).sum() + (db**2).sum()) / s
    - Clipped as if the gradient were still scaled, and never divided by s. First divide.
          gW = np.tensordot(share, dW, 1) / s → gW = np.tensordot(share, dW, 1)
          gb = share @ db / s → gb = share @ db
          R / length → s * R / length
    - Divided by s twice.
          gW = np.tensordot(share, dW, 1) / s → gW = np.tensordot(share, dW, 1) / s**2
          gb = share @ db / s → gb = share @ db / s**2
    """,
    hints="""
    - Three things are done, and clipping is the only one whose place matters: it is not linear.
    - Mean over the parts by their shares of the examples, division by s, one length for both arrays together.
    - Then both are multiplied by the same factor, which is never above 1.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def renormalised_backward(dy, a, v, keep):
    kept = keep * a
    r = kept.sum(axis=-1, keepdims=True)
    w = kept / r
    dv = w.mT @ dy
    dw = dy @ v.mT
    inner = (w * dw).sum(axis=-1, keepdims=True)
    da = keep * (dw - inner) / r
    return da, dv


def rows_of_weights(rng, shape):
    """Rows that are positive and add up to 1."""
    a = np.exp(rng.normal(size=shape))
    return a / a.sum(axis=-1, keepdims=True)


def some_of_each_row(rng, shape):
    """Booleans; of every row something is kept, and something dropped."""
    keep = rng.random(shape) < 0.6
    keep[~keep.any(axis=-1), 0] = True
    keep[keep.all(axis=-1), -1] = False
    return keep


RENORMALISED = Exercise(
    renormalised_backward,
    asks="The backward of a division by a sum, under a mask.",
    outputs="da dv",
    inputs={
        "dy": normal("B T E"),
        "a": Draw("B T S", rows_of_weights),
        "v": normal("B S E"),
        "keep": Draw("B T S", some_of_each_row),
    },
    stories="""
    - The division is treated as a constant: r is a sum of the a themselves, and has a gradient, too.
          keep * (dw - inner) / r → keep * dw / r
    - This is the backward of a softmax whose result is a. Here the a themselves are inputs, and rows of the
      kept ones are divided by their sum r.
          keep * (dw - inner) / r → a * (dw - (a * dw).sum(axis=-1, keepdims=True))
    - keep is missing from da: of a dropped weight the output knows nothing.
          keep * (dw - inner) / r → (dw - inner) / r
    - Divided by the sum of all weights of a row. Only what was kept is added up below the fraction.
          r = kept.sum(axis=-1, keepdims=True) → r = a.sum(axis=-1, keepdims=True)
    - Divided by the sum of all weights of a row. Only what was kept is added up below the fraction, and so
      no dropped weight has a gradient.
          r = kept.sum(axis=-1, keepdims=True) → r = a.sum(axis=-1, keepdims=True)
          keep * (dw - inner) / r → (keep * dw - inner) / r
    - keep stands at one of two terms: a dropped weight is in no sum, and its gradient is 0.
          keep * (dw - inner) / r → (keep * dw - inner) / r
    - keep was not used: what is dropped is neither in the sum nor in the weights.
          kept = keep * a → kept = a
          keep * (dw - inner) / r → (dw - inner) / r
    - The inner product lacks the weights w: it is the mean of dw with them.
          inner = (w * dw) → inner = (1 * dw)
    - This is the backward of softmax, with the kept weights before they are divided. The a are inputs here.
          inner = (w * dw) → inner = (kept * dw)
          keep * (dw - inner) / r → kept * (dw - inner)
    - This is the backward of softmax, with the kept weights not divided in front. The a are inputs here.
          keep * (dw - inner) / r → kept * (dw - inner)
    - The division by r is missing from da.
          keep * (dw - inner) / r → keep * (dw - inner)
    - Multiplied by r where the forward divides.
          keep * (dw - inner) / r → keep * (dw - inner) * r
    - dv is taken with the weights before they are renormalised.
          dv = w.mT @ dy → dv = kept.mT @ dy
    - dv is taken with the weights before dropout.
          dv = w.mT @ dy → dv = a.mT @ dy
    - The inner product is taken with the weights before dropout and renormalization.
          inner = (w * dw) → inner = (a * dw)
    - The inner product is taken with the dropped weights before they are renormalised.
          inner = (w * dw) → inner = (kept * dw)
    - This is the backward of softmax: there is a factor w too many. The a are inputs here, not scores.
          keep * (dw - inner) / r → w * (dw - inner)
    - The factor w belongs to softmax. Here the a themselves are inputs.
          keep * (dw - inner) / r → w * (dw - inner) / r
    - Only the renormalization is undone, not the sum over all keys of a row: the inner product is a sum.
          inner = (w * dw).sum(axis=-1, keepdims=True) → inner = w * dw
    - The inner product is a sum over the keys of each row, and not a mean.
          inner = (w * dw).sum(axis=-1, keepdims=True) → inner = (w * dw).mean(axis=-1, keepdims=True)
    - The inner product is a sum over keys, one number for each query; yours runs over the queries.
          inner = (w * dw).sum(axis=-1, keepdims=True) → inner = (w * dw).sum(axis=-2, keepdims=True)
    - r is the mean of what is kept. The rows are to add up to 1, so it is the sum.
          r = kept.sum(axis=-1, keepdims=True) → r = kept.mean(axis=-1, keepdims=True)
    - r is the share of keys that are kept, as in ordinary dropout. Here the kept weights are added up.
          r = kept.sum(axis=-1, keepdims=True) → r = keep.mean(axis=-1, keepdims=True)
    - This is ordinary dropout, divided by the share of keys kept. Here the sum of kept weights stands below.
          r = kept.sum(axis=-1, keepdims=True) → r = keep.mean(axis=-1, keepdims=True)
          keep * (dw - inner) / r → keep * dw / r
    - The sign of the second term: more of one weight makes the others smaller.
          dw - inner → dw + inner
    - keep is turned round: it is true where a weight stays.
          kept = keep * a → kept = (1 - keep) * a
          keep * (dw - inner) → (1 - keep) * (dw - inner)
    - The square of r: the quotient rule has r² below, and r above cancels one of them.
          keep * (dw - inner) / r → keep * (dw - inner) / r**2
    - The quotient rule with the kept weights: its second term is divided by r once more.
          keep * (dw - inner) / r → keep * (dw / r - inner / r**2)
    """,
    hints="""
    - Name the renormalised weights w, so that y = w v. First dv and dw.
    - One kept a stands in its own w above the fraction, and in every w of its row below it.
    - The derivative of w_k by a kept a_j is (δ_jk - w_k)/r.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def expected_dw(x, w, t, p):
    rest = x @ w - t
    fit = x.T @ rest
    penalty = p / (1 - p) * (x**2).sum(axis=0) * w
    return fit + penalty


EXPECTED = Exercise(
    expected_dw,
    asks="Averaging over random masks before differentiating, with the spread that they add.",
    outputs="dw",
    inputs={
        "x": normal("B D").then(lambda x: 0.5 + 1.5 * x),
        "w": normal("D"),
        "t": normal("B"),
        "p": number(0.3),
    },
    stories="""
    - This is the gradient without dropout. The output scatters, and the mean of a square feels that.
          fit + penalty → fit
    - This is the gradient of what dropout adds. The error of the mean output has a gradient, too.
          fit + penalty → penalty
    - The sign of the error: the loss is ½(y − t)², and its derivative by y is y − t.
          rest = x @ w - t → rest = t - x @ w
    - The added term has the factor p. The variance of a kept and divided entry is x² p/(1 − p).
          p / (1 - p) * → p *
    - The added term has the factor p (1 − p), the variance of the mask without the division by 1 − p.
          p / (1 - p) * → p * (1 - p) *
    - The added term has its factor upside down.
          p / (1 - p) * → (1 - p) / p *
    - The added term has 1/(1 − p): the mean of y², from which the square of the mean was not taken away.
          p / (1 - p) * → 1 / (1 - p) *
    - p/(1 − p)² counts the division twice: (1 − p) p of the mask, over (1 − p)².
          p / (1 - p) * → p / (1 - p) ** 2 *
    - The variance was squared once more. A kept and divided entry has the variance x² p/(1 − p).
          p / (1 - p) * → (p / (1 - p)) ** 2 *
    - The standard deviation in place of the variance.
          p / (1 - p) * → (p / (1 - p)) ** 0.5 *
    - The added term is still that of the loss. It has to be differentiated, too.
          p / (1 - p) * (x**2).sum(axis=0) * w → 0.5 * p / (1 - p) * (x**2).sum(axis=0) * w**2
    - The added term is twice as large: the loss has a half, and it meets this term as well.
          p / (1 - p) * → 2 * p / (1 - p) *
    - The added term is half as large: the derivative of w² is 2 w, and it meets the ½ of the loss.
          p / (1 - p) * → 0.5 * p / (1 - p) *
    - The x of the added term is not squared: a variance has the square.
          (x**2).sum(axis=0) → x.sum(axis=0)
    - The square of a sum in place of a sum of squares: examples have masks of their own.
          (x**2).sum(axis=0) → x.sum(axis=0) ** 2
    - The x of the added term is missing: this is plain weight decay.
          p / (1 - p) * (x**2).sum(axis=0) * w → p / (1 - p) * w
    - The added term forgets that every example has one: this is decay times the number of examples.
          p / (1 - p) * (x**2).sum(axis=0) * w → p / (1 - p) * len(x) * w
    - The sum over features is enlarged as a whole. Features are dropped one by one, so only the squares
      x² w² grow; mixed products of two features have no covariance.
          p / (1 - p) * (x**2).sum(axis=0) * w → p / (1 - p) * x.T @ (x @ w)
    - w is squared in the added term. It is so in the loss; its derivative has w.
          (x**2).sum(axis=0) * w → (x**2).sum(axis=0) * w**2
    - w is missing from the added term.
          (x**2).sum(axis=0) * w → (x**2).sum(axis=0)
    - A mean over the examples. The loss is their sum.
          fit + penalty → (fit + penalty) / len(x)
    - The fit is divided by the number of examples, and the loss is their sum.
          fit + penalty → fit / len(x) + penalty
    - The added term is a mean over the examples. The loss is their sum.
          (x**2).sum(axis=0) → (x**2).mean(axis=0)
    - The square of x is summed over features as well. Each weight meets its own feature.
          (x**2).sum(axis=0) → (x**2).sum()
    - The output was multiplied by 1 − p. The division in the forward keeps its mean.
          rest = x @ w - t → rest = (1 - p) * (x @ w) - t
    - The output was divided by 1 − p. Some entries are 0, and the mean of the output is x w.
          rest = x @ w - t → rest = x @ w / (1 - p) - t
    - The added term is subtracted: scatter makes a mean of squares larger.
          fit + penalty → fit - penalty
    - The whole gradient is multiplied by 1 − p. The division in the forward keeps the mean of the output.
          fit + penalty → (1 - p) * fit
    - The whole gradient is divided by 1 − p. The mean of the output is x w, with no factor.
          fit + penalty → fit / (1 - p)
    - The output was multiplied by 1 − p, and the scatter left out. The mean is x w, and it has a variance.
          rest = x @ w - t → rest = (1 - p) * (x @ w) - t
          fit + penalty → fit
    - Each x was divided by 1 − p, as if nothing were dropped. The mean of the output is x w, and it scatters.
          rest = x @ w - t → rest = x @ w / (1 - p) - t
          fit + penalty → fit / (1 - p)
    - The target is missing from the error.
          rest = x @ w - t → rest = x @ w
    - The derivative of the square without the ½: everything is twice too large.
          fit + penalty → 2 * (fit + penalty)
    - The fit is twice too large: the loss has a half.
          fit + penalty → 2 * fit + penalty
    """,
    hints="""
    - The mean of a square is the square of the mean plus the variance. What are both, for the output?
    - The masks of two features are independent, so variances add: Σ_i w_i² x_i² p/(1 − p).
    - Now differentiate ½ of it by w_i.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def scale_window(g):
    size = np.abs(g[g != 0])
    low = np.floor(np.log2(2.0**-25 / size.min())) + 1
    high = np.ceil(np.log2(65520.0 / size.max())) - 1
    return low, high


def spread_out(rng, shape):
    """Sizes from 2^-40 to 1, with signs; the middle entry is 0 if there are three."""
    g = rng.choice([-1.0, 1.0], shape) * 2.0 ** rng.uniform(-40, 0, shape)
    g.flat[1] = 0.0
    return g


def with_ends(least, largest):
    """The same with a given least size, negative, and a given largest."""

    def change(g):
        g = np.clip(g, -largest / 2, largest / 2)
        g = np.where((np.abs(g) < 4 * least) & (g != 0), 4 * least, g)
        g.flat[0], g.flat[-1] = -least, largest
        return g

    return change


SPREAD = Draw("B D", spread_out)
WINDOW = Exercise(
    scale_window,
    asks="The limits of half precision: what is lost below and above, and how ties are rounded.",
    outputs="low high",
    inputs={"g": SPREAD},
    special={
        "a least gradient in the middle between 0 and a number": {"g": SPREAD.then(with_ends(2.0**-33, 0.3))},
        "a largest gradient between 65504 and 65520": {
            "g": SPREAD.then(with_ends(2.0**-34.5, 65510 * 2.0**-19))
        },
        "a largest gradient between 65520 and 65536": {
            "g": SPREAD.then(with_ends(2.0**-34.5, 65530 * 2.0**-18))
        },
        "a largest gradient that becomes 65520": {"g": SPREAD.then(with_ends(2.0**-34.5, 65520 * 2.0**-20))},
        "the largest is negative": {"g": SPREAD.then(with_ends(2.0**-31.3, 0.7)).then(lambda g: -g)},
    },
    stories="""
    - Zeros are among the sizes. They stay 0 at every scale, and must not be asked.
          size = np.abs(g[g != 0]) → size = np.abs(g)
    - Gradients have signs: the least *size* is asked for.
          size = np.abs(g[g != 0]) → size = g[g != 0]
    - Gradients have signs: the largest *size* is asked for.
          65520.0 / size.max() → 65520.0 / g.max()
    - Powers below 0 or above 24 were not looked at. Large or small gradients need them.
          return low, high → return np.clip(low, 0, 24), np.clip(high, 0, 24)
    - Only positive gradients were looked at.
          size = np.abs(g[g != 0]) → size = g[g > 0]
    - 2⁻²⁴ is the least number above 0. But what lies above half of it is rounded up to it.
          2.0**-25 → 2.0**-24
    - 2⁻¹⁴ is the least *normal* number. The subnormal ones below it are not 0.
          np.floor(np.log2(2.0**-25 / size.min())) + 1 → np.ceil(np.log2(2.0**-14 / size.min()))
    - The least gradient was made to reach 2⁻²⁴, the least number above 0. It need only come above half of it.
          np.floor(np.log2(2.0**-25 / size.min())) + 1 → np.ceil(np.log2(2.0**-24 / size.min()))
    - A power is not rounded to the nearest whole number: the least that is enough, the largest that fits.
          np.floor(np.log2(2.0**-25 / size.min())) + 1 → np.round(np.log2(2.0**-25 / size.min()))
          np.ceil(np.log2(65520.0 / size.max())) - 1 → np.round(np.log2(65520.0 / size.max()))
    - 15 is the largest exponent, but the fraction comes on top: float16 reaches almost to 2¹⁶.
          np.ceil(np.log2(65520.0 / size.max())) - 1 → np.floor(np.log2(2.0**15 / size.max()))
    - A gradient that comes to exactly 2⁻²⁵ is the middle between 0 and 2⁻²⁴, and goes to the even one, 0.
          np.floor(np.log2(2.0**-25 / size.min())) + 1 → np.ceil(np.log2(2.0**-25 / size.min()))
    - One too low: at this power the least gradient still becomes 0.
          size.min())) + 1 → size.min()))
    - Powers are whole numbers: 2 to the power of yours need not be a power of two.
          np.floor(np.log2(2.0**-25 / size.min())) + 1 → np.log2(2.0**-25 / size.min())
          np.ceil(np.log2(65520.0 / size.max())) - 1 → np.log2(65520.0 / size.max())
    - Powers are whole numbers. And what rounding does at both ends is missing: 2⁻²⁵ and 65520 are the limits.
          np.floor(np.log2(2.0**-25 / size.min())) + 1 → np.log2(2.0**-24 / size.min())
          np.ceil(np.log2(65520.0 / size.max())) - 1 → np.log2(65504.0 / size.max())
    - 65504 is the largest number. But what lies below 65520, the middle to the next, is rounded down to it.
          65520.0 → 65504.0
    - 65536 would be the next number. From the middle, 65520, on everything becomes infinite.
          65520.0 → 65536.0
    - A gradient that comes to exactly 65520 is the middle, and goes to the even side, which is infinite.
          np.ceil(np.log2(65520.0 / size.max())) - 1 → np.floor(np.log2(65520.0 / size.max()))
    - One too high: at this power the largest gradient overflows.
          size.max())) - 1 → size.max()))
    - The least and the largest gradient are exchanged.
          2.0**-25 / size.min() → 2.0**-25 / size.max()
          65520.0 / size.max() → 65520.0 / size.min()
    - The natural logarithm. Powers of two are asked for.
          np.log2(2.0**-25 / size.min()) → np.log(2.0**-25 / size.min())
          np.log2(65520.0 / size.max()) → np.log(65520.0 / size.max())
    - These are the scales. Their exponents are asked for.
          return low, high → return 2.0**low, 2.0**high
    - Upside down: the scale is the wanted size over the size that is there.
          2.0**-25 / size.min() → size.min() / 2.0**-25
          65520.0 / size.max() → size.max() / 65520.0
    - The typical gradient in place of the least.
          size.min() → size.mean()
    - These are the limits of bfloat16 or float32 above; float16 ends at 65504.
          65520.0 → 2.0**128
    - The two powers are exchanged: low comes first.
          return low, high → return high, low
    """,
    hints="""
    - Which sizes become 0 in float16, and which infinite? Both ends are middles between two numbers.
    - At a middle the even one wins: 0 below, infinity above. So both inequalities are strict.
    - The least whole n with 2ⁿ · least > 2⁻²⁵, and the largest with 2ⁿ · largest < 65520.
    """,
)
