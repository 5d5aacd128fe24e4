"""Exercises of chapter 12, blocks that it does not show: answers, stories and hints."""

import numpy as np

from ...course.judge.derivation import Derivation
from ...course.judge.draws import Draw, normal, repeating, scales
from ...course.judge.function import Exercise

X = repeating("B T D")
SQUARE = Draw("D D", lambda rng, shape: rng.normal(size=shape) / np.sqrt(shape[0]))


# 1 ----------------------------------------------------------------------------------------------------------


def macaron_slope(x, a, b, c):
    u = x + a * x**2 / 2
    v = u + b * u**3
    first = 1 + a * x
    middle = 1 + 3 * b * u**2
    last = 1 + c * v
    return first * middle * last


MACARON_SLOPE = Derivation(
    macaron_slope,
    asks="The chain rule through three residual steps, each taken at its own input.",
    domains={"x": "real", "a": "real", "b": "real", "c": "real"},
    stories="""
    - The half of the first half step is lost: ½ a x² has the slope a x.
          first = 1 + a * x → first = 1 + 2 * a * x
    - The half of the last half step is lost: ½ c v² has the slope c v.
          last = 1 + c * v → last = 1 + 2 * c * v
    - The halves of both half steps are lost: ½ a x² has the slope a x, and ½ c v² has c v.
          first = 1 + a * x → first = 1 + 2 * a * x
          last = 1 + c * v → last = 1 + 2 * c * v
    - The halves are lost everywhere, in the values u and v and in the slopes.
          u = x + a * x**2 / 2 → u = x + a * x**2
          first = 1 + a * x → first = 1 + 2 * a * x
          last = 1 + c * v → last = 1 + 2 * c * v
    - The connection of the full step begins at x here. It leads around that one sub-layer and begins at u.
          v = u + b * u**3 → v = x + b * u**3
          return first * middle * last → return (1 + (middle - 1) * first) * last
    - The half of the half steps is counted twice: it has cancelled against the 2 of the square.
          first = 1 + a * x → first = 1 + a * x / 2
          last = 1 + c * v → last = 1 + c * v / 2
    - The half of the first half step is counted twice: it has cancelled against the 2 of the square.
          first = 1 + a * x → first = 1 + a * x / 2
    - The half of the last half step is counted twice: it has cancelled against the 2 of the square.
          last = 1 + c * v → last = 1 + c * v / 2
    - The connection of the full step is missing: its slope has a 1.
          middle = 1 + 3 * b → middle = 3 * b
    - The connection of the first half step is missing: its slope has a 1.
          first = 1 + a * x → first = a * x
    - The connection of the last half step is missing: its slope has a 1.
          last = 1 + c * v → last = c * v
    - All connections are missing: each of the three slopes has a 1.
          first = 1 + a * x → first = a * x
          middle = 1 + 3 * b → middle = 3 * b
          last = 1 + c * v → last = c * v
    - The connection is halved with the branch. The half stands before f only.
          first = 1 + a * x → first = 1 / 2 + a * x
          last = 1 + c * v → last = 1 / 2 + c * v
    - All slopes are taken at x. Each sub-layer is fed what the one before has made: u, then v.
          3 * b * u**2 → 3 * b * x**2
          last = 1 + c * v → last = 1 + c * x
    - The full step is taken at x. It is fed u.
          3 * b * u**2 → 3 * b * x**2
    - The last half step is taken at x. It is fed v.
          last = 1 + c * v → last = 1 + c * x
    - The last half step is taken at u. It is fed v.
          last = 1 + c * v → last = 1 + c * u
    - In u the branch is not halved.
          u = x + a * x**2 / 2 → u = x + a * x**2
    - In u the connection is missing.
          u = x + a * x**2 / 2 → u = a * x**2 / 2
    - In v the connection is missing.
          v = u + b * u**3 → v = b * u**3
    - The slopes of sub-layers that follow each other are multiplied. Here they are added.
          return first * middle * last → return first + middle + last
    - Only the paths through one branch are counted, and the one past all. The slopes are multiplied, which
      gives the mixed terms as well.
          return first * middle * last → return 1 + (first - 1) + (middle - 1) + (last - 1)
    - The last half step is missing.
          return first * middle * last → return first * middle
    - The first half step is missing.
          return first * middle * last → return middle * last
    - The full step is missing between the halves.
          return first * middle * last → return first * last
    - This is the output y itself, and not its slope.
          return first * middle * last → return v + c * v**2 / 2
    - This is the slope of the last half step alone. What is before it depends on x as well.
          return first * middle * last → return last
    - 6 b u is the second derivative of b u³. The slope is 3 b u².
          3 * b * u**2 → 6 * b * u
    - b and c are exchanged: b belongs to the full step, c to the last half step.
          3 * b * u**2 → 3 * c * u**2
          last = 1 + c * v → last = 1 + b * v
    - In the last half step the branch itself stands where its slope should, c v.
          last = 1 + c * v → last = 1 + c * v**2 / 2
    - The slopes by x of u, of v and of y are added. That of y is the last of them, and contains the others.
          return first * middle * last → return first + first * middle + first * middle * last
    - The slope of u³ is 3 u². 2 u is that of u².
          3 * b * u**2 → 2 * b * u
    - The connections are one path past everything here, and the branches another. Each sub-layer has its own:
      the three slopes are multiplied, each with its 1.
          return first * middle * last → return 1 + (first - 1) * (middle - 1) * (last - 1)
    - The half step is taken of x, and not of x². The branch is a x², half of which is added.
          u = x + a * x**2 / 2 → u = x + a * x / 2
          first = 1 + a * x → first = 1 + a / 2
    - The slope of u³ is 3 u², and the 3 is lost.
          3 * b * u**2 → b * u**2
    """,
    hints="""
    - Three sub-layers, one after the other. What is the slope of each by its own input?
    - The slope of u + b u³ by u is 1 + 3 b u². The two halves have the 1 as well.
    - Multiply the three, each at what it is fed: x, u, v.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def merged_gradients(dy, dasks, dread):
    S = dread.shape[1] - dy.shape[1]
    dmemory = dread[:, :S]
    dx = dy + dasks + dread[:, S:]
    return dx, dmemory


def joined(rng, shape):
    """N(0, 1) with S + T rows: letters B S T D."""
    B, S, T, D = shape
    return rng.normal(size=(B, S + T, D))


MERGED = Exercise(
    merged_gradients,
    asks="Which part of a joined sequence belongs to whom, and all paths to the tokens.",
    outputs="dx dmemory",
    inputs={"dy": normal("B T D"), "dasks": normal("B T D"), "dread": Draw("B S T D", joined)},
    stories="""
    - What is read is missing from dx. The rows of x are read as well: they stand behind those of the memory.
          dy + dasks + dread[:, S:] → dy + dasks
    - What asks is missing from dx.
          dy + dasks + dread[:, S:] → dy + dread[:, S:]
    - The connection is missing from dx.
          dy + dasks + dread[:, S:] → dasks + dread[:, S:]
    - Only the connection is left in dx: it is used by the attention, twice.
          dy + dasks + dread[:, S:] → dy + 0 * dasks
    - Only what asks is left in dx. x is used in three places.
          dy + dasks + dread[:, S:] → dasks + 0 * dy
    - Only what is read is left in dx. x is used in three places.
          dy + dasks + dread[:, S:] → dread[:, S:] + 0 * dy
    - dx and dmemory have each other's rows: the memory stands first.
          S = dread.shape[1] - dy.shape[1] → S = dread.shape[1] - dy.shape[1]; T = dy.shape[1]
          dread[:, :S] → dread[:, T:]
          dread[:, S:] → dread[:, :T]
    - What was read is cut behind row T. The memory stands first and has S rows, so it is cut behind row S.
          S = dread.shape[1] - dy.shape[1] → S = dy.shape[1]
    - To x belong the last T rows of what was read. Here stand the first T.
          dread[:, S:] → dread[:, : dy.shape[1]]
    - To the memory belong the first S rows of what was read. Here stand the last S.
          dread[:, :S] → dread[:, dy.shape[1] :]
    - To the memory belong the first S rows of what was read, as many as it has. Here stand the first T.
          dmemory = dread[:, :S] → dmemory = dread[:, : dy.shape[1]]
    - dmemory holds the rows of x too. The memory's are the first S along the second axis; the first is the
      batch.
          dmemory = dread[:, :S] → dmemory = dread
    - The memory has no connection and asks nothing: only what is read comes to it. Here the connection's
      mean is added.
          dmemory = dread[:, :S] → dmemory = dread[:, :S] + dy.mean(axis=1, keepdims=True)
    - The rows of x begin one too early: the memory has S rows, and row S of what was read is row 0 of x.
          dread[:, S:] → dread[:, S - 1 : -1]
    - The memory asks nothing, so no mean of what asks belongs to it. What asks goes to dx.
          dmemory = dread[:, :S] → dmemory = dread[:, :S] + dasks.mean(axis=1, keepdims=True)
    - A mean of what is read of the memory is added to x. The memory is another array.
          dy + dasks + dread[:, S:] → dy + dasks + dread[:, S:] + dread[:, :S].mean(axis=1, keepdims=True)
    - All rows that were read are added to x. To x belong the last T of them.
          dread[:, S:] → dread
    - To x belong the last T rows of what was read, as many as x has. Here stand the last S.
          dread[:, S:] → dread[:, -S:]
    - The memory has no connection. dy belongs to x.
          dmemory = dread[:, :S] → dmemory = dread[:, :S] + dy.sum(axis=1, keepdims=True)
    - The memory asks nothing. What asks comes from x only, and goes to dx.
          dmemory = dread[:, :S] → dmemory = dread[:, :S] + dasks.sum(axis=1, keepdims=True)
    - The three uses of x are averaged. Gradients over several uses add.
          dx = dy + dasks + dread[:, S:] → dx = (dy + dasks + dread[:, S:]) / 3
    - The two uses by the attention are averaged. Gradients over several uses add.
          dy + dasks + dread[:, S:] → dy + (dasks + dread[:, S:]) / 2
    - What is read of the memory is added to x, as one row: the memory is another array.
          dy + dasks + dread[:, S:] → dy + dasks + dread[:, S:] + dread[:, :S].sum(axis=1, keepdims=True)
    - All that is read is summed into each row of x. Row t of x is one row among those that were read.
          dy + dasks + dread[:, S:] → dy + dasks + dread[:, S:].sum(axis=1, keepdims=True)
    - All that is read, of the memory too, is summed into each row of x.
          dy + dasks + dread[:, S:] → dy + dasks + dread.sum(axis=1, keepdims=True)
    - What was read is cut into two halves. The memory has S rows and x has T: it is cut behind row S.
          S = dread.shape[1] - dy.shape[1] → S = dread.shape[1] // 2
    - What was read is cut along the batch. Its rows, memory and x, lie along the second axis.
          dread[:, :S] → dread[:S]
          dread[:, S:] → dread[S:]
    - The memory has no connection, and the mean of dy is nothing to it.
          dmemory = dread[:, :S] → dmemory = dread[:, :S] + dy.mean()
    - The connection hands on the mean of dy over the tokens. It hands on dy as it is, token by token.
          dy + dasks → dy.mean(axis=1, keepdims=True) + dasks
    - dmemory is averaged over the batch. Each sequence has a memory of its own.
          dmemory = dread[:, :S] → dmemory = dread[:, :S].mean(axis=0)
    - dmemory is summed over the batch. Each sequence has a memory of its own.
          dmemory = dread[:, :S] → dmemory = dread[:, :S].sum(axis=0)
    - The uses are multiplied. Gradients over several uses add.
          dy + dasks + dread[:, S:] → dy * dasks * dread[:, S:]
    """,
    hints="""
    - In how many places is x used? Count the connection.
    - Row s of what is read, for s < S, is row s of the memory; row S + t is row t of x.
    - dmemory is the first S rows of dread. dx is a sum of three arrays of shape (B, T, D).
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def parallel_gradients(dy, da, df, x, gamma):
    r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True))
    x_hat = x * r
    dh = da + df
    g = gamma * dh
    along = (g * x_hat).mean(axis=-1, keepdims=True)
    dx = dy + r * (g - x_hat * along)
    dgamma = (dh * x_hat).sum(axis=(0, 1))
    return dx, dgamma


