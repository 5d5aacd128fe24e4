"""Exercises of chapter 01. Each is its right answer, and what to say about it."""

import numpy as np
from sympy import sqrt

from ...course.judge.derivation import Derivation
from ...course.judge.draws import Draw, normal, repeating
from ...course.judge.function import Exercise

DY, X = normal("B T D"), repeating("B T D")

# 1 ----------------------------------------------------------------------------------------------------------


def shared_backward(dy, x, r):
    dx = r[:, :, None] * dy
    dr = (dy * x).sum(axis=2)
    dp = dy.sum(axis=0)
    return dx, dr, dp


SHARED_BACKWARD = Exercise(
    shared_backward,
    asks="Over which axes a gradient is summed, for each array that the forward has broadcast.",
    outputs="dx dr dp",
    inputs={"dy": DY, "x": X, "r": Draw("B T", lambda rng, shape: rng.uniform(0.4, 2.0, shape))},
    stories="""
    - dr is not summed over the features: all D of them use the same r, so their shares are added.
          (dy * x).sum(axis=2) → dy * x
    - dp is not summed over the sequences: all B of them use the same p, so their shares are added.
          dy.sum(axis=0) → dy
    - dr and dp are not summed: what the forward broadcasts, the backward sums.
          (dy * x).sum(axis=2) → dy * x
          dy.sum(axis=0) → dy
    - dp is a mean over the sequences. What is used many times collects a sum.
          dy.sum → dy.mean
    - dr is a mean over the features. What is used many times collects a sum.
          (dy * x).sum → (dy * x).mean
    - dr and dp are means. What is used many times collects a sum; a mean appears only where the forward
      has one.
          (dy * x).sum → (dy * x).mean
          dy.sum → dy.mean
    - dp is summed over the positions as well. Each position has a row of p of its own; only the
      sequences share it.
          dy.sum(axis=0) → dy.sum(axis=(0, 1))
    - dp is summed over the positions instead of the sequences. p has no axis B: that is the one to sum.
          dy.sum(axis=0) → dy.sum(axis=1)
    - dr is summed over the positions as well. Each token has an r of its own; only its features share
      it.
          (dy * x).sum(axis=2) → (dy * x).sum(axis=(1, 2))
    - dr is summed over the sequences as well. Each token has an r of its own; only its features share
      it.
          (dy * x).sum(axis=2) → (dy * x).sum(axis=(0, 2))
    - dp comes from the first sequence alone. All sequences use the same p, so their shares are added.
          dy.sum(axis=0) → dy[0]
    - dr lacks the factor x: the product is r times x, so r has the factor x.
          (dy * x).sum → dy.sum
    - dr has the axis that was summed left in, as a 1. r has the shape (B, T).
          (dy * x).sum(axis=2) → (dy * x).sum(axis=2, keepdims=True)
    - dp has the axis that was summed left in, as a 1. p has the shape (T, D).
          dy.sum(axis=0) → dy.sum(axis=0, keepdims=True)
    - This is the derivative of y by p, which is 1. dp is the derivative of the loss: multiply by what
      arrives, dy, and add over the sequences.
          dp = dy.sum(axis=0) → dp = 0 * dy[0] + 1
    - dx has a second term, dy. The path through p does not touch x.
          r[:, :, None] * dy → r[:, :, None] * dy + dy
    - In dx one mean factor stands for all tokens. Each token has its own r.
          r[:, :, None] * dy → r.mean() * dy
    - dx is dy itself. x is multiplied by r on the way forward, so its gradient is, too.
          r[:, :, None] * dy → 1 * dy
    - This is the forward, r times x, in the place of dx. Its derivative by x has the factor dy.
          r[:, :, None] * dy → r[:, :, None] * x
    - dx has the factor x, which is that of dr. The derivative of r x by x is r.
          r[:, :, None] * dy → x * dy
    - This is the derivative of y by x, which is r. dx is the derivative of the loss: multiply by what
      arrives, dy.
          r[:, :, None] * dy → r[:, :, None] + 0 * dy
    - dx is summed over the sequences. Each x has a y of its own: dx needs no sum.
          r[:, :, None] * dy → (r[:, :, None] * dy).sum(axis=0)
    - dx is summed over the features. Each x has a y of its own: dx needs no sum.
          r[:, :, None] * dy → (r[:, :, None] * dy).sum(axis=2)
    - dr has the factor r as well. The derivative of r x by r is x alone.
          (dy * x).sum(axis=2) → (r[:, :, None] * dy * x).sum(axis=2)
    - dr has the factor r, which is that of dx. The derivative of r x by r is x.
          (dy * x).sum(axis=2) → (r[:, :, None] * dy).sum(axis=2)
    - dr lacks the factor dy: this is the derivative of y by r, and not that of the loss.
          (dy * x).sum(axis=2) → x.sum(axis=2)
    - dr lacks the factor dy, and the sum over the features: this is x, the derivative of y by r.
          (dy * x).sum(axis=2) → x
    - dr lacks the factor dy, and has the factor r: this is the forward, summed over the features.
          (dy * x).sum(axis=2) → (r[:, :, None] * x).sum(axis=2)
    - dr lacks the factor dy: this is the derivative of y by r, and not that of the loss. It also kept the
      axis that was summed, as a 1.
          (dy * x).sum(axis=2) → x.sum(axis=2, keepdims=True)
    - dr lacks the factor dy, and comes from the first feature alone.
          (dy * x).sum(axis=2) → x[:, :, 0]
    - dr lacks the factor dy, and is a mean over the features. What is used many times collects a sum.
          (dy * x).sum(axis=2) → x.mean(axis=2)
    - dr comes from the first feature alone. All D of them use the same r, so their shares are added.
          (dy * x).sum(axis=2) → (dy * x)[:, :, 0]
    - dr is one sum for all tokens. Each token has an r of its own; only its features share it.
          (dy * x).sum(axis=2) → (dy * x).sum() + 0 * r
    - dp comes from the last sequence alone. All sequences use the same p, so their shares are added.
          dy.sum(axis=0) → dy[-1]
    - dp has the factor r. p is added beside r x, so its own factor is 1.
          dy.sum(axis=0) → (r[:, :, None] * dy).sum(axis=0)
    - This counts the sequences that use p. Each of them hands down what arrives at it: add up dy.
          dy.sum(axis=0) → 0 * dy[0] + dy.shape[0]
    - dp is summed over the features as well. Each feature has an entry of p of its own; only the
      sequences share it.
          dy.sum(axis=0) → dy.sum(axis=(0, 2))
    """,
    hints="""
    - One entry first: y_btd = r_bt x_btd + p_td. In which entries of y does x_btd stand? And r_bt? And
      p_td?
    - r_bt stands in all D features of its token, with the factors x_btd. p_td stands in all B
      sequences.
    - So dr is a sum over the features, dp a sum over the sequences. dx needs no sum, but r needs a
      third axis to meet dy.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def best_step(eta, f, f_2):
    return sqrt(2 * eta * f / (f_2 / 2))


BEST_STEP = Derivation(
    best_step,
    asks="Bounding truncation and rounding together, and the step at which their sum is smallest.",
    domains={"eta": "positive", "f": "positive", "f_2": "positive"},
    stories="""
    - The number under the root is half of what it should be. Either only one of the two values was
      given a rounding error, and both have one; or the ½ of the truncation h f″/2 was lost.
          f_2 / 2 → f_2
    - Both halves are lost: the truncation is h f″/2, and two values are rounded.
          f_2 / 2 → f_2
          2 * eta * f → eta * f
    - The root is missing. Where c h + d/h is smallest, c = d/h², so h is the root of d/c.
          sqrt(2 * eta * f / (f_2 / 2)) → 2 * eta * f / (f_2 / 2)
    - Upside down: this is 1/h. From c = d/h² it follows that h² = d/c, with the rounding above.
          2 * eta * f / (f_2 / 2) → f_2 / 2 / (2 * eta * f)
    - This is the smallest error, and not the step at which it is reached.
          sqrt(2 * eta * f / (f_2 / 2)) → 2 * sqrt(2 * eta * f * (f_2 / 2))
    - This is the step for central differences. Here the first term of the error is h f″/2, not h² f‴/6,
      so a square root takes the place of the cube root.
          sqrt(2 * eta * f / (f_2 / 2)) → (3 * eta * f / f_2) ** (1 / 3)
    - A cube root, as for central differences. Here the error begins with h to the power 1:
      differentiate c h + d/h, and solve.
          sqrt(2 * eta * f / (f_2 / 2)) → (2 * eta * f / (f_2 / 2)) ** (1 / 3)
    - A cube root, as for central differences. Here the truncation is h f″/2: it has h to the power 1, and
      neither h² nor the factor of central differences.
          sqrt(2 * eta * f / (f_2 / 2)) → (6 * eta * f / f_2) ** (1 / 3)
    - A cube root: in the truncation stands h² where h should. It is h f″/2.
          sqrt(2 * eta * f / (f_2 / 2)) → (2 * eta * f / f_2) ** (1 / 3)
    - This is the negative root, and the step h is positive. `solve` cannot know that of `eta`, `f` and `f_2`.
          sqrt(2 * eta * f / (f_2 / 2)) → -sqrt(2 * eta * f / (f_2 / 2))
    - f_2 multiplies where it should divide: a stronger bend makes the truncation larger,
      and asks for a smaller step.
          2 * eta * f / (f_2 / 2) → eta * f * f_2
    - The value f is missing: rounding errors are relative, so they grow with f.
          2 * eta * f → 2 * eta
    - This is the order of magnitude only. How large the value and the second derivative are matters
      too.
          sqrt(2 * eta * f / (f_2 / 2)) → sqrt(eta)
    """,
    hints="""
    - Write the error as a bound E(h) of two parts. What does Taylor leave of (f(x+h) - f(x))/h beyond
      f′?
    - Truncation: h f″/2. Rounding: both values carry up to η f, and the difference is divided by h: 2 η
      f/h.
    - E′(h) = f″/2 - 2 η f/h² = 0. Solve for h.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def weighted_mean_backward(dy, x, w):
    total = w.sum(axis=1, keepdims=True)
    share = w / total
    y = (share[:, :, None] * x).sum(axis=1, keepdims=True)
    arriving = dy[:, None, :]
    dx = share[:, :, None] * arriving
    dw = (arriving * (x - y)).sum(axis=2) / total
    return dx, dw


WEIGHTED_MEAN_BACKWARD = Exercise(
    weighted_mean_backward,
    asks="The quotient rule for a weight that stands above and below the fraction line.",
    outputs="dx dw",
    inputs={
        "dy": normal("B D"),
        "x": repeating("B S D"),
        "w": Draw("B S", lambda rng, shape: rng.uniform(0.3, 2.0, shape)),
    },
    stories="""
    - In dw the path through the sum of the weights is missing: a larger w also makes every other share
      smaller. Move one weight, and the mean moves towards its token, from where it is.
          (x - y) → x
    - dx is not divided by the sum of the weights: what multiplies x_t is its share w_t/W.
          dx = share[:, :, None] → dx = w[:, :, None]
    - dw is not divided by the sum of the weights.
          .sum(axis=2) / total → .sum(axis=2)
    - The path through the sum of the weights is there, but not divided: dw is Σ dy (x/W - y/W).
          (arriving * (x - y)).sum(axis=2) / total → (arriving * (x / total[:, :, None] - y)).sum(axis=2)
    - dw is the derivative by the share w/W, and not by w: the shares depend on all the weights.
          (arriving * (x - y)).sum(axis=2) / total → (arriving * x).sum(axis=2)
    - In dw the mean is the plain one. It is the mean with the weights w.
          (x - y) → (x - x.mean(axis=1, keepdims=True))
    - dx is the forward, the mean itself. Its derivative by x_s is the share w_s/W, times what arrives.
          dx = share[:, :, None] * arriving → dx = y + 0 * x
    - dx adds up what arrives at all sequences. Each sequence has a mean of its own.
          dx = share[:, :, None] * arriving → dx = share[:, :, None] * arriving.sum(axis=0)
    - dx lacks the token's own weight: x_s is multiplied by w_s/W, not by 1/W.
          dx = share[:, :, None] * arriving → dx = arriving / total[:, :, None] + 0 * x
    - dw holds the path through the sum of the weights alone. The weight also multiplies its own token.
          (x - y) → (0 * x - y)
    - dx is the gradient of the plain mean, dy/S. Here each token has its own share.
          dx = share[:, :, None] * arriving → dx = arriving / x.shape[1] + 0 * x
    - dw is a mean over the features; it is a sum, since one weight serves all features of its token.
          (x - y)).sum(axis=2) → (x - y)).mean(axis=2)
    - The sum of the weights runs over the whole batch. Each sequence has its own mean.
          w.sum(axis=1, keepdims=True) → w.sum(keepdims=True)
    - dw has the wrong sign: it is x - y, since a larger weight moves the mean towards its token.
          (x - y) → (y - x)
    - dw is divided by the square of the sum of the weights. One of these factors is in y already.
          .sum(axis=2) / total → .sum(axis=2) / total**2
    - In dw only the token's own share is differentiated. A larger w_t also makes every other share
      smaller: the sum of the weights stands below all of them.
          (x - y) → (x - share[:, :, None] * x)
    - dx is dy, copied to each token: the gradient of a plain sum. Here x_t is multiplied by its share
      w_t/W.
          dx = share[:, :, None] * arriving → dx = arriving + 0 * x
    - dw still has an axis for the features. One weight serves all features of its token, so they are
      summed.
          (arriving * (x - y)).sum(axis=2) / total → (arriving * (x - y)) / total[:, :, None]
    """,
    hints="""
    - Two steps. With W = Σ w_s: shares a_s = w_s/W, then y_d = Σ_s a_s x_sd. The second is a sum with
      factors; what are dx and da?
    - The sum over s becomes a broadcast: dx_sd = a_s dy_d. And a_s serves all features, so da_s is the
      sum over d of dy_d x_sd.
    - The quotient: w_s stands above in a_s alone, and below, in W, in all shares. Subtract the mean of
      the da, weighted with a, and divide by W: that is Σ_d dy_d (x_sd - y_d)/W.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def blind_direction(v, wrong, right):
    error = wrong - right
    return v - (v * error).sum() / (error * error).sum() * error


BLIND_DIRECTION = Exercise(
    blind_direction,
    asks="Seeing one number of a check as a scalar product, and which errors it cannot see.",
    outputs="direction",
    inputs={"v": normal("B T D"), "wrong": normal("B T D"), "right": normal("B T D")},
    special={
        "an error like v": {"right": normal("B T D").then(lambda x: x / 9)},
    },
    stories="""
    - This is the part of v along the error: the direction in which the check sees the most. Take it
      away from v.
          v - (v → (v
    - The part along the error is not divided by the square of the error's length, so too much or too
      little is taken away.
          / (error * error).sum() * error → * error
    - Divided by the length of the error, and not by its square. A projection needs both: one to make
      the error a unit vector, one to measure v along it.
          / (error * error).sum() → / (error * error).sum() ** 0.5
    - Divided by the sum of the absolute values of the error. The square of its length is the sum of its
      squares.
          / (error * error).sum() → / abs(error).sum()
    - The parts along both gradients are taken away. One condition is enough, that the two slopes are
      equal; they need not be 0.
          error = wrong - right → error = wrong
          return v - → return v - (v * right).sum() / (right * right).sum() * right -
    - v is only made longer or shorter. Its slope along the error stays different from 0: turn it.
          (v * error).sum() / (error * error).sum() * error → (right * v).sum() / (wrong * v).sum() * v
          return v - → return
    - This is perpendicular to the right gradient. The check compares two numbers, ⟨wrong, v⟩ and
      ⟨right, v⟩; what matters is their difference.
          error = wrong - right → error = right
    - This is perpendicular to the wrong gradient. The check compares two numbers, ⟨wrong, v⟩ and
      ⟨right, v⟩; what matters is their difference.
          error = wrong - right → error = wrong
    - The sums run along each row of features. ⟨·,·⟩ is over all entries, so one number is taken along
      the whole error.
          .sum() → .sum(axis=-1, keepdims=True)
    - The sums run over each sequence by itself. ⟨·,·⟩ is over all entries, so one number is taken along
      the whole error.
          .sum() → .sum(axis=(1, 2), keepdims=True)
    - The part along the error is added. It has to be taken away.
          return v - → return v +
    - It is divided by its length. The direction nearest to v itself is asked for, and it is shorter
      than v.
          return v - → direction = v -
          .sum() * error → .sum() * error; return direction / (direction**2).sum() ** 0.5
    - The error itself is taken away. Take away only the part of v along it.
          (v * error).sum() / (error * error).sum() * error → error
    - Divided by the square of the length of v. It is v that is measured along the error: divide by the
      square of the error's length.
          / (error * error).sum() → / (v * v).sum()
    - This is the error, along which the check sees the most.
          v - (v * error).sum() / (error * error).sum() * error → error
    - This is v as it was given. Its part along the error has to be taken away.
          v - (v * error).sum() / (error * error).sum() * error → v
    - The two gradients are added. What the check sees is their difference.
          wrong - right → wrong + right
    - Twice the part along the error is taken away: that mirrors v in the plane, and does not bring it
      there.
          return v - → return v - 2 *
    """,
    hints="""
    - The check passes if ⟨wrong, v⟩ = ⟨right, v⟩. Write this as one inner product that has to be 0.
    - It is ⟨wrong - right, v⟩ = 0: v has to be perpendicular to the error. Which point of that plane is
      nearest to a given v?
    - The foot of the perpendicular: take from v its part along e = wrong - right, which is ⟨v, e⟩/⟨e,
      e⟩ times e.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def convolution_backward(dy, x, w):
    t = np.arange(x.shape[1])[:, None, None]
    s = np.arange(x.shape[1])[:, None]
    k = np.arange(w.shape[0])
    joined = t - s == k
    matrix = (joined * w).sum(axis=2)
    dx = matrix.T @ dy
    dy_x = (dy @ x.mT).sum(axis=0)
    dw = (joined * dy_x[:, :, None]).sum(axis=(0, 1))
    return dx, dw


CONVOLUTION_BACKWARD = Exercise(
    convolution_backward,
    asks="The adjoint of a shift in time, and a kernel that all places share.",
    outputs="dx dw",
    inputs={"dy": DY, "x": X, "w": normal("K")},
    only={
        "few positions": "There w has more entries than the sequence has positions: K is 6 and T is 2. The "
        "later lags meet nothing, their dw is 0, and a slice such as x[:, : T - k] with k > T is not empty."
    },
    stories="""
    - dx looks into the past, as the forward does. But x_t is used by later outputs, y_t, y_(t+1), …, so
      its gradient comes from there: dx_t = Σ_k w_k dy_(t+k).
          matrix.T @ dy → matrix @ dy
    - The sequence is closed to a ring: what leaves at one end comes in at the other. Before the
      beginning stand zeros, and beyond the end there is no output.
          t - s == k → (t - s - k) % len(t) == 0
    - In dx the sequence is closed to a ring: what leaves at one end comes in at the other. Beyond the
      end there is no output, and nothing arrives from there.
          (joined * w) → (((t - s - k) % len(t) == 0) * w)
    - In dx each lag overwrites the one before it. Their shares are added, with += in a loop.
          dx = matrix.T @ dy → last = np.minimum(k[-1], s[::-1, 0]); dx = dy[:, s[:, 0] + last]
          dy_x = → dx = w[last][:, None] * dx; dy_x =
    - In dx nothing is shifted: x_t reaches y_(t+k) with the factor w_k, so dy_(t+k) comes back, not
      dy_t.
          matrix.T @ dy → matrix.sum(axis=0)[:, None] * dy
    - In dw nothing is shifted: w_k meets x_(t-k), not x_t.
          (joined * dy_x[:, :, None]) → (joined * dy_x.diagonal()[:, None, None])
    - dw comes from the last sequence alone; each has overwritten the one before. Add their shares.
          (dy @ x.mT).sum(axis=0) → (dy @ x.mT)[-1]
    - In dx every dy_t is multiplied by the sum of w. Each w_k belongs to another output, k steps later.
          matrix.T @ dy → w.sum() * dy
    - dw is a mean over all that it meets. It is a sum: w_k is used at every position of every sequence,
      for every feature.
          return dx, dw → return dx, dw / np.maximum(len(t) - k, 1) / x[:, 0].size
    - dw comes from the first sequence alone. All sequences use the same w, so their shares are added.
          (dy @ x.mT).sum(axis=0) → (dy @ x.mT)[0]
    - dw still has an axis for the features. All features use the same w, so they are summed as well.
          (joined * dy_x[:, :, None]).sum(axis=(0, 1)) → np.einsum("tsk,btd,bsd->kd", joined, dy, x)
    - The kernel is read from its other end. w_0 belongs to the present, w_1 to one step before.
          (joined * w).sum → (joined * w[::-1]).sum
    - dw is averaged over the sequences; they all use the same w, so their shares are added.
          (dy @ x.mT).sum(axis=0) → (dy @ x.mT).mean(axis=0)
    - dw is read from its other end: dw_0 belongs to the present, dw_1 to one step before.
          (joined * dy_x[:, :, None]).sum(axis=(0, 1)) → (joined * dy_x[:, :, None]).sum(axis=(0, 1))[::-1]
    - In dw the input is taken k steps later; w_k was multiplied with x_(t-k), k steps before.
          dy_x = (dy @ x.mT).sum(axis=0) → dy_x = (x @ dy.mT).sum(axis=0)
    - The lags begin at 1. w_0 belongs to the present: lag 0.
          == k → == k + 1
    - The last lag is left out: k runs from 0 to K - 1.
          joined = t - s == k → joined = (t - s == k) * (k < k[-1])
    - In dx nothing is shifted, and late positions get more than early ones. x_t reaches y_(t+k) with the
      factor w_k, so dy_(t+k) comes back, as long as there are outputs.
          matrix.T @ dy → matrix.sum(axis=1)[:, None] * dy
    - dw is divided by the number of all entries. It is a sum over all of them; a mean stands nowhere in
      the forward.
          return dx, dw → return dx, dw / x.size
    - In dx the present is left out: k begins at 0.
          matrix.T @ dy → matrix.T @ dy - w[0] * dy
    - In dw the sequence is closed to a ring: what leaves at one end comes in at the other. Before the
      beginning stand zeros.
          (joined * dy_x → (((t - s - k) % len(t) == 0) * dy_x
    - In dx only the present is there, lag 0. Each x_t is used K times.
          matrix.T @ dy → w[0] * dy
    - dw is the sum over everything, the same for each lag. Each w_k meets x_(t-k) with its own k.
          (joined * dy_x[:, :, None]).sum(axis=(0, 1)) → (dy * x).sum() + 0 * w
    - dx is the convolution of dy with w, in which dy is moved to the left by one step too many.
          dx = matrix.T @ dy → dx = np.eye(len(t), k=1) @ matrix.T @ dy
    - In dx the last output is missing: for lag k, t runs from 0 to T - 1 - k, and that end belongs to it.
          matrix.T @ dy → matrix[:-1].T @ dy[:, :-1]
    - In dx only outputs from K - 1 on are there. The first outputs exist too, with zeros in the place of
      what came before the beginning.
          matrix.T @ dy → matrix[k[-1] :].T @ dy[:, k[-1] :]
    - In dw only outputs from K - 1 on are there. The first outputs exist too, with zeros in the place of
      what came before the beginning.
          (joined * dy_x[:, :, None]) → (joined * dy_x[:, :, None])[k[-1] :]
    - Only outputs from K - 1 on are there. The first outputs exist too, with zeros in the place of what
      came before the beginning.
          matrix.T @ dy → matrix[k[-1] :].T @ dy[:, k[-1] :]
          (joined * dy_x[:, :, None]) → (joined * dy_x[:, :, None])[k[-1] :]
    - In dx the last lag is left out: k runs from 0 to K - 1.
          (joined * w) → (joined * w * (k < k[-1]))
    - In dw the last lag is left out: k runs from 0 to K - 1.
          (joined * dy_x[:, :, None]) → (joined * dy_x[:, :, None] * (k < k[-1]))
    - In dw the lags begin at 1. w_0 belongs to the present: lag 0.
          (joined * dy_x[:, :, None]) → ((t - s == k + 1) * dy_x[:, :, None])
    - In dw the present is left out: k begins at 0.
          (joined * dy_x[:, :, None]) → (joined * dy_x[:, :, None] * (k > 0))
    - dw is divided by the number of tokens. It is a sum: w_k is used at every position of every sequence,
      and a mean stands nowhere in the forward.
          return dx, dw → return dx, dw / x[:, :, 0].size
    - In dw nothing is shifted: w_k meets x_(t-k) and dy_t, with t from k on.
          (joined * dy_x[:, :, None]) → (joined * dy_x.diagonal()[:, None])
    - dw comes from the last position alone. w_k is used at every position, so their shares are added.
          (joined * dy_x[:, :, None]).sum(axis=(0, 1)) → (joined * dy_x[:, :, None])[-1].sum(axis=0)
    - dw comes from the first feature alone. All features use the same w, so their shares are added.
          dy_x = (dy @ x.mT).sum(axis=0) → dy_x = (dy[:, :, :1] @ x[:, :, :1].mT).sum(axis=0)
    - dw is one number. There is one for each lag: w_k meets x_(t-k) with its own k.
          (joined * dy_x[:, :, None]).sum(axis=(0, 1)) → (dy * x).sum()
    - dw still has an axis for the sequences. All sequences use the same w, so they are summed as well.
          (joined * dy_x[:, :, None]).sum(axis=(0, 1)) → np.einsum("tsk,btd,bsd->kb", joined, dy, x)
    - dx and dw are both mirrored in time. w_k joins y_t to x_(t-k): dx comes from later outputs, and in
      dw the input is k steps before the output.
          t - s == k → s - t == k
    - In dx only the last lag is there: each has replaced the one before it. Their shares are added.
          (joined * w) → (joined * w * (k == np.minimum(k[-1], len(t) - 1)))
    - In dx the last positions are missing. They reach fewer outputs than the others, but some.
          dx = matrix.T @ dy → dx = matrix.T @ dy * (s < len(s) - k[-1])
    - dx is turned round in time. Only the shift changes its direction: dx_t comes from dy_t, dy_(t+1), ….
          dx = matrix.T @ dy → dx = (matrix.T @ dy)[:, ::-1]
    - For k = 0 the slice `[:, :-k]` is `[:, :0]`, which is empty, so nothing is added or the shapes do not
      fit: write `[:, : T - k]`.
          dx = matrix.T @ dy → dx = np.zeros_like(x); dx[:, :-0] += dy
          dy_x = (dy @ x.mT).sum(axis=0) → dy_x = (dy * x[:, :-0]).sum() + 0 * s
    - In dx, for k = 0 the slice `[:, :-k]` is `[:, :0]`, which is empty, so nothing is added or the shapes
      do not fit: write `[:, : T - k]`.
          dx = matrix.T @ dy → dx = np.zeros_like(x); dx[:, :-0] += dy
    - In dw, for k = 0 the slice `[:, :-k]` is `[:, :0]`, which is empty, so nothing is added or the shapes
      do not fit: write `[:, : T - k]`.
          dy_x = (dy @ x.mT).sum(axis=0) → dy_x = (dy * x[:, :-0]).sum() + 0 * s
    - In dx nothing is shifted, and for k = 0 the slice `[:, :-k]` is empty: dy_(t+k) comes back to x_t, also
      where k = 0.
          matrix.T @ dy → (joined * w * (k > 0)).sum(axis=(0, 2))[:, None] * dy
    - In dw nothing is shifted, and for k = 0 the slice `[:, :-k]` is empty: w_k meets x_(t-k), also where
      k = 0.
          (joined * dy_x[:, :, None]) → (joined * dy_x.diagonal()[:, None] * (k > 0))
    - The first token is left out: x_(t-k) is there for t - k = 0, too.
          t - s == k → (t - s == k) * (s > 0)
    - In dx the first token is left out: x_(t-k) is there for t - k = 0, too.
          (joined * w) → (joined * w * (s > 0))
    - In dw the first token is left out: x_(t-k) is there for t - k = 0, too.
          (joined * dy_x → (joined * (s > 0) * dy_x
    - The last output is missing: t runs to T - 1, and that end belongs to it.
          t - s == k → (t - s == k) * (t < len(t) - 1)
    - In dw the last output is missing: t runs to T - 1, and that end belongs to it.
          (joined * dy_x → (joined * (t < len(t) - 1) * dy_x
    - The first output is missing: y_0 holds w_0 x_0.
          t - s == k → (t - s == k) * (t > 0)
    - In dx the first output is missing: y_0 holds w_0 x_0.
          (joined * w) → (joined * w * (t > 0))
    - In dw the first output is missing: y_0 holds w_0 x_0.
          (joined * dy_x → (joined * (t > 0) * dy_x
    - The last token is left out: it stands in the last output, with w_0.
          t - s == k → (t - s == k) * (s < len(s) - 1)
    - In dx the last token is left out: it stands in the last output, with w_0.
          (joined * w) → (joined * w * (s < len(s) - 1))
    - In dw the last token is left out: it stands in the last output, with w_0.
          (joined * dy_x → (joined * (s < len(s) - 1) * dy_x
    - The lag T - 1 is left out, where the kernel has one: it joins the last output to the first token.
          t - s == k → (t - s == k) * (k < len(t) - 1)
    - In dx the lag T - 1 is left out, where the kernel has one: it joins the last output to the first token.
          (joined * w) → (joined * w * (k < len(t) - 1))
    - In dw the lag T - 1 is left out, where the kernel has one: it joins the last output to the first token.
          (joined * dy_x → (joined * (k < len(t) - 1) * dy_x
    - In dx nothing is shifted: every dy_t is multiplied by the same sum of w. Each w_k belongs to another
      output, k steps later.
          matrix.T @ dy → w[: len(t)].sum() * dy
    """,
    hints="""
    - One entry first. In which outputs does x_s stand? In y_s with w_0, in y_(s+1) with w_1, and so on,
      as long as there are outputs.
    - So dx_s = Σ_k w_k dy_(s+k), where s + k is at most T - 1. And w_k stands in every output that has
      a x_(t-k).
    - dw_k = Σ over b, d and t ≥ k of dy_btd x_b(t-k)d. In slices: `dy[:, k:]` beside `x[:, : T - k]`,
      for each k below both K and T.
    """,
)