PARALLEL = Exercise(
    parallel_gradients,
    asks="Two branches behind one norm: what is added before its backward and what after.",
    outputs="dx dgamma",
    inputs={
        "dy": normal("B T D"),
        "da": normal("B T D"),
        "df": normal("B T D"),
        "x": X,
        "gamma": scales("D"),
    },
    stories="""
    - The feed-forward branch is missing: both branches are fed h, and both return a gradient for it.
          dh = da + df → dh = da
    - The attention branch is missing: both branches are fed h, and both return a gradient for it.
          dh = da + df → dh = df
    - The two branches are averaged. Gradients over several uses add.
          dh = da + df → dh = (da + df) / 2
    - What the branches return is multiplied. Gradients over several uses add.
          dh = da + df → dh = da * df
    - The connection is missing from dx.
          dx = dy + r * ( → dx = r * (
    - The connection is counted twice, once for each branch. There is one plus sign, with three terms.
          dx = dy + r * ( → dx = 2 * dy + r * (
    - The norm is missing: what the branches return belongs to h, and x lies in front of the norm.
          dx = dy + r * (g - x_hat * along) → dx = dy + dh
    - The norm is missing but for γ. It divides by the root of the mean square, which depends on x too.
          dx = dy + r * (g - x_hat * along) → dx = dy + g
    - The connection passes the norm. It leads around it.
          dh = da + df → dh = da + df + dy
          dx = dy + r * ( → dx = r * (
    - dy is sent through the norm as well, beside the connection. It has gone into the branches already.
          dh = da + df → dh = da + df + dy
    - The connection passes the norm in dx. It leads around it. dgamma is not touched by that.
          g = gamma * dh → g = gamma * (dh + dy)
          dx = dy + r * ( → dx = r * (
    - In dx dy is sent through the norm as well, beside the connection. It has gone into the branches already.
          g = gamma * dh → g = gamma * (dh + dy)
    - dgamma contains dy as well. What arrives at h is what the branches return; dy goes around the norm.
          dgamma = (dh * x_hat) → dgamma = ((dh + dy) * x_hat)
    - What the feed-forward layer returns does not pass the norm in dx. It belongs to h.
          g = gamma * dh → g = gamma * da
          dx = dy + r * ( → dx = dy + df + r * (
    - What attention returns does not pass the norm in dx. It belongs to h.
          g = gamma * dh → g = gamma * df
          dx = dy + r * ( → dx = dy + da + r * (
    - The forward and the backward are those of LayerNorm. RMSNorm takes no mean away.
          r = 1 / np.sqrt((x * x) → m = x - x.mean(axis=-1, keepdims=True); r = 1 / np.sqrt((m * m)
          x_hat = x * r → x_hat = m * r
          g - x_hat * along → g - g.mean(axis=-1, keepdims=True) - x_hat * along
    - dgamma is one number in all places, summed over the features as well. Each feature has its own γ.
          dgamma = (dh * x_hat).sum(axis=(0, 1)) → dgamma = (dh * x_hat).sum() + 0 * gamma
    - dy is counted three times. There is one plus sign, and one connection.
          dx = dy + r * ( → dx = 3 * dy + r * (
    - The connection hands on the mean of dy over the features. It hands on dy as it is.
          dx = dy + r * ( → dx = dy.mean(axis=-1, keepdims=True) + r * (
    - What came along the connection and what came through the norm are averaged. Gradients over several uses
      add.
          dx = dy + r * (g - x_hat * along) → dx = (dy + r * (g - x_hat * along)) / 2
    - dy and what the branches return are averaged. The branches' gradients add, and dy goes around the norm.
          dh = da + df → dh = (dy + da + df) / 3
    - In what is taken away stands dy. There belongs what arrives behind the root, γ dh.
          along = (g * x_hat) → along = (dy * x_hat)
    - γ stands in front of the bracket. It belongs to the gradient inside, also in what is taken away.
          g = gamma * dh → g = 1 * dh
          dx = dy + r * ( → dx = dy + gamma * r * (
    - γ is missing in what is taken away, and stands before the rest.
          along = (g * x_hat) → along = (dh * x_hat)
    - γ is missing in dx: h contains γ as a factor.
          g = gamma * dh → g = 1 * dh
    - Here dx divides by γ. On the way back it is a factor again.
          g = gamma * dh → g = dh / gamma
    - The root of the mean square was taken for a constant: it depends on x. What points along the token is
      to be taken away.
          r * (g - x_hat * along) → r * g
    - The mean of g is taken away, as LayerNorm does. RMSNorm takes away what points along the token.
          g - x_hat * along → g - g.mean(axis=-1, keepdims=True)
    - LayerNorm's backward, with both means. RMSNorm takes away only what points along the token.
          g - x_hat * along → g - g.mean(axis=-1, keepdims=True) - x_hat * along
    - The factor 1/root in front is missing in dx.
          dx = dy + r * (g → dx = dy + (g
    - What points along the token is a mean over its features. Here stands their sum.
          along = (g * x_hat).mean( → along = (g * x_hat).sum(
    - The mean runs over the tokens. A norm looks at one token at a time.
          along = (g * x_hat).mean(axis=-1 → along = (g * x_hat).mean(axis=1
    - The mean square runs over the tokens. A norm looks at one token at a time.
          (x * x).mean(axis=-1 → (x * x).mean(axis=1
    - x stands where the normalised token should, in what is taken away.
          g - x_hat * along → g - x * along
    - dgamma is taken with x. γ multiplies the normalised token.
          dgamma = (dh * x_hat) → dgamma = (dh * x)
    - dgamma contains γ: the derivative of h by γ is the normalised token alone.
          dgamma = (dh * x_hat) → dgamma = (g * x_hat)
    - dgamma is not multiplied by the normalised token. That would be the gradient of a shift β.
          dgamma = (dh * x_hat) → dgamma = dh
    - dgamma is taken with dy. What arrives at h is what the branches return.
          dgamma = (dh * x_hat) → dgamma = (dy * x_hat)
    - dgamma is a mean over all tokens. All share γ, and their gradients add.
          (dh * x_hat).sum(axis=(0, 1)) → (dh * x_hat).mean(axis=(0, 1))
    - dgamma is a mean over the batch. All sequences share γ, and their gradients add.
          (dh * x_hat).sum(axis=(0, 1)) → (dh * x_hat).sum(axis=1).mean(axis=0)
    - dgamma is not summed over the batch: all sequences share γ.
          .sum(axis=(0, 1)) → .sum(axis=1)
    - dgamma is not summed over the tokens: all share γ.
          .sum(axis=(0, 1)) → .sum(axis=0)
    - dgamma hears the attention branch only. γ feeds both.
          dgamma = (dh * x_hat) → dgamma = (da * x_hat)
    - dgamma hears the feed-forward branch only. γ feeds both.
          dgamma = (dh * x_hat) → dgamma = (df * x_hat)
    """,
    hints="""
    - How many lines use h, and how many use x?
    - Add what comes to h first, then pass the norm once, and then add what came along the connection.
    - RMSNorm backward: with r one over the root, x̂ = r x and g = γ dh, it is r (g - x̂ mean(g x̂)).
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def same_block_twice(dy, x, W):
    s = np.tanh(x @ W)
    u = x + s
    t = np.tanh(u @ W)
    dt = (1 - t * t) * dy
    du = dy + dt @ W.T
    ds = (1 - s * s) * du
    dx = du + ds @ W.T
    dW = np.einsum("btd,bte->de", u, dt) + np.einsum("btd,bte->de", x, ds)
    return dx, dW


TWICE = Exercise(
    same_block_twice,
    asks="One matrix used at two inputs, and the order of the backward.",
    outputs="dx dW",
    inputs={"dy": normal("B T D"), "x": X, "W": SQUARE},
    stories="""
    - dW holds the second use only. W is used in both rounds, and gradients add.
          + np.einsum("btd,bte->de", x, ds) →
    - dW holds the first use only. W is used in both rounds, and gradients add.
          np.einsum("btd,bte->de", u, dt) + np.einsum → np.einsum
    - dW is the mean of both uses. Gradients over several uses add.
          "btd,bte->de", u, dt) → "btd,bte->de", u, dt / 2)
          "btd,bte->de", x, ds) → "btd,bte->de", x, ds / 2)
    - dW is twice that of the second round. The rounds are fed different tokens.
          np.einsum("btd,bte->de", x, ds) → np.einsum("btd,bte->de", u, dt)
    - In dW the second round is given x. It is fed u.
          "btd,bte->de", u, dt → "btd,bte->de", x, dt
    - In dW the first round is given u. It is fed x.
          "btd,bte->de", x, ds → "btd,bte->de", u, ds
    - To the first round dy arrives here. What arrives there is du, which has come through the second round.
          ds = (1 - s * s) * du → ds = (1 - s * s) * dy
    - The connection of the second round is missing.
          du = dy + dt @ W.T → du = dt @ W.T
    - The connection of the first round is missing.
          dx = du + ds @ W.T → dx = ds @ W.T
    - Both connections are missing.
          du = dy + dt @ W.T → du = dt @ W.T
          dx = du + ds @ W.T → dx = ds @ W.T
    - The connection of the first round carries dy here. What arrives there is du.
          dx = du + ds @ W.T → dx = dy + ds @ W.T
    - The rounds are taken in the order of the forward. Backward the second round comes first.
          dt = (1 - t * t) * dy → ds = (1 - s * s) * dy
          du = dy + dt @ W.T → du = dy + ds @ W.T
          ds = (1 - s * s) * du → dt = (1 - t * t) * du
          dx = du + ds @ W.T → dx = du + dt @ W.T
    - In dW the two uses are multiplied. Gradients over several uses add.
          u, dt) + np.einsum → u, dt) * np.einsum
    - This is one round, counted twice. The second round is fed other tokens, and it comes back through both.
          dx = du + ds @ W.T → dx = 2 * (dy + ((1 - s * s) * dy) @ W.T)
          "btd,bte->de", u, dt) + np.einsum("btd,bte->de", x, ds) → "btd,bte->de", x, 2 * (1 - s * s) * dy)
    - dW is a mean over all tokens. They all use W, so their shares are added.
          "btd,bte->de", u, dt) → "btd,bte->de", u, dt) / dy[..., 0].size
          "btd,bte->de", x, ds) → "btd,bte->de", x, ds) / dy[..., 0].size
    - To the first round comes only what the branch of the second returns. Its connection brings dy as well.
          ds = (1 - s * s) * du → ds = (1 - s * s) * (du - dy)
    - dy is added once more at the end. It is in du already, along the second connection.
          dx = du + ds @ W.T → dx = dy + du + ds @ W.T
    - The branch of the second round is missing in what comes back.
          du = dy + dt @ W.T → du = 1 * dy
    - The branch of the first round is missing in what comes back.
          dx = du + ds @ W.T → dx = 1 * du
    - The slope of tanh is missing in both rounds.
          (1 - t * t) * dy → 1 * dy
          (1 - s * s) * du → 1 * du
    - The slope of tanh is missing in the second round.
          (1 - t * t) * dy → 1 * dy
    - The slope of tanh is missing in the first round.
          (1 - s * s) * du → 1 * du
    - In dW the slope of tanh is missing: dW takes what arrives before the tanh, at the product with W.
          "btd,bte->de", u, dt) → "btd,bte->de", u, dy)
          "btd,bte->de", x, ds) → "btd,bte->de", x, du)
    - The slopes are those of tanh at u and at x. What stands in the tanh is u W and x W.
          (1 - t * t) * dy → (1 - np.tanh(u) ** 2) * dy
          (1 - s * s) * du → (1 - np.tanh(x) ** 2) * du
    - The slope of tanh is 1 - tanh², and not the root of it.
          (1 - t * t) * dy → np.sqrt(1 - t * t) * dy
          (1 - s * s) * du → np.sqrt(1 - s * s) * du
    - The slope of tanh is taken at its result. What stands in the tanh is u W and x W.
          (1 - t * t) * dy → (1 - np.tanh(t) ** 2) * dy
          (1 - s * s) * du → (1 - np.tanh(s) ** 2) * du
    - In the slope 1 - tanh² stand u and x in place of the tanh.
          (1 - t * t) * dy → (1 - u * u) * dy
          (1 - s * s) * du → (1 - x * x) * du
    - tanh itself stands where its slope should, 1 - tanh².
          (1 - t * t) * dy → t * dy
          (1 - s * s) * du → s * du
    - The tanh is not squared: its slope is 1 - tanh².
          (1 - t * t) → (1 - t)
          (1 - s * s) → (1 - s)
    - Both rounds take the slope of the first. The second has its own tanh, of u W.
          (1 - t * t) → (1 - s * s)
    - The second round is fed tanh(x W) without the connection.
          u = x + s → u = 1 * s
    - The second round is fed x once more. It is fed what the first has made.
          t = np.tanh(u @ W) → t = np.tanh(x @ W)
          "btd,bte->de", u, dt → "btd,bte->de", x, dt
    - W is not transposed on the way back.
          dt @ W.T → dt @ W
          ds @ W.T → ds @ W
    - dW is transposed: W has a row for each feature that comes in.
          "btd,bte->de", u, dt → "btd,bte->de", dt, u
          "btd,bte->de", x, ds → "btd,bte->de", ds, x
    - dW is a mean over the sequences. They all use W, so their shares are added.
          "btd,bte->de", u, dt) → "btd,bte->de", u, dt) / len(x)
          "btd,bte->de", x, ds) → "btd,bte->de", x, ds) / len(x)
    - dW is not summed over the batch: all sequences share W.
          "btd,bte->de", u → "btd,bte->bde", u
          "btd,bte->de", x → "btd,bte->bde", x
    - This is one round, on x. The block is applied twice.
          dx = du + ds @ W.T → dx = dy + ((1 - s * s) * dy) @ W.T
          "btd,bte->de", u, dt) + np.einsum("btd,bte->de", x, ds) → "btd,bte->de", x, (1 - s * s) * dy)
    """,
    hints="""
    - Give the second round a matrix of its own, equal to W. What are the gradients of the two matrices?
    - Backward: the second round first. What it returns for u arrives at the first round.
    - dW is the sum of uᵀ dt and xᵀ ds, where ds = (1 - s²) du.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def sandwich_gradients(dy, x, W, b, gamma_in, gamma_out):
    r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True))
    x_hat = x * r
    h = gamma_in * x_hat
    o = h @ W + b
    q = 1 / np.sqrt((o * o).mean(axis=-1, keepdims=True))
    o_hat = o * q
    g = gamma_out * dy
    do = q * (g - o_hat * (g * o_hat).mean(axis=-1, keepdims=True))
    dW = np.einsum("btd,bte->de", h, do)
    a = gamma_in * (do @ W.T)
    dx = dy + r * (a - x_hat * (a * x_hat).mean(axis=-1, keepdims=True))
    return dx, dW


SANDWICH = Exercise(
    sandwich_gradients,
    asks="A backward composed of two norms, a linear layer and a skip, in the right order.",
    outputs="dx dW",
    inputs={
        "dy": normal("B T D"),
        "x": X,
        "W": SQUARE,
        "b": normal("D"),
        "gamma_in": scales("D"),
        "gamma_out": scales("D"),
    },
    stories="""
    - The connection is missing from dx.
          dx = dy + r * (a → dx = r * (a
    - The connection passes the outer norm. It leads around both norms.
          dx = dy + r * (a → dx = do + r * (a
    - The outer norm is missing on the way back: dy belongs to its output,
      and the product with W stands before it.
          do = q * (g - o_hat * (g * o_hat).mean(axis=-1, keepdims=True)) → do = 1 * dy
    - The inner norm is missing on the way back: what comes through W belongs to h, and x lies before
      the norm.
          r * (a - x_hat * (a * x_hat).mean(axis=-1, keepdims=True)) → do @ W.T
    - Both norms are missing on the way back.
          do = q * (g - o_hat * (g * o_hat).mean(axis=-1, keepdims=True)) → do = 1 * dy
          r * (a - x_hat * (a * x_hat).mean(axis=-1, keepdims=True)) → do @ W.T
    - The root of the outer norm was taken for a constant. It depends on o: what points along o is to be taken
      away.
          g - o_hat * (g * o_hat).mean(axis=-1, keepdims=True) → g
    - The root of the inner norm was taken for a constant. It depends on x: what points along the token is to
      be taken away.
          a - x_hat * (a * x_hat).mean(axis=-1, keepdims=True) → a
    - The roots of both norms were taken for constants. They depend on what is normalised.
          g - o_hat * (g * o_hat).mean(axis=-1, keepdims=True) → g
          a - x_hat * (a * x_hat).mean(axis=-1, keepdims=True) → a
    - The factor 1/root of the outer norm is missing.
          do = q * (g → do = 1 * (g
    - The factor 1/root of the inner norm is missing.
          dx = dy + r * (a → dx = dy + 1 * (a
    - The inner norm's backward is taken at h, what came out of it. It belongs at x, what went in.
          (do @ W.T) → (do @ W.T); r = (h * h).mean(axis=-1, keepdims=True) ** -0.5; x_hat = h * r
    - The outer norm's backward is taken at what came out of it. It belongs at o, what went in.
          o_hat = o * q → o = gamma_out * o * q; q = np.mean(o * o, -1, keepdims=True) ** -0.5; o_hat = o * q
    - The outer norm's backward is taken at x + o. The connection leads around it: it is fed o alone.
          o_hat = o * q → o = x + o; q = np.mean(o * o, -1, keepdims=True) ** -0.5; o_hat = o * q
    - dW is a mean over all tokens. They all use W, so their shares are added.
          "btd,bte->de", h, do) → "btd,bte->de", h, do) / dy[..., 0].size
    - The bias is added on the way back. A constant that is added has no part in the gradient of what it is
      added to.
          (do @ W.T) → (do @ W.T + b)
    - The connection passes the inner norm. It leads around both norms.
          a = gamma_in * (do @ W.T) → a = gamma_in * (dy + do @ W.T)
          dx = dy + r * (a → dx = r * (a
    - Here the backward divides by γ. On the way back γ is a factor again.
          g = gamma_out * dy → g = dy / gamma_out
          a = gamma_in * (do @ W.T) → a = (do @ W.T) / gamma_in
    - The norms divide by the standard deviation. RMSNorm divides by the root of the mean square.
          (x * x).mean(axis=-1 → ((x - x.mean(axis=-1, keepdims=True)) ** 2).mean(axis=-1
          (o * o).mean(axis=-1 → ((o - o.mean(axis=-1, keepdims=True)) ** 2).mean(axis=-1
    - Both γ stand in front of their brackets. They belong to the gradients inside, also in what is taken
      away.
          g = gamma_out * dy → g = 1 * dy
          do = q * (g → do = gamma_out * q * (g
          a = gamma_in * (do @ W.T) → a = 1 * (do @ W.T)
          dx = dy + r * (a → dx = dy + gamma_in * r * (a
    - The γ of the outer norm stands in front of the bracket. It belongs to dy inside, also in what is taken
      away.
          g = gamma_out * dy → g = 1 * dy
          do = q * (g → do = gamma_out * q * (g
    - The γ of the inner norm stands in front of the bracket. It belongs inside, also in what is taken away.
          a = gamma_in * (do @ W.T) → a = 1 * (do @ W.T)
          dx = dy + r * (a → dx = dy + gamma_in * r * (a
    - Both γ are missing in what the norms take away.
          (g * o_hat) → (dy * o_hat)
          (a * x_hat) → (do @ W.T * x_hat)
    - The γ of the outer norm is missing in what that norm takes away.
          (g * o_hat) → (dy * o_hat)
    - The γ of the inner norm is missing in what that norm takes away.
          (a * x_hat) → (do @ W.T * x_hat)
    - Both γ are missing on the way back.
          g = gamma_out * dy → g = 1 * dy
          a = gamma_in * (do @ W.T) → a = 1 * (do @ W.T)
    - The γ of the outer norm is missing on the way back.
          g = gamma_out * dy → g = 1 * dy
    - The γ of the inner norm is missing on the way back.
          a = gamma_in * (do @ W.T) → a = 1 * (do @ W.T)
    - The two γ are exchanged.
          h = gamma_in * x_hat → h = gamma_out * x_hat
          g = gamma_out * dy → g = gamma_in * dy
          a = gamma_in * (do → a = gamma_out * (do
    - The two γ are exchanged on the way back.
          g = gamma_out * dy → g = gamma_in * dy
          a = gamma_in * (do → a = gamma_out * (do
    - dW is taken with x. W multiplies h, the normalised token times γ.
          "btd,bte->de", h, do → "btd,bte->de", x, do
    - dW is taken with the normalised token without its γ.
          "btd,bte->de", h, do → "btd,bte->de", x_hat, do
    - dW is taken with dy. What arrives at the product with W has passed the outer norm.
          "btd,bte->de", h, do → "btd,bte->de", h, dy
    - dW is transposed: W has a row for each feature that comes in.
          "btd,bte->de", h, do → "btd,bte->de", do, h
    - W is not transposed on the way back.
          do @ W.T → do @ W
    - dW is a mean over the sequences. They all use W, so their shares are added.
          "btd,bte->de", h, do) → "btd,bte->de", h, do) / len(x)
    - dW is not summed over the batch: all sequences share W.
          "btd,bte->de", h → "btd,bte->bde", h
    - The bias is missing in the forward. What the outer norm has seen contains it.
          o = h @ W + b → o = h @ W
    - The outer norm looks at x. It stands behind W, and looks at what comes out of it.
          (o * o).mean( → (x * x).mean(
          o_hat = o * q → o_hat = x * q
    - LayerNorm's backward: the mean of the gradient is taken away as well. RMSNorm has no such step.
          g - o_hat → g - g.mean(axis=-1, keepdims=True) - o_hat
          a - x_hat → a - a.mean(axis=-1, keepdims=True) - x_hat
    - Sums stand where means should, in what the norms take away.
          (g * o_hat).mean( → (g * o_hat).sum(
          (a * x_hat).mean( → (a * x_hat).sum(
    - In the outer norm o stands where the normalised o should.
          g - o_hat * (g * o_hat) → g - o * (g * o)
    - In the inner norm x stands where the normalised token should.
          a - x_hat * (a * x_hat) → a - x * (a * x)
    - The norms' means run over the tokens. A norm looks at one token at a time.
          (g * o_hat).mean(axis=-1 → (g * o_hat).mean(axis=1
          (a * x_hat).mean(axis=-1 → (a * x_hat).mean(axis=1
    """,
    hints="""
    - Write the forward in five lines and read them bottom-up. Where does the connection leave?
    - RMSNorm backward: with r one over the root, x̂ = r x and g = γ dy, it is r (g - x̂ mean(g x̂)). You need
      it twice, at two places.
    - First the outer norm gives do, then W, then the inner norm; dy is added at the very end.
    """,
)
